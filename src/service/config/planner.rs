// SPDX-License-Identifier: GPL-3.0-or-later
//! `[source]` and `[planner]`: how the daemon learns of the queue and plans it.

use serde::{Deserialize, Serialize};

/// `[source]`: how the daemon learns of jobs and nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceConfig {
    /// Time between two reads of the queue and the nodes, milliseconds.
    pub poll_ms: u64,
    /// Age at which what was read no longer counts, milliseconds.
    pub stale_after_ms: u64,
}

impl Default for SourceConfig {
    fn default() -> Self {
        SourceConfig { poll_ms: 1000, stale_after_ms: 10_000 }
    }
}

/// `[planner]`: the worker that plans the pending jobs in the background.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlannerConfig {
    /// Longest time that one plan may take, milliseconds.
    pub deadline_ms: u64,
    /// Pending jobs that one plan looks at, highest priority first.
    pub plan_jobs_max: u32,
    /// Shortest time from the start of one plan to the next, milliseconds.
    pub slot_ms: u64,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        PlannerConfig { deadline_ms: 200, plan_jobs_max: 2000, slot_ms: 1000 }
    }
}
