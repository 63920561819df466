// SPDX-License-Identifier: GPL-3.0-or-later
//! Properties of the load partition on random problems.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use phalanx_methods::share::{Item, Problem, solve, targets, transfers};
use proptest::prelude::*;

fn items(nodes: usize, weights: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Item>> {
    let replicas = proptest::sample::subsequence((0..nodes).collect::<Vec<_>>(), 1..=3.min(nodes));
    proptest::collection::vec((replicas, weights), 0..40).prop_map(|all| {
        let item = |(i, (replicas, weight)): (usize, (Vec<usize>, u64))| Item {
            id: format!("b{i}"),
            replicas: replicas.into_iter().map(|node| format!("n{node}")).collect(),
            weight,
        };
        all.into_iter().enumerate().map(item).collect()
    })
}

fn problem(capability: &[f64], items: Vec<Item>) -> Problem {
    let nodes = (0..capability.len()).map(|i| format!("n{i}")).collect();
    Problem { nodes, capability: capability.to_vec(), load: None, items: Some(items) }
}

/// Weight on each node and whether each item is at home, from the answer alone.
fn weigh(problem: &Problem) -> (Vec<u64>, usize, usize) {
    let answer = solve(problem).unwrap();
    let items = problem.items.as_ref().unwrap();
    let mut load = vec![0; problem.nodes.len()];
    let (mut seen, mut remote) = (0, 0);
    for (node, ids) in &answer.partition.as_ref().unwrap().0 {
        let place = problem.nodes.iter().position(|name| name == node).unwrap();
        for id in ids {
            let item = items.iter().find(|item| item.id == *id).unwrap();
            load[place] += item.weight;
            seen += 1;
            remote += usize::from(!item.replicas.contains(node));
        }
    }
    assert_eq!(answer.remote_items, Some(remote));
    (load, seen, remote)
}

/// Fewest remote items of all partitions that meet the targets: one augmenting path after the
/// other from an item to a node with room.
fn fewest_remote(holders: &[Vec<usize>], target: &[u64]) -> usize {
    fn take(item: usize, holders: &[Vec<usize>], open: &mut Slots<'_>) -> bool {
        for &node in &holders[item] {
            if std::mem::replace(&mut open.seen[node], true) {
                continue;
            }
            if (open.on[node].len() as u64) < open.target[node] {
                open.on[node].push(item);
                return true;
            }
            for at in 0..open.on[node].len() {
                let other = open.on[node][at];
                if take(other, holders, open) {
                    open.on[node][at] = item;
                    return true;
                }
            }
        }
        false
    }
    struct Slots<'a> {
        target: &'a [u64],
        on: Vec<Vec<usize>>,
        seen: Vec<bool>,
    }
    let mut open = Slots { target, on: vec![Vec::new(); target.len()], seen: Vec::new() };
    let local = |&item: &usize| {
        open.seen = vec![false; target.len()];
        take(item, holders, &mut open)
    };
    holders.len() - (0..holders.len()).filter(local).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn targets_keep_the_sum_and_stay_within_one(
        total in 0_u64..1_000_000,
        capability in proptest::collection::vec(0.0_f64..10.0, 1..20),
    ) {
        let target = targets(total, &capability);
        prop_assert_eq!(target.iter().sum::<u64>(), total);
        let sum: f64 = capability.iter().sum();
        if sum > 0.0 {
            for (&target, &capability) in target.iter().zip(&capability) {
                let exact = total as f64 * capability / sum;
                prop_assert!((target as f64 - exact).abs() < 1.0 + 1e-6);
                prop_assert!(capability > 0.0 || target == 0);
            }
        }
    }

    #[test]
    fn transfers_reach_the_targets(
        load in proptest::collection::vec(0_u64..1000, 1..20),
        capability in proptest::collection::vec(0.0_f64..10.0, 20),
    ) {
        let target = targets(load.iter().sum(), &capability[..load.len()]);
        let moves = transfers(&load, &target);
        let pairs = || load.iter().zip(&target);
        let above = pairs().filter(|(load, target)| load > target).count();
        let below = pairs().filter(|(load, target)| load < target).count();
        prop_assert!(moves.len() <= (above + below).saturating_sub(1));
        let mut after = load.clone();
        for step in &moves {
            prop_assert!(step.count > 0 && after[step.from] >= step.count);
            after[step.from] -= step.count;
            after[step.to] += step.count;
        }
        prop_assert_eq!(after, target);
    }

    #[test]
    fn unit_items_reach_the_targets(
        (capability, items) in (1_usize..8).prop_flat_map(|nodes| (
            proptest::collection::vec(0.0_f64..4.0, nodes),
            items(nodes, 1..2),
        )),
    ) {
        let count = items.len();
        let problem = problem(&capability, items);
        let (load, seen, _) = weigh(&problem);
        prop_assert_eq!(seen, count);
        prop_assert_eq!(load, solve(&problem).unwrap().target);
    }

    #[test]
    fn weighted_items_come_close(
        (capability, items) in (1_usize..8).prop_flat_map(|nodes| (
            proptest::collection::vec(0.0_f64..4.0, nodes),
            items(nodes, 1..10),
        )),
    ) {
        let count = items.len();
        let heaviest = items.iter().map(|item| item.weight).max().unwrap_or(0);
        let problem = problem(&capability, items);
        let answer = solve(&problem).unwrap();
        let (load, seen, _) = weigh(&problem);
        prop_assert_eq!(seen, count);
        // Every transfer misses its count by at most half of the heaviest item.
        let slack = heaviest * capability.len() as u64;
        for (&load, &target) in load.iter().zip(&answer.target) {
            prop_assert!(load.abs_diff(target) <= slack);
        }
    }

    #[test]
    fn as_few_items_as_possible_are_remote(
        (capability, items) in (1_usize..9).prop_flat_map(|nodes| (
            proptest::collection::vec(0.0_f64..4.0, nodes),
            items(nodes, 1..2),
        )),
    ) {
        let problem = problem(&capability, items);
        let answer = solve(&problem).unwrap();
        let (load, seen, remote) = weigh(&problem);
        prop_assert_eq!(&load, &answer.target);
        prop_assert_eq!(seen as u64, load.iter().sum::<u64>());
        let node = |name: &String| problem.nodes.iter().position(|own| own == name).unwrap();
        let items = problem.items.as_ref().unwrap();
        let holders: Vec<Vec<usize>> =
            items.iter().map(|item| item.replicas.iter().map(node).collect()).collect();
        prop_assert_eq!(remote, fewest_remote(&holders, &answer.target));
        // Nothing moves but what is remote then.
        let moved: u64 = answer.transfers.iter().map(|step| step.count).sum();
        prop_assert_eq!(moved, remote as u64);
    }
}

/// Goal: 100,000 items with three replicas each on 1,000 nodes, most of which lie on few nodes: a
/// search that is quadratic in the items would not end.
#[test]
fn many_items_are_split() {
    let nodes: u64 = 1000;
    let item = |i: u64| {
        let mut all: Vec<u64> = (1..=3).map(|k| (i * i * k + 7 * i + k) % (nodes / k)).collect();
        all.sort_unstable();
        all.dedup();
        let replicas = all.iter().map(|node| format!("n{node}")).collect();
        Item { id: format!("b{i}"), replicas, weight: 1 }
    };
    let capability: Vec<f64> = (0..nodes).map(|node| (1 + node % 5) as f64).collect();
    let problem = problem(&capability, (0..100_000).map(item).collect());
    let answer = solve(&problem).unwrap();
    let moved: u64 = answer.transfers.iter().map(|step| step.count).sum();
    assert_eq!(answer.target.iter().sum::<u64>(), 100_000);
    assert_eq!(Some(moved), answer.remote_items.map(|items| items as u64));
}
