// SPDX-License-Identifier: GPL-3.0-or-later
//! The engine: nodes, sums over them, weights, and the decision for one job.

use super::chart::chart;
use super::decision::{Decision, Request};
use super::fragment::{Mix, Want};
use super::index::Index;
use super::nodes::Nodes;
use super::params::{Mode, Params};
use super::scorer::Scorer;
use super::search::Scratch;
use super::terms::SHARPNESS_MAX;
use super::unusable::Demand;
use phalanx_core::amount::cmp_ratio;
use phalanx_core::{Amount, NodeIdx};

/// A call that does not fit the engine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A slice with one entry for each dimension had another length.
    #[error("{what}: expected {expected} entries (one for each dimension), got {got}")]
    Length {
        /// Name of the argument.
        what: &'static str,
        /// Dimensions of the engine.
        expected: usize,
        /// Dimensions of the engine.
        got: usize,
    },
    /// A node that the engine does not have.
    #[error("node {node}: the engine has {len} nodes")]
    Node {
        /// The index given.
        node: NodeIdx,
        /// Number of nodes.
        len: usize,
    },
    /// A dimension that the engine does not have or that is not cluster-wide.
    #[error("dimension {dim}: not a cluster-wide dimension of the engine")]
    Dimension {
        /// The index given.
        dim: usize,
    },
    /// Weights that are negative, not finite or do not sum to 1.
    #[error("initial weights: must be >= 0 with sum 1, got sum {sum}")]
    Weights {
        /// Sum of the weights.
        sum: f64,
    },
    /// The options choose no source of weights.
    #[error("weights: at least one source is needed")]
    Sources,
}

/// Nodes, weights and parameters; decides one job at a time. See [`balance`](super).
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) scorer: Scorer,
    /// `initial_weights`, or equal ones.
    pub(super) initial: Vec<f64>,
    pub(super) pending: Vec<u64>,
    pub(super) poll_start: usize,
    /// Mean request in ticks over the last few hundred requests, and their number.
    pub(super) typical: Vec<f64>,
    pub(super) seen: f64,
    pub(super) index: Option<Index>,
    pub(super) scratch: Scratch,
}

impl Engine {
    /// An engine of `totals.len() / dims` idle nodes; `totals` is node-major.
    ///
    /// # Errors
    /// Fails when `dims` is 0 or does not divide `totals`, or `params` does not
    /// match it.
    pub fn new(dims: usize, totals: &[Amount], params: Params) -> Result<Self, EngineError> {
        if dims == 0 || !totals.len().is_multiple_of(dims) {
            let got = totals.len();
            return Err(EngineError::Length { what: "totals", expected: dims, got });
        }
        let len = totals.len() / dims;
        let nodes = Nodes::new(dims, len);
        let mut engine = Self {
            scorer: Scorer { nodes, params: Params::default(), demand: None },
            initial: Vec::new(),
            pending: vec![0; dims],
            poll_start: 0,
            typical: vec![0.0; dims],
            seen: 0.0,
            index: None,
            scratch: Scratch::default(),
        };
        engine.set_params(params)?;
        let idle = vec![Amount::ZERO; dims];
        for (at, total) in totals.chunks_exact(dims).enumerate() {
            engine.set_node(NodeIdx::new(at), total, &idle)?;
        }
        Ok(engine)
    }

    /// Replaces the parameters; nodes and pending counts stay.
    ///
    /// # Errors
    /// Fails when the weights have the wrong length or sum, or no source is chosen;
    /// the old parameters stay.
    pub fn set_params(&mut self, params: Params) -> Result<(), EngineError> {
        if params.sources.count() == 0 {
            return Err(EngineError::Sources);
        }
        let given = &params.initial_weights;
        let initial = if given.is_empty() {
            vec![1.0 / self.dims() as f64; self.dims()]
        } else {
            self.check_len("initial weights", given.len())?;
            given.clone()
        };
        let sum: f64 = initial.iter().sum();
        let valid = initial.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !valid || (sum - 1.0).abs() > 1e-9 {
            return Err(EngineError::Weights { sum });
        }
        self.initial = initial;
        self.scorer.params = params;
        Ok(())
    }

    /// The parameters in force.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.scorer.params
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scorer.nodes.len
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of dimensions.
    #[must_use]
    pub fn dims(&self) -> usize {
        self.scorer.nodes.dims
    }

    pub(super) fn check_len(&self, what: &'static str, got: usize) -> Result<(), EngineError> {
        let expected = self.dims();
        if got == expected { Ok(()) } else { Err(EngineError::Length { what, expected, got }) }
    }

    fn check_node(&self, node: NodeIdx) -> Result<usize, EngineError> {
        let len = self.len();
        if node.at() < len { Ok(node.at()) } else { Err(EngineError::Node { node, len }) }
    }

    /// Sets a node's totals and the amounts in use of them. Usage above the total (Slurm allows it)
    /// counts as it is and leaves nothing free. Amounts of a cluster-wide dimension do not count.
    ///
    /// # Errors
    /// Fails when the node or a length does not fit the engine.
    pub fn set_node(
        &mut self,
        node: NodeIdx,
        total: &[Amount],
        used: &[Amount],
    ) -> Result<(), EngineError> {
        let at = self.check_node(node)?;
        self.check_len("total", total.len())?;
        self.check_len("used", used.len())?;
        if self.scorer.nodes.set(at, total, used) {
            self.index = None;
        }
        self.update_index(at);
        Ok(())
    }

    /// Sets when the last job of a node ends, Unix seconds; 0: none is known.
    ///
    /// # Errors
    /// Fails when the node does not fit the engine.
    pub fn set_last_end(&mut self, node: NodeIdx, last_s: u64) -> Result<(), EngineError> {
        let at = self.check_node(node)?;
        self.note_last_end(node, last_s);
        self.update_index(at);
        Ok(())
    }

    /// Does what [`set_last_end`](Self::set_last_end) does, for a node whose use is changed next,
    /// so that the index takes both at once.
    pub fn note_last_end(&mut self, node: NodeIdx, last_s: u64) {
        if let Some(last) = self.scorer.nodes.last_s.get_mut(node.at()) {
            *last = last_s as f64;
        }
    }

    fn update_index(&mut self, at: usize) {
        if let Some(index) = &mut self.index {
            index.update(&self.scorer.nodes, at);
        }
    }

    /// Declares `dim` a cluster-wide dimension (a licence): its `total` and `used` take part in the
    /// charts and in utilization, not in any node's dispersion. Nodes lose their amounts of it.
    ///
    /// # Errors
    /// Fails when the engine has no such dimension.
    pub fn set_cluster(
        &mut self,
        dim: usize,
        total: Amount,
        used: Amount,
    ) -> Result<(), EngineError> {
        if dim >= self.dims() {
            return Err(EngineError::Dimension { dim });
        }
        if self.scorer.nodes.set_cluster(dim, total, used) {
            self.index = None;
        }
        Ok(())
    }

    /// Adds `amounts` to the use of `node` for a job that begins. Cluster-wide dimensions are not
    /// touched ([`set_cluster`](Self::set_cluster)).
    ///
    /// # Errors
    /// Fails when the node or the length does not fit the engine.
    pub fn add_used(&mut self, node: NodeIdx, amounts: &[Amount]) -> Result<(), EngineError> {
        self.change_used(node, amounts, |used, amount| (used + amount).min(Amount::MAX.ticks()))
    }

    /// Takes `amounts`, as far as they are in use, from the use of `node` for a job that ends.
    ///
    /// # Errors
    /// Fails when the node or the length does not fit the engine.
    pub fn sub_used(&mut self, node: NodeIdx, amounts: &[Amount]) -> Result<(), EngineError> {
        self.change_used(node, amounts, u64::saturating_sub)
    }

    fn change_used(
        &mut self,
        node: NodeIdx,
        amounts: &[Amount],
        change: impl Fn(u64, u64) -> u64,
    ) -> Result<(), EngineError> {
        let at = self.check_node(node)?;
        self.check_len("amounts", amounts.len())?;
        self.scorer.nodes.change_used(at, amounts, change);
        self.update_index(at);
        Ok(())
    }

    /// Sets how many pending jobs lack each dimension.
    ///
    /// # Errors
    /// Fails when the length does not fit the engine.
    pub fn set_pending(&mut self, counts: &[u64]) -> Result<(), EngineError> {
        self.check_len("pending counts", counts.len())?;
        self.pending.copy_from_slice(counts);
        Ok(())
    }

    /// Numbers of pending jobs that lack each dimension, as they were set.
    #[must_use]
    pub fn pending(&self) -> &[u64] {
        &self.pending
    }

    /// The node at which the next poll of the low branch begins.
    #[must_use]
    pub fn poll_start(&self) -> usize {
        self.poll_start
    }

    /// Moves the poll pointer; positions wrap around.
    pub fn set_poll_start(&mut self, start: usize) {
        self.poll_start = start % self.len().max(1);
    }

    /// Cluster utilization: the mean over the dimensions that exist of in use
    /// divided by total; 0 when no dimension exists.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        let usages = || (0..self.dims()).filter_map(|dim| self.scorer.nodes.usage(dim));
        usages().fold(0.0, |sum, usage| sum + usage) / usages().count().max(1) as f64
    }

    /// Usage of one dimension over the cluster; 0 when the dimension does not exist.
    #[must_use]
    pub fn usage(&self, dim: usize) -> f64 {
        self.scorer.nodes.usage(dim).unwrap_or(0.0)
    }

    /// The weight of each dimension; sum 1. Mode seed: the mean of the chosen
    /// sources, pending and usage by precedence chart. Mode best: see
    /// [`BestParams::sharpness`](super::BestParams::sharpness).
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        match self.params().mode {
            Mode::Seed => self.ordinal_weights(),
            Mode::Best => self.cardinal_weights(),
        }
    }

    fn ordinal_weights(&self) -> Vec<f64> {
        let sources = self.params().sources;
        let mut weights = vec![0.0; self.dims()];
        let mut add = |values: &[f64]| {
            for (weight, value) in weights.iter_mut().zip(values) {
                *weight += value;
            }
        };
        if sources.initial {
            add(&self.initial);
        }
        if sources.pending {
            add(&self.pending_chart());
        }
        if sources.usage {
            add(&self.usage_chart());
        }
        let count = sources.count() as f64;
        for weight in &mut weights {
            *weight /= count;
        }
        weights
    }

    /// Precedence chart of the pending counts.
    pub(super) fn pending_chart(&self) -> Vec<f64> {
        chart(self.dims(), |i, j| self.pending[i].cmp(&self.pending[j]))
    }

    /// Precedence chart of the usage over the cluster.
    pub(super) fn usage_chart(&self) -> Vec<f64> {
        // Equality must not hang on rounding: whole numbers, exactly.
        let (total, used) = (&self.scorer.nodes.sum_total, &self.scorer.nodes.sum_used);
        chart(self.dims(), |i, j| cmp_ratio(used[i], total[i], used[j], total[j]))
    }

    fn cardinal_weights(&self) -> Vec<f64> {
        /// Scarcity of a dimension that is neither used nor lacking, so that it still counts.
        const LEAST: f64 = 0.05;
        /// Share of the weights that does not follow scarcity: when CPUs run out, GPUs that would
        /// be left without CPUs must still count.
        const BASE: f64 = 0.15;
        let sources = self.params().sources;
        let pending: f64 = self.pending.iter().map(|&count| count as f64).sum();
        let mut weights: Vec<f64> = (0..self.dims())
            .map(|dim| {
                let mut scarcity = LEAST;
                if sources.usage {
                    scarcity += self.usage(dim);
                }
                if sources.pending && pending > 0.0 {
                    scarcity += self.pending[dim] as f64 / pending;
                }
                let importance = if sources.initial { self.initial[dim] } else { 1.0 };
                importance * power(scarcity, self.params().best.sharpness)
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        let all: f64 = if sources.initial { self.initial.iter().sum() } else { self.dims() as f64 };
        for (weight, initial) in weights.iter_mut().zip(&self.initial) {
            let base = if sources.initial { initial / all } else { 1.0 / all };
            let sharp = if sum > 0.0 { *weight / sum } else { base };
            *weight = BASE * base + (1.0 - BASE) * sharp;
        }
        weights
    }

    /// Puts the job on the nodes of `decision`, and moves the poll pointer if a poll chose them.
    /// In the daemon events report what Slurm did; it moves the pointer alone.
    ///
    /// # Errors
    /// Fails when the request or the decision does not fit the engine.
    pub fn commit(
        &mut self,
        request: &Request<'_>,
        decision: &Decision,
    ) -> Result<(), EngineError> {
        let choices = decision.choices();
        for choice in choices {
            self.add_used(choice.node, request.amounts)?;
        }
        if !choices.is_empty() {
            self.scorer.nodes.use_cluster(request.amounts);
        }
        if let Some(start) = decision.next_poll() {
            self.set_poll_start(start);
        }
        Ok(())
    }

    /// Amount in use of `dim` on `node`; zero for a node or dimension that does not exist.
    #[must_use]
    pub fn used(&self, node: NodeIdx, dim: usize) -> Amount {
        self.scorer.nodes.use_of(node.at(), dim).0
    }

    /// Sets the mix of pending requests for whole GPUs: dimension `gpu` counts GPUs, dimension
    /// `cpu` whole CPUs. With an empty mix GPUs without use do not count.
    ///
    /// # Errors
    /// Fails when the engine has no such dimensions.
    pub fn set_demand(
        &mut self,
        cpu: usize,
        gpu: usize,
        wants: &[Want],
    ) -> Result<(), EngineError> {
        if let Some(dim) = [cpu, gpu].into_iter().find(|dim| *dim >= self.dims()) {
            return Err(EngineError::Dimension { dim });
        }
        let totals = self.scorer.nodes.total.chunks_exact(self.dims());
        let most = totals.filter_map(|node| node.get(gpu)).max().copied().unwrap_or(0);
        let most = Amount::saturating(most);
        let asks = wants.iter().any(|want| want.gpus > 0 && want.weight > 0.0);
        let some = asks && most.as_f64() > 0.0;
        self.scorer.demand = some.then(|| Demand::new(cpu, gpu, Mix::new(wants), most));
        Ok(())
    }
}

/// `base` to a small whole power, with the same bits on every machine.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent.min(SHARPNESS_MAX)).fold(1.0, |product, _| product * base)
}
