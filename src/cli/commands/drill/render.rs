// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx drill`.

use super::{Report, Row};
use crate::text::units::many;
use crate::text::{clean, heading, table_of, wrapped};

/// Most columns of a table.
const COLUMNS: usize = 80;

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
