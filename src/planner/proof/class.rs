// SPDX-License-Identifier: GPL-3.0-or-later
//! Times from which each node could give a need, in order where nothing changes them.

use super::ends::{NEVER, Second};
use crate::place::Candidates;
use phalanx_core::NodeIdx;
use phalanx_core::shape::Need;

/// Times of all nodes for one need.
#[derive(Debug, Clone)]
pub(super) struct Class {
    pub(super) need: Need,
    /// Number of changes that `earliest` has.
    pub(super) seen: usize,
    /// Number of the latest question about the need.
    pub(super) asked: u64,
    earliest: Vec<Second>,
    /// Nodes by the time from which they have room, then by number, without those at [`NEVER`].
    /// Made at the second question after a change: to sort takes as long as ten questions.
    order: Option<Vec<NodeIdx>>,
    /// Whether a question came since the last change.
    is_quiet: bool,
}

impl Class {
    /// Makes times for a number of nodes, none of them known.
    pub(super) fn new(need: Need, nodes: usize) -> Self {
        Self { need, seen: 0, asked: 0, earliest: vec![NEVER; nodes], order: None, is_quiet: false }
    }

    /// Earliest time of a node; never for a number beyond the table, which a bitmap may have.
    pub(super) fn earliest_on(&self, node: NodeIdx) -> Second {
        self.earliest.get(node.at()).copied().unwrap_or(NEVER)
    }

    /// Begins a question for a proof.
    pub(super) fn begin(&mut self) {
        if self.order.is_none() && std::mem::replace(&mut self.is_quiet, true) {
            self.sort();
        }
    }

    /// The N-th smallest of the candidates' times, with N = `count`, at least 1; `times` is scratch
    /// space.
    pub(super) fn nth(
        &self,
        count: usize,
        candidates: Candidates<'_>,
        times: &mut Vec<Second>,
    ) -> Second {
        if let Some(order) = &self.order {
            let words = candidates.words();
            let mut candidates = order.iter().filter(|node| has(words, **node));
            return candidates.nth(count - 1).map_or(NEVER, |node| self.earliest_on(*node));
        }
        times.clear();
        times.extend(candidates.iter().map(|node| self.earliest_on(node)));
        if times.len() < count {
            return NEVER;
        }
        *times.select_nth_unstable(count - 1).1
    }

    /// Calls `take` with each candidate that can give the need at `time`.
    pub(super) fn each_until(
        &self,
        time: Second,
        candidates: Candidates<'_>,
        mut take: impl FnMut(NodeIdx, Second),
    ) {
        let words = candidates.words();
        match &self.order {
            Some(order) => {
                let until = order.partition_point(|node| self.earliest_on(*node) <= time);
                let nodes = order[..until].iter().filter(|node| has(words, **node));
                nodes.for_each(|node| take(*node, self.earliest_on(*node)));
            }
            None => candidates.iter().for_each(|node| {
                let earliest = self.earliest_on(node);
                if earliest <= time {
                    take(node, earliest);
                }
            }),
        }
    }

    /// Computes the times of all nodes again.
    pub(super) fn renew_all(&mut self, time_of: impl Fn(NodeIdx, &Need) -> Second) {
        for (node, earliest) in self.earliest.iter_mut().enumerate() {
            *earliest = time_of(NodeIdx::new(node), &self.need);
        }
        (self.order, self.is_quiet) = (None, false);
    }

    /// Computes the times of some nodes again.
    pub(super) fn renew(&mut self, nodes: &[NodeIdx], time_of: impl Fn(NodeIdx, &Need) -> Second) {
        for node in nodes {
            let Some(earliest) = self.earliest.get_mut(node.at()) else { continue };
            let before = std::mem::replace(earliest, time_of(*node, &self.need));
            if *earliest != before {
                (self.order, self.is_quiet) = (None, false);
            }
        }
    }

    fn sort(&mut self) {
        let known = (0..self.earliest.len()).filter(|node| self.earliest[*node] < NEVER);
        let mut order: Vec<_> = known.map(NodeIdx::new).collect();
        order.sort_unstable_by_key(|node| (self.earliest[node.at()], *node));
        self.order = Some(order);
    }
}

/// Whether a bitmap has the node.
fn has(words: &[u64], node: NodeIdx) -> bool {
    words.get(node.at() / 64).is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
}
