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
mod like;
mod notes;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use kept::Rows;
pub use like::{Like, LikeBy, Signs, Who};
pub use notes::{BagNote, BagRow, BagShare, ClassSpeed, DataNote, GangNote, Note, TaskRow};
use serde::{Deserialize, Serialize};
use table::Entry;
pub use table::{SteerTable, Steers};

use crate::place::{NoPlacement, Placement, Placer};
use phalanx_core::limits::STEER_FIRST_PLAN_MS;
use phalanx_core::shape::{LeftToSlurm, Shape};

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
    /// Jobs that no plan has seen yet, by what types go by, as far as all types
    /// of them wish the same.
    Like(Like),
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
    /// What there is to say of jobs without a steer, by job id.
    pub notes: Vec<(u32, Note)>,
}

impl Steering {
    /// No wishes yet.
    pub fn new(method: Method, report: MethodReport) -> Self {
        Self { method, steers: Vec::new(), wishes: Vec::new(), report, notes: Vec::new() }
    }
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

/// A question, as far as steering is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Job id.
    pub job_id: u32,
    /// Its array, if it is of one.
    pub array_job_id: Option<u32>,
    /// Which task of it would start, if that is known.
    pub array_task_id: Option<u32>,
    /// What jobs like it are known by.
    pub signs: Signs,
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
