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

/// Fewest remote items over all ways to give `moves` items of unit weight to the
/// receivers, by trying all.
fn fewest_remote(local: &[Vec<bool>], wanted: &mut [u64], item: usize) -> Option<usize> {
    let open: u64 = wanted.iter().sum();
    if open == 0 {
        return Some(0);
    }
    if item == local.len() {
        return None;
    }
    let mut best = fewest_remote(local, wanted, item + 1);
    for receiver in 0..wanted.len() {
        if wanted[receiver] > 0 {
            wanted[receiver] -= 1;
            let rest = fewest_remote(local, wanted, item + 1);
            wanted[receiver] += 1;
            let all = rest.map(|rest| rest + usize::from(!local[item][receiver]));
            best = match (best, all) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    best
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
    fn every_sender_moves_as_few_remote_items_as_possible(
        (capability, items) in (2_usize..5).prop_flat_map(|nodes| (
            proptest::collection::vec(0.0_f64..4.0, nodes),
            items(nodes, 1..2),
        )),
    ) {
        let items: Vec<Item> = items.into_iter().take(12).collect();
        let problem = problem(&capability, items.clone());
        let answer = solve(&problem).unwrap();
        let mut load = vec![0_u64; capability.len()];
        let mut on: Vec<Vec<&Item>> = vec![Vec::new(); capability.len()];
        for item in &items {
            let holds = |node: &usize| item.replicas.contains(&format!("n{node}"));
            let least = (0..load.len()).filter(holds).min_by_key(|&node| load[node]).unwrap();
            load[least] += 1;
            on[least].push(item);
        }
        let mut fewest = 0;
        for (sender, items) in on.iter().enumerate() {
            let name = format!("n{sender}");
            let sent = || answer.transfers.iter().filter(|step| step.from == name);
            let mut wanted: Vec<u64> = sent().map(|step| step.count).collect();
            let local: Vec<Vec<bool>> = items
                .iter()
                .map(|item| sent().map(|step| item.replicas.contains(&step.to)).collect())
                .collect();
            fewest += fewest_remote(&local, &mut wanted, 0).unwrap();
        }
        prop_assert_eq!(answer.remote_items, Some(fewest));
    }
}
