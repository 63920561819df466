// SPDX-License-Identifier: GPL-3.0-or-later
//! Text for people from the daemon's reports: pure functions, one file for
//! each report. Nothing is coloured or cut, so that text reads the same on a
//! terminal, in a pipe and in a mail.

pub mod bags;
pub mod collectors;
pub mod doctor;
pub mod explain;
pub mod history;
pub mod nodes;
pub mod plan;
pub mod record;
pub mod reload;
pub mod shadow;
pub mod simulate;
pub mod status;
mod steer;
#[cfg(test)]
mod tests;
mod units;
pub mod whatif;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}
pub(crate) use Side::{Left, Right};

/// A table with these columns.
pub(crate) fn table<S: AsRef<str>>(columns: &[(S, Side)]) -> Table {
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
pub(crate) fn lines(table: &Table) -> String {
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Text from elsewhere without control characters, which could steer a
/// terminal; `-` where there is none.
pub(crate) fn clean(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The same for optional text.
fn clean_or_dash(text: Option<&str>) -> String {
    clean(text.unwrap_or(""))
}

/// A heading with a line below it.
fn heading(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
    out.push('\n');
}

/// Names and values, aligned.
fn facts(out: &mut String, facts: &[(&str, String)]) {
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
