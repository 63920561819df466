// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a method wishes a job to go, for the moment when Slurm asks.
//!
//! A planner sees the queue as it was at the last poll; when Slurm asks, the
//! nodes may look different. A [`Steer`] therefore names sets of nodes, the
//! best first, and never decides by itself: [`decide`] tries set by set within
//! the candidates that Slurm offers, on the exact usage of that moment, and
//! leaves the job to the usual choice when none of them holds it. Inside a set
//! with more nodes than needed the balance engine chooses.
//!
//! Each method replaces its own [`SteerTable`] as a whole. A job that several
//! methods steer follows the first of [`Method`]'s order.

mod kept;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use kept::Rows;
use serde::{Deserialize, Serialize};

use crate::limits::{STEER_FIRST_PLAN_MS, STEER_TIERS_MAX, STEERS_MAX};
use crate::model::shape::{LeftToSlurm, Shape};
use crate::planner::bags::WattsFrom;
use crate::planner::cluster::Table;
use crate::planner::place::{NoPlacement, Placement, Placer};
use crate::snapshot::Snapshot;

/// The methods that steer, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Blocks of data near the cores that read them.
    Bisect,
    /// Load split by a data share.
    Share,
    /// Tasks of a job array by energy and time.
    Bag,
    /// Gangs by social welfare.
    Gang,
    /// Nodes of a waiting gang left to jobs that end before it starts.
    Spare,
}

impl Method {
    /// The word in reports and in the history.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bisect => "bisect",
            Self::Share => "share",
            Self::Bag => "bag",
            Self::Gang => "gang",
            Self::Spare => "spare",
        }
    }
}

/// Which job a steer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKey {
    /// A job, or one component of a het job.
    Job(u32),
    /// One waiting task of an array job.
    Element(u32, u32),
    /// Every waiting task of this array job.
    Array(u32),
    /// Jobs that no plan has seen yet, since Slurm may ask at once: the user's
    /// jobs of this name (but for numbers) with this request, as far as all
    /// types of them wish the same.
    Like {
        /// User id.
        user_id: u32,
        /// See [`name_key`](crate::learn::name_key).
        name_key: u16,
        /// Nodes wanted.
        nodes: u32,
        /// CPUs of the whole job.
        cpus: u32,
        /// GRES are asked for.
        gres: bool,
    },
}

impl JobKey {
    /// The key of jobs like one of this user, name and shape.
    pub fn like(user_id: u32, name_key: u16, shape: &Shape) -> Self {
        let (nodes, cpus, gres) = (shape.wanted_nodes(), shape.min_cpus, !shape.gres.is_empty());
        Self::Like { user_id, name_key, nodes, cpus, gres }
    }
}

/// Nodes that suit a job equally well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    /// What stands for the set in reports, e.g. `planned` or a node class.
    pub name: Arc<str>,
    /// Indexes, ascending: of the snapshot in a planner's answer, of the node
    /// table in a [`SteerTable`]. Equal sets of many jobs share one list.
    pub nodes: Arc<[u32]>,
    /// How many more tasks of an array may start here; `None`: no limit.
    pub quota: Option<u32>,
}

/// What was learned of a gang's type on one class of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassSpeed {
    /// Class of nodes.
    pub nodes: String,
    /// Mean speed, 1 on the best class; absent when never tried there.
    pub speed: Option<f64>,
    /// Runs behind it, those under way included.
    pub runs: f64,
}

/// Terms of a gang in the objective (`methods.md` section 1, formulas 5 to 13).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GangNote {
    /// Job type that the speeds were learned for.
    pub job_type: String,
    /// Tasks of the gang.
    pub tasks: u64,
    /// Expected value where it was planned; absent while it waits.
    pub value: Option<f64>,
    /// Maintenance cost.
    pub cost: Option<f64>,
    /// Share of the exploration bonus.
    pub bonus: Option<f64>,
    /// Edges never tried.
    pub untried: u64,
    /// What is known, best first.
    pub speeds: Vec<ClassSpeed>,
}

/// Input of a data-parallel job and the plan for it (`methods.md` section 2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataNote {
    /// As declared.
    pub input: String,
    /// Files, blocks and bytes of the input.
    pub files: u64,
    /// See `files`.
    pub blocks: u64,
    /// See `files`.
    pub bytes: u64,
    /// Splits that it is cut into.
    pub splits: u64,
    /// Blocks that nobody can read now.
    pub unreadable: u64,
    /// Hosts of blocks that are no nodes of Slurm.
    pub unmapped: Vec<String>,
    /// What else the user should know.
    pub warnings: Vec<String>,
    /// Why there is no plan; the job is placed as if it read nothing.
    pub error: Option<String>,
    /// Planned nodes, as a hostlist; empty if none.
    pub nodes: String,
    /// Planned start, ms from when it was made.
    pub start_ms: Option<f64>,
    /// Planned end.
    pub end_ms: Option<f64>,
    /// Part of the bytes that is read where it lies.
    pub local_share: Option<f64>,
    /// Megabytes that other nodes send.
    pub remote_mb: Option<f64>,
    /// End of the last data job of the plan.
    pub makespan_ms: Option<f64>,
    /// No plan ends earlier.
    pub bound_ms: Option<f64>,
    /// MB/s of one core that was reckoned with.
    pub speed_mb_per_s: f64,
    /// Runs behind that speed; 0: it is the configured one.
    pub speed_runs: u64,
    /// What a core keeps of it when the job has n of them: `linear alpha=A`, `amdahl beta=B` or
    /// `table f(N)=F`, the last of the table.
    pub attenuation: String,
}

/// One class of nodes in an array's split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BagShare {
    /// Class of nodes.
    pub nodes: String,
    /// Waiting tasks that are to run there.
    pub tasks: u64,
    /// Expected seconds of one.
    pub seconds: f64,
    /// Runs behind that; 0: taken from other classes.
    pub runs: f64,
    /// Its power above idle, watts.
    pub watts: f64,
    /// Where that comes from.
    pub watts_from: WattsFrom,
}

/// One array in a plan of bags (`methods.md` section 4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BagRow {
    /// Array job id.
    pub array: u32,
    /// Class that times and energies were learned for.
    pub job_class: String,
    /// Tasks that have not started.
    pub pending: u64,
    /// Tasks under way.
    pub running: u64,
    /// Money of one task.
    pub price: f64,
    /// Money of the waiting tasks that the plan starts.
    pub revenue: f64,
    /// Their energy above idle, joules.
    pub energy_j: f64,
    /// Its price does not cover its energy anywhere.
    pub loss: bool,
    /// It waits for cheaper energy.
    pub waits: bool,
    /// Split over the classes of nodes that it may use.
    pub shares: Vec<BagShare>,
}

/// What stands behind the steer of an array.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BagNote {
    /// The array in its plan.
    pub bag: BagRow,
    /// Money per kWh.
    pub energy_price_kwh: f64,
    /// What the whole plan promises.
    pub profit_per_hour: Option<f64>,
}

/// Data behind a steer, for explanations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// Nothing to tell.
    #[default]
    None,
    /// Of the gang method.
    Gang(GangNote),
    /// Of the bisect method.
    Data(DataNote),
    /// Of the bag method.
    Bag(Box<BagNote>),
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Steer {
    /// For whom.
    pub key: JobKey,
    /// By whom.
    pub method: Method,
    /// Sets of nodes, best first; at most [`STEER_TIERS_MAX`] count.
    pub tiers: Vec<Tier>,
    /// Rather wait than go elsewhere: followed only where a hold is allowed
    /// ([`Placer::may_hold_steered`]), and no longer than it.
    pub strict: bool,
    /// Unix milliseconds.
    pub made_ms: u64,
    /// For explanations.
    pub note: Note,
}

/// One job of a wished sequence of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderWish {
    /// Job id; of an array its record's.
    pub job_id: u32,
    /// From 0; equal ranks mean no wish between them.
    pub rank: u32,
}

/// How one method's round of planning went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodReport {
    /// `gang`, `bag`, ...
    pub method: String,
    /// Form of the method, such as `best` or `seed`.
    pub mode: String,
    /// Jobs that it looked at.
    pub jobs: u64,
    /// Of these, planned to start now.
    pub starts: u64,
    /// Value of what was maximised.
    pub objective: Option<f64>,
    /// No plan has a higher one.
    pub upper_bound: Option<f64>,
    /// (bound - objective) / |bound|.
    pub gap: Option<f64>,
    /// Terms of the objective, and sizes, by name.
    pub terms: BTreeMap<String, f64>,
    /// Arrays, for the bag method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bags: Vec<BagRow>,
    /// Time it took.
    pub took_ms: u64,
    /// Why there is no plan, if so.
    pub error: Option<String>,
}

/// What one method hands back from one round of planning.
#[derive(Debug, Clone)]
pub struct Steering {
    /// By whom.
    pub method: Method,
    /// At most one for each job.
    pub steers: Vec<Steer>,
    /// Who should start first.
    pub wishes: Vec<OrderWish>,
    /// For `phalanx plan`.
    pub report: MethodReport,
}

/// Why a steer did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// A node of the first set is not among Slurm's candidates.
    NotOffered(u32),
    /// A node of the first set has no room any more.
    Busy(u32),
    /// No task of the array may start there any more.
    Quota,
    /// The nodes were numbered anew since it was made.
    OtherTable,
}

/// What became of a steer at one question.
#[derive(Debug, Clone)]
pub struct Steered {
    /// The steer; its nodes are of the node table in force.
    pub steer: Arc<Steer>,
    /// Position of the set that decided, or why the first did not.
    pub tier: Option<usize>,
    /// Why the first set did not decide.
    pub unused: Option<Unused>,
}

impl Steered {
    /// The job is to have every node of the answer: each holds a part of its input.
    pub fn all_nodes(&self) -> bool {
        self.steer.method == Method::Bisect && self.tier == Some(0)
    }
}

#[derive(Debug)]
struct Entry {
    steer: Arc<Steer>,
    /// Tasks started in each tier since the table was made.
    taken: Vec<u32>,
}

/// The steers of one method, on the node table that they were made for.
#[derive(Debug)]
pub struct SteerTable {
    table: Arc<Table>,
    by_job: HashMap<JobKey, Entry>,
}

impl SteerTable {
    /// Puts a planner's answer on a node table. Nodes that the table does not
    /// have are left out, as are steers beyond [`STEERS_MAX`].
    pub fn new(table: Arc<Table>, snapshot: &Snapshot, steers: Vec<Steer>) -> Self {
        let renumber = Renumber::new(&table, snapshot);
        let mut known = HashMap::new();
        let mut by_job = HashMap::with_capacity(steers.len().min(STEERS_MAX));
        for mut steer in steers.into_iter().take(STEERS_MAX) {
            steer.tiers.truncate(STEER_TIERS_MAX);
            for tier in &mut steer.tiers {
                tier.nodes = renumber.nodes(&tier.nodes, &mut known);
            }
            let taken = vec![0; steer.tiers.len()];
            by_job.insert(steer.key, Entry { steer: Arc::new(steer), taken });
        }
        Self { table, by_job }
    }

    /// Number of steered jobs.
    pub fn len(&self) -> usize {
        self.by_job.len()
    }

    /// Whether nobody is steered.
    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }
}

/// From the snapshot's node indexes to those of a node table.
struct Renumber {
    /// `None` when both number the nodes alike.
    to: Option<Vec<Option<u32>>>,
}

impl Renumber {
    fn new(table: &Table, snapshot: &Snapshot) -> Self {
        let own = snapshot.nodes.iter().map(|n| &n.name);
        if own.clone().eq(table.nodes.iter().map(|n| &n.name)) {
            return Self { to: None };
        }
        let index: BTreeMap<&str, u32> =
            (0u32..).zip(&table.nodes).map(|(i, n)| (&*n.name, i)).collect();
        Self { to: Some(own.map(|name| index.get(&**name).copied()).collect()) }
    }

    /// Lists are looked up by address, so that shared ones stay shared.
    fn nodes(&self, nodes: &Arc<[u32]>, known: &mut HashMap<usize, Shared>) -> Arc<[u32]> {
        let Some(to) = &self.to else { return Arc::clone(nodes) };
        let address = nodes.as_ptr().addr();
        if let Some(shared) = known.get(&address) {
            return Arc::clone(&shared.new);
        }
        let mut new: Vec<u32> =
            nodes.iter().filter_map(|&n| to.get(n as usize).copied().flatten()).collect();
        new.sort_unstable();
        let new: Arc<[u32]> = new.into();
        let shared = Shared { _old: Arc::clone(nodes), new: Arc::clone(&new) };
        known.insert(address, shared);
        new
    }
}

/// A list and its translation; holding the old one keeps its address taken.
struct Shared {
    _old: Arc<[u32]>,
    new: Arc<[u32]>,
}

/// The steers in force, by method.
#[derive(Debug, Default)]
pub struct Steers {
    tables: BTreeMap<Method, SteerTable>,
    /// Greatest job id that the latest plan knew.
    newest: Option<u32>,
    words: Vec<u64>,
}

impl Steers {
    /// Replaces the steers of one method. The old ones are handed back, so
    /// that they can be dropped where nobody waits.
    pub fn replace(&mut self, method: Method, table: SteerTable) -> Option<SteerTable> {
        if table.is_empty() {
            self.tables.remove(&method)
        } else {
            self.tables.insert(method, table)
        }
    }

    /// Plans know all jobs of this snapshot now.
    pub fn saw(&mut self, snapshot: &Snapshot) {
        self.newest = snapshot.jobs.iter().map(|job| job.id).max().or(Some(0));
    }

    /// Whether the question is of an array that no plan has seen yet.
    fn is_new_array(&self, ask: &Question<'_>) -> bool {
        let plain = ask.shape.left_to_slurm.is_none() && ask.shape.wanted_nodes() == 1;
        plain && ask.array_job_id.zip(self.newest).is_some_and(|(array, newest)| array > newest)
    }

    /// Number of steered jobs by method.
    pub fn counts(&self) -> impl Iterator<Item = (Method, usize)> {
        self.tables.iter().map(|(method, table)| (*method, table.len()))
    }

    fn find(&self, ask: &Question<'_>) -> Option<(&SteerTable, &Entry)> {
        if self.tables.is_empty() {
            return None;
        }
        let plain = ask.shape.left_to_slurm.is_none();
        let element = ask.array_job_id.zip(ask.array_task_id);
        let keys = [
            element.map(|(array, task)| JobKey::Element(array, task)),
            Some(JobKey::Job(ask.job_id)),
            ask.array_job_id.map(JobKey::Array),
            plain.then(|| JobKey::like(ask.user_id, ask.name_key, ask.shape)),
        ];
        // What was planned for the job itself comes before what is wished for its like.
        keys.iter().flatten().find_map(|key| {
            self.tables.values().find_map(|table| Some((table, table.by_job.get(key)?)))
        })
    }

    /// Whether a method has a steer for this very job.
    fn has_own(&self, method: Method, ask: &Question<'_>) -> bool {
        let keys = [Some(JobKey::Job(ask.job_id)), ask.array_job_id.map(JobKey::Array)];
        let table = self.tables.get(&method);
        table.is_some_and(|t| keys.iter().flatten().any(|key| t.by_job.contains_key(key)))
    }

    /// A task started on these nodes: its array's quota there shrinks.
    pub fn began(&mut self, array_job_id: u32, nodes: impl Iterator<Item = usize> + Clone) {
        for table in self.tables.values_mut() {
            let Some(entry) = table.by_job.get_mut(&JobKey::Array(array_job_id)) else { continue };
            let inside = |tier: &Tier| {
                let has = |node| u32::try_from(node).is_ok_and(|n| has(&tier.nodes, n));
                nodes.clone().all(has)
            };
            let at = entry.steer.tiers.iter().position(inside);
            if let Some(taken) = at.and_then(|at| entry.taken.get_mut(at)) {
                *taken = taken.saturating_add(1);
            }
        }
    }
}

fn has(sorted: &[u32], node: u32) -> bool {
    sorted.binary_search(&node).is_ok()
}

/// A question, as far as steering is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Job id.
    pub job_id: u32,
    /// Its array, if it is of one.
    pub array_job_id: Option<u32>,
    /// Which task of it would start, if that is known.
    pub array_task_id: Option<u32>,
    /// User id.
    pub user_id: u32,
    /// Of its name, see [`name_key`](crate::learn::name_key).
    pub name_key: u16,
    /// Request.
    pub shape: &'a Shape,
    /// Words of the bitmap of candidates.
    pub candidates: &'a [u64],
    /// How long the job is held back already, milliseconds.
    pub held_ms: u64,
    /// How long it may be held back until its input was looked up, milliseconds; 0 for a job that
    /// declares none.
    pub input_wait_ms: u64,
    /// How long one that insists on the nodes of its input may wait for them, milliseconds.
    pub require_wait_ms: u64,
}

/// [`Placer::decide`], but with the steered sets first.
///
/// A component of a het job is decided only when it is steered: alone, one
/// component could take the room of the others.
///
/// # Errors
/// Those of [`Placer::decide`].
pub fn decide(
    placer: &mut Placer,
    steers: &mut Steers,
    ask: &Question<'_>,
) -> (Result<Placement, NoPlacement>, Option<Steered>) {
    // Before its input is known a data-parallel job would go anywhere.
    if ask.held_ms < ask.input_wait_ms && !steers.has_own(Method::Bisect, ask) {
        return (Err(NoPlacement::Unplanned), None);
    }
    let mut words = std::mem::take(&mut steers.words);
    let result = match steers.find(ask) {
        // Where tasks may wait for their nodes, they wait for the first plan of their array.
        None if ask.held_ms < STEER_FIRST_PLAN_MS
            && placer.may_hold_steered_only(ask.held_ms)
            && steers.is_new_array(ask) =>
        {
            (Err(NoPlacement::Unplanned), None)
        }
        None => (placer.decide(ask.shape, ask.candidates, ask.held_ms), None),
        Some((table, entry)) if !Arc::ptr_eq(&table.table, placer.cluster().table()) => {
            let steer = Arc::clone(&entry.steer);
            let unused = Some(Unused::OtherTable);
            let decided = placer.decide(ask.shape, ask.candidates, ask.held_ms);
            (decided, Some(Steered { steer, tier: None, unused }))
        }
        Some((_, entry)) => follow(placer, entry, ask, &mut words),
    };
    steers.words = words;
    result
}

fn follow(
    placer: &mut Placer,
    entry: &Entry,
    ask: &Question<'_>,
    words: &mut Vec<u64>,
) -> (Result<Placement, NoPlacement>, Option<Steered>) {
    let steer = &entry.steer;
    let steered = |tier, unused| Some(Steered { steer: Arc::clone(steer), tier, unused });
    let plain;
    let shape = match ask.shape.left_to_slurm {
        Some(LeftToSlurm::HetJob) => {
            plain = Shape { left_to_slurm: None, ..ask.shape.clone() };
            &plain
        }
        _ => ask.shape,
    };
    let mut unused = None;
    for (at, tier) in steer.tiers.iter().enumerate() {
        let taken = entry.taken.get(at).copied().unwrap_or(0);
        if tier.quota.is_some_and(|quota| taken >= quota) {
            unused = unused.or(Some(Unused::Quota));
            continue;
        }
        within(ask.candidates, &tier.nodes, words);
        // Where the user left the number of nodes open, the plan says it.
        let spread = (steer.method == Method::Bisect && at == 0 && shape.node_count_is_free())
            .then(|| on_all(shape, tier.nodes.len()));
        let shape = spread.as_ref().unwrap_or(shape);
        // Waiting is decided below, for all sets together.
        match placer.decide(shape, words, u64::MAX) {
            Ok(placement) => {
                let candidates = count(ask.candidates);
                return (Ok(Placement { candidates, ..placement }), steered(Some(at), unused));
            }
            Err(NoPlacement::NoFit | NoPlacement::Held) => {
                unused = unused.or_else(|| why(placer, shape, tier, ask.candidates));
            }
            Err(other) => return (Err(other), steered(None, unused)),
        }
    }
    let insists = steer.method == Method::Bisect && ask.held_ms < ask.require_wait_ms;
    let decided = if steer.strict && (insists || placer.may_hold_steered(ask.held_ms)) {
        Err(NoPlacement::Held)
    } else {
        placer.decide(ask.shape, ask.candidates, ask.held_ms)
    };
    (decided, steered(None, unused))
}

/// The same request on exactly so many nodes, if it allows that.
fn on_all(shape: &Shape, nodes: usize) -> Shape {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let count = nodes.clamp(shape.min_nodes.max(1), shape.max_nodes.max(1));
    Shape { min_nodes: count, max_nodes: count, req_nodes: count, ..shape.clone() }
}

/// The candidates among `nodes`, as words.
fn within(candidates: &[u64], nodes: &[u32], words: &mut Vec<u64>) {
    words.clear();
    words.resize(candidates.len(), 0);
    for &node in nodes {
        let at = node as usize / 64;
        if let (Some(word), Some(offered)) = (words.get_mut(at), candidates.get(at)) {
            *word |= offered & (1 << (node % 64));
        }
    }
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The first node of the set that is in the way.
fn why(placer: &Placer, shape: &Shape, tier: &Tier, candidates: &[u64]) -> Option<Unused> {
    let need = shape.need(shape.wanted_nodes());
    tier.nodes.iter().find_map(|&node| {
        let offered = candidates.get(node as usize / 64).is_some_and(|w| w >> (node % 64) & 1 == 1);
        if !offered {
            return Some(Unused::NotOffered(node));
        }
        let mut fits = true;
        placer.cluster().rooms().get(node as usize)?.lacks(&need, |_, _| fits = false);
        (!fits).then_some(Unused::Busy(node))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{NoImprovement, Params};
    use crate::planner::cluster::{Cluster, Held, RunningJob, TableNode};
    use crate::planner::place::Tuning;
    use crate::snapshot::{Builder, Node};

    fn table(names: &[&str]) -> Table {
        let node = |name: &&str| TableNode {
            name: (*name).into(),
            cpus: 8,
            threads: 1,
            weight: 1,
            ..TableNode::default()
        };
        Table { nodes: names.iter().map(node).collect(), ..Table::default() }
    }

    fn placer(tuning: Tuning) -> Placer {
        let cluster = Cluster::new(table(&["a", "b", "c", "d"]));
        Placer::new(cluster, false, tuning, Vec::new()).unwrap()
    }

    fn snapshot(names: &[&str]) -> Snapshot {
        let mut builder = Builder::default();
        let node = |n: &&str| Node { name: (*n).into(), cpus: 8, ..Node::default() };
        builder.nodes(names.iter().map(node).collect()).unwrap();
        builder.build(1, 1).unwrap()
    }

    fn tier(nodes: &[u32], quota: Option<u32>) -> Tier {
        Tier { name: "t".into(), nodes: nodes.into(), quota }
    }

    fn steer(key: JobKey, tiers: Vec<Tier>) -> Steer {
        Steer { key, method: Method::Gang, tiers, strict: false, made_ms: 1, note: Note::None }
    }

    fn steers(placer: &Placer, list: Vec<Steer>) -> Steers {
        let mut steers = Steers::default();
        let names = snapshot(&["a", "b", "c", "d"]);
        let table = SteerTable::new(Arc::clone(placer.cluster().table()), &names, list);
        steers.replace(Method::Gang, table);
        steers
    }

    fn shape(nodes: u32, cpus: u32) -> Shape {
        Shape {
            min_nodes: nodes,
            max_nodes: nodes,
            req_nodes: nodes,
            min_cpus: nodes * cpus,
            ..Shape::default()
        }
    }

    fn ask<'a>(shape: &'a Shape, candidates: &'a [u64], array: Option<u32>) -> Question<'a> {
        Question {
            job_id: 7,
            array_job_id: array,
            array_task_id: None,
            user_id: 5,
            name_key: 3,
            shape,
            candidates,
            held_ms: 0,
            input_wait_ms: 0,
            require_wait_ms: 0,
        }
    }

    fn take(placer: &mut Placer, id: u32, node: usize, cpus: u64) {
        let held = vec![Held { node, cpus, ..Held::default() }];
        placer.set_job(RunningJob { id, held, ..RunningJob::default() });
    }

    #[test]
    fn the_first_set_with_room_decides_then_anything() {
        let mut placer = placer(Tuning::default());
        let tiers = vec![tier(&[2, 3], None), tier(&[1, 2], None)];
        let mut steers = steers(&placer, vec![steer(JobKey::Job(7), tiers)]);
        let two = shape(2, 8);
        let (placed, seen) = decide(&mut placer, &mut steers, &ask(&two, &[0b1111], None));
        assert_eq!(placed.unwrap().nodes, [2, 3]);
        assert_eq!(seen.unwrap().tier, Some(0));
        take(&mut placer, 1, 3, 1);
        let (placed, seen) = decide(&mut placer, &mut steers, &ask(&two, &[0b1111], None));
        let (placed, seen) = (placed.unwrap(), seen.unwrap());
        assert_eq!((placed.nodes.as_slice(), placed.candidates), ([1, 2].as_slice(), 4));
        assert_eq!((seen.tier, seen.unused), (Some(1), Some(Unused::Busy(3))));
        let (placed, seen) = decide(&mut placer, &mut steers, &ask(&two, &[0b0011], None));
        assert_eq!(placed.unwrap().nodes, [0, 1]);
        let seen = seen.unwrap();
        assert_eq!((seen.tier, seen.unused), (None, Some(Unused::NotOffered(2))));
        let other = Question { job_id: 8, ..ask(&two, &[0b1111], None) };
        assert!(decide(&mut placer, &mut steers, &other).1.is_none());
    }

    #[test]
    fn quotas_count_starts_not_questions() {
        let mut placer = placer(Tuning::default());
        let tiers = vec![tier(&[3], Some(1)), tier(&[1], None)];
        let mut steers = steers(&placer, vec![steer(JobKey::Array(5), tiers)]);
        let one = shape(1, 1);
        for _ in 0..2 {
            let (placed, _) = decide(&mut placer, &mut steers, &ask(&one, &[0b1111], Some(5)));
            assert_eq!(placed.unwrap().nodes, [3]);
        }
        steers.began(5, [3].into_iter());
        let (placed, seen) = decide(&mut placer, &mut steers, &ask(&one, &[0b1111], Some(5)));
        assert_eq!(placed.unwrap().nodes, [1]);
        assert_eq!(seen.unwrap().unused, Some(Unused::Quota));
    }

    #[test]
    fn het_components_are_decided_only_when_steered() {
        let mut placer = placer(Tuning::default());
        let mut steers = steers(&placer, vec![steer(JobKey::Job(7), vec![tier(&[2], None)])]);
        let het = Shape { left_to_slurm: Some(LeftToSlurm::HetJob), ..shape(1, 1) };
        let (placed, _) = decide(&mut placer, &mut steers, &ask(&het, &[0b1111], None));
        assert_eq!(placed.unwrap().nodes, [2]);
        let (placed, _) = decide(&mut placer, &mut steers, &ask(&het, &[0b0011], None));
        assert_eq!(placed.unwrap_err(), NoPlacement::Left(LeftToSlurm::HetJob));
    }

    #[test]
    fn a_job_with_an_input_waits_for_its_plan_but_not_for_ever() {
        let mut placer = placer(Tuning::default());
        let mut none = Steers::default();
        let two = shape(2, 8);
        let fresh = Question { input_wait_ms: 100, ..ask(&two, &[0b1111], None) };
        assert_eq!(decide(&mut placer, &mut none, &fresh).0.unwrap_err(), NoPlacement::Unplanned);
        let late = Question { held_ms: 100, ..fresh };
        assert!(decide(&mut placer, &mut none, &late).0.is_ok());
        let own = |strict| {
            let planned = vec![tier(&[2, 3], None)];
            Steer { method: Method::Bisect, strict, ..steer(JobKey::Job(7), planned) }
        };
        let names = snapshot(&["a", "b", "c", "d"]);
        for strict in [false, true] {
            let mut steers = Steers::default();
            let table =
                SteerTable::new(Arc::clone(placer.cluster().table()), &names, vec![own(strict)]);
            steers.replace(Method::Bisect, table);
            let (placed, _) = decide(&mut placer, &mut steers, &fresh);
            assert_eq!(placed.unwrap().nodes, [2, 3]);
            let elsewhere = Question { candidates: &[0b0011], require_wait_ms: 500, ..fresh };
            let (placed, _) = decide(&mut placer, &mut steers, &elsewhere);
            assert_eq!(placed.is_err(), strict, "who insists waits");
            let late = Question { held_ms: 500, ..elsewhere };
            assert!(decide(&mut placer, &mut steers, &late).0.is_ok());
        }
    }

    #[test]
    fn a_job_not_planned_yet_follows_its_like() {
        let mut placer = placer(Tuning::default());
        let two = shape(2, 8);
        let like = steer(JobKey::like(5, 3, &two), vec![tier(&[2, 3], None)]);
        let own = steer(JobKey::Job(7), vec![tier(&[1, 2], None)]);
        let mut steers = steers(&placer, vec![like, own]);
        let planned = ask(&two, &[0b1111], None);
        let (placed, _) = decide(&mut placer, &mut steers, &planned);
        assert_eq!(placed.unwrap().nodes, [1, 2]);
        let (placed, _) = decide(&mut placer, &mut steers, &Question { job_id: 8, ..planned });
        assert_eq!(placed.unwrap().nodes, [2, 3]);
        let stranger = Question { job_id: 8, user_id: 6, ..planned };
        assert!(decide(&mut placer, &mut steers, &stranger).1.is_none());
        let other = Question { job_id: 8, name_key: 4, ..planned };
        assert!(decide(&mut placer, &mut steers, &other).1.is_none());
    }

    #[test]
    fn strict_waits_only_where_holding_is_allowed_and_not_for_ever() {
        let strict = |placer: &Placer| {
            let list =
                vec![Steer { strict: true, ..steer(JobKey::Job(7), vec![tier(&[2], None)]) }];
            steers(placer, list)
        };
        let one = shape(1, 1);
        let mut free = placer(Tuning::default());
        let mut table = strict(&free);
        let (placed, _) = decide(&mut free, &mut table, &ask(&one, &[0b0011], None));
        assert!(placed.is_ok());
        let params = Params {
            no_improvement: NoImprovement::Hold,
            hold_max_ms: Some(1000),
            ..Params::default()
        };
        let mut holding = placer(Tuning { params, ..Tuning::default() });
        let mut table = strict(&holding);
        let (placed, _) = decide(&mut holding, &mut table, &ask(&one, &[0b0011], None));
        assert_eq!(placed.unwrap_err(), NoPlacement::Held);
        let late = Question { held_ms: 1000, ..ask(&one, &[0b0011], None) };
        assert!(decide(&mut holding, &mut table, &late).0.is_ok());
        // Leave of the method alone: others are not held, but arrays that no plan has seen.
        let tuning = Tuning { steered_hold_ms: Some(1000), ..Tuning::default() };
        let mut steered = placer(tuning);
        let mut table = strict(&steered);
        let (placed, _) = decide(&mut steered, &mut table, &ask(&one, &[0b0011], None));
        assert_eq!(placed.unwrap_err(), NoPlacement::Held);
        assert!(!steered.may_hold(0));
        let array = Question { job_id: 8, ..ask(&one, &[0b0011], Some(8)) };
        assert!(decide(&mut steered, &mut table, &array).0.is_ok());
        table.saw(&snapshot(&["a"]));
        assert_eq!(decide(&mut steered, &mut table, &array).0.unwrap_err(), NoPlacement::Unplanned);
        let late = Question { held_ms: STEER_FIRST_PLAN_MS, ..array };
        assert!(decide(&mut steered, &mut table, &late).0.is_ok());
    }

    #[test]
    fn nodes_are_named_anew_and_another_table_voids_the_steer() {
        let mut placer = placer(Tuning::default());
        let list = vec![steer(JobKey::Job(7), vec![tier(&[0, 1], None)])];
        let turned = snapshot(&["d", "c", "gone", "a"]);
        let table = SteerTable::new(Arc::clone(placer.cluster().table()), &turned, list);
        let mut steers = Steers::default();
        steers.replace(Method::Gang, table);
        let two = shape(2, 1);
        let (placed, _) = decide(&mut placer, &mut steers, &ask(&two, &[0b1111], None));
        assert_eq!(placed.unwrap().nodes, [2, 3]);
        let mut other = super::tests::placer(Tuning::default());
        let (_, seen) = decide(&mut other, &mut steers, &ask(&two, &[0b1111], None));
        assert_eq!(seen.unwrap().unused, Some(Unused::OtherTable));
    }
}
