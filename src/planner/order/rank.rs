// SPDX-License-Identifier: GPL-3.0-or-later
//! The rank by which jobs start, the same for the simulator and the daemon.
//!
//! Jobs that are expected to end soon go first, shortest first: a second of
//! their waiting costs most slowdown and they hardly delay anyone. All others
//! keep the order of their arrival, so that long jobs do not starve each other.

use phalanx_core::number::as_f64;
use phalanx_methods::learn::runtime::Prediction;

/// Place in the order; less starts first. Ties: by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u32, u64);

impl Rank {
    /// The order of arrival alone.
    pub const ARRIVAL: Self = Self(0, 0);

    /// Ranks by learned runtime, if that is at most `short_s` seconds, else by arrival (Unix
    /// seconds).
    pub fn learned(prediction: &Prediction, submit_s: i64, short_s: u64) -> Self {
        let typical = prediction.typical_s();
        if typical <= as_f64(short_s) {
            return Self(0, typical.max(0.0).to_bits());
        }
        // Keeps the order of the whole range of i64.
        Self(1, submit_s.cast_unsigned() ^ (1 << 63))
    }

    /// Whether the job may pass others.
    pub fn is_short(self) -> bool {
        self.0 == 0
    }

    /// Slurm's order: by PriorityTier, then by the priority at `now_s` (Unix seconds) less the age
    /// points accrued since the epoch, so that jobs ranked at different times compare.
    pub fn natural(tier: u32, priority: u32, points_a_day: f64, now_s: u64) -> Self {
        let bits = (f64::from(priority) - points_a_day / 86_400.0 * as_f64(now_s)).to_bits();
        // The order of floats, the greatest first.
        let descending = if bits >> 63 == 1 { bits } else { !bits & !(1 << 63) };
        Self(u32::MAX - tier, descending)
    }

    /// Ranks the shortest first, by whole seconds.
    pub fn shortest(run_s: u64) -> Self {
        Self(0, run_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(typical: f64, submit_s: i64) -> Rank {
        Rank::learned(&Prediction { mean_s: typical, urgency: 1.0 / typical }, submit_s, 3600)
    }

    #[test]
    fn short_jobs_by_length_then_long_ones_by_arrival() {
        let mut ranks = [rank(9e9, 5), rank(10.0, 90), rank(4_000.0, -7), rank(3_000.0, 1)];
        ranks.sort();
        assert_eq!(ranks, [rank(10.0, 90), rank(3_000.0, 1), rank(5e3, -7), rank(5e3, 5)]);
    }

    #[test]
    fn naturally_the_tier_goes_first_then_the_priority_with_the_age() {
        let natural =
            |tier, priority, days: u64| Rank::natural(tier, priority, 10.0, days * 86_400);
        let ranks = [natural(2, 0, 9), natural(1, 35, 3), natural(1, 4, 0), natural(1, 33, 3)];
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert!(natural(0, 900, 1) < natural(0, 11, 1), "positive ones too");
        assert_eq!(natural(1, 10, 0), natural(1, 20, 1));
        assert!(natural(65_533, 1, 0) < natural(300, 9, 0), "PriorityTier has 16 bits");
    }
}
