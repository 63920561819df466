// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of one proof of a planned start, as the daemon makes it for a WILL_RUN call: `phalanx-bench
//! proof`.
//!
//! 10,000 nodes of 64 cores and 4 GPUs, 20,000 running jobs of one to three nodes with one GPU
//! on each; between two questions one job ends and another begins, as on a full cluster.
//! Times every question by itself and prints percentiles.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use crate::timing::percentile;
use phalanx_core::shape::{GresWant, Memory, Shape};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use phalanx_planner::place::Candidates;
use phalanx_planner::proof::{Prover, Times};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;

/// Nodes of the cluster.
pub const NODES: u32 = 10_000;
const JOBS: u32 = 20_000;
const QUESTIONS: u32 = 20_000;
const NOW: u32 = 1_700_000_000;

fn table() -> Table {
    let node = |at: u32| TableNode {
        name: format!("n{at}").into(),
        cpus: 64,
        threads: 1,
        memory_mb: 256_000,
        weight: 1 + at % 3,
        kinds: vec![(0.into(), 4)],
        ..TableNode::default()
    };
    let nodes = (0..NODES).map(node).collect();
    Table { nodes, kinds: vec!["gpu".into()], ..Table::default() }
}

/// Makes a job on nodes with a free GPU, from a random node on.
fn job(id: u32, cluster: &Cluster, rng: &mut Rng) -> RunningJob {
    let start = rng.random_range(0..NODES);
    let wanted = rng.random_range(1..=3);
    let nodes = (0..NODES).map(|step| (start + step) % NODES);
    let free = nodes.filter(|node| cluster.usages()[*node as usize].kinds[0].free() > 0);
    let held = free.take(wanted).map(|node| Held {
        node: node.into(),
        cpus: 16,
        memory_mb: 64_000,
        gres: vec![(0.into(), None, 1)],
        ..Held::default()
    });
    let mut held: Vec<Held> = held.collect();
    held.sort_by_key(|held| held.node);
    let end_s = u64::from(NOW) + rng.random_range(60..86_400);
    RunningJob { id, end_s, held, ..RunningJob::default() }
}

fn shape(rng: &mut Rng) -> Shape {
    let nodes = [1, 2, 8, 32, 200, 1000][rng.random_range(0..6)];
    let gpus = rng.random_range(2..=4);
    Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nodes * 16,
        num_tasks: nodes,
        cpus_per_task: 16,
        ntasks_per_node: 1,
        memory: Memory::PerNode([64_000, 128_000][rng.random_range(0..2)]),
        gres: vec![GresWant { kind: 0.into(), per_node: gpus, ..GresWant::default() }],
        ..Shape::default()
    }
}

/// The full cluster.
pub struct Full {
    rng: Rng,
    cluster: Cluster,
    prover: Prover,
    next: u32,
    turns: usize,
}

impl Full {
    /// Makes a cluster with a number of running jobs.
    pub fn new(jobs: u32) -> Self {
        let cluster = Cluster::new(table());
        let prover = Prover::new(&cluster);
        let rng = Rng::seed_from_u64(7);
        let mut full = Self { rng, cluster, prover, next: 1, turns: 0 };
        (0..jobs).for_each(|_| full.add());
        full
    }

    fn add(&mut self) {
        let job = job(self.next, &self.cluster, &mut self.rng);
        self.prover.set_job(None, &job);
        self.cluster.set_job(job, |_| {});
        self.next += 1;
    }

    /// Ends one job and begins another; returns the next question.
    pub fn turn(&mut self) -> Shape {
        let ended = self.cluster.jobs().keys().nth(self.turns % 50).copied().unwrap();
        self.turns += 1;
        self.prover.end_job(&self.cluster.jobs()[&ended].clone());
        self.cluster.end_job(ended, |_| {});
        self.add();
        shape(&mut self.rng)
    }

    /// Whether a start is proved on `candidates`, and its nodes.
    pub fn prove(
        &mut self,
        shape: &Shape,
        candidates: &NodeSet,
        windows: bool,
        nodes: &mut Vec<NodeIdx>,
    ) -> bool {
        let times = Times { now_s: NOW, from_s: 0, windows };
        let words = Candidates::new(candidates.words());
        self.prover.earliest(&self.cluster, shape, words, times, nodes).is_some()
    }
}

fn measure(name: &str, candidates: &NodeSet, windows: bool) {
    let mut full = Full::new(JOBS);
    let (mut took, mut proved, mut few) = (Vec::with_capacity(QUESTIONS as usize), 0usize, 0);
    let mut nodes: Vec<NodeIdx> = Vec::new();
    for _ in 0..QUESTIONS {
        let shape = full.turn();
        let start = Instant::now();
        let is_proved = full.prove(&shape, candidates, windows, &mut nodes);
        took.push(start.elapsed());
        proved += usize::from(is_proved);
        few += nodes.len();
    }
    took.sort_unstable();
    let mean = took.iter().sum::<Duration>() / QUESTIONS;
    println!(
        "{name:28} proved {proved:6} of {QUESTIONS}, {:6.1} nodes; mean {mean:9.1?} p50 {:9.1?} \
         p99 {:9.1?} max {:9.1?}",
        few as f64 / proved.max(1) as f64,
        percentile(&took, 0.5),
        percentile(&took, 0.99),
        percentile(&took, 1.0),
    );
}

pub fn run() {
    let all = NodeSet::full(NODES as usize);
    let mut half = NodeSet::new(NODES as usize);
    for at in (0..NODES).filter(|at| at % 4 < 2) {
        half.insert(at.into());
    }
    for (windows, release) in [(true, "until 24.05"), (false, "since 24.11")] {
        measure(&format!("all nodes, {release}"), &all, windows);
        measure(&format!("half of them, {release}"), &half, windows);
    }
}
