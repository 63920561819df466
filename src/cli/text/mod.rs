// SPDX-License-Identifier: GPL-3.0-or-later
//! Text for people: tables, facts, headings. Nothing is coloured or cut, so
//! that text reads the same on a terminal, in a pipe and in a mail.

pub mod preference;
#[cfg(test)]
pub mod tests;
pub mod units;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}
pub use Side::{Left, Right};

/// A table with these columns.
pub fn table<S: AsRef<str>>(columns: &[(S, Side)]) -> Table {
    let line = LineStyle::none().fill('-').junction('-');
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(line));
    table.set_header(columns.iter().map(|(name, _)| Cell::new(clean(name.as_ref()))));
    for (index, (_, side)) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match side {
                Side::Left => CellAlignment::Left,
                Side::Right => CellAlignment::Right,
            });
        }
    }
    table
}

/// The table's lines without blanks at their ends.
pub fn lines(table: &Table) -> String {
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Text from elsewhere without control characters, which could steer a
/// terminal; `-` where there is none.
pub fn clean(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The same for optional text.
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

/// Names and values, aligned.
pub fn facts(out: &mut String, facts: &[(&str, String)]) {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in facts {
        let mut rest = value.lines();
        let first = rest.next().unwrap_or("");
        out.push_str(format!("  {name:<width$}  {first}").trim_end());
        out.push('\n');
        for line in rest {
            out.push_str(&format!("  {:width$}  {line}\n", ""));
        }
    }
}
