// SPDX-License-Identifier: GPL-3.0-or-later
//! `GET /v1/explain/JOB`: why a job runs where it runs, or waits.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rest::Receipt;
use crate::rest::order::JobOrder;
use phalanx_core::reason::WaitsFor;
use phalanx_core::topology::Kind;
use phalanx_planner::preference::{DataNote, Note};

/// `GET /v1/explain/{job}`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explain {
    /// Slurm's job id.
    pub job_id: u32,
    /// Job id as users write it: `123`, `120_7`, `130+1`.
    pub label: String,
    /// State in Slurm's words, `UNKNOWN` when only the history knows it.
    pub state: String,
    /// User id, if known.
    pub user_id: Option<u32>,
    /// Partition or partitions asked for.
    pub partition: String,
    /// Mode in force in the partition.
    pub mode: String,
    /// Request in words per resource: `cpu` -> `8 per node`.
    pub request: BTreeMap<String, String>,
    /// Set once the job started.
    pub placed: Option<Placed>,
    /// Reasons for the wait, while the job waits.
    pub pending: Option<PendingReport>,
    /// Input of the job, if it declares one, and the local part of it.
    pub input: Option<DataNote>,
    /// Position in the order of starts, while the job waits.
    #[serde(default)]
    pub order: Option<JobOrder>,
    /// The latest asks for the job, newest first.
    pub asks: Vec<AskReport>,
    /// Expected runtime, if it is known from its user's jobs; set while
    /// Slurm knows the job and it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedReport>,
    /// Nodes that come last because jobs died on them, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<String>,
    /// Changes made for the job, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
}

/// A learned runtime. The time limit at which the job is killed stays the user's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExpectedReport {
    /// Expected runtime, seconds; at most the limit.
    pub runtime_s: f64,
    /// Runs of the user behind the expectation; old ones count less.
    pub runs: f64,
    /// The user's limit, seconds, if there is one.
    pub limit_s: Option<u64>,
    /// Expected end of a running job, unix milliseconds; a job that runs longer than expected is
    /// expected to reach its limit.
    pub end_ms: Option<u64>,
    /// Decisions that the prediction affects, in words; empty: the prediction is only shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_for: Vec<String>,
}

/// Placement of a job and its reasons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placed {
    /// Nodes of the job, as a hostlist.
    pub nodes: String,
    /// Whether these are the nodes that Phalanx decided.
    pub by_phalanx: bool,
    /// Reason why other nodes were taken, one of those in `phalanx status`.
    pub reason: Option<String>,
    /// Time of the start, unix milliseconds.
    pub start_ms: u64,
    /// The decision behind the start, if there was one.
    pub decision: Option<DecisionReport>,
    /// Leaf switches or blocks of the job's nodes, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<LeavesReport>,
}

/// Leaf switches or blocks of a job of several nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeavesReport {
    /// Name of the topology.
    pub topology: String,
    /// `tree` or `block`.
    pub kind: Kind,
    /// Leaves in Slurm's order.
    pub leaves: Vec<LeafNodes>,
    /// Fewest leaves that the candidates allowed at that time.
    pub fewest: Option<u32>,
    /// The lowest switch or block above all the leaves; absent if there is none.
    pub above: Option<String>,
    /// Level of the switch or block `above`; 0 is a leaf.
    pub level: Option<u32>,
}

/// A leaf switch or block with a job's nodes on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeafNodes {
    /// Name of the leaf.
    pub name: String,
    /// Nodes of the job on the leaf.
    pub nodes: u32,
}

/// Leaf switches or blocks that a waiting job of several nodes could have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeavesAhead {
    /// Name of the topology.
    pub topology: String,
    /// `tree` or `block`.
    pub kind: Kind,
    /// Fewest leaves that hold the job at present; null if none do.
    pub fewest_now: Option<u32>,
    /// The first leaf to hold the whole job; null if none is known.
    pub one_leaf: Option<LeafAhead>,
}

/// The first leaf to hold a whole job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeafAhead {
    /// Name of the leaf.
    pub name: String,
    /// Time at which the leaf is expected to hold the job, unix milliseconds; null: now.
    pub at_ms: Option<u64>,
    /// Jobs on the leaf that are expected to end before that time.
    pub after_jobs: Vec<u32>,
}

/// One decision with its scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionReport {
    /// Id in the history.
    pub id: u64,
    /// Time, unix milliseconds.
    pub time_ms: u64,
    /// Name of the method, such as `balance`.
    pub method: String,
    /// `seed` or `best`.
    pub method_mode: Cow<'static, str>,
    /// Generation of the configuration behind the decision.
    pub generation: u64,
    /// Decided nodes, as a hostlist.
    pub nodes: String,
    /// Candidates that Slurm offered.
    pub candidates: u64,
    /// Candidates that Slurm takes last whatever their Weight: powered down, booting, to be
    /// rebooted, or outside a FLEX reservation.
    #[serde(default)]
    pub not_ready: u64,
    /// Decided nodes that Slurm takes last.
    #[serde(default)]
    pub not_ready_chosen: u64,
    /// The node preference that narrowed the candidates, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<Arc<PreferenceReport>>,
    /// Leaf switches or blocks of the decision, where it has several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<LeavesReport>,
    /// `low`, `high`, or `best` for the improved mode.
    pub branch: Cow<'static, str>,
    /// Cluster utilisation just before the decision.
    pub utilization: f64,
    /// Names of the dimensions of the decision's vectors.
    pub dimensions: Vec<String>,
    /// Weights just before.
    pub weights: Vec<f64>,
    /// One entry per chosen node (first 64).
    pub chosen: Vec<ScoredNode>,
    /// Best node that was not chosen.
    pub runner_up: Option<ScoredNode>,
    /// Score of the runner-up minus the worst chosen score; below zero where poll order or a choice
    /// of like nodes mattered more than the score.
    pub margin: Option<f64>,
}

/// A node with the terms of its score.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoredNode {
    /// Slurm's node name.
    pub node: String,
    /// Dispersion before.
    pub dispersion_before: f64,
    /// Dispersion after.
    pub dispersion_after: f64,
    /// Minimised value; the dispersion itself in mode seed.
    pub score: f64,
    /// Terms that add up to the score in mode best.
    pub terms: BTreeMap<Cow<'static, str>, f64>,
    /// Last end of the jobs that were on the node, unix milliseconds; absent if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_until_ms: Option<u64>,
    /// Time by which the job, at its limit, would keep the node busy beyond that end, or beyond the
    /// decision where nothing ran, milliseconds; absent if the job's time is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_longer_ms: Option<u64>,
}

/// Reasons why a job waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PendingReport {
    /// Slurm's own reason word.
    pub slurm_reason: String,
    /// The kind of what it waits for: `nodes`, `time`, `limit`, `person`, or `never` where it does
    /// not start as it was submitted.
    #[serde(default)]
    pub waits_for: WaitsFor,
    /// Position in the queue by Slurm's priority, from 1.
    pub queue_position: Option<u64>,
    /// Nodes of the cluster.
    pub nodes_total: u64,
    /// Each filter in order, with the nodes that it removed.
    pub filters: Vec<FilterReport>,
    /// Nodes left after all filters.
    pub eligible: u64,
    /// Eligible nodes with enough free now.
    pub fits_now: u64,
    /// Nodes needed at once.
    pub nodes_needed: u64,
    /// Resources that the eligible nodes lack, most frequent first.
    pub blockers: Vec<BlockerReport>,
    /// Summary in one sentence.
    pub summary: String,
    /// A method's node preference for the job, by the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<PreferenceReport>,
    /// A method's explanation for the job where the method has no preference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// Forecast of the start, unix milliseconds: half of such starts come by the first time, nine
    /// in ten by the second; absent until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<[u64; 2]>,
    /// Leaf switches or blocks for the job, where it wants several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<LeavesAhead>,
}

/// A filter of the nodes for a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilterReport {
    /// Name of the filter: `partition`, `state`, `features`, `exclude`, `reservation`, `size`...
    pub filter: String,
    /// Nodes that the filter removed.
    pub removed: u64,
    /// The job's option that the filter applies.
    pub asked: String,
}

/// A dimension that eligible nodes lack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockerReport {
    /// Name of the dimension.
    pub dimension: String,
    /// Eligible nodes that lack the dimension at present.
    pub nodes_lacking: u64,
    /// Smallest amount missing on any eligible node.
    pub least_missing: f64,
}

/// One ask as recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskReport {
    /// Time, unix milliseconds.
    pub time_ms: u64,
    /// Kind of call: `run_now` or `will_run`.
    #[serde(rename = "mode")]
    pub ask: String,
    /// `narrow` or `no-opinion`.
    pub verdict: String,
    /// Reason why there was no opinion or the set was not kept.
    pub reason: Option<String>,
    /// Decided nodes as a hostlist, canonical, also where shadow mode did not send them; empty
    /// without an opinion.
    pub nodes: String,
    /// Some of the jobs that Slurm may preempt for the asked job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemptable: Vec<u32>,
    /// Number of all jobs that Slurm may preempt for the asked job.
    #[serde(default)]
    pub preemptable_all: u32,
    /// The node preference for the job, if a method had one, and whether it decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<Arc<PreferenceReport>>,
}

/// A method's node preference for a job, and whether it decided one question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PreferenceReport {
    /// Name of the method, such as `gang` or `bag`.
    pub method: String,
    /// Time of the plan, unix milliseconds.
    pub made_ms: u64,
    /// The candidate set that decided; null when none did.
    pub candidate_set: Option<String>,
    /// Reason why the first set did not decide.
    pub unused: Option<String>,
    /// Reasons for the preference.
    #[serde(default)]
    pub note: Note,
}
