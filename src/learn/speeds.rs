// SPDX-License-Identifier: GPL-3.0-or-later
//! Learned speeds per (job type, node), shrunk towards (job type, node class).

use super::{Estimate, EstimateError, Stat};
use std::collections::BTreeMap;

/// How the table forgets and shrinks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedsOptions {
    /// Weight of an observation after one more slot, in (0, 1]; 1 never forgets.
    pub decay: f64,
    /// The class counts as at most this many observations of a node; 0 = nodes stand alone.
    pub prior_strength: f64,
    /// Most (type, node) pairs kept; beyond it those observed longest ago are dropped.
    pub pairs_max: usize,
}

impl Default for SpeedsOptions {
    fn default() -> Self {
        SpeedsOptions { decay: 1.0, prior_strength: 8.0, pairs_max: 1_000_000 }
    }
}

/// Why an observation or a stored row was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpeedsError {
    /// The number itself is bad.
    #[error("job type {job_type}, node {node}: {source}")]
    Observation {
        /// Job type of the refused row.
        job_type: u32,
        /// Node of the refused row.
        node: u32,
        /// What is wrong with it.
        source: EstimateError,
    },
    /// An option is out of range.
    #[error("{name}: must be {expected}, got {got}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Accepted range.
        expected: &'static str,
        /// Given value.
        got: f64,
    },
}

/// Table of estimates by (type, node) and by (type, class); ids are the caller's dense indexes.
#[derive(Debug, Clone)]
pub struct Speeds {
    options: SpeedsOptions,
    nodes: BTreeMap<(u32, u32), Estimate>,
    classes: BTreeMap<(u32, u32), Estimate>,
}

impl Speeds {
    /// An empty table.
    ///
    /// # Errors
    /// A decay outside (0, 1], a negative strength, or no room for a single pair.
    pub fn new(options: SpeedsOptions) -> Result<Speeds, SpeedsError> {
        let bad = |name, expected, got| Err(SpeedsError::Option { name, expected, got });
        if !(options.decay > 0.0 && options.decay <= 1.0) {
            return bad("decay", "in (0, 1]", options.decay);
        }
        if !(options.prior_strength >= 0.0 && options.prior_strength.is_finite()) {
            return bad("prior_strength", "finite and >= 0", options.prior_strength);
        }
        if options.pairs_max == 0 {
            return bad("pairs_max", "at least 1", 0.0);
        }
        Ok(Speeds { options, nodes: BTreeMap::new(), classes: BTreeMap::new() })
    }

    /// Takes the speed that a task of `job_type` reached on `node` of class `class`.
    ///
    /// # Errors
    /// A value that is not finite; the table is unchanged.
    pub fn observe(
        &mut self,
        (job_type, node, class): (u32, u32, u32),
        value: f64,
        slot: u64,
    ) -> Result<(), SpeedsError> {
        let decay = self.options.decay;
        let refuse = |source| SpeedsError::Observation { job_type, node, source };
        if !value.is_finite() {
            return Err(refuse(EstimateError::Value(value)));
        }
        let own = self.nodes.entry((job_type, node)).or_default();
        own.observe(value, slot, decay).map_err(refuse)?;
        let shared = self.classes.entry((job_type, class)).or_default();
        shared.observe(value, slot, decay).map_err(refuse)?;
        if self.nodes.len() > self.options.pairs_max {
            self.drop_oldest();
        }
        Ok(())
    }

    /// Drops the pairs observed longest ago (ties: smallest key); their classes keep what they
    /// learned. A sixteenth goes at once, so that a full table does not scan on every insert.
    fn drop_oldest(&mut self) {
        let drop = (self.options.pairs_max / 16).max(1);
        let mut keys: Vec<_> = self.nodes.iter().map(|(key, e)| (e.last_slot(), *key)).collect();
        keys.sort_unstable();
        for (_, key) in keys.into_iter().take(drop) {
            self.nodes.remove(&key);
        }
    }

    /// The statistic that a planner should use for `job_type` on `node` of class `class`.
    ///
    /// The node's own sample, shrunk towards the rest of its class (the class without the node,
    /// so that nothing counts twice). Count 0 means that nobody of the class was ever tried.
    #[must_use]
    pub fn stat(&self, (job_type, node, class): (u32, u32, u32), slot: u64) -> Stat {
        let decay = self.options.decay;
        let read = |e: Option<&Estimate>| e.map_or(Stat::default(), |e| e.at(slot, decay));
        let own = read(self.nodes.get(&(job_type, node)));
        let class = read(self.classes.get(&(job_type, class)));
        own.shrink(class.without(own), self.options.prior_strength)
    }

    /// The statistic of a whole class, for nodes never tried.
    #[must_use]
    pub fn class_stat(&self, job_type: u32, class: u32, slot: u64) -> Stat {
        let found = self.classes.get(&(job_type, class));
        found.map_or(Stat::default(), |e| e.at(slot, self.options.decay))
    }

    /// All (type, node) estimates in key order, for storage and display.
    pub fn nodes(&self) -> impl Iterator<Item = ((u32, u32), &Estimate)> {
        self.nodes.iter().map(|(key, e)| (*key, e))
    }

    /// All (type, class) estimates in key order.
    pub fn classes(&self) -> impl Iterator<Item = ((u32, u32), &Estimate)> {
        self.classes.iter().map(|(key, e)| (*key, e))
    }

    /// Puts back a stored (type, node) estimate, replacing what is there.
    pub fn restore_node(&mut self, job_type: u32, node: u32, estimate: Estimate) {
        self.nodes.insert((job_type, node), estimate);
    }

    /// Puts back a stored (type, class) estimate, replacing what is there.
    pub fn restore_class(&mut self, job_type: u32, class: u32, estimate: Estimate) {
        self.classes.insert((job_type, class), estimate);
    }
}
