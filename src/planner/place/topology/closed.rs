// SPDX-License-Identifier: GPL-3.0-or-later
//! Blocks that a job keeps from all others: `--exclusive=topo`, or `ExclusiveTopo` of its partition
//! (Slurm 24.05 and later).
//!
//! Stock leaves their nodes among the candidates and refuses them later. Which topology the
//! partition of such a job uses is not told: the blocks of every topology count.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use phalanx_core::NodeSet;
use phalanx_core::topology::Kind;

/// The closed blocks.
#[derive(Debug)]
pub(in crate::place) struct Closed {
    /// Jobs that close the blocks.
    jobs: BTreeSet<u32>,
    nodes: NodeSet,
}

impl Closed {
    /// Collects the blocks that running jobs close.
    pub(in crate::place) fn new(cluster: &Cluster) -> Self {
        let closing = cluster.jobs().values().filter(|job| job.closes_blocks).map(|job| job.id);
        let nodes = NodeSet::new(cluster.usages().len());
        let mut closed = Self { jobs: closing.collect(), nodes };
        closed.renew(cluster);
        closed
    }

    /// Follows that a job began, changed or ended.
    pub(in crate::place) fn follow(&mut self, cluster: &Cluster, id: u32) {
        let changed = match cluster.jobs().get(&id) {
            Some(job) if job.closes_blocks => {
                self.jobs.insert(id);
                true
            }
            _ => self.jobs.remove(&id),
        };
        if changed {
            self.renew(cluster);
        }
    }

    /// Removes the nodes of closed blocks.
    pub(in crate::place) fn drop_from(&self, nodes: &mut NodeSet) {
        if !self.jobs.is_empty() {
            nodes.subtract(&self.nodes);
        }
    }

    fn renew(&mut self, cluster: &Cluster) {
        self.nodes.clear();
        let table = cluster.table();
        let blocks = || table.topologies.iter().filter(|t| t.kind() == Kind::Block);
        for job in self.jobs.iter().filter_map(|id| cluster.jobs().get(id)) {
            for (topology, held) in blocks().flat_map(|t| job.held.iter().map(move |h| (t, h))) {
                let leaf = topology.leaf_of(held.node);
                self.nodes
                    .extend(leaf.into_iter().flat_map(|leaf| topology.nodes_of(leaf)).copied());
            }
        }
    }
}
