// SPDX-License-Identifier: GPL-3.0-or-later
//! The choice of nodes for one job, made at the moment Slurm asks.
//!
//! A [`Placer`] joins the exact usage of the nodes ([`Cluster`]) with the
//! balance engine. One question is a [`Search`] that borrows from it: it turns a
//! request in Slurm's terms into what each node must give, lets the engine choose
//! among the candidates, and falls back to an uneven split where the user left the
//! number of nodes open.

mod as_stock;
mod busy;
mod candidates;
mod classes;
mod core_kinds;
mod dims;
mod fitting;
mod floor;
#[cfg(test)]
mod floor_tests;
#[cfg(test)]
mod open_tests;
mod placement;
mod search;
#[cfg(test)]
mod tests;
mod topology;
mod tuning;
mod uneven;
mod unfit;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use candidates::{Candidates, Excluded};
pub use classes::{Classes, UpToClass};
use core_kinds::CoreKinds;
pub(crate) use dims::dimension_names;
use dims::{CPU, GPU_DIM, KINDS, MEM, fill_amounts, follow, initial_weights, vector};
pub use placement::{Placement, Terms};
use search::Search;
pub use topology::{Blocks, Form, Greedy, Rules, Tree, place_one};
use topology::{Chooser, Closed, Route, Routes, Sets, Topologies};
pub use topology::{TopologyPolicy, TopologyUse};
pub use tuning::{GangHold, Tuning, up_to_class};
use unfit::Unfit;
pub use why::{Wait, Why};

use crate::attribution::Demand;
use crate::cluster::{Cluster, RunningJob};
use crate::preference::JobKey;
use crate::room::may_split_otherwise;
use crate::stock::Refused;
use crate::tally::{Follower, Tally};
use crate::usage::NodeUsage;
use busy::Busy;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::License;
use phalanx_core::{Amount, NodeIdx, NodeSet};
use phalanx_methods::balance::{Engine, EngineError, NoImprovement, Params};
pub use phalanx_methods::balance::{Holding, Span};

/// Most chosen nodes whose terms are kept.
const TERMS_MAX: usize = 16;

/// Tier, whether unhealthy, and Weight of a class of nodes; then its level.
type ClassKey = ((u32, (bool, u32)), u32);

/// Usage and engine, kept in step.
#[derive(Debug)]
pub struct Placer {
    cluster: Cluster,
    engine: Engine,
    dims: Vec<Arc<str>>,
    pools: Vec<License>,
    pending: Demand,
    memory_tracked: bool,
    tuning: Tuning,
    unfit: Unfit,
    kinds: CoreKinds,
    /// Nodes up to each class of Weight and level, lightest first; empty if all
    /// are of one class.
    up_to_class: Vec<UpToClass>,
    topologies: Topologies,
    closed: Closed,
    busy: Busy,
    /// Amounts by dimension, lent to each [`Search`].
    amounts: Vec<Amount>,
    /// Node sets, lent to each [`Search`].
    sets: Sets,
    /// Nodes of one change; kept between changes for its capacity.
    touched: Vec<NodeIdx>,
    /// The pending jobs between two polls.
    follower: Follower,
}

impl Placer {
    /// Joins a cluster and a tuning. `memory_tracked`: whether memory is a consumable resource
    /// (`CR_*_Memory`); else it is no dimension.
    ///
    /// # Errors
    /// The engine's, for parameters out of range.
    pub fn new(
        cluster: Cluster,
        memory_tracked: bool,
        tuning: Tuning,
        pools: Vec<License>,
    ) -> Result<Self, EngineError> {
        let dims = dimension_names(&cluster.table().kinds, &pools);
        let len = cluster.usages().len();
        let mut placer = Self {
            engine: Engine::new(
                dims.len(),
                &vec![Amount::ZERO; len * dims.len()],
                Params::default(),
            )?,
            amounts: vec![Amount::ZERO; dims.len()],
            sets: Sets::new(len),
            unfit: Unfit::new(cluster.usages()),
            kinds: CoreKinds::new(cluster.usages()),
            up_to_class: Vec::new(),
            topologies: Topologies::new(cluster.table()),
            closed: Closed::new(&cluster),
            busy: Busy::new(&cluster),
            touched: Vec::new(),
            follower: Follower::default(),
            cluster,
            dims,
            pools,
            pending: Demand::default(),
            memory_tracked,
            tuning,
        };
        placer.fill_engine()?;
        Ok(placer)
    }

    fn fill_engine(&mut self) -> Result<(), EngineError> {
        let table = self.cluster.table();
        for (at, usage) in self.cluster.usages().iter().enumerate() {
            if table.nodes.get(at).is_none_or(|node| node.out) {
                continue;
            }
            let total = vector(table, self.dims.len(), self.memory_tracked, usage, |l| l.total);
            let used = vector(table, self.dims.len(), self.memory_tracked, usage, |l| l.used);
            self.engine.set_node(NodeIdx::new(at), &total, &used)?;
            self.engine.set_last_end(NodeIdx::new(at), self.busy.last_s(NodeIdx::new(at)))?;
        }
        self.fill_pools()?;
        self.tune(self.tuning.clone())?;
        let pending = std::mem::take(&mut self.pending);
        self.set_pending(pending)
    }

    fn fill_pools(&mut self) -> Result<(), EngineError> {
        let first = self.dims.len() - self.pools.len();
        (first..).zip(&self.pools).try_for_each(|(dim, pool)| {
            let [total, used] = [pool.total, pool.used].map(Amount::saturating);
            self.engine.set_cluster(dim, total, used)
        })
    }

    /// Changes parameters and weights; usage stays as it is.
    ///
    /// # Errors
    /// The engine's; the old tuning then stays in force.
    pub fn tune(&mut self, tuning: Tuning) -> Result<(), EngineError> {
        let mut params = tuning.params.clone();
        params.initial_weights = initial_weights(&self.dims, &tuning.initial_weights);
        self.engine.set_params(params)?;
        self.up_to_class = up_to_class(self.cluster.table(), &tuning);
        self.tuning = tuning;
        Ok(())
    }

    /// Replaces [`Tuning::levels`] alone: quick, because [`up_to_class`] made `up_to_class` before
    /// from this very node table and these levels.
    pub fn set_levels(
        &mut self,
        levels: Arc<BTreeMap<Arc<str>, u32>>,
        up_to_class: Vec<UpToClass>,
    ) {
        self.tuning.levels = levels;
        self.up_to_class = up_to_class;
    }

    /// Sets what the pending jobs lack and ask for.
    ///
    /// # Errors
    /// The engine's.
    pub fn set_pending(&mut self, demand: Demand) -> Result<(), EngineError> {
        let by_dim = |name| demand.lacks.get(name).copied().unwrap_or(0);
        let in_order: Vec<u64> = self.dims.iter().map(by_dim).collect();
        if let Some(gpu) = self.dims.iter().position(|name| &**name == GPU_DIM) {
            self.engine.set_demand(CPU, gpu, &demand.gpus)?;
        }
        self.pending = demand;
        self.engine.set_pending(&in_order)
    }

    /// Sets the licence pools.
    ///
    /// # Errors
    /// The engine's.
    pub fn set_pools(&mut self, pools: Vec<License>) -> Result<(), EngineError> {
        let same = pools.iter().map(|p| &p.name).eq(self.pools.iter().map(|p| &p.name));
        self.pools = pools;
        if same {
            return self.fill_pools();
        }
        let cluster = std::mem::take(&mut self.cluster);
        let pools = std::mem::take(&mut self.pools);
        let pending = std::mem::take(&mut self.pending);
        *self = Self::new(cluster, self.memory_tracked, self.tuning.clone(), pools)?;
        self.set_pending(pending)
    }

    /// Usage and jobs.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The engine: weights, utilisation.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether memory is a consumable resource.
    pub fn memory_tracked(&self) -> bool {
        self.memory_tracked
    }

    /// Sets where the next poll begins, see [`Engine::poll_start`].
    pub fn set_poll_start(&mut self, start: usize) {
        self.engine.set_poll_start(start);
    }

    /// Names of the engine's dimensions: `cpu`, `mem`, `gres/KIND`,
    /// `license/NAME`.
    pub fn dims(&self) -> &[Arc<str>] {
        &self.dims
    }

    /// Configured amount and use of a dimension on the nodes that take jobs.
    pub fn dimension_level(&self, dim: usize) -> (u64, u64) {
        debug_assert!(dim < self.dims.len(), "dimension {dim} of {}", self.dims.len());
        let first_pool = self.dims.len() - self.pools.len();
        if let Some(pool) = dim.checked_sub(first_pool).and_then(|i| self.pools.get(i)) {
            return (pool.total, pool.used);
        }
        let level = |usage: &NodeUsage| match dim {
            CPU => usage.cpus,
            MEM => usage.memory_mb,
            kind => usage.kinds.get(kind - KINDS).copied().unwrap_or_default(),
        };
        let sum = |(total, used): (u64, u64), usage: &NodeUsage| {
            (total.saturating_add(level(usage).total), used.saturating_add(level(usage).used))
        };
        let nodes = self.cluster.usages().iter().zip(&self.cluster.table().nodes);
        nodes.filter(|(_, node)| !node.out).map(|(usage, _)| usage).fold((0, 0), sum)
    }

    /// The demand of the pending jobs, as it was set.
    pub fn pending(&self) -> &Demand {
        &self.pending
    }

    /// Sets what a job holds.
    pub fn set_job(&mut self, job: RunningJob) {
        let (engine, tracked) = (&mut self.engine, self.memory_tracked);
        let (touched, table) = (&mut self.touched, Arc::clone(self.cluster.table()));
        let (id, end_s, busy) = (job.id, job.end_s, &mut self.busy);
        let before_s = self.cluster.jobs().get(&id).map_or(0, |job| job.end_s);
        self.cluster.set_job(job, |change| {
            busy.follow(engine, change, if change.is_take() { end_s } else { before_s });
            touched.push(follow(engine, &table, tracked, change));
        });
        self.closed.follow(&self.cluster, id);
        self.note_touched();
    }

    /// Sets another end of a job.
    pub fn set_end(&mut self, id: u32, end_s: u64) {
        let Some(job) = self.cluster.jobs().get(&id) else { return };
        for held in &job.held {
            self.busy.give(held.node, job.end_s);
            let last_s = self.busy.take(held.node, end_s);
            // A node of the table, so the engine accepts.
            let done = self.engine.set_last_end(held.node, last_s);
            debug_assert!(done.is_ok());
        }
        self.cluster.set_end(id, end_s);
    }

    /// Removes a job that gave everything back.
    pub fn end_job(&mut self, id: u32) -> bool {
        let (engine, tracked) = (&mut self.engine, self.memory_tracked);
        let (touched, table) = (&mut self.touched, Arc::clone(self.cluster.table()));
        let before_s = self.cluster.jobs().get(&id).map_or(0, |job| job.end_s);
        let busy = &mut self.busy;
        let known = self.cluster.end_job(id, |change| {
            busy.follow(engine, change, before_s);
            touched.push(follow(engine, &table, tracked, change));
        });
        self.closed.follow(&self.cluster, id);
        self.note_touched();
        known
    }

    fn note_touched(&mut self) {
        for node in self.touched.drain(..) {
            if let Some(usage) = self.cluster.usage(node) {
                self.unfit.set(node, usage);
            }
            self.follower.node_changed(node);
        }
    }

    /// Starts to keep changes of nodes for the next [`Tally`].
    pub fn mark_for_tally(&mut self) {
        self.follower.mark();
    }

    /// Takes a tally of nodes as they were at the mark or later; `None`: what pending jobs wait
    /// for stays as [`set_pending`](Self::set_pending) says. Gives the former one.
    pub fn set_tally(&mut self, tally: Option<Tally>) -> Option<Tally> {
        self.follower.set(tally)
    }

    /// Records that a job has begun.
    pub fn began(&mut self, job: &RunningJob) {
        self.follower.started(job);
    }

    /// Jobs, and tasks of arrays, of the latest few thousand that began: running ones, and those
    /// that began at `since_s` or later.
    pub fn begun(&self, from_s: u64) -> BTreeSet<JobKey> {
        let runs = |job: &&RunningJob| self.cluster.jobs().contains_key(&job.id);
        let begun = self.follower.latest().filter(|job| job.start_s >= from_s || runs(job));
        let keys = |job: &RunningJob| {
            let element = job.array.map(|(array, task)| JobKey::Element(array, task));
            element.into_iter().chain([JobKey::Job(job.id)])
        };
        begun.flat_map(keys).collect()
    }

    /// Records that there are no nodes at present for the job of the question.
    pub fn stays_pending(&mut self, job: u32, shape: &Shape, candidates: Candidates<'_>) {
        self.follower.came(job, shape, candidates.words());
    }

    /// Brings the counts of pending jobs up to date, comparing nodes with requests at most
    /// `looks_max` times. Returns the counts if they changed.
    pub fn freshen(&mut self, looks_max: usize, is_quiet: bool) -> Option<&Demand> {
        if !self.weighs_pending() {
            return None;
        }
        let usages = self.cluster.usages();
        let lacks = self.follower.refresh(usages, looks_max, is_quiet)?;
        if lacks == self.pending.lacks {
            return None;
        }
        self.set_lacks(lacks);
        Some(&self.pending)
    }

    /// Whether changes are not counted yet in what the pending jobs lack.
    pub fn is_behind(&self) -> bool {
        self.weighs_pending() && self.follower.is_behind()
    }

    /// Whether pending jobs count for the weights.
    pub fn weighs_pending(&self) -> bool {
        self.engine.params().sources.pending
    }

    /// Sets what the pending jobs lack, and leaves what they ask for.
    pub fn set_lacks(&mut self, lacks: BTreeMap<Arc<str>, u64>) {
        let by_dim = |name| lacks.get(name).copied().unwrap_or(0);
        let in_order: Vec<u64> = self.dims.iter().map(by_dim).collect();
        // The length is that of the dimensions: the engine takes it.
        let taken = self.engine.set_pending(&in_order);
        debug_assert!(taken.is_ok());
        self.pending.lacks = lacks;
    }

    /// Whether a job may be held back by the setting of the balance method.
    pub fn may_hold(&self, holding: Holding) -> bool {
        let params = &self.tuning.params;
        params.no_improvement == NoImprovement::Hold && holding.is_within(params.hold_max_ms)
    }

    /// Parameters by which preferences are weighed.
    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Tier, health and Weight of the heaviest of the candidates.
    pub(crate) fn heaviest(
        &self,
        nodes: &[NodeIdx],
        candidates: Candidates<'_>,
    ) -> Option<(u32, (bool, u32))> {
        nodes.iter().filter_map(|&node| Some(self.key_of(node, candidates.classes())?.0)).max()
    }

    /// Tier, health with Weight, and level of a node.
    fn key_of(&self, node: NodeIdx, classes: Option<Classes<'_>>) -> Option<ClassKey> {
        let known = self.cluster.table().nodes.get(node.at())?;
        let key = |classes: Classes<'_>| classes.key(node).unwrap_or((u32::MAX, 0));
        let (tier, weight) = classes.map_or((0, known.weight), key);
        let (weight, level) = self.tuning.class_of(&known.name, weight);
        Some(((tier, weight), level))
    }

    /// Whether some of the candidates may be heavier than others.
    pub(crate) fn has_weights(&self, candidates: Candidates<'_>) -> bool {
        candidates.classes().is_some() || !self.up_to_class.is_empty()
    }

    /// Whether a job may wait for its preferred nodes, by the setting of the balance method or of
    /// the method that prefers them.
    pub fn may_wait_for_preference(&self, holding: Holding) -> bool {
        self.may_hold(holding) || self.preference_may_hold(holding)
    }

    /// Whether a job may wait for preferred nodes, by the setting of their method.
    pub fn preference_may_hold(&self, holding: Holding) -> bool {
        self.tuning.preference_hold_ms.is_some_and(|limit_ms| holding.is_before(limit_ms))
    }

    /// Whether a job may wait for preferred nodes for a moment, if its user's budget allows it.
    pub fn may_wait_briefly(&self, holding: Holding) -> bool {
        self.tuning.brief_hold_ms.is_some_and(|limit_ms| holding.is_before(limit_ms))
    }

    /// Whether a gang that is worth less than its cost may wait.
    pub fn gang_may_hold(&self, holding: Holding) -> bool {
        self.tuning.gang_hold.is_some_and(|hold| holding.is_before(hold.gang_ms))
    }

    /// Makes the next decisions fast again without changing any. To be called when no answer is
    /// waited for.
    pub fn maintain(&mut self) {
        self.engine.maintain();
        self.cluster.settle();
    }

    /// Chooses the nodes of a job among the candidates; `holding` says whether it may wait for a
    /// node that it improves.
    ///
    /// # Errors
    /// A reason why there is no placement.
    pub fn decide(
        &mut self,
        shape: &Shape,
        candidates: Candidates<'_>,
        holding: Holding,
    ) -> Result<Placement, Why> {
        if let Some(option) = shape.left_to_slurm {
            return Err(Why::Left(option));
        }
        if !candidates.is_over(self.cluster.usages().len()) {
            return Err(Why::OtherTable);
        }
        let routes = Routes::new(self.cluster.table(), self.tuning.topology, shape);
        let wanted = match routes.many {
            Route::Block(_) => topology::block_nodes(shape),
            _ => shape.wanted_nodes(),
        };
        if let Route::Left(option) = routes.of(wanted) {
            return Err(Why::Left(option));
        }
        if may_split_otherwise(shape) {
            self.cluster.want_alike();
        }
        let given = candidates.classes().map(|classes| self.classes_up_to(candidates, classes));
        let up_to = given.as_ref().map_or(&*self.up_to_class, |(given, _)| given);
        let last = given.as_ref().map_or(0, |(_, last)| *last);
        let search = Search {
            shape,
            candidates,
            wanted,
            holding,
            memory_tracked: self.memory_tracked,
            unfit: &self.unfit,
            kinds: &self.kinds,
            tuning: &self.tuning,
            closed: &self.closed,
            known_stock: None,
            amounts: &mut self.amounts,
            chooser: Chooser::new(
                &self.cluster,
                &mut self.engine,
                &self.topologies,
                routes,
                &mut self.sets,
            ),
        };
        search.run(up_to, last)
    }

    /// The nodes that stock would take of the candidates, ascending.
    ///
    /// # Errors
    /// [`Refused`]: none, or they are not known.
    pub fn stock_choice(
        &self,
        shape: &Shape,
        candidates: Candidates<'_>,
    ) -> Result<Vec<NodeIdx>, Refused> {
        if !candidates.is_over(self.cluster.usages().len()) {
            return Err(Refused::Unknown("another node table"));
        }
        let (cluster, forms) = (&self.cluster, &self.topologies.forms);
        let class = |node| as_stock::class_of(cluster, candidates, node);
        let taken =
            as_stock::stock_choice(cluster, forms, shape, candidates, candidates.iter(), class)?;
        Ok(taken.into_iter().map(|taken| taken.node).collect())
    }

    /// Adds the runner-up and the terms of the scores to a placement that was just decided. They
    /// may follow the answer, since nobody waits for them.
    pub fn explain(&mut self, placement: &mut Placement) {
        let Placement { nodes, needs, decision, terms, busy_s, span, .. } = placement;
        self.engine.find_runner_up(decision);
        let runner_up = decision.runner_up.iter().map(|r| &r.choice.node).zip(needs.first());
        for (node, need) in nodes.iter().zip(&*needs).take(TERMS_MAX).chain(runner_up) {
            let table = self.cluster.table();
            if fill_amounts(&mut self.amounts, table, self.memory_tracked, need).is_ok() {
                let weights = &decision.weights;
                let of = self.engine.score_terms(node.at(), &self.amounts, weights, *span);
                terms.push((*node, of));
                busy_s.push(self.busy.last_s(*node));
            }
        }
    }

    /// Returns the question's classes, each with all lighter ones, by tier, Weight and level; empty
    /// if all candidates are of one. And the number of candidates above tier 0.
    fn classes_up_to(
        &self,
        candidates: Candidates<'_>,
        classes: Classes<'_>,
    ) -> (Vec<UpToClass>, usize) {
        let mut by_class: BTreeMap<ClassKey, NodeSet> = BTreeMap::new();
        let mut all = NodeSet::new(self.cluster.usages().len());
        candidates.put_all_into(&mut all);
        let none = || NodeSet::new(all.len());
        for ((tier, weight), members) in classes.members(&all) {
            if self.tuning.levels.is_empty() && members.count() > 0 {
                let (weight, level) = self.tuning.class_of("", weight);
                by_class.entry(((tier, weight), level)).or_insert_with(none).union_with(&members);
                continue;
            }
            for node in members.iter() {
                let Some(key) = self.key_of(node, Some(classes)) else { continue };
                by_class.entry(key).or_insert_with(none).insert(node);
            }
        }
        let last = by_class.iter().filter(|(((tier, _), _), _)| *tier > 0);
        let last = last.map(|(_, set)| set.count()).sum();
        let keyed = by_class.into_iter().map(|((key, _), set)| (key, set));
        (classes::up_to(keyed, all.len()), last)
    }
}
