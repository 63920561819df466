// SPDX-License-Identifier: GPL-3.0-or-later
//! `[source]` and `[planner]`: reading the queue and planning it.

use super::section::section;

/// Pending jobs that one plan covers, highest priority first.
pub const PLAN_JOBS_MAX: usize = 2000;

section! {
    /// `[source]`: reading jobs and nodes from slurmctld.
    SourceConfig {
        /// Time between two reads of the queue and the nodes, and least time between two plans, in
        /// milliseconds.
        poll_ms: u64 = 1000,
    }
}

section! {
    /// `[planner]`: the worker that plans the pending jobs in the background.
    PlannerConfig {
        /// Longest time for which a method holds a job that Slurm could start, in seconds.
        hold_max_s: u64 = 3600,
    }
}
