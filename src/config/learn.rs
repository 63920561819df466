// SPDX-License-Identifier: GPL-3.0-or-later
//! `[learn]`: speeds of job classes on nodes, from jobs that ended.

use super::section::section;
use phalanx_methods::learn::{
    CLASS_BY_DEFAULT, ClassKey, Estimator, NODE_CLASS_BY_DEFAULT, NodeKey, SpeedsOptions,
};

section! {
    /// `[learn]`: speeds of job classes on nodes, from jobs that ended.
    LearnConfig {
        /// Properties that jobs of one class have in common.
        class_by: Vec<ClassKey> = CLASS_BY_DEFAULT.to_vec(),
        /// Properties that nodes of one class have in common.
        node_class_by: Vec<NodeKey> = NODE_CLASS_BY_DEFAULT.to_vec(),
        /// Rule by which speeds are estimated.
        estimator: Estimator = Estimator::Shrunk,
        /// Whether predicted runtimes affect decisions; else they are only shown.
        runtimes_decide: bool = true,
    }
}

/// Age at which a run counts half, in days: clusters and programs change within months.
const HALF_LIFE_DAYS: f64 = 30.0;
/// Most runs that a node's class counts as for one node: more would hide a slow node.
const PRIOR_STRENGTH: f64 = 8.0;

impl LearnConfig {
    /// Returns half-life and prior of the table of speeds; the published mean has neither.
    pub fn speeds_options(&self) -> SpeedsOptions {
        let plain = self.estimator == Estimator::Document;
        SpeedsOptions {
            estimator: self.estimator,
            half_life_s: if plain { f64::INFINITY } else { HALF_LIFE_DAYS * 86_400.0 },
            prior_strength: if plain { 0.0 } else { PRIOR_STRENGTH },
            ..SpeedsOptions::default()
        }
    }
}
