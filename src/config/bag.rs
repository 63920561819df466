// SPDX-License-Identifier: GPL-3.0-or-later
//! `[bag]`: job arrays by time and energy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::section;
use phalanx_messages::collect::NONE;
pub use phalanx_methods::bag::Mode as BagMode;

/// Treatment of arrays whose price does not cover their energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagLoss {
    /// They run where they cost least.
    #[default]
    Run,
    /// They wait for cheaper hours.
    Wait,
}

section! {
    /// `[bag]`: job arrays by time and energy.
    BagConfig {
        /// Arrays are planned.
        enabled: bool = true,
        /// Form of the method that plans.
        mode: BagMode = BagMode::Best,
        /// Tasks wait for the planned nodes instead of starting on others.
        hold: bool = false,
        /// Longest wait for the planned nodes, seconds.
        hold_max_s: u64 = 3600,
        /// Money per kWh.
        energy_price: f64 = 0.3,
        /// Money per kWh from an hour of the day on; empty: always `energy_price`.
        tariff: BTreeMap<String, f64> = BTreeMap::new(),
        /// Money per task.
        task_price: f64 = 0.0,
        /// Money per hour of a unit of each resource, by dimension name; memory by GiB.
        price: BTreeMap<String, f64> = BTreeMap::new(),
        /// Earnings of a task without any price, as a multiple of its least energy cost.
        margin: f64 = 1.3,
        /// Power of a fully used node, watts, by feature or class of nodes.
        watts: BTreeMap<String, f64> = BTreeMap::new(),
        /// Power of an idle node, likewise.
        idle_watts: BTreeMap<String, f64> = BTreeMap::new(),
        /// Datum with the power of each node, watts; `none`: there is none.
        power_w: String = NONE.to_owned(),
        /// Treatment of loss-making arrays.
        loss: BagLoss = BagLoss::Run,
        /// Longest wait of loss-making arrays since their submission, seconds.
        wait_max_s: u64 = 3600,
        /// Greatest mean power of a plan above idle, watts; 0 for no limit.
        power_cap_w: f64 = 0.0,
    }
}

impl BagConfig {
    /// Money per kWh at an hour of the day: the tariff's latest entry, which before its first
    /// one is the last of the day before.
    pub fn price_at(&self, hour: i8) -> f64 {
        let row = |(from, price): (&String, &f64)| Some((from.parse().ok()?, *price));
        let mut hours: Vec<(i8, f64)> = self.tariff.iter().filter_map(row).collect();
        hours.sort_by_key(|(from, _)| *from);
        let before = hours.iter().rev().find(|(from, _)| *from <= hour).or(hours.last());
        before.map_or(self.energy_price, |(_, price)| *price)
    }
}
