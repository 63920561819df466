// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes that a question offers on each leaf, and idle nodes that a choice there takes.

use phalanx_core::NodeSet;
use phalanx_core::topology::Topology;

/// Numbers of nodes by leaf, of one question and one class.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Nodes that are taken whatever is chosen: candidates of lighter classes.
    pub forced: Vec<u32>,
    /// Idle nodes among `forced`.
    pub forced_idle: Vec<u32>,
    /// Candidates of the class that completes the job.
    pub free: Vec<u32>,
    /// Idle nodes among `free`.
    pub free_idle: Vec<u32>,
    /// Idle nodes that Slurm offers, whether or not the job fits there.
    pub idle: Vec<u32>,
}

impl Counts {
    /// Sets the counts of all leaves to 0.
    pub(in crate::place) fn reset(&mut self, leaves: usize) {
        let lists = [
            &mut self.forced,
            &mut self.forced_idle,
            &mut self.free,
            &mut self.free_idle,
            &mut self.idle,
        ];
        for list in lists {
            list.clear();
            list.resize(leaves, 0);
        }
    }

    /// Counts what `mask` has on each leaf: candidates that are in `lighter` are taken whatever is
    /// chosen. `idle` are the idle nodes that Slurm offers.
    pub(super) fn count(
        &mut self,
        topology: &Topology,
        mask: &NodeSet,
        idle: &NodeSet,
        lighter: Option<&NodeSet>,
    ) {
        self.reset(topology.leaf_count());
        let leaf_by_node = topology.leaf_by_node();
        let lighter = lighter.map_or(&[][..], NodeSet::words).iter().copied();
        let lighter = lighter.chain(std::iter::repeat(0));
        let words = mask.words().iter().zip(idle.words()).zip(lighter);
        for (at, ((&mask, &idle), lighter)) in words.enumerate() {
            let mut rest = mask | idle;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let leaf = leaf_by_node.get(at * 64 + bit).map_or(usize::MAX, |&l| l as usize);
                let Some(all_idle) = self.idle.get_mut(leaf) else { continue };
                let has = |word: u64| u32::from(word >> bit & 1 == 1);
                *all_idle += has(idle);
                if has(mask & lighter) == 1 {
                    self.forced[leaf] += 1;
                    self.forced_idle[leaf] += has(idle);
                } else if has(mask) == 1 {
                    self.free[leaf] += 1;
                    self.free_idle[leaf] += has(idle);
                }
            }
        }
    }

    /// Idle nodes of a leaf that Slurm offers.
    pub(super) fn idle_on(&self, leaf: u32) -> u32 {
        self.idle[leaf as usize]
    }

    /// Candidates of a leaf in the class that completes the job.
    pub(super) fn free_on(&self, leaf: u32) -> u32 {
        self.free[leaf as usize]
    }

    /// Adds an idle node worth `parts` candidates of `leaf`; `is_forced`: every choice takes it. Of
    /// leaves with equal room those on fewer nodes come first.
    pub(super) fn add_room(&mut self, leaf: u32, parts: u32, is_forced: bool) {
        let list = if is_forced { &mut self.forced } else { &mut self.free };
        let count = &mut list[leaf as usize];
        *count = count.saturating_add(parts);
        self.idle[leaf as usize] += 1;
    }

    /// Returns the loss of the leaf by the forced nodes and `take` others: with f idle nodes before
    /// and x of them taken, f² - (f - x)², the ordered pairs of idle nodes that no longer share the
    /// leaf.
    pub(super) fn loss(&self, leaf: usize, take: u32) -> u64 {
        let busy = self.free[leaf] - self.free_idle[leaf];
        let idle = u64::from(self.idle[leaf]);
        let taken = u64::from(self.forced_idle[leaf] + take.saturating_sub(busy)).min(idle);
        idle * idle - (idle - taken) * (idle - taken)
    }
}

/// Nodes to take of each leaf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::place) struct Plan {
    /// Leaf, and the number of its candidates taken beside the forced ones; ascending.
    pub take: Vec<(u32, u32)>,
    /// Number of leaves of the job under the plan, with those of forced nodes.
    pub leaves: u32,
    /// Root of the switches above the leaves; `None` for blocks.
    pub root: Option<u32>,
    /// Level of the lowest domain above all leaves of the plan; `None`: there is none.
    pub level: Option<u32>,
    /// Sum of [`Counts::loss`] over the leaves.
    pub loss: u64,
}

/// Takes `wanted` nodes of as few of `leaves`, which hold `size`, as possible: the largest whole,
/// as stock does, and the last part of the smallest that holds it. `None`: too few.
///
/// Other leaves of the same number may leave more idle nodes together now; but a leaf
/// that one job has whole is whole again when it ends. Measured, that counts for more.
pub(super) fn largest_first(
    counts: &Counts,
    leaves: &[u32],
    wanted: u32,
    size: impl Fn(usize) -> u32,
) -> Option<Vec<(u32, u32)>> {
    let size = |leaf: &u32| size(*leaf as usize);
    let mut sorted: Vec<u32> = leaves.iter().copied().filter(|leaf| size(leaf) > 0).collect();
    sorted.sort_unstable_by_key(|leaf| (std::cmp::Reverse(size(leaf)), *leaf));
    let count = fewest(sorted.iter().map(size), wanted)?;
    let (whole, rest) = sorted.split_at(count - 1);
    let mut take: Vec<(u32, u32)> = whole.iter().map(|leaf| (*leaf, size(leaf))).collect();
    let left = wanted - take.iter().map(|(_, take)| take).sum::<u32>();
    let holds = rest.iter().filter(|leaf| size(leaf) >= left);
    let last = holds.min_by_key(|leaf| (counts.loss(**leaf as usize, left), **leaf))?;
    take.push((*last, left));
    take.sort_unstable();
    Some(take)
}

/// Returns how many of `sizes`, in their order, reach the wanted sum.
fn fewest(sizes: impl Iterator<Item = u32>, wanted: u32) -> Option<usize> {
    let mut sum = 0;
    for (count, size) in (1..).zip(sizes) {
        sum += size;
        if sum >= wanted {
            return Some(count);
        }
    }
    None
}

/// Takes `wanted` nodes of leaves that the job has anyway, the emptiest leaves first.
pub(super) fn fill(counts: &Counts, leaves: &[u32], wanted: u32) -> Vec<(u32, u32)> {
    let rest = |leaf: &u32| {
        let leaf = *leaf as usize;
        (counts.idle[leaf].saturating_sub(counts.forced_idle[leaf]), leaf)
    };
    let mut sorted = leaves.to_vec();
    sorted.sort_unstable_by_key(rest);
    let mut left = wanted;
    let mut take = Vec::new();
    for leaf in sorted {
        let taken = counts.free[leaf as usize].min(left);
        if taken > 0 {
            take.push((leaf, taken));
            left -= taken;
        }
    }
    take.sort_unstable();
    take
}
