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
mod uneven;

use std::collections::BTreeMap;
use std::sync::Arc;

use accept::Blocks;
pub(super) use closed::Closed;
use counts::Counts;
pub(super) use route::{Route, Routes, block_nodes};
use tree::Tree;

use serde::{Deserialize, Serialize};

use super::{Candidates, Classes, NoPlacement, Placer, Split, UpToClass, classes};
use phalanx_core::NodeSet;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::snapshot::{Table, TableNode};
use phalanx_core::topology::Kind;
use phalanx_methods::balance::{Decision, Request};

/// What the placement does with a topology.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyPolicy {
    /// Few leaves for a job, and whole leaves for the next one.
    #[default]
    Pack,
    /// Jobs of several nodes are left to Slurm where there is a topology.
    Leave,
    /// As if there were none.
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
    /// Level of the lowest switch or block above all of them; `None`: there is none.
    pub level: Option<u32>,
    /// Ordered pairs of idle nodes that no longer share a leaf.
    pub loss: u64,
    /// Position of the last class of nodes that it needed.
    pub class: usize,
}

/// How the leaves of one topology are chosen.
#[derive(Debug)]
enum Form {
    /// There are none, or their rules are not known.
    None,
    Tree(Tree),
    Block(Blocks),
}

/// The topologies of a cluster, and what the question at hand offers there.
#[derive(Debug)]
pub(super) struct Topologies {
    forms: Vec<Form>,
    counts: Counts,
    /// Idle nodes that Slurm offers.
    idle: NodeSet,
    /// Nodes of the classes before the last.
    lighter: NodeSet,
    has_lighter: bool,
    part: NodeSet,
    chosen: NodeSet,
    /// Fewest leaves and loss of the latest choice.
    fewest: u32,
    loss: u64,
    /// Number of each node's totals among the different ones.
    kinds: Vec<u32>,
}

impl Topologies {
    pub(super) fn new(table: &Table) -> Self {
        let form = |topology: &phalanx_core::topology::Topology| match topology.kind() {
            Kind::Tree if topology.has_leaves() => Form::Tree(Tree::new(topology)),
            Kind::Block if topology.has_leaves() => Form::Block(Blocks::new(topology)),
            _ => Form::None,
        };
        let set = || NodeSet::new(table.nodes.len());
        Self {
            forms: table.topologies.iter().map(form).collect(),
            counts: Counts::default(),
            idle: set(),
            lighter: set(),
            has_lighter: false,
            part: set(),
            chosen: set(),
            fewest: 0,
            loss: 0,
            kinds: kinds(table),
        }
    }

    /// The nodes of the classes before the one that is tried.
    pub(super) fn set_lighter(&mut self, lighter: Option<&NodeSet>) {
        self.has_lighter = lighter.is_some();
        if let Some(lighter) = lighter {
            self.lighter.clone_from(lighter);
        }
    }

    /// The idle nodes that Slurm offers.
    pub(super) fn set_idle(&mut self, idle: &NodeSet) {
        self.idle.clone_from(idle);
    }

    /// Counts what `mask` has on each leaf.
    fn count(&mut self, leaf_by_node: &[u32], leaves: usize, mask: &NodeSet) {
        self.counts.reset(leaves);
        let counts = &mut self.counts;
        let words = mask.words().iter().zip(self.idle.words()).zip(self.lighter.words());
        for (at, ((&mask, &idle), &lighter)) in words.enumerate() {
            let lighter = if self.has_lighter { lighter } else { 0 };
            let mut rest = mask | idle;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let leaf = leaf_by_node.get(at * 64 + bit).map_or(usize::MAX, |&l| l as usize);
                let Some(all_idle) = counts.idle.get_mut(leaf) else { continue };
                let has = |word: u64| u32::from(word >> bit & 1 == 1);
                *all_idle += has(idle);
                if has(mask & lighter) == 1 {
                    counts.forced[leaf] += 1;
                    counts.forced_idle[leaf] += has(idle);
                } else if has(mask) == 1 {
                    counts.free[leaf] += 1;
                    counts.free_idle[leaf] += has(idle);
                }
            }
        }
    }
}

/// Nodes of equal totals have equal numbers.
fn kinds(table: &Table) -> Vec<u32> {
    let mut known = BTreeMap::new();
    let number = |node: &TableNode| {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        let totals = (node.cpus, node.memory_mb, node.kinds.clone(), node.types.clone());
        *known.entry(totals).or_insert(next)
    };
    table.nodes.iter().map(number).collect()
}

impl Placer {
    /// Chooses by the rule for this number of nodes.
    pub(super) fn by_route(
        &mut self,
        shape: &Shape,
        request: &Request<'_>,
    ) -> Result<Decision, NoPlacement> {
        let nodes = u32::try_from(request.nodes).unwrap_or(u32::MAX);
        match self.routes.of(nodes) {
            Route::Left(why) => Err(NoPlacement::Left(why)),
            Route::Any if nodes > 1 && self.topologies.has_lighter => self.lighter_first(request),
            Route::Any => self.engine.decide(&self.mask, request).map_err(|_| NoPlacement::NoFit),
            Route::Run => {
                let table = Arc::clone(self.cluster.table());
                self.in_a_run(&table, request)
            }
            Route::Tree(at) | Route::Block(at) => {
                let table = Arc::clone(self.cluster.table());
                let topology = table.topologies.get(at).ok_or(NoPlacement::NoFit)?;
                if nodes > 1 {
                    self.on_leaves(topology, at, shape, request)
                } else {
                    self.single(topology, request)
                }
            }
        }
    }

    /// Unevenly, or on more nodes, by the rule for several nodes.
    pub(super) fn other_split_by_route(
        &mut self,
        shape: &Shape,
        wanted: u32,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        match self.routes.many {
            Route::Left(why) => Err(NoPlacement::Left(why)),
            Route::Run => Err(NoPlacement::Left(LeftToSlurm::Contiguous)),
            // It places the fewest nodes and no other number.
            Route::Block(_) => Err(NoPlacement::NoFit),
            Route::Tree(at) if shape.gres.iter().all(|gres| gres.per_job == 0) => {
                let table = Arc::clone(self.cluster.table());
                let topology = table.topologies.get(at).ok_or(NoPlacement::NoFit)?;
                self.other_split_on_leaves(topology, at, shape, wanted, held_ms)
            }
            Route::Any | Route::Tree(_) => self.other_split(shape, wanted, held_ms),
        }
    }

    /// Whether fewer nodes than wanted might do on fewer switches.
    pub(super) fn waits_for_switches(&self, shape: &Shape, wanted: u32) -> bool {
        matches!(self.routes.many, Route::Tree(_))
            && shape.topology.switches_now().is_some()
            && shape.min_nodes.max(1) < wanted
    }

    /// `--switches`: the most nodes that do on so few switches.
    pub(super) fn fewer_nodes(
        &mut self,
        shape: &Shape,
        candidates: Candidates<'_>,
        wanted: u32,
        up_to: Option<&NodeSet>,
        held_ms: u64,
    ) -> Result<Split, NoPlacement> {
        let mut best = Err(NoPlacement::NoFit);
        let (mut low, mut high) = (shape.min_nodes.max(1), wanted - 1);
        while low <= high {
            let nodes = low + (high - low) / 2;
            self.offer(candidates, up_to);
            match self.even_split(shape, nodes, held_ms) {
                Err(NoPlacement::NoFit) => high = nodes - 1,
                other => {
                    best = other;
                    low = nodes + 1;
                }
            }
        }
        best
    }

    /// The given classes of the candidates, each with all lighter ones, by tier, Weight and
    /// level; empty if all are of one class. And how many are above tier 0.
    pub(super) fn classes_up_to(
        &self,
        candidates: Candidates<'_>,
        classes: Classes<'_>,
    ) -> (Vec<UpToClass>, usize) {
        let mut by_class: BTreeMap<(u32, (bool, u32), u32), NodeSet> = BTreeMap::new();
        let table = self.cluster.table();
        let mut all = NodeSet::new(table.nodes.len());
        candidates.put_all_into(&mut all);
        for node in all.iter() {
            let (tier, weight) =
                classes.keys.get(classes.of(node)).copied().unwrap_or((u32::MAX, 0));
            let name = table.nodes.get(node.at()).map(|node| &*node.name);
            let (weight, level) = self.tuning.class_of(name.unwrap_or_default(), weight);
            let set = by_class.entry((tier, weight, level));
            set.or_insert_with(|| NodeSet::new(all.len())).insert(node);
        }
        let last = by_class.iter().filter(|((tier, ..), _)| *tier > 0);
        let last = last.map(|(_, set)| set.count()).sum();
        let keyed = by_class.into_iter().map(|((tier, weight, _), set)| ((tier, weight), set));
        (classes::up_to(keyed, all.len()), last)
    }
}
