// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread that decides the order of starts: the plugin's report of the
//! pending jobs and the planner's wishes in, deltas out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phalanx_ffi::wire::{OrderState, PHX_Q_FIXED, PHX_Q_QOSES, Queued};

use crate::api::order::{JobOrder, OrderStatus};
use crate::config::{Config, Mode, OrderBy};
use crate::daemon::guard_file::GuardFile;
use crate::daemon::recorder::now_ms;
use crate::daemon::state::{PlanState, Shared, lock};
use crate::daemon::workers::sleep_until;
use crate::link::QueueReport;
use phalanx_core::snapshot::{Job, JobState, Partition, Snapshot};
use phalanx_methods::learn::runtime::Prediction;
use phalanx_planner::backfill::Rank;
use phalanx_planner::order::{Bounds, Decision, OvertakeBudget, Waiting, decide};
use phalanx_planner::preference::StartRank;

/// A report that is older says nothing of the queue as it is.
const REPORT_AGE_MAX: Duration = Duration::from_secs(5);

/// What the order thread tells.
#[derive(Debug, Default)]
pub(super) struct OrderView {
    decision: Decision,
    guard: OvertakeBudget,
}

/// What the last decision was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    report: u64,
    epoch: u64,
    plans: u64,
}

/// Decides at most once per `order.interval_ms`, until `stop`.
pub(super) fn order_loop(shared: &Shared, stop: &AtomicBool) {
    let mut seen = None;
    let mut file = GuardFile::beside(&shared.config().history.path);
    lock(&shared.order).guard = file.load();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let config = shared.config();
        turn(shared, &config, &mut seen);
        keep(shared, &mut file, false);
        sleep_until(started + Duration::from_millis(config.order.interval_ms), stop);
    }
    keep(shared, &mut file, true);
}

fn keep(shared: &Shared, file: &mut GuardFile, last: bool) {
    let due = file.due(&lock(&shared.order).guard, last);
    if let Some(guard) = due {
        file.save(guard);
    }
}

/// Without a sound basis nothing is wanted: the plugin is told so while it
/// listens, and otherwise its lease ends.
fn turn(shared: &Shared, config: &Config, seen: &mut Option<Seen>) {
    let report = shared.responder.order.report().filter(|r| usable(config, r));
    let (Some(report), Some(snapshot)) = (report, shared.snapshot()) else {
        *seen = None;
        lock(&shared.order).decision = Decision::default();
        shared.responder.order.want(&[]);
        return;
    };
    let (start_order, plans) = {
        let plan = lock(&shared.plan);
        let start_order = match config.order.by {
            OrderBy::Plan => planned(&plan),
            OrderBy::Shortest => shortest(&snapshot),
            OrderBy::Learned => learned(&snapshot, &|job| shared.prediction(job)),
        };
        (start_order, plan.plans)
    };
    let now = Seen { report: report.number, epoch: snapshot.epoch, plans };
    if *seen != Some(now) {
        *seen = Some(now);
        let waiting = waiting(&report.jobs, &snapshot, config);
        let bounds = Bounds {
            max_delta: config.order.max_delta,
            max_overtakes: config.order.max_overtakes,
            max_delay_s: config.order.max_delay_s,
        };
        let mut view = lock(&shared.order);
        let now_s = now_ms() / 1000;
        let decision =
            decide(&mut view.guard, report.number, &waiting, &start_order, &bounds, now_s);
        view.decision = decision;
    }
    shared.responder.order.want(&lock(&shared.order).decision.deltas);
}

fn usable(config: &Config, report: &QueueReport) -> bool {
    config.order.enabled
        && report.head.state == OrderState::Active.raw()
        && report.received.elapsed() < REPORT_AGE_MAX
}

/// The methods' wishes, then what the plan starts now and nobody wished.
fn planned(state: &PlanState) -> Vec<StartRank> {
    let mut start_order = state.start_order.clone();
    let mut next = start_order.iter().map(|w| w.rank + 1).max().unwrap_or(0);
    let known: std::collections::BTreeSet<u32> = start_order.iter().map(|w| w.job_id).collect();
    for job in state.plan.iter().flat_map(|plan| &plan.jobs) {
        if !job.nodes.is_empty() && !known.contains(&job.job_id) {
            start_order.push(StartRank { job_id: job.job_id, rank: next });
            next += 1;
        }
    }
    start_order
}

/// By time limit; jobs of the same limit, or without one, have no wish between
/// them.
fn shortest(snapshot: &Snapshot) -> Vec<StartRank> {
    let wish = |job: &Job| Some(StartRank { job_id: job.id, rank: job.time_limit_min? });
    snapshot.jobs.iter().filter(|job| is_eligible(job)).filter_map(wish).collect()
}

/// By predicted runtime, as the simulator's policy `phalanx` ranks; jobs that
/// are predicted to run long are not wished and keep Slurm's order.
fn learned(snapshot: &Snapshot, predict: &dyn Fn(&Job) -> Prediction) -> Vec<StartRank> {
    let jobs = snapshot.jobs.iter().filter(|job| is_eligible(job));
    let mut ranks: Vec<(Rank, u32)> = jobs
        .map(|job| (Rank::learned(&predict(job), job.submit_s), job.id))
        .filter(|(rank, _)| rank.is_short())
        .collect();
    ranks.sort_unstable();
    let mut place = 0;
    let mut last = None;
    let wish = |(rank, job_id)| {
        if last.replace(rank).is_some_and(|last| last != rank) {
            place += 1;
        }
        StartRank { job_id, rank: place }
    };
    ranks.into_iter().map(wish).collect()
}

fn is_eligible(job: &Job) -> bool {
    let waits = &*job.reason == "Dependency" || &*job.reason == "BeginTime";
    job.state == JobState::Pending && job.priority > 0 && !waits
}

/// The plugin's report with what the snapshot adds. A job that the snapshot
/// does not know yet is left alone.
fn waiting(jobs: &[Queued], snapshot: &Snapshot, config: &Config) -> Vec<Waiting> {
    let pools = Pools::of(snapshot);
    let mut partitions: BTreeMap<&str, u32> = BTreeMap::new();
    let of = |job: &Queued| {
        let names = snapshot.job(job.job_id).map_or("", |j| &*j.partitions);
        let count = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        let partition = *partitions.entry(names).or_insert(count);
        let mut each = names.split(',').filter(|name| !name.is_empty()).peekable();
        let known = each.peek().is_some();
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
            tasks: job.tasks.max(1),
            fixed: job.flags & (PHX_Q_FIXED | PHX_Q_QOSES) != 0,
            enforced: known && each.all(|name| config.mode_for(name) == Mode::Enforce),
        }
    };
    jobs.iter().map(of).collect()
}

/// Which partitions compete: those that share nodes, directly or through
/// others or through a job that waits for several.
struct Pools<'a> {
    by_name: BTreeMap<&'a str, u32>,
}

impl<'a> Pools<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let list: &[Partition] = &snapshot.partitions;
        let mut pool: Vec<usize> = (0..list.len()).collect();
        for (i, a) in list.iter().enumerate() {
            for (j, b) in list.iter().enumerate().take(i) {
                if !a.nodes.is_disjoint(&b.nodes) {
                    join(&mut pool, i, j);
                }
            }
        }
        let index: BTreeMap<&str, usize> =
            list.iter().enumerate().map(|(i, p)| (&*p.name, i)).collect();
        let several = snapshot.jobs.iter().filter(|j| j.partitions.contains(','));
        for job in several.filter(|j| j.state == JobState::Pending) {
            let mut each = job.partitions.split(',').filter_map(|name| index.get(name));
            let Some(&first) = each.next() else { continue };
            each.for_each(|&other| join(&mut pool, first, other));
        }
        let number = |(name, i): (&'a str, usize)| {
            (name, pool.get(i).map_or(0, |&p| u32::try_from(p + 1).unwrap_or(u32::MAX)))
        };
        Self { by_name: index.into_iter().map(number).collect() }
    }

    /// 0 for a job whose partition is not known: with others like it.
    fn of_job(&self, names: &str) -> u32 {
        let first = names.split(',').next().unwrap_or_default();
        self.by_name.get(first).copied().unwrap_or(0)
    }
}

/// Both get the lower number, and all that had the higher one.
fn join(pool: &mut [usize], a: usize, b: usize) {
    let (Some(&a), Some(&b)) = (pool.get(a), pool.get(b)) else { return };
    let (low, high) = (a.min(b), a.max(b));
    pool.iter_mut().filter(|p| **p == high).for_each(|p| *p = low);
}

/// Why a job is left alone, whatever is wished.
fn own_stop(job: &Queued) -> Option<String> {
    if job.flags & PHX_Q_FIXED != 0 {
        Some("an administrator set the job's priority".to_owned())
    } else if job.flags & PHX_Q_QOSES != 0 {
        Some("the job asks for several QOSes".to_owned())
    } else {
        None
    }
}

impl Shared {
    pub(super) fn order_status(&self) -> OrderStatus {
        let enabled = self.config().order.enabled;
        let Some(report) = self.responder.order.report() else {
            return OrderStatus {
                enabled,
                state: "no report".to_owned(),
                ..OrderStatus::default()
            };
        };
        let view = lock(&self.order);
        let head = &report.head;
        let state = OrderState::from_raw(head.state).map_or("unknown", OrderState::as_str);
        OrderStatus {
            enabled,
            state: state.to_owned(),
            pending: report.jobs.len() as u64,
            active: u64::from(head.active),
            decided: view.decision.deltas.len() as u64,
            overtaken: u64::from(view.decision.overtaken),
            starts_ahead: view.guard.starts(),
            written: head.written,
            removed: head.removed,
            started: head.started,
            refused: head.refused,
            deferred: head.deferred,
            lock_holds: head.holds,
            lock_mean_ns: head.hold_ns.checked_div(head.holds).unwrap_or(0),
            lock_max_ns: head.hold_ns_max,
        }
    }

    /// Rank and delta of the jobs that the last decision names.
    pub(super) fn order_places(&self) -> BTreeMap<u32, (Option<u32>, i32)> {
        let view = lock(&self.order);
        view.decision.jobs.iter().map(|(id, p)| (*id, (p.rank, p.delta))).collect()
    }

    /// The place of one pending job, if the order of starts is ours.
    pub(super) fn job_order(&self, job_id: u32) -> Option<JobOrder> {
        let report = self.responder.order.report()?;
        let job = report.jobs.iter().find(|j| j.job_id == job_id)?;
        let view = lock(&self.order);
        let placed = view.decision.jobs.get(&job_id).copied().unwrap_or_default();
        Some(JobOrder {
            rank: placed.rank,
            delta: placed.delta,
            delta_now: job.delta,
            priority: job.priority,
            passes: placed.passes,
            overtaken: view.guard.overtaken(job_id),
            overtaken_since_s: view.guard.since_s(job_id),
            stop: placed.stop.map(|(stop, _)| stop.as_str().to_owned()).or_else(|| own_stop(job)),
            stop_job: placed.stop.map(|(_, job)| job).filter(|job| *job != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::snapshot::Builder;

    #[test]
    fn short_jobs_are_wished_by_their_predicted_runtime() {
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
        builder.draft.jobs = jobs.chain(waiting).collect();
        let snapshot = builder.build(1, 1).unwrap_or_default();
        let predict = |job: &Job| {
            let seconds = [0.0, 90.0, 30.0, 7200.0, 30.0][job.id as usize % 5];
            Prediction { mean_s: seconds, urgency: 1.0 / f64::max(seconds, 1.0) }
        };
        let start_order = learned(&snapshot, &predict);
        let of: Vec<(u32, u32)> = start_order.iter().map(|w| (w.job_id, w.rank)).collect();
        assert_eq!(of, [(2, 0), (4, 0), (1, 1)], "the long one keeps its place");
    }
}
