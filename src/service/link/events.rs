// SPDX-License-Identifier: GPL-3.0-or-later
//! Events of the link for the history and `phalanx explain`.

use std::sync::Arc;

use phalanx_ffi::wire::{Cause, Reason};

use crate::link::settings::Mode;
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::Placement;
use phalanx_planner::preference::PreferenceUse;

/// An event for the history.
#[derive(Debug, Clone)]
pub enum LinkEvent {
    /// A question and its answer.
    Asked(Arc<AskNote>),
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
        /// Unix seconds.
        end_s: u64,
    },
}

/// A question and its answer.
#[derive(Debug, Clone)]
pub struct AskNote {
    /// Decision id.
    pub decision: u64,
    /// Job id as the plugin asked.
    pub job_id: u32,
    /// Array job and task, if of one.
    pub array: Option<(u32, u32)>,
    /// User id.
    pub user_id: u32,
    /// Partition.
    pub partition: String,
    /// RUN_NOW or WILL_RUN.
    pub will_run: bool,
    /// Mode of the partition.
    pub mode: Mode,
    /// Configuration generation.
    pub generation: u64,
    /// Reason of no opinion; `None` when nodes were answered.
    pub reason: Option<Reason>,
    /// Detail of the reason, where it has one.
    pub detail: Option<&'static str>,
    /// The decision, also in shadow mode.
    pub placement: Option<Placement>,
    /// Node preference for the job, if there is one, and whether it decided.
    pub preference_use: Option<PreferenceUse>,
    /// Names of the decision's dimensions.
    pub dims: Arc<[Arc<str>]>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// Time from receiving the question to having the answer, nanoseconds.
    pub took_ns: u64,
}

/// The plugin's report on an answer.
#[derive(Debug, Clone, Copy)]
pub struct OutcomeEvent {
    /// Decision id; 0 if the plugin got no answer.
    pub decision: u64,
    /// Job id.
    pub job_id: u32,
    /// RUN_NOW or WILL_RUN.
    pub will_run: bool,
    /// `Reason::None`: placed on the answered set.
    pub reason: Option<Reason>,
    /// Return code of job_test.
    pub rc: i32,
    /// Nodes of the result.
    pub count: u32,
    /// The plugin's own time, nanoseconds.
    pub ask_ns: u64,
}

/// A job that got nodes.
#[derive(Debug, Clone)]
pub struct BeganEvent {
    /// The job; `held` names its nodes.
    pub job: RunningJob,
    /// The plugin's reason for reporting it.
    pub cause: Option<Cause>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// Mean dispersion of its nodes after it began, with the weights in force.
    pub dispersion: Option<f64>,
}
