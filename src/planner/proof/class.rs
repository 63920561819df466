// SPDX-License-Identifier: GPL-3.0-or-later
//! Times from which each node could give a need, kept in order.

use super::ends::{NEVER, Second};
use crate::place::Candidates;
use phalanx_core::NodeIdx;
use phalanx_core::shape::Need;

/// Times of all nodes for one need.
#[derive(Debug, Clone)]
pub(super) struct Class {
    pub(super) need: Need,
    /// Changes that are in `earliest`.
    pub(super) seen: usize,
    /// Number of the last question about the need.
    pub(super) asked: u64,
    earliest: Vec<Second>,
    /// Nodes by that time, then by number; not those of [`NEVER`].
    order: Vec<NodeIdx>,
}

impl Class {
    /// Times of so many nodes, none known yet.
    pub(super) fn new(need: Need, nodes: usize) -> Self {
        Self { need, seen: 0, asked: 0, earliest: vec![NEVER; nodes], order: Vec::new() }
    }

    /// Earliest time of a node; never for a number beyond the table, which a bitmap may have.
    pub(super) fn earliest_on(&self, node: NodeIdx) -> Second {
        self.earliest.get(node.at()).copied().unwrap_or(NEVER)
    }

    /// The N-th smallest of the candidates' times, with N = `count`, at least 1.
    pub(super) fn nth(&self, count: usize, candidates: Candidates<'_>) -> Second {
        let words = candidates.words();
        let mut candidates = self.order.iter().filter(|node| has(words, **node));
        candidates.nth(count - 1).map_or(NEVER, |node| self.earliest_on(*node))
    }

    /// The nodes that can give the need at `time`.
    pub(super) fn until(&self, time: Second) -> &[NodeIdx] {
        &self.order[..self.order.partition_point(|node| self.earliest_on(*node) <= time)]
    }

    /// Sets all times anew.
    pub(super) fn renew_all(&mut self, time_of: impl Fn(NodeIdx, &Need) -> Second) {
        for (node, earliest) in self.earliest.iter_mut().enumerate() {
            *earliest = time_of(NodeIdx::new(node), &self.need);
        }
        let known = (0..self.earliest.len()).filter(|node| self.earliest[*node] < NEVER);
        self.order = known.map(NodeIdx::new).collect();
        self.sort();
    }

    /// Sets the times of some nodes anew.
    pub(super) fn renew(&mut self, nodes: &[NodeIdx], time_of: impl Fn(NodeIdx, &Need) -> Second) {
        let mut moved = Vec::new();
        for node in nodes {
            let Some(earliest) = self.earliest.get_mut(node.at()) else { continue };
            let before = std::mem::replace(earliest, time_of(*node, &self.need));
            if *earliest != before {
                moved.push(*node);
            }
        }
        if moved.is_empty() {
            return;
        }
        moved.sort_unstable();
        moved.dedup();
        self.order.retain(|node| moved.binary_search(node).is_err());
        moved.retain(|node| self.earliest[node.at()] < NEVER);
        self.order.append(&mut moved);
        self.sort();
    }

    /// Sorts the nodes, which takes little where most are in order.
    fn sort(&mut self) {
        let earliest = &self.earliest;
        self.order.sort_by_key(|node| (earliest[node.at()], *node));
    }
}

/// Whether a bitmap has the node.
pub(super) fn has(words: &[u64], node: NodeIdx) -> bool {
    words.get(node.at() / 64).is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
}
