// SPDX-License-Identifier: GPL-3.0-or-later
//! The curves of a report.

use super::super::job::{Dimension, Workload};
use super::super::metrics::Part;
use super::super::schedule::Schedule;
use super::super::waits::wait_s;
use super::svg::{Axis, Line, chart};

/// Height of a chart.
const HEIGHT: f64 = 300.0;
/// Spans of time whose mean use is one point.
const BINS: usize = 240;
/// Points of a distribution.
const POINTS: usize = 400;
const DAY_S: f64 = 86_400.0;

/// Time from the first arrival to the last end over all policies.
pub(super) fn span(load: &Workload, parts: &[Part<'_>]) -> (i64, i64) {
    if let Some(window) = load.window {
        return (window.begin_s, window.end_s.max(window.begin_s + 1));
    }
    let first = load.first_s();
    let longest = parts.iter().filter_map(|(figures, _)| figures.makespan_s).max();
    (first, first + longest.unwrap_or(0).max(1))
}

/// Share of a resource in use over time.
pub(super) fn utilization(load: &Workload, parts: &[Part<'_>], of: &Dimension) -> String {
    let (first, last) = span(load, parts);
    let (name, unit_s) = time_unit(last - first);
    let length = (last - first) as f64 / unit_s;
    let lines: Vec<Line<'_>> = parts
        .iter()
        .map(|(figures, schedule)| {
            let used = used(schedule, (first, last), of);
            let step = length / BINS as f64;
            let middle = |(bin, share): (usize, f64)| ((bin as f64 + 0.5) * step, share * 100.0);
            let points = used.into_iter().enumerate().map(middle).collect();
            Line { name: &figures.policy, points }
        })
        .collect();
    let x = Axis::linear(name, 0.0, length, "");
    chart(&x, &Axis::linear(of.name, 0.0, 100.0, " %"), &lines, HEIGHT)
}

/// Name of a time axis that spans `seconds`, and the seconds of its unit.
pub(super) fn time_unit(seconds: i64) -> (&'static str, f64) {
    match seconds {
        0..=7_200 => ("minutes since the first arrival", 60.0),
        7_201..=172_800 => ("hours since the first arrival", 3600.0),
        _ => ("days since the first arrival", DAY_S),
    }
}

/// Mean share in use in each bin.
fn used(schedule: &Schedule, (first, last): (i64, i64), of: &Dimension) -> Vec<f64> {
    let width = (last - first) as f64 / BINS as f64;
    let mut busy = vec![0.0; BINS];
    for ((start_s, end_s), amount) in schedule.spans().zip(&of.amounts) {
        let [begin, end] = [start_s, end_s].map(|at_s| (at_s - first) as f64 / width);
        let bins = busy.iter_mut().enumerate().take(bin(end) + 1).skip(bin(begin));
        for (at, busy) in bins {
            let within = end.min(at as f64 + 1.0) - begin.max(at as f64);
            *busy += *amount as f64 * within.max(0.0);
        }
    }
    busy.into_iter().map(|busy| (busy / of.total.max(1) as f64).clamp(0.0, 1.0)).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped to the bins
fn bin(position: f64) -> usize {
    position.clamp(0.0, BINS as f64 - 1.0) as usize
}

/// Draws the share of the jobs that waited no longer than a time.
pub(super) fn waits(load: &Workload, parts: &[Part<'_>]) -> String {
    let at_s = [1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, DAY_S, 7.0 * DAY_S, 30.0 * DAY_S];
    let names = ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "1 wk", "30 d"];
    let (mut high, mut lines) = (10.0_f64, Vec::new());
    for (figures, schedule) in parts {
        let pairs = load.jobs.iter().zip(&schedule.starts_s).skip(load.held);
        let mut values: Vec<f64> =
            pairs.map(|(job, start_s)| wait_s(job, *start_s) as f64).collect();
        values.sort_unstable_by(f64::total_cmp);
        high = values.last().map_or(high, |last| high.max(*last));
        lines.push(Line { name: &figures.policy, points: steps(&values) });
    }
    // Beyond a policy's largest value stay all of its jobs.
    for line in &mut lines {
        line.points.push((high, 100.0));
    }
    let shown = at_s.into_iter().zip(names.map(str::to_owned)).filter(|(at, _)| *at <= high);
    let marks = shown.collect();
    let x = Axis { name: "waited at most", low: 1.0, high, log: true, marks };
    let floor = lines.iter().filter_map(|l| l.points.first()).map(|(_, y)| *y);
    let low = (floor.fold(100.0, f64::min) / 10.0).floor() * 10.0;
    let y = Axis::linear("jobs", low.min(90.0), 100.0, " %");
    chart(&x, &y, &lines, HEIGHT)
}

/// The distribution of ascending values, from the share at 1 on.
fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let count = values.len().max(1);
    let share = |rank: usize| 100.0 * rank as f64 / count as f64;
    let least = values.partition_point(|value| *value <= 1.0);
    let mut points = vec![(1.0, share(least))];
    let rest = values.len() - least;
    points.extend((1..=POINTS.min(rest)).filter_map(|at| {
        let rank = least + at * rest / POINTS.min(rest);
        Some((*values.get(rank - 1)?, share(rank)))
    }));
    points
}
