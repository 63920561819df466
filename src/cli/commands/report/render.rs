// SPDX-License-Identifier: GPL-3.0-or-later
//! The report of `phalanx report`, and its text.

use std::fmt::Write as _;

use serde::Serialize;

use super::facts::{self, simulated_about};
use super::simulated::{SHOWN, Simulated};
use crate::commands::simulate::figures_text;
use crate::text::units::time;
use crate::text::{clean, facts as fact_lines, heading, table_of, wrapped};
use phalanx_messages::rest::{ActivityReport, RunSums};
use phalanx_sim::metrics::span;

/// Note below the table of methods.
pub const NOT_COMPARED: &str = "Who chooses depends on the job, so these rows do not compare the \
                                methods.";

/// The whole report, as `--json` prints it.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Activity; absent where phalanxd did not report it.
    pub activity: Option<ActivityReport>,
    /// Reason why `activity` is absent.
    pub no_activity: Option<String>,
    /// Simulation of the accounting; absent without `--sacct`.
    pub simulated: Option<Simulated>,
}

pub fn text(report: &Report) -> String {
    let mut out = String::new();
    if let Some(activity) = &report.activity {
        happened(&mut out, activity);
    }
    if let Some(simulated) = &report.simulated {
        would(&mut out, simulated);
    }
    out
}

pub fn period(report: &ActivityReport) -> String {
    let of = &report.activity;
    let recorded = match of.first_ms {
        Some(first) if first > of.since_ms.saturating_add(3_600_000) => {
            format!("; recorded since {}", time(first))
        }
        _ => String::new(),
    };
    format!("{} to {}{recorded}", time(of.since_ms), time(of.until_ms))
}

fn happened(out: &mut String, report: &ActivityReport) {
    out.push_str(&wrapped(&facts::sentence(report), ""));
    let cluster = clean(&report.cluster);
    out.push_str(&wrapped(&format!("Cluster {cluster}, {}", period(report)), ""));
    out.push('\n');
    out.push_str(&fact_lines(&facts::facts(report)));
    if report.activity.runs.is_empty() {
        return;
    }
    heading(out, "By who chose the nodes");
    by_method(&report.activity.runs.iter().collect::<Vec<_>>()).add_to(out);
    let _ = writeln!(out, "{NOT_COMPARED}");
}

pub fn by_method<'a>(
    rows: &'a [(&'a String, &'a RunSums)],
) -> crate::text::Columns<'a, &'a (&'a String, &'a RunSums)> {
    let wait = |seconds: Option<i64>| {
        #[allow(clippy::cast_precision_loss)]
        seconds.map_or_else(|| "-".to_owned(), |s| span(s as f64))
    };
    table_of(rows)
        // Of a run that began before phalanxd nobody knows.
        .left("Chosen by", |(method, _)| match method.as_str() {
            "" => "unknown".to_owned(),
            known => known.to_owned(),
        })
        .right("Jobs", |(_, of)| of.runs)
        .right("CPU hours", |(_, of)| of.cpu_hours.map_or("-".to_owned(), |h| format!("{h:.1}")))
        .right("Mean wait", |(_, of)| of.wait_mean_s.map_or("-".to_owned(), span))
        .right("Median", move |(_, of)| wait(of.wait_p50_s))
        .right("95 %", move |(_, of)| wait(of.wait_p95_s))
        .right("Longest", move |(_, of)| wait(of.wait_max_s))
}

fn would(out: &mut String, of: &Simulated) {
    heading(out, "What it would have done");
    out.push_str(&wrapped(&simulated_about(of), "  "));
    out.push('\n');
    out.push_str(&figures_text(&of.columns(), &SHOWN));
    let left_out = facts::left_out(of);
    if !left_out.is_empty() {
        heading(out, "Left out:");
        left_out.iter().for_each(|what| out.push_str(&wrapped(what, "  ")));
    }
    let unmodelled = facts::unmodelled(of);
    if !unmodelled.is_empty() {
        heading(out, "Not modelled, with the number of jobs that it concerns:");
        unmodelled.iter().for_each(|what| out.push_str(&wrapped(what, "  ")));
    }
    out.push('\n');
    out.push_str(&wrapped(&of.judged.sentence, ""));
}
