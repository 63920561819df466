// SPDX-License-Identifier: GPL-3.0-or-later
//! The choice of blocks under topology/block: only what stock accepts.

use super::accept::{Blocks, Rule, place_one};
use super::counts::{Counts, Plan, fill, largest_first};
use phalanx_core::number::as_u32;
use phalanx_core::topology::Topology;

/// Base blocks of one group above which stock's steps take too long.
const GROUP_MAX: usize = 1024;

impl Blocks {
    /// Whether jobs of `wanted` nodes are too large to be tried.
    pub(in crate::place) fn is_too_large(&self, wanted: u32) -> bool {
        self.rule(wanted).group.min(self.count) > GROUP_MAX
    }

    /// Blocks for `wanted` nodes, the forced ones of `counts` among them, by fewest
    /// blocks, then least loss. `None`: stock would accept none of what was tried.
    pub(in crate::place) fn choose(
        &self,
        topology: &Topology,
        counts: &Counts,
        wanted: u32,
    ) -> Option<Plan> {
        let forced: u32 = counts.forced.iter().sum();
        let missing = wanted.checked_sub(forced)?;
        let rule = self.rule(wanted);
        let held = held(counts);
        let mut best: Option<Plan> = None;
        let mut consider = |take: Vec<(u32, u32)>| {
            let plan = plan(counts, &held, take);
            let better = |known: &Plan| (plan.leaves, plan.loss) < (known.leaves, known.loss);
            if best.as_ref().is_none_or(better) && self.accepts(counts, &plan, wanted) {
                best = Some(plan);
            }
        };
        if let Some(take) = place_one(self, &counts.forced, &counts.free, wanted) {
            let taken = (0u32..).zip(take).filter(|(_, take)| *take > 0);
            consider(taken.collect());
        }
        for group in self.groups(rule) {
            if !held.iter().all(|leaf| group.contains(&(*leaf as usize))) {
                continue;
            }
            if let Some(take) = take_of(counts, group.clone(), missing) {
                consider(take);
            }
            if let Some(most) = rule.lower_max {
                let fullest = fullest(counts, group, rule, most);
                if let Some(take) = take_of(counts, fullest.into_iter(), missing) {
                    consider(take);
                }
            }
        }
        best.map(|plan| with_level(topology, &held, plan))
    }

    /// Blocks for segments of `segment` nodes, each of which must lie in one block; `spread`: no
    /// two segments share a block.
    pub(in crate::place) fn choose_segments(
        &self,
        topology: &Topology,
        counts: &Counts,
        wanted: u32,
        segment: u32,
        spread: bool,
    ) -> Option<Plan> {
        let size = |leaf: usize| {
            let segments = counts.free[leaf] / segment;
            if spread { segments.min(1) } else { segments }
        };
        let all: Vec<u32> = (0..u32::try_from(self.count).ok()?).collect();
        let mut take = largest_first(counts, &all, wanted / segment, size)?;
        for (_, segments) in &mut take {
            *segments *= segment;
        }
        let held = held(counts);
        Some(with_level(topology, &held, plan(counts, &held, take)))
    }

    /// Whether stock takes exactly this plan's nodes.
    fn accepts(&self, counts: &Counts, plan: &Plan, wanted: u32) -> bool {
        let mut free = vec![0; self.count];
        for &(leaf, take) in &plan.take {
            free[leaf as usize] = take;
        }
        place_one(self, &counts.forced, &free, wanted).is_some()
    }
}

/// The blocks of forced nodes, ascending.
fn held(counts: &Counts) -> Vec<u32> {
    (0u32..).zip(&counts.forced).filter(|(_, forced)| **forced > 0).map(|(leaf, _)| leaf).collect()
}

/// The blocks of a plan, with those of forced nodes.
fn blocks_of(held: &[u32], take: &[(u32, u32)]) -> Vec<u32> {
    let mut leaves: Vec<u32> =
        take.iter().map(|(leaf, _)| *leaf).chain(held.iter().copied()).collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// A plan whose level is set later.
fn plan(counts: &Counts, held: &[u32], take: Vec<(u32, u32)>) -> Plan {
    let leaves = blocks_of(held, &take);
    let taken =
        |leaf: u32| take.binary_search_by_key(&leaf, |(leaf, _)| *leaf).map_or(0, |at| take[at].1);
    Plan {
        root: None,
        level: None,
        loss: leaves.iter().map(|&leaf| counts.loss(leaf as usize, taken(leaf))).sum(),
        leaves: as_u32(leaves.len()),
        take,
    }
}

fn with_level(topology: &Topology, held: &[u32], plan: Plan) -> Plan {
    let level = topology.common_level(blocks_of(held, &plan.take));
    Plan { level, ..plan }
}

/// The blocks of forced nodes, then as few other blocks as hold the rest.
fn take_of(
    counts: &Counts,
    group: impl Iterator<Item = usize>,
    missing: u32,
) -> Option<Vec<(u32, u32)>> {
    let (held, others): (Vec<u32>, Vec<u32>) = group
        .filter_map(|at| u32::try_from(at).ok())
        .partition(|&leaf| counts.forced[leaf as usize] > 0);
    let mut take = fill(counts, &held, missing);
    let left = missing - take.iter().map(|(_, take)| take).sum::<u32>();
    if left > 0 {
        take.extend(largest_first(counts, &others, left, |leaf| counts.free[leaf])?);
        take.sort_unstable();
    }
    Some(take)
}

/// The base blocks of the `most` lower blocks of a group with most room, those of
/// forced nodes first.
fn fullest(counts: &Counts, group: std::ops::Range<usize>, rule: Rule, most: u32) -> Vec<usize> {
    let width = 1usize << rule.lower;
    let mut lower: Vec<(bool, u32, usize)> = group
        .clone()
        .step_by(width)
        .map(|first| {
            let own = first..(first + width).min(group.end);
            let forced = own.clone().any(|at| counts.forced[at] > 0);
            (forced, own.map(|at| counts.free[at]).sum(), first)
        })
        .collect();
    lower.sort_unstable_by_key(|&(forced, sum, first)| {
        (std::cmp::Reverse(forced), std::cmp::Reverse(sum), first)
    });
    let kept = lower.into_iter().take(most as usize);
    kept.flat_map(|(_, _, first)| first..(first + width).min(group.end)).collect()
}
