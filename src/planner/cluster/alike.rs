// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes by equal usage, so that what a job could have is worked out once for all nodes that are
//! used alike.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;

/// No kind is known: the usage has changed since [`Alike::settle`].
const CHANGED: u32 = u32::MAX;
/// Number of kinds beyond the number of nodes at which kinds without a node are forgotten.
const SPARE: usize = 64;

/// The nodes by equal usage. A change costs a note; [`settle`](Self::settle) looks the usage up.
#[derive(Debug, Clone, Default)]
pub struct Alike {
    /// Kind of each node, or [`CHANGED`].
    of: Vec<u32>,
    changed: Vec<NodeIdx>,
    is_wanted: bool,
    kinds: HashMap<NodeUsage, u32, FixedState>,
}

impl Alike {
    /// Makes a table in which the next [`settle`](Self::settle) looks all usages up.
    pub(super) fn new(nodes: usize) -> Self {
        let of = vec![CHANGED; nodes];
        let changed = (0..nodes).map(NodeIdx::new).collect();
        Self { of, changed, ..Self::default() }
    }

    /// Notes that the node's usage changed.
    pub(super) fn change(&mut self, node: NodeIdx) {
        if let Some(kind) = self.of.get_mut(node.at()).filter(|kind| **kind != CHANGED) {
            *kind = CHANGED;
            self.changed.push(node);
        }
    }

    /// Asks the next [`settle`](Self::settle) to look up changed usages.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Looks up the usages that have changed, where the kinds were wanted since the last time.
    pub(super) fn settle(&mut self, usages: &[NodeUsage]) {
        if !std::mem::take(&mut self.is_wanted) {
            return;
        }
        if self.kinds.len() > self.of.len() + SPARE {
            *self = Self::new(self.of.len());
        }
        for node in std::mem::take(&mut self.changed) {
            let (Some(of), Some(usage)) = (self.of.get_mut(node.at()), usages.get(node.at()))
            else {
                continue;
            };
            let next = u32::try_from(self.kinds.len()).unwrap_or(CHANGED);
            *of = match self.kinds.get(usage) {
                Some(kind) => *kind,
                None => *self.kinds.entry(usage.clone()).or_insert(next),
            };
        }
    }

    /// Kind of the node: nodes of one kind have equal usage. `None`: its usage has changed.
    pub fn of(&self, node: NodeIdx) -> Option<usize> {
        self.of.get(node.at()).filter(|kind| **kind != CHANGED).map(|kind| *kind as usize)
    }

    /// Number of kinds.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }
}
