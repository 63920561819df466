// SPDX-License-Identifier: GPL-3.0-or-later
//! The order of starts as it was last decided.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use phalanx_core::number::nearest_u64;
use phalanx_ffi::wire::{OrderState, PHX_Q_FIXED, PHX_Q_QOSES, Queued};

use crate::link::QueueReport;
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::order::{JobOrder, OrderStatus};
use phalanx_planner::order::{Decision, Guard};

/// The last decision of the order thread, and the guard of waiting jobs.
#[derive(Debug, Default)]
pub struct StartOrder(Mutex<OrderView>);

#[derive(Debug, Default)]
pub struct OrderView {
    pub decision: Decision,
    pub guard: Guard,
    /// Forecasts of starts by job, Unix seconds: middle and end.
    pub starts: BTreeMap<u32, [i64; 2]>,
}

impl StartOrder {
    pub fn lock(&self) -> MutexGuard<'_, OrderView> {
        lock(&self.0)
    }

    pub fn status(&self, enabled: bool, report: Option<&QueueReport>) -> OrderStatus {
        let Some(report) = report else {
            let state = "no report".to_owned();
            return OrderStatus { enabled, state, ..OrderStatus::default() };
        };
        let view = self.lock();
        let head = &report.head;
        let state = OrderState::from_raw(head.state).map_or("unknown", OrderState::as_str);
        OrderStatus {
            enabled,
            state: state.to_owned(),
            pending: report.jobs.len() as u64,
            active: u64::from(head.active),
            decided: view.decision.deltas.len() as u64,
            overtaken: u64::from(view.decision.overtaken),
            passable_s: nearest_u64(view.guard.limit_s()),
            written: head.written,
            removed: head.removed,
            started: head.started,
            refused: head.refused,
            deferred: head.deferred,
            lock_holds: head.holds,
            lock_mean_ns: head.hold_ns.checked_div(head.holds).unwrap_or(0),
            lock_max_ns: head.hold_ns_max,
            read_holds: head.reads,
            read_mean_ns: head.read_ns.checked_div(head.reads).unwrap_or(0),
            read_max_ns: head.read_ns_max,
        }
    }

    /// Rank and delta of the jobs that the last decision names.
    pub fn places(&self) -> BTreeMap<u32, (Option<u32>, i32)> {
        self.lock().decision.jobs.iter().map(|(id, p)| (*id, (p.rank, p.delta))).collect()
    }

    /// The forecast of a job's start, Unix milliseconds: middle and end.
    pub fn start_ms(&self, job_id: u32) -> Option<[u64; 2]> {
        let found = self.lock().starts.get(&job_id).copied()?;
        Some(found.map(|at_s| at_s.max(0).unsigned_abs().saturating_mul(1000)))
    }

    /// The place of one pending job that is in the plugin's report.
    pub fn of_job(&self, report: &QueueReport, job_id: u32) -> Option<JobOrder> {
        let job = report.jobs.iter().find(|j| j.job_id == job_id)?;
        let view = self.lock();
        let placed = view.decision.jobs.get(&job_id).copied().unwrap_or_default();
        Some(JobOrder {
            rank: placed.rank,
            delta: placed.delta,
            delta_now: job.delta,
            priority: job.priority,
            passes: placed.passes,
            due_s: view.guard.due_s(job_id).and_then(|at_s| u64::try_from(at_s).ok()),
            stop: placed.stop.map(|(stop, _)| stop.as_str().to_owned()).or_else(|| fixed(job)),
            stop_job: placed.stop.map(|(_, job)| job).filter(|job| *job != 0),
        })
    }
}

/// Returns the reason why a job keeps its place whatever start order the methods ask for.
fn fixed(job: &Queued) -> Option<String> {
    if job.flags & PHX_Q_FIXED != 0 {
        Some("an administrator set the job's priority".to_owned())
    } else if job.flags & PHX_Q_QOSES != 0 {
        Some("the job asks for several QOSes".to_owned())
    } else {
        None
    }
}
