// SPDX-License-Identifier: GPL-3.0-or-later
//! Reasons why no nodes are named for a job, from the choice of nodes to the answer.

use phalanx_core::shape::LeftToSlurm;

/// Reason why no nodes are named for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The mode of the partition is off.
    Off,
    /// The mirror of Slurm's state is not complete.
    NotSynced,
    /// The candidates are not of the node table in force.
    OtherTable,
    /// The request has an option that is left to Slurm.
    Left(LeftToSlurm),
    /// Slurm refused too many answers to requests with an option.
    Refused(&'static str),
    /// Stock's steps are not known for requests with an option.
    Unknown(&'static str),
    /// Too few candidates have enough free at present.
    NoFit,
    /// Too few candidates have enough free at present, but Slurm may preempt jobs on them.
    MayPreempt,
    /// The job needs all candidates: Slurm would come to the same nodes.
    NoChoice,
    /// The job waits, though nodes may be free.
    Wait(Wait),
}

/// Reason why a job waits, though nodes may be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The job improves no node, or its preferred nodes are busy.
    Gain,
    /// The first plan for the job, its array or its input is not made yet.
    FirstPlan,
}

impl Why {
    /// Returns the reason in words, for the plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "switched off",
            Self::NotSynced => "mirror not complete",
            Self::OtherTable => "nodes changed",
            Self::Left(_) | Self::Refused(_) | Self::Unknown(_) => "left to Slurm",
            Self::NoFit => "no room now",
            Self::MayPreempt => "no room without preemption",
            Self::NoChoice => "needs all candidates",
            Self::Wait(wait) => wait.word(),
        }
    }

    /// Returns the option or circumstance behind the reason, for the answer to Slurm.
    pub fn detail(self) -> Option<&'static str> {
        match self {
            Self::Left(option) => Some(option.option()),
            Self::Refused(option) | Self::Unknown(option) => Some(option),
            Self::MayPreempt => Some("Slurm may preempt"),
            Self::Wait(_) => Some(WOULD_WAIT),
            Self::Off | Self::NotSynced | Self::OtherTable | Self::NoFit | Self::NoChoice => None,
        }
    }
}

/// Detail of an answer that leaves to Slurm a job which would wait.
pub const WOULD_WAIT: &str = "would wait";

impl Wait {
    /// Returns the reason in words, for the plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gain => "waits for a node that it improves",
            Self::FirstPlan => "waits for its first plan",
        }
    }

    /// Returns the detail of a reason, for an answer that holds the job back.
    pub fn detail(self) -> Option<&'static str> {
        match self {
            Self::Gain => None,
            Self::FirstPlan => Some(self.word()),
        }
    }
}
