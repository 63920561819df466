// SPDX-License-Identifier: GPL-3.0-or-later
//! `[order]`: the order in which pending jobs start.

use serde::{Deserialize, Serialize};

use super::section::section;

/// Source of the preferred start order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    /// No source: Slurm's own order.
    #[default]
    Off,
    /// The order that the methods ask for, then the jobs that the plan starts now.
    Plan,
    /// First the jobs with the shortest time limit.
    Shortest,
    /// First the jobs with the shortest predicted runtime, if that is below an hour.
    Learned,
    /// First the jobs of least expected energy while the price is high, the others while it is low.
    Price,
}

section! {
    /// `[order]`: deltas on the `site_factor` of pending jobs.
    OrderConfig {
        /// Source of the preferred start order.
        by: OrderBy = OrderBy::Off,
        /// Number of starts that may overtake one job.
        max_overtakes: u32 = 10,
        /// Time after a job was first overtaken at which no other job may overtake it, in seconds.
        max_delay_s: u64 = 3600,
    }
}
