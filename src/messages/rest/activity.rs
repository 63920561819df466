// SPDX-License-Identifier: GPL-3.0-or-later
//! What happened since a time, summed up: for `phalanx report` and the page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the history knows of a period. What it does not know is absent, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Begin of the period asked for, unix milliseconds.
    pub since_ms: u64,
    /// Its end.
    pub until_ms: u64,
    /// The oldest record of it; absent where nothing is recorded.
    pub first_ms: Option<u64>,
    /// Starts by the mode in force for them: `shadow`, `enforce`.
    pub starts: BTreeMap<String, u64>,
    /// Answers to questions about jobs that could start now.
    pub answers: AnswerSums,
    /// Runs that ended, by the method that chose their nodes; `stock` where Slurm did.
    pub runs: BTreeMap<String, RunSums>,
    /// Leaf switches or blocks of jobs of several nodes on decided nodes.
    pub leaves: Option<LeafSums>,
    /// Input read where it lies, of data jobs on planned nodes.
    pub locality: Option<LocalSums>,
    /// Day by day in UTC, the first the oldest.
    pub days: Vec<Day>,
    /// Queue and use over time, in equal steps; steps without a sample are left out.
    pub points: Vec<Point>,
    /// Mean over time of what of each resource is in use or stranded, shares from 0 to 1.
    pub use_of: BTreeMap<String, Share>,
}

/// Questions of placement calls that may start a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerSums {
    /// Questions.
    pub asked: u64,
    /// Answered with nodes.
    pub with_nodes: u64,
    /// Of these, placed by Slurm on exactly these nodes.
    pub placed: u64,
    /// Mean time of an answer, microseconds.
    pub mean_us: Option<f64>,
}

/// Runs that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSums {
    /// Their number.
    pub runs: u64,
    /// CPU hours of those whose CPUs are known.
    pub cpu_hours: Option<f64>,
    /// Runs whose submission is known; the waits are theirs.
    pub waits: u64,
    /// Mean wait, seconds.
    pub wait_mean_s: Option<f64>,
    /// Median.
    pub wait_p50_s: Option<i64>,
    /// 95th percentile.
    pub wait_p95_s: Option<i64>,
    /// Longest.
    pub wait_max_s: Option<i64>,
    /// Runs whose energy is known.
    pub measured: u64,
    /// Their energy, joules.
    pub joules: Option<f64>,
}

/// Leaf switches or blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeafSums {
    /// Starts of several nodes.
    pub starts: u64,
    /// Their leaves, mean.
    pub mean: f64,
    /// The fewest that their candidates allowed, mean.
    pub fewest_mean: f64,
    /// Starts on the fewest.
    pub on_fewest: u64,
}

/// Input that is read where it lies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalSums {
    /// Starts of data jobs.
    pub starts: u64,
    /// Mean planned share of local bytes, 0 to 1.
    pub share: f64,
}

/// One day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Day {
    /// Its begin, unix milliseconds.
    pub time_ms: u64,
    /// Runs that ended.
    pub runs: u64,
    /// Mean wait, seconds.
    pub wait_mean_s: Option<f64>,
}

/// Means over one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its begin, unix milliseconds.
    pub time_ms: u64,
    /// Jobs pending.
    pub pending: f64,
    /// Jobs running.
    pub running: f64,
    /// By dimension.
    pub use_of: BTreeMap<String, Share>,
}

/// Shares of a resource, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// In use.
    pub used: f64,
    /// Free, but on nodes whose CPUs or memory are used up.
    pub stranded: f64,
}
