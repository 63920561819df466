// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the pages and scripts that packages contain.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{examples, run};

/// A directory with all pages and scripts.
fn made() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    run(&dir.path().join("new/dir")).unwrap();
    dir
}

fn read(dir: &tempfile::TempDir, path: &str) -> String {
    std::fs::read_to_string(dir.path().join("new/dir").join(path)).unwrap()
}

/// The commands that users see and that do something by themselves, each with its words.
fn listed(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    let shown = |inner: &&clap::Command| !inner.is_hide_set() && inner.get_name() != "help";
    for inner in command.get_subcommands().filter(shown) {
        let words = format!("{words} {}", inner.get_name()).trim().to_owned();
        listed(inner, &words, found);
        if !inner.is_subcommand_required_set() {
            found.push((words, inner.clone()));
        }
    }
}

fn all() -> Vec<(String, clap::Command)> {
    let mut command = phalanx_cli::command();
    command.build();
    let mut found = Vec::new();
    listed(&command, "", &mut found);
    found
}

#[test]
fn every_command_has_a_manual_page_and_completion() {
    let dir = made();
    let scripts =
        ["bash/phalanx.bash", "zsh/_phalanx", "fish/phalanx.fish"].map(|path| read(&dir, path));
    for (name, command) in all() {
        let page = read(&dir, &format!("man/man1/phalanx-{}.1", name.replace(' ', "-")));
        for option in command.get_arguments().filter_map(|option| option.get_long()) {
            // Roff writes a minus sign as `\-`.
            let written = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&written), "{name}: --{option} is not in its page");
            for script in &scripts {
                assert!(script.contains(option), "{name}: --{option} is not completed");
            }
        }
        for section in ["SYNOPSIS", "\"EXIT STATUS\"", "EXAMPLES", "\"SEE ALSO\""] {
            assert!(page.contains(&format!(".SH {section}")), "{name}: {section}: {page}");
        }
        assert!(!page.contains(".SH EXTRA") && !page.contains("\\-help(1)"), "{name}");
        assert!(page.contains(" 1 \"\" \"Phalanx "), "{name} has no footer: {page}");
        let last = name.rsplit(' ').next().unwrap();
        assert!(scripts.iter().all(|script| script.contains(last)), "{name} is not completed");
    }
    let share = read(&dir, "man/man1/phalanx-share.1");
    for text in ["\\-\\-input", "\\-\\-worker", ".SH EXAMPLES", "phalanxd does not answer"] {
        assert!(share.contains(text), "{text}: {share}");
    }
    for script in ["bash/phalanx-share.bash", "zsh/_phalanx-share", "fish/phalanx-share.fish"] {
        assert!(read(&dir, script).contains("item-timeout"), "{script}");
    }
}

/// Goal: pages name only pages that exist, or other programs'.
#[test]
fn pages_name_pages_that_are_there() {
    let dir = made();
    let known: BTreeSet<&str> =
        ["squeue", "scontrol", "sinfo", "sacct", "srun", "slurm.conf"].into();
    for section in ["man1", "man5", "man8"] {
        for page in std::fs::read_dir(dir.path().join("new/dir/man").join(section)).unwrap() {
            let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
            let (_, line) = text.split_once(".SH \"SEE ALSO\"\n").unwrap();
            for named in
                line.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-").split(", ")
            {
                let (name, number) = named.trim().split_once('(').unwrap();
                let number = number.trim_end_matches(')');
                let path = format!("new/dir/man/man{number}/{name}.{number}");
                assert!(
                    known.contains(name) || dir.path().join(&path).is_file(),
                    "{named}: {path}"
                );
            }
        }
    }
}

/// Outputs of the command line's own tests, and the words of their commands.
const SHOWN: &[(&str, &str)] = &[
    ("status", include_str!("../../cli/commands/status/snapshots/status.txt")),
    ("explain", include_str!("../../cli/commands/explain/snapshots/pending.txt")),
    ("explain", include_str!("../../cli/commands/explain/snapshots/placed.txt")),
    ("plan", include_str!("../../cli/commands/plan/snapshots/plan.txt")),
    ("nodes", include_str!("../../cli/commands/nodes/snapshots/nodes.txt")),
    ("nodes", include_str!("../../cli/commands/nodes/snapshots/topology.txt")),
    ("report", include_str!("../../cli/commands/report/snapshots/report.txt")),
    ("report audit", include_str!("../../cli/commands/report/audit/snapshots/audit.txt")),
    ("report shadow", include_str!("../../cli/commands/report/shadow/snapshots/shadow.txt")),
];

/// Goal: a page explains every fact and every column that its command shows.
#[test]
fn every_field_of_an_output_is_explained() {
    // Terms of the score, and resources: they are as many as there are.
    let any = ["dispersion", "packing", "gres/gpu", "mem [MiB]"];
    let mut seen = 0;
    for (words, shown) in SHOWN {
        let page = super::man::output(words).replace("\\-", "-");
        let lines: Vec<&str> = shown.lines().collect();
        let mut in_table = false;
        for (at, line) in lines.iter().enumerate() {
            let is_head = lines.get(at + 1).is_some_and(|next| next.starts_with("-----"));
            in_table = is_head || (in_table && !line.is_empty());
            let fact = line.strip_prefix("  ").filter(|l| !in_table && !l.starts_with(' '));
            let head = Some(*line).filter(|_| is_head);
            let labels = head.into_iter().flat_map(|line| line.split("  "));
            let labels = labels.chain(fact.and_then(|line| Some(line.split_once("  ")?.0)));
            for label in labels.map(|label| label.trim_start_matches(['=', '+', '-', ' ']).trim()) {
                let known = any.contains(&label) || page.contains(label);
                assert!(known, "{words}: {label:?} is not explained: {page}");
                seen += 1;
            }
        }
    }
    assert!(seen > 80, "{seen} labels");
}

/// Goal: clap takes the options of every example, and no command is without one.
#[test]
fn every_example_is_a_command_line() {
    for (words, _) in all() {
        let examples = examples::of(&words);
        assert!(!examples.is_empty(), "{words} has no example");
        for (_, line) in examples {
            let own = line.split('|').find(|part| part.trim().starts_with("phalanx")).unwrap();
            let parsed = phalanx_cli::command()
                .try_get_matches_from(own.replace('\'', "").split_whitespace());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            let begin = format!("phalanx {words}");
            assert!(own.trim().starts_with(&begin), "{line} is no example of {words}");
        }
    }
}

/// Goal: the script completes in a real bash, with stand-ins for squeue and sinfo, and without.
#[test]
fn bash_completes_jobs_and_nodes() {
    let dir = made();
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, prints) in [("squeue", "41 413_7 '28_[1-6]' 42"), ("sinfo", "gpu2 gpu1 gpu1 c1")] {
        let text = format!("#!/bin/sh\nprintf '%s\\n' {prints}\n");
        std::fs::write(bin.join(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bin.join(name), mode).unwrap();
    }
    let complete = |words: &[&str], bin: &Path| {
        let text = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; \
             _phalanx_names phalanx \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            dir.path().join("new/dir/bash/phalanx.bash").display(),
            words.join(" "),
            words.len() - 1
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &text]).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let output = bash.output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete(&["phalanx", "explain", "41"], &bin), "41 413_7");
    assert_eq!(complete(&["phalanx", "explain", "28"], &bin), "28_[1-6]");
    assert_eq!(complete(&["phalanx", "--json", "explain", "42"], &bin), "42");
    assert_eq!(complete(&["phalanx", "history", "speeds", "--node", "gpu"], &bin), "gpu1 gpu2");
    assert_eq!(complete(&["phalanx", "expl"], &bin), "explain", "clap's own");
}
