// SPDX-License-Identifier: GPL-3.0-or-later
//! Ends of running jobs and arrivals of others, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events that are to come, of jobs that are numbered by arrival.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events {
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    arrived: u32,
    ended: usize,
}

impl Events {
    /// The earlier of the next end and `arrival_s`, the time of the next arrival.
    pub(crate) fn next_s(&self, arrival_s: Option<i64>) -> Option<i64> {
        let end_s = self.ends.peek().map(|Reverse((end_s, _))| *end_s);
        arrival_s.into_iter().chain(end_s).min()
    }

    /// Number of the job that arrives next.
    pub(crate) fn arriving(&self) -> u32 {
        self.arrived
    }

    /// Moves on to the next arrival, and returns the number of the job that arrives.
    pub(crate) fn arrive(&mut self) -> u32 {
        self.arrived += 1;
        self.arrived - 1
    }

    /// Plans the end of a job that starts.
    pub(crate) fn end_at(&mut self, id: u32, end_s: i64) {
        self.ends.push(Reverse((end_s, id)));
    }

    /// Takes the next job whose end is not later than `now_s`.
    pub(crate) fn end(&mut self, now_s: i64) -> Option<u32> {
        let Reverse((end_s, id)) = *self.ends.peek()?;
        if end_s > now_s {
            return None;
        }
        self.ends.pop();
        self.ended += 1;
        Some(id)
    }

    /// Number of jobs that run.
    pub(crate) fn running(&self) -> usize {
        self.ends.len()
    }

    /// Number of jobs that ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended
    }
}
