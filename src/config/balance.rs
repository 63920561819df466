// SPDX-License-Identifier: GPL-3.0-or-later
//! `[balance]`: placement by weighted dispersion of the resource usage.

use std::collections::BTreeMap;

use super::section::section;
use phalanx_messages::collect::NONE;
pub use phalanx_methods::balance::{Mode as BalanceMode, NoImprovement};

section! {
    /// `[balance]`: placement by weighted dispersion of the resource usage.
    BalanceConfig {
        /// Form of the method that decides.
        mode: BalanceMode = BalanceMode::Best,
        /// Relative weight of each dimension by name (`cpu`, `mem`, `gres/NAME`, `gres/NAME:TYPE`,
        /// `license/NAME`), scaled to sum 1 over the cluster's dimensions. A dimension that is not
        /// listed has 0; if none is, all are equal.
        initial_weights: BTreeMap<String, f64> = BTreeMap::new(),
        /// Cluster utilisation (0..=1) at which decisions change from the low to the high branch.
        threshold: f64 = 0.5,
        /// Rule of the low branch when no node improves its dispersion.
        no_improvement: NoImprovement = NoImprovement::Fallback,
        /// Least gain in speed or locality that justifies heavier nodes by `Weight` in slurm.conf
        /// while lighter ones hold the job; 1: no gain does, as in Slurm; 0: Weight is ignored.
        weight_cost: f64 = 1.0,
        /// Datum with the health of nodes; `none`: all are healthy.
        health: String = NONE.to_owned(),
    }
}
