// SPDX-License-Identifier: GPL-3.0-or-later
//! The leaf switches or blocks that Slurm itself chooses, by its own steps: written apart from
//! the planner, which is compared with it.

mod blocks;
mod switches;

use std::collections::BTreeMap;

use blocks::Blocks;
use phalanx_core::topology::{Kind, Topology};
use switches::Switches;

/// Slurm's rule for one topology.
#[derive(Debug, Clone)]
pub(super) struct Stock {
    topology: Topology,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Tree(Switches),
    Block(Blocks),
}

/// Candidates by leaf, ascending.
type ByLeaf = BTreeMap<u32, Vec<u32>>;

impl Stock {
    /// Makes the rule of a topology; `None` if nodes are alike there.
    pub(super) fn new(topology: &Topology) -> Option<Self> {
        let rule = match topology.kind() {
            Kind::Tree if topology.has_leaves() => Rule::Tree(Switches::new(topology)),
            Kind::Block if topology.has_leaves() => Rule::Block(Blocks::new(topology)),
            _ => return None,
        };
        Some(Self { topology: topology.clone(), rule })
    }

    /// Whether a job of `wanted` nodes may run on some of these.
    pub(super) fn holds(&self, nodes: &[u32], wanted: u32) -> bool {
        let mut by_leaf = vec![0; self.topology.leaf_count()];
        for leaf in nodes.iter().filter_map(|node| self.topology.leaf_of((*node).into())) {
            by_leaf.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
        }
        match &self.rule {
            Rule::Tree(switches) => switches.holds(&by_leaf, wanted),
            Rule::Block(blocks) => blocks.place_one(&by_leaf, wanted).is_some(),
        }
    }

    /// The nodes of a job among the candidates with room, given by weight and index, lightest
    /// first.
    pub(super) fn choose(&self, fitting: &[(u32, u32)], wanted: u32) -> Option<Vec<u32>> {
        if fitting.len() < wanted as usize {
            return None;
        }
        match &self.rule {
            Rule::Tree(switches) => self.on_switches(switches, fitting, wanted),
            Rule::Block(blocks) => self.in_blocks(blocks, fitting, wanted),
        }
    }

    fn on_switches(
        &self,
        switches: &Switches,
        fitting: &[(u32, u32)],
        wanted: u32,
    ) -> Option<Vec<u32>> {
        let leaf = |node: u32| self.topology.leaf_of(node.into());
        let on: Vec<(u32, u32, u32)> = fitting
            .iter()
            .filter_map(|&(weight, node)| Some((weight, node, leaf(node)?)))
            .collect();
        let top = switches.top(&on, wanted)?;
        let below: Vec<(u32, u32, u32)> =
            on.into_iter().filter(|(.., leaf)| switches.is_below(*leaf, top)).collect();
        let last = below.get(wanted.checked_sub(1)? as usize)?.0;
        let mut chosen = Vec::with_capacity(wanted as usize);
        let mut held: Vec<u32> = Vec::new();
        let mut free = ByLeaf::new();
        for (weight, node, leaf) in below {
            if weight < last {
                chosen.push(node);
                held.push(leaf);
            } else if weight == last {
                free.entry(leaf).or_default().push(node);
            }
        }
        held.sort_unstable();
        held.dedup();
        let taken = switches.greedy(&held, &free, wanted - u32::try_from(chosen.len()).ok()?)?;
        for (leaf, count) in taken {
            chosen.extend(free.get(&leaf)?.iter().take(count as usize));
        }
        chosen.sort_unstable();
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
                if let Some(count) = counts.get_mut(leaf as usize) {
                    *count += 1;
                }
                by_leaf.entry(leaf).or_default().push(node);
            }
            if let Some(take) = blocks.place_one(&counts, wanted) {
                let of = |(leaf, nodes): (&u32, &Vec<u32>)| {
                    let count = take.get(*leaf as usize).copied().unwrap_or(0);
                    nodes.iter().take(count as usize).copied().collect::<Vec<u32>>()
                };
                let mut chosen: Vec<u32> = by_leaf.iter().flat_map(of).collect();
                chosen.sort_unstable();
                return Some(chosen);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
