// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes by their cores, on which it depends what a node gives for a request.

use crate::usage::NodeUsage;
use phalanx_core::layout::NodeCores;
use phalanx_core::{NodeIdx, NodeSet};

/// The nodes in groups of equal [`NodeCores`].
#[derive(Debug)]
pub(super) struct CoreKinds {
    /// Cores, and the nodes that have these.
    pub kinds: Vec<(NodeCores, NodeSet)>,
    /// Fewest CPUs and MiB of any node.
    pub least: (u64, u64),
    /// Most CPUs of any node.
    pub most_cpus: u64,
}

impl CoreKinds {
    pub(super) fn new(usages: &[NodeUsage]) -> Self {
        let mut kinds: Vec<(NodeCores, NodeSet)> = Vec::new();
        for (at, usage) in usages.iter().enumerate() {
            let known = kinds.iter().position(|(cores, _)| *cores == usage.cores);
            let kind = known.unwrap_or_else(|| {
                kinds.push((usage.cores, NodeSet::new(usages.len())));
                kinds.len() - 1
            });
            if let Some((_, nodes)) = kinds.get_mut(kind) {
                nodes.insert(NodeIdx::new(at));
            }
        }
        let known = || usages.iter().filter(|usage| usage.cpus.total > 0);
        let cpus = || known().map(|usage| usage.cpus.total);
        let memory = known().map(|usage| usage.memory_mb.total).min();
        let least = (cpus().min().unwrap_or(0), memory.unwrap_or(0));
        Self { kinds, least, most_cpus: cpus().max().unwrap_or(0) }
    }
}
