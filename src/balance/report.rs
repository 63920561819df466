// SPDX-License-Identifier: GPL-3.0-or-later
//! Figures for people: dispersion of a node as it is, weights by source.

use super::engine::Engine;

/// The weights of each source, whether it is switched on or not.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightsBySource {
    /// Configured.
    pub initial: Vec<f64>,
    /// From the pending counts.
    pub pending: Vec<f64>,
    /// From the usage of the cluster.
    pub usage: Vec<f64>,
}

impl Engine {
    /// Weighted dispersion y of a node with what is in use now; `None` for a
    /// node that does not exist. `weights` as from [`weights`](Self::weights).
    /// Source: `methods.md` section 5, formula 4.
    #[must_use]
    pub fn dispersion(&self, node: usize, weights: &[f64]) -> Option<f64> {
        if node >= self.len() || weights.len() != self.dims() {
            return None;
        }
        let dims = &self.kinds[self.kind[node] as usize].dims;
        let contrast = &self.contrast[node * self.dims..];
        let (mut share, mut sum) = (0.0, 0.0);
        for (&dim, value) in dims.iter().zip(contrast) {
            share += weights[dim];
            sum += weights[dim] * (value * value);
        }
        Some(if share > 0.0 { (sum / share).sqrt() } else { 0.0 })
    }

    /// The weights of each source.
    #[must_use]
    pub fn weights_by_source(&self) -> WeightsBySource {
        WeightsBySource {
            initial: self.initial_weights().to_vec(),
            pending: self.pending_weights(),
            usage: self.usage_weights(),
        }
    }
}
