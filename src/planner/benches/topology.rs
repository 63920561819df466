// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of one decision on 10,000 nodes in 400 leaf switches, and the memory that these take:
//! `cargo bench -p phalanx-planner --bench topology`.
//!
//! Jobs begin between the decisions. Every decision is timed by itself, once with the switches
//! and once without; the order of the index is renewed outside the timed part, as the daemon
//! does.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "it measures and prints")]
#![allow(clippy::unwrap_used)]

mod timing;

use std::time::{Duration, Instant};

use phalanx_core::shape::{Shape, Sharing};
use phalanx_core::topology::parse_conf;
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use phalanx_planner::place::{Candidates, Placer, TopologyPolicy, Tuning};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use timing::percentile;

const NODES: usize = 10_000;
const LEAF: usize = 25;
/// Leaves below one switch of the middle level.
const POD: usize = 20;
const DECISIONS: u32 = 5_000;

fn switches() -> String {
    let leaves = NODES / LEAF;
    let mut text = String::new();
    for leaf in 0..leaves {
        let (first, last) = (leaf * LEAF, (leaf + 1) * LEAF - 1);
        text.push_str(&format!("SwitchName=s{leaf} Nodes=n[{first}-{last}]\n"));
    }
    for pod in 0..leaves / POD {
        let (first, last) = (pod * POD, (pod + 1) * POD - 1);
        text.push_str(&format!("SwitchName=p{pod} Switches=s[{first}-{last}]\n"));
    }
    text + &format!("SwitchName=top Switches=p[0-{}]\n", leaves / POD - 1)
}

fn table(with_switches: bool) -> Table {
    let node = |at: usize| TableNode {
        name: format!("n{at}").into(),
        cpus: 64,
        threads: 1,
        memory_mb: 256_000,
        ..TableNode::default()
    };
    let mut table = Table { nodes: (0..NODES).map(node).collect(), ..Table::default() };
    if with_switches {
        table.topologies = vec![parse_conf(&switches(), 0, &table).unwrap()];
    }
    table
}

fn placer(with_switches: bool) -> Placer {
    let tuning = Tuning { topology: TopologyPolicy::Pack, ..Tuning::default() };
    Placer::new(Cluster::new(table(with_switches)), true, tuning, Vec::new()).unwrap()
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

/// Times of decisions, ascending, where two nodes of five are busy, at least in part.
fn times(with_switches: bool, shape: &Shape) -> Vec<Duration> {
    let mut placer = placer(with_switches);
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
    for id in 0..DECISIONS {
        job(&mut placer, id);
        placer.maintain();
        let begin = Instant::now();
        let placed = placer.decide(shape, Candidates::new(all.words()), 0);
        times.push(begin.elapsed());
        assert!(placed.is_ok());
    }
    times.sort_unstable();
    times
}

fn main() {
    let before = resident_kib();
    let without = placer(false);
    let middle = resident_kib();
    let with = placer(true);
    let after = resident_kib();
    println!("memory: {} KiB without switches, {} KiB with", middle - before, after - middle);
    drop((without, with));
    println!("nodes, sharing: p50 and p99 with switches, p50 and p99 without");
    for nodes in [1, 4, 25, 64, 1000] {
        for sharing in [Sharing::Shared, Sharing::Whole] {
            let shape = shape(nodes, sharing);
            let [with, without] = [true, false].map(|with_switches| {
                let times = times(with_switches, &shape);
                let at = |share| percentile(&times, share);
                format!("{:9.1?} {:9.1?}", at(0.5), at(0.99))
            });
            println!("{nodes:4} {sharing:?}: {with}, {without}");
        }
    }
}
