// SPDX-License-Identifier: GPL-3.0-or-later
//! Orders of the waiting jobs, in which they may start.

use std::collections::BTreeSet;

use super::jobs::NodeJob;

/// The waiting jobs on nodes, in an order that the implementation decides. Ids grow with arrival.
pub trait Line {
    /// Adds a job that arrives at `submit_s`; one that holds nodes already does not wait.
    fn arrived(&mut self, id: u32, job: &NodeJob, submit_s: i64);

    /// Notes that a job started, or ran already.
    fn started(&mut self, id: u32, now_s: i64);

    /// A job ended.
    fn ended(&mut self, _id: u32, _job: &NodeJob, _now_s: i64) {}

    /// Notes that all ends and arrivals of a time are known.
    fn advance(&mut self, _now_s: i64) {}

    /// Time of the next event that is neither an end nor an arrival, if there is one.
    fn next_s(&self) -> Option<i64> {
        None
    }

    /// Seconds that a job is expected to hold its nodes.
    fn window_s(&self, job: &NodeJob) -> u64 {
        job.limit_s
    }

    /// The waiting jobs in the order in which they may start.
    fn order(&self) -> Box<dyn Iterator<Item = u32> + '_>;

    /// Whether no job waits.
    fn is_empty(&self) -> bool;
}

/// Jobs by arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct ByArrival(BTreeSet<u32>);

impl Line for ByArrival {
    fn arrived(&mut self, id: u32, job: &NodeJob, _: i64) {
        if job.held.is_none() {
            self.0.insert(id);
        }
    }

    fn started(&mut self, id: u32, _: i64) {
        self.0.remove(&id);
    }

    fn order(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        Box::new(self.0.iter().copied())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
