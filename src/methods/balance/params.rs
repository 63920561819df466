// SPDX-License-Identifier: GPL-3.0-or-later
//! What an administrator may tune.

use serde::{Deserialize, Serialize};

/// Which rules choose the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The published method: ordinal charts, two branches, poll pointer.
    Seed,
    /// The improved method: see [`BestParams`].
    Best,
}

/// What to do below the threshold when no node's dispersion falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoImprovement {
    /// Take the node with the least dispersion after placement.
    Fallback,
    /// Leave the job pending until it has waited
    /// [`hold_max_ms`](Params::hold_max_ms); an idle node accepts at once.
    Hold,
}

/// The sources whose mean is the weight vector; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Configured weights.
    pub initial: bool,
    /// Pending jobs by lacking dimension.
    pub pending: bool,
    /// Usage of each dimension over all nodes.
    pub usage: bool,
}

impl Sources {
    /// All three.
    pub const ALL: Self = Self { initial: true, pending: true, usage: true };

    /// Number of sources chosen.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.initial) + usize::from(self.pending) + usize::from(self.usage)
    }
}

/// Largest [`BestParams::sharpness`].
pub const SHARPNESS_MAX: u32 = 16;

/// Tunables of [`Mode::Best`], which takes the nodes of least score.
///
/// For a node with usages `u_i` before the job, and a request of the shares
/// `q_i = a_i / c_i`, with the means `u` and `q` weighted by `w`, the score is
///
/// ```text
/// sum_i w_i ( 2 (u_i - u)(q_i - q) + (q_i - q)^2      how much the variance of usage grows
///             - packing * u_i                         fuller nodes first
///             + stranding * (1 - u_i)  if a_i = 0 )   what lies beside and is not asked for
///   + fragment * l                                  what the queue loses of GPUs
/// ```
///
/// where `l` is how many free GPUs of the node a pending request could use before
/// and not after, on average over the queue's own mix, in parts of the GPUs of the
/// largest node ([`fragment`](super::fragment)).
///
/// Growth of the variance, not the variance itself, adds up to the imbalance
/// of the whole cluster. The request is drawn to nodes that have most left of
/// what it needs most (an alignment, as in multi-resource packing), and away
/// from free GPUs that it does not use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BestParams {
    /// Power of a dimension's scarcity in its weight: scarcity is its usage
    /// plus its share of the pending jobs, as far as these are chosen as
    /// sources; the initial weights multiply it, and 15 parts in a hundred of
    /// the weights are theirs alone. 0 leaves the initial weights alone; at most [`SHARPNESS_MAX`].
    pub sharpness: u32,
    /// How much a fuller node is preferred, at least 0; dimensionless.
    pub packing: f64,
    /// What leaving a free dimension behind costs that the job does not ask
    /// for, at least 0; dimensionless.
    pub stranding: f64,
    /// What free GPUs cost that pending requests can no longer use, at least 0;
    /// dimensionless.
    pub fragment: f64,
    /// Mean score by which a multi-node job on nodes of equal totals may be
    /// worse than on differing ones and still is preferred; at least 0.
    pub gang: f64,
}

impl Default for BestParams {
    /// Tuned on the packing experiment (`examples/balance_packing.rs`).
    fn default() -> Self {
        Self { sharpness: 4, packing: 0.2, stranding: 1.5, fragment: 1.0, gang: 0.05 }
    }
}

/// Parameters of an [`Engine`](super::Engine).
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Rules.
    pub mode: Mode,
    /// Configured weight of each dimension, at least 0, sum 1; empty means
    /// equal weights.
    pub initial_weights: Vec<f64>,
    /// Which sources count.
    pub sources: Sources,
    /// Cluster utilization (0..1) from which on the high branch decides.
    pub threshold: f64,
    /// Rule of the low branch when no dispersion falls.
    pub no_improvement: NoImprovement,
    /// Ageing limit of [`NoImprovement::Hold`] in milliseconds; a job that has
    /// waited this long is placed as with `Fallback`. `None`: no limit.
    pub hold_max_ms: Option<u64>,
    /// Tunables of [`Mode::Best`].
    pub best: BestParams,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            mode: Mode::Seed,
            initial_weights: Vec::new(),
            sources: Sources::ALL,
            threshold: 0.5,
            no_improvement: NoImprovement::Fallback,
            hold_max_ms: None,
            best: BestParams::default(),
        }
    }
}
