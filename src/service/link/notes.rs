// SPDX-License-Identifier: GPL-3.0-or-later
//! What is worth recording of the link.

use std::sync::Arc;

use phalanx_ffi::wire::{Cause, Reason};

use crate::link::settings::Mode;
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::Placement;
use phalanx_planner::steer::Steered;

/// Something worth recording.
#[derive(Debug, Clone)]
pub enum Note {
    /// A question and its answer.
    Asked(Arc<AskNote>),
    /// What the plugin made of an answer.
    Outcome(OutcomeNote),
    /// A job got nodes.
    Began(BeganNote),
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

/// See [`Note::Asked`].
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
    /// In words, where the reason needs some.
    pub detail: Option<&'static str>,
    /// The decision, also in shadow mode.
    pub placement: Option<Placement>,
    /// What became of the job's steer, if it has one.
    pub steered: Option<Steered>,
    /// Names of the decision's dimensions.
    pub dims: Arc<[Arc<str>]>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// From receiving the question to having the answer, nanoseconds.
    pub took_ns: u64,
}

/// See [`Note::Outcome`].
#[derive(Debug, Clone, Copy)]
pub struct OutcomeNote {
    /// Decision id; 0 if the plugin got no answer.
    pub decision: u64,
    /// Job id.
    pub job_id: u32,
    /// RUN_NOW or WILL_RUN.
    pub will_run: bool,
    /// `Reason::None`: placed on the answered set.
    pub reason: Option<Reason>,
    /// What job_test returned.
    pub rc: i32,
    /// Nodes of the result.
    pub count: u32,
    /// The plugin's own time, nanoseconds.
    pub ask_ns: u64,
}

/// See [`Note::Began`].
#[derive(Debug, Clone)]
pub struct BeganNote {
    /// The job; `held` names its nodes.
    pub job: RunningJob,
    /// Why it was told.
    pub cause: Option<Cause>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// Mean dispersion of its nodes after it began, with the weights in force.
    pub dispersion: Option<f64>,
}
