// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode best: how many of a node's GPUs the queue could use before a placement
//! and cannot use after it.

use super::fragment::{GPUS_MAX, Mix, WHOLE};
use super::nodes::Nodes;
use phalanx_core::Amount;
use phalanx_core::number::nearest_usize;

/// The mix of the queue's requests, and the dimensions of GPUs and CPUs.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    cpu: usize,
    gpu: usize,
    mix: Mix,
    /// GPUs of the node with the most.
    most: f64,
    /// [`Mix::cost`] of whole GPUs by [`Mix::step`] and their number, from 0 on: a decision may
    /// look at it for every candidate.
    costs: Vec<f64>,
    /// Numbers of GPUs in a row of `costs`.
    width: usize,
}

impl Demand {
    pub(super) fn new(cpu: usize, gpu: usize, mix: Mix, most: Amount) -> Self {
        let whole = [WHOLE; GPUS_MAX];
        let gpus = nearest_usize(most.ticks()).min(GPUS_MAX);
        let row = |cpu_milli: u64| (0..=gpus).map(move |n| (cpu_milli, n));
        let costs = mix.thresholds().flat_map(row);
        let costs = costs.map(|(cpus, n)| mix.cost(cpus, whole.get(..n).unwrap_or_default()));
        let costs: Vec<f64> = costs.collect();
        Self { cpu, gpu, most: most.as_f64(), costs, width: gpus + 1, mix }
    }

    /// The only dimensions on whose free amounts a node's [`term`](Self::term) depends.
    pub(super) fn dims(&self) -> [usize; 2] {
        [self.cpu, self.gpu]
    }

    /// Expected thousandths of free GPUs that requests of the mix cannot use.
    fn unusable(&self, cpus: u64, gpus: u64) -> f64 {
        let (cpu_milli, whole) = (cpus.saturating_mul(1000), [WHOLE; GPUS_MAX]);
        let gpus = nearest_usize(gpus).min(GPUS_MAX);
        let known = self.costs.get(self.mix.step(cpu_milli) * self.width + gpus);
        match known.filter(|_| gpus < self.width) {
            Some(cost) => *cost,
            // A node that has grown since.
            None => self.mix.cost(cpu_milli, whole.get(..gpus).unwrap_or_default()),
        }
    }

    /// `factor` times the cost to the queue of a placement on a node: free GPUs that a request of
    /// the mix could use before it and not after it, on average, in parts of the largest node's
    /// GPUs; at least 0. Up to a constant for each request that is the rise of the GPUs without use
    /// (Weng et al., ATC'23).
    pub(super) fn term(&self, factor: f64, nodes: &Nodes, at: usize, amounts: &[Amount]) -> f64 {
        let level = |dim: usize| {
            let slot = at * nodes.dims + dim;
            let (total, used) = (nodes.total.get(slot), nodes.used.get(slot));
            let free = total.zip(used).map_or(0, |(total, used)| total.saturating_sub(*used));
            (free, amounts.get(dim).map_or(0, |amount| amount.ticks()))
        };
        let ((cpus, cpus_taken), (gpus, gpus_taken)) = (level(self.cpu), level(self.gpu));
        if gpus == 0 {
            return 0.0;
        }
        let left = (cpus.saturating_sub(cpus_taken), gpus.saturating_sub(gpus_taken));
        let rise = self.unusable(left.0, left.1) - self.unusable(cpus, gpus);
        let taken = gpus_taken.min(gpus) as f64;
        factor * (taken + rise / f64::from(WHOLE)).max(0.0) / self.most
    }
}
