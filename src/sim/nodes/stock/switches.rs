// SPDX-License-Identifier: GPL-3.0-or-later
//! topology/tree (`plugins/topology/tree/eval_nodes_tree.c` `_eval_nodes_topo` and
//! `_topo_choose_best_switch`, 24.05.3 and later).

use phalanx_core::topology::Topology;

use super::ByLeaf;

/// Switches by position in Slurm's table.
#[derive(Debug, Clone)]
pub(super) struct Switches {
    parent: Vec<Option<u32>>,
    level: Vec<u32>,
    /// The switches above each leaf, itself first.
    above: Vec<Vec<u32>>,
}

/// Nodes that are left below each switch while leaves are taken one after another.
struct Greedy<'a> {
    switches: &'a Switches,
    count: Vec<u32>,
    /// Links from the leaves taken so far.
    distance: Vec<u64>,
    missing: u32,
}

impl Switches {
    pub(super) fn new(topology: &Topology) -> Self {
        let leaves = 0..u32::try_from(topology.leaf_count()).unwrap_or(0);
        Self {
            parent: topology.domains().iter().map(|domain| domain.parent).collect(),
            level: topology.domains().iter().map(|domain| domain.level).collect(),
            above: leaves.map(|leaf| topology.above(leaf).collect()).collect(),
        }
    }

    fn above(&self, leaf: u32) -> &[u32] {
        self.above.get(leaf as usize).map_or(&[], Vec::as_slice)
    }

    fn of_leaf(&self, leaf: u32) -> usize {
        self.above(leaf).first().map_or(usize::MAX, |at| *at as usize)
    }

    fn level(&self, switch: u32) -> u32 {
        self.level.get(switch as usize).copied().unwrap_or(0)
    }

    pub(super) fn is_below(&self, leaf: u32, switch: u32) -> bool {
        self.above(leaf).contains(&switch)
    }

    fn counts(&self, by_leaf: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
        let mut counts = vec![0; self.level.len()];
        for (leaf, count) in by_leaf {
            for &switch in self.above(leaf) {
                if let Some(slot) = counts.get_mut(switch as usize) {
                    *slot += count;
                }
            }
        }
        counts
    }

    pub(super) fn holds(&self, by_leaf: &[u32], wanted: u32) -> bool {
        self.counts((0u32..).zip(by_leaf.iter().copied())).iter().any(|count| *count >= wanted)
    }

    /// The switch below which the nodes are chosen: the last of a level as high, with nodes as
    /// light, that has enough. `on`: weight, node, leaf.
    pub(super) fn top(&self, on: &[(u32, u32, u32)], wanted: u32) -> Option<u32> {
        let counts = self.counts(on.iter().map(|(.., leaf)| (*leaf, 1)));
        let mut lightest = vec![u32::MAX; self.level.len()];
        for &(weight, _, leaf) in on {
            for &switch in self.above(leaf) {
                if let Some(slot) = lightest.get_mut(switch as usize) {
                    *slot = weight.min(*slot);
                }
            }
        }
        let mut top: Option<(u32, u32, u32)> = None;
        for (switch, (count, weight)) in (0u32..).zip(counts.into_iter().zip(lightest)) {
            let level = self.level(switch);
            let better = |&(_, best, light): &(u32, u32, u32)| level >= best && weight <= light;
            if count >= wanted && top.as_ref().is_none_or(better) {
                top = Some((switch, level, weight));
            }
        }
        top.map(|(switch, ..)| switch)
    }

    /// Number of free nodes of each leaf that Slurm takes; first those beside nodes that it has
    /// anyway, on the leaves `held`.
    pub(super) fn greedy(
        &self,
        held: &[u32],
        free: &ByLeaf,
        missing: u32,
    ) -> Option<Vec<(u32, u32)>> {
        let size = |leaf: &u32| {
            free.get(leaf).map_or(0, |nodes| u32::try_from(nodes.len()).unwrap_or(u32::MAX))
        };
        let mut greedy = Greedy {
            switches: self,
            count: self.counts(free.keys().map(|leaf| (*leaf, size(leaf)))),
            distance: vec![0; self.above.len()],
            missing,
        };
        let mut taken = Vec::new();
        for &leaf in held {
            greedy.add_distance(leaf);
            greedy.take(leaf, size(&leaf), &mut taken);
        }
        let mut left: Vec<u32> =
            free.keys().copied().filter(|leaf| held.binary_search(leaf).is_err()).collect();
        while greedy.missing > 0 {
            let best = greedy.best(&left)?;
            let leaf = *left.get(best)?;
            left.remove(best);
            greedy.add_distance(leaf);
            greedy.take(leaf, size(&leaf), &mut taken);
        }
        Some(taken)
    }

    /// Links between two leaves of one tree.
    fn links(&self, from: u32, to: u32) -> Option<u64> {
        let to = self.above(to);
        let meet = |(up, switch): (usize, &u32)| {
            let down = to.iter().position(|other| other == switch)?;
            u64::try_from(up + down).ok()
        };
        self.above(from).iter().enumerate().find_map(meet)
    }
}

impl Greedy<'_> {
    fn take(&mut self, leaf: u32, size: u32, taken: &mut Vec<(u32, u32)>) {
        let count = size.min(self.missing);
        if count > 0 {
            taken.push((leaf, count));
            self.missing -= count;
        }
        for &switch in self.switches.above(leaf) {
            if let Some(slot) = self.count.get_mut(switch as usize) {
                *slot = slot.saturating_sub(size);
            }
        }
    }

    fn add_distance(&mut self, from: u32) {
        for (leaf, slot) in (0u32..).zip(&mut self.distance) {
            let far = self.switches.links(from, leaf);
            *slot = far.map_or(u64::MAX, |links| slot.saturating_add(links));
        }
    }

    /// Position among `left` of the leaf that comes next.
    fn best(&self, left: &[u32]) -> Option<usize> {
        let far = |leaf: u32| self.distance.get(leaf as usize).copied().unwrap_or(u64::MAX);
        let mut best: Option<(usize, u32)> = None;
        for (at, &leaf) in left.iter().enumerate() {
            if far(leaf) == u64::MAX {
                continue;
            }
            let Some((_, other)) = best else {
                best = Some((at, leaf));
                continue;
            };
            let (order, fits) = self.compare(leaf, other);
            let (here, there) = (far(leaf), far(other));
            if (here < there && fits) || (here == there && order > 0) {
                best = Some((at, leaf));
            }
        }
        best.map(|(at, _)| at)
    }

    /// Compares leaves: above 0 if `first` is better; whether it or a switch above holds the rest.
    fn compare(&self, first: u32, second: u32) -> (i32, bool) {
        let of = |leaf| u32::try_from(self.switches.of_leaf(leaf)).unwrap_or(u32::MAX);
        let count = |switch: u32| self.count.get(switch as usize).copied().unwrap_or(0);
        let parent = |switch: u32| self.switches.parent.get(switch as usize).copied().flatten();
        let (mut i, mut j) = (of(first), of(second));
        loop {
            let (a, b) = (count(i), count(j));
            let (fits, other) = (a >= self.missing, b >= self.missing);
            if fits != other {
                return (if fits { 1 } else { -1 }, fits);
            }
            if fits && a != b {
                return (if a < b { 1 } else { -1 }, fits);
            }
            match (parent(i), parent(j)) {
                (Some(up), Some(beside)) if !fits && up != beside => (i, j) = (up, beside),
                _ => {
                    let lower = self.switches.level(j).cmp(&self.switches.level(i));
                    return (a.cmp(&b).then(lower) as i32, fits);
                }
            }
        }
    }
}
