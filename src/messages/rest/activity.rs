// SPDX-License-Identifier: GPL-3.0-or-later
//! A summary of a period: for `phalanx report` and the page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Summary of a period by the history. Unknown figures are absent, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Activity {
    /// Begin of the period asked for, unix milliseconds.
    pub since_ms: u64,
    /// End of the period, unix milliseconds.
    pub until_ms: u64,
    /// Time of the period's oldest record, unix milliseconds; absent where nothing is recorded.
    pub first_ms: Option<u64>,
    /// Number of starts by the mode in force for the job: `shadow`, `enforce`.
    pub starts: BTreeMap<String, u64>,
    /// Answers to questions about jobs that could start now.
    pub answers: AnswerSums,
    /// Runs that ended, by the method that chose their nodes; `stock` where Slurm chose.
    pub runs: BTreeMap<String, RunSums>,
    /// Leaf switches or blocks of jobs of several nodes on decided nodes.
    pub leaves: Option<LeafSums>,
    /// Local input of data jobs on planned nodes.
    pub locality: Option<LocalSums>,
    /// Sums day by day in UTC, oldest first.
    pub days: Vec<Day>,
    /// Queue and use over time, in equal steps; steps without a sample are left out.
    pub points: Vec<Point>,
    /// Mean shares of each resource in use or stranded, from 0 to 1.
    pub use_of: BTreeMap<String, Share>,
}

/// Questions of placement calls that may start a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerSums {
    /// Questions.
    pub asked: u64,
    /// Questions answered with nodes.
    pub with_nodes: u64,
    /// Answers with nodes where Slurm placed the job on exactly these.
    pub placed: u64,
    /// Mean time of an answer, microseconds.
    pub mean_us: Option<f64>,
}

/// Runs that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSums {
    /// Number of runs.
    pub runs: u64,
    /// CPU hours of the runs whose CPUs are known.
    pub cpu_hours: Option<f64>,
    /// Runs whose submission is known, for the figures on waits.
    pub waits: u64,
    /// Runs recorded without their eligibility, whose wait counts from their submission.
    #[serde(default)]
    pub waits_from_submit: u64,
    /// Mean wait, seconds.
    pub wait_mean_s: Option<f64>,
    /// Median wait, seconds.
    pub wait_p50_s: Option<i64>,
    /// 95th percentile of the wait, seconds.
    pub wait_p95_s: Option<i64>,
    /// Longest wait, seconds.
    pub wait_max_s: Option<i64>,
    /// Runs whose energy is known.
    pub measured: u64,
    /// Energy of the measured runs, joules.
    pub joules: Option<f64>,
}

/// Leaf switches or blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeafSums {
    /// Starts of several nodes.
    pub starts: u64,
    /// Mean number of leaves of a start.
    pub mean: f64,
    /// Mean of the fewest leaves that the candidates allowed.
    pub fewest_mean: f64,
    /// Starts on the fewest leaves that the candidates allowed.
    pub on_fewest: u64,
}

/// Input that is read on nodes that hold it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocalSums {
    /// Starts of data jobs.
    pub starts: u64,
    /// Mean planned share of local bytes, 0 to 1.
    pub share: f64,
}

/// One day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Day {
    /// Begin of the day, unix milliseconds.
    pub time_ms: u64,
    /// Runs that ended.
    pub runs: u64,
    /// Mean wait, seconds.
    pub wait_mean_s: Option<f64>,
}

/// Means over one step of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Begin of the step, unix milliseconds.
    pub time_ms: u64,
    /// Jobs pending.
    pub pending: f64,
    /// Jobs running.
    pub running: f64,
    /// Shares in use or stranded, by dimension.
    pub use_of: BTreeMap<String, Share>,
}

/// Shares of a resource, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// Share in use.
    pub used: f64,
    /// Share that is free, but on nodes whose CPUs or memory are used up.
    pub stranded: f64,
}
