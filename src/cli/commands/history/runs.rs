// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx history runs`.

use crate::text::units::{amount, count, seconds_fine, time};
use crate::text::{heading, table_of};
use phalanx_messages::rest::RunsReport;

/// The runs, newest first.
pub fn text(report: &RunsReport) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("Runs that ended since {}", time(report.since_ms)));
    if report.runs.is_empty() {
        out.push_str("  none\n");
        return out;
    }
    let ended = |end_s: i64| time(u64::try_from(end_s).unwrap_or(0).saturating_mul(1000));
    table_of(&report.runs)
        .left("Ended", |run| ended(run.end_s))
        .left("Job", |run| run.job.clone())
        .left("Class", |run| run.class.clone())
        .left("Nodes", |run| run.nodes.clone())
        .left("State", |run| run.state.clone())
        .right("Elapsed [s]", |run| seconds_fine(count(run.elapsed_ms) / 1000.0))
        .right("Work", |run| run.work.map(amount).unwrap_or_default())
        .right("Energy [J]", |run| run.joules.map(amount).unwrap_or_default())
        .left("Placed by", |run| run.placed_by.clone())
        .add_to(&mut out);
    out
}
