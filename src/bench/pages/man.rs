// SPDX-License-Identifier: GPL-3.0-or-later
//! Makes one manual page: what clap knows of a command, and what its reader wants to know besides.

use clap::{Arg, ArgAction, Command};
use roff::{Inline, Roff, bold, italic, roman};

use super::examples;

/// Footer of each page, also of phalanx.toml(5).
pub const SOURCE: &str = concat!("Phalanx ", env!("CARGO_PKG_VERSION"));
/// Header of each page.
pub const MANUAL: &str = "Phalanx Manual";

/// Words of a command, and the text that says what each field of its output means.
const OUTPUTS: &[(&str, &str)] = &[
    ("status", include_str!("output/status.txt")),
    ("explain", include_str!("output/explain.txt")),
    ("plan", include_str!("output/plan.txt")),
    ("nodes", include_str!("output/nodes.txt")),
    ("history runs", include_str!("output/history-runs.txt")),
    ("history speeds", include_str!("output/history-speeds.txt")),
    ("report", include_str!("output/report.txt")),
    ("report audit", include_str!("output/report-audit.txt")),
    ("report shadow", include_str!("output/report-shadow.txt")),
    ("report compare", include_str!("output/report-compare.txt")),
    ("doctor", include_str!("output/doctor.txt")),
];

/// Pages that a reader may want next, besides phalanx(1): words of a command, names with section.
const SEE_ALSO: &[(&str, &str)] = &[
    ("", "phalanx-status(1) phalanx-explain(1) phalanx-plan(1) phalanx.toml(5) phalanxd(8)"),
    ("status", "phalanx-explain(1) phalanx-plan(1) phalanx-nodes(1) phalanx.toml(5)"),
    ("explain", "phalanx-plan(1) phalanx-status(1) squeue(1) scontrol(1)"),
    ("plan", "phalanx-explain(1) phalanx-simulate(1) phalanx.toml(5)"),
    ("nodes", "phalanx-plan(1) phalanx-history-speeds(1) sinfo(1)"),
    ("history runs", "phalanx-history-speeds(1) phalanx-report(1) sacct(1)"),
    ("history speeds", "phalanx-history-runs(1) phalanx-explain(1)"),
    ("report", "phalanx-report-shadow(1) phalanx-report-compare(1) phalanx-simulate(1) sacct(1)"),
    ("report audit", "phalanx-explain(1) phalanx-report(1) sacct(1)"),
    ("report shadow", "phalanx-report(1) phalanx-plan(1) phalanx-simulate(1) phalanx.toml(5)"),
    ("share", "phalanx-data-splits(1) phalanx-collector-list(1) srun(1)"),
    ("phalanxd", "phalanx-doctor(1) phalanx.toml(5) slurm.conf(5)"),
    ("phalanx-gate", "phalanxd(8) phalanx.toml(5)"),
];

/// The page of a command, as troff; `words` name the command below `phalanx`.
pub fn page(command: &Command, section: &str, words: &str) -> String {
    let mut shown = command.clone();
    if shown.find_subcommand("help").is_some() {
        shown = shown.mut_subcommand("help", |help| help.hide(true));
    }
    let clap = clap_mangen::Man::new(shown).section(section).source(SOURCE).manual(MANUAL);
    // Writing into memory does not fail.
    let mut bytes = Vec::new();
    let _ = clap.render_title(&mut bytes).and_then(|()| clap.render_name_section(&mut bytes));
    bytes.extend(synopsis(command).to_roff().into_bytes());
    let _ = clap.render_description_section(&mut bytes);
    bytes.extend(output(words).into_bytes());
    let _ = clap.render_options_section(&mut bytes);
    if command.has_subcommands() {
        let _ = clap.render_subcommands_section(&mut bytes);
    }
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    for text in [paragraphs(&after), examples::section(words), see_also(words)] {
        bytes.extend(text.into_bytes());
    }
    titled(&String::from_utf8_lossy(&bytes))
}

/// A page whose title has an empty date, which the crate that writes it does not quote.
pub fn titled(page: &str) -> String {
    page.replacen(&format!("  \"{SOURCE}\""), &format!(" \"\" \"{SOURCE}\""), 1)
}

/// The line of use: own options with their values, arguments, then what every command takes.
fn synopsis(command: &Command) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["SYNOPSIS"]);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = vec![bold(name)];
    let is_shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_help_heading().is_none();
    for arg in command.get_arguments().filter(is_shown) {
        let known = matches!(arg.get_id().as_str(), "help" | "version");
        if !known && !arg.is_positional() {
            option(&mut line, arg);
        }
    }
    if command.has_subcommands() {
        let required = command.is_subcommand_required_set();
        line.push(italic(if required { " COMMAND" } else { " [COMMAND]" }));
    }
    line.push(roman(" [global options]"));
    for arg in command.get_positionals().filter(|arg| !arg.is_hide_set()) {
        let required = arg.is_required_set();
        line.push(roman(if required { " " } else { " [" }));
        line.push(italic(value(arg)));
        line.push(roman(if required { "" } else { "]" }));
    }
    page.text(line);
    page
}

/// Adds an option in the form ` [--since TIME]`.
fn option(line: &mut Vec<Inline>, arg: &Arg) {
    let required = arg.is_required_set();
    line.push(roman(if required { " " } else { " [" }));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    line.push(bold([short, long].into_iter().flatten().collect::<Vec<_>>().join("|")));
    if matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        line.push(roman(" "));
        line.push(italic(value(arg)));
    }
    line.push(roman(if required { "" } else { "]" }));
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    if names.is_empty() { arg.get_id().to_string().to_uppercase() } else { names.join(" ") }
}

/// The section OUTPUT: paragraphs, `== heading` and rows `Field: what it means`, which go on in
/// lines that are indented.
pub(super) fn output(words: &str) -> String {
    let Some((_, text)) = OUTPUTS.iter().find(|(of, _)| *of == words) else {
        return String::new();
    };
    let mut page = Roff::new();
    page.control("SH", ["OUTPUT"]);
    let joined = text.replace("\n  ", " ");
    for line in joined.lines() {
        match (line.strip_prefix("== "), line.strip_prefix("- ").and_then(|l| l.split_once(": "))) {
            (Some(head), _) => page.control("SS", [head]),
            (_, Some((field, meaning))) => {
                page.control("TP", []);
                page.text([bold(field)]);
                page.text([roman(meaning)])
            }
            _ if line.is_empty() => page.control("PP", []),
            _ => page.text([roman(line)]),
        };
    }
    page.to_roff()
}

/// Formats the sections at the end of a help text: a head with a colon, and rows of a word and its
/// meaning.
fn paragraphs(text: &str) -> String {
    let mut page = Roff::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let row = line.strip_prefix("  ").and_then(|row| row.split_once("  "));
        match (line.strip_suffix(':'), row) {
            (Some(head), None) => page.control("SH", [head.to_uppercase().as_str()]),
            (_, Some((word, meaning))) => {
                page.control("TP", []);
                page.text([bold(word)]);
                page.text([roman(meaning.trim())])
            }
            _ => page.text([roman(line.trim())]),
        };
    }
    page.to_roff()
}

fn see_also(words: &str) -> String {
    let own = SEE_ALSO.iter().find(|(of, _)| *of == words).map_or("", |(_, names)| *names);
    let own = if own.is_empty() { "phalanx.toml(5)" } else { own };
    let all = std::iter::once("phalanx(1)").filter(|_| !words.is_empty());
    let mut line = Vec::new();
    for name in all.chain(own.split(' ')) {
        let (name, section) = name.split_at(name.find('(').unwrap_or(name.len()));
        line.push(roman(if line.is_empty() { "" } else { ", " }));
        line.extend([bold(name), roman(section)]);
    }
    let mut page = Roff::new();
    page.control("SH", ["SEE ALSO"]);
    page.text(line);
    page.to_roff()
}
