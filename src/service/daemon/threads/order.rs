// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `order` decides the order of starts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use log::warn;
use phalanx_ffi::wire::{OrderState, PHX_Q_FIXED, PHX_Q_QOSES, Queued};

use crate::clock::{WallClock, hour, zoned};
use crate::daemon::shared::Shared;
use crate::daemon::state::plans::PlanState;
use crate::daemon::state::power::cpu_watts;
use crate::daemon::state_file;
use crate::link::QueueReport;
use crate::sync::sleep_until;
use phalanx_config::{Config, Draw, Mode, OrderBy};
use phalanx_core::number::{as_u32, seconds_of};
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_ffi::clock::now_ms;
use phalanx_ffi::locks::lock;
use phalanx_methods::learn::runtime::Prediction;
use phalanx_planner::energy::by_price;
use phalanx_planner::order::{
    Decision, Guard, GuardRule, Pools, Waiting, by_learned_runtime, competes, decide, max_delta,
};
use phalanx_planner::preference::StartRank;

/// Longest time between two decisions: the plugin forgets an order that is not renewed.
const TURN_MAX: Duration = Duration::from_secs(2);
/// Name of the file with the longest fair wait of each pool, which is beside the history.
const FILE: &str = "order.json";
/// Time between two writes of the file.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// Age from which on a report no longer tells the state of the queue.
const REPORT_AGE_MAX: Duration = Duration::from_secs(5);

/// Versions of the inputs to the last decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Basis {
    report: u64,
    epoch: u64,
    plans: u64,
}

/// Decides the order of starts: the plugin's report of the pending jobs and the start order that
/// the methods ask for go in, deltas come out.
pub struct Order<'a> {
    pub all: &'a Shared,
}

impl Order<'_> {
    /// Decides at most once per `source.poll_ms`, and at least once per [`TURN_MAX`], until `stop`.
    pub fn run(&self, stop: &AtomicBool) {
        let mut basis = None;
        let mut clock = WallClock::default();
        let path = self.all.configuration.get().history.path.with_file_name(FILE);
        let longest_s: BTreeMap<String, i64> = state_file::read(&path).unwrap_or_default();
        let mut saved = (longest_s, Instant::now(), true);
        self.all.order.lock().guard = Guard::remembering(saved.0.clone());
        while !stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            let config = self.all.configuration.get();
            if clock.was_set(now_ms(), Instant::now()) {
                // By times on both sides of it jobs would have waited for hours, or not at all.
                let guard = &mut self.all.order.lock().guard;
                *guard = Guard::remembering(guard.longest_s().clone());
            }
            self.turn(&config, &mut basis);
            self.save(&path, &mut saved);
            let pause = Duration::from_millis(config.source.poll_ms).min(TURN_MAX);
            sleep_until(started + pause, stop);
        }
    }

    /// Keeps the longest waits; where that fails a restart begins with former ones, which is logged
    /// for each first failure.
    fn save(&self, path: &Path, (saved, at, good): &mut (BTreeMap<String, i64>, Instant, bool)) {
        let longest_s = self.all.order.lock().guard.longest_s().clone();
        if longest_s != *saved && at.elapsed() >= WRITE_EVERY {
            *at = Instant::now();
            match state_file::write(path, &longest_s) {
                Ok(()) => (*saved, *good) = (longest_s, true),
                Err(error) if std::mem::take(good) => {
                    warn!("{}: {error}; a restart knows no later waits", path.display());
                }
                Err(_) => {}
            }
        }
    }

    /// Makes one decision. Without a sound basis no order is asked for: the plugin gets an empty
    /// list while it listens, and otherwise its lease ends.
    fn turn(&self, config: &Config, basis: &mut Option<Basis>) {
        let report = self.all.responder.order.report().filter(|r| usable(config, r));
        let (Some(report), Some(snapshot)) = (report, self.all.cluster.snapshot()) else {
            *basis = None;
            self.all.order.lock().decision = Decision::default();
            self.all.responder.order.want(&[]);
            return;
        };
        let (start_order, plans) = {
            let plan = self.all.plans.lock();
            let start_order = match config.order.by {
                OrderBy::Off => Vec::new(),
                OrderBy::Plan => planned(&plan),
                OrderBy::Price => self.by_price(config, &snapshot),
                OrderBy::Learned => learned(&snapshot, config.order.short_s, &|job| {
                    self.all.learned.prediction(job)
                }),
            };
            (start_order, plan.plans)
        };
        let now_s = seconds_of(now_ms());
        let now = Basis { report: report.number, epoch: snapshot.epoch, plans };
        let mut view = self.all.order.lock();
        if *basis != Some(now) {
            *basis = Some(now);
            let settings = self.all.responder.settings();
            let mut waiting = waiting(&report.jobs, &snapshot, config, settings.draw.as_ref());
            let priorities = self.all.cluster.priorities();
            let rule = GuardRule {
                share_percent: config.order.fair_share_percent,
                points_a_day: priorities.points_a_day,
            };
            let expected_s = |job: &Job| self.all.learned.prediction(job).mean_s;
            view.guard.observe(now_s, rule, &snapshot, &waiting, &expected_s);
            for job in &mut waiting {
                // Who waits for a limit or another job loses nothing.
                job.due = snapshot.job(job.job_id).is_some_and(competes)
                    && view.guard.due_s(job.job_id).is_none_or(|due_s| due_s <= now_s);
            }
            let max_delta = max_delta(config.order.max_delta_percent, priorities.largest_weight);
            view.decision = decide(&waiting, &start_order, max_delta);
        }
        self.all.responder.order.want(&view.decision.deltas);
    }
}

impl Order<'_> {
    /// Orders by the energy that jobs are expected to take, depending on the hour's price.
    fn by_price(&self, config: &Config, snapshot: &Snapshot) -> Vec<StartRank> {
        let Ok(Some(prices)) = config.energy.price.by_hour() else { return Vec::new() };
        let hour = hour(&zoned(now_ms()));
        let watts = cpu_watts(config, snapshot, &lock(&self.all.power));
        let joules = |job: &Job| {
            let limit_s = job.time_limit_min.map(|minutes| f64::from(minutes) * 60.0);
            let seconds =
                self.all.learned.expected(job).map(|(found, _)| found.mean_s).or(limit_s)?;
            Some(seconds * f64::from(job.shape.min_cpus.max(1)) * watts)
        };
        let jobs = snapshot.all_jobs().filter(|job| is_eligible(job));
        by_price(&prices, hour, jobs.map(|job| (job.id, joules(job))))
    }
}

fn usable(config: &Config, report: &QueueReport) -> bool {
    config.orders()
        && report.head.state == OrderState::Active.raw()
        && report.received.elapsed() < REPORT_AGE_MAX
}

/// Returns the start order of the methods, followed by the other jobs that the plan starts now.
fn planned(state: &PlanState) -> Vec<StartRank> {
    let mut start_order = state.of_round.start_order.clone();
    let mut next = start_order.iter().map(|w| w.rank + 1).max().unwrap_or(0);
    let known: BTreeSet<u32> = start_order.iter().map(|w| w.job_id).collect();
    for job in state.plan.iter().flat_map(|plan| &plan.jobs) {
        if !job.nodes.is_empty() && !known.contains(&job.job_id) {
            start_order.push(StartRank { job_id: job.job_id, rank: next });
            next += 1;
        }
    }
    start_order
}

/// Orders by predicted runtime; jobs that are predicted to run for more than `short_s` seconds are
/// left out.
fn learned(
    snapshot: &Snapshot,
    short_s: u64,
    predict: &dyn Fn(&Job) -> Prediction,
) -> Vec<StartRank> {
    let jobs = snapshot.all_jobs().filter(|job| is_eligible(job));
    by_learned_runtime(jobs.map(|job| (job.id, job.submit_s, predict(job))), short_s)
}

fn is_eligible(job: &Job) -> bool {
    let waits = &*job.reason == "Dependency" || &*job.reason == "BeginTime";
    job.state == JobState::Pending && job.priority > 0 && !waits
}

/// Joins the plugin's report with the snapshot; leaves out jobs that the snapshot does not know.
fn waiting(
    jobs: &[Queued],
    snapshot: &Snapshot,
    config: &Config,
    draw: Option<&Draw>,
) -> Vec<Waiting> {
    let pools = Pools::of(snapshot);
    let mut partitions: BTreeMap<&str, u32> = BTreeMap::new();
    let of = |job: &Queued| {
        let known = snapshot.job(job.job_id);
        let (names, account) =
            known.map_or(("", ""), |known| (&*known.partitions, &*known.account));
        let drawn = draw.zip(known).is_some_and(|(draw, job)| draw.is_slurms_job(job));
        let count = as_u32(partitions.len());
        let partition = *partitions.entry(names).or_insert(count);
        let mut each = names.split(',').filter(|name| !name.is_empty()).peekable();
        let known = each.peek().is_some() && !drawn;
        Waiting {
            job_id: job.job_id,
            priority: job.priority,
            priority_max: job.priority_max,
            delta: job.delta,
            hidden: job.hidden,
            tier: job.tier,
            tier_max: job.tier_max,
            part_factor: job.part_factor,
            partition,
            pool: pools.of_job(names),
            qos_id: job.qos_id,
            qos_priority: job.qos_priority,
            nice: job.nice,
            site: job.site,
            submit_s: job.submit_time,
            fixed: job.flags & (PHX_Q_FIXED | PHX_Q_QOSES) != 0,
            enforced: known && each.all(|name| config.mode_for(name, account) == Mode::Enforce),
            due: false,
        }
    };
    jobs.iter().map(of).collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use phalanx_core::snapshot::{Builder, shared};

    #[test]
    fn short_jobs_start_by_their_predicted_runtime() {
        let job = |id, reason: &str| Job {
            id,
            priority: 5,
            reason: reason.into(),
            time_limit_min: Some(60),
            ..Job::default()
        };
        let jobs = [1, 2, 3, 4].map(|id| job(id, "Resources")).into_iter();
        let waiting = [job(5, "Dependency"), Job { priority: 0, ..job(6, "None") }];
        let mut builder = Builder::default();
        builder.draft.jobs = shared(jobs.chain(waiting));
        let snapshot = builder.build(1, 1).unwrap_or_default();
        let predict = |job: &Job| {
            let seconds = [0.0, 90.0, 30.0, 7200.0, 30.0][job.id as usize % 5];
            Prediction { mean_s: seconds, urgency: 1.0 / f64::max(seconds, 1.0) }
        };
        let start_order = learned(&snapshot, 600, &predict);
        let of: Vec<(u32, u32)> = start_order.iter().map(|w| (w.job_id, w.rank)).collect();
        assert_eq!(of, [(2, 0), (4, 0), (1, 1)], "the long one keeps its place");
    }

    /// Goal: a job of Slurm's arm is neither moved nor passed.
    #[test]
    fn slurms_arm_of_a_comparison_keeps_its_order() {
        let mut builder = Builder::default();
        builder.draft.jobs = shared([Job { id: 7, partitions: "main".into(), ..Job::default() }]);
        let snapshot = builder.build(1, 1).unwrap_or_default();
        let queued = Queued { job_id: 7, ..zerocopy::FromZeros::new_zeroed() };
        let config = Config { mode: Mode::Enforce, ..Config::default() };
        let enforced = |share| {
            let draw = Draw { key: "a".to_owned(), share, since_s: 0 };
            waiting(&[queued], &snapshot, &config, Some(&draw)).iter().all(|job| job.enforced)
        };
        assert_eq!([0.0, 1.0].map(enforced), [false, true]);
    }
}
