// SPDX-License-Identifier: GPL-3.0-or-later
//! topology/block (`plugins/topology/block/eval_nodes_block.c`, 24.05 and later).

use std::ops::Range;

use phalanx_core::topology::Topology;

/// Base blocks and the levels that join them.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    count: usize,
    size: u32,
    levels: Vec<u32>,
}

/// Limits on where a job of one size may lie: in one group of base blocks, and there in at most so
/// many of the lower blocks.
struct Bounds {
    group: usize,
    lower: u32,
    lower_max: Option<u32>,
}

/// A job while blocks are taken one after another.
struct Attempt<'a> {
    bounds: Bounds,
    free: &'a [u32],
    used: Vec<bool>,
    left: u32,
}

impl Blocks {
    pub(super) fn new(topology: &Topology) -> Self {
        let parts = topology.parts();
        let levels = parts.block_levels.iter().copied().filter(|level| *level < 32).collect();
        Self { count: topology.leaf_count(), size: parts.block_size.max(1), levels }
    }

    fn bounds(&self, wanted: u32) -> Bounds {
        let blocks = wanted.div_ceil(self.size).max(1);
        let log = u32::BITS - (blocks - 1).leading_zeros();
        let upper = self.levels.iter().copied().find(|level| *level >= log);
        let lower = self.levels.iter().copied().rfind(|level| *level < log).unwrap_or(0);
        let group = upper.map_or(self.count, |level| 1 << level).max(1);
        let most = u64::from(wanted).div_ceil(u64::from(self.size) << lower);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let limited = group as u64 != u64::from(most) << lower;
        Bounds { group, lower, lower_max: limited.then_some(most) }
    }

    /// Nodes taken of each base block, where so many are free there; `None`: it waits.
    pub(super) fn place_one(&self, free: &[u32], wanted: u32) -> Option<Vec<u32>> {
        let bounds = self.bounds(wanted);
        let group = self.group(&bounds, free, wanted)?;
        let mut lower_left = bounds.lower_max;
        let mut attempt = Attempt { bounds, free, used: vec![false; self.count], left: wanted };
        let mut take = vec![0; self.count];
        while attempt.left > 0 {
            let at = attempt.best(group.clone())?;
            if let Some(left) = lower_left.as_mut().filter(|_| !attempt.is_lower_used(at)) {
                *left = left.checked_sub(1)?;
            }
            *attempt.used.get_mut(at)? = true;
            let count = free.get(at).copied()?.min(attempt.left);
            if count == 0 {
                return None;
            }
            *take.get_mut(at)? = count;
            attempt.left -= count;
        }
        Some(take)
    }

    /// The group with fewest free nodes of those that hold the job, the last of equal ones.
    fn group(&self, bounds: &Bounds, free: &[u32], wanted: u32) -> Option<Range<usize>> {
        let sum = |range: Range<usize>| free.get(range).map_or(0, |free| free.iter().sum::<u32>());
        let mut best: Option<(u32, Range<usize>)> = None;
        for begin in (0..self.count).step_by(bounds.group) {
            let range = begin..(begin + bounds.group).min(self.count);
            let all = sum(range.clone());
            let have = match bounds.lower_max {
                None => all,
                Some(most) => {
                    let width = 1 << bounds.lower;
                    let starts = range.clone().step_by(width).take(bounds.group >> bounds.lower);
                    let lower = |from: usize| sum(from..(from + width).min(self.count));
                    let mut lower: Vec<u32> = starts.map(lower).collect();
                    lower.sort_unstable_by(|a, b| b.cmp(a));
                    lower.iter().take(most as usize).sum()
                }
            };
            if have >= wanted && best.as_ref().is_none_or(|(least, _)| all <= *least) {
                best = Some((all, range));
            }
        }
        best.map(|(_, range)| range)
    }
}

impl Attempt<'_> {
    fn free(&self, at: usize) -> u32 {
        self.free.get(at).copied().unwrap_or(0)
    }

    /// The base blocks of the same lower block.
    fn beside(&self, at: usize) -> Range<usize> {
        let first = at >> self.bounds.lower << self.bounds.lower;
        first..(first + (1 << self.bounds.lower)).min(self.used.len())
    }

    fn is_lower_used(&self, at: usize) -> bool {
        self.beside(at).any(|at| self.used.get(at) == Some(&true))
    }

    fn best(&self, group: Range<usize>) -> Option<usize> {
        let mut best: Option<usize> = None;
        for at in group.filter(|at| self.used.get(*at) == Some(&false)) {
            if best.is_none_or(|best| self.beats(at, best)) {
                best = Some(at);
            }
        }
        best
    }

    fn beats(&self, at: usize, best: usize) -> bool {
        let other_lower = at >> self.bounds.lower != best >> self.bounds.lower;
        if self.bounds.lower_max.is_some() && other_lower {
            let (here, there) = (self.is_lower_used(at), self.is_lower_used(best));
            if here != there {
                return here;
            }
            let of_lower = |at: usize| self.beside(at).map(|at| self.free(at)).sum::<u32>();
            let (here, there) = (of_lower(at), of_lower(best));
            let (fits, best_fits) = (here >= self.left, there >= self.left);
            if fits != best_fits {
                return fits;
            }
            if here != there {
                return if fits { here < there } else { here > there };
            }
        }
        let (here, there) = (self.free(at), self.free(best));
        match (here >= self.left, there >= self.left) {
            (true, true) => here <= there,
            (false, false) => here >= there,
            (fits, _) => fits,
        }
    }
}
