// SPDX-License-Identifier: GPL-3.0-or-later
//! Parameters of a choice of nodes, and the classes of nodes that follow from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classes::{UpToClass, up_to};
use super::topology::TopologyPolicy;
use crate::cluster::Table;
use crate::measured::UNHEALTHY;
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_methods::balance::Params;

/// Parameters of the balance method, by dimension name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuning {
    /// All parameters but the weights, which depend on the cluster's dimensions.
    pub params: Params,
    /// Relative initial weights; empty means all equal.
    pub initial_weights: BTreeMap<String, f64>,
    /// Least gain for which a preference may use nodes of a heavier Weight while lighter ones hold
    /// the job, as [`leaf_cost`](Self::leaf_cost). `None`: none is enough. 0: Weight does not
    /// count.
    pub weight_cost: Option<f64>,
    /// Longest time that a job waits for preferred nodes where its method requires them; `None`:
    /// not at all.
    pub preference_hold_ms: Option<u64>,
    /// Longest wait of an array's task for planned nodes within a user's budget; `None`: none.
    pub brief_hold_ms: Option<u64>,
    /// Limits of the wait of gangs that are worth less than their cost; `None`: no wait.
    pub gang_hold: Option<GangHold>,
    /// Level of each node by name, 0 the best, by measured values: of nodes of one Weight, those of
    /// the least levels that hold the job are compared. A node without a level comes last. Nodes
    /// from level [`measured::UNHEALTHY`] on come after all others, whatever their Weight. Empty:
    /// no levels.
    ///
    /// [`measured::UNHEALTHY`]: crate::measured::UNHEALTHY
    pub levels: Arc<BTreeMap<Arc<str>, u32>>,
    /// How switches and blocks are used.
    pub topology: TopologyPolicy,
    /// Least gain for which a preference may use one leaf more than needed, per leaf: a share of
    /// speed, or of input read where it lies. `None`: none is enough.
    pub leaf_cost: Option<f64>,
}

/// Limits of holding back gangs that are worth less than their cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GangHold {
    /// Longest hold of one gang, milliseconds.
    pub gang_ms: u64,
    /// Longest time for which the gangs of one user hold one partition, milliseconds; see
    /// [`HoldBudget`](crate::preference::HoldBudget).
    pub user_ms: u64,
}

impl Tuning {
    /// Returns the class of a node, the best first: its health and Weight, then its level.
    pub(super) fn class_of(&self, name: &str, weight: u32) -> ((bool, u32), u32) {
        let weight = if self.weight_cost == Some(0.0) { 0 } else { weight };
        if self.levels.is_empty() {
            return ((false, weight), 0);
        }
        match self.levels.get(name).copied() {
            Some(level) => ((level >= UNHEALTHY, weight), level),
            None => ((false, weight), u32::MAX),
        }
    }
}

/// Nodes up to each class of Weight and level, lightest first; empty if all are
/// of one class.
#[must_use]
pub fn up_to_class(table: &Table, tuning: &Tuning) -> Vec<UpToClass> {
    let nodes = &table.nodes;
    let mut by_class: BTreeMap<((bool, u32), u32), Vec<usize>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty()) {
        by_class.entry(tuning.class_of(&node.name, node.weight)).or_default().push(at);
    }
    let keyed = by_class.into_iter().map(|((weight, _), members)| {
        let mut set = NodeSet::new(nodes.len());
        set.extend(members.into_iter().map(NodeIdx::new));
        (weight, set)
    });
    up_to(keyed, nodes.len())
}
