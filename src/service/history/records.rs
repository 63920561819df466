// SPDX-License-Identifier: GPL-3.0-or-later
//! The records of the history, plain data that the daemon makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::run::Run;
use phalanx_messages::rest::{AskReport, DecisionReport};

/// The job that a record is about, and the partition in which it was asked for.
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
    pub job: JobRef,
    /// The ask and its answer; where they were read, without what has no column.
    pub ask: AskReport,
    /// Mode in force for the partition: `shadow` or `enforce`.
    pub mode: String,
    pub node_count: u32,
    /// Generation of the configuration in force.
    pub generation: u64,
    /// The scores, where nodes were decided; JSON in the file.
    pub explain: Option<Arc<DecisionReport>>,
    /// Time from the ask to its answer, microseconds.
    pub latency_us: u64,
}

/// The outcome of an answer, as the plugin reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutcomeRecord {
    pub decision: u64,
    pub job_id: u32,
    /// Arrival of the outcome, unix milliseconds.
    pub outcome_ms: u64,
    /// Reason for which the job did not get the answered nodes; `None`: it got them.
    pub outcome_reason: Option<String>,
    /// Return code of slurmctld's call, 0 for success.
    pub outcome_rc: i32,
    /// Number of nodes of the result.
    pub outcome_nodes: u32,
    /// The plugin's own time for the ask, nanoseconds.
    pub ask_ns: u64,
}

/// A decision, and the outcome that the plugin reported, if it reported one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionRow {
    pub decision: DecisionRecord,
    pub outcome: Option<OutcomeRecord>,
}

impl DecisionRow {
    /// Returns the reason for which the job did not get the answered nodes.
    pub fn reason(&self) -> Option<String> {
        let outcome = self.outcome.as_ref().and_then(|outcome| outcome.outcome_reason.clone());
        outcome.or_else(|| self.decision.ask.reason.clone())
    }

    /// Whether the decision put a job on `nodes`. Nobody refused it then, even where its report is
    /// lost.
    pub fn put_on(&self, nodes: &str) -> bool {
        let DecisionRecord { mode, ask, .. } = &self.decision;
        mode == "enforce" && self.reason().is_none() && ask.nodes == nodes
    }

    /// Returns the ask and its outcome.
    pub fn report(&self) -> AskReport {
        let ask = self.decision.ask.clone();
        let of_scores = || self.decision.explain.as_ref()?.preference.clone();
        let preference = ask.preference.or_else(of_scores);
        AskReport { reason: self.reason(), preference, ..ask }
    }
}

/// The begin of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementRecord {
    /// Unix milliseconds.
    pub time_ms: u64,
    pub job: JobRef,
    /// Mode in force for the job's partition: `off`, `shadow` or `enforce`.
    pub mode: String,
    /// Nodes of the job as a hostlist, in the canonical form of [`AskReport::nodes`].
    pub nodes: String,
    /// Number of the job's nodes.
    pub node_count: u32,
    /// Decision behind the start, if it is known; else queries take the job's last `run_now`
    /// decision before the start.
    pub decision: Option<u64>,
    /// Gain that other decided nodes would have had, by measure, as JSON.
    pub compared: Option<String>,
    /// Addition to the job's site factor with which the job started; `None`: there was none.
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

/// The queue and the use of the cluster at one moment.
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
    /// A run that ended; a run that is in the file already stays.
    Run(Box<Run>),
    /// The queue and the nodes' use at one moment.
    Sample(SampleRecord),
}
