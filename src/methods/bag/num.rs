// SPDX-License-Identifier: GPL-3.0-or-later
//! The number conversions of the bag planner, in one place with their reasons.

use phalanx_core::number::whole;

/// An x below this is negative (`docs/methods.md`, Bags, (c)); anything between is zero.
pub(super) const NEGATIVE: f64 = -1e-9;
/// Difference by which a later candidate must be better.
pub(super) const BETTER: f64 = 1e-12;
/// Slack of every floor and ceiling of a computed task count.
pub(super) const ROUND: f64 = 1e-9;

/// The number of whole tasks in `x`, with the slack that a capacity computed as
/// `(T - load) / time` needs when `T` was itself built from whole tasks.
/// Negative and undefined values are 0.
pub(super) fn whole_floor(x: f64) -> u64 {
    whole((x + ROUND + x.abs() * 1e-14).floor())
}

/// The number of whole tasks in `x`, without slack.
pub(super) fn whole_within(x: f64) -> u64 {
    whole(x.floor())
}

/// The largest number of whole tasks that is clearly less than `x`.
pub(super) fn whole_below(x: f64) -> u64 {
    whole((x - ROUND - x.abs() * 1e-14).ceil() - 1.0)
}

/// The smallest number of whole tasks that covers `x` (slack [`ROUND`]).
pub(super) fn whole_ceil(x: f64) -> u64 {
    whole((x - ROUND).ceil())
}
