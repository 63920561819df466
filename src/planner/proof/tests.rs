// SPDX-License-Identifier: GPL-3.0-or-later
//! Compares proofs with a small simulator of Slurm's future test, written from its source:
//! `_will_run_test` in `cons_common/job_test.c` of 22.05.8, `_future_run_test` in
//! `cons_tres/job_test.c` of 24.11.5.

use super::*;
use crate::cluster::{Held, Table, TableNode};
use crate::place::{Holding, Placer, Tuning};
use phalanx_core::NodeSet;
use phalanx_core::shape::{GresWant, Memory, Sharing};
use proptest::prelude::*;

const NOW: u32 = 100_000;

/// A cluster of nodes with CPUs, jobs, and what Slurm loses on each node by its core layout,
/// which the planner does not know.
#[derive(Debug, Clone)]
struct World {
    cluster: Cluster,
    lost: Vec<u64>,
    candidates: NodeSet,
    shape: Shape,
}

impl World {
    /// Whether Slurm finds the nodes once the jobs of `gone` have ended.
    fn fits(&self, candidates: &NodeSet, gone: &[u32]) -> bool {
        let free = |node: NodeIdx| {
            let usage = &self.cluster.usages()[node.at()];
            let jobs = self.cluster.jobs().values().filter(|job| gone.contains(&job.id));
            let held = jobs.flat_map(|job| &job.held).filter(|held| held.node == node);
            usage.cpus.free() + held.map(|held| held.cpus).sum::<u64>()
        };
        let per_node = u64::from(self.shape.ntasks_per_node) * u64::from(self.shape.cpus_per_task);
        let given = |node: NodeIdx| free(node).saturating_sub(self.lost[node.at()]);
        if self.shape.node_count_is_free() {
            return candidates.iter().map(given).sum::<u64>() >= self.shape.min_cpus.into();
        }
        let fit = |node: &NodeIdx| given(*node) >= per_node;
        candidates.iter().filter(fit).count() >= self.shape.min_nodes as usize
    }

    fn overlaps(&self, id: u32, candidates: &NodeSet) -> bool {
        self.cluster.jobs()[&id].held.iter().any(|held| candidates.contains(held.node))
    }

    /// Jobs in the order of their ends. Slurm's sort leaves equal ends in any order.
    fn in_order(&self, turned: bool) -> Vec<(u64, u32)> {
        let jobs = self.cluster.jobs().values().filter(|job| job.end_s > 0);
        let mut list: Vec<_> = jobs.map(|job| (job.end_s, job.id)).collect();
        list.sort_by_key(|(end_s, id)| (*end_s, if turned { u32::MAX - id } else { *id }));
        list
    }

    /// Returns Slurm's answer for `candidates`; `cap_s`: `will_run->end`.
    fn stock(&self, candidates: &NodeSet, turned: bool, cap_s: Option<u64>) -> Option<u64> {
        if self.fits(candidates, &[]) {
            return Some(u64::from(NOW));
        }
        let list = self.in_order(turned);
        let (mut at, mut more, mut window, mut end_s) = (0, true, 30, 0);
        let mut gone = Vec::new();
        while more {
            let (mut last, mut next) = (None, None);
            loop {
                let Some(&job) = list.get(at) else {
                    more = false;
                    break;
                };
                at += 1;
                if cap_s.is_some_and(|cap_s| job.0 > cap_s) {
                    more = false;
                    break;
                }
                if !self.overlaps(job.1, candidates) {
                    continue;
                }
                if end_s == 0 {
                    end_s = job.0 + (window - job.0 % window);
                }
                last = Some(job.0);
                gone.push(job.1);
                next = list.get(at).copied();
                match next {
                    None => {
                        more = false;
                        break;
                    }
                    Some(next) if next.0 > end_s + window => break,
                    Some(_) => {}
                }
            }
            let last = last?;
            window *= 2;
            while next.is_some_and(|next| next.0 > end_s + window) {
                window *= 2;
            }
            if self.fits(candidates, &gone) {
                // Of a job past its end Slurm guesses.
                return Some(last.max(u64::from(NOW) + 1));
            }
        }
        None
    }
}

prop_compose! {
    fn job(nodes: u32)(
        at in 0..nodes, count in 1..4u32, cpus in 1..5u64,
        end_s in prop_oneof![Just(0), 99_990..100_010u64, 100_000..100_400u64, 100_000..110_000u64],
    ) -> (u32, u32, u64, u64) {
        (at, count, cpus, end_s)
    }
}

prop_compose! {
    fn world()(nodes in 4..24u32)(
        jobs in prop::collection::vec(job(nodes), 0..40),
        lost in prop::collection::vec(prop_oneof![4 => Just(0u64), 1 => 1..4u64], nodes as usize),
        left_out in prop::collection::vec(0..nodes, 0..4),
        count in 1..4u32,
        cpus in 1..8u32,
        open in any::<bool>(),
        nodes in Just(nodes),
    ) -> World {
        let table_node = |node: u32| TableNode {
            name: format!("n{node}").into(),
            cpus: 8,
            weight: 1 + node % 2,
            ..TableNode::default()
        };
        let nodes_of = (0..nodes).map(table_node).collect();
        let mut cluster = Cluster::new(Table { nodes: nodes_of, ..Table::default() });
        for (id, (at, count, cpus, end_s)) in (1..).zip(jobs) {
            let held = (at..nodes.min(at + count)).filter(|node| {
                cluster.usages()[*node as usize].cpus.free() >= cpus
            });
            let held: Vec<_> = held
                .map(|node| Held { node: node.into(), cpus, ..Held::default() })
                .collect();
            if !held.is_empty() {
                cluster.set_job(RunningJob { id, end_s, held, ..RunningJob::default() }, |_| {});
            }
        }
        let mut candidates = NodeSet::full(nodes as usize);
        for node in left_out {
            candidates.remove(node.into());
        }
        // `-N` with `--ntasks-per-node`, or `-n` alone, with more tasks than nodes of 8 hold.
        let count_of = if open { 1 } else { count };
        let tasks = if open { 4 * count * cpus } else { count * cpus };
        let shape = Shape {
            min_nodes: count_of,
            max_nodes: if open { 500 } else { count },
            req_nodes: count_of,
            min_cpus: tasks,
            ntasks_per_node: if open { 0 } else { cpus },
            num_tasks: tasks,
            cpus_per_task: 1,
            ..Shape::default()
        };
        World { cluster, lost, candidates, shape }
    }
}

fn times(windows: bool) -> Times {
    Times { now_s: NOW, from_s: 0, windows }
}

fn ask(world: &World, prover: &mut Prover, windows: bool) -> Option<(Earliest, NodeSet)> {
    let mut nodes = Vec::new();
    let words = Candidates::new(world.candidates.words());
    let earliest = prover.find(&world.cluster, &world.shape, words, times(windows), &mut nodes);
    // The times are put in order at the second question after a change.
    for _ in 0..2 {
        let (mut again, times) = (Vec::new(), times(windows));
        let found = prover.find(&world.cluster, &world.shape, words, times, &mut again);
        assert_eq!((found, &again), (earliest, &nodes));
    }
    let earliest = earliest?;
    let mut few = NodeSet::new(world.candidates.len());
    for node in nodes {
        assert!(world.candidates.contains(node));
        few.insert(node);
    }
    Some((earliest, few))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Goal: no choice of nodes is found where too few are proved to have room.
    #[test]
    fn prop_what_cannot_fit_is_not_placed(world in world()) {
        let words = Candidates::new(world.candidates.words());
        if Prover::new(&world.cluster).cannot_fit(&world.cluster, &world.shape, words) {
            let mut placer = Placer::new(world.cluster, true, Tuning::default(), vec![]).unwrap();
            let decided = placer.decide(&world.shape, words, Holding::Never);
            prop_assert!(decided.is_err(), "{decided:?}");
        }
    }

    /// Goal: until 24.05 Slurm's own answer is never earlier than the start that is accepted for a
    /// few nodes.
    #[test]
    fn prop_an_accepted_start_is_not_later_than_the_full_one(world in world(), turned: bool) {
        let mut prover = Prover::new(&world.cluster);
        let full = world.stock(&world.candidates, turned, None);
        let Some((earliest, few)) = ask(&world, &mut prover, true) else {
            return Ok(());
        };
        if let Some(full) = full {
            prop_assert!(full >= u64::from(earliest.not_before_s));
            prop_assert!(full >= u64::from(earliest.until_s));
        }
        let start = world.stock(&few, turned, None);
        if start.is_some_and(|start| start <= u64::from(earliest.until_s)) {
            prop_assert!(full.is_none_or(|full| start <= Some(full)));
        }
    }

    /// Goal: since 24.11, with the end up to which Slurm may look, windows do not matter.
    #[test]
    fn prop_with_an_end_to_look_to_the_start_is_the_earliest(world in world(), turned: bool) {
        let mut prover = Prover::new(&world.cluster);
        let Some((earliest, few)) = ask(&world, &mut prover, false) else { return Ok(()) };
        prop_assert_eq!(earliest.not_before_s, earliest.until_s);
        let start = world.stock(&few, turned, Some(earliest.until_s.into()));
        let full = world.stock(&world.candidates, turned, None);
        if let (Some(start), Some(full)) = (start, full) {
            prop_assert!(start <= full);
        }
        // Nothing that the planner does not know: then it is found there.
        let known = world.lost.iter().all(|lost| *lost == 0) && !world.shape.node_count_is_free();
        if known && earliest.until_s < NEVER {
            prop_assert_eq!(start, Some(earliest.until_s.into()));
        }
    }

    /// Goal: jobs that come, change and end leave the same state as a fresh start.
    #[test]
    fn prop_changes_are_followed(worlds in prop::collection::vec(world(), 2..4)) {
        let first = &worlds[0];
        let mut cluster = Cluster::new(Table::clone(first.cluster.table()));
        let mut prover = Prover::new(&cluster);
        let nodes = cluster.usages().len();
        let fits = |job: &&RunningJob| job.held.iter().all(|held| held.node.at() < nodes);
        for world in &worlds {
            let gone: Vec<u32> = cluster.jobs().keys().copied().filter(|id| id % 3 == 0).collect();
            for id in gone {
                if let Some(job) = cluster.jobs().get(&id).cloned() {
                    prover.end_job(&job);
                    cluster.end_job(id, |_| {});
                }
            }
            for job in world.cluster.jobs().values().filter(fits) {
                prover.set_job(cluster.jobs().get(&job.id), job);
                cluster.set_job(job.clone(), |_| {});
            }
            let asked = World { cluster: cluster.clone(), ..first.clone() };
            for windows in [false, true] {
                let followed = ask(&asked, &mut prover, windows);
                let fresh = ask(&asked, &mut Prover::new(&cluster), windows);
                prop_assert_eq!(followed, fresh);
            }
        }
    }
}

/// A cluster of two nodes of 8 CPUs, with one job on each.
fn two() -> World {
    let node = |name: &str| TableNode { name: name.into(), cpus: 8, ..TableNode::default() };
    let table = Table { nodes: vec![node("a"), node("b")], ..Table::default() };
    let mut cluster = Cluster::new(table);
    for (id, end_s) in [(1, 100_100), (2, 100_200)] {
        let held = vec![Held { node: (id - 1).into(), cpus: 8, ..Held::default() }];
        cluster.set_job(RunningJob { id, end_s, held, ..RunningJob::default() }, |_| {});
    }
    let shape = Shape { min_nodes: 1, max_nodes: 1, min_cpus: 1, ..Shape::default() };
    World { cluster, lost: vec![0; 2], candidates: NodeSet::full(2), shape }
}

#[test]
fn the_first_end_that_makes_room_is_the_earliest_start() {
    let world = two();
    let mut prover = Prover::new(&world.cluster);
    let (earliest, few) = ask(&world, &mut prover, true).unwrap();
    assert_eq!((earliest.not_before_s, earliest.until_s), (100_100, 100_100));
    assert_eq!(few.iter().collect::<Vec<_>>(), [0.into()]);
    // Slurm asks for a start from some time on.
    for (from_s, expected) in [(100_050, 100_100), (100_150, 100_150), (100_300, 100_300)] {
        let (times, words) = (Times { from_s, ..times(true) }, world.candidates.words());
        let mut find = |nodes: &mut Vec<NodeIdx>| {
            prover.find(&world.cluster, &world.shape, Candidates::new(words), times, nodes)
        };
        assert_eq!(find(&mut Vec::new()).unwrap().not_before_s, expected);
    }
    let both = Shape { min_nodes: 2, max_nodes: 2, ..world.shape.clone() };
    let world = World { shape: both, ..world };
    assert_eq!(ask(&world, &mut prover, true).unwrap().0.not_before_s, 100_200);
    assert!(prover.cannot_fit(
        &world.cluster,
        &world.shape,
        Candidates::new(world.candidates.words())
    ));
}

#[test]
fn tasks_of_more_than_a_node_need_as_many_nodes() {
    let shape = Shape { min_nodes: 1, max_nodes: 500, min_cpus: 9, ..Shape::default() };
    let world = World { shape: Shape { num_tasks: 9, ..shape }, ..two() };
    let (earliest, few) = ask(&world, &mut Prover::new(&world.cluster), true).unwrap();
    assert_eq!((earliest.not_before_s, earliest.until_s), (100_200, 100_200));
    assert_eq!(few.iter().count(), 2);
    assert_eq!(world.stock(&few, false, None), Some(100_200));
}

#[test]
fn a_suspended_job_on_a_candidate_leaves_it_to_slurm() {
    let mut world = two();
    let held = vec![Held { node: 1.into(), ..Held::default() }];
    let job = RunningJob { id: 2, end_s: 100_200, held, ..RunningJob::default() };
    let mut prover = Prover::new(&world.cluster);
    prover.set_job(world.cluster.jobs().get(&2), &job);
    world.cluster.set_job(job.clone(), |_| {});
    assert_eq!(ask(&world, &mut prover, true), None);
    world.candidates.remove(1.into());
    assert!(ask(&world, &mut prover, true).is_some());
    world.candidates.insert(1.into());

    // Where both nodes are needed, the one in use would prove it: only the suspended job does not.
    let both = Shape { min_nodes: 2, max_nodes: 2, ..world.shape.clone() };
    let mut world = World { shape: both, ..world };
    let cannot_fit = |world: &World, prover: &mut Prover| {
        let words = Candidates::new(world.candidates.words());
        prover.cannot_fit(&world.cluster, &world.shape, words)
    };
    assert_eq!(ask(&world, &mut prover, true), None);
    assert!(!cannot_fit(&world, &mut prover));
    prover.end_job(&job);
    world.cluster.end_job(2, |_| {});
    assert_eq!(ask(&world, &mut prover, true).unwrap().0.not_before_s, 100_100);
    assert!(cannot_fit(&world, &mut prover));
}

#[test]
fn whatever_an_ended_job_held_is_given_back() {
    let node = |name: &str| TableNode {
        name: name.into(),
        cpus: 8,
        memory_mb: 8000,
        kinds: vec![(0.into(), 2)],
        ..TableNode::default()
    };
    let nodes = vec![node("a"), node("b")];
    let table = Table { nodes, kinds: vec!["gpu".into()], ..Table::default() };
    let mut cluster = Cluster::new(table);
    for (id, end_s) in [(1, 100_100), (2, 100_200)] {
        let gres = vec![(0.into(), None, 2)];
        let node = (id - 1).into();
        let held = Held { node, cpus: 4, memory_mb: 4000, gres, ..Held::default() };
        let job = RunningJob { id, end_s, held: vec![held], ..RunningJob::default() };
        cluster.set_job(job, |_| {});
    }
    let one = Shape { min_nodes: 1, max_nodes: 1, min_cpus: 1, ..Shape::default() };
    for shape in [
        Shape { min_cpus: 8, ..one.clone() },
        Shape { memory: Memory::PerNode(8000), ..one.clone() },
        Shape { memory: Memory::All, ..one.clone() },
        Shape { sharing: Sharing::Whole, ..one.clone() },
        Shape { gres: vec![GresWant { per_node: 2, ..GresWant::default() }], ..one.clone() },
    ] {
        let candidates = NodeSet::full(2);
        let world = World { cluster: cluster.clone(), lost: vec![0; 2], candidates, shape };
        let (earliest, few) = ask(&world, &mut Prover::new(&world.cluster), true).unwrap();
        assert_eq!(earliest.not_before_s, 100_100, "{:?}", world.shape);
        assert_eq!(few.iter().collect::<Vec<_>>(), [0.into()], "{:?}", world.shape);
    }
}

#[test]
fn too_few_nodes_never_start() {
    let world = two();
    let many = Shape { min_nodes: 3, max_nodes: 3, ..world.shape.clone() };
    let world = World { shape: many, ..world };
    let (earliest, few) = ask(&world, &mut Prover::new(&world.cluster), true).unwrap();
    assert_eq!(earliest.not_before_s, NEVER);
    assert!(few.is_empty());
}

#[test]
fn what_could_run_is_asked_about_a_few_nodes_only() {
    let node = |at: u32| TableNode {
        name: format!("n{at}").into(),
        cpus: if at.is_multiple_of(2) { 8 } else { 64 },
        ..TableNode::default()
    };
    let table = Table { nodes: (0..200).map(node).collect(), ..Table::default() };
    let cluster = Cluster::new(table);
    let candidates = NodeSet::full(200);
    let words = Candidates::new(candidates.words());
    let shape = Shape { min_nodes: 1, max_nodes: 1, min_cpus: 32, ..Shape::default() };
    let mut nodes = Vec::new();
    Prover::new(&cluster).could_run(&cluster, &shape, words, &mut nodes);
    assert_eq!(nodes.len(), COULD_RUN_LEAST);
    assert!(nodes.iter().all(|node| node.at() % 2 == 1));
    let large = Shape { min_nodes: 60, max_nodes: 60, ..shape };
    Prover::new(&cluster).could_run(&cluster, &large, words, &mut nodes);
    assert!(nodes.is_empty(), "most of the candidates save nothing");
}
