// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode best: how many of a node's GPUs the queue could use before a placement
//! and cannot use after it.

use super::engine::{Engine, EngineError, as_f64};
use super::fragment::{GPUS_MAX, Mix, WHOLE, Want};
use super::params::Mode;
use phalanx_core::Amount;

/// The mix of requests that the queue makes, and where GPUs and CPUs are.
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
    fn new(cpu: usize, gpu: usize, mix: Mix, most: Amount) -> Self {
        let whole = [WHOLE; GPUS_MAX];
        let gpus = usize::try_from(most.ticks()).unwrap_or(GPUS_MAX).min(GPUS_MAX);
        let row = |cpu_milli: u64| (0..=gpus).map(move |n| (cpu_milli, n));
        let costs = mix.thresholds().flat_map(row);
        let costs = costs.map(|(cpus, n)| mix.cost(cpus, whole.get(..n).unwrap_or_default()));
        let costs: Vec<f64> = costs.collect();
        Self { cpu, gpu, most: most.as_f64(), costs, width: gpus + 1, mix }
    }

    /// Expected GPUs that are free and of no use, thousandths.
    fn unusable(&self, cpus: u64, gpus: u64) -> f64 {
        let (cpu_milli, whole) = (cpus.saturating_mul(1000), [WHOLE; GPUS_MAX]);
        let gpus = usize::try_from(gpus).unwrap_or(GPUS_MAX).min(GPUS_MAX);
        let known = self.costs.get(self.mix.step(cpu_milli) * self.width + gpus);
        match known.filter(|_| gpus < self.width) {
            Some(cost) => *cost,
            // A node that has grown since.
            None => self.mix.cost(cpu_milli, whole.get(..gpus).unwrap_or_default()),
        }
    }
}

impl Engine {
    /// Sets the mix of pending requests for whole GPUs: dimension `gpu` counts
    /// them, dimension `cpu` whole CPUs. An empty mix judges nothing.
    ///
    /// # Errors
    /// When the engine has no such dimensions.
    pub fn set_demand(
        &mut self,
        cpu: usize,
        gpu: usize,
        wants: &[Want],
    ) -> Result<(), EngineError> {
        if let Some(dim) = [cpu, gpu].into_iter().find(|dim| *dim >= self.dims) {
            return Err(EngineError::Dimension { dim });
        }
        let totals = self.total.chunks_exact(self.dims);
        let most = totals.filter_map(|node| node.get(gpu)).max().copied().unwrap_or(0);
        let most = Amount::saturating(most);
        let asks = wants.iter().any(|want| want.gpus > 0 && want.weight > 0.0);
        let some = asks && most.as_f64() > 0.0;
        self.demand = some.then(|| Demand::new(cpu, gpu, Mix::new(wants), most));
        Ok(())
    }

    /// What a placement costs the queue on this node, as a term of its score:
    /// free GPUs that a request of the mix could use before it and not after it,
    /// on average, in parts of the largest node's; at least 0. Beside a constant
    /// for each request that is by how much the GPUs without use become more
    /// (Weng et al., ATC'23).
    pub(super) fn fragment_term(&self, at: usize, amounts: &[Amount]) -> f64 {
        let factor = self.params.best.fragment;
        let Some(demand) = self.demand.as_ref().filter(|_| factor > 0.0) else { return 0.0 };
        if self.params.mode == Mode::Seed {
            return 0.0;
        }
        let level = |dim: usize| {
            let slot = at * self.dims + dim;
            let (total, used) = (self.total.get(slot), self.used.get(slot));
            let free = total.zip(used).map_or(0, |(total, used)| total.saturating_sub(*used));
            (free, amounts.get(dim).map_or(0, |amount| amount.ticks()))
        };
        let ((cpus, cpus_taken), (gpus, gpus_taken)) = (level(demand.cpu), level(demand.gpu));
        if gpus == 0 {
            return 0.0;
        }
        let left = (cpus.saturating_sub(cpus_taken), gpus.saturating_sub(gpus_taken));
        let rise = demand.unusable(left.0, left.1) - demand.unusable(cpus, gpus);
        let taken = as_f64(usize::try_from(gpus_taken.min(gpus)).unwrap_or(GPUS_MAX));
        factor * (taken + rise / f64::from(WHOLE)).max(0.0) / demand.most
    }
}
