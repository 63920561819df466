// SPDX-License-Identifier: GPL-3.0-or-later
//! The report as one HTML page, drawn in the style of the simulator's report.

use std::fmt::Write as _;

use super::facts::{self, simulated_about};
use super::render::{NOT_COMPARED, Report, by_method, period};
use super::simulated::Simulation;
use phalanx_core::number::as_f64;
use phalanx_messages::rest::{ActivityReport, Point, Share};
use phalanx_sim::report::svg::{Axis, Line, chart, escape};
use phalanx_sim::report::{document, section};

/// Height of a plot, in pixels.
const HEIGHT: f64 = 260.0;
const DAY_MS: f64 = 86_400_000.0;

pub fn text(report: &Report, simulation: Option<&Simulation>) -> String {
    let mut body = String::new();
    let (title, about) = match &report.activity {
        Some(activity) => {
            happened(&mut body, activity);
            (format!("Phalanx on {}", activity.cluster), period(activity))
        }
        _ => ("Phalanx".to_owned(), "By the accounting alone, without phalanxd".to_owned()),
    };
    if let Some(simulation) = simulation {
        let of = &simulation.summary;
        let words = [&of.judged.sentence, &simulated_about(of)].map(|text| escape(text));
        let mut lead = format!("<p><b>{}</b></p><p>{}</p>", words[0], words[1]);
        let lists = [("Left out", facts::left_out(of)), ("Not modelled", facts::unmodelled(of))];
        for (head, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
            let item = |what: &String| format!("<li>{}</li>", escape(what));
            let items: String = items.iter().map(item).collect();
            let _ = write!(lead, "<p>{head}:</p><ul>{items}</ul>");
        }
        section(&mut body, "What it would have done", &(lead + &simulation.html()));
    }
    document(&title, &about, &body)
}

fn happened(body: &mut String, report: &ActivityReport) {
    let _ = writeln!(body, "<p><b>{}</b></p>", escape(&facts::sentence(report)));
    let mut table = String::from("<table>");
    for (name, value) in facts::facts(report) {
        let (name, value) = (escape(name), escape(&value));
        let _ = write!(table, "<tr><td>{name}</td><td style=\"text-align:left\">{value}</td></tr>");
    }
    section(body, "What Phalanx did", &(table + "</table>\n"));
    let rows: Vec<_> = report.activity.runs.iter().collect();
    if !rows.is_empty() {
        let text = by_method(&rows).text();
        let lines: Vec<String> = text.lines().map(escape).collect();
        let text = format!("<pre>{}</pre><p>{NOT_COMPARED}</p>", lines.join("\n"));
        section(body, "By who chose the nodes", &text);
    }
    section(body, "The queue", &queue(report));
    section(body, "What is in use", &in_use(report));
    section(body, "Mean wait by day", &waits(report));
}

const NO_SAMPLES: &str = "<p>Unknown: phalanxd took no sample in this period.</p>\n";

/// Returns the days before the end of the period, which are the values of the horizontal axis.
fn days_before(report: &ActivityReport, time_ms: u64) -> f64 {
    let end = report.activity.until_ms;
    -(as_f64(end.saturating_sub(time_ms)) / DAY_MS)
}

/// Makes the axis from the first point to the end of the period.
fn time_axis(report: &ActivityReport, first_ms: u64) -> (Axis, f64) {
    let low = days_before(report, first_ms);
    // Hours read better where there is less than two days.
    if low > -2.0 {
        (Axis::linear("hours before the end", low * 24.0, 0.0, ""), 24.0)
    } else {
        (Axis::linear("days before the end", low, 0.0, ""), 1.0)
    }
}

/// Name of a line, and its value at a point, if known.
type Curve<'a> = (&'a str, &'a dyn Fn(&Point) -> Option<f64>);

/// Plots values of the points over time.
fn over_time(report: &ActivityReport, y: &'static str, unit: &str, lines: &[Curve<'_>]) -> String {
    let points = &report.activity.points;
    let Some(first) = points.first().filter(|_| points.len() > 1) else {
        return NO_SAMPLES.to_owned();
    };
    let (x, scale) = time_axis(report, first.time_ms);
    let at = |point: &Point| days_before(report, point.time_ms) * scale;
    let lines: Vec<Line<'_>> = lines
        .iter()
        .map(|(name, value)| Line {
            name,
            points: points.iter().filter_map(|p| Some((at(p), value(p)?))).collect(),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let values = lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    let high = if unit.is_empty() { values.fold(1.0, f64::max) } else { 100.0 };
    chart(&x, &Axis::linear(y, 0.0, high, unit), &lines, HEIGHT)
}

fn queue(report: &ActivityReport) -> String {
    let (pending, running) =
        (|point: &Point| Some(point.pending), |point: &Point| Some(point.running));
    over_time(report, "jobs", "", &[("waiting", &pending), ("running", &running)])
}

fn in_use(report: &ActivityReport) -> String {
    let of = |name: &'static str, part: fn(&Share) -> f64| {
        move |point: &Point| point.use_of.get(name).map(|share| part(share) * 100.0)
    };
    let used: fn(&Share) -> f64 = |share| share.used;
    let (cpu, mem, gpu) = (of("cpu", used), of("mem", used), of("gres/gpu", used));
    let stranded = of("gres/gpu", |share| share.stranded);
    let lines: [Curve<'_>; 4] =
        [("CPUs", &cpu), ("memory", &mem), ("GPUs", &gpu), ("GPUs stranded", &stranded)];
    over_time(report, "share", " %", &lines)
}

fn waits(report: &ActivityReport) -> String {
    let days = &report.activity.days;
    let known = || days.iter().filter_map(|day| Some((day.time_ms, day.wait_mean_s?)));
    let Some((first, _)) = known().next().filter(|_| known().count() > 1) else {
        return "<p>Unknown: fewer than two days with ended jobs whose wait is known.</p>\n"
            .to_owned();
    };
    let (x, scale) = time_axis(report, first);
    let unit = if known().any(|(_, wait)| wait > 7200.0) { 3600.0 } else { 60.0 };
    let name = if unit > 60.0 { "hours" } else { "minutes" };
    let point = |(ms, wait): (u64, f64)| (days_before(report, ms) * scale, wait / unit);
    let points: Vec<(f64, f64)> = known().map(point).collect();
    let high = points.iter().map(|(_, wait)| *wait).fold(1e-3, f64::max);
    let lines = [Line { name: "mean wait of the jobs that ended that day", points }];
    chart(&x, &Axis::linear(name, 0.0, high, ""), &lines, HEIGHT)
}
