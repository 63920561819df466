// SPDX-License-Identifier: GPL-3.0-or-later
//! The JSON bodies of the API, one struct each.
//!
//! Durations carry their unit in the name, times are unix milliseconds,
//! memory is in MiB, and a resource vector is always in the order of the
//! `dimensions` beside it.

mod activity;
mod audit;
mod explain;
pub mod heat;
mod history;
pub mod order;
mod status;
mod topology;

pub use activity::{Activity, AnswerSums, Day, LeafSums, LocalSums, Point, RunSums, Share};
pub use audit::{AuditReport, AuditRow, Receipt};
pub use explain::{
    AskReport, BlockerReport, DecisionReport, ExpectedReport, Explain, FilterReport, LeafAhead,
    LeafNodes, LeavesAhead, LeavesReport, PendingReport, Placed, PreferenceReport, ScoredNode,
};
pub use history::{
    ActivityReport, ClassSpeeds, DecisionsReport, EnergyReport, EnergyRow, ImportReport,
    LatestDecision, NodePower, RunsReport, SpeedRow, SpeedsReport,
};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use status::{
    CallShares, CallTime, CollectStatus, ConfigStatus, ControlStatus, DatasetsStatus,
    HistoryStatus, LinkStatus, OTHER_PROTOCOL, OptionRefusals, PlannerStatus, PluginStatus,
    ProofStatus, Quantiles, SlurmStatus, Status,
};
pub use topology::{DomainReport, NodeCounts, TopologyReport};

use phalanx_planner::preference::MethodReport;

/// `GET /v1/nodes`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodesReport {
    /// The dimensions of every vector of the report.
    pub dimensions: Vec<DimensionReport>,
    /// Cluster utilisation, a fraction.
    pub utilization: f64,
    /// Threshold in the configuration.
    pub threshold: f64,
    /// Branch that a decision would take at present: `low` or `high`.
    pub branch: String,
    /// Source of the numbers: `plugin` (exact) or `poll`.
    pub source: String,
    /// Nodes in Slurm's order.
    pub nodes: Vec<NodeReport>,
    /// Leaf switches and blocks, where the plugin reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topologies: Vec<TopologyReport>,
}

/// One resource dimension of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DimensionReport {
    /// `cpu`, `mem`, `gres/gpu`, `license/NAME`.
    pub name: String,
    /// `count` or `MiB`.
    pub unit: String,
    /// Configured amount on all nodes that take jobs.
    pub total: f64,
    /// Amount in use.
    pub used: f64,
    /// Pending jobs attributed to a shortage of the dimension.
    pub pending: u64,
    /// Weight from the configuration.
    pub weight_initial: f64,
    /// Weight by the pending jobs.
    pub weight_pending: f64,
    /// Weight by the usage.
    pub weight_usage: f64,
    /// Weight in force.
    pub weight: f64,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeReport {
    /// Slurm's node name.
    pub name: String,
    /// State in Slurm's words.
    pub state: String,
    /// Partitions of the node.
    pub partitions: Vec<String>,
    /// Configured amounts, by dimension.
    pub total: Vec<f64>,
    /// Amounts in use, by dimension.
    pub used: Vec<f64>,
    /// Weighted dispersion y with the weights in force.
    pub dispersion: f64,
    /// Jobs on the node.
    pub jobs: u32,
    /// Whether the node takes no jobs, being down or drained: no total of the report counts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out: bool,
    /// Reason why the node comes last: jobs die there that live elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accused: Option<String>,
    /// Leaf switch or block of the node in the default topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
}

/// `GET /v1/shadow`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShadowReport {
    /// Start of the period, unix milliseconds.
    pub since_ms: u64,
    /// Starts for which there was a shadow decision.
    pub starts: u64,
    /// Starts on the nodes of the shadow decision.
    pub agreed: u64,
    /// Fraction `agreed / starts`; absent when there were no starts.
    pub agreement: Option<f64>,
    /// Starts on other nodes, by what the decided nodes would have been: better, the same (or some
    /// of each), worse; by partition.
    #[serde(default)]
    pub partitions: BTreeMap<String, [u64; 3]>,
    /// Starts on other nodes by measure: `gpus`, `idle`, `leaves`, `nodes`, `weight`.
    #[serde(default)]
    pub measures: BTreeMap<String, [u64; 3]>,
    /// GPU hours that would not have been on nodes without a free CPU, if nothing else changed.
    #[serde(default)]
    pub gpu_hours: f64,
    /// The latest differing starts, newest first.
    pub differing: Vec<ShadowDiff>,
}

/// One start where Slurm chose other nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShadowDiff {
    /// Job id.
    pub job_id: u32,
    /// Time, unix milliseconds.
    pub time_ms: u64,
    /// Slurm's nodes.
    pub slurm: String,
    /// Nodes of the shadow decision.
    pub phalanx: String,
}

/// `GET /v1/plan`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    /// Epoch of the snapshot that was planned.
    pub epoch: u64,
    /// Time, unix milliseconds.
    pub time_ms: u64,
    /// Duration of the planning, in milliseconds.
    pub took_ms: u64,
    /// Jobs in the order in which they are expected to start.
    pub jobs: Vec<PlannedJob>,
    /// Pending jobs beyond the planned window.
    pub not_planned: u64,
    /// The methods behind the plan, with objective and certified gap.
    #[serde(default)]
    pub methods: Vec<MethodReport>,
}

/// One job of the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PlannedJob {
    /// Job id.
    pub job_id: u32,
    /// Job id as squeue prints it: `123`, `120_[1-9]`, `130+1`.
    pub label: String,
    /// Method that placed the job.
    pub method: String,
    /// Nodes if the job could start now, else empty.
    pub nodes: String,
    /// Reason for which the job cannot start at present, or the rule by which Phalanx holds it, and
    /// until when.
    pub reason: Option<String>,
    /// Forecast of the start, unix milliseconds: half of such starts come by the first time, nine
    /// in ten by the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<[u64; 2]>,
    /// Rank in the order of starts that the methods ask for, from 0.
    pub rank: Option<u32>,
    /// Delta on the job's site factor for the rank.
    pub delta: i32,
    /// A method's node preference for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<PreferenceReport>,
}

/// State of the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingStatus {
    /// Whether a recording is under way.
    pub active: bool,
    /// The file being written, or written last; empty if there was none.
    pub file: String,
    /// Start of the recording, unix milliseconds.
    pub since_ms: u64,
    /// Time at which the recording ends by itself, unix milliseconds.
    pub until_ms: Option<u64>,
    /// Number of the recording's files.
    pub files: u32,
    /// Number of the recording's records.
    pub records: u64,
    /// Number of the recording's bytes.
    pub bytes: u64,
    /// Times that events were lost because the disk was too slow.
    pub gaps: u64,
    /// Files deleted to stay within the limit.
    pub deleted: u64,
    /// Reason for which the last recording ended early, or its last gap.
    pub last_error: Option<String>,
}

/// `POST /v1/record`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum RecordRequest {
    /// Begins a recording.
    Start {
        /// Seconds after which the recording ends by itself.
        #[serde(default)]
        seconds: Option<u64>,
    },
    /// Ends the recording.
    Stop,
}

/// `POST /v1/reload`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReloadReport {
    /// Whether the new configuration is in force.
    pub ok: bool,
    /// Generation in force afterwards.
    pub generation: u64,
    /// Keys that changed.
    pub changed: Vec<String>,
    /// Changed keys that need a restart.
    pub needs_restart: Vec<String>,
    /// Reason of a refusal: file, line, column, key, expectation.
    pub error: Option<String>,
}

/// Energy of a run by Slurm's accounting; `POST /v1/history/energy` takes those of one look at it,
/// or null before the first, and answers with the first and last end, in unix seconds, of the runs
/// whose energy is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunJoules {
    /// The job as users write it.
    pub job: String,
    /// Unix seconds.
    pub start_s: i64,
    /// Energy of all its nodes.
    pub joules: f64,
}

/// `POST /v1/nodes/{node}/forgive`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForgiveReport {
    /// The node whose failed jobs are to count no more.
    pub node: String,
}

/// `POST /v1/drill`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DrillReport {
    /// Time for which slurmctld waits for answers that are not used.
    pub seconds: u64,
}

/// Body of every error status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// The problem, and what was expected.
    pub error: String,
}
