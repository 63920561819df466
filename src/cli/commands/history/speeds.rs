// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx history speeds`.

use crate::text::units::{fraction, seconds_fine, time};
use crate::text::{clean, facts, heading, table_of};
use phalanx_messages::rest::{ClassSpeeds, SpeedRow, SpeedsReport};

/// The whole report.
pub fn text(report: &SpeedsReport) -> String {
    let mut out = String::new();
    heading(&mut out, "Learned speeds");
    out.push_str(&facts(&[
        ("Round", format!("{} (delta {})", report.round, fraction(report.delta))),
        ("Job classes", report.classes.len().to_string()),
        ("Pairs of job class and node", report.pairs.to_string()),
    ]));
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
    out.push_str(&facts(&[
        ("Runs", class.runs.to_string()),
        (
            "Seconds of a run",
            format!("{} +- {}", seconds_fine(class.seconds), seconds_fine(class.deviation_s)),
        ),
        ("Newest ended", time(u64::try_from(class.newest_s).unwrap_or(0) * 1000)),
    ]));
    for (name, list) in [("Node class", &class.node_classes), ("Node", &class.nodes)] {
        if !list.is_empty() {
            out.push_str(&rows(name, &class.unit, list));
        }
    }
}

fn rows(name: &str, unit: &str, list: &[SpeedRow]) -> String {
    table_of(list)
        .left(name, |row| row.name.clone())
        .right("Runs", |row| row.runs)
        .right("Weight", |row| format!("{:.1}", row.count))
        .right("Seconds", |row| seconds_fine(row.seconds))
        .right(format!("Speed [{unit}]"), |row| fraction(row.mean))
        .right("Believed", |row| fraction(row.speed))
        .right("Bonus", |row| fraction(row.bonus))
        .right("Index", |row| fraction(row.index))
        .text()
}
