// SPDX-License-Identifier: GPL-3.0-or-later
//! The choices of leaves and blocks: worked examples, and all small cases against
//! exact enumeration and stock's own steps.

use proptest::prelude::*;

use super::accept::{Blocks, place_one};
use super::counts::{Counts, Plan};
use super::greedy::tree_greedy;
use super::tree::Tree;
use super::tree_plans::Plans;
use phalanx_core::snapshot::{Table, TableNode};
use phalanx_core::topology::{Topology, parse_conf};

/// A tree of leaves `s0`, `s1`, ... of the given sizes and further lines of topology.conf.
fn tree(sizes: &[u32], upper: &str, slurm: u32) -> Topology {
    let mut text = String::new();
    let mut nodes = Vec::new();
    for (leaf, &size) in sizes.iter().enumerate() {
        let first = nodes.len();
        nodes.extend((first..).take(size as usize).map(|at| format!("n{at}")));
        let list =
            if size == 0 { String::new() } else { format!("Nodes=n[{first}-{}]", nodes.len() - 1) };
        text.push_str(&format!("SwitchName=s{leaf} {list}\n"));
    }
    let node = |name: String| TableNode { name: name.into(), ..TableNode::default() };
    let table = Table { nodes: nodes.into_iter().map(node).collect(), ..Table::default() };
    parse_conf(&format!("{text}{upper}\n"), slurm, &table).unwrap()
}

fn two_levels(free: &[u32]) -> Topology {
    tree(free, &format!("SwitchName=top Switches=s[0-{}]", free.len() - 1), 0)
}

/// Counts for idle free nodes, and candidates of one class.
fn idle(free: &[u32]) -> Counts {
    counts(&vec![0; free.len()], free)
}

pub(super) fn counts(forced: &[u32], free: &[u32]) -> Counts {
    let idle = forced.iter().zip(free).map(|(forced, free)| forced + free).collect();
    Counts {
        forced: forced.to_vec(),
        forced_idle: forced.to_vec(),
        free: free.to_vec(),
        free_idle: free.to_vec(),
        idle,
    }
}

fn chosen(topology: &Topology, free: &[u32], wanted: u32) -> Plan {
    let plans = Tree::new(topology).choose(&idle(free), wanted, None).unwrap();
    plans.equal.into_iter().next().unwrap()
}

#[test]
fn worked_examples_of_trees() {
    let four = [8, 5, 3, 2];
    let plan = chosen(&two_levels(&four), &four, 4);
    assert_eq!((plan.take, plan.leaves, plan.loss), (vec![(1, 4)], 1, 24));
    let plan = chosen(&two_levels(&four), &four, 10);
    assert_eq!((plan.take, plan.leaves, plan.loss), (vec![(0, 8), (3, 2)], 2, 68));
    let five = [8, 6, 6, 4, 4];
    let plan = chosen(&two_levels(&five), &five, 10);
    assert_eq!((plan.leaves, plan.level, plan.loss), (2, Some(1), 76));
    let large = [32, 20, 20, 16, 16];
    assert_eq!(chosen(&two_levels(&large), &large, 36).take, [(0, 32), (3, 4)]);
}

/// Goal: a pod of small leaves, or fewer leaves over the root, as stock's steps would end.
#[test]
fn worked_example_of_three_levels() {
    let upper = "SwitchName=p1 Switches=s[0-2]\nSwitchName=p2 Switches=s3\n\
                 SwitchName=top Switches=p1,p2";
    let free = [4, 1, 1, 2];
    for slurm in [0x0016_0508, 0x0018_0b05] {
        let topology = tree(&free, upper, slurm);
        let tree = Tree::new(&topology);
        let leaves = [0, 1, 2, 3];
        let greedy = tree_greedy(&tree, &leaves, &idle(&free), 6).unwrap();
        let plan = chosen(&topology, &free, 6);
        let expected = if greedy.len() == 3 { (3, Some(1)) } else { (2, Some(2)) };
        assert_eq!((plan.leaves, plan.level), expected, "{slurm:x}: {greedy:?}");
    }
    let plans = Tree::new(&tree(&free, upper, 0)).choose(&idle(&free), 6, Some(2)).unwrap();
    assert_eq!((plans.equal[0].leaves, plans.fewest), (2, 2), "--switches=2 comes first");
}

#[test]
fn one_leaf_lists_all_that_are_as_good() {
    let free = [4, 4, 6, 4];
    let plans = Tree::new(&two_levels(&free)).choose(&idle(&free), 3, None).unwrap();
    assert_eq!(plans.leaves, [0, 1, 3]);
    assert_eq!(plans.equal.len(), 3);
}

/// Goal: nodes of lighter classes are taken, and their leaves filled first.
#[test]
fn leaves_of_forced_nodes_come_first() {
    let counts = counts(&[1, 0, 0], &[2, 9, 1]);
    let topology = two_levels(&[3, 9, 1]);
    let take = |wanted| {
        let plans = Tree::new(&topology).choose(&counts, wanted, None).unwrap();
        (plans.equal[0].take.clone(), plans.equal[0].leaves)
    };
    assert_eq!(take(3), (vec![(0, 2)], 1));
    assert_eq!(take(4), (vec![(0, 2), (2, 1)], 2));
    assert_eq!(take(5), (vec![(0, 2), (1, 2)], 2));
}

#[test]
fn separate_roots_are_never_joined() {
    let free = [3, 4, 5];
    let topology = tree(&free, "SwitchName=top Switches=s[0-1]", 0);
    let tree = Tree::new(&topology);
    assert_eq!(tree.choose(&idle(&free), 4, None).unwrap().equal[0].take, [(1, 4)]);
    assert_eq!(tree.choose(&idle(&free), 7, None).unwrap().equal[0].take, [(0, 3), (1, 4)]);
    assert_eq!(tree.choose(&idle(&free), 8, None), None);
}

pub(super) fn blocks(sizes: &[u32], size: u32, levels: &[u32]) -> (Topology, Blocks) {
    let mut topology = tree(sizes, "", 0);
    let mut parts = topology.parts().clone();
    parts.kind = phalanx_core::topology::Kind::Block;
    (parts.block_size, parts.block_levels) = (size, levels.to_vec());
    topology = Topology::from(parts);
    let blocks = Blocks::new(&topology);
    (topology, blocks)
}

#[test]
fn worked_examples_of_blocks() {
    let free = [4, 3, 2, 4];
    let (topology, b) = blocks(&free, 4, &[0, 1]);
    let choose = |free: &[u32], n| b.choose(&topology, &idle(free), n);
    let stock = |free: &[u32], n| place_one(&b, &[0; 4], free, n);
    assert_eq!(stock(&free, 3).unwrap(), [0, 3, 0, 0]);
    assert_eq!(choose(&free, 3).unwrap().take, [(1, 3)]);
    assert_eq!(stock(&free, 5).unwrap(), [0, 0, 1, 4]);
    assert_eq!(choose(&free, 5).unwrap().loss, 16 + 3);
    assert_eq!(choose(&free, 7).unwrap().take, [(0, 4), (1, 3)]);
    assert_eq!(stock(&free, 9).unwrap(), [4, 0, 1, 4]);
    let nine = choose(&free, 9).unwrap();
    assert_eq!((nine.leaves, nine.loss), (3, 35));
    assert_eq!(stock(&[0, 3, 3, 0], 6), None);
    assert_eq!(choose(&[4, 3, 2, 4], 6).unwrap().take, [(2, 2), (3, 4)]);
    assert_eq!((stock(&free, 8), choose(&free, 8)), (None, None));
}

#[test]
fn worked_examples_of_large_blocks() {
    let (topology, b) = blocks(&[18; 3], 18, &[0, 1, 2]);
    let free = [17, 17, 17];
    let segments = b.choose_segments(&topology, &idle(&free), 36, 12, false).unwrap();
    assert_eq!(segments.take, [(0, 12), (1, 12), (2, 12)]);
    assert_eq!(b.choose(&topology, &idle(&free), 36), None);
    let (topology, b) = blocks(&[18; 4], 18, &[0, 1, 2]);
    let free = [16, 16, 10, 17];
    assert_eq!(place_one(&b, &[0; 4], &free, 40).unwrap(), [0, 16, 7, 17]);
    let plan = b.choose(&topology, &idle(&free), 40).unwrap();
    assert_eq!((plan.leaves, plan.loss), (3, 636));
    let segments = b.choose_segments(&topology, &idle(&[18, 18, 5, 17]), 18, 6, true).unwrap();
    assert_eq!(segments.take.len(), 3, "{segments:?}");
}

/// Goal: nine nodes on three blocks of four with aggregates of two, which stock never places, are
/// not offered.
#[test]
fn what_stock_never_places_is_not_offered() {
    let free = [4, 4, 4];
    let (topology, b) = blocks(&free, 4, &[0, 1]);
    assert_eq!(place_one(&b, &[0; 3], &free, 9), None);
    assert_eq!(b.choose(&topology, &idle(&free), 9), None);
}

/// Fewest leaves and least loss, over all ways to take `wanted` nodes.
fn exact(free: &[u32], wanted: u32) -> Option<(u32, u64)> {
    fn walk(free: &[u32], left: u32) -> Vec<(u32, u64)> {
        let Some((&first, rest)) = free.split_first() else {
            return if left == 0 { vec![(0, 0)] } else { Vec::new() };
        };
        let f = u64::from(first);
        let here = |take: u32| {
            let loss = f * f - (f - u64::from(take)).pow(2);
            let below = walk(rest, left - take);
            below.into_iter().map(move |(k, l)| (k + u32::from(take > 0), l + loss))
        };
        (0..=first.min(left)).flat_map(here).collect()
    }
    walk(free, wanted).into_iter().min()
}

fn three_levels(pods: &[usize], leaves: usize) -> String {
    let mut text = String::new();
    for pod in 0..3 {
        let own: Vec<String> =
            (0..leaves).filter(|&l| pods[l] == pod).map(|l| format!("s{l}")).collect();
        if !own.is_empty() {
            text.push_str(&format!("SwitchName=p{pod} Switches={}\n", own.join(",")));
        }
    }
    let pods: std::collections::BTreeSet<usize> = pods[..leaves].iter().copied().collect();
    let pods: Vec<String> = pods.iter().map(|pod| format!("p{pod}")).collect();
    format!("{text}SwitchName=top Switches={}", pods.join(","))
}

fn total(plan: &Plan) -> u32 {
    plan.take.iter().map(|(_, take)| take).sum()
}

fn first(plans: Option<Plans>) -> Option<Plan> {
    plans.map(|plans| plans.equal.into_iter().next().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn two_levels_take_the_fewest_leaves(
        free in proptest::collection::vec(0u32..=8, 1..=6),
        wanted in 2u32..30,
    ) {
        let plan = first(Tree::new(&two_levels(&free)).choose(&idle(&free), wanted, None));
        let exact = exact(&free, wanted);
        prop_assert_eq!(plan.is_some(), exact.is_some());
        if let (Some(plan), Some((leaves, _))) = (plan, exact) {
            prop_assert_eq!((plan.leaves, total(&plan)), (leaves, wanted));
            for (leaf, take) in plan.take {
                prop_assert!(take > 0 && take <= free[leaf as usize]);
            }
        }
    }

    /// Goal: never more leaves than stock's steps take, and never a higher switch, by both sets of
    /// rules, with one, two or no switch above the leaves of several pods.
    #[test]
    fn never_worse_than_stock(
        free in proptest::collection::vec(0u32..=8, 1..=6),
        forced in proptest::collection::vec(0u32..=1, 6),
        pods in proptest::collection::vec(0usize..3, 6),
        wanted in 2u32..30,
        some_forced in any::<bool>(),
    ) {
        let leaves = free.len();
        let some = u32::from(some_forced);
        let forced: Vec<u32> = forced[..leaves].iter().map(|f| f * some).collect();
        let sizes: Vec<u32> = free.iter().zip(&forced).map(|(a, b)| a + b).collect();
        prop_assume!(forced.iter().sum::<u32>() < wanted);
        for slurm in [0x0016_0508, 0x0018_0b05] {
            let topology = tree(&sizes, &three_levels(&pods, leaves), slurm);
            let tree = Tree::new(&topology);
            let counts = counts(&forced, &free);
            let plan = first(tree.choose(&counts, wanted, None));
            let all: Vec<u32> = (0..).take(leaves).collect();
            let held: Vec<u32> =
                all.iter().copied().filter(|&l| forced[l as usize] > 0).collect();
            let in_held: u32 = held.iter().map(|&l| free[l as usize]).sum();
            let missing = (wanted - forced.iter().sum::<u32>()).saturating_sub(in_held);
            let greedy = tree_greedy(&tree, &all, &counts, missing);
            let Some(greedy) = greedy else { continue };
            let plan = plan.unwrap();
            let stock: Vec<u32> = greedy.iter().chain(&held).copied().collect();
            prop_assert!(plan.leaves as usize <= stock.len(), "{plan:?} {stock:?}");
            prop_assert!(plan.level <= tree.common_level(&stock), "{plan:?} {stock:?}");
            prop_assert_eq!(total(&plan) + forced.iter().sum::<u32>(), wanted);
        }
    }

    #[test]
    fn stock_accepts_every_answer_under_block(
        free in proptest::collection::vec(0u32..=5, 1..=5),
        forced in proptest::collection::vec(0u32..=1, 5),
        some_forced in any::<bool>(),
        levels in proptest::sample::select(vec![vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 2]]),
        size in 1u32..=5,
        wanted in 2u32..25,
    ) {
        let count = free.len();
        let some = u32::from(some_forced);
        let forced: Vec<u32> = forced[..count].iter().map(|f| f * some).collect();
        let sizes: Vec<u32> = free.iter().zip(&forced).map(|(a, b)| a + b).collect();
        prop_assume!(forced.iter().sum::<u32>() < wanted);
        let (topology, b) = blocks(&sizes, size, &levels);
        let stock = place_one(&b, &forced, &free, wanted);
        let plan = b.choose(&topology, &counts(&forced, &free), wanted);
        // What stock takes of all, it may refuse when it is offered only that.
        let again = |take: &Vec<u32>| place_one(&b, &forced, take, wanted).is_some();
        if let Some(stock) = stock.filter(again) {
            let used = stock.iter().zip(&forced).filter(|(take, f)| *take + *f > 0).count();
            prop_assert!(plan.as_ref().is_some_and(|plan| plan.leaves as usize <= used));
        }
        if let Some(plan) = plan {
            let mut taken = vec![0; count];
            for &(leaf, take) in &plan.take {
                prop_assert!(take <= free[leaf as usize]);
                taken[leaf as usize] = take;
            }
            prop_assert_eq!(place_one(&b, &forced, &taken, wanted), Some(taken));
        }
    }

    #[test]
    fn segments_are_whole(
        free in proptest::collection::vec(0u32..=9, 1..=5),
        segment in 1u32..=4,
        count in 1u32..6,
        spread in any::<bool>(),
    ) {
        let (topology, b) = blocks(&free, 9, &[0, 1, 2]);
        let wanted = segment * count;
        let room = |&free: &u32| (free / segment).min(if spread { 1 } else { u32::MAX });
        let plan = b.choose_segments(&topology, &idle(&free), wanted, segment, spread);
        prop_assert_eq!(plan.is_some(), free.iter().map(room).sum::<u32>() >= count);
        for (leaf, take) in plan.iter().flat_map(|plan| &plan.take) {
            prop_assert!(take % segment == 0 && *take <= free[*leaf as usize]);
            prop_assert!(!spread || *take == segment);
        }
    }
}
