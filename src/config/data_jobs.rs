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
    /// None: inputs are not looked up.
    Off,
    /// By the end that they lead to.
    #[default]
    Best,
    /// The published weights, core by core; blocks migrate once all jobs are placed.
    Seed,
    /// `Seed`, but blocks migrate before a job is tried against the makespan.
    #[serde(rename = "seed-early")]
    SeedEarly,
    /// `Seed`, but blocks migrate at the very end.
    #[serde(rename = "seed-late")]
    SeedLate,
}

impl DataJobsConfig {
    /// The rule with its settings.
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
        /// Rule by which nodes are chosen.
        mode: DataMode = DataMode::Best,
        /// Longest time that a job is held back until its input was looked up, milliseconds.
        wait_ms: u32 = 10_000,
        /// Longest time that the jobs of one user hold one partition's queue for their inputs,
        /// seconds; it is had again within twenty times as long.
        hold_budget_s: u32 = 60,
        /// MB/s from another node.
        transfer_mb_per_s: f64 = 125.0,
        /// Datum of the data service that says which datasets a node holds, or `none`.
        caches: String = NONE.to_owned(),
        /// File that says which hosts hold which dataset; empty: none.
        locations: String = String::new(),
    }
}
