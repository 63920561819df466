// SPDX-License-Identifier: GPL-3.0-or-later
//! Node preferences of one method, and the plan that they came from.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::job_class::{JobClassKey, JobClassRule, JobOrigin};
use super::notes::{BagRow, Note};
use phalanx_core::NodeIdx;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::Job;
use phalanx_methods::gang::Stopped;

/// The methods that have preferences; a job follows the first of them that has one for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Data jobs run near the blocks that they read.
    DataJobs,
    /// Tasks of a job array by energy and time.
    Bag,
    /// Gangs by social welfare.
    Gang,
    /// Nodes of a waiting gang left to jobs that end before it starts.
    BackfillWindow,
}

impl Method {
    /// The method's name in reports and in the history.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DataJobs => "data_jobs",
            Self::Bag => "bag",
            Self::Gang => "gang",
            Self::BackfillWindow => "backfill_window",
        }
    }
}

/// The job or jobs that a preference is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKey {
    /// A job, or one component of a het job.
    Job(u32),
    /// A waiting task of an array job.
    Element(u32, u32),
    /// Every waiting task of this array job.
    Array(u32),
    /// Jobs of one class that no plan has seen yet, where all types of jobs in the class prefer
    /// the same nodes.
    Class(JobClassKey),
}

impl JobKey {
    /// Whether a job of the queue with this origin is one that the key is for.
    pub fn holds(&self, job: &Job, origin: JobOrigin) -> bool {
        match self {
            Self::Job(id) => *id == job.id,
            Self::Element(array, task) => {
                (job.array_job_id, job.array_task_id) == (Some(*array), Some(*task))
            }
            Self::Array(array) => job.array_job_id.unwrap_or(job.id) == *array,
            Self::Class(class) => JobClassRule::of(class).key(origin, &job.shape) == *class,
        }
    }
}

/// Nodes that suit a job equally well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateSet {
    /// Name of the set in reports, e.g. `planned` or a node class.
    pub name: Arc<str>,
    /// Indexes, ascending. Equal sets of many jobs share one list.
    pub nodes: Arc<[NodeIdx]>,
    /// Number of an array's tasks that may still start in the set; `None`: no limit.
    pub quota: Option<u32>,
}

/// Candidate sets of one job, in the order in which one method prefers them.
#[derive(Debug, Clone, PartialEq)]
pub struct Preference {
    /// The job or jobs that the preference is for.
    pub key: JobKey,
    /// Method that has the preference.
    pub method: Method,
    /// Candidate sets of nodes, best first; those beyond
    /// [`CANDIDATE_SETS_MAX`](phalanx_core::limits::CANDIDATE_SETS_MAX) are ignored.
    pub sets: Vec<CandidateSet>,
    /// Worth of each set for the job and, last, of nodes in none, 0 to 1: speed of its slowest
    /// node, or share of its input that it reads where it lies. `None`, or missing: not known.
    pub worth: Vec<Option<f64>>,
    /// Whether the job waits for the preferred nodes rather than going elsewhere, where and as long
    /// as [`Placer::may_wait_for_preference`](crate::place::Placer::may_wait_for_preference) allows
    /// it.
    pub required: bool,
    /// Time of the plan that made the preferences, unix milliseconds.
    pub made_ms: u64,
    /// Terms behind the preference, for explanations.
    pub note: Note,
}

/// A job of the sequence in which a method wants jobs to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartRank {
    /// Job id; of an array task the id of its array's record.
    pub job_id: u32,
    /// Rank in the sequence, from 0; jobs of one rank keep Slurm's order.
    pub rank: u32,
}

/// Report on one method's round of planning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MethodReport {
    /// Form of the method, such as `best` or `seed`.
    pub method: String,
    /// Form of the method, such as `best` or `seed`.
    pub mode: String,
    /// Number of jobs that the method considered.
    pub jobs: u64,
    /// Number of planned jobs that are to start now.
    pub starts: u64,
    /// Value of the objective, which was maximised.
    pub objective: Option<f64>,
    /// Upper bound of the objective: no plan has a higher one.
    pub upper_bound: Option<f64>,
    /// (bound - objective) / |bound|.
    pub gap: Option<f64>,
    /// Reason why the search ended, for the gang method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Terms of the objective, and sizes, by name.
    pub terms: BTreeMap<String, f64>,
    /// Arrays, for the bag method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bags: Vec<BagRow>,
    /// Time that the method took.
    pub took_ms: u64,
    /// Reason why there is no plan, if there is none.
    pub error: Option<String>,
}

/// Result of one method's round of planning.
#[derive(Debug, Clone)]
pub struct MethodPlan {
    /// The method.
    pub method: Method,
    /// Node preferences, at most one for each job.
    pub preferences: Vec<Preference>,
    /// Sequence in which jobs should start; empty: the method asks for none.
    pub start_order: Vec<StartRank>,
    /// Report for `phalanx plan`.
    pub report: MethodReport,
    /// Explanations of jobs without a preference, by job id.
    pub notes: Vec<(u32, Note)>,
}

impl MethodPlan {
    /// A plan without preferences.
    pub fn new(method: Method, report: MethodReport) -> Self {
        let report = MethodReport { method: method.as_str().to_owned(), ..report };
        Self { method, preferences: Vec::new(), start_order: Vec::new(), report, notes: Vec::new() }
    }
}

/// Reason why the first set of a preference did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// A node of the first set is not among Slurm's candidates.
    NotOffered(NodeIdx),
    /// A node of the first set has too little free at present.
    Busy(NodeIdx),
    /// The array may start no further task on the nodes of the first set.
    Quota,
    /// The first set needs more switches or blocks than other nodes do, or breaks more of them.
    Leaves,
    /// Nodes of a lighter Weight than those of the first set hold the job.
    Weight,
    /// The job needs more nodes of the first set than of others.
    Nodes,
    /// The node table changed after the preference was made.
    OtherTable,
}

impl Unused {
    /// Returns the reason in words; `name` names a node.
    pub fn text(self, name: impl FnOnce(NodeIdx) -> String) -> String {
        match self {
            Self::NotOffered(node) => format!("stale: {} not offered", name(node)),
            Self::Busy(node) => format!("stale: {} busy", name(node)),
            Self::Quota => "its share of tasks has started".to_owned(),
            Self::Leaves => "it needs more switches than other nodes, or breaks more".to_owned(),
            Self::Weight => "lighter nodes by Weight hold it".to_owned(),
            Self::Nodes => "it needs more nodes there than elsewhere".to_owned(),
            Self::OtherTable => "stale: the nodes changed".to_owned(),
        }
    }
}

/// The preference that applied to one question, and whether it decided.
#[derive(Debug, Clone)]
pub struct PreferenceUse {
    /// The preference; its nodes are of the node table in force.
    pub preference: Arc<Preference>,
    /// Position of the set that decided; `None` if none did.
    pub set: Option<usize>,
    /// Reason why the first set did not decide, if it did not.
    pub unused: Option<Unused>,
}

impl Preference {
    /// Returns the job's gain on the nodes of a set over other nodes; `None`: it is not known.
    /// Nodes of unknown worth count as no worse; the last worth is that of nodes in no set.
    pub fn gain(&self, set: usize, others: &[NodeIdx]) -> Option<f64> {
        let worth = |at: usize| self.worth.get(at).copied().flatten();
        let own = worth(set)?;
        let of = |node: &NodeIdx| {
            let inside = |set: &CandidateSet| set.nodes.binary_search(node).is_ok();
            worth(self.sets.iter().position(inside).unwrap_or(self.sets.len())).unwrap_or(own)
        };
        let theirs = others.iter().map(of);
        let theirs = match self.method {
            // Parts of the input are read by each node for itself.
            Method::DataJobs => theirs.sum::<f64>() / as_f64(others.len() as u64),
            _ => theirs.fold(f64::INFINITY, f64::min),
        };
        Some(own - theirs)
    }
}

impl PreferenceUse {
    /// Whether the job must get every node of the answer, because each holds a part of its input.
    pub fn all_nodes(&self) -> bool {
        self.preference.method == Method::DataJobs && self.set == Some(0)
    }
}
