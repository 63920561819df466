// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of one decision on 10,000 nodes in 400 leaf switches or blocks, and the memory that these
//! take: `phalanx-bench topology`.
//!
//! Jobs begin between the decisions. Every decision is timed by itself; the order of the index
//! is renewed outside the timed part, as the daemon does.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use crate::timing::percentile;
use phalanx_core::shape::{Shape, Sharing};
use phalanx_core::topology::parse_conf;
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use phalanx_planner::place::{Candidates, Holding, Placer, TopologyPolicy, Tuning};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;

const NODES: usize = 10_000;
const LEAF: usize = 25;
/// Leaves below one switch of the middle level.
const POD: usize = 20;
const DECISIONS: u32 = 5_000;
/// Clusters of each kind whose memory is measured.
const COPIES: u64 = 16;

#[derive(Debug, Clone, Copy)]
enum Kind {
    None,
    Tree,
    Block,
}

/// A topology.conf of three levels of switches, or of three of blocks.
fn conf(kind: Kind) -> String {
    let leaves = NODES / LEAF;
    let mut text = String::new();
    for leaf in 0..leaves {
        let word = if matches!(kind, Kind::Block) { "Block" } else { "Switch" };
        let (first, last) = (leaf * LEAF, (leaf + 1) * LEAF - 1);
        text.push_str(&format!("{word}Name=s{leaf} Nodes=n[{first}-{last}]\n"));
    }
    if matches!(kind, Kind::Block) {
        return text + &format!("BlockSizes={LEAF},{},{}\n", 2 * LEAF, 4 * LEAF);
    }
    for pod in 0..leaves / POD {
        let (first, last) = (pod * POD, (pod + 1) * POD - 1);
        text.push_str(&format!("SwitchName=p{pod} Switches=s[{first}-{last}]\n"));
    }
    text + &format!("SwitchName=top Switches=p[0-{}]\n", leaves / POD - 1)
}

fn table(kind: Kind) -> Table {
    let node = |at: usize| TableNode {
        name: format!("n{at}").into(),
        cpus: 64,
        threads: 1,
        memory_mb: 256_000,
        ..TableNode::default()
    };
    let mut table = Table { nodes: (0..NODES).map(node).collect(), ..Table::default() };
    if !matches!(kind, Kind::None) {
        table.topologies = vec![parse_conf(&conf(kind), 0, &table).unwrap()];
    }
    table
}

fn placer(kind: Kind) -> Placer {
    let tuning = Tuning { topology: TopologyPolicy::Pack, ..Tuning::default() };
    Placer::new(Cluster::new(table(kind)), true, tuning, Vec::new()).unwrap()
}

/// Resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn shape(nodes: u32, sharing: Sharing) -> Shape {
    Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nodes * 8,
        sharing,
        ..Shape::default()
    }
}

/// Times of decisions, ascending, where two nodes of five are busy, at least in part; and how many
/// decisions found nodes.
fn times(kind: Kind, shape: &Shape) -> (Vec<Duration>, usize) {
    let mut placer = placer(kind);
    let mut rng = Rng::seed_from_u64(1);
    let mut job = |placer: &mut Placer, id: u32| {
        let node = NodeIdx::new(rng.random_range(0..NODES));
        let cpus = rng.random_range(1..=64);
        let held = vec![Held { node, cpus, memory_mb: 1000, ..Held::default() }];
        placer.set_job(RunningJob { id, held, ..RunningJob::default() });
    };
    (0..DECISIONS).for_each(|id| job(&mut placer, id));
    let all = NodeSet::full(NODES);
    let mut times: Vec<Duration> = Vec::new();
    let mut placed = 0;
    for id in 0..DECISIONS {
        job(&mut placer, id);
        placer.maintain();
        let begin = Instant::now();
        let decided = placer.decide(shape, Candidates::new(all.words()), Holding::After(0));
        times.push(begin.elapsed());
        placed += usize::from(decided.is_ok());
    }
    times.sort_unstable();
    (times, placed)
}

pub fn run() {
    for kind in [Kind::None, Kind::Tree, Kind::Block] {
        let before = resident_kib();
        let placers: Vec<Placer> = (0..COPIES).map(|_| placer(kind)).collect();
        let each = (resident_kib() - before) / COPIES;
        println!("{kind:?}: {each} KiB for the nodes and what is kept of them");
        // The next kind must not reuse it.
        std::mem::forget(placers);
    }
    for nodes in [1, 4, 25, 64, 1000] {
        for sharing in [Sharing::Shared, Sharing::Whole] {
            print!("{nodes:4} {sharing:7?}");
            for kind in [Kind::None, Kind::Tree, Kind::Block] {
                let (times, placed) = times(kind, &shape(nodes, sharing));
                let [p50, p99] = [0.5, 0.99].map(|share| percentile(&times, share));
                print!(" | {kind:?} p50 {p50:8.1?} p99 {p99:8.1?} placed {placed}");
            }
            println!();
        }
    }
}
