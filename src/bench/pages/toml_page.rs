// SPDX-License-Identifier: GPL-3.0-or-later
//! The manual page phalanx.toml(5), from the annotated file, which says what each key means, and
//! the table of keys, which says which values it may have.

use roff::{Inline, Roff, bold, italic, roman};

use super::man::{MANUAL, SOURCE, titled};
use phalanx_config::keys::{Key, Kind, keys};

/// The annotated file, which tests compare with the defaults.
const ANNOTATED: &str = include_str!("../../../config/examples/phalanx.toml");

/// A piece of the annotated file.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// Heading of a section, `[name]`.
    Section(&'a str),
    /// Comment lines, without their marks.
    Text(Vec<&'a str>),
    /// A setting `name = value` of the section that was named last.
    Setting(&'a str, &'a str),
}

/// The page as troff.
pub fn page() -> String {
    let mut page = Roff::new();
    page.control("TH", ["phalanx.toml", "5", "", SOURCE, MANUAL]);
    page.control("SH", ["NAME"]);
    page.text([roman("phalanx.toml - configuration of phalanxd")]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([roman("/etc/phalanx/phalanx.toml")]);
    page.control("SH", ["DESCRIPTION"]);
    body(&mut page, &pieces(ANNOTATED));
    page.control("SH", ["SEE ALSO"]);
    let pages = [bold("phalanx"), roman("(1), "), bold("phalanxd"), roman("(8), ")];
    page.text(pages.into_iter().chain([bold("slurm.conf"), roman("(5)")]).collect::<Vec<_>>());
    titled(&page.to_roff())
}

/// Appends the settings; text before a section or setting belongs to it.
fn body(page: &mut Roff, pieces: &[Piece<'_>]) {
    let mut section = "";
    for (index, piece) in pieces.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| pieces.get(index));
        match piece {
            Piece::Section(name) => {
                section = name;
                page.control("SS", [format!("[{name}]").as_str()]);
                if let Some(Piece::Text(lines)) = before {
                    paragraphs(page, lines, "PP");
                }
            }
            Piece::Setting(name, value) => {
                let path = if section.is_empty() {
                    (*name).to_owned()
                } else {
                    format!("{section}.{name}")
                };
                page.control("TP", []);
                page.text(heading(name, value, keys().find(|key| key.path == path)));
                if let Some(Piece::Text(lines)) = before {
                    paragraphs(page, lines, "IP");
                }
            }
            Piece::Text(lines) => {
                // That of a setting or section comes after its heading.
                if matches!(pieces.get(index + 1), None | Some(Piece::Text(_))) {
                    page.control("PP", []);
                    paragraphs(page, lines, "PP");
                }
            }
        }
    }
}

/// Formats `deadline_us = 2000 (100 to 20000 microseconds)`.
fn heading(name: &str, value: &str, key: Option<&Key>) -> Vec<Inline> {
    let mut out = vec![bold(name), roman(" = "), italic(value)];
    if let Some(key) = key {
        let mut notes = Vec::new();
        let kind = kind(key.kind);
        if !kind.is_empty() {
            notes.push(kind);
        }
        if key.needs_restart {
            notes.push("takes effect at the next start".to_owned());
        }
        if !notes.is_empty() {
            out.push(roman(format!("   ({})", notes.join("; "))));
        }
    }
    out
}

/// Describes the values that are allowed.
fn kind(kind: Kind) -> String {
    match kind {
        Kind::Choice(words) => words.join(", "),
        Kind::Choices(words) => format!("list of {}", words.join(", ")),
        Kind::Int { min, max, unit } => format!("{min} to {max} {unit}").trim_end().to_owned(),
        Kind::Real { min, max } => format!("{min} to {max}"),
        Kind::Bool => "true or false".to_owned(),
        Kind::File | Kind::Socket => "absolute path".to_owned(),
        Kind::Uids => "list of user ids".to_owned(),
        Kind::Listen => "empty, or ADDRESS:PORT".to_owned(),
        Kind::MaybeFile => "empty, or an absolute path".to_owned(),
        Kind::Dirs => "list of absolute paths".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Texts => "list of texts".to_owned(),
        Kind::Datum(words) => format!("name of a datum, {}", words.join(", ")),
        Kind::Weights => "table of numbers by resource".to_owned(),
        Kind::Registration => "table".to_owned(),
        Kind::Amounts => "table of numbers by name".to_owned(),
        Kind::DayPrices => "24 prices, or a table of them by hours".to_owned(),
    }
}

/// Appends paragraphs; indented lines keep their breaks.
fn paragraphs(page: &mut Roff, lines: &[&str], macro_name: &str) {
    let mut filled = true;
    for line in lines {
        if line.is_empty() {
            page.control(macro_name, []);
            continue;
        }
        let indented = line.starts_with(' ');
        if indented == filled {
            page.control(if indented { "nf" } else { "fi" }, []);
            filled = !indented;
        }
        page.text([roman(*line)]);
    }
    if !filled {
        page.control("fi", []);
    }
}

/// Cuts the file into pieces, without the licence line and headings of examples.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('#') {
            let rest = rest.strip_prefix(' ').unwrap_or(rest);
            if !rest.starts_with("SPDX") {
                comment.push(rest);
            }
            continue;
        }
        if !comment.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut comment)));
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            out.push(Piece::Section(name.trim_start_matches('[')));
        } else if let Some((name, value)) = line.split_once('=') {
            out.push(Piece::Setting(name.trim(), value.trim()));
        }
    }
    if !comment.is_empty() {
        out.push(Piece::Text(comment));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_page() {
        let pieces = pieces(ANNOTATED);
        let mut section = "";
        let mut found = Vec::new();
        for piece in &pieces {
            match piece {
                Piece::Section(name) => section = name,
                Piece::Setting(name, _) if section.is_empty() => found.push((*name).to_owned()),
                Piece::Setting(name, _) => found.push(format!("{section}.{name}")),
                Piece::Text(_) => {}
            }
        }
        for key in keys().filter(|key| !key.path.contains('*')) {
            assert!(found.iter().any(|path| path == key.path), "{} is not in the page", key.path);
        }
        let page = page();
        assert!(page.contains("100 to 20000 microseconds"), "ranges come from the table");
        assert!(page.contains("Longest wait of the plugin"), "texts come from the file");
        assert!(!page.contains("SPDX"));
    }

    #[test]
    fn pieces_of_a_file() {
        let text = "# SPDX-x\n# About.\n\n[a]\n# One.\n#   fixed\nk = 1\n# End.\n";
        let expected = [
            Piece::Text(vec!["About."]),
            Piece::Section("a"),
            Piece::Text(vec!["One.", "  fixed"]),
            Piece::Setting("k", "1"),
            Piece::Text(vec!["End."]),
        ];
        assert_eq!(pieces(text), expected);
    }
}
