// SPDX-License-Identifier: GPL-3.0-or-later
//! The report of `phalanx drill`, and its text.

use serde::Serialize;

use crate::text::units::many;
use crate::text::{clean, heading, table_of, wrapped};

/// Most columns of a table.
const COLUMNS: usize = 80;

/// Cost of one failure.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    /// Row of README's table; empty: before any failure.
    pub(super) failure: &'static str,
    pub(super) done: &'static str,
    pub(super) commands: u32,
    /// Longest command, milliseconds.
    pub(super) longest_ms: f64,
    /// Questions of the overlay, those without an answer in time, and the time that these took.
    pub(super) asks: u64,
    pub(super) in_vain: u64,
    pub(super) in_vain_ms: f64,
    /// Longest time of the overlay's own part of one call, milliseconds.
    pub(super) call_ms: f64,
    /// Seconds from the end of the failure until the former state was back.
    pub(super) back_s: Option<f64>,
    /// Promises that did not hold.
    pub(super) wrong: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) held: bool,
    pub(super) rows: Vec<Row>,
    pub(super) not_tried: Vec<(&'static str, String)>,
}

pub fn text(report: &Report) -> String {
    let mut out = wrapped(&sentence(report), "");
    out.push('\n');
    let back = |row: &&Row| row.back_s.map_or_else(String::new, |back_s| format!("{back_s:.1}"));
    let table = table_of(&report.rows)
        .left("phalanxd", |row| row.done)
        .right("Longest [ms]", |row| format!("{:.0}", row.longest_ms))
        .right("Asks", |row| row.asks)
        .right("In vain", |row| row.in_vain)
        .right("Lost [ms]", |row| format!("{:.1}", row.in_vain_ms))
        .right("Worst [ms]", |row| format!("{:.1}", row.call_ms))
        .right("Back [s]", back);
    out += &table.within(COLUMNS);
    for row in &report.rows {
        for wrong in &row.wrong {
            out += &wrapped(&format!("{}: NOT HELD: {}.", row.done, clean(wrong)), "");
        }
    }
    out.push_str(
        "\nLongest: of sinfo and sbatch --test-only. In vain: asks that Slurm answered.\n\
         Lost: time that slurmctld waited for these. Worst: own time of one call.\n\
         Back: from the end of the failure until all was as before.\n",
    );
    heading(&mut out, "Not tried:");
    for (what, why) in &report.not_tried {
        out += &wrapped(&format!("{what}: {}", clean(why)), "  ");
    }
    out
}

fn sentence(report: &Report) -> String {
    let commands = report.rows.iter().map(|row| row.commands).sum::<u32>();
    let longest = report.rows.iter().map(|row| row.longest_ms).fold(0.0, f64::max);
    let failures = many(report.rows.len().saturating_sub(1) as u64, "failure");
    let broken = report.rows.iter().filter(|row| !row.wrong.is_empty()).count();
    match broken {
        0 => format!(
            "slurmctld answered all {commands} commands during {failures} of phalanxd, the slowest \
             in {longest:.0} ms, and all is as before."
        ),
        _ => format!("NOT HELD: {broken} of {failures} of phalanxd; see below the table."),
    }
}
