// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history speeds`.

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{fraction, seconds_fine, time};
use crate::text::{clean, facts, heading, table_of};
use phalanx_core::text::percent_encode;
use phalanx_messages::rest::{ClassSpeeds, SpeedRow, SpeedsReport};

/// Show how fast job classes run on which nodes
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this job class
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Only this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let given = [("class", &self.class), ("node", &self.node)];
        let given = given.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let query: Vec<String> =
            given.map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        global.report(&format!("/v1/history/speeds?{}", query.join("&")), text)
    }
}

fn text(report: &SpeedsReport) -> String {
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
