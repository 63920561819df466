// SPDX-License-Identifier: GPL-3.0-or-later
//! A waiting job as slurmctld sorts it, and where the order of starts puts it.

use super::rank::Rank;
use phalanx_core::number::{nearest_u32, nearest_u64};

/// A pending job that is not held, as slurmctld sorts it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Job id; of an array task the id of its array's record.
    pub job_id: u32,
    /// Lowest priority over the job's partitions, `delta` included.
    pub priority: u32,
    /// Highest priority over the job's partitions.
    pub priority_max: u32,
    /// The part of the priority that the daemon added.
    pub delta: i32,
    /// Amount by which the priority without `delta` would be below 1; Slurm shows 1 instead.
    pub hidden: u32,
    /// Lowest PriorityTier over the job's partitions.
    pub tier: u32,
    /// Highest PriorityTier over the job's partitions.
    pub tier_max: u32,
    /// PriorityJobFactor of the job's partition.
    pub part_factor: u32,
    /// Number of the set of partitions in which the job waits.
    pub partition: u32,
    /// Number of the pool: partitions that share nodes have the same one, and only jobs of one pool
    /// compete.
    pub pool: u32,
    /// QOS.
    pub qos_id: u32,
    /// Priority of the job's QOS.
    pub qos_priority: u32,
    /// Nice value; above 0 where the user put the job back.
    pub nice: i32,
    /// The site factor that an administrator set.
    pub site: i32,
    /// Submission, unix seconds.
    pub submit_s: u64,
    /// Whether an administrator set the job's priority, or the job asks for several QOSes.
    pub fixed: bool,
    /// Whether all partitions of the job are in mode `enforce`.
    pub enforced: bool,
    /// Whether the job has waited so long that none may pass it.
    pub due: bool,
}

impl Waiting {
    /// A priority of the job without the delta that Phalanx added.
    pub(super) fn natural(&self, priority: u32) -> u32 {
        let own = if self.hidden > 0 { 1 } else { i64::from(priority) - i64::from(self.delta) };
        nearest_u32(nearest_u64(own.max(1)))
    }

    /// The rank of the job in Slurm's own order, where priorities rise by `points_a_day`.
    pub fn rank(&self, points_a_day: f64, now_s: i64) -> Rank {
        let (priority, now_s) = (self.natural(self.priority_max), now_s.max(0).unsigned_abs());
        Rank::natural(self.tier_max, priority, points_a_day, now_s)
    }
}

/// Reason why a ranked job is not further in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// The job in front has a priority set by an administrator, or several priorities.
    Fixed,
    /// The job in front waits in a partition that is not in mode `enforce`.
    Mode,
    /// The job in front has another QOS, and not a lower one.
    Qos,
    /// The job in front waits in a partition of higher PriorityJobFactor.
    Partition,
    /// The user put the ranked job back with `--nice`, or the job in front to the top.
    Nice,
    /// An administrator gave the job in front a higher site factor.
    Site,
    /// The job in front has waited so long that none may pass it.
    Due,
    /// The delta would exceed the job's bound.
    Delta,
    /// A job in front that cannot be raised would be passed together with others.
    Room,
    /// The ranked job's own priority cannot be raised: set by hand, one of several, or at the
    /// bottom of the scale.
    Own,
    /// The ranked job's own partition is not in mode `enforce`.
    OwnMode,
}

impl Stop {
    /// Says the reason to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "its priority was set by an administrator, or it has several",
            Self::Mode => "its partition is not in mode enforce",
            Self::Qos => "its QOS is another and not lower",
            Self::Partition => "its partition has a higher PriorityJobFactor",
            Self::Nice => "its nice value is lower",
            Self::Site => "its site factor is higher",
            Self::Due => "it has waited order.fair_share_percent of the longest fair wait",
            Self::Delta => "to pass it needs a larger delta than is allowed",
            Self::Room => "it cannot be raised and would be passed too",
            Self::Own => "the job's own priority cannot be raised",
            Self::OwnMode => "the job's own partition is not in mode enforce",
        }
    }
}

/// Result for one ranked or raised job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Rank of the job; `None` if it only rises to stay in front of others.
    pub rank: Option<u32>,
    /// Number to add to the job's site factor.
    pub delta: i32,
    /// Jobs that the job is put in front of.
    pub passes: u32,
    /// Why the job is not further in front, and the job in its way; 0 for the job itself.
    pub stop: Option<(Stop, u32)>,
}
