// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that counts updated between two polls equal those of a new count.

use std::sync::Arc;

use super::*;
use crate::attribution;
use crate::cluster::{Cluster, Held, Table};
use crate::place::{Placer, Tuning};
use crate::preference::JobKey;
use phalanx_core::shape::GresWant;
use phalanx_core::snapshot::{Builder, Node, NodeGres, Partition, shared};

const NODES: u32 = 12;

/// A generator of numbers, always the same.
struct Numbers(u32);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % limit
    }
}

fn snapshot(numbers: &mut Numbers, running: u32) -> Snapshot {
    let node = |at: u32| Node {
        name: format!("n{at}").into(),
        available: true,
        cpus: 8,
        memory_mb: 100,
        gres: match at % 3 {
            0 => vec![NodeGres { kind: "gpu".into(), total: 2, ..NodeGres::default() }],
            _ => Vec::new(),
        },
        ..Node::default()
    };
    let mut builder = Builder::default();
    builder.nodes((0..NODES).map(node).collect()).unwrap();
    for (name, from) in [("all", 0), ("few", 5)] {
        let names: Vec<String> = (from..NODES).map(|at| format!("n{at}")).collect();
        let nodes = builder.node_set(names.iter().map(String::as_str));
        let part = Partition { name: name.into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions.push(part);
    }
    let first = 100 + running;
    builder.draft.jobs = shared((first..first + 30).map(|id| job(id, numbers)));
    builder.build(1, 5000).unwrap()
}

fn job(id: u32, numbers: &mut Numbers) -> Job {
    let nodes = 1 + numbers.below(3);
    let gpus = u64::from(numbers.below(3));
    let gres = GresWant { per_node: gpus, ..GresWant::default() };
    let array = numbers.below(4) == 0;
    Job {
        id,
        priority: 1,
        task_count: if array { u64::from(1 + numbers.below(5)) } else { 1 },
        array_job_id: array.then_some(id),
        reason: "Resources".into(),
        partitions: if numbers.below(2) == 0 { "all" } else { "few" }.into(),
        shape: Shape {
            min_nodes: nodes,
            max_nodes: nodes,
            req_nodes: nodes,
            min_cpus: nodes * (1 + numbers.below(8)),
            gres: if gpus > 0 { vec![gres] } else { Vec::new() },
            ..Shape::default()
        },
        ..Job::default()
    }
}

fn begins(id: u32, numbers: &mut Numbers, array: Option<(u32, u32)>) -> RunningJob {
    let held = Held {
        node: numbers.below(NODES).into(),
        cpus: u64::from(1 + numbers.below(4)),
        ..Held::default()
    };
    RunningJob { id, array, start_s: 9, held: vec![held], ..RunningJob::default() }
}

/// Goal: whatever begins and ends, in whatever pieces it is looked at, in the end the counts are
/// those of a count made anew on the nodes and the queue as they then are.
#[test]
fn counts_follow_nodes_and_starts() {
    let mut moved = 0;
    for seed in 1..40 {
        let mut numbers = Numbers(seed);
        let mut snapshot = snapshot(&mut numbers, 0);
        let table = Table::of_snapshot(&snapshot);
        let mut cluster = Cluster::new(table);
        let counted = |snapshot: &Snapshot, cluster: &Cluster| {
            attribution::count(snapshot, cluster.usages(), 0, 100)
        };
        let mut follower = Follower::default();
        follower.mark();
        let copy = cluster.usages().to_vec();
        // Between the copy and the tally too.
        for id in 1..8 {
            let job = begins(id, &mut numbers, None);
            follower.node_changed(job.held[0].node);
            cluster.set_job(job, |_| {});
        }
        let whole = attribution::count(&snapshot, &copy, 0, 100);
        let before = whole.lacks.clone();
        follower.set(Some(Tally::new(&snapshot, copy, 0, &whole)));
        let mut waiting = snapshot.all_jobs().cloned().collect::<Vec<Job>>();
        for round in 0..40 {
            if numbers.below(2) == 0 {
                let id = 1 + numbers.below(8);
                let held = cluster.jobs().get(&id).map(|job| job.held[0].node);
                held.iter().for_each(|node| follower.node_changed(*node));
                cluster.end_job(id, |_| {});
            } else {
                let at = numbers.below(u32::try_from(waiting.len()).unwrap()) as usize;
                let (id, array) = (waiting[at].id, waiting[at].array_job_id);
                let own = if array.is_some() { 1000 + round } else { id };
                let job = begins(own, &mut numbers, array.map(|array| (array, round)));
                follower.node_changed(job.held[0].node);
                follower.started(&job);
                cluster.set_job(job, |_| {});
                waiting[at].task_count -= 1;
                waiting.retain(|job| job.task_count > 0);
            }
            follower.refresh(cluster.usages(), 1, false);
        }
        let looks = (0..100).filter_map(|_| follower.refresh(cluster.usages(), 100, true));
        let last = looks.last().or_else(|| Some(follower.tally.as_ref()?.lacks())).unwrap();
        snapshot.set_queue(waiting);
        assert_eq!(last, counted(&snapshot, &cluster).lacks, "seed {seed}");
        moved += usize::from(last != before);
    }
    assert!(moved > 10, "the lists must change something, {moved}");
}

/// Goal: a job that no poll knows counts once Slurm has asked about it, and stops counting when it
/// starts.
#[test]
fn jobs_that_came_since_count() {
    let mut numbers = Numbers(7);
    let mut snapshot = snapshot(&mut numbers, 0);
    snapshot.set_queue(Vec::new());
    let mut cluster = Cluster::new(Table::of_snapshot(&snapshot));
    for node in 0..NODES {
        let held = vec![Held { node: node.into(), cpus: 8, ..Held::default() }];
        cluster.set_job(RunningJob { id: 1 + node, held, ..RunningJob::default() }, |_| {});
    }
    let mut follower = Follower::default();
    follower.mark();
    let none = Demand { lacks: [("cpu".into(), 0)].into(), ..Demand::default() };
    follower.set(Some(Tally::new(&snapshot, cluster.usages().to_vec(), 0, &none)));
    let one = Shape { min_nodes: 1, max_nodes: 1, min_cpus: 1, ..Shape::default() };
    let cpu = |follower: &mut Follower, usages: &[NodeUsage]| {
        follower.refresh(usages, 100, true).and_then(|lacks| lacks.get("cpu").copied())
    };
    for id in [500, 501, 500] {
        follower.came(id, &one, &[0xfff]);
    }
    assert_eq!(cpu(&mut follower, cluster.usages()), Some(2));
    follower.started(&RunningJob { id: 501, start_s: 9, ..RunningJob::default() });
    assert_eq!(cpu(&mut follower, cluster.usages()), Some(1));
    let names: Vec<Arc<str>> = follower.tally.unwrap().names;
    assert_eq!(names.len(), 2 + snapshot.gres_kinds.len());
}

/// Goal: where pending jobs do not count for the weights, no change waits to be looked at, so that
/// the link comes to rest. Method: a node changes with and without that source.
#[test]
fn what_does_not_count_is_not_followed() {
    let snapshot = snapshot(&mut Numbers(7), 0);
    for counts in [true, false] {
        let cluster = Cluster::new(Table::of_snapshot(&snapshot));
        let usages = cluster.usages().to_vec();
        let mut tuning = Tuning::default();
        tuning.params.sources.pending = counts;
        let mut placer = Placer::new(cluster, false, tuning, Vec::new()).unwrap();
        placer.mark_for_tally();
        placer.set_tally(Some(Tally::new(&snapshot, usages, 0, &Demand::default())));
        placer.set_job(begins(1, &mut Numbers(3), None));
        assert_eq!(placer.is_behind(), counts);
        assert_eq!(placer.freshen(1000, true).is_some(), counts);
        assert!(!placer.is_behind());
    }
}

/// Goal: changes that no plan looks at take bounded memory.
#[test]
fn changes_that_wait_are_bounded() {
    let mut follower = Follower::default();
    follower.mark();
    follower.set(Some(Tally::default()));
    for _ in 0..2 * CHANGED_MAX {
        follower.node_changed(NodeIdx::new(0));
    }
    assert_eq!(follower.tally.unwrap().changed.len(), CHANGED_MAX);
}

/// Goal: a plan that goes by a poll leaves out jobs that began after it, even if they have ended
/// since, and the task of an array by its own number.
#[test]
fn what_began_after_a_poll_is_known_after_its_end() {
    let cluster = Cluster::new(Table::of_snapshot(&snapshot(&mut Numbers(1), 0)));
    let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
    for (id, array, start_s) in [(1, None, 9), (2, None, 9), (3, None, 10), (5, Some((4, 7)), 11)] {
        let job = RunningJob { id, array, start_s, ..RunningJob::default() };
        placer.began(&job);
        placer.set_job(job);
    }
    assert!([2, 3, 5].into_iter().all(|ended| placer.end_job(ended)));
    let begun = [JobKey::Job(1), JobKey::Job(3), JobKey::Job(5), JobKey::Element(4, 7)];
    assert_eq!(placer.begun(10), begun.into());
}
