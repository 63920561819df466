// SPDX-License-Identifier: GPL-3.0-or-later
//! `[balance]`: placement by weighted dispersion of the resource usage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::section;
use phalanx_messages::collect::{CONFIGURATION, NONE};
use phalanx_methods::balance::BestParams;
pub use phalanx_methods::balance::{Mode as BalanceMode, NoImprovement};

/// A source of the dimensions' weights; the weights are the sources' mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightSource {
    /// `initial_weights` of this file.
    Initial,
    /// The dimensions that pending jobs lack.
    Pending,
    /// The usage of each dimension.
    Usage,
}

section! {
    /// `[balance]`: placement by weighted dispersion of the resource usage.
    BalanceConfig {
        /// Form of the method that decides.
        mode: BalanceMode = BalanceMode::Best,
        /// The sources whose mean gives the weights; not empty, none twice.
        weights_from: Vec<WeightSource> =
            vec![WeightSource::Initial, WeightSource::Pending, WeightSource::Usage],
        /// Relative weight of each dimension by name (`cpu`, `mem`, `gres/NAME`,
        /// `gres/NAME:TYPE`, `license/NAME`). Empty: all equal. They are scaled to sum 1
        /// over the dimensions that the cluster has; one that is not listed has 0.
        initial_weights: BTreeMap<String, f64> = BTreeMap::new(),
        /// Cluster utilisation (0..=1) from which on the high branch decides.
        threshold: f64 = 0.5,
        /// Rule of the low branch when no node improves its dispersion.
        no_improvement: NoImprovement = NoImprovement::Fallback,
        /// Longest time that `no_improvement = "hold"` leaves a job pending, seconds.
        hold_max_s: u64 = 300,
        /// Only nodes of the least `Weight` in slurm.conf that hold the job are compared, as
        /// Slurm does; else all candidates.
        respect_node_weight: bool = true,
        /// Datum by which nodes of equal Weight are tried, the best quarter first;
        /// `configuration`: CPUs; `none`: not at all.
        capability: String = NONE.to_owned(),
        /// Substitute where the datum is stale; `none`: such nodes come last.
        capability_fallback: String = CONFIGURATION.to_owned(),
        /// Datum of the health of nodes; `none`: all are healthy.
        health: String = NONE.to_owned(),
        /// Least value of a healthy node; others are taken last.
        health_least: f64 = 0.5,
        /// `[balance.best]`: tunables of mode `best`.
        best: BestParams = BestParams::default(),
    }
}
