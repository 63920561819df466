// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes that fail what the balance engine does not know: GRES types, memory
//! or nodes that must be wholly unused.
//!
//! Kept side by side by node instead of inside each [`NodeUsage`], so that a
//! question over 10,000 nodes reads a few dense arrays.

use crate::usage::NodeUsage;
use phalanx_core::shape::Need;
use phalanx_core::{NodeIdx, NodeSet};

/// Conditions by node that the balance engine does not know.
#[derive(Debug)]
pub(super) struct Unfit {
    /// Nodes with a job.
    busy: NodeSet,
    /// Nodes with some memory in use.
    memory_used: NodeSet,
    /// Free count by GRES type and node.
    free: Vec<Vec<u64>>,
}

impl Unfit {
    /// The arrays for nodes with these usages.
    pub(super) fn new(usages: &[NodeUsage]) -> Self {
        let types = usages.iter().map(|usage| usage.types.len()).max().unwrap_or(0);
        let mut unfit = Self {
            busy: NodeSet::new(usages.len()),
            memory_used: NodeSet::new(usages.len()),
            free: vec![vec![0; usages.len()]; types],
        };
        for (node, usage) in usages.iter().enumerate() {
            unfit.set(NodeIdx::new(node), usage);
        }
        unfit
    }

    /// Updates the conditions of a node to its use.
    pub(super) fn set(&mut self, node: NodeIdx, usage: &NodeUsage) {
        let put = |set: &mut NodeSet, member: bool| {
            if member { set.insert(node) } else { set.remove(node) }
        };
        put(&mut self.busy, usage.jobs > 0);
        put(&mut self.memory_used, usage.memory_mb.used > 0);
        for (free, level) in self.free.iter_mut().zip(&usage.types) {
            if let Some(free) = free.get_mut(node.at()) {
                *free = level.free();
            }
        }
    }

    /// Leaves only idle nodes.
    pub(super) fn drop_busy(&self, nodes: &mut NodeSet) {
        nodes.subtract(&self.busy);
    }

    /// Removes from `candidates` nodes that cannot give `need` at present.
    pub(super) fn drop_from(&self, candidates: &mut NodeSet, need: &Need) {
        if need.whole {
            candidates.subtract(&self.busy);
        }
        if need.all_memory {
            candidates.subtract(&self.memory_used);
        }
        for &(_, gres_type, count) in &need.gres {
            let Some(gres_type) = gres_type else { continue };
            let free = self.free.get(gres_type.at());
            let short = |node: &NodeIdx| {
                free.and_then(|free| free.get(node.at())).is_none_or(|free| *free < count)
            };
            let drop: Vec<NodeIdx> = candidates.iter().filter(short).collect();
            for node in drop {
                candidates.remove(node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Level;

    fn usage(jobs: u32, memory_used: u64, gpus_used: u64) -> NodeUsage {
        NodeUsage {
            memory_mb: Level { total: 100, used: memory_used },
            types: vec![Level { total: 4, used: gpus_used }],
            jobs,
            ..NodeUsage::default()
        }
    }

    fn left(unfit: &Unfit, need: &Need) -> Vec<usize> {
        let mut nodes = NodeSet::full(3);
        unfit.drop_from(&mut nodes, need);
        nodes.iter().map(NodeIdx::at).collect()
    }

    #[test]
    fn each_condition_drops_its_nodes_and_follows_changes() {
        let mut unfit = Unfit::new(&[usage(0, 0, 0), usage(1, 0, 3), usage(1, 50, 0)]);
        assert_eq!(left(&unfit, &Need::default()), [0, 1, 2]);
        assert_eq!(left(&unfit, &Need { whole: true, ..Need::default() }), [0]);
        assert_eq!(left(&unfit, &Need { all_memory: true, ..Need::default() }), [0, 1]);
        let typed =
            |t: u32, n| Need { gres: vec![(0.into(), Some(t.into()), n)], ..Need::default() };
        assert_eq!(left(&unfit, &typed(0, 2)), [0, 2]);
        assert_eq!(left(&unfit, &typed(1, 1)), [0usize; 0]);
        unfit.set(1.into(), &usage(0, 0, 0));
        unfit.set(0.into(), &usage(1, 1, 4));
        assert_eq!(left(&unfit, &Need { whole: true, ..Need::default() }), [1]);
        assert_eq!(left(&unfit, &typed(0, 1)), [1, 2]);
    }
}
