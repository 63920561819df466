// SPDX-License-Identifier: GPL-3.0-or-later
//! The options of a mode, and its result.

use super::budget::Stopped;
use super::schedule::Schedule;
use super::seed::Probed;

/// The rule that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The source's method with guards.
    Seed,
    /// The source's method improved by other weights, other orders and local search; never worse
    /// than `Seed`.
    #[default]
    Best,
    /// The optimum of small problems.
    Exact,
    /// Hosts and blocks in turn, for comparison.
    RoundRobin,
    /// Hosts in turn, weighted by their cores, and blocks by their bytes; for comparison.
    Weighted,
}

named_modes! { Mode:
    "best" => Best,
    "seed" => Seed,
    "exact" => Exact,
    "round-robin" => RoundRobin,
    "weighted" => Weighted,
}

/// Options of [`solve`](super::solve).
#[allow(missing_debug_implementations)] // a clock is a function, which has none
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The method.
    pub mode: Mode,
    /// Seed of the random numbers of mode `best`.
    pub seed: u64,
    /// Whether the deadline has passed; `&|| false` without one.
    pub expired: &'a (dyn Fn() -> bool + 'a),
    /// Adds [`Answer::explain`](super::Answer::explain).
    pub explain: bool,
}

/// Result of a mode.
pub(super) struct Found {
    pub(super) schedule: Schedule,
    pub(super) probes: Vec<Probed>,
    pub(super) found_by: &'static str,
    pub(super) optimal: bool,
    pub(super) stopped: Option<Stopped>,
}
