// SPDX-License-Identifier: GPL-3.0-or-later
//! The clock of a cluster of nodes: ends, arrivals, one pass over all that waits. Decisions are
//! the planner's: filters, attribution, balance, gangs, rank and guard.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::choose::{GpuMix, Rule, fitting};
use super::classes::{Class, classes_of, idle_rooms};
use super::leaves::{LeafFigures, LeafUse};
use super::line::Line;
use super::reserve::{Reservation, reserve};
use super::slurmctld::Slurmctld;
use super::stock::Stock;
use super::usage::Usage;
use super::{Licences, NodeJob, NodeLoad, Order, Setup};
use phalanx_core::number::whole;
use phalanx_core::shape::{Need, Shape};
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_methods::learn::runtime::{Prediction, Runtimes};
use phalanx_planner::attribution;
use phalanx_planner::backfill::{Rank, Request, StarvationLimit};
use phalanx_planner::cluster::{Cluster, Held, RunningJob};
use phalanx_planner::gang::{self, Beliefs, Last};
use phalanx_planner::place::{Candidates, Holding, Placer, Why};
use phalanx_planner::plan::pools_of;
use phalanx_planner::preference::{
    self, Method, PreferenceTable, Preferences, Question, StartRank, Waits,
};
use phalanx_planner::usage::NodeUsage;

/// Waiting jobs in one pass; gangs and weights are made from these too.
const LOOKED_AT: usize = 2_000;
/// Rounds of planning over the whole time of a long log.
const ROUNDS: i64 = 20_000;

/// Result of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Start of each job, Unix seconds; `None` if it never fitted.
    pub starts_s: Vec<Option<i64>>,
    /// Node indexes of each job.
    pub nodes: Vec<Vec<u32>>,
    /// Shares of the resources over time.
    pub usage: Usage,
    /// Joules, if the nodes' power is known.
    pub joules: Option<f64>,
    /// Leaf switches or blocks, where there is a topology.
    pub leaves: Option<LeafFigures>,
    /// Real time of each pass that started jobs, microseconds.
    pub pass_us: Vec<f32>,
    /// Real time of everything.
    pub wall: Duration,
}

/// Runs all jobs; calls `progress` with the number of jobs ended so far.
///
/// # Errors
/// The balance engine's, for a tuning that it does not take.
pub fn run(
    load: &NodeLoad,
    setup: &Setup,
    beliefs: &dyn Beliefs,
    progress: &dyn Fn(usize),
) -> Result<Outcome, String> {
    run_until(load, setup, beliefs, None, progress)
}

/// The same, but at most to `until_s`, Unix seconds.
///
/// # Errors
/// Fails as [`run`] does.
pub fn run_until(
    load: &NodeLoad,
    setup: &Setup,
    beliefs: &dyn Beliefs,
    until_s: Option<i64>,
    progress: &dyn Fn(usize),
) -> Result<Outcome, String> {
    let began = Instant::now();
    let mut sim = Sim::new(load, setup, beliefs)?;
    sim.until_s = until_s;
    sim.begin();
    while let Some(now_s) = sim.next_s() {
        if let Some(until_s) = until_s.filter(|until_s| now_s >= *until_s) {
            sim.advance(until_s);
            break;
        }
        sim.step(now_s);
        if sim.ended.is_multiple_of(1 << 8) {
            progress(sim.ended);
        }
    }
    let joules = sim.joules();
    let leaves = sim.leaves.as_ref().map(LeafUse::figures);
    let Sim { starts_s, nodes, usage, pass_us, .. } = sim;
    Ok(Outcome { starts_s, nodes, usage, joules, leaves, pass_us, wall: began.elapsed() })
}

pub(super) enum Choice {
    Placed(Placed),
    NoFit(NoFit),
    /// Waits for a node that it improves.
    Held,
}

/// Nodes with what each gives.
pub(super) struct Placed {
    pub(super) nodes: Vec<(u32, Need)>,
    /// Fewest leaves that would have done.
    fewest: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NoFit {
    TooFew,
    /// Enough nodes, but no switch is above them, or no blocks are accepted.
    Refused,
}

pub(super) struct Sim<'a> {
    pub(super) load: &'a NodeLoad,
    setup: &'a Setup,
    beliefs: &'a dyn Beliefs,
    pub(super) placer: Placer,
    mix: GpuMix,
    pub(super) classes: Vec<Class>,
    class_of: Vec<u32>,
    licences: Licences,
    preferences: Preferences,
    last: Last,
    /// Queue and nodes as the planner's methods see them.
    view: Snapshot,
    planned_s: Option<i64>,
    plan_every_s: i64,
    pub(super) line: Line,
    guard: Option<StarvationLimit>,
    /// Slurm's clock and queue, where jobs start as slurmctld lets them.
    pub(super) slurmctld: Option<Slurmctld>,
    /// What the gang planner asks for.
    pub(super) start_order: Vec<StartRank>,
    runtimes: Runtimes,
    arrived: usize,
    ended: usize,
    pub(super) ends: BinaryHeap<Reverse<(i64, u32)>>,
    /// Expected ends, for reservations.
    pub(super) expected: BTreeSet<(i64, u32)>,
    expected_of: BTreeMap<u32, i64>,
    /// Classes that do not fit until something ends.
    pub(super) failed: BTreeMap<u32, NoFit>,
    /// How Slurm itself chooses, where there is a topology.
    pub(super) stock: Option<Stock>,
    leaves: Option<LeafUse<'a>>,
    /// Jobs that were refused for their topology.
    refused: BTreeSet<u32>,
    /// Fewest leaves on the idle cluster, by class and nodes.
    ideal: BTreeMap<(u32, usize), Option<u32>>,
    wake_s: Option<i64>,
    /// The latest job whose nodes a poll chose, and where the next poll begins once it starts.
    polled: Option<(u32, usize)>,
    starts_s: Vec<Option<i64>>,
    nodes: Vec<Vec<u32>>,
    busy_joules: f64,
    /// Latest time of its end.
    until_s: Option<i64>,
    usage: Usage,
    pub(super) pass_us: Vec<f32>,
}

impl<'a> Sim<'a> {
    fn new(load: &'a NodeLoad, setup: &'a Setup, beliefs: &'a dyn Beliefs) -> Result<Self, String> {
        let idle = Cluster::with_usages(load.table(), idle_rooms(load));
        let mix = load.mix();
        let usage = Usage::new(idle.usages(), &mix, load.begin_s);
        let pools = pools_of(&load.cluster);
        let placer = Placer::new(idle, load.memory_tracked, setup.tuning.clone(), pools)
            .map_err(|error| error.to_string())?;
        let (classes, class_of) = classes_of(load);
        let cpus = load.cluster.nodes.iter().map(|node| node.cpus).sum();
        let last_s = load.jobs.last().map_or(load.begin_s, |job| job.job.submit_s);
        Ok(Self {
            load,
            setup,
            beliefs,
            placer,
            mix,
            classes,
            class_of,
            licences: BTreeMap::new(),
            preferences: Preferences::default(),
            last: Last::new(),
            view: load.cluster.clone(),
            planned_s: None,
            plan_every_s: ((last_s - load.begin_s) / ROUNDS).max(1),
            line: Line::default(),
            guard: (setup.order == Order::Learned).then(|| StarvationLimit::new(cpus)),
            slurmctld: Slurmctld::new(load, &setup.order),
            start_order: Vec::new(),
            runtimes: Runtimes::new(),
            arrived: 0,
            ended: 0,
            ends: BinaryHeap::new(),
            expected: BTreeSet::new(),
            expected_of: BTreeMap::new(),
            failed: BTreeMap::new(),
            stock: load.stock(),
            leaves: load.leaves(),
            refused: BTreeSet::new(),
            ideal: BTreeMap::new(),
            wake_s: None,
            polled: None,
            starts_s: vec![None; load.jobs.len()],
            nodes: vec![Vec::new(); load.jobs.len()],
            busy_joules: 0.0,
            until_s: None,
            usage,
            pass_us: Vec::new(),
        })
    }

    /// Jobs that run already.
    fn begin(&mut self) {
        let load = self.load;
        for (id, job) in (0u32..).zip(&load.jobs) {
            if let Some(held) = &job.held {
                self.expect_guard(id, job, load.begin_s);
                self.hold(id, RunningJob { id, ..held.clone() }, load.begin_s);
            }
        }
    }

    pub(super) fn class_of(&self, id: u32) -> Option<u32> {
        self.class_of.get(id as usize).copied()
    }

    pub(super) fn job(&self, id: u32) -> Option<&'a NodeJob> {
        self.load.jobs.get(id as usize)
    }

    fn next_s(&self) -> Option<i64> {
        if self.line.is_empty() && self.ends.is_empty() && self.arrived >= self.load.jobs.len() {
            return None;
        }
        let arrival = self.load.jobs.get(self.arrived).map(|job| job.job.submit_s);
        let arrival = arrival.map(|at| at.max(self.load.begin_s));
        let end = self.ends.peek().map(|Reverse((end_s, _))| *end_s);
        let fair =
            self.guard.as_ref().and_then(StarvationLimit::next_s).filter(|_| !self.line.is_empty());
        let slurm = self.slurmctld.as_ref().and_then(Slurmctld::next_s);
        let slurm = slurm.filter(|_| !self.line.is_empty());
        [arrival, end, fair, self.wake_s, slurm].into_iter().flatten().min()
    }

    /// Time passes.
    fn advance(&mut self, now_s: i64) {
        self.usage.advance(now_s);
        if let Some(leaves) = &mut self.leaves {
            leaves.advance(now_s);
        }
    }

    fn step(&mut self, now_s: i64) {
        self.advance(now_s);
        if self.wake_s.is_some_and(|at| at <= now_s) {
            self.wake_s = None;
            self.failed.clear();
            self.slurmctld.iter_mut().for_each(|slurmctld| slurmctld.ended(now_s));
        }
        self.end_jobs(now_s);
        let load = self.load;
        while let Some(job) = load.jobs.get(self.arrived).filter(|j| j.job.submit_s <= now_s) {
            let id = u32::try_from(self.arrived).unwrap_or(u32::MAX);
            self.arrived += 1;
            if job.held.is_none() {
                self.arrive(id, job, now_s);
            }
        }
        if let Some(guard) = &mut self.guard {
            guard.advance(now_s);
            self.line.age(now_s, guard.limit_s());
        }
        if self.slurmctld.is_some() {
            self.slurm_passes(now_s);
        } else if !self.line.is_empty() {
            self.pass(now_s);
        }
    }

    fn arrive(&mut self, id: u32, job: &NodeJob, now_s: i64) {
        let rank = self.expect_guard(id, job, job.job.submit_s);
        self.line.push(id, rank, job.job.submit_s);
        if self.slurmctld.is_some() {
            self.submit(id, job, now_s);
        }
    }

    /// Rank of a job on its arrival; the guard hears of it too.
    fn expect_guard(&mut self, id: u32, job: &NodeJob, submit_s: i64) -> Rank {
        match self.setup.order {
            Order::Fcfs | Order::Arrival | Order::Slurm(_) => Rank::ARRIVAL,
            Order::Shortest => Rank::shortest(self.runtimes.mean_of_two(&job.class)),
            Order::Learned => {
                let prediction = match job.expected_s {
                    Some(mean_s) => Prediction { mean_s, urgency: 1.0 / mean_s.max(1.0) },
                    None => self.runtimes.predict(&job.class),
                };
                let request = Request {
                    id,
                    size: job.class.size.max(1),
                    window_s: job.limit_s,
                    submit_s,
                    rank: Rank::ARRIVAL,
                };
                if let Some(guard) = &mut self.guard {
                    guard.arrived(request, whole(prediction.mean_s));
                }
                Rank::learned(&prediction, submit_s)
            }
        }
    }

    fn end_jobs(&mut self, now_s: i64) {
        while let Some(&Reverse((end_s, id))) = self.ends.peek() {
            if end_s > now_s {
                return;
            }
            self.ends.pop();
            self.ended += 1;
            self.failed.clear();
            let held = self.placer.cluster().jobs().get(&id).cloned();
            self.placer.end_job(id);
            self.touch(held.iter().flat_map(|job| &job.held));
            if let Some(at) = self.expected_of.remove(&id) {
                self.expected.remove(&(at, id));
            }
            let Some(job) = self.job(id) else { continue };
            for (name, count) in &job.job.licenses {
                let used = self.licences.entry(Arc::clone(name)).or_default();
                *used = used.saturating_sub(*count);
            }
            if matches!(self.setup.order, Order::Shortest | Order::Learned) {
                self.runtimes.observe(&job.class, job.run_s);
            }
            if let Some(slurmctld) = &mut self.slurmctld {
                slurmctld.observe(&job.class, job.run_s);
                slurmctld.ended(now_s);
            }
            if let Some(guard) = &mut self.guard {
                guard.ended(id, seconds(job.run_s), now_s);
            }
            if self.setup.order == Order::Shortest {
                self.revise(job.class.user);
            }
        }
    }

    /// EASY++: the user's waiting jobs are expected anew.
    fn revise(&mut self, user: u64) {
        let waiting: Vec<u32> = self.line.order().collect();
        for id in waiting {
            if let Some(job) = self.job(id).filter(|job| job.class.user == user) {
                self.line.revise(id, Rank::shortest(self.runtimes.mean_of_two(&job.class)));
            }
        }
    }

    fn pass(&mut self, now_s: i64) {
        let began = Instant::now();
        self.plan(now_s);
        let order: Vec<u32> = self.line.order().take(LOOKED_AT).collect();
        let mut reservation: Option<Reservation> = None;
        let mut failed_beside: BTreeMap<u32, NoFit> = BTreeMap::new();
        let mut started = false;
        for id in order {
            let (Some(job), Some(&class)) = (self.job(id), self.class_of.get(id as usize)) else {
                continue;
            };
            let ends_s = now_s.saturating_add(self.window_s(job));
            let beside = reservation.as_ref().filter(|r| ends_s > r.start_s);
            let known = self.failed.get(&class).copied();
            let known = known.or_else(|| beside.and_then(|_| failed_beside.get(&class).copied()));
            let choice = match known {
                Some(why) => Choice::NoFit(why),
                None => self.choose(id, job, class, self.free_for(class, beside), now_s),
            };
            match choice {
                Choice::Placed(placed) => {
                    started = true;
                    self.count_leaves(class, job, &placed, now_s);
                    self.start(id, job, &placed.nodes, now_s);
                }
                Choice::Held => {}
                Choice::NoFit(why) => {
                    match beside {
                        Some(_) => failed_beside.insert(class, why),
                        None => self.failed.insert(class, why),
                    };
                    self.count_refused(id, why);
                    if self.setup.order == Order::Fcfs {
                        break;
                    }
                    if reservation.is_none() {
                        reservation = self.reserve(class, now_s);
                    }
                }
            }
        }
        if started {
            self.pass_us.push(began.elapsed().as_secs_f32() * 1e6);
        }
    }

    fn reserve(&self, class: u32, now_s: i64) -> Option<Reservation> {
        let class = self.classes.get(class as usize)?;
        let stock = self.stock.as_ref().filter(|_| self.keeps_topology());
        let cluster = self.placer.cluster();
        reserve(cluster, stock, &self.expected, &class.shape, &class.nodes, now_s)
    }

    /// Time that a job is expected to hold its nodes.
    fn window_s(&self, job: &NodeJob) -> i64 {
        seconds(match self.setup.order {
            Order::Shortest => self.runtimes.mean_of_two(&job.class),
            _ => job.limit_s,
        })
    }

    /// Whether nodes are chosen by a rule that knows the topology.
    pub(super) fn keeps_topology(&self) -> bool {
        self.setup.rule.is_none_or(|rule| rule == Rule::First)
    }

    pub(super) fn choose(
        &mut self,
        id: u32,
        job: &NodeJob,
        class: u32,
        mut candidates: NodeSet,
        now_s: i64,
    ) -> Choice {
        if self.lacks_licence(&job.job) {
            return Choice::NoFit(NoFit::TooFew);
        }
        let Some(class) = self.classes.get(class as usize) else {
            return Choice::NoFit(NoFit::TooFew);
        };
        let shape = class.shape.clone();
        let rooms = self.placer.cluster().usages();
        if shape.need(shape.wanted_nodes()).whole {
            let busy = rooms.iter().enumerate().filter(|(_, room)| room.jobs > 0);
            busy.for_each(|(node, _)| _ = candidates.remove(NodeIdx::new(node)));
        }
        let offered = self.offered(&shape, &candidates);
        let nodes = match self.nodes_for(id, job, &shape, &candidates, now_s) {
            Ok(nodes) => nodes,
            Err(Why::Wait(_)) => {
                let max_ms = self.setup.tuning.params.hold_max_ms.unwrap_or(0);
                let wake_s = job.job.submit_s.saturating_add_unsigned(max_ms.div_ceil(1000));
                let wake_s = wake_s.max(now_s + 1);
                self.wake_s = Some(self.wake_s.map_or(wake_s, |at| at.min(wake_s)));
                return Choice::Held;
            }
            Err(_) => {
                let enough = offered.is_some_and(|o| o.len() >= shape.wanted_nodes() as usize);
                return Choice::NoFit(if enough { NoFit::Refused } else { NoFit::TooFew });
            }
        };
        let several = self.leaves.as_ref().filter(|_| nodes.len() > 1);
        let fewest = several.and_then(|leaves| leaves.fewest(&offered?, nodes.len()));
        Choice::Placed(Placed { nodes, fewest })
    }

    /// Weight and node of the candidates with room, where there is a topology.
    fn offered(&self, shape: &Shape, candidates: &NodeSet) -> Option<Vec<(u32, u32)>> {
        self.leaves.as_ref()?;
        let need = shape.need(shape.wanted_nodes());
        let nodes: Vec<u32> = candidates.iter().map(NodeIdx::raw).collect();
        Some(fitting(self.placer.cluster(), &need, &nodes))
    }

    fn nodes_for(
        &mut self,
        id: u32,
        job: &NodeJob,
        shape: &Shape,
        candidates: &NodeSet,
        now_s: i64,
    ) -> Result<Vec<(u32, Need)>, Why> {
        let first = job.job.partitions.split(',').next().unwrap_or_default();
        let by_slurm = self.setup.left_to_slurm.contains(first).then_some(Rule::First);
        if let Some(rule) = self.setup.rule.or(by_slurm) {
            return self.by_rule(rule, shape, candidates);
        }
        let waited_s = u64::try_from(now_s.saturating_sub(job.job.submit_s)).unwrap_or(0);
        let holding = Holding::After(waited_s.saturating_mul(1000));
        let waits = Waits { holding, ..Waits::default() };
        let question = Question {
            job_id: id,
            array_job_id: None,
            array: None,
            ..Question::of(&job.job, self.view.nodes.len())
        };
        let offered = Candidates::new(candidates.words());
        let (placer, preferences) = (&mut self.placer, &mut self.preferences);
        match preference::decide(placer, preferences, &question, offered, waits).0 {
            Ok(placed) => {
                self.polled = placed.decision.next_poll().map(|start| (id, start));
                let nodes = placed.nodes.iter().map(|node| node.raw());
                Ok(nodes.zip(placed.needs).collect())
            }
            Err(Why::Left(_)) => self.by_rule(Rule::First, shape, candidates),
            Err(why) => Err(why),
        }
    }

    fn by_rule(
        &self,
        rule: Rule,
        shape: &Shape,
        candidates: &NodeSet,
    ) -> Result<Vec<(u32, Need)>, Why> {
        let nodes: Vec<u32> = candidates.iter().map(NodeIdx::raw).collect();
        let (cluster, stock) = (self.placer.cluster(), self.stock.as_ref());
        rule.choose(cluster, &self.mix, stock, shape, &nodes).ok_or(Why::NoFit)
    }

    /// A job of several nodes starts: its leaves count.
    pub(super) fn count_leaves(&mut self, class: u32, job: &NodeJob, placed: &Placed, now_s: i64) {
        let Some(leaves) = &mut self.leaves else { return };
        let count = placed.nodes.len();
        if count < 2 {
            return;
        }
        let eligible = || {
            let nodes = &self.classes.get(class as usize)?.nodes;
            let alike: Vec<(u32, u32)> = nodes.iter().map(|node| (0, node.raw())).collect();
            leaves.fewest(&alike, count)
        };
        let ideal = *self.ideal.entry((class, count)).or_insert_with(eligible);
        let nodes: Vec<u32> = placed.nodes.iter().map(|(node, _)| *node).collect();
        let wait_s = now_s.saturating_sub(job.job.submit_s);
        let (fewest, ideal) = (placed.fewest.unwrap_or(u32::MAX), ideal.unwrap_or(u32::MAX));
        leaves.started(&nodes, fewest, ideal, job.run_s, wait_s);
    }

    pub(super) fn count_refused(&mut self, id: u32, why: NoFit) {
        let Some(leaves) = &mut self.leaves else { return };
        if why == NoFit::Refused && self.refused.insert(id) {
            leaves.refused();
        }
    }

    fn lacks_licence(&self, job: &Job) -> bool {
        let pools = &self.load.cluster.licenses;
        job.licenses.iter().any(|(name, wanted)| {
            let used = self.licences.get(name).copied().unwrap_or(0);
            let pool = pools.iter().find(|pool| pool.name == *name);
            pool.is_some_and(|pool| used.saturating_add(*wanted) > pool.total)
        })
    }

    pub(super) fn start(&mut self, id: u32, job: &NodeJob, nodes: &[(u32, Need)], now_s: i64) {
        let held = nodes.iter().map(|(node, need)| self.held((*node).into(), need)).collect();
        self.line.remove(id);
        if let Some((_, start)) = self.polled.take_if(|(polled, _)| *polled == id) {
            self.placer.set_poll_start(start);
        }
        if let Some(slurmctld) = &mut self.slurmctld {
            slurmctld.started(id, now_s);
        }
        self.hold(id, RunningJob { id, held, ..RunningJob::default() }, now_s);
        for (name, count) in &job.job.licenses {
            *self.licences.entry(Arc::clone(name)).or_default() += count;
        }
    }

    /// Amounts that a need takes of a node: all CPUs or memory where it says so.
    fn held(&self, node: NodeIdx, need: &Need) -> Held {
        let room = self.placer.cluster().usages().get(node.at());
        let total = |of: fn(&NodeUsage) -> u64| room.map_or(0, of);
        Held {
            node,
            cpus: match (need.whole, room) {
                (true, _) => total(|r| r.cpus.total),
                (false, Some(room)) => need.cpus_on(&room.cores).unwrap_or(need.cpus),
                (false, None) => need.cpus,
            },
            memory_mb: match need.all_memory {
                true => total(|r| r.memory_mb.total),
                false => need.memory_mb,
            },
            gres: need.gres.clone(),
            ..Held::default()
        }
    }

    /// A job has its nodes from now on.
    fn hold(&mut self, id: u32, running: RunningJob, now_s: i64) {
        let Some(job) = self.job(id) else { return };
        if let Some(slot) = self.starts_s.get_mut(id as usize) {
            *slot = Some(now_s);
        }
        let indexes = running.held.iter().map(|held| held.node.raw());
        if let Some(slot) = self.nodes.get_mut(id as usize) {
            *slot = indexes.collect();
        }
        let left_s = self.until_s.map_or(i64::MAX, |until_s| until_s.saturating_sub(now_s));
        let within_s = job.run_s.min(u64::try_from(left_s).unwrap_or(0));
        self.busy_joules += self.joules_of(&running, within_s);
        // Its nodes are what matters from here on.
        let after_s = now_s.saturating_add(seconds(self.load.turnaround_s));
        self.ends.push(Reverse((after_s.saturating_add(seconds(job.run_s)), id)));
        let expected_s = after_s.saturating_add(self.window_s(job));
        self.expected.insert((expected_s, id));
        self.expected_of.insert(id, expected_s);
        if let Some(guard) = &mut self.guard {
            guard.started(id, now_s);
        }
        let held = running.held.clone();
        self.placer.set_job(running);
        self.touch(held.iter());
    }

    fn touch<'b>(&mut self, held: impl Iterator<Item = &'b Held>) {
        for held in held {
            if let Some(room) = self.placer.cluster().usages().get(held.node.at()) {
                self.usage.touch(held.node.at(), room, &self.mix);
                if let Some(leaves) = &mut self.leaves {
                    leaves.touch(held.node, room.jobs == 0);
                }
            }
        }
    }

    fn joules_of(&self, job: &RunningJob, run_s: u64) -> f64 {
        let of = |held: &Held| {
            let (node, [idle, busy]) = (
                self.load.cluster.nodes.get(held.node.at())?,
                *self.load.watts.get(held.node.at())?,
            );
            Some((busy - idle) * held.cpus as f64 / node.cpus.max(1) as f64 * run_s as f64)
        };
        job.held.iter().filter_map(of).sum()
    }

    /// Of the whole period where that has an end, else until the last job ended.
    fn joules(&self) -> Option<f64> {
        let idle: f64 = self.load.watts.iter().map(|[idle, _]| idle).sum();
        let period_s = |until_s: i64| until_s.saturating_sub(self.load.begin_s) as f64;
        let known = !self.load.watts.is_empty();
        let all_s = self.until_s.map_or_else(|| self.usage.seconds(), period_s);
        known.then_some(idle * all_s + self.busy_joules)
    }

    /// Weights of the queue and gangs, as the daemon makes them in each round.
    pub(super) fn plan(&mut self, now_s: i64) {
        if self.setup.rule.is_some() {
            return;
        }
        if self.planned_s.is_some_and(|at| now_s < at.saturating_add(self.plan_every_s)) {
            return;
        }
        self.planned_s = Some(now_s);
        let waiting = self.line.order().take(LOOKED_AT).filter_map(|id| {
            let job = self.job(id)?;
            Some(Job { id, reason: "Resources".into(), ..job.job.clone() })
        });
        let waiting: Vec<Job> = waiting.collect();
        self.view.set_queue(waiting);
        let rooms = self.placer.cluster().usages().to_vec();
        let counts = attribution::count(&self.view, &rooms, now_s, LOOKED_AT);
        // Dimensions and values are the engine's own: it takes them.
        let taken = self.placer.set_pending(counts.demand(&self.view));
        debug_assert!(taken.is_ok());
        let Some(settings) = &self.setup.gangs else { return };
        let inputs = gang::Inputs {
            snapshot: &self.view,
            usages: &rooms,
            now_ms: u64::try_from(now_s).unwrap_or(0).saturating_mul(1000),
            beliefs: self.beliefs,
            settings,
            remaining: &|| None,
            last: &self.last,
        };
        let (method_plan, last) = gang::plan(&inputs);
        self.last = last;
        self.start_order = method_plan.start_order;
        let table = Arc::clone(self.placer.cluster().table());
        let preferences = PreferenceTable::new(table, method_plan.preferences);
        self.preferences.replace(Method::Gang, preferences);
    }
}

fn seconds(s: u64) -> i64 {
    i64::try_from(s).unwrap_or(i64::MAX)
}
