// SPDX-License-Identifier: GPL-3.0-or-later
//! Target loads and the transfers that reach them (Algorithm 1, steps 4 to 8).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Remainders are compared after rounding to 1 / `PARTS` of a unit, so that equal ones stay equal
/// whatever the last digits of the capabilities are.
const PARTS: f64 = 1e9;

/// Splits `total` units in proportion to `capability` (>= 0) by largest
/// remainder; ties go to the lowest index. When no node can do anything all get
/// the same. The targets add up to `total` exactly.
#[must_use]
pub fn targets(total: u64, capability: &[f64]) -> Vec<u64> {
    let largest = capability.iter().copied().fold(0.0, f64::max);
    // Scaled, so that neither sums nor products overflow.
    let scaled: Vec<f64> = if largest > 0.0 {
        capability.iter().map(|capability| capability / largest).collect()
    } else {
        vec![1.0; capability.len()]
    };
    let sum: f64 = scaled.iter().sum();
    let mut target = Vec::with_capacity(scaled.len());
    let mut rests = Vec::with_capacity(scaled.len());
    for scaled in &scaled {
        let exact = total as f64 * scaled / sum;
        let whole = (exact + 1.0 / PARTS).floor();
        target.push(integer(whole));
        rests.push(integer(((exact - whole).max(0.0) * PARTS).round()));
    }
    let mut order: Vec<usize> = (0..target.len()).filter(|&i| scaled[i] > 0.0).collect();
    order.sort_by_key(|&i| Reverse(rests[i]));
    let given: u64 = target.iter().sum();
    for &i in order.iter().cycle().take(missing(total, given)) {
        target[i] += 1;
    }
    // Only the last digits of huge totals can give too much.
    let full = order.iter().rev().copied().filter(|&i| target[i] > 0).collect::<Vec<_>>();
    for &i in full.iter().take(missing(given, total)) {
        target[i] -= 1;
    }
    target
}

fn missing(wanted: u64, given: u64) -> usize {
    wanted.saturating_sub(given).try_into().unwrap_or(usize::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the values are whole and between 0 and 2^53"
)]
fn integer(x: f64) -> u64 {
    x as u64
}

/// A move of `count` units between two nodes, given by their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Node that has too much.
    pub from: usize,
    /// Node that has too little.
    pub to: usize,
    /// Units of work.
    pub count: u64,
}

/// Transfers that turn `load` into `target`: again and again from the node that
/// has the most too much to the one that has the most too little, as much as one
/// of both allows; ties go to the lowest index.
///
/// Each transfer settles a node and the last one two, so that there are fewer
/// than nodes above and below their targets together.
#[must_use]
pub fn transfers(load: &[u64], target: &[u64]) -> Vec<Transfer> {
    let mut high = BinaryHeap::new();
    let mut low = BinaryHeap::new();
    for (i, (&load, &target)) in load.iter().zip(target).enumerate() {
        if load > target {
            high.push((load - target, Reverse(i)));
        } else if load < target {
            low.push((target - load, Reverse(i)));
        }
    }
    let mut transfers = Vec::new();
    while let (Some((surplus, Reverse(from))), Some((need, Reverse(to)))) = (high.pop(), low.pop())
    {
        let count = surplus.min(need);
        transfers.push(Transfer { from, to, count });
        if surplus > count {
            high.push((surplus - count, Reverse(from)));
        }
        if need > count {
            low.push((need - count, Reverse(to)));
        }
    }
    transfers
}
