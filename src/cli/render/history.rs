// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history`

use super::units::{amount, count, fraction, seconds_fine, time};
use super::{Left, Right, clean, facts, heading, lines, table};
use phalanx_service::api::types::{ClassSpeeds, RunsReport, SpeedRow, SpeedsReport};

/// Runs, newest first.
pub fn runs(report: &RunsReport) -> String {
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

/// What was learned.
pub fn speeds(report: &SpeedsReport) -> String {
    let mut out = String::new();
    heading(&mut out, "Learned speeds");
    facts(
        &mut out,
        &[
            ("Round", format!("{} (delta {})", report.round, fraction(report.delta))),
            ("Job classes", report.classes.len().to_string()),
            ("Pairs of job class and node", report.pairs.to_string()),
        ],
    );
    for class in &report.classes {
        one(&mut out, class);
    }
    if report.classes.is_empty() {
        out.push_str("  nothing was learned yet: no job has completed\n");
    }
    out
}

fn one(out: &mut String, class: &ClassSpeeds) {
    heading(out, &format!("Job class {}", clean(&class.class)));
    facts(
        out,
        &[
            ("Runs", class.runs.to_string()),
            (
                "Seconds of a run",
                format!("{} +- {}", seconds_fine(class.seconds), seconds_fine(class.deviation_s)),
            ),
            ("Newest ended", time(u64::try_from(class.newest_s).unwrap_or(0) * 1000)),
        ],
    );
    for (name, list) in [("Node class", &class.node_classes), ("Node", &class.nodes)] {
        if !list.is_empty() {
            out.push_str(&rows(name, &class.unit, list));
        }
    }
}

fn rows(name: &str, unit: &str, list: &[SpeedRow]) -> String {
    let unit = format!("Speed [{unit}]");
    let mut rows = table(&[
        (name, Left),
        ("Runs", Right),
        ("Weight", Right),
        ("Seconds", Right),
        (&unit, Right),
        ("Believed", Right),
        ("Bonus", Right),
        ("Index", Right),
    ]);
    for row in list {
        rows.add_row([
            clean(&row.name),
            row.runs.to_string(),
            format!("{:.1}", row.count),
            seconds_fine(row.seconds),
            fraction(row.mean),
            fraction(row.speed),
            fraction(row.bonus),
            fraction(row.index),
        ]);
    }
    lines(&rows)
}
