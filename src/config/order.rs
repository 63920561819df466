// SPDX-License-Identifier: GPL-3.0-or-later
//! `[order]`: the order in which pending jobs start.

use serde::{Deserialize, Serialize};

use super::section::section;

/// Source of the preferred start order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    /// None: Slurm's own order.
    #[default]
    Off,
    /// The order that the methods ask for, then the jobs that the plan starts now.
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
        /// Source of the preferred start order.
        by: OrderBy = OrderBy::Off,
        /// Starts that may get ahead of one job.
        max_overtakes: u32 = 10,
        /// Seconds after a job was first passed from which on no other job passes it.
        max_delay_s: u64 = 3600,
    }
}
