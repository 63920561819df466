// SPDX-License-Identifier: GPL-3.0-or-later
//! `[order]`: the order in which pending jobs start.

use serde::{Deserialize, Serialize};

/// Where the wished sequence comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    /// The methods' wishes, then the jobs that the plan starts now.
    #[default]
    Plan,
    /// The jobs with the shortest time limit.
    Shortest,
    /// The jobs with the shortest predicted runtime, of those below an hour.
    Learned,
}

/// `[order]`: deltas on the `site_factor` of pending jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrderConfig {
    /// Whether the order of starts is changed at all.
    pub enabled: bool,
    /// Where the wished sequence comes from.
    pub by: OrderBy,
    /// Largest delta, priority points.
    pub max_delta: u32,
    /// Starts that may get ahead of one job.
    pub max_overtakes: u32,
    /// Seconds after the first time that a job was passed, from which on none
    /// passes it.
    pub max_delay_s: u64,
    /// Shortest time between two changes, milliseconds.
    pub interval_ms: u64,
}

impl Default for OrderConfig {
    fn default() -> Self {
        OrderConfig {
            enabled: false,
            by: OrderBy::Plan,
            max_delta: 10_000,
            max_overtakes: 10,
            max_delay_s: 3600,
            interval_ms: 1000,
        }
    }
}
