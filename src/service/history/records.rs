// SPDX-License-Identifier: GPL-3.0-or-later
//! The records of the history, plain data that the daemon makes.

use std::collections::BTreeMap;

use phalanx_core::run::Run;

/// The job that a record is about, and where it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobRef {
    pub job_id: u32,
    pub array_job_id: Option<u32>,
    pub array_task_id: Option<u32>,
    pub het_job_id: Option<u32>,
    pub user_id: u32,
    /// Partition of the call.
    pub partition: String,
}

/// One ask and its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionRecord {
    /// Id of the decision, as sent to the plugin. Ids should not repeat over restarts (begin at the
    /// start time); where one does, the newest counts.
    pub decision: u64,
    /// Unix milliseconds.
    pub time_ms: u64,
    pub job: JobRef,
    /// Kind of call: `run_now` or `will_run`.
    pub ask: String,
    /// Mode in force for the partition: `shadow` or `enforce`.
    pub mode: String,
    /// Verdict: `narrow` or `no-opinion`.
    pub verdict: String,
    /// Reason for which there was no opinion.
    pub reason: Option<String>,
    /// Decided nodes as a hostlist, canonical, also where shadow mode did not send them; empty
    /// without an opinion.
    pub nodes: String,
    pub node_count: u32,
    /// Generation of the configuration in force.
    pub generation: u64,
    /// Score terms, runner-up and margin as JSON; left out if longer than
    /// [`EXPLAIN_BYTES_MAX`](phalanx_core::limits::EXPLAIN_BYTES_MAX).
    pub explain: Option<String>,
    /// Time from the ask to its answer, microseconds.
    pub latency_us: u64,
}

/// The outcome of an answer, as the plugin reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutcomeRecord {
    pub decision: u64,
    /// Arrival of the outcome, unix milliseconds.
    pub time_ms: u64,
    pub job_id: u32,
    /// Reason for which the job did not get the answered nodes; `None`: it got them.
    pub reason: Option<String>,
    /// Return code of slurmctld's call, 0 for success.
    pub rc: i32,
    /// Nodes of the result.
    pub node_count: u32,
    /// The plugin's own time for the ask, nanoseconds.
    pub ask_ns: u64,
}

/// The begin of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementRecord {
    /// Unix milliseconds.
    pub time_ms: u64,
    pub job: JobRef,
    /// Mode in force for the job's partition: `off`, `shadow` or `enforce`.
    pub mode: String,
    /// Nodes of the job as a hostlist, in the canonical form of [`DecisionRecord::nodes`].
    pub nodes: String,
    /// Number of the job's nodes.
    pub node_count: u32,
    /// Decision behind the start where that is known; without it, queries take the job's last
    /// `run_now` decision before the start.
    pub decision: Option<u64>,
    /// JSON: by how much other decided nodes would have been better, by measure.
    pub compared: Option<String>,
    /// Addition to the job's site factor with which it started; `None`: there was none.
    pub delta: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobEndRecord {
    /// Unix milliseconds.
    pub time_ms: u64,
    pub job_id: u32,
    /// State of the job as Slurm writes it, such as `COMPLETED`.
    pub state: String,
}

/// The queue, and what of the cluster is in use, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleRecord {
    /// Unix milliseconds.
    pub time_ms: u64,
    pub pending: u64,
    pub running: u64,
    /// Amounts by dimension: configured, in use, and free beside CPUs or memory that are used up.
    pub resources: BTreeMap<String, [f64; 3]>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// An ask and its answer.
    Decision(DecisionRecord),
    /// The outcome of an answer, as the plugin reports it.
    Outcome(OutcomeRecord),
    /// A job began.
    Placement(PlacementRecord),
    JobEnd(JobEndRecord),
    /// A run that ended; one that is in the file already stays.
    Run(Box<Run>),
    /// The queue and the nodes' use at one moment.
    Sample(SampleRecord),
}
