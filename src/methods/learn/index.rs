// SPDX-License-Identifier: GPL-3.0-or-later
//! The exploration sequences and the optimistic index of a set of edges.

use serde::{Deserialize, Serialize};

/// Growth of the exploration bonus with the slot (formula 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// `ln t + 4 m ln(1 + ln t)`: needed for logarithmic regret.
    #[default]
    Source,
    /// `4 m ln(1 + ln t)`: the dominating term alone, which is the document's wording.
    Loglog,
    /// The index has no bonus: it equals the mean, and edges without runs have no preference.
    None,
}

impl Growth {
    /// g(t) for slot `slot` (1, 2, ...) and `m` = the largest number of tasks placed at once.
    ///
    /// Slots below 1 count as 1, where g is 0.
    pub fn value(self, slot: f64, m: f64) -> f64 {
        let log = slot.max(1.0).ln();
        let slow = 4.0 * m * log.ln_1p();
        match self {
            Growth::Source => log + slow,
            Growth::Loglog => slow,
            Growth::None => 0.0,
        }
    }
}

/// delta(t) = 1 / (ln(ln t + 1) + 1): the accuracy asked of the solver in slot `slot`; 1 at t = 1.
pub fn delta(slot: f64) -> f64 {
    1.0 / (slot.max(1.0).ln().ln_1p() + 1.0)
}

/// sigma2 = g / (2 n), the variance proxy of an edge tried `count` times; infinite when untried.
pub fn variance_proxy(g: f64, count: f64) -> f64 {
    if count > 0.0 { g / (2.0 * count) } else { f64::INFINITY }
}

/// Formula 13: `delta + sum(mean - cost) + sqrt(sum sigma2)`.
pub fn confidence_index(delta: f64, linear: f64, variance: f64) -> f64 {
    delta + linear + variance.max(0.0).sqrt()
}

/// Strength of the preference for little-tried edges in one slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exploration {
    /// Growth of the bonus.
    pub growth: Growth,
    /// Factor of g(t) inside the root; 0 switches exploration off.
    pub bonus_scale: f64,
    /// Slot, from 1.
    pub slot: f64,
    /// m of formula 11.
    pub m: f64,
}

impl Exploration {
    /// Whether untried edges go first and tried ones carry a bonus.
    pub fn is_on(&self) -> bool {
        self.growth != Growth::None && self.bonus_scale > 0.0
    }

    /// Scaled g(t).
    pub fn g(&self) -> f64 {
        if self.is_on() { self.bonus_scale * self.growth.value(self.slot, self.m) } else { 0.0 }
    }

    /// delta(t) of the slot.
    pub fn delta(&self) -> f64 {
        delta(self.slot)
    }
}
