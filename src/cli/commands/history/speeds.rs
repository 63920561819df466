// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx history speeds`.

use crate::text::units::{fraction, seconds_fine, time};
use crate::text::{Left, Right, clean, facts, heading, lines, table};
use phalanx_service::api::types::{ClassSpeeds, SpeedRow, SpeedsReport};

/// The whole report.
pub fn text(report: &SpeedsReport) -> String {
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
