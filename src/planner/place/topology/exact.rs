// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests whole decisions on clusters of at most 12 nodes against every set of nodes, and against
//! the same cluster in another order.
#![allow(clippy::cast_possible_truncation)] // a few nodes

use proptest::prelude::*;

use super::TopologyUse;
use super::accept::place_one;
use super::tests::{blocks, counts};
use crate::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use crate::place::{Candidates, Holding, Placement, Placer, Tuning};
use phalanx_core::NodeIdx;
use phalanx_core::shape::Shape;
use phalanx_core::topology::{Topology, parse_conf};

const CPUS: u64 = 4;

/// Node of a small cluster.
#[derive(Debug, Clone)]
struct Node {
    leaf: usize,
    weight: u32,
    used: u64,
    offered: bool,
}

/// Switches over leaves: `pod[leaf]` is the switch above it, where there are pods.
#[derive(Debug, Clone)]
struct Small {
    nodes: Vec<Node>,
    pod: Vec<usize>,
    levels: u32,
    joined: bool,
}

fn small() -> impl Strategy<Value = Small> {
    let node = (0usize..5, 1u32..=2, prop::sample::select(vec![0, 0, 0, 1, 3, 4]), 0u32..8);
    let nodes = prop::collection::vec(node, 2..=12);
    (nodes, prop::collection::vec(0usize..3, 5), 1u32..=3, any::<bool>(), any::<bool>()).prop_map(
        |(nodes, pod, levels, joined, weights)| {
            let node = |(leaf, weight, used, draw)| Node {
                leaf,
                weight: if weights { weight } else { 1 },
                used,
                offered: draw > 0,
            };
            Small { nodes: nodes.into_iter().map(node).collect(), pod, levels, joined }
        },
    )
}

fn of_nodes(wanted: u32, cpus: u64) -> Shape {
    Shape {
        min_nodes: wanted,
        max_nodes: wanted,
        req_nodes: wanted,
        min_cpus: wanted * cpus as u32,
        ..Shape::default()
    }
}

impl Small {
    /// topology.conf, where node `i` of the list is called `n{at[i]}`.
    fn conf(&self, at: &[usize]) -> String {
        let mut text = String::new();
        let mut tops: Vec<String> = Vec::new();
        let mut pods: Vec<Vec<String>> = vec![Vec::new(); 3];
        for leaf in 0..5 {
            let own = self.nodes.iter().zip(at).filter(|(node, _)| node.leaf == leaf);
            let names: Vec<String> = own.map(|(_, at)| format!("n{at}")).collect();
            if names.is_empty() {
                continue;
            }
            text.push_str(&format!("SwitchName=s{leaf} Nodes={}\n", names.join(",")));
            if self.levels == 3 {
                pods[self.pod[leaf]].push(format!("s{leaf}"));
            } else {
                tops.push(format!("s{leaf}"));
            }
        }
        for (pod, leaves) in pods.iter().enumerate().filter(|(_, leaves)| !leaves.is_empty()) {
            text.push_str(&format!("SwitchName=p{pod} Switches={}\n", leaves.join(",")));
            tops.push(format!("p{pod}"));
        }
        if self.levels > 1 && self.joined {
            text.push_str(&format!("SwitchName=top Switches={}\n", tops.join(",")));
        }
        text
    }

    /// A placer over the cluster, with node `i` of the list at position `at[i]` of the node table.
    fn placer(&self, at: &[usize]) -> Placer {
        let mut nodes = vec![TableNode::default(); at.len()];
        for (node, &at) in self.nodes.iter().zip(at) {
            nodes[at] = TableNode {
                name: format!("n{at}").into(),
                cpus: CPUS,
                threads: 1,
                weight: node.weight,
                ..TableNode::default()
            };
        }
        let mut table = Table { nodes, ..Table::default() };
        table.topologies = vec![parse_conf(&self.conf(at), 0, &table).unwrap()];
        let tuning = Tuning::default();
        let mut placer = Placer::new(Cluster::new(table), false, tuning, Vec::new()).unwrap();
        for ((node, &at), id) in self.nodes.iter().zip(at).zip(1..) {
            let held = Held { node: NodeIdx::new(at), cpus: node.used, ..Held::default() };
            if node.used > 0 {
                placer.set_job(RunningJob { id, held: vec![held], ..RunningJob::default() });
            }
        }
        placer
    }

    fn offered(&self, at: &[usize]) -> [u64; 1] {
        let offered = self.nodes.iter().zip(at).filter(|(node, _)| node.offered);
        [offered.fold(0u64, |word, (_, at)| word | 1 << at)]
    }

    fn stock_takes(&self, at: &[usize], wanted: u32, cpus: u64, nodes: &[NodeIdx]) -> bool {
        let (shape, words) = (of_nodes(wanted, cpus), self.offered(at));
        let stock = self.placer(at).stock_choice(&shape, Candidates::new(&words));
        stock.is_ok_and(|stock| stock == nodes)
    }

    /// Leaves of stock's choice, as far as the choice is known, and their level.
    fn stock_leaves(&self, at: &[usize], wanted: u32, cpus: u64) -> Option<(usize, Option<u32>)> {
        let (shape, words, placer) = (of_nodes(wanted, cpus), self.offered(at), self.placer(at));
        let stock = placer.stock_choice(&shape, Candidates::new(&words)).ok()?;
        if stock.len() > wanted as usize {
            return None; // the steps end otherwise than they are known
        }
        let topology = placer.cluster().table().topologies.first()?;
        let leaves = topology.leaves(stock);
        Some((leaves.len(), topology.common_level(leaves.iter().map(|(leaf, _)| *leaf))))
    }

    fn decide(&self, at: &[usize], wanted: u32, cpus: u64) -> Option<Placement> {
        let (shape, words) = (of_nodes(wanted, cpus), self.offered(at));
        self.placer(at).decide(&shape, Candidates::new(&words), Holding::After(0)).ok()
    }

    fn fits(&self, node: usize, cpus: u64) -> bool {
        let node = &self.nodes[node];
        node.offered && node.used + cpus <= CPUS
    }

    /// Tries every set of nodes for the fewest leaves, and for the fewest below the lowest switch
    /// that suffices, of the lightest class that completes the job.
    fn exact(&self, topology: &Topology, wanted: u32, cpus: u64) -> Option<(u32, u32)> {
        let root =
            |node: usize| topology.above(topology.leaf_of(NodeIdx::new(node)).unwrap()).last();
        let fitting: Vec<usize> =
            (0..self.nodes.len()).filter(|&node| self.fits(node, cpus)).collect();
        for class in 1..=2 {
            let mut best: Option<(u32, u32, u32)> = None;
            for set in 0u32..1 << self.nodes.len() {
                let has = |node: &usize| set >> node & 1 == 1;
                if set.count_ones() != wanted {
                    continue;
                }
                let chosen: Vec<usize> = (0..self.nodes.len()).filter(has).collect();
                let below = root(chosen[0]);
                let allowed = chosen.iter().all(|node| {
                    fitting.contains(node)
                        && self.nodes[*node].weight <= class
                        && root(*node) == below
                });
                let lighter = fitting.iter().all(|node| {
                    has(node) || root(*node) != below || self.nodes[*node].weight >= class
                });
                if !allowed || !lighter {
                    continue;
                }
                let on = topology.leaves(chosen.iter().map(|node| NodeIdx::new(*node)));
                let level = topology.common_level(on.iter().map(|(leaf, _)| *leaf)).unwrap();
                let leaves = on.len() as u32;
                best = Some(match best {
                    None => (leaves, level, leaves),
                    Some((least, low, at_low)) => {
                        let (low, at_low) = (low, at_low).min((level, leaves));
                        (least.min(leaves), low, at_low)
                    }
                });
            }
            if let Some((least, _, at_low)) = best {
                return Some((least, at_low));
            }
        }
        None
    }
}

/// Returns the figures of a placement that do not depend on names.
fn figures(placed: &Placement) -> (usize, Option<u32>, u32, u64, usize) {
    let TopologyUse { leaves, fewest, level, loss, class, .. } = placed.topology.clone().unwrap();
    (leaves.len(), level, fewest, loss, class)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Goal: on clusters of one to three levels, with and without a root, with busy nodes and two
    /// classes of Weight, no more leaves are used than by the best of all sets.
    #[test]
    fn never_more_leaves_than_the_best_of_all_sets(
        small in small(),
        wanted in 2u32..=8,
        cpus in prop::sample::select(vec![1, 4]),
    ) {
        let at: Vec<usize> = (0..small.nodes.len()).collect();
        let topology = small.placer(&at).cluster().table().topologies[0].clone();
        let placed = small.decide(&at, wanted, cpus);
        let exact = small.exact(&topology, wanted, cpus);
        prop_assert_eq!(placed.is_some(), exact.is_some());
        let (Some(placed), Some((least, at_low))) = (placed, exact) else { return Ok(()) };
        let (leaves, _, fewest, ..) = figures(&placed);
        prop_assert_eq!(placed.nodes.len() as u32, wanted);
        prop_assert!(placed.nodes.iter().all(|node| small.fits(node.at(), cpus)));
        // Stock, too, takes more leaves below a low switch before fewer below a high one, and in a
        // forest of several Weights the tree of the lightest node.
        let is_stocks = small.stock_takes(&at, wanted, cpus, &placed.nodes);
        prop_assert!(fewest == least || is_stocks, "{fewest} are said, possible {least}");
        let few = leaves as u32 <= at_low;
        prop_assert!(few || is_stocks, "{leaves} leaves, possible {least}, {at_low}");
        prop_assert!(small.levels == 3 || leaves as u32 == least || is_stocks);
    }

    /// Goal: other positions in the node table, and so other names, change nothing; except where
    /// stock's nodes, which go by position, cost less and are taken.
    #[test]
    fn names_and_order_of_nodes_do_not_count(
        small in small(),
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
        wanted in 1u32..=8,
        cpus in prop::sample::select(vec![1, 4]),
    ) {
        let count = small.nodes.len();
        let at: Vec<usize> = (0..count).collect();
        let other: Vec<usize> = order.into_iter().filter(|&at| at < count).collect();
        let one = small.decide(&at, wanted, cpus);
        let two = small.decide(&other, wanted, cpus);
        let stocks = [&at, &other].map(|at| small.stock_leaves(at, wanted, cpus));
        let [one, two] = [one, two].map(|placed| placed.as_ref().map(figures));
        // What is lost where stock's own nodes are taken is not counted.
        let on = |all: &(usize, Option<u32>, u32, u64, usize)| (all.0, all.1);
        let is_alike = one.as_ref().map(on) == two.as_ref().map(on);
        prop_assert!(one == two || is_alike || stocks[0] != stocks[1], "{one:?} {two:?}");
    }

    /// Goal: with blocks of all sizes, with and without aggregates, no more blocks are used than by
    /// the best set that stock accepts.
    #[test]
    fn never_more_blocks_than_the_best_that_stock_accepts(
        free in prop::collection::vec(0u32..=4, 1..=4),
        levels in prop::sample::select(vec![vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 2]]),
        wanted in 2u32..=12,
    ) {
        prop_assume!(free.iter().sum::<u32>() <= 12);
        let (topology, rule) = blocks(&vec![4; free.len()], 4, &levels);
        let none = vec![0; free.len()];
        let plan = rule.choose(&topology, &counts(&none, &free), wanted);
        let accepted =
            |take: &Vec<u32>| place_one(&rule, &none, take, wanted).as_ref() == Some(take);
        let used = |take: &Vec<u32>| take.iter().filter(|take| **take > 0).count() as u32;
        let least = takes(&free, wanted).into_iter().filter(accepted).map(|take| used(&take)).min();
        prop_assert_eq!(plan.map(|plan| plan.leaves), least);
    }

    #[test]
    fn never_more_blocks_than_the_segments_need(
        free in prop::collection::vec(0u32..=4, 1..=4),
        segment in 1u32..=3,
        count in 1u32..=6,
    ) {
        let (topology, rule) = blocks(&vec![4; free.len()], 4, &[0, 1]);
        let none = vec![0; free.len()];
        let wanted = segment * count;
        let plan = rule.choose_segments(&topology, &counts(&none, &free), wanted, segment, false);
        let whole = |take: &Vec<u32>| take.iter().all(|take| take % segment == 0);
        let used = |take: Vec<u32>| take.iter().filter(|take| **take > 0).count() as u32;
        let least = takes(&free, wanted).into_iter().filter(whole).map(used).min();
        prop_assert_eq!(plan.map(|plan| plan.leaves), least);
    }
}

/// Returns all ways to take `wanted` nodes.
fn takes(free: &[u32], wanted: u32) -> Vec<Vec<u32>> {
    let Some((&first, rest)) = free.split_first() else {
        return if wanted == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let with = |here: u32| {
        takes(rest, wanted - here).into_iter().map(move |rest| [vec![here], rest].concat())
    };
    (0..=first.min(wanted)).flat_map(with).collect()
}
