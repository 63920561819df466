// SPDX-License-Identifier: GPL-3.0-or-later
//! The score of mode `best`: its weights, and its separable terms as a table.
//!
//! A term that is a line in the usage of each dimension is one entry of [`TERMS`] and one
//! field of [`BestParams`]: scores, bounds over blocks of nodes and the report follow from
//! the line. (A field also has its key in `[balance.best]` and its line in `docs/methods.md`.)

/// Largest [`BestParams::sharpness`].
pub const SHARPNESS_MAX: u32 = 16;

/// Tunables of [`Mode::Best`], which takes the nodes of least score.
///
/// The score stands in `docs/methods.md`, section Balance.
///
/// Growth of the variance, not the variance itself, adds up to the imbalance
/// of the whole cluster. The request is drawn to nodes that have most left of
/// what it needs most (an alignment, as in multi-resource packing), and away
/// from free GPUs that it does not use.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BestParams {
    /// Power of a dimension's scarcity in its weight: scarcity is its usage
    /// plus its share of the pending jobs, as far as these are chosen as
    /// sources; the initial weights multiply it, and 15 parts in a hundred of
    /// the weights are theirs alone. 0 leaves the initial weights alone; at most [`SHARPNESS_MAX`].
    pub sharpness: u32,
    /// Preference for fuller nodes, at least 0; dimensionless.
    pub packing: f64,
    /// Cost of leaving a free dimension behind that the job does not ask
    /// for, at least 0; dimensionless.
    pub stranding: f64,
    /// Cost of free GPUs that pending requests can no longer use, at least 0;
    /// dimensionless.
    pub fragment: f64,
    /// Cost of a node being busy for longer, by the job's whole limit, at least 0; dimensionless.
    pub ends: f64,
    /// Mean score by which a choice of nodes of equal totals may be worse than one of differing
    /// nodes and still is preferred for a multi-node job; at least 0.
    pub gang: f64,
}

impl Default for BestParams {
    /// Weights tuned on the packing experiment (`phalanx-bench balance-packing`).
    fn default() -> Self {
        Self { sharpness: 4, packing: 0.2, stranding: 1.5, fragment: 1.0, ends: 1.0, gang: 0.05 }
    }
}

/// A line in the usage `u` of one dimension: `constant + slope u`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) constant: f64,
    pub(super) slope: f64,
}

impl Line {
    /// Returns the line's value at a usage.
    pub(super) fn at(self, usage: f64) -> f64 {
        self.constant + self.slope * usage
    }
}

/// A separable term: in each dimension a line in a node's usage, times the dimension's weight.
pub(super) struct Term {
    /// Name of the term in reports.
    pub(super) name: &'static str,
    /// The line of a dimension for a request of `amount` ticks of it.
    pub(super) line: fn(&BestParams, f64) -> Line,
}

/// Separable terms but the imbalance, which is the method itself.
pub(super) const TERMS: [Term; 2] = [
    Term { name: "packing", line: |best, _| Line { constant: 0.0, slope: -best.packing } },
    Term {
        name: "stranding",
        line: |best, amount| {
            let cost = if amount > 0.0 { 0.0 } else { best.stranding };
            Line { constant: cost, slope: -cost }
        },
    },
];

/// The sum of all lines of a dimension.
pub(super) fn line(best: &BestParams, amount: f64) -> Line {
    TERMS.iter().fold(Line::default(), |sum, term| {
        let own = (term.line)(best, amount);
        Line { constant: sum.constant + own.constant, slope: sum.slope + own.slope }
    })
}
