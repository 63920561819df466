// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx report`.

use std::fmt::Write as _;
use std::path::Path;

use super::Report;
use super::facts::{self, simulated_about, simulated_sentence, span};
use super::simulated::Simulated;
use crate::text::units::time;
use crate::text::{clean, facts as fact_lines, heading, table_of, wrapped};
use phalanx_messages::rest::{ActivityReport, RunSums};
use phalanx_sim::metrics::Figures;

/// Note below the table of methods.
pub const NOT_COMPARED: &str = "Who chooses depends on the job, so these rows do not compare the \
                                methods.";

pub fn text(report: &Report, page: Option<&Path>) -> String {
    let mut out = String::new();
    match (&report.activity, &report.no_activity) {
        (Some(activity), _) => happened(&mut out, activity),
        (None, Some(why)) => {
            out.push_str("What Phalanx did is unknown.\n");
            out.push_str(&wrapped(&clean(why), "  "));
        }
        (None, None) => {}
    }
    if let Some(simulated) = &report.simulated {
        would(&mut out, simulated);
    }
    if let Some(page) = page {
        let _ = writeln!(out, "\nWith plots: {}", clean(&page.display().to_string()));
    }
    out
}

/// The period in words.
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

/// Appends a row for each method.
pub fn by_method<'a>(
    rows: &'a [(&'a String, &'a RunSums)],
) -> crate::text::Columns<'a, &'a (&'a String, &'a RunSums)> {
    let wait = |seconds: Option<i64>| {
        #[allow(clippy::cast_precision_loss)]
        seconds.map_or_else(|| "-".to_owned(), |s| span(s as f64))
    };
    table_of(rows)
        .left("Chosen by", |(method, _)| (*method).clone())
        .right("Jobs", |(_, of)| of.runs)
        .right("CPU hours", |(_, of)| of.cpu_hours.map_or("-".to_owned(), |h| format!("{h:.1}")))
        .right("Mean wait", |(_, of)| of.wait_mean_s.map_or("-".to_owned(), span))
        .right("Half within", move |(_, of)| wait(of.wait_p50_s))
        .right("95 % within", move |(_, of)| wait(of.wait_p95_s))
        .right("Longest", move |(_, of)| wait(of.wait_max_s))
}

fn would(out: &mut String, of: &Simulated) {
    heading(out, "What it would have done");
    out.push_str(&wrapped(&simulated_sentence(of), "  "));
    out.push_str(&wrapped(&simulated_about(of), "  "));
    out.push('\n');
    table_of(rows(of))
        .left("Figure", |(name, ..)| *name)
        .right("Slurm alone", |(_, stock, _)| stock.clone())
        .right("With Phalanx", |(.., ours)| ours.clone())
        .add_to(out);
}

/// Name of a figure, and its format.
type Row = (&'static str, fn(&Figures) -> Option<String>);

const ROWS: [Row; 9] = [
    ("Mean wait", |f| f.wait_mean_s.map(span)),
    ("95 % wait at most", |f| f.wait_p95_s.map(whole)),
    ("Longest wait", |f| f.wait_max_s.map(whole)),
    ("Mean bounded slowdown", |f| f.bounded_slowdown_mean.map(|s| format!("{s:.2}"))),
    ("Makespan", |f| f.makespan_s.map(whole)),
    ("CPUs in use [%]", |f| f.utilization.cpu.map(|u| format!("{:.1}", u * 100.0))),
    ("GPUs in use [%]", |f| f.utilization.gpu.map(|u| format!("{:.1}", u * 100.0))),
    ("GPUs stranded [%]", |f| f.stranded.get("gpu").map(|p| format!("{p:.2}"))),
    ("Energy [kWh]", |f| f.energy_j.map(|j| format!("{:.1}", j / 3.6e6))),
];

#[allow(clippy::cast_precision_loss)]
fn whole(seconds: i64) -> String {
    span(seconds as f64)
}

fn rows(of: &Simulated) -> Vec<(&'static str, String, String)> {
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let both = ROWS.iter().map(|(name, read)| (*name, read(&of.slurm), read(&of.phalanx)));
    let some = both.filter(|(_, stock, ours)| stock.is_some() || ours.is_some());
    some.map(|(name, stock, ours)| (name, known(stock), known(ours))).collect()
}
