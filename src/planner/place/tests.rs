// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of placement: classes of Weight and level, fewest nodes.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::uneven::fewest_nodes;
use super::*;
use crate::cluster::{Held, TableNode};

fn node(name: &str, weight: u32) -> TableNode {
    TableNode { name: name.into(), cpus: 8, threads: 1, weight, ..TableNode::default() }
}

fn leveled(levels: &[(&str, u32)], ignore_node_weight: bool) -> Tuning {
    let levels = levels.iter().map(|&(name, level)| (Arc::from(name), level)).collect();
    Tuning { levels: Arc::new(levels), ignore_node_weight, ..Tuning::default() }
}

/// Measured levels order nodes of one Weight, and never those of several.
#[test]
fn nodes_of_one_weight_are_tried_by_level() {
    let nodes = vec![node("a", 1), node("b", 1), node("c", 1), node("heavy", 2)];
    let cluster = Cluster::new(Table { nodes, ..Table::default() });
    let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
    let decided = |placer: &mut Placer, cpus| {
        let shape = Shape { min_nodes: 1, max_nodes: 1, min_cpus: cpus, ..Shape::default() };
        let placed = placer.decide(&shape, Candidates::new(&[0b1111]), 0).unwrap();
        placed.nodes.iter().map(|node| node.raw()).collect::<Vec<_>>()
    };
    let levels = [("heavy", 0), ("b", 1), ("c", 0)];
    placer.tune(leveled(&levels, false)).unwrap();
    assert_eq!(decided(&mut placer, 8), [2]);
    placer.tune(leveled(&levels, true)).unwrap();
    assert_ne!(decided(&mut placer, 8), [1]);
    let held = |node: u32| vec![Held { node: node.into(), cpus: 8, ..Held::default() }];
    let job = |id, node| RunningJob { id, held: held(node), ..RunningJob::default() };
    placer.tune(leveled(&levels, false)).unwrap();
    placer.set_job(job(1, 2));
    assert_eq!(decided(&mut placer, 8), [1]);
    placer.set_job(job(2, 1));
    assert_eq!(decided(&mut placer, 8), [0], "without a level last, but before the heavy");
    placer.end_job(1);
    placer.end_job(2);
    placer.tune(Tuning::default()).unwrap();
    assert_eq!(decided(&mut placer, 8), [0]);
}

/// The rule in words: all nodes in order, most tasks first; as few as hold
/// all tasks; the last one exchanged for the smallest that suffices.
fn by_sorting(
    mut tasks_on: Vec<(u64, NodeIdx)>,
    needed: u64,
    wanted: usize,
    max_nodes: usize,
) -> Option<Vec<NodeIdx>> {
    tasks_on.sort_unstable_by_key(|&(tasks, node)| (Reverse(tasks), node));
    let sum = |n: usize| tasks_on.iter().take(n).map(|(tasks, _)| tasks).sum::<u64>();
    let taken = (wanted..=tasks_on.len()).find(|&n| sum(n) >= needed)?;
    if taken > max_nodes {
        return None;
    }
    let missing = needed.saturating_sub(sum(taken - 1)).max(1);
    let last = tasks_on.iter().skip(taken - 1).rfind(|(tasks, _)| *tasks >= missing)?;
    let mut nodes: Vec<NodeIdx> =
        tasks_on.iter().take(taken - 1).chain([last]).map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    Some(nodes)
}

proptest! {
    #[test]
    fn the_heap_takes_the_nodes_that_sorting_would(
        tasks in proptest::collection::vec(1u64..20, 0..40),
        needed in 1u32..200,
        wanted in 1usize..6,
        max_nodes in 1usize..40,
    ) {
        let nodes = (0..).map(NodeIdx::new);
        let tasks_on: Vec<(u64, NodeIdx)> = tasks.iter().copied().zip(nodes).collect();
        let shape = Shape {
            num_tasks: needed,
            min_nodes: 1,
            max_nodes: u32::try_from(max_nodes).unwrap(),
            ..Shape::default()
        };
        let needed = shape.tasks();
        let expected = by_sorting(tasks_on.clone(), needed, wanted, max_nodes);
        let found = fewest_nodes(tasks_on.clone(), &shape, u32::try_from(wanted).unwrap());
        let nodes = |shares: &Vec<(u64, NodeIdx)>| shares.iter().map(|(_, n)| *n).collect();
        prop_assert_eq!(found.as_ref().map(nodes), expected);
        for (share, node) in found.iter().flatten() {
            prop_assert!(*share >= 1 && *share <= tasks_on[node.at()].0);
        }
        if let Some(shares) = found {
            prop_assert!(shares.iter().map(|(share, _)| share).sum::<u64>() >= needed);
        }
    }
}
