// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx history runs`.

use crate::text::units::{amount, count, seconds_fine, time};
use crate::text::{Left, Right, clean, heading, lines, table};
use phalanx_service::api::types::RunsReport;

/// Runs, newest first.
pub fn text(report: &RunsReport) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("Runs that ended since {}", time(report.since_ms)));
    if report.runs.is_empty() {
        out.push_str("  none\n");
        return out;
    }
    let mut rows = table(&[
        ("Ended", Left),
        ("Job", Left),
        ("Class", Left),
        ("Nodes", Left),
        ("State", Left),
        ("Elapsed [s]", Right),
        ("Work", Right),
        ("Energy [J]", Right),
        ("Placed by", Left),
    ]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), amount);
    for run in &report.runs {
        rows.add_row([
            time(u64::try_from(run.end_s).unwrap_or(0).saturating_mul(1000)),
            clean(&run.job),
            clean(&run.class),
            clean(&run.nodes),
            clean(&run.state),
            seconds_fine(count(run.elapsed_ms) / 1000.0),
            number(run.work),
            number(run.joules),
            clean(&run.placed_by),
        ]);
    }
    out.push_str(&lines(&rows));
    out
}
