// SPDX-License-Identifier: GPL-3.0-or-later
//! The order of starts: which pending jobs get how much added to their
//! `site_factor`, so that Slurm takes them in the sequence that the methods ask for.
//!
//! Slurm goes through the pending jobs by PriorityTier, priority, time of
//! submission and id (`sort_job_queue2()` of `src/slurmctld/job_scheduler.c`).
//! Only raising is used: a ranked job is put just above the jobs that it is to
//! pass, so the jobs without a rank keep what they have, unless one of
//! them has to rise with the others to stay in front. What may be passed is
//! bounded: see [`Stop`]; above all, nobody passes a job that has waited for a
//! share of what jobs wait in Slurm's own order ([`Guard`]). The result depends
//! on the priorities without our deltas only, so that the same queue gives the
//! same deltas; those in force stay as long as they realise the same sequence.

mod arrange;
mod easy;
mod forecast;
mod guard;
mod pools;
mod rank;
mod ranks;
mod scarcity;
mod starvation;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

pub use easy::{Easy, Request};
pub use forecast::{Ahead, Forecasts, Start};
pub use guard::{Guard, GuardRule, competes};
pub use pools::Pools;
pub use rank::Rank;
pub use ranks::by_learned_runtime;
pub use scarcity::Scarcity;
pub use starvation::StarvationLimit;
pub use waiting::{Placed, Stop, Waiting};

use crate::preference::StartRank;
use phalanx_core::limits::ORDER_DELTAS_MAX;
use phalanx_core::number::{as_u32, nearest_u32, whole};

/// Greatest number that the plugin adds to a priority.
const DELTA_MAX: u32 = 1_000_000_000;
/// Largest weight assumed where the weights of all priority factors are 0: then a delta outdoes
/// nothing.
const WEIGHT_DEFAULT: u32 = 1000;

/// Largest number that is added to a priority: a share of the largest weight of its factors.
pub fn max_delta(percent: u32, largest_weight: u32) -> u32 {
    let weight = if largest_weight == 0 { WEIGHT_DEFAULT } else { largest_weight };
    let points = u64::from(weight) * u64::from(percent) / 100;
    nearest_u32(points).min(DELTA_MAX)
}

/// Finds the largest of weights as slurm.conf writes them: numbers, or lists as `cpu=10,gres/a=2`.
pub fn largest_weight<'a>(texts: impl Iterator<Item = &'a str>) -> u32 {
    let number = |item: &str| item.rsplit('=').next()?.trim().parse::<f64>().ok();
    let largest = texts.flat_map(|text| text.split(',')).filter_map(number).fold(0.0, f64::max);
    nearest_u32(whole(largest))
}

/// The deltas of one report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Deltas to be in force, by ascending job id; none of them 0.
    pub deltas: Vec<(u32, i32)>,
    /// The ranked and the raised jobs.
    pub jobs: BTreeMap<u32, Placed>,
    /// Jobs in front of which others are put at present.
    pub overtaken: u32,
}

/// Decides the deltas, of at most `max_delta` points, on a report of the queue.
pub fn decide(waiting: &[Waiting], start_order: &[StartRank], max_delta: u32) -> Decision {
    let ranks: BTreeMap<u32, u32> = start_order.iter().map(|w| (w.job_id, w.rank)).collect();
    let mut decision = Decision::default();
    let mut passed = BTreeSet::new();
    for rows in arrange::groups(waiting, &ranks) {
        let group = arrange::arrange(rows, waiting, max_delta);
        if decision.deltas.len() + group.deltas.len() > ORDER_DELTAS_MAX {
            continue;
        }
        decision.deltas.extend(group.deltas);
        decision.jobs.extend(group.jobs);
        passed.extend(group.passed);
    }
    decision.deltas.sort_unstable();
    decision.overtaken = as_u32(passed.len());
    decision
}

#[cfg(test)]
mod tests;
