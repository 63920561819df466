// SPDX-License-Identifier: GPL-3.0-or-later
//! `[learn]`: speeds of job classes on nodes, from jobs that ended.

use serde::{Deserialize, Serialize};

use phalanx_methods::learn::{
    CLASS_BY_DEFAULT, ClassKey, NODE_CLASS_BY_DEFAULT, NodeKey, SpeedsOptions,
};

/// `[learn]`: speeds of job classes on nodes, from jobs that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnConfig {
    /// Whether anything is learned.
    pub enabled: bool,
    /// What jobs of one class have in common.
    pub class_by: Vec<ClassKey>,
    /// What nodes of one class have in common.
    pub node_class_by: Vec<NodeKey>,
    /// Age at which a run counts half, days; 0 never forgets.
    pub half_life_days: f64,
    /// Runs that the rest of a node's class counts as at most.
    pub prior_strength: f64,
    /// Time between two looks at Slurm's accounting, seconds; 0 for none.
    pub accounting_s: u64,
    /// Whether predicted runtimes decide, or are only shown.
    pub runtimes_decide: bool,
}

impl Default for LearnConfig {
    fn default() -> Self {
        LearnConfig {
            enabled: true,
            class_by: CLASS_BY_DEFAULT.to_vec(),
            node_class_by: NODE_CLASS_BY_DEFAULT.to_vec(),
            half_life_days: 30.0,
            prior_strength: 8.0,
            accounting_s: 60,
            runtimes_decide: true,
        }
    }
}

impl LearnConfig {
    /// How the table of speeds forgets and shrinks.
    pub fn speeds_options(&self) -> SpeedsOptions {
        let days = self.half_life_days;
        SpeedsOptions {
            half_life_s: if days > 0.0 { days * 86_400.0 } else { f64::INFINITY },
            prior_strength: self.prior_strength,
            ..SpeedsOptions::default()
        }
    }
}
