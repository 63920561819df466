// SPDX-License-Identifier: GPL-3.0-or-later
//! `[data_jobs]`: jobs that declare an input.

use serde::{Deserialize, Serialize};

use super::section::section;
use phalanx_messages::collect::NONE;
use phalanx_methods::data_jobs::bisect::rigid::Rule;

/// Rule by which the nodes of data jobs are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataMode {
    /// No rule: inputs are not looked up.
    Off,
    /// The improved rule: nodes by the expected end of the job.
    #[default]
    Best,
    /// The published weights, core by core; blocks migrate once all jobs are placed.
    Seed,
    /// `Seed`, except that blocks migrate before a job is tried against the makespan.
    #[serde(rename = "seed-early")]
    SeedEarly,
    /// `Seed`, except that blocks migrate at the very end.
    #[serde(rename = "seed-late")]
    SeedLate,
}

impl DataJobsConfig {
    /// Returns the rule with its settings.
    pub fn rule(&self) -> Rule {
        match self.mode {
            DataMode::Off | DataMode::Best => Rule::Best,
            DataMode::SeedEarly => Rule::Seed { moment: 1 },
            DataMode::Seed => Rule::Seed { moment: 2 },
            DataMode::SeedLate => Rule::Seed { moment: 3 },
        }
    }
}

section! {
    /// `[data_jobs]`: jobs that declare an input.
    DataJobsConfig {
        /// Rule by which the nodes of data jobs are chosen.
        mode: DataMode = DataMode::Best,
        /// Longest time that a job is held back until its input was looked up, in milliseconds.
        wait_ms: u32 = 10_000,
        /// Longest time that the jobs of one user hold one partition's queue for their inputs, in
        /// seconds; this budget refills within twenty times as long.
        hold_budget_s: u32 = 60,
        /// Rate at which input is read from another node, in MB/s.
        transfer_mb_per_s: f64 = 125.0,
        /// Datum of the data service that lists the datasets of each node, or `none`.
        caches: String = NONE.to_owned(),
        /// File that lists the hosts of each dataset; empty: none.
        locations: String = String::new(),
    }
}
