// SPDX-License-Identifier: GPL-3.0-or-later
//! Count and mean of observations.

/// Statistic of one edge: number of trials and mean.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stat {
    /// Effective number of observations (not whole once decayed or shrunk).
    pub count: f64,
    /// Mean of the observations; 0 when `count` is 0.
    pub mean: f64,
}

impl Stat {
    /// The statistic of both samples together.
    #[must_use]
    pub fn merge(self, other: Stat) -> Stat {
        let count = self.count + other.count;
        if count <= 0.0 {
            return Stat::default();
        }
        Stat { count, mean: (self.count * self.mean + other.count * other.mean) / count }
    }

    /// Removes `part`, which must be a part of the sample; empty when nothing is left.
    #[must_use]
    pub fn without(self, part: Stat) -> Stat {
        let count = self.count - part.count;
        if count <= 1e-9 * self.count.max(1.0) {
            return Stat::default();
        }
        Stat { count, mean: (self.count * self.mean - part.count * part.mean) / count }
    }

    /// Shrinks this sample towards `prior`, which weighs as at most `strength` observations.
    ///
    /// With no own observations the prior's mean remains; with many the prior vanishes.
    #[must_use]
    pub fn shrink(self, prior: Stat, strength: f64) -> Stat {
        self.merge(Stat { count: prior.count.min(strength.max(0.0)), mean: prior.mean })
    }
}
