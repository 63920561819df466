// SPDX-License-Identifier: GPL-3.0-or-later
//! A decision: one question with its answer and the reasons.

use std::sync::Arc;

use phalanx_ffi::wire::{self, AnswerHead, Reason};

use phalanx_config::Mode;
use phalanx_core::NodeIdx;
use phalanx_planner::cluster::Table;
use phalanx_planner::place::{Placement, Placer, Wait, Why};
use phalanx_planner::preference::{PreferenceUse, Question};

/// A question with its answer and the reasons for it: the source of all that is recorded, kept,
/// stored or shown.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Id of the decision, which the plugin's report on the answer names.
    pub id: u64,
    /// The question.
    pub question: Question<'static>,
    /// The answer and its reason.
    pub answer: Answer,
    /// Node preference for the job, if there is one, and whether it decided.
    pub preference_use: Option<PreferenceUse>,
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

/// An answer and its reason.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Slurm is to take the nodes.
    Take(Placement),
    /// Slurm is to decide, as the partition is in shadow mode; holds the answer that enforce mode
    /// would give.
    Shadow(Result<Placement, Wait>),
    /// Slurm is to decide. A job that would wait counts as one without room.
    Leave(Why),
    /// Slurm is to hold the job back.
    Hold(Wait),
}

impl Answer {
    /// Returns the decided placement, also in shadow mode.
    pub fn placement(&self) -> Option<&Placement> {
        match self {
            Self::Take(placement) | Self::Shadow(Ok(placement)) => Some(placement),
            Self::Shadow(Err(_)) | Self::Leave(_) | Self::Hold(_) => None,
        }
    }

    /// Adds to the decided placement what only people read; see [`Placer::explain`].
    pub fn explain(&mut self, placer: Option<&mut Placer>) {
        if let (Self::Take(placement) | Self::Shadow(Ok(placement)), Some(placer)) = (self, placer)
        {
            placer.explain(placement);
        }
    }

    /// Returns the reason why the plugin gets no nodes; `None`: it gets nodes.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Take(_) => None,
            Self::Shadow(_) => Some(Reason::Shadow),
            Self::Leave(why) => Some(reason_of(*why)),
            Self::Hold(_) => Some(Reason::Held),
        }
    }

    /// Returns the detail of the reason, such as the name of an option.
    pub fn detail(&self) -> Option<&'static str> {
        match self {
            Self::Take(_) | Self::Shadow(Ok(_)) => None,
            Self::Shadow(Err(wait)) => Why::Wait(*wait).detail(),
            Self::Leave(why) => why.detail(),
            Self::Hold(wait) => wait.detail(),
        }
    }

    /// Returns the reason with its detail in words; `None`: Slurm is to take the nodes.
    pub fn text(&self) -> Option<String> {
        let reason = self.reason()?;
        Some(match self.detail() {
            Some(detail) => format!("{reason} ({detail})"),
            None => reason.to_string(),
        })
    }

    /// Returns the nodes that Slurm is to take; none if Slurm is to decide.
    pub fn nodes(&self) -> &[NodeIdx] {
        match self {
            Self::Take(placement) => &placement.nodes,
            Self::Shadow(_) | Self::Leave(_) | Self::Hold(_) => &[],
        }
    }

    /// Returns the head of the answer to the plugin.
    pub fn head(
        &self,
        job_id: u32,
        id: u64,
        generation: u64,
        preference_use: Option<&PreferenceUse>,
    ) -> AnswerHead {
        let Some(reason) = self.reason() else {
            return wire::Answer::narrow_head(job_id, id, generation)
                .with_all_nodes(preference_use.is_some_and(PreferenceUse::all_nodes));
        };
        wire::Answer::no_opinion_head(job_id, reason, id, generation)
    }
}

/// Returns the protocol's word for a reason to leave a job to Slurm.
fn reason_of(why: Why) -> Reason {
    match why {
        Why::Off => Reason::Off,
        Why::NotSynced | Why::OtherTable => Reason::NotSynced,
        Why::Left(_) | Why::Refused(_) | Why::Unknown(_) => Reason::Unsupported,
        Why::NoFit | Why::MayPreempt | Why::Wait(_) => Reason::NoFit,
        Why::NoChoice => Reason::NoChoice,
    }
}
