// SPDX-License-Identifier: GPL-3.0-or-later
//! Switches and blocks that nodes share.
//!
//! A [`Topology`] comes from the text that Slurm prints ([`parse`]) or from a
//! topology.conf ([`parse_conf`]). Its *domains* are switches, or blocks with the
//! aggregated blocks above them; those of level 0 are its *leaves*. A node is on at
//! most one leaf: where Slurm names it on several, the first counts.

mod ask;
mod file;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use ask::TopologyAsk;
pub use file::{check_conf, node_names, parse_file};
pub use parse::{TopologyError, parse, parse_conf};

use crate::NodeIdx;

/// Index that stands for no leaf or no parent.
const NONE: u32 = u32::MAX;

/// The ways in which Slurm's topology plugins choose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TopologyKind"))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nodes are alike: `flat`, to 23.11 `none` or `default`, and `3d_torus`.
    #[default]
    Flat,
    /// Switches above switches, `tree`; there may be several without one above.
    Tree,
    /// Blocks and aggregates of a power of two of them, `block`.
    Block,
    /// A plugin whose rules Phalanx does not know.
    Other,
    /// The topology could not be read.
    Unknown,
}

impl Kind {
    /// The kind of a plugin, named with or without `topology/`.
    #[must_use]
    pub fn of_plugin(plugin: &str) -> Self {
        match plugin.strip_prefix("topology/").unwrap_or(plugin) {
            "flat" | "none" | "default" | "3d_torus" => Self::Flat,
            "tree" => Self::Tree,
            "block" => Self::Block,
            _ => Self::Other,
        }
    }
}

/// A switch, a block or an aggregated block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Name of the domain.
    pub name: Arc<str>,
    /// 0: nodes are attached to it. Of a switch one more than the highest below; of an
    /// aggregated block the logarithm of its number of blocks.
    pub level: u32,
    /// Position of the domain above, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Nodes attached to the domain, ascending; of level 0 only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeIdx>,
}

/// Parts from which a topology is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Name of the topology, `default` before 25.05.
    pub name: Arc<str>,
    /// Slurm's topology plugin, such as `tree`.
    pub plugin: Arc<str>,
    /// Way in which the plugin chooses.
    pub kind: Kind,
    /// Partitions that name no topology use this one.
    #[serde(default)]
    pub is_default: bool,
    /// Slurm's release, `0x160508` for 22.05.8; 0 if not known.
    #[serde(default)]
    pub slurm: u32,
    /// Size of the node table.
    pub table_len: u32,
    /// Switches in Slurm's order; or blocks in that order, then the aggregates.
    pub domains: Vec<Domain>,
    /// Nodes of a base block; 0 without blocks.
    #[serde(default)]
    pub block_size: u32,
    /// Levels that Slurm joins blocks to, ascending, the first 0; empty without blocks.
    #[serde(default)]
    pub block_levels: Vec<u32>,
    /// Some nodes that the text names and the node table does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_nodes: Vec<Arc<str>>,
}

/// A topology over the nodes of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Parts", into = "Parts")]
pub struct Topology {
    parts: Parts,
    /// Domain of each leaf, in Slurm's order.
    leaves: Vec<u32>,
    /// Leaf of each node.
    leaf_of: Vec<u32>,
}

impl From<Parts> for Topology {
    fn from(mut parts: Parts) -> Self {
        let count = parts.domains.len();
        let mut leaves = Vec::new();
        let mut leaf_of = vec![NONE; parts.table_len as usize];
        for (at, domain) in (0u32..).zip(&mut parts.domains) {
            domain.parent = domain.parent.filter(|&p| (p as usize) < count && p != at);
            if domain.level > 0 {
                domain.nodes.clear();
                continue;
            }
            let leaf = u32::try_from(leaves.len()).unwrap_or(NONE);
            leaves.push(at);
            domain.nodes.retain(|node| match leaf_of.get_mut(node.at()) {
                Some(slot) if *slot == NONE => {
                    *slot = leaf;
                    true
                }
                _ => false,
            });
            domain.nodes.sort_unstable();
        }
        Self { parts, leaves, leaf_of }
    }
}

impl From<Topology> for Parts {
    fn from(topology: Topology) -> Self {
        topology.parts
    }
}

impl Topology {
    /// Returns the parts from which the topology is made.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the topology's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.parts.name
    }

    /// Returns the way in which Slurm's plugin chooses.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.parts.kind
    }

    /// Whether the topology has switches or blocks, so that nodes differ by their place.
    #[must_use]
    pub fn has_leaves(&self) -> bool {
        matches!(self.parts.kind, Kind::Tree | Kind::Block) && !self.leaves.is_empty()
    }

    /// Switches or blocks, as in [`Parts::domains`].
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.parts.domains
    }

    /// Number of leaves.
    #[must_use]
    pub fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// Position among the domains of a leaf.
    #[must_use]
    pub fn domain_of(&self, leaf: u32) -> Option<u32> {
        self.leaves.get(leaf as usize).copied()
    }

    /// The leaf that the node is on.
    #[inline]
    #[must_use]
    pub fn leaf_of(&self, node: NodeIdx) -> Option<u32> {
        self.leaf_of.get(node.at()).copied().filter(|&leaf| leaf != NONE)
    }

    /// Leaf of each node of the table; `u32::MAX` without one.
    #[must_use]
    pub fn leaf_by_node(&self) -> &[u32] {
        &self.leaf_of
    }

    /// Name of a leaf; empty beyond the last.
    #[must_use]
    pub fn leaf_name(&self, leaf: u32) -> &str {
        self.leaf(leaf).map_or("", |domain| &domain.name)
    }

    /// Nodes of a leaf, ascending.
    #[must_use]
    pub fn nodes_of(&self, leaf: u32) -> &[NodeIdx] {
        self.leaf(leaf).map_or(&[], |domain| &domain.nodes)
    }

    fn leaf(&self, leaf: u32) -> Option<&Domain> {
        self.parts.domains.get(self.domain_of(leaf)? as usize)
    }

    /// The domains above a leaf, from the leaf itself upwards.
    pub fn above(&self, leaf: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |at: &u32| self.parts.domains.get(*at as usize)?.parent;
        let depth = crate::limits::TOPOLOGY_DEPTH_MAX + 1;
        std::iter::successors(self.domain_of(leaf), parent).take(depth)
    }

    /// The leaves of `nodes`, ascending, and the number of `nodes` on each.
    #[must_use]
    pub fn leaves(&self, nodes: impl IntoIterator<Item = NodeIdx>) -> Vec<(u32, u32)> {
        let mut on: Vec<u32> = nodes.into_iter().filter_map(|node| self.leaf_of(node)).collect();
        on.sort_unstable();
        let runs = on.chunk_by(|a, b| a == b);
        runs.map(|run| (run[0], u32::try_from(run.len()).unwrap_or(NONE))).collect()
    }

    /// The lowest domain above all of `leaves`; `None` if there is none.
    #[must_use]
    pub fn common(&self, leaves: impl IntoIterator<Item = u32>) -> Option<u32> {
        let mut leaves = leaves.into_iter();
        let mut common: Vec<u32> = self.above(leaves.next()?).collect();
        for leaf in leaves {
            let above: Vec<u32> = self.above(leaf).collect();
            common.retain(|domain| above.contains(domain));
        }
        common.first().copied()
    }

    /// Level of [`common`](Self::common).
    #[must_use]
    pub fn common_level(&self, leaves: impl IntoIterator<Item = u32>) -> Option<u32> {
        let domain = self.common(leaves)?;
        self.parts.domains.get(domain as usize).map(|domain| domain.level)
    }

    /// The leaves below each switch that has none above; of blocks all leaves. No job of several
    /// nodes lies on leaves of two regions.
    #[must_use]
    pub fn regions(&self) -> Vec<Vec<u32>> {
        let leaves = 0..u32::try_from(self.leaves.len()).unwrap_or(NONE);
        if self.parts.kind == Kind::Block {
            return vec![leaves.collect()];
        }
        let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for leaf in leaves {
            let root = self.above(leaf).last().unwrap_or(NONE);
            below.entry(root).or_default().push(leaf);
        }
        below.into_values().collect()
    }

    /// Fewest leaves of one region that give `wanted` nodes, where a leaf gives all of its `held`
    /// and any of its `free` nodes; `None` if no region does. Rules of blocks are not looked at.
    #[must_use]
    pub fn fewest(&self, held: &[u32], free: &[u32], wanted: u32) -> Option<u32> {
        let of = |list: &[u32], leaf: u32| list.get(leaf as usize).copied().unwrap_or(0);
        let fewest_of = |leaves: &Vec<u32>| {
            let (holding, others): (Vec<u32>, Vec<u32>) =
                leaves.iter().partition(|leaf| of(held, **leaf) > 0);
            let given: u32 = holding.iter().map(|&leaf| of(held, leaf) + of(free, leaf)).sum();
            let mut missing = wanted.saturating_sub(given);
            let mut used = u32::try_from(holding.len()).unwrap_or(NONE);
            let mut sizes: Vec<u32> = others.iter().map(|&leaf| of(free, leaf)).collect();
            sizes.sort_unstable();
            while missing > 0 {
                missing = missing.saturating_sub(sizes.pop().filter(|size| *size > 0)?);
                used += 1;
            }
            Some(used)
        };
        self.regions().iter().filter_map(fewest_of).min()
    }

    /// Nodes of the largest leaf.
    #[must_use]
    pub fn largest_leaf(&self) -> usize {
        let leaves = self.leaves.iter().filter_map(|&at| self.parts.domains.get(at as usize));
        leaves.map(|domain| domain.nodes.len()).max().unwrap_or(0)
    }
}
