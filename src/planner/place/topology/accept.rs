// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes that stock Slurm takes under topology/block, by its own steps.
//!
//! Sources: `plugins/select/cons_tres/job_test.c` `_eval_nodes_block` (23.11),
//! `plugins/topology/block/eval_nodes_block.c` `eval_nodes_block` (24.05 on). A set of
//! exactly the wanted nodes is accepted if these steps use all of it; two of them are
//! known only by running them: the last lower block of a whole topology that these do
//! not divide counts nothing, and an empty block of a lower block in use may stall them.

use phalanx_core::number::nearest_u32;
use phalanx_core::topology::Topology;

/// Base blocks and the levels that they are joined to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// Base blocks.
    pub count: usize,
    /// Nodes of one.
    pub size: u32,
    /// Levels, ascending, the first 0.
    pub levels: Vec<u32>,
}

/// Blocks among which a job of one size may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::place) struct Rule {
    /// Number of base blocks of the aggregate that must hold the whole job.
    pub group: usize,
    /// Level of a lower block.
    pub lower: u32,
    /// Most lower blocks that may be used, where that is limited.
    pub lower_max: Option<u32>,
}

impl Blocks {
    /// The blocks of a topology.
    pub fn new(topology: &Topology) -> Self {
        let parts = topology.parts();
        let mut levels = parts.block_levels.clone();
        levels.retain(|level| *level < 32);
        if levels.first() != Some(&0) {
            levels.insert(0, 0);
        }
        Self { count: topology.leaf_count(), size: parts.block_size.max(1), levels }
    }

    /// The rule for a job of `wanted` nodes.
    pub(in crate::place) fn rule(&self, wanted: u32) -> Rule {
        let quotient = wanted.div_ceil(self.size).max(1);
        let log = u32::BITS - (quotient - 1).leading_zeros();
        let upper = self.levels.iter().copied().find(|level| *level >= log);
        let lower = self.levels.iter().copied().rfind(|level| *level < log).unwrap_or(0);
        let group = upper.map_or(self.count, |level| 1 << level);
        let lower_size = u64::from(self.size) << lower;
        let most = u64::from(wanted).div_ceil(lower_size);
        let limited = group as u64 != most << lower;
        let lower_max = limited.then(|| nearest_u32(most));
        Rule { group, lower, lower_max }
    }

    /// The base blocks of each group.
    pub(super) fn groups(&self, rule: Rule) -> impl Iterator<Item = std::ops::Range<usize>> {
        let count = self.count;
        let starts = (0..count).step_by(rule.group.max(1));
        starts.map(move |start| start..(start + rule.group).min(count))
    }
}

/// State of one attempt by stock's steps.
struct Attempt<'a> {
    rule: Rule,
    free: &'a [u32],
    /// Number of free nodes of each lower block, without those of forced blocks.
    low: Vec<u32>,
    used: Vec<bool>,
    left: u32,
    /// Number of lower blocks that may still be begun.
    more: Option<u32>,
}

/// Returns the nodes that stock takes of each base block for a job of `wanted` nodes when `free`
/// nodes are free, after all `forced` nodes and without them. `None`: stock fails.
pub fn place_one(blocks: &Blocks, forced: &[u32], free: &[u32], wanted: u32) -> Option<Vec<u32>> {
    let rule = blocks.rule(wanted);
    let group = choose_group(blocks, rule, forced, free, wanted)?;
    let forced_sum: u32 = forced.iter().sum();
    let mut attempt = Attempt {
        rule,
        free,
        low: vec![0; (blocks.count >> rule.lower) + 1],
        used: vec![false; blocks.count],
        left: wanted.checked_sub(forced_sum)?,
        more: rule.lower_max,
    };
    let mut take = vec![0; blocks.count];
    let outside = forced.iter().enumerate().any(|(at, &f)| f > 0 && !group.contains(&at));
    if outside || !attempt.fill_forced(group.clone(), forced, &mut take) {
        return None;
    }
    for at in group.clone().filter(|&at| !attempt.used[at]) {
        attempt.low[at >> rule.lower] += free[at];
    }
    while attempt.left > 0 {
        let at = attempt.best(group.clone())?;
        if !attempt.begin(at) {
            return None;
        }
        let taken = free[at].min(attempt.left);
        if taken == 0 {
            return None;
        }
        take[at] = taken;
        attempt.left -= taken;
    }
    Some(take)
}

/// The group with fewest candidates of those that hold the job; the last of equal groups.
fn choose_group(
    blocks: &Blocks,
    rule: Rule,
    forced: &[u32],
    free: &[u32],
    wanted: u32,
) -> Option<std::ops::Range<usize>> {
    let here = |at: usize| forced[at] + free[at];
    let mut best: Option<(u32, std::ops::Range<usize>)> = None;
    for group in blocks.groups(rule) {
        let all: u32 = group.clone().map(here).sum();
        let have = match rule.lower_max {
            None => all,
            Some(most) => {
                let width = 1usize << rule.lower;
                let in_group = rule.group >> rule.lower;
                let lower = |j: usize| {
                    let from = group.start + j * width;
                    (from..(from + width).min(blocks.count)).map(here).sum::<u32>()
                };
                let begun = (blocks.count - group.start).div_ceil(width);
                let mut low: Vec<u32> = (0..in_group.min(begun)).map(lower).collect();
                low.sort_unstable_by_key(|&sum| std::cmp::Reverse(sum));
                low.iter().take(most as usize).sum()
            }
        };
        if have >= wanted && best.as_ref().is_none_or(|(least, _)| all <= *least) {
            best = Some((all, group));
        }
    }
    best.map(|(_, group)| group)
}

impl Attempt<'_> {
    /// Uses the blocks of forced nodes, and what else is free in these blocks.
    fn fill_forced(
        &mut self,
        group: std::ops::Range<usize>,
        forced: &[u32],
        take: &mut [u32],
    ) -> bool {
        for at in group.clone().filter(|&at| forced[at] > 0) {
            if !self.begin(at) {
                return false;
            }
        }
        for at in group.filter(|&at| forced[at] > 0) {
            take[at] = self.free[at].min(self.left);
            self.left -= take[at];
        }
        true
    }

    /// Uses a block; returns false if its lower block is one too many.
    fn begin(&mut self, at: usize) -> bool {
        let new = !self.is_low_used(at);
        self.used[at] = true;
        match &mut self.more {
            Some(0) if new => false,
            Some(more) if new => {
                *more -= 1;
                true
            }
            _ => true,
        }
    }

    fn is_low_used(&self, at: usize) -> bool {
        let first = at >> self.rule.lower << self.rule.lower;
        let last = (first + (1 << self.rule.lower)).min(self.used.len());
        self.used[first..last].contains(&true)
    }

    fn best(&self, group: std::ops::Range<usize>) -> Option<usize> {
        let mut best: Option<usize> = None;
        for at in group.filter(|&at| !self.used[at]) {
            if best.is_none_or(|best| self.beats(at, best)) {
                best = Some(at);
            }
        }
        best
    }

    fn beats(&self, at: usize, best: usize) -> bool {
        let lower = |at: usize| at >> self.rule.lower;
        if self.rule.lower_max.is_some() && lower(at) != lower(best) {
            let (here, there) = (self.is_low_used(at), self.is_low_used(best));
            if here != there {
                return here;
            }
            let (here, there) = (self.low[lower(at)], self.low[lower(best)]);
            let (fits, best_fits) = (here >= self.left, there >= self.left);
            if fits != best_fits {
                return fits;
            }
            if here != there {
                return if fits { here < there } else { here > there };
            }
        }
        let (here, there) = (self.free[at], self.free[best]);
        let (fits, best_fits) = (here >= self.left, there >= self.left);
        match (fits, best_fits) {
            (true, false) => true,
            (true, true) => here <= there,
            (false, false) => here >= there,
            (false, true) => false,
        }
    }
}
