// SPDX-License-Identifier: GPL-3.0-or-later
//! Gantt chart of jobs on CPUs, for a stretch around the longest wait.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::job::{SimJob, Workload};
use super::super::metrics::wait_s;
use super::Part;
use super::charts::time_unit;
use super::svg::{Axis, colour, escape, frame, open, pixel_x, pixel_y};

/// Jobs that a stretch shows at most, for the policy that shows most.
const JOBS_SHOWN: usize = 500;
/// Bars that a picture has at most.
const BARS_SHOWN: usize = 4_000;
/// Height of one policy's picture.
const HEIGHT: f64 = 260.0;
/// A stretch is too short for an axis in days.
const DAYS_FROM_S: i64 = 172_800;

/// Draws one picture for each policy, all of the same stretch of time.
pub(super) fn around_longest_wait(load: &Workload, parts: &[Part<'_>]) -> String {
    let Some((from, to)) = stretch(load, parts) else { return String::new() };
    let first = load.jobs.first().map_or(0, |job| job.submit_s);
    let (name, unit_s) = time_unit((to - first).min(DAYS_FROM_S));
    let (begin, end) = ((from - first) as f64 / unit_s, (to - first) as f64 / unit_s);
    let x = Axis::linear(name, begin, end, "");
    let mut out = format!(
        "<p>The stretch around the longest wait (where nobody waits, around the middle), with at \
         most {} of the {} jobs; the shades only tell jobs apart. All \
         jobs stand in jobs.csv.</p>\n",
        JOBS_SHOWN.min(load.jobs.len()),
        load.jobs.len()
    );
    let y = Axis::linear("CPU", 0.0, load.cpus as f64, "");
    for (at, part) in parts.iter().enumerate() {
        let _ = writeln!(out, "<p>{}</p>", escape(&part.figures.policy));
        out += &open(HEIGHT);
        frame(&mut out, &x, &y, HEIGHT);
        let all = bars(load, &part.schedule.starts_s, (from, to));
        let every = all.len().div_ceil(BARS_SHOWN).max(1);
        for bar in all.iter().step_by(every) {
            let hour = |s: i64| pixel_x(&x, (s - first) as f64 / unit_s);
            let (left, right) = (hour(bar.from_s), hour(bar.to_s));
            let top = pixel_y(&y, (bar.cpu + bar.cpus) as f64, HEIGHT);
            let bottom = pixel_y(&y, bar.cpu as f64, HEIGHT);
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{}\" fill-opacity=\".{}\" stroke=\"#fff\" \
                 stroke-width=\".5\"><title>job {}: {} CPUs, waited {} s, ran {} s</title></rect>",
                (right - left).max(0.4),
                (bottom - top).max(0.4),
                colour(at),
                [55, 70, 85][usize::from(bar.shade)],
                bar.job.number,
                bar.job.size,
                bar.waited_s,
                bar.job.run_s
            );
        }
        out.push_str("</svg>\n");
        if every > 1 {
            let _ = writeln!(out, "<p>One of {every} of {} bars is drawn.</p>", all.len());
        }
    }
    out
}

/// A piece of a job.
struct Bar<'a> {
    job: &'a SimJob,
    waited_s: i64,
    from_s: i64,
    to_s: i64,
    cpu: u64,
    cpus: u64,
    shade: u8,
}

fn end_s(job: &SimJob, start_s: i64) -> i64 {
    start_s.saturating_add_unsigned(job.run_s)
}

/// The longest stretch in which bars of single jobs are still wide enough.
fn stretch(load: &Workload, parts: &[Part<'_>]) -> Option<(i64, i64)> {
    let starts = &parts.first()?.schedule.starts_s;
    let waits = load.jobs.iter().zip(starts).map(|(job, s)| (wait_s(job, *s), *s));
    let (longest, at) = waits.max_by_key(|(wait, start)| (*wait, std::cmp::Reverse(*start)))?;
    // Where nobody waits, half of the jobs have started.
    let half_way = || starts.get(starts.len() / 2).copied().unwrap_or(at);
    let middle = if longest > 0 { at } else { half_way() };
    let (first, last) = super::charts::span(load, parts);
    let shown = |half: i64| -> usize {
        let (from, to) = (middle - half, middle + half);
        let count = |part: &Part<'_>| {
            let pairs = load.jobs.iter().zip(&part.schedule.starts_s);
            pairs.filter(|(job, s)| **s < to && end_s(job, **s) > from).count()
        };
        parts.iter().map(count).max().unwrap_or(0)
    };
    let mut half = (last - first).max(2);
    while half > 600 && shown(half) > JOBS_SHOWN {
        half /= 2;
    }
    Some(((middle - half).max(first), (middle + half).min(last)))
}

/// Gives every job of the stretch the lowest free CPUs, in pieces if need be.
fn bars<'a>(load: &'a Workload, starts_s: &[i64], (from, to): (i64, i64)) -> Vec<Bar<'a>> {
    let pairs = load.jobs.iter().zip(starts_s.iter().copied());
    let seen = pairs.filter(|(job, start)| *start < to && end_s(job, *start) > from);
    let mut jobs: Vec<(&SimJob, i64)> = seen.collect();
    jobs.sort_by_key(|(_, start)| *start);
    let mut free = BTreeMap::from([(0, load.cpus)]);
    let mut running: BTreeMap<(i64, usize), Vec<(u64, u64)>> = BTreeMap::new();
    let mut bars = Vec::new();
    for (number, (job, start_s)) in jobs.into_iter().enumerate() {
        while let Some(first) = running.first_entry().filter(|e| e.key().0 <= start_s) {
            first.remove().into_iter().for_each(|piece| give(&mut free, piece));
        }
        let pieces = take(&mut free, job.size);
        for (cpu, cpus) in pieces.iter().copied() {
            bars.push(Bar {
                job,
                waited_s: wait_s(job, start_s),
                from_s: start_s.max(from),
                to_s: end_s(job, start_s).min(to),
                cpu,
                cpus,
                shade: u8::try_from(number % 3).unwrap_or(0),
            });
        }
        running.insert((end_s(job, start_s), number), pieces);
    }
    bars
}

/// The lowest free CPUs: beginnings and lengths.
fn take(free: &mut BTreeMap<u64, u64>, mut size: u64) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    while size > 0 {
        let Some((start, len)) = free.pop_first() else { break };
        let taken = len.min(size);
        pieces.push((start, taken));
        size -= taken;
        if taken < len {
            free.insert(start + taken, len - taken);
        }
    }
    pieces
}

fn give(free: &mut BTreeMap<u64, u64>, (mut start, mut len): (u64, u64)) {
    if let Some((&before, &own)) = free.range(..start).next_back()
        && before + own == start
    {
        free.remove(&before);
        (start, len) = (before, own + len);
    }
    if let Some(own) = free.remove(&(start + len)) {
        len += own;
    }
    free.insert(start, len);
}
