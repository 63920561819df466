// SPDX-License-Identifier: GPL-3.0-or-later
//! The methods that steer: each plans in its own way, in the plan thread.
//!
//! A method joins by one more entry in [`all`]; what it hands back goes to the
//! link, where [`steer::decide`](crate::planner::steer::decide) follows it.

use crate::config::Config;
use crate::planner::room::Room;
use crate::planner::steer::Steering;
use crate::snapshot::Snapshot;

/// What a round of planning is made from.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code)] // Until the first method joins.
pub(super) struct Round<'a> {
    /// Configuration in force.
    pub(super) config: &'a Config,
    /// Queue and nodes.
    pub(super) snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub(super) rooms: &'a [Room],
    /// Unix milliseconds.
    pub(super) now_ms: u64,
}

/// A method; it may keep what helps its next round.
pub(super) trait Steerer: Send {
    /// Plans the pending jobs.
    fn plan(&mut self, round: &Round<'_>) -> Steering;
}

/// Every method, in the order in which they plan.
pub(super) fn all() -> Vec<Box<dyn Steerer>> {
    Vec::new()
}
