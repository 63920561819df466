// SPDX-License-Identifier: GPL-3.0-or-later
//! `[order]`: the order in which pending jobs start.

use serde::{Deserialize, Serialize};

use super::section::section;

/// Source of the preferred start order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    /// The order that the methods ask for, then the jobs that the plan starts now.
    #[default]
    Plan,
    /// The jobs with the shortest time limit.
    Shortest,
    /// The jobs with the shortest predicted runtime, of those below an hour.
    Learned,
    /// At dear hours those that are expected to take little energy, at cheap ones the others.
    Price,
}

section! {
    /// `[order]`: deltas on the `site_factor` of pending jobs.
    OrderConfig {
        /// The order of starts is changed.
        enabled: bool = false,
        /// Source of the preferred start order.
        by: OrderBy = OrderBy::Plan,
        /// Largest delta, priority points.
        max_delta: u32 = 10_000,
        /// Starts that may get ahead of one job.
        max_overtakes: u32 = 10,
        /// Seconds after a job was first passed from which on no other job passes it.
        max_delay_s: u64 = 3600,
        /// Shortest time between two changes, milliseconds.
        interval_ms: u64 = 1000,
    }
}
