// SPDX-License-Identifier: GPL-3.0-or-later
//! The choice of leaves under topology/tree.

use super::counts::{Counts, Plan, fill, largest_first};
use super::greedy::tree_greedy;
use super::tree::Tree;
use phalanx_core::number::as_u32;

/// Plans of equal rank that the balance method compares.
const EQUAL_MAX: usize = 4;
/// A number above any count of leaves.
const MANY: u32 = u32::MAX;

/// Plans of equal rank.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::place) struct Plans {
    /// Some of the equal plans, at least one, in Slurm's order of switches.
    pub equal: Vec<Plan>,
    /// Leaves that are equally good, where a plan is one leaf.
    pub leaves: Vec<u32>,
    /// Fewest leaves of any plan.
    pub fewest: u32,
}

impl Tree {
    /// Leaves for `wanted` nodes, the forced ones of `counts` among them, by fewest leaves, lowest
    /// common switch, least loss. `limit`: most leaves allowed; a plan with more may come back
    /// where there is no other.
    pub(in crate::place) fn choose(
        &self,
        counts: &Counts,
        wanted: u32,
        limit: Option<u32>,
    ) -> Option<Plans> {
        let mut best: Option<Plans> = None;
        let mut fewest = MANY;
        for &root in &self.roots {
            let Some(plans) = self.below_root(counts, root, wanted, limit) else { continue };
            fewest = fewest.min(plans.fewest);
            let rank = |plans: &Plans| plans.equal.first().map(rank);
            match &mut best {
                Some(known) if rank(known) == rank(&plans) => {
                    let room = EQUAL_MAX.saturating_sub(known.equal.len());
                    known.equal.extend(plans.equal.into_iter().take(room));
                    known.leaves.extend(plans.leaves);
                }
                Some(known) if rank(known) < rank(&plans) => {}
                _ => best = Some(plans),
            }
        }
        best.map(|best| Plans { fewest, ..best })
    }

    fn below_root(
        &self,
        counts: &Counts,
        root: u32,
        wanted: u32,
        limit: Option<u32>,
    ) -> Option<Plans> {
        let leaves = self.below(root);
        let sum = |list: &[u32]| leaves.iter().map(|&leaf| list[leaf as usize]).sum::<u32>();
        let forced = sum(&counts.forced);
        if forced + sum(&counts.free) < wanted {
            return None;
        }
        let missing = wanted.saturating_sub(forced);
        if forced == 0
            && let Some(plans) = self.one_leaf(counts, leaves, missing)
        {
            return Some(plans);
        }
        let held: Vec<u32> =
            leaves.iter().copied().filter(|&leaf| counts.forced[leaf as usize] > 0).collect();
        let in_held: u32 = held.iter().map(|&leaf| counts.free[leaf as usize]).sum();
        if !held.is_empty() && in_held >= missing {
            let plan = self.plan(counts, &held, fill(counts, &held, missing));
            return Some(Plans { fewest: plan.leaves, equal: vec![plan], leaves: Vec::new() });
        }
        self.more_leaves(counts, leaves, &held, missing - in_held, limit)
    }

    /// The single leaves that hold the whole job.
    fn one_leaf(&self, counts: &Counts, leaves: &[u32], wanted: u32) -> Option<Plans> {
        let holds = |leaf: &&u32| counts.free[**leaf as usize] >= wanted;
        let loss = |leaf: &u32| counts.loss(*leaf as usize, wanted);
        let least = leaves.iter().filter(holds).map(loss).min()?;
        let equal: Vec<u32> =
            leaves.iter().filter(holds).filter(|leaf| loss(leaf) == least).copied().collect();
        let plan = |&leaf: &u32| self.plan(counts, &[], vec![(leaf, wanted)]);
        Some(Plans {
            equal: equal.iter().take(EQUAL_MAX).map(plan).collect(),
            leaves: equal,
            fewest: 1,
        })
    }

    fn more_leaves(
        &self,
        counts: &Counts,
        leaves: &[u32],
        held: &[u32],
        missing: u32,
        limit: Option<u32>,
    ) -> Option<Plans> {
        let size = |leaf: u32| counts.free[leaf as usize];
        let mut order: Vec<u32> = leaves
            .iter()
            .copied()
            .filter(|&l| size(l) > 0 && counts.forced[l as usize] == 0)
            .collect();
        let rank_of = |leaf: u32| (std::cmp::Reverse(size(leaf)), counts.idle[leaf as usize], leaf);
        order.sort_unstable_by_key(|&leaf| rank_of(leaf));
        let needed = self.leaves_needed(&order, held, missing, counts);
        let in_all = u32::try_from(held.len()).unwrap_or(MANY);
        let lowest = needed.iter().map(|&(domain, _)| self.level(domain)).min()?;
        let least = |most: u32| {
            let low = needed.iter().filter(|&&(domain, _)| self.level(domain) <= most);
            low.map(|(_, count)| *count).min().unwrap_or(MANY)
        };
        let (on_lowest, anywhere) = (least(lowest), least(MANY));
        let too_many = limit.is_some_and(|limit| {
            in_all.saturating_add(on_lowest) > limit && in_all.saturating_add(anywhere) <= limit
        });
        let mut highest = lowest;
        if too_many {
            highest = MANY;
        } else if on_lowest != anywhere
            && let Some(taken) = tree_greedy(self, leaves, counts, missing)
            && taken.len() < on_lowest as usize
        {
            let all: Vec<u32> = held.iter().chain(&taken).copied().collect();
            highest = self.common_level(&all).unwrap_or(MANY);
        }
        let fewest = least(highest);
        let free = |leaf: usize| counts.free[leaf];
        let mut plans = Vec::new();
        for (domain, _) in needed.iter().filter(|(d, k)| self.level(*d) <= highest && *k == fewest)
        {
            let inside: Vec<u32> =
                order.iter().copied().filter(|&l| self.above(l).contains(domain)).collect();
            let Some(mut take) = largest_first(counts, &inside, missing, free) else { continue };
            let rest = held.iter().map(|&leaf| (leaf, size(leaf))).filter(|(_, size)| *size > 0);
            take.extend(rest);
            take.sort_unstable();
            plans.push(self.plan(counts, held, take));
        }
        let best = plans.iter().map(rank).min()?;
        plans.retain(|plan| rank(plan) == best);
        plans.dedup();
        plans.truncate(EQUAL_MAX);
        Some(Plans { equal: plans, leaves: Vec::new(), fewest: in_all.saturating_add(anywhere) })
    }

    /// The domains above all of `held` that hold what is missing on other leaves, and the fewest
    /// leaves for that.
    fn leaves_needed(
        &self,
        order: &[u32],
        held: &[u32],
        missing: u32,
        counts: &Counts,
    ) -> Vec<(u32, u32)> {
        let mut sum = vec![0u32; self.domain_count()];
        let mut used = vec![0u32; self.domain_count()];
        for &leaf in order {
            for &domain in self.above(leaf) {
                let at = domain as usize;
                if sum[at] < missing {
                    sum[at] += counts.free[leaf as usize];
                    used[at] += 1;
                }
            }
        }
        let holds = |at: &u32| {
            let all = || held.iter().all(|&leaf| self.above(leaf).contains(at));
            sum[*at as usize] >= missing && all()
        };
        let domains = 0..as_u32(self.domain_count());
        domains.filter(holds).map(|at| (at, used[at as usize])).collect()
    }

    /// Makes a plan; `held` are the leaves of forced nodes.
    fn plan(&self, counts: &Counts, held: &[u32], take: Vec<(u32, u32)>) -> Plan {
        let mut leaves: Vec<u32> =
            take.iter().map(|(leaf, _)| *leaf).chain(held.iter().copied()).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let taken = |leaf: u32| {
            take.binary_search_by_key(&leaf, |(leaf, _)| *leaf).map_or(0, |at| take[at].1)
        };
        let loss = leaves.iter().map(|&leaf| counts.loss(leaf as usize, taken(leaf))).sum();
        let level = self.common_level(&leaves);
        let root = leaves.first().and_then(|&leaf| self.above(leaf).last().copied());
        Plan { root, leaves: u32::try_from(leaves.len()).unwrap_or(MANY), level, loss, take }
    }
}

/// Key by which plans compare: fewest leaves, lowest common switch, least loss.
fn rank(plan: &Plan) -> (u32, u32, u64) {
    (plan.leaves, plan.level.unwrap_or(MANY), plan.loss)
}
