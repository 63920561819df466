// SPDX-License-Identifier: GPL-3.0-or-later
//! Text for people: tables, facts, headings. Nothing is coloured or cut, so
//! that text reads the same on a terminal, in a pipe and in a mail.

pub mod preference;
#[cfg(test)]
pub mod tests;
pub mod units;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

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
        for (index, of) in self.columns.iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((0, 2));
                column.set_cell_alignment(of.side);
            }
        }
        for row in &self.rows {
            table.add_row(self.columns.iter().map(|column| clean(&(column.cell)(row))));
        }
        table.lines().fold(String::new(), |out, line| out + line.trim_end() + "\n")
    }

    /// Adds the table to a text.
    pub fn add_to(self, out: &mut String) {
        out.push_str(&self.text());
    }
}

/// What opened the plugin's breaker, in words.
pub fn breaker_cause(cause: &str) -> String {
    match cause {
        "late" => "answers that came too late or not at all".to_owned(),
        "refused" => "nodes that Slurm refused".to_owned(),
        "syncs" => "whole states that had to be sent".to_owned(),
        "held" => "jobs held back".to_owned(),
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

/// A heading with a line below it.
pub fn heading(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
    out.push('\n');
}

/// Columns of a terminal that every text fits into, names of users aside.
pub const WIDTH: usize = 100;

/// Lines of at most so many characters, broken at blanks; a longer word stays whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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
    for (name, value) in facts {
        let mut rest = value.lines();
        let first = rest.next().unwrap_or("");
        out.push_str(format!("  {name:<width$}  {first}").trim_end());
        out.push('\n');
        for line in rest {
            out.push_str(&format!("  {:width$}  {line}\n", ""));
        }
    }
    out
}
