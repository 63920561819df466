// SPDX-License-Identifier: GPL-3.0-or-later
//! The rank by which jobs start: one ranking for the simulator and for the daemon.
//!
//! Jobs that are expected to end soon go first, shortest first: a second of
//! their waiting costs most slowdown and they hardly delay anyone. All others
//! keep the order of their arrival, so that long jobs do not starve each other.

use phalanx_methods::learn::runtime::Prediction;

/// Expected runtime up to which a job may pass others, seconds.
const SHORT_S: f64 = 3_600.0;

/// Place in the order; less starts first. Ties: by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u8, u64);

impl Rank {
    /// The order of arrival alone.
    pub const ARRIVAL: Self = Self(0, 0);

    /// Ranks by learned runtime, else by arrival (Unix seconds).
    pub fn learned(prediction: &Prediction, submit_s: i64) -> Self {
        let typical = prediction.typical_s();
        if typical <= SHORT_S {
            return Self(0, typical.max(0.0).to_bits());
        }
        // Keeps the order of the whole range of i64.
        Self(1, submit_s.cast_unsigned() ^ (1 << 63))
    }

    /// Whether the job may pass others.
    pub fn is_short(self) -> bool {
        self.0 == 0
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
        Rank::learned(&Prediction { mean_s: typical, urgency: 1.0 / typical }, submit_s)
    }

    #[test]
    fn short_jobs_by_length_then_long_ones_by_arrival() {
        let mut ranks = [rank(9e9, 5), rank(10.0, 90), rank(4_000.0, -7), rank(3_000.0, 1)];
        ranks.sort();
        assert_eq!(ranks, [rank(10.0, 90), rank(3_000.0, 1), rank(5e3, -7), rank(5e3, 5)]);
    }
}
