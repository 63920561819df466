// SPDX-License-Identifier: GPL-3.0-or-later
//! Which rule a job's nodes are chosen by, from its options and the topology.
//!
//! The order in which stock looks at them: `select_nodes` of
//! `plugins/topology/common/eval_nodes.c` (24.05 on), `_eval_nodes` of
//! `plugins/select/cons_tres/job_test.c` before.

use super::TopologyPolicy;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::snapshot::Table;
use phalanx_core::topology::Kind;

/// The rule that chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::place) enum Route {
    /// The balance method alone.
    Any,
    /// Leaf switches of the topology at this position.
    Tree(usize),
    /// Blocks of it.
    Block(usize),
    /// One run of consecutive nodes.
    Run,
    /// None: left to Slurm.
    Left(LeftToSlurm),
}

/// The rules for one node and for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::place) struct Routes {
    pub one: Route,
    pub many: Route,
}

impl Routes {
    /// The rule for so many nodes.
    pub(in crate::place) fn of(&self, nodes: u32) -> Route {
        if nodes > 1 { self.many } else { self.one }
    }

    /// The rules for this request.
    pub(in crate::place) fn new(table: &Table, policy: TopologyPolicy, shape: &Shape) -> Self {
        let ask = &shape.topology;
        if table.topologies.is_empty() || policy == TopologyPolicy::Ignore {
            let left = [
                (ask.contiguous, LeftToSlurm::Contiguous),
                (ask.switches_now().is_some(), LeftToSlurm::Switches),
                (ask.segment > 0, LeftToSlurm::Segment),
                (ask.sizes, LeftToSlurm::Sizes),
                (ask.spread, LeftToSlurm::Spread),
            ];
            let left = left.iter().find(|(applies, _)| *applies);
            return Self { one: Route::Any, many: left.map_or(Route::Any, |l| Route::Left(l.1)) };
        }
        let Some((at, topology)) = table.topology_at(ask.index) else {
            return Self { one: Route::Any, many: Route::Left(LeftToSlurm::TopologyUnknown) };
        };
        let kind = if topology.has_leaves() {
            topology.kind()
        } else {
            match topology.kind() {
                Kind::Tree | Kind::Block => Kind::Unknown,
                other => other,
            }
        };
        if ask.exclusive && matches!(kind, Kind::Block | Kind::Other | Kind::Unknown) {
            let left = Route::Left(LeftToSlurm::ExclusiveTopology);
            return Self { one: left, many: left };
        }
        let many = match many(kind, at, shape) {
            _ if policy == TopologyPolicy::Leave && kind != Kind::Flat => {
                Route::Left(LeftToSlurm::TopologyPolicy)
            }
            _ if ask.sizes => Route::Left(LeftToSlurm::Sizes),
            many => many,
        };
        Self { one: one(kind, at, shape), many }
    }
}

fn one(kind: Kind, at: usize, shape: &Shape) -> Route {
    let ask = &shape.topology;
    let plain = ask.contiguous || ask.lln || (ask.optional && ask.switches == 0);
    match kind {
        Kind::Tree if !plain => Route::Tree(at),
        Kind::Block if ask.segment > 1 => Route::Left(LeftToSlurm::Segment),
        Kind::Block => Route::Block(at),
        _ => Route::Any,
    }
}

fn many(kind: Kind, at: usize, shape: &Shape) -> Route {
    let ask = &shape.topology;
    match kind {
        Kind::Block if ask.contiguous => Route::Left(LeftToSlurm::Contiguous),
        Kind::Block if ask.consolidate_segments => Route::Left(LeftToSlurm::Segment),
        Kind::Block => Route::Block(at),
        Kind::Other => Route::Left(LeftToSlurm::TopologyOther),
        Kind::Unknown => Route::Left(LeftToSlurm::TopologyUnknown),
        Kind::Flat | Kind::Tree if ask.spread => Route::Left(LeftToSlurm::Spread),
        Kind::Flat | Kind::Tree if ask.contiguous => Route::Run,
        Kind::Flat => Route::Any,
        Kind::Tree if ask.optional && ask.switches == 0 => Route::Any,
        Kind::Tree if ask.lln => Route::Left(LeftToSlurm::Lln),
        Kind::Tree => Route::Tree(at),
    }
}

/// Nodes that the block plugin places: the fewest that are asked for.
pub(in crate::place) fn block_nodes(shape: &Shape) -> u32 {
    let tasks = match shape.ntasks_per_node {
        0 => 1,
        per_node => shape.num_tasks.div_ceil(per_node),
    };
    shape.min_nodes.max(tasks).max(1)
}
