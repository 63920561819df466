// SPDX-License-Identifier: GPL-3.0-or-later
//! `[data_jobs]`: jobs that declare an input.

use serde::{Deserialize, Serialize};

use super::section::section;
use phalanx_messages::collect::{HISTORY, NONE};
use phalanx_methods::data_jobs::bisect::rigid::Rule;

/// Rule by which the nodes of data jobs are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataMode {
    /// By the end that they lead to.
    #[default]
    Best,
    /// The published weights, core by core.
    Seed,
}

impl DataJobsConfig {
    /// The rule with its settings.
    pub fn rule(&self) -> Rule {
        match self.mode {
            DataMode::Best => Rule::Best,
            DataMode::Seed => Rule::Seed { moment: self.moment },
        }
    }
}

section! {
    /// `[data_jobs]`: jobs that declare an input.
    DataJobsConfig {
        /// Inputs are looked up.
        enabled: bool = true,
        /// Rule by which nodes are chosen.
        mode: DataMode = DataMode::Best,
        /// Of mode `seed`: point at which blocks migrate, 1 to 3.
        moment: u8 = 2,
        /// Longest time that a job is held back until its input was looked up, milliseconds.
        wait_ms: u32 = 10_000,
        /// Longest time that `locality=require` waits for the nodes of the input, seconds.
        require_wait_s: u32 = 600,
        /// Longest time that the jobs of one user hold one partition's queue for their inputs,
        /// seconds; it is had again within twenty times as long.
        hold_budget_s: u32 = 60,
        /// Part of the bytes that could be local which may be read remotely for balance.
        remote_share: f64 = 0.03,
        /// Datum by which nodes get more or less of the input; `history`: the learned speed of
        /// the job's class; `none`: all alike.
        capability: String = HISTORY.to_owned(),
        /// Substitute where the datum is stale; `none`: such nodes count as the median of the
        /// others.
        capability_fallback: String = HISTORY.to_owned(),
        /// MB/s from another node.
        transfer_mb_per_s: f64 = 125.0,
        /// MB/s of one core, where nothing is learned.
        speed_mb_per_s: f64 = 50.0,
        /// Speed lost per further core, where nothing is learned.
        alpha: f64 = 0.05,
        /// Datum of the data service that says which datasets a node holds, or `none`.
        caches: String = NONE.to_owned(),
        /// File that says which hosts hold which dataset; empty: none.
        locations: String = String::new(),
        /// Longest time of one plan of these jobs, milliseconds.
        deadline_ms: u32 = 300,
    }
}
