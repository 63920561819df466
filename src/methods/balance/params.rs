// SPDX-License-Identifier: GPL-3.0-or-later
//! Parameters that an administrator may tune.

use serde::{Deserialize, Serialize};

use super::terms::BestParams;

/// The rules that choose the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The published method: ordinal charts, two branches, poll pointer.
    Seed,
    /// The improved method: see [`BestParams`].
    Best,
}

/// The rule, below the threshold, for a job that makes no node's dispersion fall.
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
    /// The three sources together.
    pub const ALL: Self = Self { initial: true, pending: true, usage: true };

    /// Number of sources chosen.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.initial) + usize::from(self.pending) + usize::from(self.usage)
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
    /// The sources of the weights.
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
