// SPDX-License-Identifier: GPL-3.0-or-later
//! What the daemon tells the command line and other clients: the JSON bodies
//! of the control socket, one struct each.
//!
//! Durations carry their unit in the name, times are unix milliseconds,
//! memory is in MiB, and a resource vector is always in the order of the
//! `dimensions` beside it.

use crate::api::order::{JobOrder, OrderStatus};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::collect::{Totals, UseReport};
use crate::model::run::Run;
use crate::planner::bags::WattsFrom;
use crate::planner::steer::{DataNote, MethodReport, Note};

/// `GET /v1/status`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of phalanxd.
    pub version: String,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// Configuration in force.
    pub config: ConfigStatus,
    /// The controller as the last poll saw it.
    pub slurm: SlurmStatus,
    /// The overlay plugin, by its own counters.
    pub plugin: PluginStatus,
    /// RUN_NOW calls and what became of them.
    pub run_now: CallShares,
    /// WILL_RUN calls and what became of them.
    pub will_run: CallShares,
    /// The daemon's side of the socket.
    pub link: LinkStatus,
    /// The background planner.
    pub planner: PlannerStatus,
    /// The order of starts.
    #[serde(default)]
    pub order: OrderStatus,
    /// The decision history.
    pub history: HistoryStatus,
    /// The data service.
    #[serde(default)]
    pub collect: CollectStatus,
}

/// Which configuration is in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// File it came from.
    pub path: String,
    /// Counts accepted configurations since the start, from 1.
    pub generation: u64,
    /// `off`, `shadow` or `enforce`.
    pub mode: String,
    /// Partitions with a mode of their own.
    pub partition_modes: BTreeMap<String, String>,
    /// Changed keys that take effect only after a restart.
    pub needs_restart: Vec<String>,
    /// Error of the last refused reload, until one succeeds.
    pub last_error: Option<String>,
}

/// The controller as polled through libslurm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlurmStatus {
    /// ClusterName.
    pub cluster: String,
    /// Version that libslurm reports, e.g. `22.05.8`.
    pub version: String,
    /// Whether the last poll succeeded.
    pub reachable: bool,
    /// Age of the newest good snapshot, if there is one.
    pub snapshot_age_ms: Option<u64>,
    /// Epoch of the newest good snapshot.
    pub snapshot_epoch: u64,
    /// Snapshots that failed their checks.
    pub snapshots_refused: u64,
    /// Time of the last poll, from request to snapshot.
    pub poll_ms: u64,
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Jobs pending.
    pub jobs_pending: u64,
    /// Jobs running.
    pub jobs_running: u64,
    /// Error of the last poll, if it failed.
    pub last_error: Option<String>,
}

/// The overlay's own counters, as of its last report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginStatus {
    /// Whether it is connected now.
    pub connected: bool,
    /// Whether the mirror is complete.
    pub synced: bool,
    /// Version of the overlay.
    pub overlay_version: String,
    /// Slurm that it was built for.
    pub slurm_version: String,
    /// Process id of slurmctld.
    pub pid: u32,
    /// Calls of job_test by mode: `run_now`, `test_only`, `will_run`, `other`.
    pub calls: BTreeMap<String, u64>,
    /// Questions sent.
    pub asks: u64,
    /// Valid answers in time.
    pub answers: u64,
    /// Calls placed on the narrowed set.
    pub narrowed: u64,
    /// Why calls were not asked, answered or kept, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Answers after the deadline.
    pub late_answers: u64,
    /// Events sent.
    pub events: u64,
    /// Full states sent.
    pub resyncs: u64,
    /// Connections made.
    pub connects: u64,
    /// Times the circuit breaker opened.
    pub breaker_opens: u64,
    /// `closed`, `open` or `half-open`.
    pub breaker: String,
    /// The plugin's own time per asked call, nanoseconds.
    pub ask_ns: Quantiles,
    /// The plugin's own time per call that was not asked, nanoseconds.
    pub skip_ns: Quantiles,
    /// Successful stock calls on narrowed sets.
    pub narrowed_stock: CallTime,
    /// Stock calls on all candidates, by mode.
    pub full_stock: BTreeMap<String, CallTime>,
}

/// Quantiles of a histogram; each value is the upper edge of the bucket that
/// holds the quantile, at most 1/8 above it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of samples.
    pub count: u64,
    /// Mean; each sample counts as the middle of its bucket.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// Upper edge and count of each bucket that is not empty: the difference
    /// of two reports has the quantiles of the time between them.
    #[serde(default)]
    pub buckets: Vec<(u64, u64)>,
}

/// Count and mean time of stock calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTime {
    /// Number of calls.
    pub calls: u64,
    /// Mean, nanoseconds.
    pub mean_ns: u64,
}

/// What became of the calls of one mode since the daemon started:
/// `asked = narrowed + sum of fallen_back`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallShares {
    /// Asks received.
    pub asked: u64,
    /// Of these, answered with nodes.
    pub answered: u64,
    /// Of these, placed on exactly the answered set.
    pub narrowed: u64,
    /// The others by reason.
    pub fallen_back: BTreeMap<String, u64>,
}

/// The daemon's side of the plugin socket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Socket path.
    pub socket: String,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused for their credentials.
    pub refused: u64,
    /// Connections closed for a malformed message.
    pub protocol_errors: u64,
    /// Text of the last of these.
    pub last_error: Option<String>,
    /// Events applied to the mirror.
    pub events: u64,
    /// Running jobs in the mirror.
    pub mirror_jobs: u64,
    /// Nodes in the mirror.
    pub mirror_nodes: u64,
    /// Time from receiving an ask to sending its answer, nanoseconds.
    pub answer_ns: Quantiles,
}

/// The background planner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannerStatus {
    /// Plans made.
    pub plans: u64,
    /// Plans that the independent checker refused.
    pub refused: u64,
    /// Time of the last plan.
    pub last_plan_ms: u64,
    /// Age of the plan in force.
    pub plan_age_ms: Option<u64>,
    /// Error of the last refused plan.
    pub last_error: Option<String>,
}

/// The data service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectStatus {
    /// Whether it is switched on.
    pub enabled: bool,
    /// Database.
    pub path: String,
    /// Address of the TCP listener; empty: none.
    pub listen: String,
    /// Generation of the assignments in force.
    pub generation: u64,
    /// How much there is.
    #[serde(flatten)]
    pub totals: Totals,
    /// What methods use.
    pub uses: Vec<UseReport>,
}

/// The decision history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryStatus {
    /// Whether it is switched on.
    pub enabled: bool,
    /// File.
    pub path: String,
    /// Records written.
    pub written: u64,
    /// Records dropped because the queue was full or the disk failed.
    pub dropped: u64,
    /// Failed transactions.
    pub errors: u64,
    /// Text of the last failure, until a write succeeds.
    pub last_error: Option<String>,
}

/// `GET /v1/nodes`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodesReport {
    /// The dimensions of every vector here.
    pub dimensions: Vec<DimensionReport>,
    /// Cluster utilisation U of `methods.md` section 5, a fraction.
    pub utilization: f64,
    /// Threshold of the configuration.
    pub threshold: f64,
    /// `low` or `high`: which branch a decision would take now.
    pub branch: String,
    /// Where the numbers come from: `plugin` (exact) or `poll`.
    pub source: String,
    /// Nodes in Slurm's order.
    pub nodes: Vec<NodeReport>,
}

/// One resource dimension of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DimensionReport {
    /// `cpu`, `mem`, `gres/gpu`, `license/NAME`.
    pub name: String,
    /// `count` or `MiB`.
    pub unit: String,
    /// Configured on all nodes together.
    pub total: f64,
    /// In use.
    pub used: f64,
    /// Pending jobs attributed to a shortage of it.
    pub pending: u64,
    /// Weight from the configuration.
    pub weight_initial: f64,
    /// Weight from the pending chart.
    pub weight_pending: f64,
    /// Weight from the usage chart.
    pub weight_usage: f64,
    /// Weight in force.
    pub weight: f64,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Slurm's node name.
    pub name: String,
    /// State in Slurm's words.
    pub state: String,
    /// Partitions it is in.
    pub partitions: Vec<String>,
    /// Configured, by dimension.
    pub total: Vec<f64>,
    /// In use, by dimension.
    pub used: Vec<f64>,
    /// Weighted dispersion y with the weights in force.
    pub dispersion: f64,
    /// Jobs on it.
    pub jobs: u32,
}

/// `GET /v1/explain/{job}`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Explain {
    /// Slurm's job id.
    pub job_id: u32,
    /// As users write it: `123`, `120_7`, `130+1`.
    pub label: String,
    /// State in Slurm's words, `UNKNOWN` when only the history knows it.
    pub state: String,
    /// User id, if known.
    pub user_id: Option<u32>,
    /// Partition or partitions asked for.
    pub partition: String,
    /// Mode that applies there.
    pub mode: String,
    /// What it asks for, in words per resource: `cpu` -> `8 per node`.
    pub request: BTreeMap<String, String>,
    /// Set once the job started.
    pub placed: Option<Placed>,
    /// Set while it waits.
    pub pending: Option<PendingReport>,
    /// Its input, if it declares one, and how much of it is read where it lies.
    pub input: Option<DataNote>,
    /// Its place in the order of starts, while it waits.
    #[serde(default)]
    pub order: Option<JobOrder>,
    /// The latest asks for this job, newest first.
    pub asks: Vec<AskReport>,
    /// How long it is expected to run, if its user's jobs have told; set while
    /// Slurm knows the job and it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedReport>,
}

/// A learned runtime. The user's limit stays when the job is killed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpectedReport {
    /// Mean of what is expected, seconds; at most the limit.
    pub runtime_s: f64,
    /// Runs of the user behind it; old ones count less.
    pub runs: f64,
    /// The user's limit, seconds, if there is one.
    pub limit_s: Option<u64>,
    /// When a running job is expected to end, unix milliseconds; one that runs
    /// longer than expected is expected to reach its limit.
    pub end_ms: Option<u64>,
    /// What it decides, in words; empty: it is only shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_for: Vec<String>,
}

/// Where a job was placed and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// Nodes it runs on, as a hostlist.
    pub nodes: String,
    /// Whether these are the nodes Phalanx decided.
    pub by_phalanx: bool,
    /// If not: why, as in `phalanx status`.
    pub reason: Option<String>,
    /// Unix time of the start.
    pub start_ms: u64,
    /// The decision behind it, if there was one.
    pub decision: Option<DecisionReport>,
}

/// One decision with its scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DecisionReport {
    /// Id in the history.
    pub id: u64,
    /// When.
    pub time_ms: u64,
    /// `balance`, ...
    pub method: String,
    /// `seed` or `best`.
    pub method_mode: String,
    /// Configuration generation it was made under.
    pub generation: u64,
    /// Decided nodes, as a hostlist.
    pub nodes: String,
    /// Candidates that Slurm offered.
    pub candidates: u64,
    /// The steer that narrowed the candidates, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<SteerReport>,
    /// `low`, `high`, or `best` for the improved mode.
    pub branch: String,
    /// Cluster utilisation just before.
    pub utilization: f64,
    /// Names of the dimensions of the vectors below.
    pub dimensions: Vec<String>,
    /// Weights just before.
    pub weights: Vec<f64>,
    /// One entry per chosen node (first 64).
    pub chosen: Vec<ScoredNode>,
    /// Best node that was not chosen.
    pub runner_up: Option<ScoredNode>,
    /// Score of the runner-up minus the worst chosen score; below zero where
    /// poll order or a choice of like nodes counted for more than the score.
    pub margin: Option<f64>,
}

/// A node with the terms of its score.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoredNode {
    /// Slurm's node name.
    pub node: String,
    /// Dispersion before.
    pub dispersion_before: f64,
    /// Dispersion after.
    pub dispersion_after: f64,
    /// What was minimised; the dispersion itself in mode seed.
    pub score: f64,
    /// Terms that add up to the score in mode best.
    pub terms: BTreeMap<String, f64>,
}

/// Why a job waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PendingReport {
    /// Slurm's own reason word.
    pub slurm_reason: String,
    /// Place in the queue by Slurm's priority, from 1.
    pub queue_position: Option<u64>,
    /// Nodes of the cluster.
    pub nodes_total: u64,
    /// Each filter in order with the nodes that it removed.
    pub filters: Vec<FilterReport>,
    /// Nodes left after all filters.
    pub eligible: u64,
    /// Of these, with room now.
    pub fits_now: u64,
    /// Nodes needed at once.
    pub nodes_needed: u64,
    /// What the eligible nodes lack, most frequent first.
    pub blockers: Vec<BlockerReport>,
    /// One sentence in words.
    pub summary: String,
    /// What a method wishes for it, by the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<SteerReport>,
    /// When enough of its nodes are expected to be free, unix milliseconds, by
    /// learned runtimes alone; absent where not enough is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_ms: Option<u64>,
}

/// One filter of `PendingReport`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FilterReport {
    /// `partition`, `state`, `features`, `exclude`, `reservation`, `size`...
    pub filter: String,
    /// Nodes removed by it.
    pub removed: u64,
    /// What the job asked of it.
    pub asked: String,
}

/// A dimension that eligible nodes lack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockerReport {
    /// Name of the dimension.
    pub dimension: String,
    /// Eligible nodes that lack it now.
    pub nodes_lacking: u64,
    /// Smallest amount missing on any of them.
    pub least_missing: f64,
}

/// One ask as recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AskReport {
    /// When.
    pub time_ms: u64,
    /// `run_now` or `will_run`.
    pub mode: String,
    /// `narrow` or `no-opinion`.
    pub verdict: String,
    /// Reason where there was no opinion or the set was not kept.
    pub reason: Option<String>,
    /// Answered nodes.
    pub nodes: String,
    /// What became of the job's steer, if a method had one for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<SteerReport>,
}

/// A method's wish for a job, and what became of it at one question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SteerReport {
    /// `gang`, `bag`, ...
    pub method: String,
    /// When it was planned.
    pub made_ms: u64,
    /// The set of nodes that decided; absent when none had room.
    pub tier: Option<String>,
    /// Why the first set did not decide.
    pub unused: Option<String>,
    /// Data behind it.
    #[serde(default)]
    pub note: Note,
}

/// `GET /v1/shadow`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowReport {
    /// Start of the period.
    pub since_ms: u64,
    /// Starts for which there was a shadow decision.
    pub starts: u64,
    /// Of these, on the same nodes.
    pub agreed: u64,
    /// Same / starts, 0..1; absent when there were no starts.
    pub agreement: Option<f64>,
    /// Mean dispersion that Slurm's choice gave on its nodes.
    pub dispersion_slurm: Option<f64>,
    /// Mean dispersion that ours would have given.
    pub dispersion_phalanx: Option<f64>,
    /// The latest differing starts, newest first.
    pub differing: Vec<ShadowDiff>,
}

/// One start where Slurm chose other nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowDiff {
    /// Job id.
    pub job_id: u32,
    /// When.
    pub time_ms: u64,
    /// Slurm's nodes.
    pub slurm: String,
    /// Ours.
    pub phalanx: String,
}

/// `GET /v1/plan`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// Snapshot epoch it was made from.
    pub epoch: u64,
    /// When.
    pub time_ms: u64,
    /// Time it took.
    pub took_ms: u64,
    /// Jobs in the order in which they are expected to start.
    pub jobs: Vec<PlannedJob>,
    /// Pending jobs beyond the planned window.
    pub not_planned: u64,
    /// The methods behind it, with objective and certified gap.
    #[serde(default)]
    pub methods: Vec<MethodReport>,
}

/// One job of the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedJob {
    /// Job id.
    pub job_id: u32,
    /// Method that placed it.
    pub method: String,
    /// Nodes if it could start now, else empty.
    pub nodes: String,
    /// Why it cannot start now.
    pub reason: Option<String>,
    /// Rank in the wished order of starts, from 0.
    #[serde(default)]
    pub rank: Option<u32>,
    /// What is added to its site factor for that.
    #[serde(default)]
    pub delta: i32,
    /// What a method wishes for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<SteerReport>,
}

/// `POST /v1/reload`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Whether the new configuration is in force.
    pub ok: bool,
    /// Generation in force afterwards.
    pub generation: u64,
    /// Keys that changed.
    pub changed: Vec<String>,
    /// Of these, the ones that need a restart.
    pub needs_restart: Vec<String>,
    /// Why it was refused: file, line, column, key, expectation.
    pub error: Option<String>,
}

/// Body of every error status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What was wrong and what was expected.
    pub error: String,
}

/// `GET /v1/history/runs?since=&limit=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunsReport {
    /// Runs that ended since then, unix milliseconds.
    pub since_ms: u64,
    /// Newest first.
    pub runs: Vec<Run>,
}

/// `POST /v1/history/import`, with a list of runs as its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Runs not known before.
    pub new: u64,
    /// Known ones whose energy or work is known now.
    pub filled: u64,
    /// Known ones to which nothing was added.
    pub known: u64,
}

/// `GET /v1/history/speeds?class=&node=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpeedsReport {
    /// When it was made, unix milliseconds.
    pub time_ms: u64,
    /// Scheduling round t: one more than the runs learned.
    pub round: u64,
    /// Accuracy delta(t) of that round.
    pub delta: f64,
    /// Exploration bonus g(t) for one task, scaled as shipped.
    pub g: f64,
    /// (job class, node) pairs known.
    pub pairs: u64,
    /// Job classes dropped for room.
    pub evicted: u64,
    /// Events that found the learner's channel full.
    pub dropped: u64,
    /// Job classes by name.
    pub classes: Vec<ClassSpeeds>,
}

/// `GET /v1/history/energy`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyReport {
    /// When it was made, unix milliseconds.
    pub time_ms: u64,
    /// Money per kWh now.
    pub energy_price_kwh: f64,
    /// Money per task.
    pub task_price: f64,
    /// What a task without any price earns, in least energy costs.
    pub margin: f64,
    /// Classes of nodes.
    pub nodes: Vec<NodePower>,
    /// Job classes on classes of nodes.
    pub rows: Vec<EnergyRow>,
}

/// Power of one class of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePower {
    /// Its name.
    pub class: String,
    /// Nodes of it.
    pub nodes: u64,
    /// Watts of a fully used node, if known.
    pub busy_w: Option<f64>,
    /// Watts of an idle node.
    pub idle_w: f64,
    /// Where `busy_w` comes from.
    pub from: Option<WattsFrom>,
}

/// Time and power of one job class on one class of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyRow {
    /// Job class.
    pub job_class: String,
    /// Class of nodes.
    pub nodes: String,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Runs behind it, old ones faded.
    pub runs: f64,
    /// Watts of a run by Slurm's accounting, if any was measured; else the
    /// class's `busy_w` counts by the run's share of a node.
    pub watts: Option<f64>,
    /// Runs behind that.
    pub measured: f64,
    /// Where the power of these runs comes from; `None`: it is not known.
    #[serde(default)]
    pub from: Option<WattsFrom>,
}

/// What is known of one job class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassSpeeds {
    /// Its name.
    pub class: String,
    /// `work/s` where its jobs report work units, else `runs/s`.
    pub unit: String,
    /// Runs that taught.
    pub runs: u64,
    /// End of the newest, unix seconds.
    pub newest_s: i64,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Their standard deviation.
    pub deviation_s: f64,
    /// By node class.
    pub node_classes: Vec<SpeedRow>,
    /// By node.
    pub nodes: Vec<SpeedRow>,
}

/// Speed of one job class on one node or node class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpeedRow {
    /// Node or node class.
    pub name: String,
    /// Runs that taught.
    pub runs: u64,
    /// Their weight now: old ones fade.
    pub count: f64,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Mean speed in the class's unit.
    pub mean: f64,
    /// What planners believe: part of the fastest node class's speed, shrunk towards the class.
    pub speed: f64,
    /// Weight behind that.
    pub believed_count: f64,
    /// Exploration bonus of one task, the root of the variance proxy.
    pub bonus: f64,
    /// `speed` plus `bonus`: what one task adds to the index, costs aside.
    pub index: f64,
}
