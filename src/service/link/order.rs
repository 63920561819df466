// SPDX-License-Identifier: GPL-3.0-or-later
//! The order of starts on its way: the plugin's report of the pending jobs,
//! and the deltas that the daemon wants.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use phalanx_ffi::wire::{self, Delta, PHX_ORDER_JOBS_MAX, Queue, QueueHead, Queued};

use crate::link::clock;
use phalanx_core::limits::ORDER_QUEUE_MAX;
use phalanx_ffi::locks::lock;
use phalanx_planner::cluster::RunningJob;

/// Time for which the plugin keeps deltas that are not renewed; within half a second after that it
/// ends them.
pub(super) const LEASE: Duration = Duration::from_secs(5);
/// Interval at which the plugin is told that the deltas still hold.
pub(super) const RENEW: Duration = Duration::from_secs(1);
/// Longest time without a sign of life of the order thread; after it the lease is left to end.
const SILENCE: Duration = Duration::from_secs(3);

/// The plugin's last report.
#[derive(Debug, Clone)]
pub struct QueueReport {
    /// Counters and state; of the newest message.
    pub head: QueueHead,
    /// Pending jobs that are not held.
    pub jobs: Arc<Vec<Queued>>,
    /// Counts whole reports of this connection and earlier ones.
    pub number: u64,
    /// Arrival of the newest message.
    pub received: Instant,
}

/// A set of deltas.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) generation: u64,
    pub(super) deltas: Arc<Vec<Delta>>,
    renewed: Instant,
}

impl Wanted {
    /// Whether the set's lease is to be renewed.
    pub(super) fn alive(&self) -> bool {
        clock::since(self.renewed) < SILENCE
    }
}

#[derive(Debug, Default)]
struct State {
    report: Option<QueueReport>,
    /// Jobs with a delta in the report, by ascending id.
    moved: Vec<(u32, i32)>,
    /// Jobs of a report that is not complete yet.
    parts: Option<Vec<Queued>>,
    number: u64,
    wanted: Option<Wanted>,
}

/// The report and the deltas between the link thread and the order thread.
#[derive(Debug, Default)]
pub struct OrderExchange {
    state: Mutex<State>,
}

impl OrderExchange {
    /// The plugin's last report, if the plugin is connected.
    pub fn report(&self) -> Option<QueueReport> {
        lock(&self.state).report.clone()
    }

    /// The delta of a job in the report, in which the tasks of an array have the id of its record;
    /// 0: none.
    pub(super) fn delta_of(&self, job: &RunningJob) -> i32 {
        let state = lock(&self.state);
        let of = |id: u32| state.moved.binary_search_by_key(&id, |moved| moved.0).ok();
        let found = of(job.id).or_else(|| of(job.array?.0));
        found.and_then(|at| state.moved.get(at)).map_or(0, |moved| moved.1)
    }

    /// Asks for deltas, by ascending job id, until further notice: to be called at least every
    /// [`SILENCE`], also with the same deltas.
    pub fn want(&self, deltas: &[(u32, i32)]) {
        let mut state = lock(&self.state);
        let deltas = &deltas[..deltas.len().min(PHX_ORDER_JOBS_MAX as usize)];
        let values = |delta: &Delta| (delta.job_id, delta.delta);
        match &mut state.wanted {
            Some(wanted) if wanted.deltas.iter().map(values).eq(deltas.iter().copied()) => {
                wanted.renewed = clock::now();
            }
            slot => {
                let generation = slot.as_ref().map_or(0, |w| w.generation) + 1;
                let one = |&(job_id, delta): &(u32, i32)| Delta { job_id, delta };
                let deltas = Arc::new(deltas.iter().map(one).collect());
                *slot = Some(Wanted { generation, deltas, renewed: clock::now() });
            }
        }
    }

    pub(super) fn wanted(&self) -> Option<Wanted> {
        lock(&self.state).wanted.clone()
    }

    /// Whether the plugin's newest report, if it is newer than `since`, shows another set of
    /// deltas: the plugin forgets its set when slurmctld reads its configuration.
    pub(super) fn lost(&self, generation: u64, since: Instant) -> bool {
        let state = lock(&self.state);
        let newer = state.report.as_ref().filter(|report| report.received > since);
        newer.is_some_and(|report| report.head.generation != generation)
    }

    /// Takes one part of a report.
    pub(super) fn take(&self, queue: &Queue<'_>) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let flags = queue.head.flags;
        if flags & wire::PHX_PART_SAME != 0 {
            if let Some(report) = &mut state.report {
                report.head = *queue.head;
                report.received = clock::now();
            }
            return;
        }
        if flags & wire::PHX_PART_FIRST != 0 {
            state.parts = Some(Vec::new());
        }
        // A part without a beginning is of no use; the next report is whole.
        let Some(parts) = &mut state.parts else { return };
        if parts.len() + queue.jobs.len() > ORDER_QUEUE_MAX {
            state.parts = None;
            return;
        }
        parts.extend_from_slice(queue.jobs);
        if flags & wire::PHX_PART_LAST != 0 {
            let jobs = Arc::new(state.parts.take().unwrap_or_default());
            state.number += 1;
            let number = state.number;
            let (head, received) = (*queue.head, clock::now());
            let moved = jobs.iter().filter(|job| head.active > 0 && job.delta != 0);
            state.moved = moved.map(|job| (job.job_id, job.delta)).collect();
            state.moved.sort_unstable();
            state.report = Some(QueueReport { head, jobs, number, received });
        }
    }

    /// Forgets the report, because the plugin is gone.
    pub(super) fn forget(&self) {
        let mut state = lock(&self.state);
        state.report = None;
        state.moved.clear();
        state.parts = None;
    }
}
