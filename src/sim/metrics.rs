// SPDX-License-Identifier: GPL-3.0-or-later
//! The figures of one simulated policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::card::{self, Card};
use super::job::{Dimension, Workload};
use super::nodes::LeafFigures;
use super::schedule::Schedule;
use super::waits::{bounded_slowdown, percentile, wait_s};

/// Share of each resource in use over the makespan; absent for one that does not exist.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Utilization {
    /// CPUs, 0..1.
    pub cpu: Option<f64>,
    /// Memory, 0..1.
    pub mem: Option<f64>,
    /// GPUs, 0..1.
    pub gpu: Option<f64>,
}

/// Figures of one policy, one line of the result; what does not apply to a
/// kind of input is null.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub struct Figures {
    /// Name of the policy.
    pub policy: String,
    /// Jobs that were run.
    pub jobs: usize,
    /// Jobs of the log that cannot be run.
    pub skipped: u64,
    /// Seconds from the first arrival to the last end.
    pub makespan_s: Option<i64>,
    /// Use of the resources.
    pub utilization: Utilization,
    /// Mean wait, seconds.
    pub wait_mean_s: Option<f64>,
    /// Median of the wait, seconds.
    pub wait_p50_s: Option<i64>,
    /// 95th percentile of the wait, seconds.
    pub wait_p95_s: Option<i64>,
    /// Longest wait, seconds.
    pub wait_max_s: Option<i64>,
    /// Mean bounded slowdown, tau 10 s ("AVEbsld").
    pub bounded_slowdown_mean: Option<f64>,
    /// 99th percentile of the bounded slowdown.
    pub bounded_slowdown_p99: Option<f64>,
    /// GPUs allocated in the end, percent.
    pub gpu_allocated_pct: Option<f64>,
    /// Free GPUs that the mix of requests cannot use, percent of all.
    pub gpu_fragmented_pct: Option<f64>,
    /// Percent of each resource that is free on nodes where another resource is used up.
    pub stranded: BTreeMap<String, f64>,
    /// Energy, joules; null without power figures.
    pub energy_j: Option<f64>,
    /// Input read from other nodes, percent, where jobs have inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_remote_pct: Option<f64>,
    /// Jobs decided on.
    pub decisions: usize,
    /// Real decisions per second.
    pub decisions_per_s: f64,
    /// 99th percentile of the real time of one decision or pass, microseconds.
    pub decision_p99_us: f64,
    /// Real time that the simulation took, seconds.
    pub wall_s: f64,
    /// Leaf switches or blocks, where there is a topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<LeafFigures>,
    /// Card of waits by class, and of what the waits cost each user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
}

/// Unit of a figure, as people read the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Seconds,
    /// A fraction, shown in percent.
    Share,
    Percent,
    Ratio,
    /// Joules, shown in kWh.
    Energy,
}

/// A figure of a table.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Name for people.
    pub name: &'static str,
    /// Name for programs.
    pub key: &'static str,
    unit: Unit,
    /// Whether a smaller figure is better.
    pub less: bool,
    /// Reads the figure of a policy, where the policy has it.
    pub of: fn(&Figures) -> Option<f64>,
}

const fn figure(
    name: &'static str,
    key: &'static str,
    unit: Unit,
    less: bool,
    of: fn(&Figures) -> Option<f64>,
) -> Figure {
    Figure { name, key, unit, less, of }
}

#[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
fn whole(seconds: Option<i64>) -> Option<f64> {
    seconds.map(|seconds| seconds as f64)
}

#[allow(clippy::cast_precision_loss)] // counts stay below 2^53
fn count(of: Option<u64>) -> Option<f64> {
    of.map(|count| count as f64)
}

fn idle(figures: &Figures, name: &str) -> Option<f64> {
    figures.card.as_ref()?.idle_pct.get(name).copied()
}

/// The figures of every table, in the table's order.
pub const FIGURES: [Figure; 23] = [
    figure("Jobs", "jobs", Unit::Count, false, |f| Some(f.jobs as f64)),
    figure("Skipped", "skipped", Unit::Count, false, |f| Some(f.skipped as f64)),
    figure("Makespan", "makespan_s", Unit::Seconds, true, |f| whole(f.makespan_s)),
    figure("Mean wait", "wait_mean_s", Unit::Seconds, true, |f| f.wait_mean_s),
    figure("Mean wait by node-hours", "wait_by_work_s", Unit::Seconds, true, |f| {
        f.card.as_ref()?.wait_by_work_s
    }),
    figure("Half waited at most", "wait_p50_s", Unit::Seconds, true, |f| whole(f.wait_p50_s)),
    figure("95 % waited at most", "wait_p95_s", Unit::Seconds, true, |f| whole(f.wait_p95_s)),
    figure("Longest wait", "wait_max_s", Unit::Seconds, true, |f| whole(f.wait_max_s)),
    figure("Users better off", "users_better", Unit::Count, false, |f| {
        count(f.card.as_ref()?.users_better)
    }),
    figure("Users worse off", "users_worse", Unit::Count, true, |f| {
        count(f.card.as_ref()?.users_worse)
    }),
    figure("Accounts' shares moved", "shares_moved_pct", Unit::Percent, true, |f| {
        f.card.as_ref()?.shares_moved_pct
    }),
    figure("Promise missed by", "slip_s", Unit::Seconds, true, |f| whole(f.card.as_ref()?.slip_s)),
    figure("Older equals passed", "inversions", Unit::Count, true, |f| {
        count(Some(f.card.as_ref()?.inversions))
    }),
    figure("CPUs idle beside work", "cpu_idle_pct", Unit::Percent, true, |f| idle(f, "cpu")),
    figure("GPUs idle beside work", "gpu_idle_pct", Unit::Percent, true, |f| idle(f, "gpu")),
    figure("Mean slowdown", "bounded_slowdown_mean", Unit::Ratio, true, |f| {
        f.bounded_slowdown_mean
    }),
    figure("CPUs in use", "cpu_utilization", Unit::Share, false, |f| f.utilization.cpu),
    figure("Memory in use", "mem_utilization", Unit::Share, false, |f| f.utilization.mem),
    figure("GPUs in use", "gpu_allocated_pct", Unit::Percent, false, |f| f.gpu_allocated_pct),
    figure("GPUs stranded", "gpu_stranded_pct", Unit::Percent, true, |f| {
        f.stranded.get("gpu").copied()
    }),
    figure("GPUs unusable", "gpu_fragmented_pct", Unit::Percent, true, |f| f.gpu_fragmented_pct),
    figure("Energy", "energy_j", Unit::Energy, true, |f| f.energy_j),
    figure("Input from elsewhere", "input_remote_pct", Unit::Percent, true, |f| f.input_remote_pct),
];

impl Figure {
    /// The figure of a policy as people read it; a dash where the policy has none.
    pub fn shown(&self, of: &Figures) -> String {
        let Some(value) = (self.of)(of) else { return "-".to_owned() };
        match self.unit {
            Unit::Count => format!("{value:.0}"),
            Unit::Seconds => span(value),
            Unit::Share => format!("{:.1} %", value * 100.0),
            Unit::Percent => format!("{value:.1} %"),
            Unit::Ratio => format!("{value:.2}"),
            Unit::Energy => format!("{:.1} kWh", value / 3.6e6),
        }
    }
}

/// Seconds as `42.3 s`, `1:02:03` or `3d 04:05:06`.
pub fn span(seconds: f64) -> String {
    if seconds < 120.0 {
        return format!("{:.1} s", seconds.max(0.0));
    }
    let total = phalanx_core::number::whole(seconds.round());
    let (days, rest) = (total / 86_400, total % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

/// Amount of a resource times the seconds of its use, and its whole amount times the seconds of the
/// period.
fn in_use(load: &Workload, schedule: &Schedule, of: &Dimension) -> (f64, f64) {
    let period = load.period(schedule);
    let held = of.amounts.iter().zip(schedule.spans());
    let used: u128 = held
        .map(|(amount, (start_s, end_s))| {
            u128::from(*amount) * u128::from(period.overlap_s(start_s, end_s))
        })
        .sum();
    let seconds = period.end_s.saturating_sub(period.begin_s);
    (used as f64, of.total as f64 * seconds as f64)
}

/// Adds the cards of policies, each compared with the one at `base`.
pub fn fill_cards(load: &Workload, found: &mut [(Figures, Schedule)], base: usize) {
    let first = found.get(base).map(|(_, schedule)| schedule.clone());
    for (at, (figures, schedule)) in found.iter_mut().enumerate() {
        figures.card = Some(card::of(load, schedule, first.as_ref().filter(|_| at != base)));
    }
}

/// Returns all figures of a run on a pool of CPUs.
pub fn of_pool(policy: &str, load: &Workload, schedule: &Schedule) -> Figures {
    let pairs = || load.jobs.iter().zip(schedule.spans()).enumerate().skip(load.held);
    let mut waits: Vec<i64> = pairs().map(|(_, (job, (start, _)))| wait_s(job, start)).collect();
    let ended = pairs().filter(|(at, _)| !load.unfinished.contains(at));
    let mut slowdowns: Vec<f64> =
        ended.map(|(_, (job, (_, e)))| bounded_slowdown(job, e)).collect();
    // Sums in the log's order: the same bits on every run.
    let slowdown: f64 = slowdowns.iter().sum();
    let wait: i128 = waits.iter().map(|w| i128::from(*w)).sum();
    waits.sort_unstable();
    slowdowns.sort_unstable_by(f64::total_cmp);
    let (count, ended) = (waits.len(), slowdowns.len());
    let last = schedule.ends_s.iter().max().copied();
    let makespan = last.map_or(0, |end_s| end_s.saturating_sub(load.first_s()));
    let (work, whole) = in_use(load, schedule, &load.cpus_in_use());
    let gpus = load.others.iter().find(|of| of.name == "GPUs in use");
    let mean = |sum: f64, of: usize| (of > 0).then(|| sum / of as f64);
    let mut figures = Figures {
        policy: policy.to_owned(),
        jobs: load.jobs.len(),
        skipped: load.skipped,
        makespan_s: Some(makespan),
        utilization: Utilization {
            cpu: (whole > 0.0).then(|| work / whole),
            ..Utilization::default()
        },
        wait_mean_s: mean(wait as f64, count),
        wait_p50_s: Some(percentile(&waits, 50)),
        wait_p95_s: Some(percentile(&waits, 95)),
        wait_max_s: Some(percentile(&waits, 100)),
        bounded_slowdown_mean: mean(slowdown, ended),
        bounded_slowdown_p99: (ended > 0).then(|| percentile(&slowdowns, 99)),
        decisions: count,
        gpu_allocated_pct: gpus.and_then(|of| {
            let (used, whole) = in_use(load, schedule, of);
            (whole > 0.0).then(|| used / whole * 100.0)
        }),
        ..Figures::default()
    };
    figures.time(schedule.wall, schedule.pass_us.clone());
    figures
}

/// Figures and schedule of a policy.
pub type Part<'a> = (&'a Figures, &'a Schedule);

impl Figures {
    /// Sets the figures that were measured with the real clock.
    pub fn time(&mut self, wall: std::time::Duration, mut took_us: Vec<f32>) {
        took_us.sort_unstable_by(f32::total_cmp);
        self.wall_s = wall.as_secs_f64();
        self.decisions_per_s = self.decisions as f64 / self.wall_s.max(1e-9);
        self.decision_p99_us = f64::from(percentile(&took_us, 99));
    }
}
