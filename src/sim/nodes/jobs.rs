// SPDX-License-Identifier: GPL-3.0-or-later
//! A cluster and the jobs that it is to run.

use std::collections::BTreeMap;

use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_core::trace::{LeftOut, Reasons};
use phalanx_methods::learn::runtime::JobClass;
use phalanx_planner::cluster::RunningJob;

/// A job, and its course once it runs.
#[derive(Debug, Clone, Default)]
pub struct NodeJob {
    /// The job as the planner sees it while the job waits.
    pub job: Job,
    /// Seconds that the job runs from its start (or, if it runs already, from the beginning of the
    /// simulation); at least 1, at most the limit.
    pub run_s: u64,
    /// Time limit, seconds from the job's start.
    pub limit_s: u64,
    /// Class by which runtimes are predicted.
    pub class: JobClass,
    /// Seconds that the job is expected to run, where that is known; else the simulation learns.
    pub expected_s: Option<f64>,
    /// Resources that the job holds at the beginning, if it runs already.
    pub held: Option<RunningJob>,
    /// Whether the job still ran at the end of the period, so that `run_s` is not all of it.
    pub unfinished: bool,
    /// Whether the job is not of the input but a likely arrival.
    pub sampled: bool,
    /// Start and nodes by the accounting.
    pub ran: Option<Ran>,
    /// Number of the job's input, if it has one.
    pub input: Option<u64>,
}

/// Start and nodes that a job really had.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// Start, Unix seconds.
    pub start_s: i64,
    /// Indexes of the job's nodes; empty where they are not known.
    pub nodes: Vec<u32>,
}

/// A cluster and its jobs by submission.
#[derive(Debug, Clone, Default)]
pub struct NodeLoad {
    /// Nodes, partitions, reservations, licences; no jobs.
    pub cluster: Snapshot,
    /// Jobs by submission; jobs of one second in the input's order.
    pub jobs: Vec<NodeJob>,
    /// Jobs of the input that can never run, and lines that cannot be read.
    pub skipped: u64,
    /// Jobs of an accounting that are left out, by reason.
    pub reasons: Reasons,
    /// Lines of the input that cannot be read.
    pub left_out: LeftOut,
    /// Number of jobs by the part of their request that is not modelled.
    pub unmodelled: BTreeMap<String, u64>,
    /// Whether memory is a resource.
    pub memory_tracked: bool,
    /// Watts of each node: idle, and with all CPUs in use; empty: not known.
    pub watts: Vec<[f64; 2]>,
    /// Speed of each node, relative to the log's nodes; empty: all are alike.
    pub speeds: Vec<f64>,
    /// Inputs of the jobs, if they have any.
    pub inputs: Option<Inputs>,
    /// Seconds that a node stays idle between two jobs.
    pub turnaround_s: u64,
    /// Beginning, Unix seconds.
    pub begin_s: i64,
    /// End of the period that the input covers, Unix seconds, after which use does not count.
    /// `None`: until the last job has ended.
    pub until_s: Option<i64>,
    /// Leaf switches or blocks of the nodes, where they count.
    pub topology: Option<Topology>,
}

/// Inputs of the jobs of a load.
#[derive(Debug, Clone, Copy)]
pub struct Inputs {
    /// Blocks of each input.
    pub blocks: usize,
    /// Seed by which the nodes of inputs are drawn.
    pub seed: u64,
    /// MB/s from another node.
    pub transfer_mb_per_s: f64,
}
