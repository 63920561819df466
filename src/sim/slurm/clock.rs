// SPDX-License-Identifier: GPL-3.0-or-later
//! Times at which slurmctld looks at the queue: the main pass after an end at once and after a
//! submission within `batch_sched_delay`, backfill every `bf_interval` if anything has changed,
//! and the daemon's order of starts a moment after a change.

use super::Parameters;

/// Interval, seconds, at which waiting threads of slurmctld look again.
const POLL_S: i64 = 1;

/// Times of the next passes.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    parameters: Parameters,
    main_s: Option<i64>,
    /// The next main pass through the whole queue.
    full_s: Option<i64>,
    backfill_s: Option<i64>,
    order_s: Option<i64>,
    last_main_s: i64,
    last_backfill_s: i64,
}

/// Passes that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) order: bool,
    /// Number of jobs that the main pass looks at; 0: no main pass is due.
    pub(crate) main: usize,
    pub(crate) backfill: bool,
}

impl Clock {
    pub(crate) fn new(parameters: &Parameters, ordered: bool) -> Self {
        Self {
            parameters: parameters.clone(),
            main_s: None,
            full_s: None,
            backfill_s: None,
            order_s: ordered.then_some(i64::MAX),
            last_main_s: i64::MIN / 2,
            last_backfill_s: i64::MIN / 2,
        }
    }

    /// Time of the earliest pass: of orders, main or backfill.
    pub(crate) fn next_s(&self) -> Option<i64> {
        let order = self.order_s.filter(|at| *at < i64::MAX);
        [self.main_s, self.full_s, self.backfill_s, order].into_iter().flatten().min()
    }

    /// Takes the passes that are due at a time.
    pub(crate) fn take(&mut self, now_s: i64) -> Due {
        let due = |at: Option<i64>| at.is_some_and(|at| at <= now_s);
        let found = Due {
            order: due(self.order_s),
            main: match (due(self.full_s), due(self.main_s)) {
                (true, _) => usize::MAX,
                (_, true) => self.parameters.queue_depth.saturating_add(1),
                _ => 0,
            },
            backfill: due(self.backfill_s),
        };
        if found.order {
            self.order_s = Some(i64::MAX);
        }
        if found.main > 0 {
            (self.main_s, self.full_s) = (None, self.full_s.filter(|at| *at > now_s));
            self.last_main_s = now_s;
        }
        if found.backfill {
            self.backfill_s = None;
            self.last_backfill_s = now_s;
        }
        found
    }

    /// Notes that a job was submitted and waits.
    pub(crate) fn submitted(&mut self, now_s: i64) {
        let at_s = self.last_main_s.saturating_add(self.parameters.batch_sched_delay_s);
        self.main_by(at_s.max(now_s + POLL_S));
        self.changed(now_s);
    }

    /// Notes that a job ended while others wait.
    pub(crate) fn ended(&mut self, now_s: i64) {
        if self.parameters.defer {
            self.submitted(now_s);
        } else {
            self.main_by(now_s);
            self.changed(now_s);
        }
    }

    /// Notes that the daemon decided: whether priorities changed, which alone starts no main pass,
    /// and when to decide again.
    pub(crate) fn decided(&mut self, (changed, next_s): (bool, Option<i64>), now_s: i64) {
        if changed {
            self.left(now_s);
            self.changed(now_s);
        }
        next_s.into_iter().for_each(|at_s| self.reorder_at(at_s));
    }

    /// Notes that a job is left to the next pass through the whole queue.
    pub(crate) fn left(&mut self, now_s: i64) {
        let at_s = now_s + self.parameters.sched_interval_s;
        self.full_s = Some(self.full_s.map_or(at_s, |at| at.min(at_s)));
    }

    /// Has the order decided again at a time.
    pub(crate) fn reorder_at(&mut self, at_s: i64) {
        self.order_s = self.order_s.map(|at| at.min(at_s));
    }

    fn main_by(&mut self, at_s: i64) {
        self.main_s = Some(self.main_s.map_or(at_s, |at| at.min(at_s)));
    }

    fn changed(&mut self, now_s: i64) {
        if let Some(interval_s) = self.parameters.bf_interval_s {
            let at_s = self.last_backfill_s.saturating_add(interval_s).max(now_s + POLL_S);
            self.backfill_s = Some(self.backfill_s.map_or(at_s, |at| at.min(at_s)));
        }
        self.reorder_at(now_s + POLL_S);
    }
}
