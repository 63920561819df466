// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes of an engine: totals and use in ticks, both as ratios, and sums over them.

use std::collections::BTreeMap;

use phalanx_core::Amount;
use phalanx_core::number::as_u32;

/// Number of different node totals beyond which nodes are not numbered by their totals.
const CLASSES_MAX: usize = 64;

/// Totals and use of all nodes. Indexes are checked by the caller.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    pub(super) dims: usize,
    pub(super) len: usize,
    /// Whether a dimension is one total for the cluster.
    cluster: Vec<bool>,
    /// Ticks, `len * dims`, node-major.
    pub(super) total: Vec<u64>,
    pub(super) used: Vec<u64>,
    /// `1 / total` and usage minus the node's mean usage, node-major with
    /// stride `dims`, packed to the dimensions of the node's kind.
    pub(super) reciprocal: Vec<f64>,
    pub(super) contrast: Vec<f64>,
    /// Usage, in the layout of `reciprocal`.
    pub(super) usage_of: Vec<f64>,
    /// Last end of the jobs on each node, Unix seconds; 0: none is known.
    pub(super) last_s: Vec<f64>,
    pub(super) kind: Vec<u32>,
    /// Dimensions with a total above zero, ascending, by kind of node.
    pub(super) kinds: Vec<Vec<usize>>,
    kind_numbers: BTreeMap<Vec<usize>, u32>,
    /// Number of each node's totals among the different ones; empty once
    /// there have been more than [`CLASSES_MAX`].
    pub(super) class_of: Vec<u32>,
    class_numbers: BTreeMap<Vec<u64>, u32>,
    pub(super) sum_total: Vec<u128>,
    pub(super) sum_used: Vec<u128>,
}

impl Nodes {
    /// `len` nodes without any resource.
    pub(super) fn new(dims: usize, len: usize) -> Self {
        Self {
            dims,
            len,
            cluster: vec![false; dims],
            total: vec![0; len * dims],
            used: vec![0; len * dims],
            reciprocal: vec![0.0; len * dims],
            contrast: vec![0.0; len * dims],
            usage_of: vec![0.0; len * dims],
            last_s: vec![0.0; len],
            kind: vec![0; len],
            kinds: vec![Vec::new()],
            kind_numbers: BTreeMap::from([(Vec::new(), 0)]),
            class_of: vec![0; len],
            class_numbers: BTreeMap::from([(vec![0; dims], 0)]),
            sum_total: vec![0; dims],
            sum_used: vec![0; dims],
        }
    }

    /// Sets the totals of a node and the amounts in use of them; returns whether the totals
    /// changed.
    pub(super) fn set(&mut self, at: usize, total: &[Amount], used: &[Amount]) -> bool {
        let mut totals_changed = false;
        for dim in (0..self.dims).filter(|&dim| !self.cluster[dim]) {
            let slot = at * self.dims + dim;
            let (new_total, new_used) = (total[dim].ticks(), used[dim].ticks());
            self.sum_total[dim] += u128::from(new_total);
            self.sum_total[dim] -= u128::from(self.total[slot]);
            self.sum_used[dim] += u128::from(new_used);
            self.sum_used[dim] -= u128::from(self.used[slot]);
            totals_changed |= self.total[slot] != new_total;
            self.total[slot] = new_total;
            self.used[slot] = new_used;
        }
        if totals_changed {
            self.classify(at);
        }
        self.refresh(at);
        totals_changed
    }

    /// Changes the amounts in use of a node; cluster-wide dimensions stay.
    pub(super) fn change_used(
        &mut self,
        at: usize,
        amounts: &[Amount],
        change: impl Fn(u64, u64) -> u64,
    ) {
        for (dim, amount) in amounts.iter().enumerate().filter(|(dim, _)| !self.cluster[*dim]) {
            let slot = at * self.dims + dim;
            let used = change(self.used[slot], amount.ticks());
            self.sum_used[dim] += u128::from(used);
            self.sum_used[dim] -= u128::from(self.used[slot]);
            self.used[slot] = used;
        }
        self.refresh(at);
    }

    /// Makes `dim` cluster-wide with these sums; returns whether nodes had it before.
    pub(super) fn set_cluster(&mut self, dim: usize, total: Amount, used: Amount) -> bool {
        let first_time = !std::mem::replace(&mut self.cluster[dim], true);
        if first_time {
            for at in 0..self.len {
                self.total[at * self.dims + dim] = 0;
                self.used[at * self.dims + dim] = 0;
                self.classify(at);
                self.refresh(at);
            }
        }
        self.sum_total[dim] = u128::from(total.ticks());
        self.sum_used[dim] = u128::from(used.ticks());
        first_time
    }

    /// Adds to the amounts in use of the cluster-wide dimensions.
    pub(super) fn use_cluster(&mut self, amounts: &[Amount]) {
        for dim in (0..self.dims).filter(|&dim| self.cluster[dim]) {
            self.sum_used[dim] += u128::from(amounts[dim].ticks());
        }
    }

    /// Finds the kind and class of a node whose totals changed.
    fn classify(&mut self, at: usize) {
        let total = &self.total[at * self.dims..(at + 1) * self.dims];
        let own: Vec<usize> = (0..self.dims).filter(|&dim| total[dim] > 0).collect();
        self.kind[at] = match self.kind_numbers.get(&own) {
            Some(&number) => number,
            None => {
                let number = as_u32(self.kinds.len());
                self.kinds.push(own.clone());
                self.kind_numbers.insert(own, number);
                number
            }
        };
        if self.class_of.is_empty() {
            return;
        }
        if let Some(&number) = self.class_numbers.get(total) {
            self.class_of[at] = number;
        } else if self.class_numbers.len() > CLASSES_MAX {
            self.class_of = Vec::new();
        } else {
            let number = self.class_count();
            self.class_numbers.insert(total.to_vec(), number);
            self.class_of[at] = number;
        }
    }

    /// Number of node classes so far; classes are numbered from 0.
    pub(super) fn class_count(&self) -> u32 {
        as_u32(self.class_numbers.len())
    }

    /// Recomputes a node's floating-point figures from its ticks.
    fn refresh(&mut self, at: usize) {
        let base = at * self.dims;
        let dims = &self.kinds[self.kind[at] as usize];
        let mut sum = 0.0;
        for (slot, &dim) in dims.iter().enumerate() {
            let total = self.total[base + dim] as f64;
            let usage = self.used[base + dim] as f64 / total;
            self.reciprocal[base + slot] = 1.0 / total;
            self.usage_of[base + slot] = usage;
            sum += usage;
        }
        let mean = if dims.is_empty() { 0.0 } else { sum / dims.len() as f64 };
        for slot in base..base + dims.len() {
            self.contrast[slot] = self.usage_of[slot] - mean;
        }
    }

    /// Whether `dim` is one total for the cluster.
    pub(super) fn is_cluster(&self, dim: usize) -> bool {
        self.cluster[dim]
    }

    /// Usage of a dimension over the cluster; `None` when the dimension does not exist.
    pub(super) fn usage(&self, dim: usize) -> Option<f64> {
        let (total, used) = (*self.sum_total.get(dim)?, *self.sum_used.get(dim)?);
        (total > 0).then(|| used as f64 / total as f64)
    }

    /// Whether the cluster-wide part of a request is free.
    pub(super) fn cluster_fits(&self, amounts: &[Amount]) -> bool {
        (0..self.dims).all(|dim| {
            !self.cluster[dim]
                || u128::from(amounts[dim].ticks()) + self.sum_used[dim] <= self.sum_total[dim]
                || amounts[dim] == Amount::ZERO
        })
    }

    /// Whether node `at` has enough of `dim` free.
    pub(super) fn has_free(&self, at: usize, dim: usize, amounts: &[Amount]) -> bool {
        let slot = at * self.dims + dim;
        let amount = amounts[dim].ticks();
        amount == 0 || self.cluster[dim] || amount + self.used[slot] <= self.total[slot]
    }

    /// Whether the nodes' part of a request fits on node `at` at present.
    pub(super) fn fits(&self, at: usize, amounts: &[Amount]) -> bool {
        (0..self.dims).all(|dim| self.has_free(at, dim, amounts))
    }

    /// Whether `amounts` would fit on node `at` if the node were idle.
    pub(super) fn could_fit(&self, at: usize, amounts: &[Amount]) -> bool {
        let base = at * self.dims;
        (0..self.dims)
            .all(|dim| self.cluster[dim] || amounts[dim].ticks() <= self.total[base + dim])
    }

    /// Whether nothing of node `at` is in use.
    pub(super) fn is_idle(&self, at: usize) -> bool {
        self.used[at * self.dims..(at + 1) * self.dims].iter().all(|&used| used == 0)
    }

    /// Ticks in use and in total of `dim` on node `at`; zero for a dimension that it lacks.
    pub(super) fn use_of(&self, at: usize, dim: usize) -> (Amount, Amount) {
        let slot = at * self.dims + dim;
        let exists = at < self.len && dim < self.dims;
        let ticks = |list: &[u64]| Amount::saturating(if exists { list[slot] } else { 0 });
        (ticks(&self.used), ticks(&self.total))
    }
}
