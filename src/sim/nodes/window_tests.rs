// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that a window cut out of an accounting of 90 days shows the use, stranding and waits of
//! its time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use jiff::tz::TimeZone;
use phalanx_core::trace::spec::{self, NodeSpec};

use super::super::Setup;
use super::super::load::{Site, happened};
use super::*;
use crate::metrics::Figures;
use crate::policy::SLURM;
use crate::slurm::Rules;

/// Node, CPUs and GPUs, and submission, start and end of a job.
#[derive(Debug, Clone, Copy)]
struct One {
    node: usize,
    cpus: u64,
    gpus: u64,
    times: [i64; 3],
}

const NODES: usize = 8;
const CPUS: u64 = 16;
const DAY_S: i64 = 86_400;
/// Seconds since 1970 at which the quarter begins, so that no time is negative.
const BEGIN_S: i64 = 1_000_000_000;

struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

const fn gpus_of(node: usize) -> u64 {
    if node < NODES / 2 { 4 } else { 0 }
}

/// Jobs of a quarter, one in a hundred of ten days, each by arrival on the first node with room.
fn quarter(seed: u64) -> Vec<One> {
    let (mut draw, mut jobs, mut at_s) = (Draw(seed), Vec::<One>::new(), BEGIN_S);
    let mut running: Vec<One> = Vec::new();
    let mut now_s = BEGIN_S;
    while at_s < BEGIN_S + 90 * DAY_S {
        at_s += i64::try_from(draw.below(2_600)).unwrap();
        let is_gpu = draw.below(10) < 4;
        let (cpus, gpus) = if is_gpu { (6, 1 + draw.below(2)) } else { (4 + draw.below(9), 0) };
        let long = if draw.below(100) == 0 { 864_000 } else { 1_800 + draw.below(21_600) };
        now_s = now_s.max(at_s);
        loop {
            running.retain(|job| job.times[2] > now_s);
            let used = |node: usize| {
                let on = running.iter().filter(|job| job.node == node);
                on.fold((0, 0), |(c, g), job| (c + job.cpus, g + job.gpus))
            };
            let fits = |node: &usize| {
                let (c, g) = used(*node);
                c + cpus <= CPUS && g + gpus <= gpus_of(*node)
            };
            if let Some(node) = (0..NODES).find(fits) {
                let ends_s = now_s + i64::try_from(long).unwrap();
                let job = One { node, cpus, gpus, times: [at_s, now_s, ends_s] };
                running.push(job);
                jobs.push(job);
                break;
            }
            now_s = running.iter().map(|job| job.times[2]).min().unwrap();
        }
    }
    jobs
}

/// Text that sacct prints of the time from `begin_s` to `end_s`: at the end of that time, or long
/// after it.
fn text(jobs: &[One], (begin_s, end_s): (i64, i64), later: bool) -> String {
    let mut text = "JobID|User|State|Submit|Start|End|ElapsedRaw|ReqTRES|AllocTRES|Timelimit|\
                    Priority|NodeList\n"
        .to_owned();
    for (id, job) in (1..).zip(jobs) {
        let [submit_s, start_s, ends_s] = job.times;
        if ends_s < begin_s || submit_s > end_s {
            continue;
        }
        let tres = format!("cpu={},gres/gpu={},node=1", job.cpus, job.gpus);
        let runs = !later && ends_s > end_s;
        let until_s = if runs { end_s } else { ends_s };
        let (state, end, start) = match (runs, start_s > end_s && !later) {
            (_, true) => ("PENDING", "Unknown".to_owned(), "Unknown".to_owned()),
            (true, _) => ("RUNNING", "Unknown".to_owned(), start_s.to_string()),
            _ => ("COMPLETED", ends_s.to_string(), start_s.to_string()),
        };
        let node = if state == "PENDING" { String::new() } else { format!("n{}", job.node) };
        let elapsed_s = (until_s - start_s).max(0);
        text += &format!(
            "{id}|u|{state}|{submit_s}|{start}|{end}|{elapsed_s}|{tres}|{tres}|15-00:00:00|1|\
             {node}\n"
        );
    }
    text
}

fn site() -> Site {
    let nodes = spec::parse("4x(cpu=16,gpu=4)+4x(cpu=16)").unwrap();
    let named = |(at, node): (usize, NodeSpec)| NodeSpec { name: format!("n{at}"), ..node };
    Site::of(&nodes.into_iter().enumerate().map(named).collect::<Vec<_>>())
}

fn figures_of(text: &str) -> (NodeLoad, Figures) {
    let load = read_sacct(text.as_bytes(), &TimeZone::UTC, &site()).unwrap();
    let (pool, config) = (load.workload(), phalanx_planner::gang::Settings::default());
    let setup = Setup::of(&SLURM, &Default::default(), &config, &Rules::default());
    let figures = happened(&load, &pool, &setup).0;
    (load, figures)
}

/// Share of CPUs in use, and of GPUs that are free where no CPU is, percent, by looking at many
/// times.
fn truth(jobs: &[One], window: &Window) -> [f64; 2] {
    let (mut used, mut stranded, looks) = (0, 0, 4_000);
    for look in 0..looks {
        let at_s = window.begin_s + (window.end_s - window.begin_s) * look / looks;
        for node in 0..NODES {
            let on = jobs
                .iter()
                .filter(|job| job.node == node && job.times[1] <= at_s && job.times[2] > at_s);
            let (cpus, gpus) = on.fold((0, 0), |(c, g), job| (c + job.cpus, g + job.gpus));
            used += cpus;
            stranded += if cpus == CPUS { gpus_of(node) - gpus } else { 0 };
        }
    }
    let share = |sum: u64, of: u64| sum as f64 / (of * looks.unsigned_abs()) as f64 * 100.0;
    [share(used, CPUS * NODES as u64), share(stranded, 4 * NODES as u64 / 2)]
}

/// Goal: use, stranding and waits of a window are those of its time, wherever it is cut and
/// whenever sacct ran. Method: the truth is counted from the quarter's jobs, not by the reader.
#[test]
fn a_window_says_what_the_quarter_says_of_it() {
    let mut draw = Draw(7);
    for seed in 1..=3 {
        let jobs = quarter(seed);
        for later in [false, true] {
            for _ in 0..4 {
                let begin_s = BEGIN_S + DAY_S * i64::try_from(draw.below(60)).unwrap();
                let end_s = begin_s + DAY_S * (4 + i64::try_from(draw.below(20)).unwrap());
                let (load, figures) = figures_of(&text(&jobs, (begin_s, end_s), later));
                let window = Window { begin_s: load.begin_s, end_s: load.until_s.unwrap() };
                let place = format!("seed {seed}, {begin_s} to {end_s}, later {later}: {window:?}");
                let apart = |a: i64, b: i64| (a - b).abs() < DAY_S / 2;
                assert!(apart(window.begin_s, begin_s) && apart(window.end_s, end_s), "{place}");
                let [used, stranded] = truth(&jobs, &Window { begin_s, end_s });
                let own = figures.utilization.cpu.unwrap() * 100.0;
                assert!((own - used).abs() < 1.0, "{place}: {own} of {used} % in use");
                let own = figures.stranded["gpu"];
                assert!((own - stranded).abs() < 1.0, "{place}: {own} of {stranded} % stranded");
                let inner = jobs.iter().filter(|job| {
                    job.times[1] >= window.begin_s
                        && job.times[0] <= window.end_s
                        && (later || job.times[1] <= end_s)
                });
                let waits: Vec<i64> = inner.map(|job| job.times[1] - job.times[0]).collect();
                let mean_s = waits.iter().sum::<i64>() as f64 / waits.len() as f64;
                let own_s = figures.wait_mean_s.unwrap();
                assert!((own_s - mean_s).abs() <= mean_s / 100.0, "{place}: {own_s} of {mean_s} s");
            }
        }
    }
}

/// Goal: a row that the accounting lost track of is named and does not fill the nodes. Method: a
/// row that runs on since the first day, on a node that others use.
#[test]
fn a_row_that_cannot_be_is_left_out() {
    let jobs = quarter(1);
    let whole = text(&jobs, (BEGIN_S + 20 * DAY_S, BEGIN_S + 30 * DAY_S), false);
    let (_, before) = figures_of(&whole);
    let start_s = BEGIN_S - 40 * DAY_S;
    let lost = format!(
        "9999|u|RUNNING|{start_s}|{start_s}|Unknown|{}|cpu=16,node=1|cpu=16,node=1|01:00:00|1|n7\n",
        70 * DAY_S
    );
    let (load, after) = figures_of(&(whole + &lost));
    let named = load.reasons.by_count();
    assert!(
        named.iter().any(|(why, jobs, id)| why.contains("beyond") && *jobs == 1 && id == "9999")
    );
    assert_eq!(before.utilization, after.utilization);
}
