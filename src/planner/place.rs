// SPDX-License-Identifier: GPL-3.0-or-later
//! Which nodes one job gets, decided at the moment Slurm asks.
//!
//! A [`Placer`] joins the exact usage of the nodes ([`Cluster`]) with the
//! balance engine. It turns a request in Slurm's terms into what each node
//! must give, lets the engine choose among the candidates, and falls back to
//! an uneven split where the user left the number of nodes open.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::balance::{Decision, Engine, EngineError, NoImprovement, Outcome, Params, Request};
use crate::model::shape::{LeftToSlurm, Memory, Need, Shape, Sharing};
use crate::model::{Amount, NodeIdx, NodeSet, text};
use crate::planner::attribution::Demand;
use crate::planner::cluster::{Change, Cluster, Held, RunningJob, Table};
use crate::planner::room::Room;
use crate::planner::unfit::Unfit;

/// Position of CPUs among the dimensions.
const GPU_DIM: &str = "gres/gpu";
const CPU: usize = 0;
/// Position of memory among the dimensions.
const MEM: usize = 1;
/// Position of the first GRES kind.
const KINDS: usize = 2;
/// Chosen nodes whose terms are kept.
const TERMS_MAX: usize = 16;
/// Nodes of one uneven split whose scores are kept.
const SCORED_MAX: usize = 64;

/// A licence pool as the last poll saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Name without `license/`.
    #[serde(with = "text")]
    pub name: Arc<str>,
    /// Configured.
    pub total: u64,
    /// In use.
    pub used: u64,
}

/// How the balance method is tuned, by dimension name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuning {
    /// Everything but the weights, which depend on the cluster's dimensions.
    pub params: Params,
    /// Relative initial weights; empty means all equal.
    pub initial_weights: BTreeMap<String, f64>,
    /// Choose among all candidates, not among those of the least Weight in
    /// slurm.conf that hold the job.
    pub ignore_node_weight: bool,
    /// How long a job may be held back whose method says so; `None`: not at all.
    pub steered_hold_ms: Option<u64>,
    /// Level of each node by name, 0 the best, by what was measured there: of
    /// nodes of one Weight those of the least levels that hold the job are
    /// compared. One without a level comes last. Empty: no levels.
    pub levels: Arc<BTreeMap<Arc<str>, u32>>,
}

/// A decision for one job.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Node indexes, ascending.
    pub nodes: Vec<u32>,
    /// Candidates that Slurm offered.
    pub candidates: usize,
    /// What each of the nodes gives, in the same order.
    pub needs: Vec<Need>,
    /// Scores, weights, runner-up.
    pub decision: Decision,
    /// What the scores of the first chosen nodes add up from, and last that
    /// of the runner-up; empty in mode seed.
    pub terms: Vec<(NodeIdx, Terms)>,
}

/// Named terms of a score.
pub type Terms = Vec<(&'static str, f64)>;

/// Chosen nodes, what each gives, and the decision.
type Split = (Vec<u32>, Vec<Need>, Decision);

/// Why there is no placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlacement {
    /// The request has an option that is left to Slurm.
    Left(LeftToSlurm),
    /// Too few candidates have room now.
    NoFit,
    /// Waiting for a node that it improves.
    Held,
    /// Its array waits for its first plan.
    Unplanned,
    /// The candidate set is not of this node table.
    OtherTable,
}

/// Usage and engine, kept in step.
#[derive(Debug)]
pub struct Placer {
    cluster: Cluster,
    engine: Engine,
    dims: Vec<Arc<str>>,
    pools: Vec<Pool>,
    pending: Demand,
    memory_tracked: bool,
    tuning: Tuning,
    mask: NodeSet,
    amounts: Vec<Amount>,
    unfit: Unfit,
    /// Nodes up to each class of Weight and level, lightest first; empty if all
    /// are of one class.
    up_to_class: Vec<NodeSet>,
    /// Nodes of one change; kept for its capacity.
    touched: Vec<usize>,
}

impl Placer {
    /// Joins a cluster and a tuning. `memory_tracked`: memory is a consumable
    /// resource (`CR_*_Memory`); else it is no dimension.
    ///
    /// # Errors
    /// The engine's, for parameters out of range.
    pub fn new(
        cluster: Cluster,
        memory_tracked: bool,
        tuning: Tuning,
        pools: Vec<Pool>,
    ) -> Result<Self, EngineError> {
        let dims = dimension_names(&cluster, &pools);
        let len = cluster.rooms().len();
        let mut placer = Self {
            engine: Engine::new(
                dims.len(),
                &vec![Amount::ZERO; len * dims.len()],
                Params::default(),
            )?,
            amounts: vec![Amount::ZERO; dims.len()],
            mask: NodeSet::new(len),
            unfit: Unfit::new(cluster.rooms()),
            up_to_class: Vec::new(),
            touched: Vec::new(),
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
        for (at, room) in self.cluster.rooms().iter().enumerate() {
            let total = vector(self.dims.len(), self.memory_tracked, room, |l| l.total);
            let used = vector(self.dims.len(), self.memory_tracked, room, |l| l.used);
            self.engine.set_node(NodeIdx::new(at), &total, &used)?;
        }
        let first = self.dims.len() - self.pools.len();
        for (dim, pool) in (first..).zip(&self.pools) {
            let amount = Amount::saturating;
            self.engine.set_cluster(dim, amount(pool.total), amount(pool.used))?;
        }
        self.tune(self.tuning.clone())?;
        let pending = std::mem::take(&mut self.pending);
        self.set_pending(pending)
    }

    /// Changes parameters and weights; usage stays.
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

    /// Replaces [`Tuning::levels`] alone: quick, because `up_to_class` was made
    /// before from this very node table and these levels, by [`up_to_class`].
    pub fn set_levels(&mut self, levels: Arc<BTreeMap<Arc<str>, u32>>, up_to_class: Vec<NodeSet>) {
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
    pub fn set_pools(&mut self, pools: Vec<Pool>) -> Result<(), EngineError> {
        let same = pools.iter().map(|p| &p.name).eq(self.pools.iter().map(|p| &p.name));
        self.pools = pools;
        if same {
            let first = self.dims.len() - self.pools.len();
            for (dim, pool) in (first..).zip(&self.pools) {
                let amount = Amount::saturating;
                self.engine.set_cluster(dim, amount(pool.total), amount(pool.used))?;
            }
            return Ok(());
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

    /// Licence pools.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Where the next poll begins, see [`Engine::poll_start`].
    pub fn set_poll_start(&mut self, start: usize) {
        self.engine.set_poll_start(start);
    }

    /// Names of the engine's dimensions: `cpu`, `mem`, `gres/KIND`,
    /// `license/NAME`.
    pub fn dims(&self) -> &[Arc<str>] {
        &self.dims
    }

    /// Configured and in use of a dimension over the cluster.
    pub fn dimension_level(&self, dim: usize) -> (u64, u64) {
        let first_pool = self.dims.len() - self.pools.len();
        if let Some(pool) = dim.checked_sub(first_pool).and_then(|i| self.pools.get(i)) {
            return (pool.total, pool.used);
        }
        let level = |room: &Room| match dim {
            CPU => room.cpus,
            MEM => room.memory_mb,
            kind => room.kinds.get(kind - KINDS).copied().unwrap_or_default(),
        };
        let sum = |(total, used): (u64, u64), room: &Room| {
            (total + level(room).total, used + level(room).used)
        };
        self.cluster.rooms().iter().fold((0, 0), sum)
    }

    /// What the pending jobs lack and ask for, as set.
    pub fn pending(&self) -> &Demand {
        &self.pending
    }

    /// The job now holds exactly this.
    pub fn set_job(&mut self, job: RunningJob) {
        let (engine, dims, tracked) = (&mut self.engine, self.dims.len(), self.memory_tracked);
        let touched = &mut self.touched;
        self.cluster.set_job(job, |change| {
            touched.push(follow(engine, dims, tracked, change));
        });
        self.note_touched();
    }

    /// The job gave everything back.
    pub fn end_job(&mut self, id: u32) -> bool {
        let (engine, dims, tracked) = (&mut self.engine, self.dims.len(), self.memory_tracked);
        let touched = &mut self.touched;
        let known = self.cluster.end_job(id, |change| {
            touched.push(follow(engine, dims, tracked, change));
        });
        self.note_touched();
        known
    }

    fn note_touched(&mut self) {
        for node in self.touched.drain(..) {
            if let Some(room) = self.cluster.rooms().get(node) {
                self.unfit.set(node, room);
            }
        }
    }

    /// Whether a job that waits for `held_ms` may be held back any longer.
    pub fn may_hold(&self, held_ms: u64) -> bool {
        let params = &self.tuning.params;
        params.no_improvement == NoImprovement::Hold
            && params.hold_max_ms.is_none_or(|max| held_ms < max)
    }

    /// The same for a job whose method rather lets it wait than go elsewhere.
    pub fn may_hold_steered(&self, held_ms: u64) -> bool {
        self.may_hold(held_ms) || self.may_hold_steered_only(held_ms)
    }

    /// The same, but not by the balance method's leave.
    pub fn may_hold_steered_only(&self, held_ms: u64) -> bool {
        self.tuning.steered_hold_ms.is_some_and(|limit| held_ms < limit)
    }

    /// Makes the next decisions fast again; they are the same without. To be
    /// called when no answer is waited for.
    pub fn maintain(&mut self) {
        self.engine.maintain();
    }

    /// Which of the candidates the job gets. `candidates` are the words of a
    /// bitmap over the node table; `held_ms` is how long it waits already.
    ///
    /// # Errors
    /// See [`NoPlacement`].
    pub fn decide(
        &mut self,
        shape: &Shape,
        candidates: &[u64],
        held_ms: u64,
    ) -> Result<Placement, NoPlacement> {
        if let Some(why) = shape.left_to_slurm {
            return Err(NoPlacement::Left(why));
        }
        if candidates.len() != self.cluster.rooms().len().div_ceil(64) {
            return Err(NoPlacement::OtherTable);
        }
        self.mask.assign_words(candidates);
        let count = self.mask.count();
        let classes = self.up_to_class.len();
        let mut placed = Err(NoPlacement::NoFit);
        // Slurm takes the lightest nodes that hold the job; so does this.
        for class in 0..classes.max(1) {
            placed = self.split(shape, candidates, (classes > 0).then_some(class), held_ms);
            if !matches!(placed, Err(NoPlacement::NoFit)) {
                break;
            }
        }
        let (nodes, needs, decision) = placed?;
        let terms = self.terms(&nodes, &needs, &decision);
        Ok(Placement { nodes, candidates: count, needs, decision, terms })
    }

    /// Evenly, else unevenly, among the candidates of a class of Weight.
    fn split(
        &mut self,
        shape: &Shape,
        candidates: &[u64],
        class: Option<usize>,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        self.offer(candidates, class);
        match self.even_split(shape, shape.wanted_nodes(), held_ms) {
            Err(NoPlacement::NoFit) if may_split_otherwise(shape) => {
                self.offer(candidates, class);
                self.other_split(shape, shape.wanted_nodes(), held_ms)
            }
            other => other,
        }
    }

    fn offer(&mut self, candidates: &[u64], class: Option<usize>) {
        self.mask.assign_words(candidates);
        if let Some(light) = class.and_then(|class| self.up_to_class.get(class)) {
            self.mask.intersect_with(light);
        }
    }

    fn terms(
        &mut self,
        nodes: &[u32],
        needs: &[Need],
        decision: &Decision,
    ) -> Vec<(NodeIdx, Terms)> {
        let mut terms = Vec::new();
        let chosen = nodes.iter().zip(needs).take(TERMS_MAX);
        let runner_up = decision.runner_up.iter().map(|r| r.choice.node.raw());
        let pairs: Vec<(u32, &Need)> = chosen
            .map(|(node, need)| (*node, need))
            .chain(runner_up.filter_map(|node| Some((node, needs.first()?))))
            .collect();
        for (node, need) in pairs {
            if self.fill_amounts(need).is_ok() {
                let of = self.engine.score_terms(node as usize, &self.amounts, &decision.weights);
                terms.push((NodeIdx::from(node), of));
            }
        }
        terms
    }

    /// The same share on each of `nodes` nodes.
    fn even_split(
        &mut self,
        shape: &Shape,
        nodes: u32,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        let need = shape.need(nodes);
        self.unfit.drop_from(&mut self.mask, &need);
        self.fill_amounts(&need)?;
        let request = Request {
            amounts: &self.amounts,
            nodes: nodes as usize,
            whole_node: need.whole,
            held_ms,
            runner_up: true,
        };
        let decided = self.engine.decide(&self.mask, &request);
        let decision = decided.map_err(|_| NoPlacement::NoFit)?;
        match &decision.outcome {
            Outcome::Placed(choices) => {
                let mut chosen: Vec<u32> = choices.iter().map(|c| c.node.raw()).collect();
                chosen.sort_unstable();
                let needs = vec![need; chosen.len()];
                Ok((chosen, needs, decision))
            }
            Outcome::NoFit { .. } => Err(NoPlacement::NoFit),
            Outcome::Held => Err(NoPlacement::Held),
        }
    }

    fn fill_amounts(&mut self, need: &Need) -> Result<(), NoPlacement> {
        self.amounts.fill(Amount::ZERO);
        let mut set = |dim: usize, value: u64| {
            let slot = self.amounts.get_mut(dim).ok_or(NoPlacement::NoFit)?;
            *slot = slot.saturating_add(Amount::saturating(value));
            Ok(())
        };
        set(CPU, need.cpus)?;
        if self.memory_tracked {
            set(MEM, need.memory_mb)?;
        }
        for &(kind, _, count) in &need.gres {
            set(KINDS + kind as usize, count)?;
        }
        Ok(())
    }

    /// The user left the number of nodes or the tasks on each open.
    fn other_split(
        &mut self,
        shape: &Shape,
        wanted: u32,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        if shape.gres.iter().any(|g| g.per_job > 0) {
            return self.more_nodes(shape, wanted, held_ms);
        }
        let one = shape.need_for(1, 1, 1);
        let mut room_for: Vec<(u64, u32)> = Vec::new();
        for node in self.mask.iter() {
            let room = self.cluster.rooms().get(node.at());
            let tasks = room.map_or(0, |room| capacity(shape, &one, room));
            if tasks > 0 {
                room_for.push((tasks, node.raw()));
            }
        }
        let shares = fewest_nodes(room_for, shape, wanted).ok_or(NoPlacement::NoFit)?;
        let nodes = shares.len() as u64;
        let need = |&(tasks, _): &(u64, u32)| shape.need_for(tasks, 1, nodes);
        let needs: Vec<Need> = shares.iter().map(need).collect();
        let chosen: Vec<u32> = shares.iter().map(|(_, node)| *node).collect();
        let decision = self.score(&chosen, &needs)?;
        Ok((chosen, needs, decision))
    }

    /// GRES per job: more nodes with a smaller even share each.
    fn more_nodes(
        &mut self,
        shape: &Shape,
        wanted: u32,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        let offered = self.mask.clone();
        let most_gres = shape.gres.iter().map(|g| g.per_job).filter(|n| *n > 0).min();
        let most = most_gres.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
        let mut nodes = wanted.saturating_mul(2);
        while nodes <= shape.max_nodes.min(most) {
            self.mask = offered.clone();
            match self.even_split(shape, nodes, held_ms) {
                Err(NoPlacement::NoFit) => nodes = nodes.saturating_mul(2),
                other => return other,
            }
        }
        Err(NoPlacement::NoFit)
    }

    /// Dispersions of nodes that were chosen by capacity.
    fn score(&mut self, chosen: &[u32], needs: &[Need]) -> Result<Decision, NoPlacement> {
        let mut scored: Option<Decision> = None;
        for (&node, need) in chosen.iter().zip(needs).take(SCORED_MAX) {
            let mut only = NodeSet::new(self.cluster.rooms().len());
            only.insert(NodeIdx::from(node));
            self.fill_amounts(need)?;
            let request = Request { held_ms: u64::MAX, ..Request::new(&self.amounts) };
            let decided = self.engine.decide(&only, &request).map_err(|_| NoPlacement::NoFit)?;
            let Outcome::Placed(choice) = &decided.outcome else { continue };
            match scored.as_mut().map(|d| &mut d.outcome) {
                Some(Outcome::Placed(choices)) => choices.extend_from_slice(choice),
                _ => scored = Some(decided),
            }
        }
        scored.ok_or(NoPlacement::NoFit)
    }
}

/// Nodes up to each class of Weight and level, lightest first; empty if all are
/// of one class.
#[must_use]
pub fn up_to_class(table: &Table, tuning: &Tuning) -> Vec<NodeSet> {
    let nodes = &table.nodes;
    let mut by_class: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty()) {
        let weight = if tuning.ignore_node_weight { 0 } else { node.weight };
        let level = match tuning.levels.is_empty() {
            true => 0,
            false => tuning.levels.get(&node.name).copied().unwrap_or(u32::MAX),
        };
        by_class.entry((weight, level)).or_default().push(at);
    }
    if by_class.len() < 2 {
        return Vec::new();
    }
    let mut up_to = NodeSet::new(nodes.len());
    let add = |members: Vec<usize>| {
        for at in members {
            up_to.insert(NodeIdx::new(at));
        }
        up_to.clone()
    };
    by_class.into_values().map(add).collect()
}

/// Whether another number of nodes or an uneven number of tasks is allowed.
pub(crate) fn may_split_otherwise(shape: &Shape) -> bool {
    shape.sharing == Sharing::Shared
        && (shape.node_count_is_free() || shape.tasks() > 1)
        && shape.ntasks_per_node == 0
}

/// Tasks that fit on a node now, by every resource. `one` is what one task
/// needs.
pub(crate) fn capacity(shape: &Shape, one: &Need, room: &Room) -> u64 {
    let per = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
    let mut tasks = per(room.cpus.free(), one.cpus).min(match shape.memory {
        Memory::PerCpu(_) => per(room.memory_mb.free(), one.memory_mb),
        Memory::All if room.memory_mb.used > 0 => 0,
        _ if one.memory_mb > room.memory_mb.free() => 0,
        _ => u64::MAX,
    });
    for want in &shape.gres {
        let kind = room.kinds.get(want.kind as usize).map_or(0, |level| level.free());
        let of_type = |t: u32| room.types.get(t as usize).map_or(0, |level| level.free());
        let free = want.gres_type.map_or(kind, |t| kind.min(of_type(t)));
        if want.per_node > free {
            return 0;
        }
        tasks = tasks.min(per(free, want.per_task));
    }
    if room.cpus.free() < u64::from(shape.pn_min_cpus) { 0 } else { tasks }
}

/// The fewest nodes that hold all tasks, each with its tasks: largest first,
/// and as the last one the smallest that still suffices. `None` if even all of
/// them are too few. `room_for`: tasks and node.
fn fewest_nodes(room_for: Vec<(u64, u32)>, shape: &Shape, wanted: u32) -> Option<Vec<(u64, u32)>> {
    // A heap: of many nodes only the few largest have to be put in order.
    let largest_first = |(tasks, node)| (tasks, Reverse(node));
    let mut rest: BinaryHeap<(u64, Reverse<u32>)> =
        room_for.into_iter().map(largest_first).collect();
    let needed = shape.tasks().max(u64::from(shape.min_cpus.div_ceil(shape.cpus_per_task.max(1))));
    let mut chosen: Vec<(u64, u32)> = Vec::new();
    let mut sum = 0u64;
    while chosen.len() < wanted as usize || sum < needed {
        if chosen.len() >= shape.max_nodes as usize {
            return None;
        }
        let (tasks, Reverse(node)) = rest.pop()?;
        sum = sum.saturating_add(tasks);
        chosen.push((tasks, node));
    }
    let largest = chosen.pop()?;
    let before_last = chosen.iter().fold(0u64, |sum, (tasks, _)| sum.saturating_add(*tasks));
    let missing = needed.saturating_sub(before_last).max(1);
    let others = rest.into_iter().map(|(tasks, Reverse(node))| (tasks, node));
    let enough = others.chain([largest]).filter(|(tasks, _)| *tasks >= missing);
    chosen.push(enough.min_by_key(|&(tasks, node)| (tasks, Reverse(node)))?);
    chosen.sort_unstable_by_key(|(_, node)| *node);
    let mut left = needed;
    let mut nodes_left = chosen.len() as u64;
    for (tasks, _) in &mut chosen {
        nodes_left -= 1;
        // Every node gets a task, and no more than it has room for.
        *tasks = (*tasks).min(left.saturating_sub(nodes_left)).max(1);
        left = left.saturating_sub(*tasks);
    }
    Some(chosen)
}

fn dimension_names(cluster: &Cluster, pools: &[Pool]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = vec!["cpu".into(), "mem".into()];
    names.extend(cluster.table().kinds.iter().map(|kind| Arc::from(format!("gres/{kind}"))));
    names.extend(pools.iter().map(|pool| Arc::from(format!("license/{}", pool.name))));
    names
}

/// Weights in the order of the dimensions, scaled to sum 1; none given or none
/// of them present: empty, which the engine takes as equal.
fn initial_weights(dims: &[Arc<str>], by_name: &BTreeMap<String, f64>) -> Vec<f64> {
    let given: Vec<f64> =
        dims.iter().map(|name| by_name.get(&**name).copied().unwrap_or(0.0)).collect();
    let sum: f64 = given.iter().sum();
    if sum > 0.0 { given.iter().map(|w| w / sum).collect() } else { Vec::new() }
}

fn vector(
    dims: usize,
    memory_tracked: bool,
    room: &Room,
    of: impl Fn(crate::planner::room::Level) -> u64,
) -> Vec<Amount> {
    let memory = if memory_tracked { of(room.memory_mb) } else { 0 };
    let mut amounts = Vec::with_capacity(dims);
    amounts.push(Amount::saturating(of(room.cpus)));
    amounts.push(Amount::saturating(memory));
    amounts.extend(room.kinds.iter().map(|&level| Amount::saturating(of(level))));
    amounts.resize(dims, Amount::ZERO);
    amounts
}

/// Tells the engine of a change; returns the node.
fn follow(engine: &mut Engine, dims: usize, memory_tracked: bool, change: Change<'_>) -> usize {
    let amounts = |held: &Held| {
        let mut amounts = vec![Amount::ZERO; dims];
        let mut set = |dim: usize, value: u64| {
            if let Some(slot) = amounts.get_mut(dim) {
                *slot = slot.saturating_add(Amount::saturating(value));
            }
        };
        set(CPU, held.cpus);
        set(MEM, if memory_tracked { held.memory_mb } else { 0 });
        for &(kind, _, count) in &held.gres {
            set(KINDS + kind as usize, count);
        }
        amounts
    };
    // Both ends have the same dimensions and nodes, so the engine accepts.
    let (node, done) = match change {
        Change::Take(held) => (held.node, engine.add_used(NodeIdx::new(held.node), &amounts(held))),
        Change::Give(held) => (held.node, engine.sub_used(NodeIdx::new(held.node), &amounts(held))),
    };
    debug_assert!(done.is_ok());
    node
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::planner::cluster::TableNode;

    fn node(name: &str, weight: u32) -> TableNode {
        TableNode { name: name.into(), cpus: 8, threads: 1, weight, ..TableNode::default() }
    }

    fn leveled(levels: &[(&str, u32)], ignore_node_weight: bool) -> Tuning {
        let levels = levels.iter().map(|&(name, level)| (Arc::from(name), level)).collect();
        Tuning { levels: Arc::new(levels), ignore_node_weight, ..Tuning::default() }
    }

    /// Measured levels order nodes of one Weight, and never those of several.
    #[test]
    fn nodes_of_one_weight_are_tried_by_level() {
        let nodes = vec![node("a", 1), node("b", 1), node("c", 1), node("heavy", 2)];
        let cluster = Cluster::new(Table { nodes, ..Table::default() });
        let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
        let decided = |placer: &mut Placer, cpus| {
            let shape = Shape { min_nodes: 1, max_nodes: 1, min_cpus: cpus, ..Shape::default() };
            placer.decide(&shape, &[0b1111], 0).unwrap().nodes
        };
        let levels = [("heavy", 0), ("b", 1), ("c", 0)];
        placer.tune(leveled(&levels, false)).unwrap();
        assert_eq!(decided(&mut placer, 8), [2]);
        placer.tune(leveled(&levels, true)).unwrap();
        assert_ne!(decided(&mut placer, 8), [1]);
        let held = |node| vec![Held { node, cpus: 8, ..Held::default() }];
        let job = |id, node| RunningJob { id, held: held(node), ..RunningJob::default() };
        placer.tune(leveled(&levels, false)).unwrap();
        placer.set_job(job(1, 2));
        assert_eq!(decided(&mut placer, 8), [1]);
        placer.set_job(job(2, 1));
        assert_eq!(decided(&mut placer, 8), [0], "without a level last, but before the heavy");
        placer.end_job(1);
        placer.end_job(2);
        placer.tune(Tuning::default()).unwrap();
        assert_eq!(decided(&mut placer, 8), [0]);
    }

    /// The rule in words: all nodes in order, most tasks first; as few as hold
    /// all tasks; the last one exchanged for the smallest that suffices.
    fn by_sorting(
        mut room_for: Vec<(u64, u32)>,
        needed: u64,
        wanted: usize,
        max_nodes: usize,
    ) -> Option<Vec<u32>> {
        room_for.sort_unstable_by_key(|&(tasks, node)| (Reverse(tasks), node));
        let sum = |n: usize| room_for.iter().take(n).map(|(tasks, _)| tasks).sum::<u64>();
        let taken = (wanted..=room_for.len()).find(|&n| sum(n) >= needed)?;
        if taken > max_nodes {
            return None;
        }
        let missing = needed.saturating_sub(sum(taken - 1)).max(1);
        let last = room_for.iter().skip(taken - 1).rfind(|(tasks, _)| *tasks >= missing)?;
        let mut nodes: Vec<u32> =
            room_for.iter().take(taken - 1).chain([last]).map(|(_, node)| *node).collect();
        nodes.sort_unstable();
        Some(nodes)
    }

    proptest! {
        #[test]
        fn the_heap_takes_the_nodes_that_sorting_would(
            tasks in proptest::collection::vec(1u64..20, 0..40),
            needed in 1u32..200,
            wanted in 1usize..6,
            max_nodes in 1usize..40,
        ) {
            let room_for: Vec<(u64, u32)> = tasks.iter().copied().zip(0..).collect();
            let shape = Shape {
                num_tasks: needed,
                min_nodes: 1,
                max_nodes: u32::try_from(max_nodes).unwrap(),
                ..Shape::default()
            };
            let needed = shape.tasks();
            let expected = by_sorting(room_for.clone(), needed, wanted, max_nodes);
            let found = fewest_nodes(room_for.clone(), &shape, u32::try_from(wanted).unwrap());
            let nodes = |shares: &Vec<(u64, u32)>| shares.iter().map(|(_, n)| *n).collect();
            prop_assert_eq!(found.as_ref().map(nodes), expected);
            for (share, node) in found.iter().flatten() {
                prop_assert!(*share >= 1 && *share <= room_for[*node as usize].0);
            }
            if let Some(shares) = found {
                prop_assert!(shares.iter().map(|(share, _)| share).sum::<u64>() >= needed);
            }
        }
    }
}
