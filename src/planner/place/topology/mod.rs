// SPDX-License-Identifier: GPL-3.0-or-later
//! The choice of leaves: never more of them than stock Slurm would use, then the
//! least harm to whole leaves, then the balance method's score.

mod accept;
mod blocks;
mod closed;
mod counts;
#[cfg(test)]
mod exact;
mod greedy;
mod leaves;
mod route;
mod run;
#[cfg(test)]
mod tests;
mod tree;
mod tree_plans;
mod uneven;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use accept::{Blocks, place_one};
pub(super) use closed::Closed;
pub use counts::Counts;
pub use greedy::Greedy;
pub(super) use route::{Route, Routes, block_nodes, by_switches};
pub use tree::{Rules, Tree};

use serde::{Deserialize, Serialize};

use super::Why;
use crate::cluster::Cluster;
use phalanx_core::NodeIdx;
use phalanx_core::NodeSet;
use phalanx_core::number::as_u32;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Table, TableNode};
use phalanx_core::topology::{Kind, Topology};
use phalanx_methods::balance::{Decision, Engine, Request};
use phalanx_methods::learn::without_numbers;

/// Use that the placement makes of a topology.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyPolicy {
    /// Few leaves for a job, and whole leaves for the next one.
    #[default]
    Pack,
    /// Jobs of several nodes are left to Slurm where there is a topology.
    Leave,
    /// Jobs are placed as if there were no topology.
    Ignore,
}

/// Leaves of a placement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyUse {
    /// Name of the topology.
    pub topology: Arc<str>,
    /// Leaf, and nodes of the job there; ascending.
    pub leaves: Vec<(u32, u32)>,
    /// Fewest leaves that the candidates allowed.
    pub fewest: u32,
    /// Level of the lowest switch or block above all leaves; `None`: there is none.
    pub level: Option<u32>,
    /// Number of ordered pairs of idle nodes that no longer share a leaf after the choice.
    pub loss: u64,
    /// Position of the last class of nodes that the choice needed.
    pub class: usize,
}

/// Rule by which the leaves of one topology are chosen.
#[derive(Debug)]
pub enum Form {
    /// The topology has no leaves, or its rules are not known.
    None,
    /// Switches.
    Tree(Tree),
    /// Blocks.
    Block(Blocks),
}

impl Form {
    /// The rule of a topology.
    pub fn new(topology: &Topology) -> Self {
        match topology.kind() {
            Kind::Tree if topology.has_leaves() => Self::Tree(Tree::new(topology)),
            Kind::Block if topology.has_leaves() => Self::Block(Blocks::new(topology)),
            _ => Self::None,
        }
    }
}

/// The topologies of a cluster.
#[derive(Debug)]
pub(super) struct Topologies {
    pub forms: Vec<Form>,
    /// Number of each node's kind, by its totals.
    kinds: Vec<u32>,
    /// Number of each node's kind, by totals and name without numbers: machines bought together.
    families: Vec<u32>,
}

impl Topologies {
    pub(super) fn new(table: &Table) -> Self {
        let kinds = |named| kinds(table, named);
        let forms = table.topologies.iter().map(Form::new).collect();
        Self { forms, kinds: kinds(false), families: kinds(true) }
    }
}

/// Node sets of one question, kept between questions for their capacity.
#[derive(Debug)]
pub(super) struct Sets {
    /// Nodes on offer: candidates that may be chosen.
    pub mask: NodeSet,
    /// Idle nodes that Slurm offers; counted where a topology has leaves.
    pub idle: NodeSet,
    /// Nodes among which one step of the search chooses.
    pub part: NodeSet,
    /// Nodes that were chosen so far.
    pub chosen: NodeSet,
    /// Nodes by leaf.
    counts: Counts,
}

impl Sets {
    /// Empty sets over a table of `len` nodes.
    pub(super) fn new(len: usize) -> Self {
        let set = || NodeSet::new(len);
        Self { mask: set(), idle: set(), part: set(), chosen: set(), counts: Counts::default() }
    }
}

/// The choice among the nodes on offer, by the rules for one question.
pub(super) struct Chooser<'a> {
    /// Usage of the nodes.
    pub cluster: &'a Cluster,
    /// The balance method.
    pub engine: &'a mut Engine,
    pub topologies: &'a Topologies,
    /// Rules for one node and for several.
    pub routes: Routes,
    /// Nodes of the classes before the class that is tried; `None`: it is the first.
    pub lighter: Option<&'a NodeSet>,
    /// Nodes on offer, and chosen nodes.
    pub sets: &'a mut Sets,
    /// Fewest leaves of the latest choice.
    pub fewest: u32,
    /// Number of ordered pairs of idle nodes that no longer share a leaf after the latest choice.
    pub loss: u64,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        engine: &'a mut Engine,
        topologies: &'a Topologies,
        routes: Routes,
        sets: &'a mut Sets,
    ) -> Self {
        debug_assert_eq!(cluster.usages().len(), sets.mask.len(), "sets of another table");
        debug_assert_eq!(cluster.usages().len(), engine.len(), "an engine of another table");
        debug_assert_eq!(cluster.table().topologies.len(), topologies.forms.len());
        let (lighter, fewest, loss) = (None, 0, 0);
        Self { cluster, engine, topologies, routes, lighter, sets, fewest, loss }
    }

    /// Chooses by the rule for a number of nodes.
    pub(super) fn by_route(
        &mut self,
        shape: &Shape,
        request: &Request<'_>,
    ) -> Result<Decision, Why> {
        let nodes = as_u32(request.nodes);
        match self.routes.of(nodes) {
            Route::Left(option) => Err(Why::Left(option)),
            Route::Any if nodes > 1 && self.lighter.is_some() => self.lighter_first(request),
            Route::Any => self.engine.decide(&self.sets.mask, request).map_err(|_| Why::NoFit),
            Route::Run(at) => self.in_a_run(at, request),
            Route::Tree(at) | Route::Block(at) if nodes > 1 => self.on_leaves(at, shape, request),
            Route::Tree(at) | Route::Block(at) => self.single(at, shape, request),
        }
    }

    /// Leaves only the offered nodes that fit with the fewest CPUs, besides lighter ones: a job is
    /// charged for all of a whole node, and stock takes the smallest too.
    pub(super) fn keep_smallest(&mut self, request: &Request<'_>) {
        let (cluster, lighter, mask) = (self.cluster, self.lighter, &mut self.sets.mask);
        self.engine.retain_fitting(mask, request);
        let cpus = |node| match lighter {
            Some(lighter) if lighter.contains(node) => 0,
            _ => cluster.usage(node).map_or(u64::MAX, |usage| usage.cpus.total),
        };
        let mut sizes: Vec<u64> = mask.iter().map(cpus).collect();
        if let Some(last) = request.nodes.checked_sub(1).filter(|last| *last < sizes.len()) {
            let most = *sizes.select_nth_unstable(last).1;
            mask.retain(|node| cpus(node) <= most);
        }
    }

    /// Number of the node's kind by totals and name.
    pub(super) fn family_of(&self, node: NodeIdx) -> u32 {
        let families = &self.topologies.families;
        debug_assert!(node.at() < families.len(), "node {node} of {}", families.len());
        families.get(node.at()).copied().unwrap_or(u32::MAX)
    }

    /// Returns the topology at a position, borrowed for as long as the cluster.
    pub(in crate::place) fn topology(&self, at: usize) -> Result<&'a Topology, Why> {
        let topology = self.cluster.table().topologies.get(at);
        debug_assert!(topology.is_some(), "a route over topology {at}, which the table lacks");
        topology.ok_or(Why::NoFit)
    }
}

/// Numbers that are equal for nodes of equal totals; `named`: whose names differ in numbers only.
fn kinds(table: &Table, named: bool) -> Vec<u32> {
    let mut known = BTreeMap::new();
    let number = |node: &TableNode| {
        let next = as_u32(known.len());
        let name = named.then(|| without_numbers(&node.name));
        let totals = (node.cpus, node.memory_mb, node.kinds.clone(), node.types.clone());
        *known.entry((name, totals)).or_insert(next)
    };
    table.nodes.iter().map(number).collect()
}
