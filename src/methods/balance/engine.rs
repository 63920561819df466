// SPDX-License-Identifier: GPL-3.0-or-later
//! The engine: nodes, sums over them, weights, and the decision for one job.

use std::collections::BTreeMap;

use super::chart::chart;
use super::index::Index;
use super::params::{Mode, Params, SHARPNESS_MAX};
use super::search::Scratch;
use super::unusable::Demand;
use phalanx_core::amount::cmp_ratio;
use phalanx_core::{Amount, NodeIdx};

/// A call that does not fit the engine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A slice with one entry for each dimension had another length.
    #[error("{what}: expected {expected} entries (one for each dimension), got {got}")]
    Length {
        /// Which argument.
        what: &'static str,
        /// Dimensions of the engine.
        expected: usize,
        /// Entries given.
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
        /// Their sum.
        sum: f64,
    },
    /// No source of weights is chosen.
    #[error("weights: at least one source is needed")]
    Sources,
}

/// What one job asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Amount of each dimension, on every node it gets; for cluster-wide
    /// dimensions the amount for the whole job.
    pub amounts: &'a [Amount],
    /// Number of nodes, at least 1 (0 counts as 1).
    pub nodes: usize,
    /// Takes only nodes with nothing in use.
    pub whole_node: bool,
    /// How long the job has waited already, in milliseconds (ageing of
    /// [`NoImprovement::Hold`](super::NoImprovement::Hold)).
    pub held_ms: u64,
    /// Whether to look for the runner-up too (about twice the time).
    pub runner_up: bool,
}

impl<'a> Request<'a> {
    /// A job of one node that has not waited yet.
    #[must_use]
    pub fn new(amounts: &'a [Amount]) -> Self {
        Self { amounts, nodes: 1, whole_node: false, held_ms: 0, runner_up: false }
    }
}

/// Which rule chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Utilization below the threshold: poll for a node that improves.
    Low,
    /// Utilization at or above the threshold: least dispersion.
    High,
    /// [`Mode::Best`]: least score, whatever the utilization.
    Best,
}

/// One chosen node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The node.
    pub node: NodeIdx,
    /// Its dispersion without the job.
    pub before: f64,
    /// Its dispersion with the job.
    pub after: f64,
    /// What was minimised: `after` in [`Mode::Seed`].
    pub score: f64,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The nodes, in the order of choice.
    Placed(Vec<Choice>),
    /// Fewer candidates fit than the job needs.
    NoFit {
        /// How many fit.
        fitting: usize,
    },
    /// Enough nodes fit, but the job waits for one whose balance it improves.
    Held,
}

/// The best node that was not chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunnerUp {
    /// The node and its figures.
    pub choice: Choice,
    /// Its score minus that of the last chosen node; below zero when the poll
    /// order, not the score, decided.
    pub margin: f64,
}

/// A decision and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Nodes, or why none.
    pub outcome: Outcome,
    /// Which rule applied.
    pub branch: Branch,
    /// Weight of each dimension when deciding; sum 1.
    pub weights: Vec<f64>,
    /// Cluster utilization when deciding.
    pub utilization: f64,
    /// The best node not chosen, when asked for and when there is one.
    pub runner_up: Option<RunnerUp>,
}

impl Decision {
    /// The chosen nodes in the order of choice; empty when none.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        match &self.outcome {
            Outcome::Placed(choices) => choices,
            Outcome::NoFit { .. } | Outcome::Held => &[],
        }
    }
}

/// The dimensions that one kind of node has.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Positions of the dimensions with a total above zero, ascending.
    pub(super) dims: Vec<usize>,
}

/// Nodes, their usage and the weights; see the module documentation.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) dims: usize,
    pub(super) len: usize,
    pub(super) params: Params,
    /// `initial_weights`, or equal ones.
    pub(super) initial: Vec<f64>,
    /// Whether a dimension is one total for the cluster.
    cluster: Vec<bool>,
    /// Ticks, `len * dims`, node-major.
    pub(super) total: Vec<u64>,
    pub(super) used: Vec<u64>,
    /// `1 / total` and usage minus the node's mean usage, node-major with
    /// stride `dims`, packed to the dimensions of the node's kind.
    pub(super) reciprocal: Vec<f64>,
    pub(super) contrast: Vec<f64>,
    /// Usage, laid out alike.
    pub(super) usage_of: Vec<f64>,
    pub(super) kind: Vec<u32>,
    pub(super) kinds: Vec<Kind>,
    kind_numbers: BTreeMap<Vec<usize>, u32>,
    /// Number of each node's totals among the different ones; empty once
    /// there have been more than [`CLASSES_MAX`].
    pub(super) class_of: Vec<u32>,
    class_numbers: BTreeMap<Vec<u64>, u32>,
    pub(super) sum_total: Vec<u128>,
    pub(super) sum_used: Vec<u128>,
    pub(super) pending: Vec<u64>,
    /// What the queue asks for of GPUs; `None`: nothing.
    pub(super) demand: Option<Demand>,
    pub(super) poll_start: usize,
    /// Mean request in ticks over the last few hundred, and how many.
    pub(super) typical: Vec<f64>,
    pub(super) seen: f64,
    pub(super) index: Option<Index>,
    pub(super) scratch: Scratch,
}

/// Different node totals up to which nodes with equal ones are told apart.
const CLASSES_MAX: usize = 64;

impl Engine {
    /// An engine of `totals.len() / dims` idle nodes; `totals` is node-major.
    ///
    /// # Errors
    /// When `dims` is 0 or does not divide `totals`, or `params` does not
    /// match it.
    pub fn new(dims: usize, totals: &[Amount], params: Params) -> Result<Self, EngineError> {
        if dims == 0 || !totals.len().is_multiple_of(dims) {
            let got = totals.len();
            return Err(EngineError::Length { what: "totals", expected: dims, got });
        }
        let len = totals.len() / dims;
        let mut engine = Self {
            dims,
            len,
            initial: Vec::new(),
            params: Params::default(),
            cluster: vec![false; dims],
            total: vec![0; totals.len()],
            used: vec![0; totals.len()],
            reciprocal: vec![0.0; totals.len()],
            contrast: vec![0.0; totals.len()],
            usage_of: vec![0.0; totals.len()],
            kind: vec![0; len],
            kinds: vec![Kind { dims: Vec::new() }],
            kind_numbers: BTreeMap::from([(Vec::new(), 0)]),
            class_of: vec![0; len],
            class_numbers: BTreeMap::from([(vec![0; dims], 0)]),
            sum_total: vec![0; dims],
            sum_used: vec![0; dims],
            pending: vec![0; dims],
            demand: None,
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
    /// When the weights have the wrong length or sum, or no source is chosen;
    /// the old parameters stay.
    pub fn set_params(&mut self, params: Params) -> Result<(), EngineError> {
        if params.sources.count() == 0 {
            return Err(EngineError::Sources);
        }
        let given = &params.initial_weights;
        let initial = if given.is_empty() {
            vec![1.0 / as_f64(self.dims); self.dims]
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
        self.params = params;
        Ok(())
    }

    /// The parameters in force.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of dimensions.
    #[must_use]
    pub fn dims(&self) -> usize {
        self.dims
    }

    pub(super) fn check_len(&self, what: &'static str, got: usize) -> Result<(), EngineError> {
        if got == self.dims {
            return Ok(());
        }
        Err(EngineError::Length { what, expected: self.dims, got })
    }

    fn check_node(&self, node: NodeIdx) -> Result<usize, EngineError> {
        if node.at() < self.len {
            return Ok(node.at());
        }
        Err(EngineError::Node { node, len: self.len })
    }

    /// Sets a node's totals and what is in use of them. Usage above the total
    /// (Slurm allows it) counts as it is and leaves nothing free. What a node
    /// has of a cluster-wide dimension does not count.
    ///
    /// # Errors
    /// When the node or a length does not fit the engine.
    pub fn set_node(
        &mut self,
        node: NodeIdx,
        total: &[Amount],
        used: &[Amount],
    ) -> Result<(), EngineError> {
        let at = self.check_node(node)?;
        self.check_len("total", total.len())?;
        self.check_len("used", used.len())?;
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
        Ok(())
    }

    /// Finds the kind and class of a node whose totals changed.
    fn classify(&mut self, at: usize) {
        self.index = None;
        let total = &self.total[at * self.dims..(at + 1) * self.dims];
        let own: Vec<usize> = (0..self.dims).filter(|&dim| total[dim] > 0).collect();
        self.kind[at] = match self.kind_numbers.get(&own) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
                self.kinds.push(Kind { dims: own.clone() });
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
            let number = u32::try_from(self.class_numbers.len()).unwrap_or(u32::MAX);
            self.class_numbers.insert(total.to_vec(), number);
            self.class_of[at] = number;
        }
    }

    /// Numbers of the classes so far, from 0.
    pub(super) fn class_count(&self) -> u32 {
        u32::try_from(self.class_numbers.len()).unwrap_or(u32::MAX)
    }

    /// Recomputes the doubles of one node from its ticks.
    fn refresh(&mut self, at: usize) {
        let base = at * self.dims;
        let dims = &self.kinds[self.kind[at] as usize].dims;
        let mut sum = 0.0;
        for (slot, &dim) in dims.iter().enumerate() {
            let total = tick_f64(self.total[base + dim]);
            let usage = tick_f64(self.used[base + dim]) / total;
            self.reciprocal[base + slot] = 1.0 / total;
            self.usage_of[base + slot] = usage;
            sum += usage;
        }
        let mean = if dims.is_empty() { 0.0 } else { sum / as_f64(dims.len()) };
        for slot in base..base + dims.len() {
            self.contrast[slot] = self.usage_of[slot] - mean;
        }
        if let Some(mut index) = self.index.take() {
            index.update(self, at);
            self.index = Some(index);
        }
    }

    /// Declares `dim` a cluster-wide dimension (a licence): `total` and `used`
    /// of it take part in the charts and in utilization, not in any node's
    /// dispersion. Nodes lose what they had of it.
    ///
    /// # Errors
    /// When the engine has no such dimension.
    pub fn set_cluster(
        &mut self,
        dim: usize,
        total: Amount,
        used: Amount,
    ) -> Result<(), EngineError> {
        if dim >= self.dims {
            return Err(EngineError::Dimension { dim });
        }
        if !self.cluster[dim] {
            self.cluster[dim] = true;
            for at in 0..self.len {
                self.total[at * self.dims + dim] = 0;
                self.used[at * self.dims + dim] = 0;
                self.classify(at);
                self.refresh(at);
            }
        }
        self.sum_total[dim] = u128::from(total.ticks());
        self.sum_used[dim] = u128::from(used.ticks());
        Ok(())
    }

    /// A job begins on `node`: `amounts` more are in use. Cluster-wide
    /// dimensions are not touched ([`set_cluster`](Self::set_cluster)).
    ///
    /// # Errors
    /// When the node or the length does not fit the engine.
    pub fn add_used(&mut self, node: NodeIdx, amounts: &[Amount]) -> Result<(), EngineError> {
        self.change_used(node, amounts, |used, amount| (used + amount).min(Amount::MAX.ticks()))
    }

    /// A job ends on `node`: `amounts` less are in use, at least 0.
    ///
    /// # Errors
    /// When the node or the length does not fit the engine.
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
        for (dim, amount) in amounts.iter().enumerate() {
            if self.cluster[dim] {
                continue;
            }
            let slot = at * self.dims + dim;
            let used = change(self.used[slot], amount.ticks());
            self.sum_used[dim] += u128::from(used);
            self.sum_used[dim] -= u128::from(self.used[slot]);
            self.used[slot] = used;
        }
        self.refresh(at);
        Ok(())
    }

    /// Sets how many pending jobs lack each dimension.
    ///
    /// # Errors
    /// When the length does not fit the engine.
    pub fn set_pending(&mut self, counts: &[u64]) -> Result<(), EngineError> {
        self.check_len("pending counts", counts.len())?;
        self.pending.copy_from_slice(counts);
        Ok(())
    }

    /// How many pending jobs lack each dimension, as set.
    #[must_use]
    pub fn pending(&self) -> &[u64] {
        &self.pending
    }

    /// Whether `dim` is one total for the cluster.
    pub(super) fn is_cluster(&self, dim: usize) -> bool {
        self.cluster[dim]
    }

    /// Where the next poll of the low branch begins.
    #[must_use]
    pub fn poll_start(&self) -> usize {
        self.poll_start
    }

    /// Moves the poll pointer; positions wrap around.
    pub fn set_poll_start(&mut self, start: usize) {
        self.poll_start = if self.len == 0 { 0 } else { start % self.len };
    }

    /// Cluster utilization: the mean over the dimensions that exist of in use
    /// divided by total; 0 when no dimension exists.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        let mut sum = 0.0;
        let mut count = 0;
        for (total, used) in self.sum_total.iter().zip(&self.sum_used) {
            if *total > 0 {
                sum += sum_f64(*used) / sum_f64(*total);
                count += 1;
            }
        }
        if count == 0 { 0.0 } else { sum / as_f64(count) }
    }

    /// Usage of one dimension over the cluster; 0 when it does not exist.
    #[must_use]
    pub fn usage(&self, dim: usize) -> f64 {
        match (self.sum_total.get(dim), self.sum_used.get(dim)) {
            (Some(&total), Some(&used)) if total > 0 => sum_f64(used) / sum_f64(total),
            _ => 0.0,
        }
    }

    /// The weight of each dimension; sum 1. Mode seed: the mean of the chosen
    /// sources, pending and usage by precedence chart. Mode best: see
    /// [`BestParams::sharpness`](super::BestParams::sharpness).
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        match self.params.mode {
            Mode::Seed => self.ordinal_weights(),
            Mode::Best => self.cardinal_weights(),
        }
    }

    fn ordinal_weights(&self) -> Vec<f64> {
        let sources = self.params.sources;
        let mut weights = vec![0.0; self.dims];
        let mut add = |values: &[f64]| {
            for (weight, value) in weights.iter_mut().zip(values) {
                *weight += value;
            }
        };
        if sources.initial {
            add(&self.initial);
        }
        if sources.pending {
            add(&chart(self.dims, |i, j| self.pending[i].cmp(&self.pending[j])));
        }
        if sources.usage {
            // Equality must not hang on rounding: whole numbers, exactly.
            let (total, used) = (&self.sum_total, &self.sum_used);
            add(&chart(self.dims, |i, j| cmp_ratio(used[i], total[i], used[j], total[j])));
        }
        let count = as_f64(sources.count());
        for weight in &mut weights {
            *weight /= count;
        }
        weights
    }

    fn cardinal_weights(&self) -> Vec<f64> {
        /// Scarcity of what is neither used nor lacking: it still counts.
        const LEAST: f64 = 0.05;
        /// Share of the weights that does not follow scarcity: when CPUs run
        /// out, GPUs left beside them still must not be forgotten.
        const BASE: f64 = 0.15;
        let sources = self.params.sources;
        let pending: f64 = self.pending.iter().map(|&count| tick_f64(count)).sum();
        let mut weights: Vec<f64> = (0..self.dims)
            .map(|dim| {
                let mut scarcity = LEAST;
                if sources.usage {
                    scarcity += self.usage(dim);
                }
                if sources.pending && pending > 0.0 {
                    scarcity += tick_f64(self.pending[dim]) / pending;
                }
                let importance = if sources.initial { self.initial[dim] } else { 1.0 };
                importance * power(scarcity, self.params.best.sharpness)
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        let all: f64 = if sources.initial { self.initial.iter().sum() } else { as_f64(self.dims) };
        for (weight, initial) in weights.iter_mut().zip(&self.initial) {
            let base = if sources.initial { initial / all } else { 1.0 / all };
            let sharp = if sum > 0.0 { *weight / sum } else { base };
            *weight = BASE * base + (1.0 - BASE) * sharp;
        }
        weights
    }

    /// Whether the cluster-wide part of a request is free.
    pub(super) fn cluster_fits(&self, amounts: &[Amount]) -> bool {
        (0..self.dims).all(|dim| {
            !self.cluster[dim]
                || u128::from(amounts[dim].ticks()) + self.sum_used[dim] <= self.sum_total[dim]
                || amounts[dim] == Amount::ZERO
        })
    }

    /// Whether the nodes' part of a request fits on node `at` now.
    pub(super) fn node_fits(&self, at: usize, amounts: &[Amount]) -> bool {
        let base = at * self.dims;
        (0..self.dims).all(|dim| {
            let amount = amounts[dim].ticks();
            amount == 0
                || self.cluster[dim]
                || amount + self.used[base + dim] <= self.total[base + dim]
        })
    }

    /// Whether nothing of node `at` is in use.
    pub(super) fn is_idle(&self, at: usize) -> bool {
        self.used[at * self.dims..(at + 1) * self.dims].iter().all(|&used| used == 0)
    }

    /// Puts the job on the nodes of `decision` and moves the poll pointer.
    /// The daemon does not need this: there, events report what Slurm did.
    ///
    /// # Errors
    /// When the request or the decision does not fit the engine.
    pub fn commit(
        &mut self,
        request: &Request<'_>,
        decision: &Decision,
    ) -> Result<(), EngineError> {
        let choices = decision.choices();
        for choice in choices {
            self.add_used(choice.node, request.amounts)?;
        }
        if let Some(last) = choices.last() {
            for dim in (0..self.dims).filter(|&dim| self.cluster[dim]) {
                self.sum_used[dim] += u128::from(request.amounts[dim].ticks());
            }
            self.set_poll_start(last.node.at() + 1);
        }
        Ok(())
    }

    /// What `node` has of `dim`; zero for what does not exist.
    pub(super) fn total(&self, node: usize, dim: usize) -> Amount {
        let slot = node * self.dims + dim;
        let exists = node < self.len && dim < self.dims;
        Amount::saturating(if exists { self.total[slot] } else { 0 })
    }

    /// What is in use of `dim` on `node`; zero for what does not exist.
    #[must_use]
    pub fn used(&self, node: NodeIdx, dim: usize) -> Amount {
        let slot = node.at() * self.dims + dim;
        let exists = node.at() < self.len && dim < self.dims;
        Amount::saturating(if exists { self.used[slot] } else { 0 })
    }
}

/// `base` to a small whole power, the same bits on every machine.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent.min(SHARPNESS_MAX)).fold(1.0, |product, _| product * base)
}

/// A count as a double (counts stay far below 2^53).
pub(super) fn as_f64(count: usize) -> f64 {
    count as f64
}

/// Ticks or a count of jobs as a double; exact for ticks.
pub(super) fn tick_f64(ticks: u64) -> f64 {
    ticks as f64
}

/// A sum of ticks as the nearest double.
fn sum_f64(sum: u128) -> f64 {
    sum as f64
}
