// SPDX-License-Identifier: GPL-3.0-or-later
//! `[gang]`: multi-node and het jobs where their type is fastest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::section;

/// Form of the gang method that plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GangMode {
    /// No plans: balance alone chooses the nodes of gangs.
    Off,
    /// The genetic algorithm on whole gangs, with a certified gap.
    #[default]
    Ga,
    /// The published genetic algorithm.
    Seed,
}

/// Meaning of a plan's choice of gangs for the gangs that it leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// Gangs that a plan leaves out start as without a plan.
    #[default]
    Advise,
    /// Gangs that are worth less than their cost wait, within limits.
    Enforce,
}

section! {
    /// `[gang]`: multi-node and het jobs where their type is fastest.
    GangConfig {
        /// Form of the method that plans gangs.
        mode: GangMode = GangMode::Ga,
        /// Value of a unit of each resource, by dimension name; memory by GiB. Empty: the
        /// TRESBillingWeights of the partitions.
        billing: BTreeMap<String, f64> = BTreeMap::new(),
        /// Maintenance cost of a unit of each resource, by dimension name; memory by GiB.
        cost: BTreeMap<String, f64> = BTreeMap::new(),
        /// Whether gangs that are worth less than their cost wait.
        admission: Admission = Admission::Advise,
    }
}
