// SPDX-License-Identifier: GPL-3.0-or-later
//! `[learn]`: speeds of job classes on nodes, from jobs that ended.

use super::section::section;
use phalanx_methods::learn::{
    CLASS_BY_DEFAULT, ClassKey, Estimator, NODE_CLASS_BY_DEFAULT, NodeKey, SpeedsOptions,
};

section! {
    /// `[learn]`: speeds of job classes on nodes, from jobs that ended.
    LearnConfig {
        /// Speeds are learned.
        enabled: bool = true,
        /// Properties that jobs of one class have in common.
        class_by: Vec<ClassKey> = CLASS_BY_DEFAULT.to_vec(),
        /// Properties that nodes of one class have in common.
        node_class_by: Vec<NodeKey> = NODE_CLASS_BY_DEFAULT.to_vec(),
        /// How speeds are estimated.
        estimator: Estimator = Estimator::Shrunk,
        /// Age at which a run counts half, days; 0 never forgets.
        half_life_days: f64 = 30.0,
        /// Runs that the rest of a node's class counts as at most.
        prior_strength: f64 = 8.0,
        /// Time between two reads of Slurm's accounting, seconds; 0 for none.
        accounting_s: u64 = 60,
        /// Predicted runtimes decide; else they are only shown.
        runtimes_decide: bool = true,
    }
}

impl LearnConfig {
    /// Half-life and prior of the table of speeds; the published mean has neither.
    pub fn speeds_options(&self) -> SpeedsOptions {
        let plain = self.estimator == Estimator::Document;
        let days = if plain { 0.0 } else { self.half_life_days };
        SpeedsOptions {
            estimator: self.estimator,
            half_life_s: if days > 0.0 { days * 86_400.0 } else { f64::INFINITY },
            prior_strength: if plain { 0.0 } else { self.prior_strength },
            ..SpeedsOptions::default()
        }
    }
}
