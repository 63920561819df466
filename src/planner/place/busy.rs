// SPDX-License-Identifier: GPL-3.0-or-later
//! The ends of the jobs on each node, as Slurm expects them.

use phalanx_core::NodeIdx;

use crate::cluster::{Change, Cluster};
use phalanx_methods::balance::Engine;

/// Ends of the jobs by node, Unix seconds, ascending; 0 for a job without a known end.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy {
    ends: Vec<Vec<u64>>,
}

impl Busy {
    /// The ends of all jobs of a cluster.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut busy = Self { ends: vec![Vec::new(); cluster.usages().len()] };
        for job in cluster.jobs().values() {
            job.held.iter().for_each(|held| _ = busy.take(held.node, job.end_s));
        }
        busy
    }

    /// Adds a job that begins on a node; returns the node's last end.
    pub(super) fn take(&mut self, node: NodeIdx, end_s: u64) -> u64 {
        let Some(ends) = self.ends_on(node) else { return 0 };
        ends.insert(ends.partition_point(|end| *end < end_s), end_s);
        ends.last().copied().unwrap_or(0)
    }

    /// Removes a job with a given end from a node; returns the node's last end.
    pub(super) fn give(&mut self, node: NodeIdx, end_s: u64) -> u64 {
        let Some(ends) = self.ends_on(node) else { return 0 };
        if let Ok(at) = ends.binary_search(&end_s) {
            ends.remove(at);
        }
        ends.last().copied().unwrap_or(0)
    }

    /// Ends of the jobs on a node, each known to the cluster's table.
    fn ends_on(&mut self, node: NodeIdx) -> Option<&mut Vec<u64>> {
        debug_assert!(node.at() < self.ends.len(), "node {node} of {}", self.ends.len());
        self.ends.get_mut(node.at())
    }

    /// Follows a change of a job with a given end, before the engine follows the node's use.
    pub(super) fn follow(&mut self, engine: &mut Engine, change: Change<'_>, end_s: u64) {
        let (node, last_s) = match change {
            Change::Take(held) => (held.node, self.take(held.node, end_s)),
            Change::Give(held) => (held.node, self.give(held.node, end_s)),
        };
        engine.note_last_end(node, last_s);
    }

    /// Last end on a node; 0: none is known.
    pub(super) fn last_s(&self, node: NodeIdx) -> u64 {
        self.ends.get(node.at()).and_then(|ends| ends.last()).copied().unwrap_or(0)
    }
}
