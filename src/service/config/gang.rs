// SPDX-License-Identifier: GPL-3.0-or-later
//! `[gang]`: multi-node and het jobs where their type is fastest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use phalanx_core::collect::HISTORY;
use phalanx_methods::gang::GaParams;
use phalanx_methods::learn::BONUS_SCALE_SHIPPED;

/// Which form of the gang method plans.
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

/// `[gang]`: multi-node and het jobs where their type is fastest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GangConfig {
    /// Whether gangs are planned.
    pub enabled: bool,
    /// Which form of the method plans.
    pub mode: GangMode,
    /// Longest time of the search of one plan, milliseconds.
    pub deadline_ms: u64,
    /// Seed of the search.
    pub seed: u64,
    /// Threads of the search.
    pub threads: u32,
    /// How strongly little-tried nodes are preferred; 0 never explores.
    pub bonus_scale: f64,
    /// How much more a job of the highest priority counts than one of none.
    pub priority_weight: f64,
    /// Value of a unit of each resource, by dimension name; memory by GiB. Empty: by the
    /// TRESBillingWeights of the partitions.
    pub billing: BTreeMap<String, f64>,
    /// Maintenance cost of a unit of each resource, likewise.
    pub cost: BTreeMap<String, f64>,
    /// What jobs of a QOS pay, as a multiple, by its name; 1 where it is not listed.
    pub qos: BTreeMap<String, f64>,
    /// Datum that says how fast jobs run on a node; `history`: what was learned
    /// of their type; `configuration`: CPUs.
    pub speed: String,
    /// What stands in where it is stale.
    pub speed_fallback: String,
    /// Parameters of mode `ga`.
    pub ga: GaParams,
}

impl Default for GangConfig {
    fn default() -> Self {
        GangConfig {
            enabled: true,
            mode: GangMode::Ga,
            deadline_ms: 100,
            seed: 1,
            threads: 1,
            bonus_scale: BONUS_SCALE_SHIPPED,
            priority_weight: 1.0,
            billing: BTreeMap::new(),
            cost: BTreeMap::new(),
            qos: BTreeMap::new(),
            speed: HISTORY.to_owned(),
            speed_fallback: HISTORY.to_owned(),
            ga: GaParams::default(),
        }
    }
}
