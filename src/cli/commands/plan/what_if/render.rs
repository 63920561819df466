// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx plan --config`.

use std::fmt::Write as _;

use crate::text::units::many;
use crate::text::{clean, heading, table_of};
use phalanx_config::KWH;
use phalanx_sim::nodes::LeafFigures;
use phalanx_sim::whatif::{Side, WhatIf};

/// Name and value of a row; `None` where neither side has the figure.
type Row = (&'static str, fn(&Side) -> Option<String>);

const ROWS: [Row; 17] = [
    ("Pending jobs that start", |s| Some(s.starts.to_string())),
    ("Mean time to their start [s]", |s| Some(format!("{:.0}", s.wait_mean_s))),
    ("Longest [s]", |s| Some(s.wait_max_s.to_string())),
    ("New jobs that start", |s| s.new_wait_mean_s.map(|_| s.new_starts.to_string())),
    ("Mean time from their submission [s]", |s| s.new_wait_mean_s.map(|s| format!("{s:.0}"))),
    ("CPUs in use [%]", |s| percent(s.utilization.cpu)),
    ("Memory in use [%]", |s| percent(s.utilization.mem)),
    ("GPUs in use [%]", |s| percent(s.utilization.gpu)),
    ("GPUs free but unusable [%]", |s| s.gpu_fragmented_pct.map(|p| format!("{p:.2}"))),
    ("CPUs stranded [%]", |s| s.stranded.get("cpu").map(|p| format!("{p:.2}"))),
    ("GPUs stranded [%]", |s| s.stranded.get("gpu").map(|p| format!("{p:.2}"))),
    ("Extra leaves of jobs of several nodes", |s| leaf(s, |l| l.extra_leaves_mean)),
    ("Such jobs on the fewest leaves [%]", |s| leaf(s, |l| l.fewest_leaves_pct)),
    ("Whole leaves idle", |s| leaf(s, |l| l.whole_leaves_mean)),
    ("Largest job that could start [nodes]", |s| leaf(s, |l| l.largest_at_once_mean)),
    ("Jobs refused for their leaves", |s| Some(s.topology.as_ref()?.refused_jobs.to_string())),
    ("Energy [kWh]", |s| s.energy_j.map(|j| format!("{:.1}", j / KWH))),
];

fn leaf(side: &Side, figure: fn(&LeafFigures) -> Option<f64>) -> Option<String> {
    side.topology.as_ref().and_then(figure).map(|value| format!("{value:.2}"))
}

fn percent(share: Option<f64>) -> Option<String> {
    share.map(|share| format!("{:.1}", share * 100.0))
}

pub fn text(report: &WhatIf) -> String {
    let mut out = String::new();
    heading(
        &mut out,
        &format!(
            "The next {} h: {} running, {} waiting, {} left out",
            report.hours,
            many(report.running as u64, "job"),
            report.pending,
            report.skipped
        ),
    );
    let new = &report.arrivals;
    out.push_str(&match &new.none {
        Some(why) => format!("Nobody new arrives: {}.\n\n", clean(why)),
        None => format!(
            "New: {}, by {} in {} h, of job classes: {} ({}).\n\n",
            many(new.jobs as u64, "job"),
            many(new.runs as u64, "run"),
            new.hours,
            new.classes,
            match new.rates_by.as_str() {
                "none" => "one rate for all hours".to_owned(),
                by => format!("rates by hour of the {by}"),
            }
        ),
    });
    let figures =
        ROWS.iter().filter_map(|(name, of)| Some((*name, of(&report.today)?, of(&report.then)?)));
    table_of(figures)
        .left("Figure", |(name, ..)| *name)
        .right("Today", |(_, today, _)| today.clone())
        .right("Then", |(.., then)| then.clone())
        .add_to(&mut out);
    if let Some(why) = &report.no_energy {
        let _ = writeln!(out, "Energy is left out: {}.", clean(why));
    }
    heading(
        &mut out,
        &format!("{} earlier, {} later", many(report.earlier as u64, "start"), report.later),
    );
    if report.changes.is_empty() {
        return out;
    }
    let seconds = |wait: Option<i64>| wait.map_or("not started".to_owned(), |s| s.to_string());
    table_of(&report.changes)
        .left("Job", |change| change.job.clone())
        .left("User", |change| change.user.clone())
        .right("Today in [s]", |change| seconds(change.today_s))
        .right("Then in [s]", |change| seconds(change.then_s))
        .add_to(&mut out);
    out
}
