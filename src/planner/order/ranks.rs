// SPDX-License-Identifier: GPL-3.0-or-later
//! The start order by runtime, which `[order] by = "learned"` asks for.

use super::Rank;
use crate::preference::StartRank;
use phalanx_methods::learn::runtime::Prediction;

/// Ranks the jobs that are predicted to run for at most `short_s` seconds, the shortest first; all
/// other jobs have no rank and keep Slurm's order. Each job comes with its time of submission, Unix
/// seconds.
pub fn by_learned_runtime(
    jobs: impl Iterator<Item = (u32, i64, Prediction)>,
    short_s: u64,
) -> Vec<StartRank> {
    let mut ranks: Vec<(Rank, u32)> = jobs
        .map(|(id, submit_s, prediction)| (Rank::learned(&prediction, submit_s, short_s), id))
        .filter(|(rank, _)| rank.is_short())
        .collect();
    ranks.sort_unstable();
    let mut place = 0;
    let mut last = None;
    let rank_of = |(rank, job_id)| {
        if last.replace(rank).is_some_and(|last| last != rank) {
            place += 1;
        }
        StartRank { job_id, rank: place }
    };
    ranks.into_iter().map(rank_of).collect()
}
