// SPDX-License-Identifier: GPL-3.0-or-later
//! The two background threads: reading slurmctld, and planning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use log::{debug, info, warn};

use crate::daemon::measures::{self, Measures};
use crate::daemon::recorder::{now_ms, now_s};
use crate::daemon::state::{Beat, Shared, lock};
use crate::daemon::steerers::{self, Round, Steerer};
use crate::source::slurm::Source;
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::attribution::{self, Demand};
use phalanx_planner::plan::{Inputs, Plan, plan, pools_of};
use phalanx_planner::preference::MethodPlan;

/// Longest sleep before a thread looks whether it should stop.
const TICK: Duration = Duration::from_millis(100);

/// Nice value of threads that no question waits for.
const BACKGROUND_NICE: i32 = 10;
/// Turn of the thread that answers questions, nanoseconds.
const ANSWER_TURN_NS: u64 = 100_000;
/// Planning takes at most this part of one CPU: a plan of `t` is followed by a
/// pause of at least `(PLAN_SHARE - 1) t`.
const PLAN_SHARE: u32 = 20;
/// Age at which a plan of waiting jobs is made anew though nothing changed.
const PLAN_AGE_MAX: Duration = Duration::from_secs(10);
/// Longest pause for that reason.
const PLAN_PAUSE_MAX: Duration = Duration::from_secs(30);

/// For threads that must not delay an answer on a busy machine.
pub(super) fn in_background() {
    if let Err(error) = phalanx_ffi::thread::yield_to_others(BACKGROUND_NICE) {
        debug!("thread stays at its nice value: {error}");
    }
}

/// For the thread that answers.
pub(super) fn in_foreground() {
    if let Err(error) = phalanx_ffi::thread::short_turns(ANSWER_TURN_NS) {
        debug!("thread keeps the usual turns: {error}");
    }
}

/// Puts the newest snapshot into a channel of one: an older one that nobody
/// took yet is dropped.
pub(super) fn latest_wins(
    sender: &Sender<Arc<Snapshot>>,
    receiver: &Receiver<Arc<Snapshot>>,
    s: Arc<Snapshot>,
) {
    if let Err(TrySendError::Full(newest)) = sender.try_send(s) {
        // The taker may be quicker than this: both ends then are fine.
        let _ = receiver.try_recv();
        let _ = sender.try_send(newest);
    }
}

/// Reads slurmctld every `source.poll_ms` until `stop`.
pub(super) fn poll(
    shared: &Shared,
    mut source: Source,
    to_plan: &Sender<Arc<Snapshot>>,
    drain: &Receiver<Arc<Snapshot>>,
    stop: &AtomicBool,
) {
    let mut failing = false;
    let mut forgotten = false;
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let synced = shared.responder.with_placer(|_| ()).is_some();
        let polled = source.poll(!synced, now_ms());
        let took = started.elapsed();
        let mut state = lock(&shared.poll);
        state.poll_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match polled {
            Ok(fresh) => {
                if failing || !state.reachable {
                    info!("slurmctld answers");
                }
                failing = false;
                forgotten = false;
                state.reachable = true;
                state.last_error = None;
                state.last_good = Some(Instant::now());
                state.info = source.info();
                drop(state);
                if let Some(snapshot) = fresh.map(Arc::new) {
                    let mut slot =
                        shared.snapshot.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                    *slot = Some(Arc::clone(&snapshot));
                    drop(slot);
                    shared.responder.saw_snapshot(&snapshot);
                    latest_wins(to_plan, drain, snapshot);
                }
            }
            Err(error) => {
                let text = error.to_string();
                if !failing {
                    warn!("slurmctld: {text}; the last good snapshot stays");
                }
                failing = true;
                state.reachable = false;
                state.refused +=
                    u64::from(matches!(error, crate::source::slurm::SourceError::Refused(_)));
                state.last_error = Some(text);
                let stale = Duration::from_millis(shared.config().source.stale_after_ms);
                let old = state.last_good.is_some_and(|good| good.elapsed() > stale);
                drop(state);
                if old && !forgotten {
                    warn!("what was read from slurmctld is too old: its queue no longer counts");
                    shared.responder.set_queue(Demand::default(), Vec::new());
                    forgotten = true;
                }
            }
        }
        sleep_until(started + Duration::from_millis(shared.config().source.poll_ms), stop);
    }
}

pub(super) fn sleep_until(when: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = when.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(TICK));
    }
}

/// Plans each newest snapshot, and again when what was measured on the nodes or
/// the configuration has changed or the plan is old; at most once per `planner.slot_ms` and with at most
/// 1/[`PLAN_SHARE`] of a CPU.
pub(super) fn plan_loop(shared: &Shared, snapshots: &Receiver<Arc<Snapshot>>, stop: &AtomicBool) {
    let mut steerers = steerers::all(shared);
    let mut newest: Option<Arc<Snapshot>> = None;
    let mut planned_with = Measures::new();
    let mut planned = (0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        shared.turn(Beat::Plan);
        let fresh = match snapshots.recv_timeout(TICK) {
            Ok(snapshot) => Some(snapshot),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let is_fresh = fresh.is_some();
        newest = fresh.or(newest);
        let Some(snapshot) = &newest else { continue };
        let started = Instant::now();
        let measures = measures::read(shared, snapshot);
        shared.responder.set_levels(measures::levels(&measures));
        let generation = shared.generation();
        // Prices and expectations change with the time alone.
        let old = planned.1.elapsed() > PLAN_AGE_MAX && !snapshot.queue.is_empty();
        if is_fresh || measures != planned_with || generation != planned.0 || old {
            plan_one(shared, snapshot, &measures, &mut steerers);
            planned_with = measures;
            planned = (generation, Instant::now());
        } else if measures.is_empty() {
            continue;
        }
        let slot = Duration::from_millis(shared.config().planner.slot_ms);
        let share = started.elapsed().saturating_mul(PLAN_SHARE).min(PLAN_PAUSE_MAX);
        let next = started + slot.max(share);
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            shared.turn(Beat::Plan);
            sleep_until(next.min(Instant::now() + TICK), stop);
        }
    }
}

fn plan_one(
    shared: &Shared,
    snapshot: &Arc<Snapshot>,
    measures: &Measures,
    steerers: &mut [Box<dyn Steerer>],
) {
    let started = Instant::now();
    let config = shared.config();
    let (usages, _) = shared.usages(snapshot);
    let now_s = now_s();
    let requests_max = config.planner.plan_jobs_max as usize;
    let counts = attribution::count(snapshot, &usages, now_s, requests_max);
    let pending = counts.demand(snapshot);
    shared.responder.set_queue(pending.clone(), pools_of(snapshot));
    let speeds = shared.speeds();
    let round = Round {
        data: &shared.inputs,
        config: &config,
        snapshot,
        usages: &usages,
        speeds: &speeds,
        measures,
        outlook: &shared.outlook(snapshot, now_s),
        pause_s: shared.learn.pause_s(),
        done: &[],
        now_ms: now_ms(),
    };
    let mut method_plans = plan_methods(shared, snapshot, &round, steerers);
    let notes = method_plans.iter_mut().flat_map(|s| std::mem::take(&mut s.notes)).collect();
    let methods = method_plans.iter().map(|s| s.report.clone()).collect();
    let start_order = method_plans.iter().flat_map(|s| s.start_order.iter().copied()).collect();
    let deadline = started + Duration::from_millis(config.planner.deadline_ms);
    let inputs = Inputs {
        usages,
        tuning: shared.responder.settings().tuning.clone(),
        pending,
        memory_tracked: lock(&shared.poll).info.memory_tracked,
        jobs_max: requests_max,
        now_s,
        preferences: method_plans.into_iter().map(|s| (s.method, s.preferences)).collect(),
    };
    let made = plan(snapshot, inputs, &|| Instant::now() >= deadline);
    let mut state = lock(&shared.plan);
    state.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    state.plans += 1;
    let (plan, error) = match made {
        Ok(Plan { violation: Some(violation), .. }) => (None, Some(violation)),
        Ok(plan) => (Some(plan), None),
        Err(error) => (None, Some(error.to_string())),
    };
    if let Some(error) = &error {
        state.refused += 1;
        warn!("plan refused: {error}");
    }
    state.methods = methods;
    state.start_order = start_order;
    state.notes = notes;
    if let Some(plan) = plan {
        state.plan = Some(Arc::new(plan));
        state.snapshot = Some(Arc::clone(snapshot));
        state.made = Some(Instant::now());
        state.time_ms = now_ms();
    }
    state.last_error = error;
}

/// Lets every method plan, and hands its preferences to the link.
fn plan_methods(
    shared: &Shared,
    snapshot: &Snapshot,
    round: &Round<'_>,
    steerers: &mut [Box<dyn Steerer>],
) -> Vec<MethodPlan> {
    let mut all = Vec::new();
    for steerer in steerers {
        shared.turn(Beat::Plan);
        let started = Instant::now();
        let mut method_plan = steerer.plan(&Round { done: &all, ..*round });
        method_plan.report.took_ms =
            u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        shared.responder.set_preferences(
            method_plan.method,
            snapshot,
            method_plan.preferences.clone(),
        );
        steerer.in_force(round);
        all.push(method_plan);
    }
    all
}
