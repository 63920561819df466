// SPDX-License-Identifier: GPL-3.0-or-later
//! The leaf switches or blocks that Slurm itself chooses, by its own steps, as the planner has them
//! to never take more.

use std::collections::BTreeMap;

use phalanx_core::topology::{Kind, Topology};
use phalanx_planner::place::{Blocks, Counts, Rules, Tree, place_one, tree_greedy};

/// Slurm's rule for one topology.
#[derive(Debug)]
pub(super) struct Stock {
    topology: Topology,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    /// `_eval_nodes_topo` and `_topo_choose_best_switch` of 24.05.3 and later.
    Tree(Tree),
    Block(Blocks),
}

/// Candidates by leaf, ascending.
type ByLeaf = BTreeMap<u32, Vec<u32>>;

impl Stock {
    /// Makes the rule of a topology; `None` if nodes are alike there.
    pub(super) fn new(topology: &Topology) -> Option<Self> {
        let rule = match topology.kind() {
            Kind::Tree if topology.has_leaves() => Rule::Tree(Tree::new(topology)),
            Kind::Block if topology.has_leaves() => Rule::Block(Blocks::new(topology)),
            _ => return None,
        };
        Some(Self { topology: topology.clone(), rule })
    }

    /// Whether a job of `wanted` nodes may run on some of these.
    pub(super) fn holds(&self, nodes: &[u32], wanted: u32) -> bool {
        let on = nodes.iter().filter_map(|node| self.topology.leaf_of((*node).into()));
        match &self.rule {
            Rule::Tree(tree) => self.below(tree, on).iter().any(|count| *count >= wanted),
            Rule::Block(blocks) => {
                let mut free = vec![0; self.topology.leaf_count()];
                for leaf in on {
                    free.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
                }
                self.in_each(blocks, &free, wanted).is_some()
            }
        }
    }

    /// The number of nodes below each switch, given by their leaves.
    fn below(&self, tree: &Tree, leaves: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut counts = vec![0; self.topology.domains().len()];
        for &switch in leaves.flat_map(|leaf| tree.above(leaf)) {
            counts.get_mut(switch as usize).into_iter().for_each(|count| *count += 1);
        }
        counts
    }

    /// Nodes taken of each base block, where so many are free there; `None`: the job waits.
    fn in_each(&self, blocks: &Blocks, free: &[u32], wanted: u32) -> Option<Vec<u32>> {
        place_one(blocks, &vec![0; self.topology.leaf_count()], free, wanted)
    }

    /// The nodes of a job among the candidates with room, given by weight and index, lightest
    /// first.
    pub(super) fn choose(&self, fitting: &[(u32, u32)], wanted: u32) -> Option<Vec<u32>> {
        if fitting.len() < wanted as usize {
            return None;
        }
        let mut chosen = match &self.rule {
            Rule::Tree(tree) => self.on_switches(tree, fitting, wanted)?,
            Rule::Block(blocks) => self.in_blocks(blocks, fitting, wanted)?,
        };
        chosen.sort_unstable();
        Some(chosen)
    }

    /// The switch below which the nodes are chosen: the last of a level as high, with nodes as
    /// light, that has enough. `on`: weight, node, leaf.
    fn top(&self, tree: &Tree, on: &[(u32, u32, u32)], wanted: u32) -> Option<u32> {
        let counts = self.below(tree, on.iter().map(|(.., leaf)| *leaf));
        let mut lightest = vec![u32::MAX; counts.len()];
        for &(weight, _, leaf) in on {
            for &switch in tree.above(leaf) {
                let slot = lightest.get_mut(switch as usize);
                slot.into_iter().for_each(|slot| *slot = weight.min(*slot));
            }
        }
        let mut top: Option<(u32, u32, u32)> = None;
        for (switch, (count, weight)) in (0u32..).zip(counts.into_iter().zip(lightest)) {
            let level = tree.level(switch);
            let better = |&(_, best, light): &(u32, u32, u32)| level >= best && weight <= light;
            if count >= wanted && top.as_ref().is_none_or(better) {
                top = Some((switch, level, weight));
            }
        }
        top.map(|(switch, ..)| switch)
    }

    /// Nodes of the lightest classes and, of the last one, those beside them first.
    fn on_switches(&self, tree: &Tree, fitting: &[(u32, u32)], wanted: u32) -> Option<Vec<u32>> {
        let leaf = |node: u32| self.topology.leaf_of(node.into());
        let mut on: Vec<(u32, u32, u32)> = fitting
            .iter()
            .filter_map(|&(weight, node)| Some((weight, node, leaf(node)?)))
            .collect();
        let top = self.top(tree, &on, wanted)?;
        on.retain(|(.., leaf)| tree.above(*leaf).contains(&top));
        let last = on.get(wanted.checked_sub(1)? as usize)?.0;
        let (mut chosen, mut free) = (Vec::with_capacity(wanted as usize), ByLeaf::new());
        let none = || vec![0; self.topology.leaf_count()];
        let mut counts = Counts { forced: none(), free: none(), ..Counts::default() };
        for (weight, node, leaf) in on.into_iter().filter(|(weight, ..)| *weight <= last) {
            let of_leaf = free.entry(leaf).or_default();
            let list = if weight < last { &mut counts.forced } else { &mut counts.free };
            list.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
            if weight < last { &mut chosen } else { of_leaf }.push(node);
        }
        let leaves: Vec<u32> = free.keys().copied().collect();
        let is_held = |leaf: &u32| counts.forced.get(*leaf as usize) != Some(&0);
        let held: Vec<u32> = leaves.iter().copied().filter(is_held).collect();
        let beside = held.iter().filter_map(|leaf| counts.free.get(*leaf as usize)).sum();
        let missing = wanted.saturating_sub(u32::try_from(chosen.len()).ok()?);
        let missing = missing.saturating_sub(beside);
        let more = tree_greedy(tree, Rules::New, &leaves, &counts, missing)?;
        let nodes = held.iter().chain(&more).filter_map(|leaf| free.get(leaf)).flatten();
        let left = (wanted as usize).saturating_sub(chosen.len());
        chosen.extend(nodes.take(left));
        Some(chosen)
    }

    fn in_blocks(&self, blocks: &Blocks, fitting: &[(u32, u32)], wanted: u32) -> Option<Vec<u32>> {
        let leaf = |node: u32| self.topology.leaf_of(node.into());
        if fitting.iter().all(|(_, node)| leaf(*node).is_none()) {
            return Some(fitting.iter().take(wanted as usize).map(|(_, node)| *node).collect());
        }
        // Classes of Weight, lightest first, until they suffice.
        let mut counts = vec![0; self.topology.leaf_count()];
        let mut by_leaf = ByLeaf::new();
        for class in fitting.chunk_by(|a, b| a.0 == b.0) {
            for &(_, node) in class {
                let Some(leaf) = leaf(node) else { continue };
                counts.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
                by_leaf.entry(leaf).or_default().push(node);
            }
            if let Some(take) = self.in_each(blocks, &counts, wanted) {
                let of = |(leaf, nodes): (&u32, &Vec<u32>)| {
                    let count = take.get(*leaf as usize).copied().unwrap_or(0);
                    nodes.iter().take(count as usize).copied().collect::<Vec<u32>>()
                };
                return Some(by_leaf.iter().flat_map(of).collect());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
