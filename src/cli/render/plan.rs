// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx plan`

use super::units::{millis, time};
use super::{Left, Right, clean, clean_or_dash, heading, lines, table};
use crate::api::types::PlanReport;

/// The whole report.
pub fn text(report: &PlanReport) -> String {
    let mut out = String::new();
    heading(
        &mut out,
        &format!(
            "Plan of {} from snapshot {}, made in {}: {} jobs, {} not planned",
            time(report.time_ms),
            report.epoch,
            millis(report.took_ms),
            report.jobs.len(),
            report.not_planned
        ),
    );
    if report.jobs.is_empty() {
        return out;
    }
    out.push('\n');
    let mut rows = table(&[
        ("Order", Right),
        ("Job", Right),
        ("Method", Left),
        ("Rank", Right),
        ("Delta", Right),
        ("Nodes now", Left),
        ("Waits for", Left),
    ]);
    for (index, job) in report.jobs.iter().enumerate() {
        rows.add_row([
            (index + 1).to_string(),
            job.job_id.to_string(),
            clean(&job.method),
            job.rank.map_or_else(|| "-".to_owned(), |rank| (rank + 1).to_string()),
            if job.delta == 0 { "-".to_owned() } else { format!("{:+}", job.delta) },
            clean(&job.nodes),
            clean_or_dash(job.reason.as_deref()),
        ]);
    }
    out.push_str(&lines(&rows));
    out
}
