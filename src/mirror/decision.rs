// SPDX-License-Identifier: GPL-3.0-or-later
//! A decision: one question with its answer and the reasons.

use std::sync::Arc;

use phalanx_ffi::wire::{self, AnswerHead, Reason};

use phalanx_config::Mode;
use phalanx_core::NodeIdx;
use phalanx_planner::cluster::Table;
use phalanx_planner::place::Placement;
use phalanx_planner::preference::{PreferenceUse, Question};

/// A question with its answer and the reasons for it. All that is recorded,
/// remembered, stored or shown of it is made from this.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Its id, which the plugin's report on the answer names.
    pub id: u64,
    /// The question.
    pub question: Question<'static>,
    /// The answer and its reasons.
    pub answer: Answer,
    /// Mode of the partition.
    pub mode: Mode,
    /// Configuration generation.
    pub generation: u64,
    /// Names of the dimensions of the placement's figures.
    pub dims: Arc<[Arc<str>]>,
    /// Node table of the placement's indexes.
    pub table: Arc<Table>,
    /// Time from receiving the question to having the answer, nanoseconds.
    pub took_ns: u64,
}

/// An answer and its reasons.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Reason why Slurm is to decide; `None`: it is to take the placement.
    pub reason: Option<Reason>,
    /// Detail of the reason, where it has one.
    pub detail: Option<&'static str>,
    /// A limit of the administrator's holds the job.
    pub limit: bool,
    /// The placement, also in shadow mode.
    pub placement: Option<Placement>,
    /// Node preference for the job, if there is one, and whether it decided.
    pub preference_use: Option<PreferenceUse>,
}

impl Answer {
    /// Nodes that Slurm is to take; empty if it is to decide.
    pub fn nodes(&self) -> &[NodeIdx] {
        let placement = self.placement.as_ref().filter(|_| self.reason.is_none());
        placement.map_or(&[], |placement| &placement.nodes)
    }

    /// Head of the answer to the plugin.
    pub fn head(&self, job_id: u32, id: u64, generation: u64) -> AnswerHead {
        match self.reason {
            None => wire::Answer::narrow_head(job_id, id, generation)
                .with_all_nodes(self.preference_use.as_ref().is_some_and(PreferenceUse::all_nodes)),
            Some(reason) => {
                wire::Answer::no_opinion_head(job_id, reason, id, generation).with_limit(self.limit)
            }
        }
    }
}
