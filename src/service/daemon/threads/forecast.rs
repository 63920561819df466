// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `forecast` forecasts when waiting jobs start.
//!
//! Each pool of partitions is run forward in what is scarce there. What came of the forecasts, the
//! runs and the arrivals behind them are of this daemon's time: it begins anew at each start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::daemon::shared::Shared;
use crate::sync::sleep_until;
use phalanx_core::reason::WaitsFor;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_ffi::clock::now_s;
use phalanx_methods::learn::runtime::{NO_LIMIT_S, name_id};
use phalanx_planner::order::{Ahead, Forecasts, Rank, Request, Scarcity, competes};
use phalanx_planner::pending::{is_possible, waits_for};
use phalanx_planner::usage::NodeUsage;

/// Shortest time between two rounds.
const ROUND_MIN: Duration = Duration::from_secs(5);
/// Number of times the length of a round that lies between the beginnings of two: 5 % of a core.
const CPU_PART: u32 = 20;
/// Monte Carlo runs per pool and round; fewer once [`TIME_MAX`] is spent.
const DRAWS: usize = 40;
/// Most waiting tasks of an array that are simulated; further tasks are ignored.
const TASKS_MAX: u64 = 1_000;
/// Time for the runs of all pools in one round.
const TIME_MAX: Duration = Duration::from_millis(1500);

/// A job that waits or runs.
struct Known {
    user: u64,
    mean_s: f64,
    start_s: Option<i64>,
}

pub fn run(all: &Shared, stop: &AtomicBool) {
    let (mut forecasts, mut known) = (Forecasts::default(), None);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        if let Some(snapshot) = all.cluster.snapshot() {
            let mean_s = |job: &Job| all.learned.prediction(job).mean_s;
            let starts = round(&snapshot, now_s(), &mut known, &mut forecasts, &mean_s);
            all.order.lock().starts = starts;
        }
        sleep_until(began + ROUND_MIN.max(began.elapsed() * CPU_PART), stop);
    }
}

/// Looks at what has changed, then forecasts the starts, Unix seconds: middle and end.
fn round(
    snapshot: &Snapshot,
    now_s: i64,
    known: &mut Option<BTreeMap<u32, Known>>,
    forecasts: &mut Forecasts,
    mean_s: &dyn Fn(&Job) -> f64,
) -> BTreeMap<u32, [i64; 2]> {
    let began = Instant::now();
    let runs = |job: &&Job| matches!(job.state, JobState::Running | JobState::Suspended);
    let asks = |job: &&Job| runs(job) || competes(job);
    let scarcity = Scarcity::of(snapshot, snapshot.all_jobs().filter(asks));
    let scarcest: BTreeMap<u32, usize> = scarcity.scarcest().collect();
    let is_first = known.is_none();
    let known = known.get_or_insert_default();
    let queue = snapshot.queued();
    let going = snapshot.all_jobs().filter(runs).chain(queue.filter(|job| competes(job)));
    let mut pools: BTreeMap<u32, Vec<Ahead>> = BTreeMap::new();
    for job in going {
        let pool = scarcity.pool_of(job);
        let size = scarcest.get(&pool).map_or(0, |at| scarcity.size(job, *at));
        let limit_s = job.time_limit_min.map_or(NO_LIMIT_S, |min| u64::from(min.max(1)) * 60);
        let request = Request { id: job.id, size, limit_s, rank: Rank::ARRIVAL };
        let one = known.entry(job.id).or_insert_with(|| {
            let (user, mean_s) = (name_id(&job.user), mean_s(job));
            // Tasks that leave their array to start came with it.
            if !is_first && (job.array_job_id.is_none() || competes(job)) {
                forecasts.arrived(now_s, pool, request, user, mean_s);
            }
            Known { user, mean_s, start_s: None }
        });
        let is_waiting = job.state == JobState::Pending;
        if !is_waiting && one.start_s.is_none() {
            one.start_s = Some(job.start_s);
            let told = [Some(job.id), job.array_job_id];
            told.into_iter().flatten().for_each(|id| forecasts.started(id, job.start_s));
        }
        let ran_s = now_s.saturating_sub(job.start_s + job.suspended_s).max(0).unsigned_abs();
        let ran_s = (!is_waiting).then_some(ran_s);
        let ahead = Ahead { job: request, user: one.user, mean_s: one.mean_s, ran_s };
        let tasks = if is_waiting { job.task_count.clamp(1, TASKS_MAX) } else { 1 };
        pools.entry(pool).or_default().extend((0..tasks).map(|_| ahead));
    }
    let ids: BTreeSet<u32> = pools.values().flatten().map(|ahead| ahead.job.id).collect();
    known.retain(|id, one| {
        let run_s = snapshot.job(*id).map_or(now_s, |job| job.end_s - job.suspended_s);
        let run_s = one.start_s.map(|start_s| run_s.min(now_s).abs_diff(start_s));
        let goes_on = ids.contains(id);
        run_s
            .filter(|_| !goes_on)
            .into_iter()
            .for_each(|s| forecasts.ended(one.user, one.mean_s, s));
        goes_on
    });
    forecasts.retain(|id| ids.contains(&id));
    let mut starts = BTreeMap::new();
    for (pool, jobs) in &pools {
        let held = jobs.iter().filter(|ahead| ahead.ran_s.is_some()).map(|ahead| ahead.job.size);
        let total = scarcest.get(pool).map_or(0, |at| scarcity.total(*pool, *at));
        let total = total.max(held.sum());
        let time_is_up = || began.elapsed() > TIME_MAX;
        let found = forecasts.of_pool(now_s, (*pool, total), jobs, DRAWS, &time_is_up);
        starts.extend(found.into_iter().map(|(id, start)| {
            (id, [start.median_s, start.by_s].map(|s| now_s.saturating_add(s)))
        }));
    }
    // A job whose nodes are down, or that waits for a reservation's end or never starts, starts at
    // no time that others' ends tell.
    let usages = NodeUsage::of_snapshot(snapshot);
    let is_told = |job: &Job| {
        waits_for(snapshot, &usages, job, now_s) == WaitsFor::Nodes
            && is_possible(snapshot, &usages, job, now_s)
    };
    starts.retain(|id, _| snapshot.job(*id).is_none_or(is_told));
    starts
}
