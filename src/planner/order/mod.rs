// SPDX-License-Identifier: GPL-3.0-or-later
//! The order of starts: which pending jobs get how much added to their
//! `site_factor`, so that Slurm takes them in the sequence that the methods ask for.
//!
//! Slurm goes through the pending jobs by PriorityTier, priority, time of
//! submission and id (`sort_job_queue2()` of `src/slurmctld/job_scheduler.c`).
//! Only raising is used: a ranked job is put just above the jobs that it is to
//! pass, so the jobs without a rank keep what they have, unless one of
//! them has to rise with the others to stay in front. What may be passed is
//! bounded: see [`Stop`]. The result depends on the priorities without our
//! deltas only, so that the same queue gives the same deltas; those in force
//! stay as long as they realise the same sequence.

mod arrange;
mod overtakes;
mod pools;
mod rank;
mod ranks;

use std::collections::BTreeMap;

pub use overtakes::OvertakeBudget;
pub use pools::Pools;
pub use rank::Rank;
pub use ranks::by_learned_runtime;

use crate::preference::StartRank;
use phalanx_core::limits::ORDER_DELTAS_MAX;

/// A pending job that is not held, as slurmctld sorts it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Job id; of an array its record's.
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
    /// PriorityJobFactor of its partition.
    pub part_factor: u32,
    /// Number of the set of partitions that it waits for.
    pub partition: u32,
    /// Partitions that share nodes have the same number; only jobs of one
    /// pool compete.
    pub pool: u32,
    /// QOS.
    pub qos_id: u32,
    /// Priority of the QOS.
    pub qos_priority: u32,
    /// Nice value; above 0 where the user put the job back.
    pub nice: i32,
    /// An administrator's own site factor.
    pub site: i32,
    /// Submission, unix seconds.
    pub submit_s: u64,
    /// Starts that are behind this record: waiting tasks of an array, else 1.
    pub tasks: u32,
    /// An administrator set its priority, or it asks for several QOSes.
    pub fixed: bool,
    /// Whether all partitions of the job are in mode `enforce`.
    pub enforced: bool,
}

/// Largest number that is added to a priority, in priority points: a usual weight of one factor.
pub const MAX_DELTA: u32 = 10_000;

/// Limits from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Largest delta, priority points.
    pub max_delta: u32,
    /// Starts that may get ahead of one job.
    pub max_overtakes: u32,
    /// Seconds after the first time that a job was passed; from then on none
    /// passes it.
    pub max_delay_s: u64,
}

/// Reason why a ranked job is not further in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// The job in front has its priority from an administrator, or several.
    Fixed,
    /// The job in front waits in a partition that is not in mode `enforce`.
    Mode,
    /// The job in front has another QOS, and not a lower one.
    Qos,
    /// The job in front waits in a partition of higher PriorityJobFactor.
    Partition,
    /// The user put this job back with `--nice`, or the other one to the top.
    Nice,
    /// An administrator gave the job in front a higher site factor.
    Site,
    /// The job in front was overtaken often enough.
    Overtakes,
    /// The job in front was delayed long enough.
    Delay,
    /// The delta would exceed its bound.
    Delta,
    /// A job in front cannot be raised and would be passed with the others.
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
            Self::Overtakes => "it was overtaken order.max_overtakes times",
            Self::Delay => "it was delayed for order.max_delay_s",
            Self::Delta => "it is further ahead than an order may turn round",
            Self::Room => "it cannot be raised and would be passed too",
            Self::Own => "the job's own priority cannot be raised",
            Self::OwnMode => "the job's own partition is not in mode enforce",
        }
    }
}

/// Result for one ranked or raised job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Rank of the job; `None` if it only rises to stay in front.
    pub rank: Option<u32>,
    /// Number to add to the job's site factor.
    pub delta: i32,
    /// Jobs that it is put in front of.
    pub passes: u32,
    /// The reason why it is not further in front, and the job in the way; 0 for itself.
    pub stop: Option<(Stop, u32)>,
}

/// The deltas of one report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Deltas to be in force, by ascending job id; none of them 0.
    pub deltas: Vec<(u32, i32)>,
    /// The ranked and the raised jobs.
    pub jobs: BTreeMap<u32, Placed>,
    /// Jobs in front of which others are put now.
    pub overtaken: u32,
}

/// Decides the deltas on a report of the queue; `report` is its number, another
/// one for each. `budget` remembers who was overtaken; `now_s` in unix seconds.
pub fn decide(
    budget: &mut OvertakeBudget,
    report: u64,
    waiting: &[Waiting],
    start_order: &[StartRank],
    bounds: &Bounds,
    now_s: u64,
) -> Decision {
    budget.observe(report, waiting);
    let ranks: BTreeMap<u32, u32> = start_order.iter().map(|w| (w.job_id, w.rank)).collect();
    let mut decision = Decision::default();
    let mut passes = Vec::new();
    for rows in arrange::groups(waiting, &ranks) {
        let Some(group) = arrange::arrange(rows, waiting, budget, bounds, now_s) else { continue };
        let raised = group.deltas.len();
        if decision.deltas.len() + raised > ORDER_DELTAS_MAX {
            continue;
        }
        decision.deltas.extend(group.deltas);
        decision.jobs.extend(group.jobs);
        passes.extend(group.passes);
    }
    decision.deltas.sort_unstable();
    decision.overtaken = budget.commit(waiting, &passes, now_s);
    decision
}

#[cfg(test)]
mod tests;
