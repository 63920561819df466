// SPDX-License-Identifier: GPL-3.0-or-later
//! `[bag]`: job arrays by time and energy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use phalanx_core::collect::NONE;

/// Which form of the bag method plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagMode {
    /// Never below any other.
    #[default]
    Best,
    /// The published rule.
    Seed,
    /// The optimum of each array.
    Exact,
    /// The same in whole tasks.
    Integer,
    /// In the proportions of the offline optimum.
    Template,
    /// Each array where it takes the least energy.
    Greedy,
    /// Each array in equal parts.
    Average,
}

/// What arrays do whose price does not cover their energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagLoss {
    /// Run where they cost least.
    #[default]
    Run,
    /// Wait for cheaper hours.
    Wait,
}

/// `[bag]`: job arrays by time and energy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BagConfig {
    /// Whether arrays are planned.
    pub enabled: bool,
    /// Which form of the method plans.
    pub mode: BagMode,
    /// Whether tasks rather wait than go where the plan does not want them.
    pub hold: bool,
    /// Longest wait for that reason, seconds.
    pub hold_max_s: u64,
    /// Money per kWh.
    pub energy_price: f64,
    /// Money per kWh from an hour of the day on; empty: always `energy_price`.
    pub tariff: BTreeMap<String, f64>,
    /// Money per task.
    pub task_price: f64,
    /// Money per hour of a unit of each resource, by dimension name; memory by GiB.
    pub price: BTreeMap<String, f64>,
    /// What a task without any price earns, in least energy costs.
    pub margin: f64,
    /// Power of a fully used node, watts, by feature or class of nodes.
    pub watts: BTreeMap<String, f64>,
    /// Power of an idle node, likewise.
    pub idle_watts: BTreeMap<String, f64>,
    /// Datum with the power of each node, watts; `none`: there is none.
    pub power_w: String,
    /// What loss-making arrays do.
    pub loss: BagLoss,
    /// Longest wait of these since their submission, seconds.
    pub wait_max_s: u64,
    /// Greatest mean power of a plan above idle, watts; 0 for no limit.
    pub power_cap_w: f64,
}

impl Default for BagConfig {
    fn default() -> Self {
        BagConfig {
            enabled: true,
            mode: BagMode::Best,
            hold: false,
            hold_max_s: 3600,
            energy_price: 0.3,
            tariff: BTreeMap::new(),
            task_price: 0.0,
            price: BTreeMap::new(),
            margin: 1.3,
            watts: BTreeMap::new(),
            idle_watts: BTreeMap::new(),
            power_w: NONE.to_owned(),
            loss: BagLoss::Run,
            wait_max_s: 3600,
            power_cap_w: 0.0,
        }
    }
}
