// SPDX-License-Identifier: GPL-3.0-or-later
//! Text for people: tables, facts, headings. Nothing is coloured or cut, so
//! that text reads the same on a terminal, in a pipe and in a mail; what is longer than a line
//! goes on below.

pub mod preference;
#[cfg(test)]
pub mod tests;
pub mod units;

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};

/// A cell that stays empty; an empty text is shown as `-`.
pub const BLANK: &str = " ";

/// A table that is made column by column.
pub struct Columns<'a, T> {
    rows: Vec<T>,
    columns: Vec<Column<'a, T>>,
}

struct Column<'a, T> {
    head: String,
    side: CellAlignment,
    cell: Box<dyn Fn(&T) -> String + 'a>,
}

/// A table with one line for each of these.
pub fn table_of<'a, T>(rows: impl IntoIterator<Item = T>) -> Columns<'a, T> {
    Columns { rows: rows.into_iter().collect(), columns: Vec::new() }
}

impl<'a, T> Columns<'a, T> {
    /// Adds a column of texts.
    pub fn left<S: ToString>(self, head: impl ToString, cell: impl Fn(&T) -> S + 'a) -> Self {
        self.column(head.to_string(), CellAlignment::Left, move |row| cell(row).to_string())
    }

    /// Adds a column of numbers.
    pub fn right<S: ToString>(self, head: impl ToString, cell: impl Fn(&T) -> S + 'a) -> Self {
        self.column(head.to_string(), CellAlignment::Right, move |row| cell(row).to_string())
    }

    fn column(
        mut self,
        head: String,
        side: CellAlignment,
        cell: impl Fn(&T) -> String + 'a,
    ) -> Self {
        self.columns.push(Column { head, side, cell: Box::new(cell) });
        self
    }

    /// Leaves out the columns without a value in any row.
    pub fn without_empty_columns(mut self) -> Self {
        let Self { rows, columns } = &mut self;
        columns.retain(|column| rows.iter().any(|row| !(column.cell)(row).is_empty()));
        self
    }

    /// The table, with a line below its heads and no blanks at the ends of lines.
    pub fn text(self) -> String {
        let line = LineStyle::none().fill('-').junction('-');
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(line));
        table.set_header(self.columns.iter().map(|column| Cell::new(clean(&column.head))));
        let mut widths: Vec<Widths> =
            self.columns.iter().map(|column| Widths::of_head(&column.head)).collect();
        for row in &self.rows {
            let cells: Vec<String> =
                self.columns.iter().map(|column| clean(&(column.cell)(row))).collect();
            widths.iter_mut().zip(&cells).for_each(|(width, cell)| width.add(cell));
            table.add_row(cells);
        }
        // The line below the heads has the blanks of the last column too.
        let too_wide = widths.iter().map(|width| width.whole + usize::from(GAP) + 1).sum::<usize>()
            > WIDTH + 1;
        for (index, (of, width)) in self.columns.iter().zip(&widths).enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((0, GAP));
                column.set_cell_alignment(of.side);
                if too_wide {
                    column.set_constraint(ColumnConstraint::LowerBoundary(width.least(of.side)));
                }
            }
        }
        if too_wide {
            let width = u16::try_from(WIDTH).unwrap_or(u16::MAX);
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.lines().fold(String::new(), |out, line| out + line.trim_end() + "\n")
    }

    /// Adds the table to a text.
    pub fn add_to(self, out: &mut String) {
        out.push_str(&self.text());
    }
}

/// Blanks between two columns, the one of the line between them aside.
const GAP: u16 = 2;
/// Least width of a column of texts, in characters.
const TEXT_LEAST: usize = 8;
/// Least width that a word of a heading may be broken to, in characters.
const HEAD_LEAST: usize = 16;

/// Widths of a column, in characters.
#[derive(Default)]
struct Widths {
    /// Width at which nothing is broken.
    whole: usize,
    /// Width of the longest word of the heading.
    head_word: usize,
    /// Width of the widest cell.
    cell: usize,
}

impl Widths {
    fn of_head(head: &str) -> Self {
        let word = head.split_whitespace().map(|word| word.chars().count()).max();
        Self { whole: head.chars().count(), head_word: word.unwrap_or(0), cell: 0 }
    }

    fn add(&mut self, cell: &str) {
        let width = cell.chars().count();
        self.cell = self.cell.max(width);
        self.whole = self.whole.max(width);
    }

    /// Returns the least width: numbers are never broken, texts are.
    fn least(&self, side: CellAlignment) -> Width {
        let cell = match side {
            CellAlignment::Right => self.cell,
            _ => self.cell.min(TEXT_LEAST),
        };
        let head = self.head_word.min(HEAD_LEAST);
        Width::Fixed(u16::try_from(head.max(cell)).unwrap_or(u16::MAX).saturating_add(GAP))
    }
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

/// Text from elsewhere without control characters, which could change the
/// terminal; `-` where there is none.
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

/// Columns of a terminal that every text fits into, names of users aside.
pub const WIDTH: usize = 100;

/// Lines of at most so many characters, broken at blanks, a longer word anywhere.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let width = width.max(1);
    for word in text.split_whitespace().flat_map(|word| pieces(word, width)) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// A word in pieces of at most so many characters.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    letters.chunks(width).map(|piece| piece.iter().collect()).collect()
}

/// A paragraph within [`WIDTH`], each line behind an indent.
pub fn wrapped(text: &str, indent: &str) -> String {
    let lines = wrap(text, WIDTH - indent.chars().count());
    lines.iter().fold(String::new(), |out, line| out + indent + line + "\n")
}

/// Names and values, aligned.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let room = WIDTH.saturating_sub(width + 4).max(TEXT_LEAST);
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
