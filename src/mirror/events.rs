// SPDX-License-Identifier: GPL-3.0-or-later
//! Events of the link for the history and `phalanx explain`.

use std::sync::Arc;

use phalanx_ffi::wire::{Cause, Reason};

use crate::decision::Decision;
use phalanx_planner::cluster::{RunningJob, Table};

/// An event for the history.
#[derive(Debug, Clone)]
pub enum LinkEvent {
    /// A question and its answer.
    Asked(Arc<Decision>),
    /// The plugin's report on an answer.
    Outcome(OutcomeEvent),
    /// A job got nodes.
    Began(BeganEvent),
    /// A job gave its nodes back.
    Ended {
        /// Job id.
        job_id: u32,
        /// Slurm's state number.
        state: u32,
        /// End of the job, unix seconds.
        end_s: u64,
    },
}

/// The plugin's report on an answer.
#[derive(Debug, Clone, Copy)]
pub struct OutcomeEvent {
    /// Decision id; 0 if the plugin got no answer.
    pub decision: u64,
    /// Job id.
    pub job_id: u32,
    /// Whether the call was WILL_RUN rather than RUN_NOW.
    pub will_run: bool,
    /// Reason of the outcome; `Reason::None`: placed on the answered set.
    pub reason: Option<Reason>,
    /// Return code of job_test().
    pub rc: i32,
    /// Number of nodes of the result.
    pub count: u32,
    /// The plugin's own time, nanoseconds.
    pub ask_ns: u64,
    /// Whether Slurm decided among all candidates.
    pub full: bool,
}

/// A job that got nodes.
#[derive(Debug, Clone)]
pub struct BeganEvent {
    /// The job; `held` names its nodes.
    pub job: RunningJob,
    /// The plugin's reason for reporting the job.
    pub cause: Option<Cause>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// Delta on its site factor until it got them; 0: none.
    pub delta: i32,
}
