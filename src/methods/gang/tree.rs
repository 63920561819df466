// SPDX-License-Identifier: GPL-3.0-or-later
//! A tree of maxima over free amounts: finds the first server of a range that fits in logarithmic
//! time.

use super::instance::Instance;

/// Tree nodes visited by one search; a bound on the time, reached only when kinds fragment.
const VISITS_MAX: usize = 192;

/// Maxima per kind over runs of servers; empty when the instance is small enough to scan.
#[derive(Debug, Clone)]
pub struct FreeTree {
    kinds: usize,
    leaves: usize,
    max: Vec<i32>,
}

impl FreeTree {
    pub fn new(instance: &Instance, used: bool) -> FreeTree {
        let kinds = instance.kinds;
        if !used {
            return FreeTree { kinds, leaves: 0, max: Vec::new() };
        }
        let leaves = instance.servers.max(1).next_power_of_two();
        // Leaves past the last server stay at -1, where nothing fits.
        let mut max = vec![-1; 2 * leaves * kinds];
        max[leaves * kinds..][..instance.capacity.len()].copy_from_slice(&instance.capacity);
        let mut tree = FreeTree { kinds, leaves, max };
        for node in (1..leaves).rev() {
            tree.pull(node);
        }
        tree
    }

    pub fn is_used(&self) -> bool {
        self.leaves > 0
    }

    pub fn copy_from(&mut self, other: &FreeTree) {
        self.max.copy_from_slice(&other.max);
    }

    fn pull(&mut self, node: usize) -> bool {
        let mut changed = false;
        for k in 0..self.kinds {
            let a = self.max[2 * node * self.kinds + k];
            let b = self.max[(2 * node + 1) * self.kinds + k];
            let at = &mut self.max[node * self.kinds + k];
            changed |= *at != a.max(b);
            *at = a.max(b);
        }
        changed
    }

    /// Sets what is free on a server.
    pub fn update(&mut self, server: usize, free: &[i32]) {
        if self.leaves == 0 {
            return;
        }
        let mut node = self.leaves + server;
        self.max[node * self.kinds..(node + 1) * self.kinds].copy_from_slice(free);
        while node > 1 {
            node /= 2;
            if !self.pull(node) {
                break;
            }
        }
    }

    /// First server in `lo..hi` with at least `request` free.
    pub fn first_fit(&self, lo: usize, hi: usize, request: &[i32]) -> Option<usize> {
        let mut node = self.leaves + lo;
        // Servers below one node of the current level.
        let mut span = 1;
        for _ in 0..VISITS_MAX {
            let first = node * span - self.leaves;
            if first >= hi {
                return None;
            }
            let max = &self.max[node * self.kinds..(node + 1) * self.kinds];
            if request.iter().zip(max).all(|(a, m)| a <= m) {
                if span == 1 {
                    return Some(first);
                }
                node *= 2;
                span /= 2;
                continue;
            }
            // Go on behind this node, at the highest level that starts there.
            node += 1;
            while node.is_multiple_of(2) && node > 1 {
                node /= 2;
                span *= 2;
            }
            if node == 1 {
                return None;
            }
        }
        None
    }
}
