// SPDX-License-Identifier: GPL-3.0-or-later
//! Statistics learned from what ran: counts, means, the confidence index, decay and shrinkage.
//!
//! Runs are remembered by job class ([`class_of`]) and node or node class ([`node_class_of`]) in
//! [`Speeds`]; planners ask [`Speeds::trust`] and
//! [`Speeds::estimate`]. A run's comment may name its class and work: see
//! [`comment`](phalanx_core::comment).
//!
//! Everything here is a pure function of its arguments: the scheduling round ("slot") is given by
//! the caller, so that a replay and the daemon compute the same numbers.
//!
//! # Source
//! `count`, `mean`, `variance_proxy`, `growth` and `delta` are formulas 8 to 12 of the gang method
//! (ESDP, Zhao et al., arXiv 2204.04371, and ESCB, Cuvelier et al., arXiv 2002.07258).

pub mod advice;
mod asked;
mod class;
pub mod deaths;
mod estimate;
mod index;
mod moments;
mod relative;
pub mod runtime;
mod speeds;
#[cfg(test)]
mod tests;

pub use class::{
    CLASS_BY_DEFAULT, ClassKey, JobTraits, NODE_CLASS_BY_DEFAULT, NodeKey, account_key, class_of,
    family_of, name_key, node_class_of, nodes_of, program_name, teaches, without_numbers,
};
pub use estimate::Stat;
pub use index::{Exploration, Growth, confidence_index, delta, variance_proxy};
pub use moments::{Moments, Observation};
pub use speeds::{Belief, ClassView, Estimator, RunNode, Source, Speeds, SpeedsOptions, Trust};

/// Bonus scale that the product ships with (`bonus_scale` of the daemon's configuration).
///
/// The theoretical constant 1 keeps the logarithmic regret of the analysis but is very
/// conservative: on the model of the worked examples it costs 25 times the regret of this
/// value after 3,000 slots. `phalanx-bench gang-regret` prints the curves.
pub const BONUS_SCALE_SHIPPED: f64 = 0.01;
