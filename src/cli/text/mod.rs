// SPDX-License-Identifier: GPL-3.0-or-later
//! Text for people: tables, facts, headings. Nothing is coloured or cut, so
//! that text reads the same on a terminal, in a pipe and in a mail; what is longer than a line
//! goes on below.

pub mod preference;
#[cfg(test)]
pub mod tests;
pub mod units;

use std::io::IsTerminal;
use std::sync::OnceLock;

use phalanx_core::number::as_f64;

/// A cell that stays empty; an empty text is shown as `-`.
pub const BLANK: &str = " ";

/// A table that is made column by column.
pub struct Columns<'a, T> {
    rows: Vec<T>,
    columns: Vec<Column<'a, T>>,
}

struct Column<'a, T> {
    head: String,
    is_number: bool,
    cell: Box<dyn Fn(&T) -> String + 'a>,
}

/// A table with one line for each of `rows`.
pub fn table_of<'a, T>(rows: impl IntoIterator<Item = T>) -> Columns<'a, T> {
    Columns { rows: rows.into_iter().collect(), columns: Vec::new() }
}

impl<'a, T> Columns<'a, T> {
    /// Adds a column of texts.
    pub fn left<S: ToString>(self, head: impl ToString, cell: impl Fn(&T) -> S + 'a) -> Self {
        self.column(head.to_string(), false, move |row| cell(row).to_string())
    }

    /// Adds a column of numbers.
    pub fn right<S: ToString>(self, head: impl ToString, cell: impl Fn(&T) -> S + 'a) -> Self {
        self.column(head.to_string(), true, move |row| cell(row).to_string())
    }

    fn column(mut self, head: String, is_number: bool, cell: impl Fn(&T) -> String + 'a) -> Self {
        self.columns.push(Column { head, is_number, cell: Box::new(cell) });
        self
    }

    /// Leaves out the columns without a value in any row.
    pub fn without_empty_columns(mut self) -> Self {
        let Self { rows, columns } = &mut self;
        columns.retain(|column| rows.iter().any(|row| !(column.cell)(row).is_empty()));
        self
    }

    /// The table as text, with a line below its heads and no blanks at the ends of lines.
    pub fn text(self) -> String {
        self.within(width())
    }

    /// Formats the table in lines of at most `room` characters, if its numbers fit: wider cells are
    /// broken, first between words, then anywhere.
    pub(super) fn within(self, room: usize) -> String {
        let heads: Vec<String> = self.columns.iter().map(|column| clean(&column.head)).collect();
        let cells = |row: &T| self.columns.iter().map(|of| clean(&(of.cell)(row))).collect();
        let rows: Vec<Vec<String>> =
            std::iter::once(heads).chain(self.rows.iter().map(cells)).collect();
        let of =
            |at: usize| rows.iter().enumerate().filter_map(move |(y, r)| Some((y, r.get(at)?)));
        let longest = |text: &str| parts(text).iter().map(|part| part.chars().count()).max();
        let mut columns: Vec<Widths> = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let whole = of(at).map(|(_, text)| text.chars().count()).max().unwrap_or(0);
            // Numbers are never broken; the words of a heading are, from some length on.
            let words = of(at).map(|(y, text)| match column.is_number && y > 0 {
                true => text.chars().count(),
                false => longest(text).unwrap_or(0),
            });
            let words = words.max().unwrap_or(0);
            let head = of(at).next().and_then(|(_, head)| longest(head)).unwrap_or(0);
            let number = of(at).skip(1).map(|(_, text)| text.chars().count()).max().unwrap_or(0);
            let least = if column.is_number { number } else { TEXT_LEAST.min(words) };
            let least = least.max(head.min(HEAD_LEAST));
            columns.push(Widths { is_number: column.is_number, now: whole, words, least });
        }
        let gaps = |gap: usize| gap * columns.len().saturating_sub(1) + 2;
        let whole: usize = columns.iter().map(|column| column.now).sum();
        let gap = if whole + gaps(GAP) <= room { GAP } else { GAP - 1 };
        let left = room.saturating_sub(gaps(gap));
        shrink(&mut columns, left, |column| column.words);
        shrink(&mut columns, left, |column| column.least);
        let mut out = String::new();
        for (y, row) in rows.iter().enumerate() {
            line(&mut out, row, &columns, gap);
            if y == 0 {
                let all: usize = columns.iter().map(|column| column.now).sum();
                out.push_str(&"-".repeat(all + gap * columns.len().saturating_sub(1) + 2));
                out.push('\n');
            }
        }
        out
    }

    /// Adds the table to a text.
    pub fn add_to(self, out: &mut String) {
        out.push_str(&self.text());
    }
}

/// Blanks between two columns where there is room.
const GAP: usize = 3;
/// Least width of a column of texts, in characters.
const TEXT_LEAST: usize = 8;
/// Least width that a word of a heading may be broken to, in characters.
const HEAD_LEAST: usize = 16;

/// Widths of a column in characters: its own, and the least that keep words, or anything.
struct Widths {
    is_number: bool,
    now: usize,
    words: usize,
    least: usize,
}

/// Narrows the widest columns, down to their bounds, until all fit into `room`.
fn shrink(columns: &mut [Widths], room: usize, bound: impl Fn(&Widths) -> usize) {
    while columns.iter().map(|column| column.now).sum::<usize>() > room {
        let wide = columns.iter_mut().filter(|column| column.now > bound(column));
        let Some(widest) = wide.max_by_key(|column| column.now) else { return };
        widest.now -= 1;
    }
}

/// Appends the cells of a row, numbers to the right, in as many lines as the longest cell takes.
fn line(out: &mut String, cells: &[String], columns: &[Widths], gap: usize) {
    let cells: Vec<Vec<String>> = cells
        .iter()
        .zip(columns)
        .map(|(cell, column)| match cell.chars().count() > column.now {
            true => wrap(cell, column.now),
            false => vec![cell.clone()],
        })
        .collect();
    for y in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
        let mut text = String::new();
        for (cell, column) in cells.iter().zip(columns) {
            let (piece, width) = (cell.get(y).map_or("", String::as_str), column.now);
            text += &match column.is_number {
                true => format!("{piece:>width$}"),
                false => format!("{piece:<width$}"),
            };
            text.push_str(&" ".repeat(gap));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// Sums up the comparisons with Slurm's own decisions, with a bound where none was worse.
pub fn compared([agreed, better, worse]: [u64; 3]) -> Option<String> {
    let all = agreed + better + worse;
    let bound = 100.0 * (1.0 - 0.05_f64.powf(1.0 / as_f64(all.max(1))));
    let bound = if worse == 0 { format!(" (95 %: under {bound:.2} %)") } else { String::new() };
    let text = format!("{all} with Slurm's own: {worse} worse{bound}, {better} better");
    (all > 0).then_some(text)
}

/// Describes the cause for which the plugin's breaker opened.
pub fn breaker_cause(cause: &str) -> String {
    match cause {
        "late" => "answers that came too late or not at all".to_owned(),
        "refused" => "nodes that Slurm refused".to_owned(),
        "syncs" => "whole states that had to be sent".to_owned(),
        "held" => "jobs held back".to_owned(),
        "refuted" => "proofs that Slurm refuted".to_owned(),
        other => format!("`{}`", clean(other)),
    }
}

/// Removes control characters, which could change the terminal, from a text of others; `-` where
/// nothing is left.
pub fn clean(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Optional text, cleaned; `-` for none.
pub fn clean_or_dash(text: Option<&str>) -> String {
    clean(text.unwrap_or(""))
}

/// A heading, after an empty line.
pub fn heading(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&wrapped(text, ""));
}

/// Most columns that a text takes, names of users aside.
pub const WIDTH: usize = 100;
/// Fewest columns that a text is fitted into.
const WIDTH_LEAST: usize = 60;

/// Width of texts in columns: that of the terminal, or `COLUMNS`, within bounds.
pub fn width() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let shown = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
        let given = || std::env::var("COLUMNS").ok()?.parse().ok();
        let found = shown.map(|(width, _)| usize::from(width.0)).or_else(given);
        found.unwrap_or(WIDTH).clamp(WIDTH_LEAST, WIDTH)
    })
}

/// Breaks a text into lines of at most `width` characters, at blanks; a longer word behind a comma,
/// slash or plus sign, or anywhere.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let width = width.max(1);
    for word in text.split_whitespace() {
        let mut joint = " ";
        for part in pieces(word, width) {
            let room = width.saturating_sub(joint.len());
            match lines.last_mut() {
                Some(line) if line.chars().count() + part.chars().count() <= room => {
                    line.push_str(joint);
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
            joint = "";
        }
    }
    lines
}

/// The parts of a text that stay whole where there is room for them.
fn parts(text: &str) -> Vec<&str> {
    let words = text.split_whitespace();
    words.flat_map(|word| word.split_inclusive([',', '/', '+'])).collect()
}

/// Breaks a word into pieces of at most `width` characters.
fn pieces(word: &str, width: usize) -> Vec<String> {
    if word.chars().count() <= width {
        return vec![word.to_owned()];
    }
    let cut = |part: &str| {
        let letters: Vec<char> = part.chars().collect();
        letters.chunks(width).map(|piece| piece.iter().collect()).collect::<Vec<String>>()
    };
    parts(word).into_iter().flat_map(cut).collect()
}

/// Formats a paragraph, each line behind an indent.
pub fn wrapped(text: &str, indent: &str) -> String {
    let lines = wrap(text, width() - indent.chars().count());
    lines.iter().fold(String::new(), |out, line| out + indent + line + "\n")
}

/// Formats names and values, aligned.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let room = self::width().saturating_sub(width + 4).max(TEXT_LEAST);
    for (name, value) in facts {
        let lines = value.lines().flat_map(|line| match line.chars().count() > room {
            true => wrap(line, room),
            false => vec![line.to_owned()],
        });
        let mut name = *name;
        for line in lines.chain(value.is_empty().then(String::new)) {
            out.push_str(format!("  {name:<width$}  {line}").trim_end());
            out.push('\n');
            name = "";
        }
    }
    out
}
