// SPDX-License-Identifier: GPL-3.0-or-later
//! `[gang]`: multi-node and het jobs where their type is fastest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::section;
use phalanx_messages::collect::HISTORY;
use phalanx_methods::gang::GaParams;
use phalanx_methods::learn::{BONUS_SCALE_SHIPPED, Growth};

/// Form of the gang method that plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GangMode {
    /// The genetic algorithm on whole gangs, with a certified gap.
    #[default]
    #[serde(alias = "best")]
    Ga,
    /// The published genetic algorithm.
    Seed,
}

/// What a plan's choice of gangs means for the gangs that it leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// Slurm starts them as ever.
    #[default]
    Advise,
    /// Those that are worth less than their cost wait, within limits.
    Enforce,
}

section! {
    /// `[gang]`: multi-node and het jobs where their type is fastest.
    GangConfig {
        /// Gangs are planned.
        enabled: bool = true,
        /// Form of the method that plans.
        mode: GangMode = GangMode::Ga,
        /// Longest time of the search of one plan, milliseconds.
        deadline_ms: u64 = 100,
        /// Seed of the search.
        seed: u64 = 1,
        /// Threads of the search.
        threads: u32 = 1,
        /// Growth of the preference for little-tried nodes.
        g: Growth = Growth::Source,
        /// Strength of the preference for little-tried nodes; 0 never explores.
        bonus_scale: f64 = BONUS_SCALE_SHIPPED,
        /// Additional weight of a job of the highest priority over one of none.
        priority_weight: f64 = 1.0,
        /// Value of a unit of each resource, by dimension name; memory by GiB. Empty: by the
        /// TRESBillingWeights of the partitions.
        billing: BTreeMap<String, f64> = BTreeMap::new(),
        /// Maintenance cost of a unit of each resource, likewise.
        cost: BTreeMap<String, f64> = BTreeMap::new(),
        /// Whether gangs that are worth less than their cost wait.
        admission: Admission = Admission::Advise,
        /// Longest time that one of them waits for that, seconds.
        hold_max_s: u64 = 300,
        /// Longest time for which those of one user hold one partition, seconds.
        hold_budget_s: u64 = 600,
        /// Multiple that jobs of a QOS pay, by its name; 1 where it is not listed.
        qos: BTreeMap<String, f64> = BTreeMap::new(),
        /// Datum with the speed of jobs on a node; `history`: the learned speed of their type;
        /// `configuration`: CPUs.
        speed: String = HISTORY.to_owned(),
        /// Substitute where the datum is stale.
        speed_fallback: String = HISTORY.to_owned(),
        /// Parameters of mode `ga`.
        ga: GaParams = GaParams::default(),
    }
}
