// SPDX-License-Identifier: GPL-3.0-or-later
//! Candidates that give what a job needs, where that is not the same amount on every node:
//! whole cores, sockets, cores of reservations, parts of devices.

use super::candidates::Excluded;
use super::search::Search;
use crate::cluster::Table;
use crate::usage::NodeUsage;
use phalanx_core::layout::{BySocket, NodeCores};
use phalanx_core::shape::Need;
use phalanx_core::{NodeIdx, NodeSet};

impl Search<'_> {
    /// Leaves only offered nodes that can give `need` now, in what the balance engine does not
    /// know; returns the least amounts of any, which the engine then compares.
    pub(super) fn fitting(&mut self, need: &Need) -> Need {
        self.unfit.drop_from(&mut self.chooser.sets.mask, need);
        let least = self.drop_by_kind(need);
        let cluster = self.chooser.cluster;
        let Table { parts, unspent, .. } = &**cluster.table();
        let divided = |kind| parts.iter().any(|&(p, d)| kind == p || kind == d);
        if need.gres.iter().any(|&(kind, ..)| divided(kind) || unspent.contains(&kind)) {
            let has = |usage: &NodeUsage| {
                need.gres.iter().all(|&(kind, t, count)| usage.gres_free(kind, t) >= count)
            };
            self.chooser.sets.mask.retain(|node| cluster.usage(node).is_some_and(has));
        }
        for Excluded { node, cores } in self.candidates.excluded() {
            // Slurm gives no whole node that a reservation has cores of.
            let misses = |usage: &NodeUsage| usage.cpus_missing(need, cores).is_some();
            if need.whole || cluster.usages().get(node.at()).is_none_or(misses) {
                self.chooser.sets.mask.remove(*node);
            }
        }
        least
    }

    /// Returns the amounts that a node gives for `need`.
    pub(super) fn need_on(&self, node: NodeIdx, need: &Need) -> Need {
        let usage = self.chooser.cluster.usage(node);
        usage.and_then(|usage| need.on(&usage.cores)).unwrap_or_else(|| need.clone())
    }

    /// Drops the nodes that lack CPUs, sockets or memory where these depend on the node, and
    /// returns the least amounts of all kinds of nodes.
    fn drop_by_kind(&mut self, need: &Need) -> Need {
        let kinds = &self.kinds.kinds;
        let needs = kinds.iter().filter_map(|(cores, _)| need.on(cores));
        let least = needs.reduce(|least, on| Need {
            cpus: least.cpus.min(on.cpus),
            memory_mb: least.memory_mb.min(on.memory_mb),
            ..on
        });
        let Some(least) = least else {
            self.chooser.sets.mask.clear();
            return need.clone();
        };
        for (cores, nodes) in kinds {
            let Some(on) = need.on(cores) else {
                self.chooser.sets.mask.subtract(nodes);
                continue;
            };
            let by_socket = need.cores.is_by_socket(cores);
            if by_socket || (on.cpus, on.memory_mb) != (least.cpus, least.memory_mb) {
                self.drop_of_kind(cores, nodes, need, &on);
            }
        }
        least
    }

    /// Drops nodes of one kind that lack CPUs; idle ones are alike.
    fn drop_of_kind(&mut self, cores: &NodeCores, nodes: &NodeSet, need: &Need, on: &Need) {
        let none = BySocket::default();
        let by_socket = need.cores.is_by_socket(cores);
        let idle = !by_socket || need.cores.fits(cores, &cores.free(&need.cores, 0, &none, &none));
        let cluster = self.chooser.cluster;
        let fits = |usage: &NodeUsage| {
            let sockets = if usage.cpus.used == 0 {
                idle
            } else {
                !by_socket || usage.cpus_missing(need, &none).is_none()
            };
            sockets && on.cpus <= usage.cpus.free() && on.memory_mb <= usage.memory_mb.free()
        };
        let stays = |node| !nodes.contains(node) || cluster.usage(node).is_some_and(fits);
        self.chooser.sets.mask.retain(stays);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::{Cluster, Held, RunningJob, Table, TableNode};
    use crate::place::{Candidates, Holding, Placer, Tuning, Why};
    use phalanx_core::layout::Layout;
    use phalanx_core::shape::{GresWant, Memory, Shape, Sharing};

    const SMT: NodeCores = NodeCores { cpus_per_core: 2, sockets: 2, cores: 8, spec_cores: 0 };
    const FLAT: NodeCores = NodeCores { cpus_per_core: 1, ..SMT };

    /// A placer over `smt1`, `smt2` of 16 CPUs and `flat3`, `flat4` of 8.
    fn placer() -> Placer {
        let node = |name: &str, cores: NodeCores| TableNode {
            name: name.into(),
            cpus: u64::from(cores.cores) * cores.per_core(),
            threads: 2,
            memory_mb: 1600,
            kinds: vec![(0.into(), 2), (1.into(), 8)],
            cores,
            ..TableNode::default()
        };
        let nodes = [("smt1", SMT), ("smt2", SMT), ("flat3", FLAT), ("flat4", FLAT)];
        let table = Table {
            nodes: nodes.map(|(name, cores)| node(name, cores)).into(),
            kinds: vec![Arc::from("gpu"), Arc::from("shard")],
            parts: vec![(1.into(), 0.into())],
            ..Table::default()
        };
        Placer::new(Cluster::new(table), true, Tuning::default(), Vec::new()).unwrap()
    }

    fn shape(tasks: u32, layout: Layout) -> Shape {
        Shape {
            min_nodes: 1,
            max_nodes: 1,
            req_nodes: 1,
            min_cpus: tasks,
            num_tasks: tasks,
            memory: Memory::PerCpu(100),
            layout: Layout { whole_cores: true, ..layout },
            ..Shape::default()
        }
    }

    /// Nodes with the CPUs and MiB that each gives.
    fn placed(placer: &mut Placer, shape: &Shape, mask: u64) -> Vec<(usize, u64, u64)> {
        match placer.decide(shape, Candidates::new(&[mask]), Holding::After(0)) {
            Ok(placed) => {
                let given = placed.nodes.iter().zip(&placed.needs);
                given.map(|(node, need)| (node.at(), need.cpus, need.memory_mb)).collect()
            }
            Err(Why::NoFit) => Vec::new(),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn hold(placer: &mut Placer, node: u32, cpus: u64, cores: BySocket) {
        let held = vec![Held { node: node.into(), cpus, cores, ..Held::default() }];
        placer.set_job(RunningJob { id: 100 + node, held, ..RunningJob::default() });
    }

    #[test]
    fn each_node_gives_what_its_cores_make_of_the_request() {
        let mut placer = placer();
        let three = shape(3, Layout::default());
        assert_eq!(placed(&mut placer, &three, 0b0001), [(0, 4, 400)]);
        assert_eq!(placed(&mut placer, &three, 0b0100), [(2, 3, 300)]);
        let one_thread = shape(8, Layout { threads_per_core: 1, ..Layout::default() });
        assert_eq!(placed(&mut placer, &one_thread, 0b0001), [(0, 16, 800)]);
        // Nine cores are nowhere, nine threads are.
        let nine = shape(9, Layout { threads_per_core: 1, ..Layout::default() });
        assert_eq!(placed(&mut placer, &nine, 0b1111), []);
        assert_eq!(placed(&mut placer, &shape(9, Layout::default()), 0b1111), [(0, 10, 1000)]);
        // All nodes may take it, one has no memory for a core more.
        let two = Shape { min_nodes: 4, max_nodes: 4, req_nodes: 4, ..shape(4, Layout::default()) };
        let given = placed(&mut placer, &two, 0b1111);
        assert_eq!(given, [(0, 2, 200), (1, 2, 200), (2, 1, 100), (3, 1, 100)]);
        let held = vec![Held { node: 1.into(), memory_mb: 1500, ..Held::default() }];
        placer.set_job(RunningJob { id: 9, held, ..RunningJob::default() });
        assert_eq!(placed(&mut placer, &two, 0b1111), []);
    }

    #[test]
    fn sockets_and_threads_of_a_core_rule_nodes_out() {
        let mut placer = placer();
        let two = Layout { threads_per_core: 2, ..Layout::default() };
        assert_eq!(placed(&mut placer, &shape(2, two), 0b1100), []);
        let by_socket = shape(2, Layout { ntasks_per_socket: 1, ..Layout::default() });
        hold(&mut placer, 0, 8, [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(placed(&mut placer, &by_socket, 0b0001), []);
        assert_eq!(placed(&mut placer, &by_socket, 0b0011), [(1, 2, 200)]);
        hold(&mut placer, 0, 8, [2, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(placed(&mut placer, &by_socket, 0b0001), [(0, 2, 200)]);
    }

    #[test]
    fn a_whole_node_without_cores_for_the_system() {
        let mut placer = placer();
        let spec = Layout { core_spec: 2, ..Layout::default() };
        let whole = |tasks| Shape { sharing: Sharing::Whole, ..shape(tasks, spec) };
        assert_eq!(placed(&mut placer, &whole(7), 0b1100), []);
        assert_eq!(placed(&mut placer, &whole(6), 0b1100).len(), 1);
        assert_eq!(placed(&mut placer, &whole(12), 0b1101), [(0, 12, 1200)]);
    }

    /// Goal: an open number is as many whole nodes as hold all tasks, if possible of one kind.
    #[test]
    fn whole_nodes_are_split_by_what_they_hold() {
        let mut placer = placer();
        hold(&mut placer, 2, 1, [1, 0, 0, 0, 0, 0, 0, 0]);
        let open = Shape {
            max_nodes: 4,
            sharing: Sharing::Whole,
            memory: Memory::Untracked,
            ..shape(20, Layout::default())
        };
        let nodes: Vec<usize> = placed(&mut placer, &open, 0b1111).iter().map(|p| p.0).collect();
        assert_eq!(nodes, [0, 1]);
    }

    #[test]
    fn cores_of_reservations_are_left_out() {
        let mut placer = placer();
        let excluded = [Excluded { node: 0.into(), cores: [3, 3, 0, 0, 0, 0, 0, 0] }];
        let mut decided = |shape: &Shape| {
            let candidates = Candidates::new(&[0b0011]).without(&excluded);
            placer.decide(shape, candidates, Holding::After(0)).map(|placed| placed.nodes[0].at())
        };
        assert_eq!(decided(&shape(4, Layout::default())), Ok(0));
        assert_eq!(decided(&shape(5, Layout::default())), Ok(1));
        let whole = Shape { sharing: Sharing::Whole, ..shape(1, Layout::default()) };
        assert_eq!(decided(&whole), Ok(1));
        let open = Shape { max_nodes: 2, ..shape(24, Layout::default()) };
        assert_eq!(decided(&open), Err(Why::NoFit));
        let both = Shape { max_nodes: 2, ..shape(20, Layout::default()) };
        assert_eq!(decided(&both), Ok(0));
    }

    /// Goal: a core in use that a reservation which ignores jobs keeps is left out once.
    #[test]
    fn cores_in_use_that_a_reservation_keeps_are_left_out_once() {
        let mut placer = placer();
        hold(&mut placer, 0, 6, [3, 3, 0, 0, 0, 0, 0, 0]);
        let excluded = [Excluded { node: 0.into(), cores: [3, 3, 0, 0, 0, 0, 0, 0] }];
        for (cpus, nodes) in [(4, 1), (24, 0), (20, 2)] {
            let candidates = Candidates::new(if nodes == 1 { &[0b0001] } else { &[0b0011] });
            let shape = Shape { max_nodes: 2, ..shape(cpus, Layout::default()) };
            let placed = placer.decide(&shape, candidates.without(&excluded), Holding::After(0));
            assert_eq!(placed.map_or(0, |placed| placed.nodes.len()), nodes, "{cpus} CPUs");
        }
    }

    #[test]
    fn shards_are_not_given_of_gpus_that_are_taken() {
        let mut placer = placer();
        let of = |kind: u32, per_node| Shape {
            gres: vec![GresWant { kind: kind.into(), per_node, ..GresWant::default() }],
            ..shape(1, Layout::default())
        };
        let gpus = |id, node: u32, kind: u32, count| {
            let gres = vec![(kind.into(), None, count)];
            let held = vec![Held { node: node.into(), cpus: 2, gres, ..Held::default() }];
            RunningJob { id, held, ..RunningJob::default() }
        };
        placer.set_job(gpus(1, 0, 0, 2));
        placer.set_job(gpus(2, 1, 1, 1));
        let on = |placer: &mut Placer, shape: &Shape| {
            placed(placer, shape, 0b0011).iter().map(|p| p.0).collect::<Vec<_>>()
        };
        assert_eq!(on(&mut placer, &of(1, 4)), [1]);
        assert_eq!(on(&mut placer, &of(1, 5)), [0usize; 0], "all of one GPU");
        assert_eq!(on(&mut placer, &of(0, 1)), [1]);
        assert_eq!(on(&mut placer, &of(0, 2)), [0usize; 0]);
    }
}
