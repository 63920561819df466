// SPDX-License-Identifier: GPL-3.0-or-later
//! ESDP: the published pseudo-polynomial solver of one slot, without the gang rule.
//!
//! Means and variances are rounded up to integers on a grid of `m / delta`; for every total mean
//! `s` a dynamic programme over (s, capacity, edge) finds the largest total variance. The index
//! of its answer is within delta of the best.
//!
//! # Source
//! Formula 16 of the gang method; slides 11 to 17 of Zhao et al.'s ESDP.

use phalanx_methods::learn::{Exploration, confidence_index, variance_proxy};
use std::collections::HashMap;

/// The problem of one slot in terms of edges: cluster-wide capacities, one decision per edge.
#[derive(Debug, Clone)]
pub struct Slot<'a> {
    /// Mean of each edge, at least 0.
    pub mean: &'a [f64],
    /// Observations of each edge, at least 1.
    pub count: &'a [f64],
    /// Devices that edge e takes of kind k: `need[k][e]`.
    pub need: &'a [Vec<u32>],
    /// Devices of each kind.
    pub capacity: &'a [u32],
    /// Largest number of edges used at once, and the slot.
    pub exploration: Exploration,
}

/// Result of the dynamic programme, with its rounded numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Esdp {
    /// ceil(m / delta).
    pub xi: u64,
    /// ceil(xi mean) by edge.
    pub upsilon: Vec<u64>,
    /// ceil(xi^2 sigma2) by edge.
    pub sigma: Vec<u64>,
    /// Total of `upsilon` asked for in the best sub-problem.
    pub s: u64,
    /// Edges used.
    pub x: Vec<bool>,
    /// Index of `x` by formula 13 with the unrounded numbers.
    pub index: f64,
}

fn ceil(x: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let up = x.max(0.0).ceil() as u64;
    up
}

/// States (s, capacity, edge) -> largest total of `sigma`, `None` when s cannot be reached.
type Memo = HashMap<(u64, Vec<u32>, usize), Option<u64>>;

struct Programme<'a> {
    slot: &'a Slot<'a>,
    upsilon: &'a [u64],
    sigma: &'a [u64],
    memo: Memo,
}

impl Programme<'_> {
    fn largest(&mut self, s: u64, capacity: &[u32], edge: usize) -> Option<u64> {
        if edge == self.upsilon.len() {
            return (s == 0).then_some(0);
        }
        let key = (s, capacity.to_vec(), edge);
        if let Some(known) = self.memo.get(&key) {
            return *known;
        }
        let without = self.largest(s, capacity, edge + 1);
        let with = self.take(capacity, edge).and_then(|rest| {
            let left = s.saturating_sub(self.upsilon[edge]);
            Some(self.largest(left, &rest, edge + 1)? + self.sigma[edge])
        });
        let best = without.max(with);
        self.memo.insert(key, best);
        best
    }

    fn take(&self, capacity: &[u32], edge: usize) -> Option<Vec<u32>> {
        let need = self.slot.need.iter();
        capacity.iter().zip(need).map(|(c, need)| c.checked_sub(need[edge])).collect()
    }

    /// The edges behind `largest(s, ...)`.
    fn trace(&mut self, mut s: u64) -> Vec<bool> {
        let mut capacity = self.slot.capacity.to_vec();
        let mut x = Vec::new();
        for edge in 0..self.upsilon.len() {
            let all = self.largest(s, &capacity, edge);
            let used = self.largest(s, &capacity, edge + 1) != all;
            if let (true, Some(rest)) = (used, self.take(&capacity, edge)) {
                capacity = rest;
                s = s.saturating_sub(self.upsilon[edge]);
            }
            x.push(used);
        }
        x
    }
}

/// Solves one slot.
#[must_use]
pub fn solve(slot: &Slot<'_>) -> Esdp {
    let exploration = slot.exploration;
    let m = exploration.m;
    let xi = ceil(m / exploration.delta());
    let scale = xi as f64;
    let variance: Vec<f64> =
        slot.count.iter().map(|n| variance_proxy(exploration.g(), *n)).collect();
    let upsilon: Vec<u64> = slot.mean.iter().map(|v| ceil(scale * v)).collect();
    let sigma: Vec<u64> = variance.iter().map(|v| ceil(scale * scale * v)).collect();
    let memo = Memo::new();
    let mut programme = Programme { slot, upsilon: &upsilon, sigma: &sigma, memo };
    let mut best = (f64::NEG_INFINITY, 0);
    for s in 0..=ceil(scale * m) {
        if let Some(total) = programme.largest(s, slot.capacity, 0) {
            let value = s as f64 + (total as f64).sqrt();
            if value > best.0 {
                best = (value, s);
            }
        }
    }
    let x = programme.trace(best.1);
    let sum = |values: &[f64]| -> f64 {
        values.iter().zip(&x).filter(|(_, used)| **used).map(|(v, _)| v).sum()
    };
    let index = confidence_index(exploration.delta(), sum(slot.mean), sum(&variance));
    Esdp { xi, upsilon, sigma, s: best.1, x, index }
}
