// SPDX-License-Identifier: GPL-3.0-or-later
//! Rule by which a job's nodes are chosen, from its options and the topology.
//!
//! The order in which stock looks at them: `select_nodes` of
//! `plugins/topology/common/eval_nodes.c` (24.05 on), `_eval_nodes` of
//! `plugins/select/cons_tres/job_test.c` before.

use super::TopologyPolicy;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::snapshot::Table;
use phalanx_core::topology::{Kind, TopologyAsk};

/// The rule that chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::place) enum Route {
    /// The balance method alone chooses nodes.
    Any,
    /// The job goes to leaf switches of the topology at this position.
    Tree(usize),
    /// The job goes to blocks of the topology at this position.
    Block(usize),
    /// The job goes to consecutive nodes, on few leaf switches of the topology at this index.
    Run(Option<usize>),
    /// No rule: the choice is left to Slurm.
    Left(LeftToSlurm),
}

/// The rules for one node and for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::place) struct Routes {
    pub one: Route,
    pub many: Route,
}

impl Routes {
    /// The rule for a number of nodes.
    pub(in crate::place) fn of(&self, nodes: u32) -> Route {
        if nodes > 1 { self.many } else { self.one }
    }

    /// The rules for a request.
    pub(in crate::place) fn new(table: &Table, policy: TopologyPolicy, shape: &Shape) -> Self {
        let ask = &shape.topology;
        let routes = Self::by_topology(table, policy, shape);
        let is_block = matches!(routes.many, Route::Block(_));
        match routes.one {
            Route::Left(_) => routes,
            // `--spread-job` wants many nodes: the fewest, or even one, are the opposite.
            _ if ask.spread && shape.node_count_is_free() && !is_block => {
                Self { one: Route::Left(LeftToSlurm::Spread), ..routes }
            }
            // The site asked for another order of nodes; a block comes before it.
            _ if ask.lln && !is_block => {
                Self { one: Route::Left(LeftToSlurm::Lln), many: Route::Left(LeftToSlurm::Lln) }
            }
            _ if ask.pack_serial && !is_block => {
                Self { one: Route::Left(LeftToSlurm::PackSerial), ..routes }
            }
            _ => routes,
        }
    }

    fn by_topology(table: &Table, policy: TopologyPolicy, shape: &Shape) -> Self {
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
    match kind {
        Kind::Tree => Route::Tree(at),
        Kind::Block if shape.topology.segment > 1 => Route::Left(LeftToSlurm::Segment),
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
        Kind::Flat if ask.contiguous => Route::Run(None),
        Kind::Tree if ask.contiguous => Route::Run(Some(at)),
        Kind::Flat => Route::Any,
        Kind::Tree => Route::Tree(at),
    }
}

/// Whether stock looks at the switches of a tree; else it takes nodes as on a flat cluster.
pub(in crate::place) fn by_switches(ask: &TopologyAsk) -> bool {
    !ask.contiguous && (!ask.optional || ask.switches > 0)
}

/// Nodes that the block plugin places: the fewest that the job asks for.
pub(in crate::place) fn block_nodes(shape: &Shape) -> u32 {
    shape.min_nodes.max(shape.nodes_for_tasks()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(set: impl FnOnce(&mut Shape)) -> Routes {
        let mut shape = Shape { min_nodes: 1, max_nodes: 4, ..Shape::default() };
        set(&mut shape);
        Routes::new(&Table::default(), TopologyPolicy::Pack, &shape)
    }

    #[test]
    fn an_order_of_nodes_that_the_site_asked_for_is_slurms() {
        assert_eq!(routes(|_| ()), Routes { one: Route::Any, many: Route::Any });
        let lln = Route::Left(LeftToSlurm::Lln);
        assert_eq!(routes(|shape| shape.topology.lln = true), Routes { one: lln, many: lln });
        let serial = routes(|shape| shape.topology.pack_serial = true);
        let left = Route::Left(LeftToSlurm::PackSerial);
        assert_eq!(serial, Routes { one: left, many: Route::Any });
    }
}
