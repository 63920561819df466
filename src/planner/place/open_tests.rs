// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs whose number of nodes is open: as few nodes as possible, never more than with stock,
//! neighbours, of one kind, the lightest.
#![allow(clippy::cast_possible_truncation)] // a few nodes

use std::borrow::Cow;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::cluster::{Held, Table, TableNode};
use crate::preference::{
    CandidateSet, JobKey, Method, Note, Preference, PreferenceTable, Preferences, Question, Waits,
};
use crate::room::{nodes_needed, nodes_when_idle};
use phalanx_core::shape::{GresWant, LeftToSlurm, Memory};

const CPUS: u64 = 8;

/// A cluster of nodes given by name and Weight, and a topology.conf.
fn cluster(nodes: &[(&str, u32)], conf: &str) -> Placer {
    let node = |&(name, weight): &(&str, u32)| TableNode {
        name: name.into(),
        cpus: CPUS,
        threads: 1,
        memory_mb: 8000,
        weight,
        kinds: vec![(0.into(), 4)],
        ..TableNode::default()
    };
    let nodes = nodes.iter().map(node).collect();
    let mut table = Table { nodes, kinds: vec![Arc::from("gpu")], ..Table::default() };
    if !conf.is_empty() {
        table.topologies = vec![phalanx_core::topology::parse_conf(conf, 0, &table).unwrap()];
    }
    Placer::new(Cluster::new(table), true, Tuning::default(), Vec::new()).unwrap()
}

fn named(names: &str, count: usize) -> Vec<String> {
    names.chars().flat_map(|c| (1..=count).map(move |n| format!("{c}{n}"))).collect()
}

/// Makes `count` nodes of Weight 1 for each letter.
fn equal(names: &str, count: usize, conf: &str) -> Placer {
    let names = named(names, count);
    cluster(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>(), conf)
}

fn hold(placer: &mut Placer, node: usize, cpus: u64) {
    let held = vec![Held { node: NodeIdx::new(node), cpus, ..Held::default() }];
    let id = node as u32 + 100;
    placer.set_job(RunningJob { id, held, ..RunningJob::default() });
}

/// `-n TASKS`.
fn tasks(count: u32) -> Shape {
    Shape {
        min_nodes: 1,
        max_nodes: u32::MAX,
        req_nodes: 1,
        min_cpus: count,
        num_tasks: count,
        ..Shape::default()
    }
}

fn answer(placer: &mut Placer, shape: &Shape) -> Result<Vec<usize>, Why> {
    let all = NodeSet::full(placer.cluster().usages().len());
    let placed = placer.decide(shape, Candidates::new(all.words()), Holding::After(0))?;
    Ok(placed.nodes.iter().map(|node| node.at()).collect())
}

#[test]
fn nodes_that_are_alike_are_taken_in_a_row() {
    let mut eight = equal("n", 8, "");
    assert_eq!(answer(&mut eight, &tasks(10)), Ok(vec![0, 1]));
    assert_eq!(answer(&mut eight, &tasks(24)), Ok(vec![0, 1, 2]));
    // The tightest run that suffices, as stock's best fit.
    hold(&mut eight, 3, 8);
    hold(&mut eight, 6, 8);
    assert_eq!(answer(&mut eight, &tasks(16)), Ok(vec![4, 5]));
    assert_eq!(answer(&mut eight, &tasks(40)), Ok(vec![0, 1, 2, 4, 5]));
    // Nodes in part free would make it three.
    hold(&mut eight, 4, 4);
    assert_eq!(answer(&mut eight, &tasks(12)), Ok(vec![4, 5]));
    assert_eq!(answer(&mut eight, &tasks(16)), Ok(vec![0, 1]));
}

/// Goal: with `TopologyParam=TopoOptional` stock looks at no switch and takes neighbours, which are
/// to be on as few leaves.
#[test]
fn without_a_say_of_switches_neighbours_are_on_as_few_leaves_as_with_stock() {
    let conf = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=t Switches=a,b\n";
    let mut placer = equal("n", 4, conf);
    let mut shape = tasks(10);
    shape.topology.optional = true;
    assert_eq!(answer(&mut placer, &shape), Ok(vec![0, 1]));
    let placed = answer(&mut placer, &tasks(10));
    assert_eq!(placed, Ok(vec![0, 1]));
    hold(&mut placer, 0, 8);
    assert_eq!(answer(&mut placer, &tasks(10)), Ok(vec![2, 3]));
    // Of two leaves one is taken whole.
    assert_eq!(answer(&mut placer, &tasks(24)), Ok(vec![1, 2, 3]));
}

/// A job `-N NODES -n TASKS`.
fn tasks_on(nodes: u32, count: u32) -> Shape {
    Shape { min_nodes: nodes, max_nodes: nodes, req_nodes: nodes, ..tasks(count) }
}

/// Goal: no node has to hold an even share of the tasks where that costs heavier nodes or leaves.
#[test]
fn tasks_are_shared_unevenly_before_heavier_nodes_or_more_leaves_are_taken() {
    let nodes = [("n1", 1), ("n2", 1), ("n3", 1), ("n4", 50), ("n5", 50)];
    let mut placer = cluster(&nodes, "");
    for (node, cpus) in [(0, 4), (1, 6), (2, 6)] {
        hold(&mut placer, node, cpus);
    }
    assert_eq!(answer(&mut placer, &tasks_on(2, 11)), Ok(vec![0, 3]));
    assert_eq!(answer(&mut placer, &tasks_on(2, 16)), Ok(vec![3, 4]));
    assert_eq!(answer(&mut placer, &tasks_on(3, 8)), Ok(vec![0, 1, 2]));
    assert_eq!(answer(&mut placer, &tasks_on(3, 13)), Ok(vec![0, 1, 3]));

    let leaves = [(1, "1-2"), (2, "3-5"), (3, "6-7"), (4, "8-10"), (5, "11")];
    let leaf = |(at, nodes): (i32, &str)| format!("SwitchName=l{at} Nodes=n[{nodes}]\n");
    let conf = leaves.map(leaf).concat() + "SwitchName=top Switches=l[1-5]\n";
    let mut placer = equal("n", 11, &conf);
    for node in 0..11 {
        hold(&mut placer, node, [4, 8, 4, 4, 4, 6, 4, 4, 7, 4, 4][node]);
    }
    assert_eq!(answer(&mut placer, &tasks_on(7, 15)).map(|nodes| leaves_of(&nodes)), Ok(3));
}

/// Number of leaves that the chosen nodes are on.
#[test]
fn cpus_that_gres_of_a_node_bring_are_not_each_tasks() {
    let mut placer = equal("n", 4, "");
    let gres = vec![GresWant { per_node: 2, cpus_per_gres: 2, ..GresWant::default() }];
    assert_eq!(answer(&mut placer, &Shape { gres, ..tasks(12) }), Ok(vec![0, 1]));
    let gres = vec![GresWant { per_node: 2, cpus_per_gres: 5, ..GresWant::default() }];
    assert!(answer(&mut placer, &Shape { gres, ..tasks(12) }).is_err());
}

/// Goal: where a leaf has room for all tasks but too few nodes, the next leaf is taken too.
#[test]
fn fewer_nodes_than_asked_for_on_a_leaf_take_the_next_leaf_too() {
    let conf = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-5]\nSwitchName=c Nodes=n6\n\
                SwitchName=t Switches=a,b,c\n";
    let mut placer = equal("n", 6, conf);
    hold(&mut placer, 0, 8);
    hold(&mut placer, 4, 4);
    assert_eq!(answer(&mut placer, &tasks_on(4, 20)), Ok(vec![1, 2, 3, 4]));
}

fn leaves_of(nodes: &[usize]) -> usize {
    let of = |node: &usize| [0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4][*node];
    nodes.iter().map(of).collect::<std::collections::BTreeSet<i32>>().len()
}

#[test]
fn a_leaf_is_taken_whole_before_the_next_one_is_begun() {
    let conf = "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=t Switches=a,b\n";
    let mut placer = equal("n", 7, conf);
    assert_eq!(answer(&mut placer, &tasks(40)), Ok(vec![0, 3, 4, 5, 6]));
}

#[test]
fn kinds_of_nodes_are_chosen_before_they_are_mixed() {
    let mut placer = equal("xy", 8, "");
    let kinds = |nodes: &[usize]| (nodes.iter().any(|n| *n < 8), nodes.iter().any(|n| *n >= 8));
    for busy in 0..8 {
        hold(&mut placer, busy, 8);
        let nodes = answer(&mut placer, &tasks(16)).unwrap();
        assert_eq!((nodes.len(), kinds(&nodes)), (2, (busy < 6, busy >= 6)), "{nodes:?}");
    }
    // Two idle nodes of each: only both kinds together hold it.
    let mut placer = equal("xy", 2, "");
    assert_eq!(answer(&mut placer, &tasks(24)).unwrap().len(), 3);
    // Of x it would need three nodes; stock, which goes by index, takes three as well.
    let mut placer = equal("xy", 3, "");
    for (node, cpus) in [(0, 0), (1, 4), (2, 4), (3, 4), (4, 4), (5, 0)] {
        hold(&mut placer, node, cpus);
    }
    assert_eq!(answer(&mut placer, &tasks(16)), Ok(vec![0, 1, 2]));
}

/// Goal: each option that decides the number of nodes does.
#[test]
fn the_number_of_nodes_follows_from_what_is_asked() {
    let mut placer = equal("n", 8, "");
    let mut count = |shape: Shape| answer(&mut placer, &shape).map(|nodes| nodes.len());
    assert_eq!(count(tasks(16)), Ok(2));
    // -N2-4, and with --use-min-nodes: without the option Slurm takes as many as there are.
    let between = Shape { min_nodes: 2, max_nodes: 4, req_nodes: 4, ..tasks(16) };
    assert_eq!(count(between.clone()), Ok(4));
    assert_eq!(count(Shape { req_nodes: 2, ..between.clone() }), Ok(2));
    assert_eq!(count(Shape { ntasks_per_node: 4, ..tasks(16) }), Ok(4));
    assert_eq!(count(Shape { ntasks_per_node: 4, ..tasks(15) }), Ok(4));
    assert_eq!(count(Shape { cpus_per_task: 3, min_cpus: 12, ..tasks(4) }), Ok(2));
    assert_eq!(count(Shape { memory: Memory::PerCpu(2000), ..tasks(10) }), Ok(3));
    let gpus = |want: GresWant, count| Shape { gres: vec![want], ..tasks(count) };
    assert_eq!(count(gpus(GresWant { per_job: 10, ..GresWant::default() }, 10)), Ok(3));
    assert_eq!(count(gpus(GresWant { per_task: 1, ..GresWant::default() }, 10)), Ok(3));
    assert_eq!(count(gpus(GresWant { per_job: 5, ..GresWant::default() }, 16)), Ok(2));
    // No node without a task.
    assert_eq!(count(gpus(GresWant { per_job: 10, ..GresWant::default() }, 2)), Err(Why::NoFit));
    let mut spread = tasks(4);
    spread.topology.spread = true;
    assert_eq!(count(spread), Err(Why::Left(LeftToSlurm::Spread)));
    let names: Vec<usize> = (0..8).filter(|n| *n != 2 && *n != 5 && *n != 6).collect();
    names.iter().for_each(|node| hold(&mut placer, *node, 8));
    assert_eq!(answer(&mut placer, &between), Ok(vec![2, 5, 6]), "three of four");
    hold(&mut placer, 6, 7);
    let uneven = Shape { min_nodes: 1, max_nodes: 3, req_nodes: 3, ..tasks(4) };
    assert_eq!(answer(&mut placer, &uneven), Ok(vec![2, 5, 6]), "one node would hold all");
}

#[test]
fn gpus_of_a_job_are_taken_where_they_are_free() {
    let mut placer = equal("n", 4, "");
    let gres = vec![(0.into(), None, 2)];
    let held = vec![Held { node: 0.into(), cpus: 1, gres, ..Held::default() }];
    placer.set_job(RunningJob { id: 1, held, ..RunningJob::default() });
    let want = GresWant { per_job: 10, ..GresWant::default() };
    let shape = Shape { gres: vec![want], ..tasks(10) };
    assert_eq!(answer(&mut placer, &shape), Ok(vec![1, 2, 3]), "the most first, as stock");
    let shape = Shape { gres: vec![GresWant { per_job: 12, ..want }], ..tasks(12) };
    assert_eq!(answer(&mut placer, &shape), Ok(vec![1, 2, 3]));
}

/// Goal: among leaves that are as few and as near, those win where the job needs the fewest nodes.
#[test]
fn leaves_where_fewer_nodes_hold_the_job_come_first() {
    let conf = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-5]\nSwitchName=c Nodes=n[6-7]\n\
                SwitchName=top Switches=a,b,c\n";
    let names = named("n", 7);
    let rows = names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>();
    let mut placer = cluster(&rows, conf);
    hold(&mut placer, 2, 4);
    hold(&mut placer, 4, 4);
    // Two idle nodes, or one and two halves: the same room, on leaves that lose less.
    assert_eq!(answer(&mut placer, &tasks(16)), Ok(vec![0, 1]));
    assert_eq!(answer(&mut placer, &tasks(32)), Ok(vec![0, 1, 5, 6]));
    assert_eq!(answer(&mut placer, &tasks(12)), Ok(vec![2, 3]));
}

/// Goal: a job of whole nodes gets lighter nodes before it gets fewer ones.
#[test]
fn whole_nodes_are_lighter_ones_before_fewer_ones() {
    let rows = [("n1", 1), ("n2", 1), ("n3", 50), ("n4", 1)];
    let mut placer = cluster(&rows, "");
    hold(&mut placer, 1, 1);
    let whole = Shape { sharing: phalanx_core::shape::Sharing::Whole, ..tasks(12) };
    assert_eq!(answer(&mut placer, &whole), Ok(vec![0, 3]));
    let more = Shape { num_tasks: 20, min_cpus: 20, ..whole };
    assert_eq!(answer(&mut placer, &more), Ok(vec![0, 2, 3]));
}

/// Goal: `-N2-4` goes on to heavier nodes where Slurm takes as many as it may.
#[test]
fn a_range_of_nodes_goes_on_to_heavier_ones() {
    let mut placer = cluster(&[("a1", 1), ("a2", 1), ("b1", 9), ("b2", 9), ("b3", 9)], "");
    let range = Shape { min_nodes: 2, max_nodes: 4, req_nodes: 4, min_cpus: 2, ..tasks(0) };
    assert_eq!(answer(&mut placer, &range).map(|nodes| nodes.len()), Ok(4));
    (2..4).for_each(|node| hold(&mut placer, node, 8));
    assert_eq!(answer(&mut placer, &range), Ok(vec![0, 1, 4]));
}

#[test]
fn lighter_nodes_are_taken_whole_before_heavier_ones() {
    let nodes = [("a1", 1), ("b1", 9), ("b2", 9), ("b3", 9)];
    let mut placer = cluster(&nodes, "");
    hold(&mut placer, 0, 4);
    assert_eq!(answer(&mut placer, &tasks(12)), Ok(vec![0, 1]));
    assert_eq!(answer(&mut placer, &tasks(16)), Ok(vec![0, 1, 2]), "as with stock");
    let two = Shape { max_nodes: 2, ..tasks(16) };
    assert_eq!(answer(&mut placer, &two), Ok(vec![1, 2]), "where it may have no third");
}

#[test]
fn idle_nodes_tell_the_number_of_nodes_of_a_kind() {
    let placer = equal("n", 1, "");
    let usage = placer.cluster().usage(0.into()).unwrap();
    let nodes = |shape: &Shape| nodes_when_idle(shape, usage);
    assert_eq!(nodes(&tasks(16)), Some(2));
    assert_eq!(nodes(&Shape { max_nodes: 1, ..tasks(16) }), Some(1), "closed: as it says");
    assert_eq!(nodes(&Shape { max_nodes: 2, ..tasks(17) }), None);
    assert_eq!(nodes(&Shape { cpus_per_task: 9, ..tasks(2) }), None);
}

/// Number of nodes by stock's steps in Slurm's source: sets of neighbours, best fit first, by index
/// inside.
fn stock_count(sets: &[Vec<u64>], needed: u64) -> Option<usize> {
    let (mut sets, mut left, mut taken) = (sets.to_vec(), needed, 0);
    while !sets.is_empty() {
        let mut best = 0;
        for at in 1..sets.len() {
            let (new, old) = (sets[at].iter().sum::<u64>(), sets[best].iter().sum::<u64>());
            let better = match (new >= left, old >= left) {
                (true, false) => true,
                (true, true) => new < old,
                (false, false) => new > old,
                (false, true) => false,
            };
            best = if better { at } else { best };
        }
        let set = sets.remove(best);
        // With one node to go, a node that does alone.
        if set.iter().any(|room| *room >= left) && taken == 0 {
            return Some(1);
        }
        for room in set {
            taken += 1;
            left = left.saturating_sub(room);
            if left == 0 {
                return Some(taken);
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Goal: on nodes of any room no more nodes are taken than with stock's steps in Slurm's
    /// source.
    #[test]
    fn never_more_nodes_than_with_stock(
        free in prop::collection::vec(prop::sample::select(vec![0u64, 2, 4, 8, 8, 8]), 1..24),
        needed in 1u64..100,
    ) {
        let mut placer = equal("n", free.len(), "");
        for (node, free) in free.iter().enumerate().filter(|(_, free)| **free < CPUS) {
            hold(&mut placer, node, CPUS - free);
        }
        let found = answer(&mut placer, &tasks(needed as u32)).ok();
        let runs = free.split(|free| *free == 0).filter(|run| !run.is_empty());
        let stock = stock_count(&runs.map(<[u64]>::to_vec).collect::<Vec<_>>(), needed);
        prop_assert_eq!(found.is_some(), stock.is_some());
        let (Some(nodes), Some(stock)) = (found, stock) else { return Ok(()) };
        prop_assert!(nodes.iter().map(|node| free[*node]).sum::<u64>() >= needed);
        prop_assert!(nodes.len() <= stock, "{nodes:?} {stock}");
    }

    /// Goal: on idle equal nodes the job gets the tightest run that holds it, from the run's first
    /// node on.
    #[test]
    fn consecutive_on_an_idle_flat_cluster(
        offered in prop::collection::vec(prop::bool::weighted(0.8), 1..40),
        wanted in 1usize..12,
    ) {
        let mut placer = equal("n", offered.len(), "");
        let free: Vec<u64> = offered.iter().map(|&offered| u64::from(offered) * CPUS).collect();
        for (node, _) in free.iter().enumerate().filter(|(_, free)| **free == 0) {
            hold(&mut placer, node, CPUS);
        }
        let nodes: Vec<usize> = (0..free.len()).filter(|node| free[*node] > 0).collect();
        let runs = nodes.chunk_by(|a, b| a + 1 == *b).filter(|run| run.len() >= wanted);
        let tightest = runs.min_by_key(|run| run.len());
        let answer = answer(&mut placer, &tasks((wanted as u64 * CPUS) as u32));
        if let (Some(run), true) = (tightest, wanted > 1) {
            prop_assert_eq!(answer, Ok(run[..wanted].to_vec()));
        } else {
            let all = nodes.len() >= wanted;
            prop_assert_eq!(answer.map(|nodes| nodes.len()).ok(), all.then_some(wanted));
        }
    }

    /// Goal: with the preferences of every method, no heavier node is taken while lighter ones hold
    /// the job, whether the number of nodes is open or given.
    #[test]
    fn never_a_heavier_node_while_lighter_ones_hold_the_job(
        nodes in prop::collection::vec((1u32..=3, prop::sample::select(vec![0u64, 4, 8])), 2..12),
        preferred in prop::collection::vec(any::<bool>(), 12),
        method in prop::sample::select(vec![
            Method::DataJobs, Method::Bag, Method::Gang, Method::BackfillWindow,
        ]),
        given in prop::option::of(1u32..4),
        count in 1u32..40,
        required in any::<bool>(),
    ) {
        let names = named("n", nodes.len());
        let rows = names.iter().zip(&nodes).map(|(name, (weight, _))| (name.as_str(), *weight));
        let mut placer = cluster(&rows.collect::<Vec<_>>(), "");
        for (node, (_, used)) in nodes.iter().enumerate().filter(|(_, (_, used))| *used > 0) {
            hold(&mut placer, node, *used);
        }
        let shape = match given {
            Some(n) => Shape { min_nodes: n, max_nodes: n, req_nodes: n, ..tasks(count.max(n)) },
            None => tasks(count),
        };
        let of = |keep: &dyn Fn(usize) -> bool| {
            (0..nodes.len()).filter(|n| keep(*n)).map(NodeIdx::new).collect::<Vec<_>>()
        };
        let words = |set: &[NodeIdx]| [set.iter().fold(0u64, |word, n| word | 1 << n.at())];
        let lightest = (1..=3).find(|weight| {
            let light = words(&of(&|n| nodes[n].0 <= *weight));
            placer.decide(&shape, Candidates::new(&light), Holding::Never).is_ok()
        });
        let set = CandidateSet {
            name: "set".into(),
            nodes: of(&|n| preferred[n]).into(),
            quota: None,
        };
        let preference = Preference {
            key: JobKey::Job(7),
            method,
            sets: vec![set],
            worth: vec![Some(1.0), Some(0.1)],
            required,
            made_ms: 1,
            note: Note::None,
        };
        let table = PreferenceTable::new(Arc::clone(placer.cluster().table()), vec![preference]);
        let mut preferences = Preferences::default();
        preferences.replace(method, table);
        let question = Question { job_id: 7, shape: Cow::Borrowed(&shape), ..Question::default() };
        let all = words(&of(&|_| true));
        let mut decide = |placer: &mut Placer| {
            let candidates = Candidates::new(&all);
            crate::preference::decide(placer, &mut preferences, &question, candidates, Waits::OVER)
        };
        let (placed, _) = decide(&mut placer);
        prop_assert_eq!(placed.is_ok(), lightest.is_some());
        let heaviest = |placed: &Placement| placed.nodes.iter().map(|n| nodes[n.at()].0).max();
        if let Ok(placed) = &placed {
            prop_assert!(heaviest(placed) <= lightest, "{:?}", placed.nodes);
        }
        // An exchange rate lets the set pay.
        placer.tune(Tuning { weight_cost: Some(0.01), ..Tuning::default() }).unwrap();
        let (placed, used) = decide(&mut placer);
        let is_own = placed.is_ok_and(|placed| placed.nodes.iter().all(|n| preferred[n.at()]));
        let own = words(&of(&|n| preferred[n]));
        let holds = placer.decide(&shape, Candidates::new(&own), Holding::Never).is_ok();
        let taken = is_own || used.and_then(|used| used.set).is_some();
        prop_assert!(given.is_none() || taken || !holds, "{:?}", shape);
    }
}

/// Goal: nodes near the input are no worse than stock's where they are as many and as light.
#[test]
fn preferred_nodes_as_good_as_stocks_are_taken() {
    let mut placer = equal("n", 12, "");
    let near: Vec<NodeIdx> = [4, 7, 8, 10].map(NodeIdx::new).into();
    let set = CandidateSet { name: "near".into(), nodes: near.clone().into(), quota: None };
    let preference = Preference {
        key: JobKey::Job(7),
        method: Method::DataJobs,
        sets: vec![set],
        worth: vec![Some(1.0), Some(0.1)],
        required: false,
        made_ms: 1,
        note: Note::None,
    };
    let table = PreferenceTable::new(Arc::clone(placer.cluster().table()), vec![preference]);
    let mut preferences = Preferences::default();
    preferences.replace(Method::DataJobs, table);
    let shape = Shape { memory: Memory::PerCpu(10), ..tasks(16) };
    let question = Question { job_id: 7, shape: Cow::Borrowed(&shape), ..Question::default() };
    let all = [0xfff];
    let (placed, _) = crate::preference::decide(
        &mut placer,
        &mut preferences,
        &question,
        Candidates::new(&all),
        Waits::OVER,
    );
    let placed = placed.unwrap();
    assert!(placed.nodes.iter().all(|node| near.contains(node)), "{:?}", placed.nodes);
}

/// Goal: `-n` without `-N` says one node, but a job that waits for nodes needs as many as hold its
/// tasks.
#[test]
fn tasks_need_as_many_nodes_as_hold_them() {
    let placer = equal("n", 4, "");
    let usages = placer.cluster().usages();
    assert_eq!((tasks(24).wanted_nodes(), nodes_needed(&tasks(24), usages)), (1, 3));
    assert_eq!(nodes_needed(&tasks(8), usages), 1);
    let fixed = Shape { min_nodes: 2, max_nodes: 2, req_nodes: 2, ..tasks(24) };
    assert_eq!(nodes_needed(&fixed, usages), 2);
    // Nodes of 8 CPUs are not too small for 24 tasks: CPUs are missing.
    let mut placer = placer;
    (0..4).for_each(|node| hold(&mut placer, node, 4));
    let eligible = crate::eligible::Eligible { nodes: NodeSet::full(4), steps: Vec::new() };
    let usages = placer.cluster().usages();
    let lacking = crate::attribution::lacking_dimensions(usages, &eligible, &tasks(24));
    let cpus = 0;
    assert!(crate::attribution::places_of(lacking).eq([cpus]));
}

/// Goal: an answer for nodes of many sizes is not late: stock's steps, which drop the smallest
/// nodes and restart for each size, are not followed to their end.
#[test]
fn nodes_of_many_sizes_are_not_gone_through_again_and_again() {
    let mut placer = equal("n", 4000, "");
    (0..4000).for_each(|node| hold(&mut placer, node, node as u64 * 7 % CPUS));
    let shape = Shape { max_nodes: 3, ..tasks(24) };
    let of = crate::stock::Ask::new(&shape).unwrap();
    let offers: Vec<crate::stock::Offer> = (0u32..4000)
        .map(|node| crate::stock::Offer {
            node: node.into(),
            class: (0, 1, 0xff),
            cpus: i64::from(node % 61) + 1,
            size: i64::from(node % 61) + 1,
            reserve: 1,
            tasks: u64::from(node % 61) + 1,
            gres: [0; 3],
        })
        .collect();
    let ask = crate::stock::Ask { cpus: 3 * 61, ..of };
    let chosen = crate::stock::choose(&ask, &offers, placer.cluster().table(), None);
    assert!(matches!(chosen, Err(crate::stock::Refused::Unknown(_))), "{chosen:?}");
    assert_eq!(answer(&mut placer, &shape).map(|nodes| nodes.len()), Ok(3));
}
