// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes and what runs on them, and the choice of nodes for a job: by a rule, or as the daemon
//! does, which plans before it chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::choose::{GpuMix, Rule, fitting};
use super::classes::{Classes, idle_rooms};
use super::learned::Learned;
use super::leaves::{LeafUse, Placed};
use super::stock::Stock;
use super::{NoBeliefs, NodeJob, NodeLoad, Setup};
use phalanx_core::number::{as_f64, nearest_i64, nearest_u64, nearest_usize};
use phalanx_core::shape::{Need, Shape};
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_methods::data_jobs::bisect::turns::{Turn, Turns};
use phalanx_planner::attribution;
use phalanx_planner::cluster::{self, Cluster, RunningJob};
use phalanx_planner::gang::{self, Bred, Planned};
use phalanx_planner::place::{Candidates, Placer, Why};
use phalanx_planner::preference::{
    self, HoldLimits, Holds, Method, PreferenceTable, Preferences, Question, StartRank,
};
use phalanx_planner::usage::NodeUsage;

/// Waiting jobs that one pass looks at; gangs and weights are made from these too.
pub(super) const LOOKED_AT: usize = 2_000;
/// Rounds of planning over the whole period of a long log.
const ROUNDS: i64 = 20_000;

/// Reason why nodes do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoFit {
    /// Too few nodes have room.
    TooFew,
    /// There are enough nodes, but no switch is above them all, or stock accepts no blocks.
    Refused,
}

/// Reason why a job does not start at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoStart {
    /// The nodes that are free at present do not fit.
    NoFit(NoFit),
    /// The job waits for a node that it improves, at most until this unix second.
    Held(i64),
}

/// Choice of nodes: by a rule, or by the daemon.
enum By<'a> {
    Rule(Rule),
    Daemon(Box<Daemon<'a>>),
}

/// State that the daemon keeps from one answer to the next.
struct Daemon<'a> {
    preferences: Preferences,
    bred: Bred,
    /// Queue and nodes as the planner's methods see them.
    view: Snapshot,
    /// Time of the latest round of planning, and the shortest time between two rounds, seconds.
    planned_s: Option<i64>,
    plan_every_s: i64,
    start_order: Vec<StartRank>,
    /// The latest job whose nodes were chosen by a poll, and where the next poll begins once that
    /// job starts.
    polled: Option<(u32, usize)>,
    learned: Learned<'a>,
    holds: Holds,
    /// Settings of the plan of gangs, where a plan may choose nodes for a job of the load.
    gangs: Option<&'a gang::Settings>,
}

/// The nodes, and the rule that chooses among them.
pub(super) struct Chooser<'a> {
    load: &'a NodeLoad,
    setup: &'a Setup,
    placer: Placer,
    pub(super) mix: GpuMix,
    /// Slurm's own rule for the topology, where there is one.
    stock: Option<Stock>,
    /// Licences in use by name.
    licences: BTreeMap<Arc<str>, u64>,
    by: By<'a>,
    turns: Turns,
}

impl<'a> Chooser<'a> {
    /// Makes idle nodes.
    ///
    /// # Errors
    /// Fails with the balance engine's error for a tuning that it does not take.
    pub(super) fn new(load: &'a NodeLoad, setup: &'a Setup) -> Result<Self, String> {
        let idle = Cluster::with_usages(load.table(), idle_rooms(load));
        let pools = load.cluster.licenses.clone();
        let placer = Placer::new(idle, load.memory_tracked, setup.tuning.clone(), pools)
            .map_err(|error| error.to_string())?;
        let last_s = load.jobs.last().map_or(load.begin_s, |job| job.job.submit_s);
        // No speed is known here, so that nodes are alike to all gangs but those of several jobs.
        let has_het = || load.jobs.iter().any(|job| job.job.het_job_id.is_some());
        let daemon = || Daemon {
            preferences: Preferences::default(),
            bred: Bred::default(),
            view: load.cluster.clone(),
            planned_s: None,
            plan_every_s: ((last_s - load.begin_s) / ROUNDS).max(1),
            start_order: Vec::new(),
            polled: None,
            learned: Learned::new(load),
            holds: Holds::default(),
            gangs: setup.gangs.as_ref().filter(|gangs| gangs.plans_alike() || has_het()),
        };
        let by = setup.rule.map_or_else(|| By::Daemon(Box::new(daemon())), By::Rule);
        let (mix, stock, licences) = (load.mix(), load.stock(), BTreeMap::new());
        let turns = Turns::default();
        Ok(Self { load, setup, placer, mix, stock, licences, by, turns })
    }

    /// Nodes and what runs on them.
    pub(super) fn cluster(&self) -> &Cluster {
        self.placer.cluster()
    }

    /// The rule of the topology, where nodes are chosen by a rule that knows it.
    pub(super) fn kept_topology(&self) -> Option<&Stock> {
        let knows = !matches!(self.by, By::Rule(Rule::Least(_) | Rule::InTurn(_)));
        self.stock.as_ref().filter(|_| knows)
    }

    /// Rule by which a baseline deals the blocks of an input, where a baseline chooses the nodes.
    pub(super) fn turn(&self) -> Option<Turn> {
        match self.by {
            By::Rule(Rule::InTurn(turn)) => Some(turn),
            _ => None,
        }
    }

    /// The jobs that the gang planner wants first.
    pub(super) fn start_order(&self) -> &[StartRank] {
        match &self.by {
            By::Rule(_) => &[],
            By::Daemon(daemon) => &daemon.start_order,
        }
    }

    /// Nodes for a job of a shape among the candidates; `leaves`, where they are counted.
    pub(super) fn choose(
        &mut self,
        id: u32,
        job: &NodeJob,
        shape: &Shape,
        mut candidates: NodeSet,
        now_s: i64,
        leaves: Option<&LeafUse<'_>>,
    ) -> Result<Placed, NoStart> {
        if self.lacks_licence(&job.job) {
            return Err(NoStart::NoFit(NoFit::TooFew));
        }
        let need = shape.need(shape.wanted_nodes());
        if need.whole {
            let busy = self.cluster().usages().iter().enumerate().filter(|(_, room)| room.jobs > 0);
            busy.for_each(|(node, _)| _ = candidates.remove(NodeIdx::new(node)));
        }
        // Weight and node of the candidates with room, where there is a topology.
        let offered = leaves.map(|leaves| {
            let nodes: Vec<u32> = candidates.iter().map(NodeIdx::raw).collect();
            (leaves, fitting(self.cluster(), &need, &nodes))
        });
        match self.nodes_for(id, job, shape, &candidates, now_s) {
            Ok(nodes) => {
                let several = offered.filter(|_| nodes.len() > 1);
                let fewest =
                    several.and_then(|(leaves, offered)| leaves.fewest(&offered, nodes.len()));
                Ok(Placed { nodes, fewest })
            }
            Err(Why::Wait(_)) => Err(NoStart::Held(self.held_until(&job.job, id, now_s))),
            Err(_) => {
                let enough = offered.is_some_and(|(_, o)| o.len() >= shape.wanted_nodes() as usize);
                Err(NoStart::NoFit(if enough { NoFit::Refused } else { NoFit::TooFew }))
            }
        }
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
        let daemon = match &mut self.by {
            By::Rule(rule) => {
                let rule = *rule;
                return self.by_rule(rule, shape, candidates);
            }
            By::Daemon(_) if self.setup.left_to_slurm.contains(first) => {
                return self.by_rule(Rule::Slurm, shape, candidates);
            }
            By::Daemon(daemon) => daemon,
        };
        let array = job.job.array_job_id.filter(|_| self.setup.bags.is_some());
        let mut question = Question {
            job_id: id,
            array_job_id: array,
            array: array.zip(job.job.array_task_id),
            limit_s: Some(job.limit_s),
            asked_s: nearest_u64(now_s),
            ..Question::of(&job.job, self.load.cluster.nodes.len())
        };
        let offered = Candidates::new(candidates.words());
        let (placer, preferences) = (&mut self.placer, &mut daemon.preferences);
        let (limits, now_ms) = (hold_limits(self.setup), ms(now_s));
        question.no_wait = !daemon.holds.allows(&question, &limits, now_ms);
        let waits = daemon.holds.waits(&question, &limits, now_ms);
        let (decided, used) = preference::decide(placer, preferences, &question, offered, waits);
        let wait = if let Err(Why::Wait(wait)) = decided { Some(wait) } else { None };
        daemon.holds.answered(&question, (wait, true), used.as_ref(), &limits, now_ms);
        let is_named = wait.is_none() || daemon.holds.of(id, array).is_some();
        debug_assert!(is_named, "job {id} waits by a hold without rule and end");
        match decided {
            Ok(placed) => {
                daemon.polled = placed.decision.next_poll().map(|start| (id, start));
                let nodes = placed.nodes.iter().map(|node| node.raw());
                Ok(nodes.zip(placed.needs).collect())
            }
            Err(Why::Left(_) | Why::Unknown(_)) => self.by_rule(Rule::Slurm, shape, candidates),
            Err(why) => Err(why),
        }
    }

    /// Time at which a hold ends, Unix seconds.
    fn held_until(&self, job: &Job, id: u32, now_s: i64) -> i64 {
        let By::Daemon(daemon) = &self.by else { return now_s + 1 };
        let array = job.array_job_id.filter(|_| self.setup.bags.is_some());
        let until_ms = daemon.holds.of(id, array).map_or(0, |hold| hold.until_ms);
        nearest_i64(until_ms.div_ceil(1000)).max(now_s + 1)
    }

    fn by_rule(
        &mut self,
        rule: Rule,
        shape: &Shape,
        candidates: &NodeSet,
    ) -> Result<Vec<(u32, Need)>, Why> {
        let nodes: Vec<u32> = candidates.iter().map(NodeIdx::raw).collect();
        if let Rule::InTurn(turn) = rule
            && let Some(chosen) = self.in_turn(turn, shape, &nodes)
        {
            return Ok(chosen);
        }
        let (cluster, stock) = (self.cluster(), self.stock.as_ref());
        rule.choose(cluster, &self.mix, stock, shape, &nodes).ok_or(Why::NoFit)
    }

    /// The next nodes in turn with room; `None` where too few have room.
    fn in_turn(&mut self, turn: Turn, shape: &Shape, nodes: &[u32]) -> Option<Vec<(u32, Need)>> {
        let wanted = shape.wanted_nodes();
        let need = shape.need(wanted);
        let room = fitting(self.placer.cluster(), &need, nodes);
        let mut room: BTreeSet<usize> = room.into_iter().map(|(_, node)| node as usize).collect();
        if room.len() < wanted as usize {
            return None;
        }
        let cpus = |room: &NodeUsage| nearest_usize(room.cpus.total);
        let weights: Vec<usize> = self.placer.cluster().usages().iter().map(cpus).collect();
        let mut chosen = Vec::new();
        for _ in 0..wanted {
            let node = self.turns.next(turn, &weights, |node| room.contains(node))?;
            room.remove(&node);
            chosen.push((u32::try_from(node).ok()?, need.clone()));
        }
        chosen.sort_by_key(|(node, _)| *node);
        Some(chosen)
    }

    fn lacks_licence(&self, job: &Job) -> bool {
        let pools = &self.load.cluster.licenses;
        job.licenses.iter().any(|(name, wanted)| {
            let used = self.licences.get(name).copied().unwrap_or(0);
            let pool = pools.iter().find(|pool| pool.name == *name);
            pool.is_some_and(|pool| used.saturating_add(*wanted) > pool.total)
        })
    }

    /// Starts a job on given nodes with its licences; returns what it holds of each node.
    pub(super) fn start(
        &mut self,
        id: u32,
        job: &Job,
        nodes: &[(u32, Need)],
        now_s: i64,
    ) -> RunningJob {
        if let By::Daemon(daemon) = &mut self.by {
            daemon.holds.began(id, None);
            if let Some((_, start)) = daemon.polled.take_if(|(polled, _)| *polled == id) {
                self.placer.set_poll_start(start);
            }
            if let Some(array) = job.array_job_id {
                daemon.preferences.began(array, nodes.iter().map(|(node, _)| (*node).into()));
            }
        }
        for (name, count) in &job.licenses {
            *self.licences.entry(Arc::clone(name)).or_default() += count;
        }
        let held = nodes.iter().map(|(node, need)| self.held((*node).into(), need)).collect();
        let start_s = nearest_u64(now_s);
        RunningJob { id, held, start_s, ..RunningJob::default() }
    }

    /// Amounts that a need takes of a node: all CPUs or memory where the need says so.
    fn held(&self, node: NodeIdx, need: &Need) -> cluster::Held {
        let room = self.cluster().usages().get(node.at());
        let total = |of: fn(&NodeUsage) -> u64| room.map_or(0, of);
        cluster::Held {
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
            ..cluster::Held::default()
        }
    }

    /// Notes a job that runs on its nodes.
    pub(super) fn hold(&mut self, running: RunningJob) {
        self.placer.set_job(running);
    }

    /// Ends a job, which gives back its nodes and licences; returns what it held.
    pub(super) fn end(&mut self, id: u32, job: &Job) -> Vec<cluster::Held> {
        let held = self.cluster().jobs().get(&id).map(|job| job.held.clone()).unwrap_or_default();
        self.placer.end_job(id);
        for (name, count) in &job.licenses {
            let used = self.licences.entry(Arc::clone(name)).or_default();
            *used = used.saturating_sub(*count);
        }
        held
    }

    /// Learns from a run of a job on its nodes.
    pub(super) fn learn(&mut self, held: &[cluster::Held], id: u32, run_s: u64, now_s: i64) {
        if let By::Daemon(daemon) = &mut self.by
            && self.setup.bags.is_some()
        {
            daemon.learned.learn(held, id, run_s, now_s);
        }
    }

    /// Plans as the daemon does in each round: weights of the queue, and gangs.
    pub(super) fn plan(&mut self, line: impl Iterator<Item = u32>, classes: &Classes, now_s: i64) {
        let By::Daemon(daemon) = &mut self.by else { return };
        if daemon.planned_s.is_some_and(|at| now_s < at.saturating_add(daemon.plan_every_s)) {
            return;
        }
        daemon.planned_s = Some(now_s);
        let jobs = &self.load.jobs;
        let line = line.take(LOOKED_AT);
        let waiting: Vec<_> =
            line.filter_map(|id| Some((id, &jobs.get(id as usize)?.job))).collect();
        let is_planned = daemon.gangs.is_some() || daemon.learned.has_plans(self.setup);
        if is_planned {
            let reason: Arc<str> = "Resources".into();
            let of =
                |(id, job): &(u32, &Job)| Job { id: *id, reason: reason.clone(), ..(*job).clone() };
            daemon.view.set_queue(waiting.iter().map(of));
        }
        let mut alike: BTreeMap<_, (&Job, u64)> = BTreeMap::new();
        for (id, job) in waiting {
            let group = alike.entry((classes.of_job(id), &*job.licenses)).or_insert((job, 0));
            group.1 += job.task_count;
        }
        let (rooms, alike) = (self.placer.cluster().usages(), alike.into_values());
        let demand = attribution::count_of(&daemon.view, rooms, alike, now_s, LOOKED_AT);
        // Dimensions and values are the engine's own: it takes them.
        let taken = self.placer.set_pending(demand);
        debug_assert!(taken.is_ok());
        let table = Arc::clone(self.placer.cluster().table());
        let cluster = self.placer.cluster();
        for plan in daemon.learned.plans(&mut daemon.view, self.setup, cluster, now_s, &|array| {
            as_f64(daemon.holds.spent_ms(array, ms(now_s))) / 1e3
        }) {
            let method = plan.method;
            let preferences = PreferenceTable::new(Arc::clone(&table), plan.preferences);
            daemon.preferences.replace(method, preferences);
        }
        let Some(settings) = daemon.gangs else { return };
        let inputs = gang::Inputs {
            snapshot: &daemon.view,
            usages: self.placer.cluster().usages(),
            now_ms: ms(now_s),
            beliefs: &NoBeliefs,
            settings,
            // Where no speed is known the plan that is made at once is hardly improved by a
            // search, which would take minutes of a long queue.
            remaining: &|| Some(Duration::ZERO),
            bred: &daemon.bred,
        };
        let Planned { plan: method_plan, bred, .. } = gang::plan(&inputs);
        daemon.bred = bred;
        daemon.start_order = method_plan.start_order;
        let preferences = PreferenceTable::new(table, method_plan.preferences);
        daemon.preferences.replace(Method::Gang, preferences);
    }
}

/// Limits of holds, without those for inputs, which the simulator does not look up.
fn hold_limits(setup: &Setup) -> HoldLimits<'_> {
    let budget_ms = setup.hold_budget_ms;
    HoldLimits { tuning: &setup.tuning, input_ms: 0, require_ms: 0, budget_ms }
}

fn ms(now_s: i64) -> u64 {
    nearest_u64(now_s).saturating_mul(1000)
}
