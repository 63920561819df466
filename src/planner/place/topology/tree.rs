// SPDX-License-Identifier: GPL-3.0-or-later
//! Switches, laid out for the choice of leaves.

use phalanx_core::number::as_u32;
use phalanx_core::topology::Topology;

/// Rules of Slurm's choice, which changed in 24.05.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// 22.05 to 24.05.2.
    Old,
    /// 24.05.3 and later.
    New,
}

impl Rules {
    /// Returns the rules of a release as in [`Parts::slurm`](phalanx_core::topology::Parts::slurm).
    fn of(slurm: u32) -> Self {
        if slurm != 0 && slurm < 0x0018_0503 { Self::Old } else { Self::New }
    }
}

/// Switches, laid out for the choice.
#[derive(Debug)]
pub struct Tree {
    rules: Rules,
    parent: Vec<Option<u32>>,
    level: Vec<u32>,
    /// The domains above each leaf, starting with the leaf.
    above: Vec<Vec<u32>>,
    /// The leaves below each domain, in Slurm's order.
    below: Vec<Vec<u32>>,
    /// Domains without a parent.
    pub(super) roots: Vec<u32>,
    /// Whether one of the switches is above all nodes.
    pub(in crate::place) joins_all: bool,
}

impl Tree {
    /// The switches of a topology.
    pub fn new(topology: &Topology) -> Self {
        let domains = topology.domains();
        let leaves = 0..as_u32(topology.leaf_count());
        let above: Vec<Vec<u32>> = leaves.map(|leaf| topology.above(leaf).collect()).collect();
        let mut below = vec![Vec::new(); domains.len()];
        for (leaf, above) in (0u32..).zip(&above) {
            for &domain in above {
                below[domain as usize].push(leaf);
            }
        }
        let roots = (0u32..).zip(domains).filter(|(_, d)| d.parent.is_none());
        let roots: Vec<u32> = roots.map(|(at, _)| at).collect();
        let is_leaf = |leaf: &u32| (*leaf as usize) < topology.leaf_count();
        Self {
            joins_all: roots.len() == 1 && topology.leaf_by_node().iter().all(is_leaf),
            rules: Rules::of(topology.parts().slurm),
            parent: domains.iter().map(|domain| domain.parent).collect(),
            level: domains.iter().map(|domain| domain.level).collect(),
            roots,
            above,
            below,
        }
    }

    pub(super) fn domain_count(&self) -> usize {
        self.parent.len()
    }

    pub(super) fn leaf_count(&self) -> usize {
        self.above.len()
    }

    /// Rules of the Slurm release.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The leaves below a switch, in Slurm's order.
    pub fn below(&self, domain: u32) -> &[u32] {
        &self.below[domain as usize]
    }

    /// The switches above a leaf, starting with the leaf.
    pub fn above(&self, leaf: u32) -> &[u32] {
        &self.above[leaf as usize]
    }

    pub(super) fn domain_of(&self, leaf: u32) -> u32 {
        self.above[leaf as usize][0]
    }

    /// Level of a switch.
    pub fn level(&self, domain: u32) -> u32 {
        self.level[domain as usize]
    }

    pub(super) fn parent(&self, domain: u32) -> Option<u32> {
        self.parent[domain as usize]
    }

    /// Number of links between two leaves; `None` if nothing joins the leaves.
    pub(super) fn hops(&self, from: u32, to: u32) -> Option<u32> {
        let (from, to) = (self.above(from), self.above(to));
        let meet = |(up, domain)| Some(up + to.iter().position(|other| other == domain)?);
        let hops = from.iter().enumerate().find_map(meet)?;
        u32::try_from(hops).ok()
    }

    /// Level of the lowest domain above all of the leaves.
    pub(super) fn common_level(&self, leaves: &[u32]) -> Option<u32> {
        let (&first, others) = leaves.split_first()?;
        let joins = |domain: &&u32| others.iter().all(|&leaf| self.above(leaf).contains(domain));
        self.above(first).iter().find(joins).map(|&domain| self.level(domain))
    }
}
