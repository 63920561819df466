// SPDX-License-Identifier: GPL-3.0-or-later
//! `[balance]`: placement by weighted dispersion of the resource usage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use phalanx_core::collect::{CONFIGURATION, NONE};
use phalanx_methods::balance::BestParams;

/// Which form of the balance method decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BalanceMode {
    /// Cardinal weights, packing, stranding-aware.
    #[default]
    Best,
    /// The published method: precedence charts and dispersion only.
    Seed,
}

/// A source of the dimensions' weights; the weights are the sources' mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightSource {
    /// `initial_weights` of this file.
    Initial,
    /// Which dimension pending jobs lack.
    Pending,
    /// Which dimension is used most.
    Usage,
}

/// What the low branch does when no node improves its dispersion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoImprovement {
    /// Take the node with the smallest dispersion afterwards.
    #[default]
    Fallback,
    /// Leave the job pending, at most for `hold_max_s`.
    Hold,
}

/// `[balance]`: placement by weighted dispersion of the resource usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BalanceConfig {
    /// Which form of the method decides.
    pub mode: BalanceMode,
    /// The sources whose mean gives the weights; not empty, none twice.
    pub weights_from: Vec<WeightSource>,
    /// Relative weight of each dimension by name (`cpu`, `mem`, `gres/NAME`,
    /// `gres/NAME:TYPE`, `license/NAME`). Empty: all equal. Scaled to sum 1
    /// over the dimensions that the cluster has; one that is not listed has 0.
    pub initial_weights: BTreeMap<String, f64>,
    /// Cluster utilisation (0..=1) from which on the high branch decides.
    pub threshold: f64,
    /// What to do when no node improves.
    pub no_improvement: NoImprovement,
    /// Longest time that a job is held back by `no_improvement = "hold"`,
    /// seconds.
    pub hold_max_s: u64,
    /// Whether only nodes of the least `Weight` in slurm.conf that hold the
    /// job are compared, as Slurm does; else all candidates.
    pub respect_node_weight: bool,
    /// Datum by which nodes of equal Weight are tried, the best quarter first;
    /// `configuration`: CPUs; `none`: not at all.
    pub capability: String,
    /// What stands in where it is stale; `none`: such nodes come last.
    pub capability_fallback: String,
    /// Tunables of mode `best`.
    pub best: BestConfig,
}

impl Default for BalanceConfig {
    fn default() -> Self {
        BalanceConfig {
            mode: BalanceMode::Best,
            weights_from: vec![WeightSource::Initial, WeightSource::Pending, WeightSource::Usage],
            initial_weights: BTreeMap::new(),
            threshold: 0.5,
            no_improvement: NoImprovement::Fallback,
            hold_max_s: 300,
            respect_node_weight: true,
            capability: NONE.to_owned(),
            capability_fallback: CONFIGURATION.to_owned(),
            best: BestConfig::default(),
        }
    }
}

/// `[balance.best]`: tunables of the improved form; the formula stands at
/// [`BestParams`](phalanx_methods::balance::BestParams).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BestConfig {
    /// Power of a resource's scarcity in its weight: 0 leaves the initial
    /// weights alone, larger values favour the scarcest resource.
    pub sharpness: u32,
    /// How much fuller nodes are preferred.
    pub packing: f64,
    /// What leaving a free resource behind costs that the job does not ask
    /// for, such as the GPUs of a node whose CPUs it takes.
    pub stranding: f64,
    /// What free GPUs cost that the queue's own mix of requests can no longer
    /// use.
    pub fragment: f64,
    /// Mean score by which a multi-node job may be worse on nodes of equal
    /// totals than on differing ones and still goes there.
    pub gang: f64,
}

impl Default for BestConfig {
    fn default() -> Self {
        let best = BestParams::default();
        BestConfig {
            sharpness: best.sharpness,
            packing: best.packing,
            stranding: best.stranding,
            fragment: best.fragment,
            gang: best.gang,
        }
    }
}
