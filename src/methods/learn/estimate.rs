// SPDX-License-Identifier: GPL-3.0-or-later
//! Count and mean of one stream of observations, with optional forgetting.

use serde::{Deserialize, Serialize};

use phalanx_core::problem::InputError;

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

    /// Takes `part`, which must be a part of the sample, out of it; empty when nothing is left.
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

/// Running count and mean; with `decay` < 1 an observation counts `decay^age` after `age` slots.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    count: f64,
    mean: f64,
    slot: u64,
}

impl Estimate {
    /// Takes an observation made in slot `slot`.
    ///
    /// An observation older than the newest one is taken as if it were as new: results of long
    /// runs arrive late, and the count must not grow by ageing backwards.
    ///
    /// # Errors
    /// A value that is not finite, or a decay outside (0, 1].
    pub fn observe(&mut self, value: f64, slot: u64, decay: f64) -> Result<(), InputError> {
        if !value.is_finite() {
            return Err(InputError::new("value", format!("must be finite, got {value}")));
        }
        if !(decay > 0.0 && decay <= 1.0) {
            return Err(InputError::new("decay", format!("must be in (0, 1], got {decay}")));
        }
        let aged = self.at(slot, decay);
        let count = aged.count + 1.0;
        self.mean = aged.mean + (value - aged.mean) / count;
        self.count = count;
        self.slot = self.slot.max(slot);
        Ok(())
    }

    /// The statistic as seen in slot `slot`.
    #[must_use]
    pub fn at(&self, slot: u64, decay: f64) -> Stat {
        let age = slot.saturating_sub(self.slot);
        let factor = if age == 0 || decay >= 1.0 { 1.0 } else { decay.powf(age as f64) };
        let count = self.count * factor;
        if count > 0.0 { Stat { count, mean: self.mean } } else { Stat::default() }
    }
}
