// SPDX-License-Identifier: GPL-3.0-or-later
//! `[bag]`: job arrays by time and energy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::section;

/// Form of the bag method that plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagMode {
    /// None: arrays are left to the other methods.
    Off,
    /// Never below any other form.
    #[default]
    Best,
    /// The published rule, one array after the other.
    Seed,
}

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
        /// Form of the method that plans arrays, if they are planned.
        mode: BagMode = BagMode::Best,
        /// Tasks wait for the planned nodes instead of starting on others.
        hold: bool = false,
        /// Money per task.
        task_price: f64 = 0.0,
        /// Earnings of a task without any price, as a multiple of its least energy cost.
        margin: f64 = 1.3,
        /// Power of a fully used node, watts, by feature or class of nodes.
        watts: BTreeMap<String, f64> = BTreeMap::new(),
        /// Treatment of loss-making arrays.
        loss: BagLoss = BagLoss::Run,
        /// Greatest mean power of a plan above idle, watts; 0 for no limit.
        power_cap_w: f64 = 0.0,
    }
}
