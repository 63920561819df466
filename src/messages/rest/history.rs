// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs of jobs, and the speeds and powers learned from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use phalanx_core::run::Run;
use phalanx_planner::bag::WattsFrom;

use super::ShadowReport;
use super::activity::Activity;

/// `GET /v1/report?since=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityReport {
    /// ClusterName.
    pub cluster: String,
    /// Version of Slurm.
    pub slurm: String,
    /// Version of phalanxd.
    pub version: String,
    /// `off`, `shadow` or `enforce` now.
    pub mode: String,
    /// Partitions with a mode of their own.
    pub partition_modes: BTreeMap<String, String>,
    /// Days after which the history deletes everything except runs.
    pub retention_days: u32,
    /// Summary of the period.
    #[serde(flatten)]
    pub activity: Activity,
    /// Starts in shadow mode, compared with the decisions.
    pub shadow: ShadowReport,
}

/// `GET /v1/decisions?limit=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionsReport {
    /// Decisions, newest first.
    pub decisions: Vec<LatestDecision>,
}

/// One of the latest decisions, and its outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatestDecision {
    /// Time, unix milliseconds.
    pub time_ms: u64,
    /// Job as users write it.
    pub job: String,
    /// Partition.
    pub partition: String,
    /// Kind of call: `run_now` or `will_run`.
    pub ask: String,
    /// Mode in force for the partition.
    pub mode: String,
    /// Decided nodes; empty without an opinion.
    pub nodes: String,
    /// Reason why there was no opinion.
    pub reason: Option<String>,
    /// Reason why Slurm did not take the nodes, where it did not.
    pub outcome: Option<String>,
    /// Whether Slurm's call succeeded; absent while that is unknown.
    pub placed: Option<bool>,
    /// Time of the answer, microseconds.
    pub latency_us: u64,
}

/// `GET /v1/history/runs?since=&limit=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsReport {
    /// Begin of the period in which the runs ended, unix milliseconds.
    pub since_ms: u64,
    /// Runs, newest first.
    pub runs: Vec<Run>,
}

/// `POST /v1/history/import`, with a list of runs as its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportReport {
    /// Runs not known before.
    pub new: u64,
    /// Known runs to which energy or work was added.
    pub filled: u64,
    /// Known runs to which nothing was added.
    pub known: u64,
}

/// `GET /v1/history/speeds?class=&node=`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedsReport {
    /// Time of the report, unix milliseconds.
    pub time_ms: u64,
    /// Scheduling round t: one more than the runs learned.
    pub round: u64,
    /// Accuracy delta(t) of the round.
    pub delta: f64,
    /// Exploration bonus g(t) for one task, scaled as shipped.
    pub g: f64,
    /// Number of known (job class, node) pairs.
    pub pairs: u64,
    /// Job classes dropped for lack of space.
    pub evicted: u64,
    /// Number of events dropped because the learner's channel was full.
    pub dropped: u64,
    /// Job classes by name.
    pub classes: Vec<ClassSpeeds>,
}

/// `GET /v1/history/energy`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnergyReport {
    /// Time of the report, unix milliseconds.
    pub time_ms: u64,
    /// Money per kWh at present.
    pub energy_price_kwh: f64,
    /// Money per task; 0: none is configured.
    pub task_price: f64,
    /// Classes of nodes.
    pub nodes: Vec<NodePower>,
    /// Job classes on classes of nodes.
    pub rows: Vec<EnergyRow>,
}

/// Power of one class of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodePower {
    /// Name of the class.
    pub class: String,
    /// Nodes of the class.
    pub nodes: u64,
    /// Watts of a fully used node, if known.
    pub busy_w: Option<f64>,
    /// Watts of an idle node.
    pub idle_w: f64,
    /// Source of `busy_w`.
    pub from: Option<WattsFrom>,
}

/// Time and power of one job class on one class of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnergyRow {
    /// Job class.
    pub job_class: String,
    /// Class of nodes.
    pub nodes: String,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Runs behind the figures; old ones count less.
    pub runs: f64,
    /// Watts of a run by Slurm's accounting, if any was measured; else the class's `busy_w` counts
    /// by the run's share of a node.
    pub watts: Option<f64>,
    /// Runs behind `watts`.
    pub measured: f64,
    /// Source of the power of the runs; `None` if the power is not known.
    #[serde(default)]
    pub from: Option<WattsFrom>,
}

/// Speeds of one job class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassSpeeds {
    /// Name of the class.
    pub class: String,
    /// Unit of speed: `work/s` where the jobs report work units, else `runs/s`.
    pub unit: String,
    /// Runs that the speeds were learned from.
    pub runs: u64,
    /// End of the newest run, unix seconds.
    pub newest_s: i64,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Standard deviation of the seconds of a run.
    pub deviation_s: f64,
    /// Speeds by node class.
    pub node_classes: Vec<SpeedRow>,
    /// Speeds by node.
    pub nodes: Vec<SpeedRow>,
}

/// Speed of one job class on one node or node class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedRow {
    /// Node or node class.
    pub name: String,
    /// Runs that the speed was learned from.
    pub runs: u64,
    /// Present weight of the runs: old ones count less.
    pub count: f64,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Mean speed in the class's unit.
    pub mean: f64,
    /// Believed speed: part of the fastest node class's speed, shrunk towards the class.
    pub speed: f64,
    /// Weight behind `speed`.
    pub believed_count: f64,
    /// Exploration bonus of one task, the root of the variance proxy.
    pub bonus: f64,
    /// Sum of `speed` and `bonus`: what one task adds to the index, costs aside.
    pub index: f64,
}
