// SPDX-License-Identifier: GPL-3.0-or-later
//! The budget that ends a search.

use serde::Serialize;

/// Reason for which a search ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// The search ended at the deadline, so its result may differ from run to run.
    Deadline,
    /// The search ended at its limit of work, so that the answer is repeatable.
    Limit,
}

/// Work left, in units of some nanoseconds, and the deadline.
pub(super) struct Budget<'a> {
    left: u64,
    expired: &'a (dyn Fn() -> bool + 'a),
    /// Units until the clock is asked again.
    until_check: u64,
    /// Whether the deadline has passed.
    pub(super) deadline: bool,
}

/// Units between two readings of the clock; well below 1 ms.
const CHECK_EVERY: u64 = 100_000;

impl<'a> Budget<'a> {
    /// A budget of `left` units; `expired` says whether the deadline has passed.
    pub(super) fn new(left: u64, expired: &'a (dyn Fn() -> bool + 'a)) -> Self {
        Self { left, expired, until_check: 0, deadline: false }
    }

    /// Sets the units that are left; a passed deadline stays passed.
    pub(super) fn refill(&mut self, left: u64) {
        self.left = left;
    }

    /// Takes `units`; returns false when the search must end.
    pub(super) fn spend(&mut self, units: usize) -> bool {
        let units = units as u64;
        if self.deadline || self.left < units {
            self.left = 0;
            return false;
        }
        self.left -= units;
        if self.until_check <= units {
            self.until_check = CHECK_EVERY;
            self.deadline = (self.expired)();
        } else {
            self.until_check -= units;
        }
        !self.deadline
    }

    /// Reason for which a search is over.
    pub(super) fn reason(&self) -> Stopped {
        if self.deadline { Stopped::Deadline } else { Stopped::Limit }
    }

    /// Whether the search must end.
    pub(super) fn is_over(&self) -> bool {
        self.deadline || self.left == 0
    }
}
