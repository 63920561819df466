// SPDX-License-Identifier: GPL-3.0-or-later
//! `[source]` and `[planner]`: reading the queue and planning it.

use super::section::section;

section! {
    /// `[source]`: reading jobs and nodes from slurmctld.
    SourceConfig {
        /// Time between two reads of the queue and the nodes, milliseconds.
        poll_ms: u64 = 1000,
        /// Age at which a read no longer counts, milliseconds.
        stale_after_ms: u64 = 10_000,
    }
}

section! {
    /// `[planner]`: the worker that plans the pending jobs in the background.
    PlannerConfig {
        /// Longest time that one plan may take, milliseconds.
        deadline_ms: u64 = 200,
        /// Pending jobs that one plan looks at, highest priority first.
        plan_jobs_max: u32 = 2000,
        /// Shortest time from the start of one plan to the next, milliseconds.
        slot_ms: u64 = 1000,
    }
}
