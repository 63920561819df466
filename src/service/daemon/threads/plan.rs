// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `plan`: attribution of the queue, preferences of the methods, and the plan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::{hour, zoned};
use crate::daemon::measured_values::{self, MeasuredValues};
use crate::daemon::methods::{self, PLAN_DEADLINE, PLAN_SHARE, PlacementMethod, Round};
use crate::daemon::shared::Shared;
use crate::daemon::state::plans::OfRound;
use crate::daemon::state::power::frugality;
use crate::source::slurm::JOBS_FEW;
use crate::sync::{TICK, sleep_until};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use phalanx_config::{Config, PLAN_JOBS_MAX};
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::clock::{millis, now_ms, now_s};
use phalanx_ffi::locks::lock;
use phalanx_ffi::memory;
use phalanx_planner::attribution::{self, Demand};
use phalanx_planner::plan::{Inputs, Plan, plan};
use phalanx_planner::preference::{JobKey, MethodPlan};
use phalanx_planner::tally::Tally;
use phalanx_planner::usage::NodeUsage;

/// Age at which a plan of waiting jobs is made again although nothing changed.
const PLAN_AGE_MAX: Duration = Duration::from_secs(10);
/// Longest pause after a long plan.
const PLAN_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Plans each newest snapshot, and again when the measured values or the configuration have
/// changed or the plan is old; at most once per `source.poll_ms` and with at most
/// 1/[`PLAN_SHARE`] of a CPU. Ends with `stop`.
pub fn run(shared: &Shared, snapshots: &Receiver<Arc<Snapshot>>, stop: &AtomicBool) {
    let mut methods = methods::all(&shared.power, &shared.gangs);
    let mut newest: Option<Arc<Snapshot>> = None;
    let mut planned_with = MeasuredValues::new();
    let mut planned = (0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        shared.heartbeats.plan.fetch_add(1, Ordering::Relaxed);
        let fresh = match snapshots.recv_timeout(TICK) {
            Ok(snapshot) => Some(snapshot),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let is_fresh = fresh.is_some();
        newest = fresh.or(newest);
        let Some(snapshot) = &newest else { continue };
        let started = Instant::now();
        let measured = measured_values::read(&shared.data_service.collect, snapshot);
        shared.responder.set_levels(levels(shared, snapshot, &measured));
        let generation = shared.configuration.generation();
        // Prices and expectations change with the time alone.
        let old = planned.1.elapsed() > PLAN_AGE_MAX && !snapshot.queue.is_empty();
        if is_fresh || measured != planned_with || generation != planned.0 || old {
            plan_once(shared, snapshot, &measured, &mut methods);
            planned_with = measured;
            planned = (generation, Instant::now());
        } else if measured.is_empty() {
            continue;
        }
        let slot = Duration::from_millis(shared.config().source.poll_ms);
        let share = started.elapsed().saturating_mul(PLAN_SHARE).min(PLAN_PAUSE_MAX);
        let next = started + slot.max(share);
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            shared.heartbeats.plan.fetch_add(1, Ordering::Relaxed);
            sleep_until(next.min(Instant::now() + TICK), stop);
        }
    }
}

/// Returns the levels by which nodes of equal Weight are tried: by measured values, else in hours
/// of a high price by the power that a job adds.
fn levels(
    shared: &Shared,
    snapshot: &Snapshot,
    measured: &MeasuredValues,
) -> BTreeMap<Arc<str>, u32> {
    let config = shared.config();
    let levels = measured_values::levels(measured, &shared.learned.failures().accused, snapshot);
    let hour = hour(&zoned(now_ms()));
    let dear = || config.energy_prices().is_dear(hour);
    if levels.is_empty() && config.energy.frugal_nodes && dear() {
        return frugality(&config, snapshot, &lock(&shared.power)).levels();
    }
    levels
}

/// Makes one round: what the queue lacks, preferences, and which jobs would start.
fn plan_once(
    shared: &Shared,
    snapshot: &Arc<Snapshot>,
    measured: &MeasuredValues,
    methods: &mut [Box<dyn PlacementMethod>],
) {
    let started = Instant::now();
    let (config, now_s) = (shared.config(), now_s());
    let deadline = started + PLAN_DEADLINE;
    let queue = count_queue(shared, &config, snapshot, now_s);
    let collected = measured.get(measured_values::BAG_POWER_W).map(|measured| &measured.of);
    lock(&shared.power).see(&config, snapshot, collected);
    let mut plans = plan_methods(shared, &config, snapshot, measured, &queue, methods);
    let of_round = results(&mut plans);
    let made = plan_queue(shared, snapshot, queue, plans, deadline);
    shared.plans.publish(of_round, snapshot, made, started.elapsed());
    if snapshot.jobs.len() > JOBS_FEW {
        memory::give_back();
    }
}

/// The queue of one round, on the present nodes.
struct Queue {
    /// Usage in the snapshot's node order.
    usages: Vec<NodeUsage>,
    /// Demand of the pending jobs.
    pending: Demand,
    /// Time of the round, Unix seconds.
    now_s: i64,
}

/// Counts what the pending jobs lack and ask for, and hands it to the link.
fn count_queue(shared: &Shared, config: &Config, snapshot: &Arc<Snapshot>, now_s: i64) -> Queue {
    let follows = config.tuning().params.sources.pending;
    if follows {
        shared.responder.mark_for_tally();
    }
    let table = shared.responder.table();
    let (usages, exact) = shared.usages(snapshot);
    let pending = attribution::count(snapshot, &usages, now_s, PLAN_JOBS_MAX);
    let tally = (exact && follows).then(|| Tally::new(snapshot, usages.clone(), now_s, &pending));
    shared.responder.set_queue(pending.clone(), snapshot.licenses.clone());
    if let Some((tally, table)) = tally.zip(table) {
        shared.responder.set_tally(tally, &table);
    }
    Queue { usages, pending, now_s }
}

/// Lets every method plan, and hands the preferences to the link.
fn plan_methods(
    shared: &Shared,
    config: &Config,
    snapshot: &Arc<Snapshot>,
    measured: &MeasuredValues,
    queue: &Queue,
    methods: &mut [Box<dyn PlacementMethod>],
) -> Vec<MethodPlan> {
    let names: Vec<String> = snapshot.named().map(|(_, node)| node.name.to_string()).collect();
    let begun = shared.responder.begun(snapshot);
    let round = Round {
        data_capability: &measured_values::data_capability(&shared.data_service.collect, &names),
        core_speeds: &shared.learned.core_speeds,
        inputs: &shared.inputs,
        config,
        snapshot,
        usages: &queue.usages,
        speeds: &shared.learned.speeds(),
        failed_on: &shared.learned.failures().of_jobs,
        measured,
        outlook: &shared.learned.outlook(config, snapshot, queue.now_s),
        pause_s: shared.learned.pause_s(),
        held_s: &|array| shared.responder.array_held_s(array),
        has_begun: &|key| {
            begun.contains(&key) || matches!(key, JobKey::Job(job) if shared.responder.runs(job))
        },
        done: &[],
        now_ms: now_ms(),
    };
    let mut all = Vec::new();
    for method in methods {
        shared.heartbeats.plan.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let mut plan = method.plan(&Round { done: &all, ..round });
        methods::avoid(&round, &mut plan);
        plan.report.took_ms = millis(started.elapsed());
        shared.responder.set_preferences(plan.method, snapshot, plan.preferences.clone());
        method.in_force(&round);
        all.push(plan);
    }
    all
}

/// Collects the results of a round other than the plan; takes the remarks of the methods.
fn results(plans: &mut [MethodPlan]) -> OfRound {
    OfRound {
        notes: plans.iter_mut().flat_map(|plan| std::mem::take(&mut plan.notes)).collect(),
        methods: plans.iter().map(|plan| plan.report.clone()).collect(),
        start_order: plans.iter().flat_map(|plan| plan.start_order.iter().copied()).collect(),
    }
}

/// Plans the queue with the methods' preferences.
///
/// # Errors
/// A tuning out of range, or what the independent checker found.
fn plan_queue(
    shared: &Shared,
    snapshot: &Snapshot,
    queue: Queue,
    plans: Vec<MethodPlan>,
    deadline: Instant,
) -> Result<Plan, String> {
    let inputs = Inputs {
        usages: queue.usages,
        tuning: shared.responder.settings().tuning.clone(),
        pending: queue.pending,
        memory_tracked: shared.cluster.memory_tracked(),
        jobs_max: PLAN_JOBS_MAX,
        now_s: queue.now_s,
        preferences: plans.into_iter().map(|plan| (plan.method, plan.preferences)).collect(),
        poll_start: shared.responder.with_placer(|p| p.engine().poll_start()).unwrap_or(0),
    };
    match plan(snapshot, inputs, &|| Instant::now() >= deadline) {
        Ok(Plan { violation: Some(violation), .. }) => Err(violation),
        Ok(plan) => Ok(plan),
        Err(error) => Err(error.to_string()),
    }
}
