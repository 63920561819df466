// SPDX-License-Identifier: GPL-3.0-or-later
//! `[bag]`: job arrays by time and energy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::section;

/// Form of the bag method that plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagMode {
    /// No plans: arrays are left to the other methods.
    Off,
    /// The improved rule; never a worse result than any other form.
    #[default]
    Best,
    /// The published rule, one array after the other.
    Seed,
}

/// Event for which the tasks of an array wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagHold {
    /// No wait: the plan is a preference.
    #[default]
    Never,
    /// Wait for the nodes of the plan.
    Plan,
    /// Wait for the nodes of the plan, and for a cheaper hour where the array makes a loss now.
    Price,
}

section! {
    /// `[bag]`: job arrays by time and energy.
    BagConfig {
        /// Form of the method that plans arrays.
        mode: BagMode = BagMode::Best,
        /// Event for which tasks wait instead of starting at once.
        hold: BagHold = BagHold::Never,
        /// Money per task.
        task_price: f64 = 0.0,
        /// Power of a fully used node, in watts, by feature or class of nodes.
        watts: BTreeMap<String, f64> = BTreeMap::new(),
    }
}
