// SPDX-License-Identifier: GPL-3.0-or-later
//! Which dimensions pending jobs lack.
//!
//! A pending job lacks what keeps it from starting: of the nodes that could
//! ever run it (their totals suffice) and cannot now, take those that lack the
//! fewest dimensions and count every dimension lacking on one of them. A job
//! that fits lacks nothing; a job that can never run does not count.

use super::engine::Engine;
use crate::model::{Amount, NodeIdx};

/// What a request lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Enough nodes fit now.
    Nothing,
    /// Fewer nodes than wanted could ever run it.
    Never,
    /// These dimensions, ascending.
    Dims(Vec<usize>),
}

impl Engine {
    /// What a request for `nodes` nodes with `amounts` on each lacks now.
    /// Cluster-wide dimensions are not looked at.
    #[must_use]
    pub fn lack(&self, amounts: &[Amount], nodes: usize) -> Lack {
        let (mut eligible, mut fitting) = (0, 0);
        let mut least = usize::MAX;
        let mut lacking = vec![false; self.dims];
        for at in 0..self.len {
            if !self.could_fit(at, amounts) {
                continue;
            }
            eligible += 1;
            let short = |dim: &usize| self.is_short(at, *dim, amounts);
            let count = (0..self.dims).filter(short).count();
            if count == 0 {
                fitting += 1;
                continue;
            }
            if count < least {
                least = count;
                lacking.fill(false);
            }
            if count == least {
                (0..self.dims).filter(short).for_each(|dim| lacking[dim] = true);
            }
        }
        if eligible < nodes.max(1) {
            Lack::Never
        } else if fitting >= nodes.max(1) {
            Lack::Nothing
        } else {
            Lack::Dims((0..self.dims).filter(|&dim| lacking[dim]).collect())
        }
    }

    /// Whether an idle node `at` would fit the request.
    fn could_fit(&self, at: usize, amounts: &[Amount]) -> bool {
        let base = at * self.dims;
        (0..self.dims)
            .all(|dim| self.is_cluster(dim) || amounts[dim].ticks() <= self.total[base + dim])
    }

    /// Whether node `at` has too little of `dim` free.
    fn is_short(&self, at: usize, dim: usize, amounts: &[Amount]) -> bool {
        let slot = at * self.dims + dim;
        let amount = amounts[dim].ticks();
        amount > 0 && !self.is_cluster(dim) && amount + self.used[slot] > self.total[slot]
    }
}

/// Jobs of one shape that stayed pending.
#[derive(Clone, Debug)]
struct Group {
    amounts: Vec<Amount>,
    nodes: usize,
    jobs: u64,
    lack: Lack,
}

/// Pending jobs by lacking dimension, kept up to date while nodes fill up.
#[derive(Clone, Debug)]
pub struct PendingCounts {
    counts: Vec<u64>,
    groups: Vec<Group>,
}

impl PendingCounts {
    /// No pending jobs, in `dims` dimensions.
    #[must_use]
    pub fn new(dims: usize) -> Self {
        Self { counts: vec![0; dims], groups: Vec::new() }
    }

    /// The number of pending jobs that lack each dimension.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// A job stays pending.
    pub fn add(&mut self, engine: &mut Engine, amounts: &[Amount], nodes: usize) {
        let lack = engine.lack(amounts, nodes);
        count(&mut self.counts, &lack, 1, true);
        self.groups.push(Group { amounts: amounts.to_vec(), nodes, jobs: 1, lack });
    }

    /// More of `node` is in use than before.
    pub fn node_filled(&mut self, engine: &mut Engine, _node: NodeIdx) {
        for group in &mut self.groups {
            let lack = engine.lack(&group.amounts, group.nodes);
            count(&mut self.counts, &group.lack, group.jobs, false);
            count(&mut self.counts, &lack, group.jobs, true);
            group.lack = lack;
        }
    }
}

fn count(counts: &mut [u64], lack: &Lack, jobs: u64, more: bool) {
    if let Lack::Dims(dims) = lack {
        for &dim in dims {
            counts[dim] = if more { counts[dim] + jobs } else { counts[dim] - jobs };
        }
    }
}
