// SPDX-License-Identifier: GPL-3.0-or-later
//! Pieces of the daemon's work on fixed inputs, whose instructions `tests/counts.py` counts under
//! callgrind: `phalanx-bench counts NAME`, or without a name their list. What is counted is what
//! runs within [`measured`].
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use crate::gang::plan::{Known, snapshot};
use crate::proof::{self, Full};
use jiff::tz::TimeZone;
use phalanx_config::Config;
use phalanx_core::shape::{GresWant, Memory, Shape};
use phalanx_core::snapshot::{Builder, Snapshot};
use phalanx_core::topology::parse_conf;
use phalanx_core::trace::sacct;
use phalanx_core::trace::swf::SwfReader;
use phalanx_core::{NodeIdx, NodeSet, hostlist, slurm_conf};
use phalanx_methods::balance::fragment::Want;
use phalanx_methods::balance::{Mode, Params};
use phalanx_planner::attribution::{self, Demand};
use phalanx_planner::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use phalanx_planner::gang::{Bred, Inputs, Settings, plan};
use phalanx_planner::place::{Candidates, Holding, Placer, Span, Tuning};
use phalanx_planner::tally::Tally;
use phalanx_planner::usage::NodeUsage;

/// Name and work of each piece.
const PIECES: &[(&str, fn())] = &[
    ("ask_1000", || asks(1_000, Mode::Seed)),
    ("ask_10000", || asks(10_000, Mode::Seed)),
    ("ask_best_10000", || asks(10_000, Mode::Best)),
    ("ask_open_10000", || asks_open(10_000)),
    ("event_10000", || events(10_000)),
    ("proof_10000", proofs),
    ("plan_1000", || plan_of(1_000)),
    ("poll_100000_jobs", || poll(100_000)),
    ("parse_accounting", accounting),
    ("parse_swf", swf),
    ("parse_slurm_conf", conf),
    ("parse_topology", topology),
    ("parse_hostlist", hosts),
    ("parse_phalanx_toml", configuration),
];

/// Does the work of the piece with a name.
///
/// # Errors
/// Names the pieces where there is none of this name.
pub fn run(words: &[String]) -> Result<(), String> {
    let names = || PIECES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
    let Some(wanted) = words.first() else {
        println!("{}", names());
        return Ok(());
    };
    let piece = PIECES.iter().find(|(name, _)| name == wanted);
    let (_, work) = piece.ok_or_else(|| format!("{wanted}: expected one of {}", names()))?;
    work();
    Ok(())
}

/// Marks by its name the point from which the counter counts.
#[inline(never)]
fn ready() {
    std::hint::black_box(());
}

/// Runs the work that the counter counts, for which it looks by this function's name.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    work()
}

fn counted<T>(work: impl FnOnce() -> T) -> T {
    ready();
    measured(work)
}

/// A cluster in which two nodes of five are partly in use.
fn placer(nodes: usize) -> Placer {
    let node = |at: usize| TableNode {
        name: format!("n{at}").into(),
        cpus: 64,
        threads: 1,
        memory_mb: 256_000,
        weight: if at.is_multiple_of(3) { 1 } else { 2 },
        kinds: vec![(0.into(), 4)],
        ..TableNode::default()
    };
    let nodes = (0..nodes).map(node).collect();
    let table = Table { nodes, kinds: vec!["gpu".into()], ..Table::default() };
    let cluster = Cluster::new(table);
    Placer::new(cluster, true, Tuning::default(), Vec::new()).unwrap()
}

/// A job of one node on a cluster.
fn running(id: usize, nodes: usize) -> RunningJob {
    let held = Held {
        node: NodeIdx::new((id * 7919) % nodes),
        cpus: 1 + (id % 16) as u64,
        memory_mb: 1_000,
        gres: vec![(0.into(), None, (id % 2) as u64)],
        ..Held::default()
    };
    let end_s = NOW_S + (id * 104_729 % 86_400) as u64;
    RunningJob { id: u32::try_from(id).unwrap(), end_s, held: vec![held], ..RunningJob::default() }
}

/// Unix second of the asks.
const NOW_S: u64 = 1_790_000_000;

/// A request of one to eight nodes, with a GPU on each or none.
fn request(at: u32) -> Shape {
    let nodes = 1 << (at % 4);
    let gpu = GresWant { kind: 0.into(), per_node: 1, ..GresWant::default() };
    Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nodes * (1 + at % 16),
        gres: if at.is_multiple_of(2) { vec![gpu] } else { vec![] },
        ..Shape::default()
    }
}

fn asks(nodes: usize, mode: Mode) {
    let mut placer = placer(nodes);
    let params = Params { mode, ..Params::default() };
    placer.tune(Tuning { params, ..Tuning::default() }).unwrap();
    let want = |gpus| Want { cpu_milli: 8_000, gpus, gpu_milli: 1_000, weight: 1.0 };
    let gpus = vec![want(1), want(4)];
    placer.set_pending(Demand { gpus, ..Demand::default() }).unwrap();
    (0..nodes * 2 / 5).for_each(|id| placer.set_job(running(id, nodes)));
    let all = NodeSet::full(nodes);
    for at in 0..100 {
        placer.set_job(running(nodes + at as usize, nodes));
        placer.maintain();
        let span = Span { now_s: NOW_S, limit_s: 3_600 * u64::from(1 + at % 24) };
        let candidates = Candidates::new(all.words()).for_time(Some(span));
        let placed = counted(|| placer.decide(&request(at), candidates, Holding::After(0)));
        assert!(placed.is_ok());
    }
}

/// Asks for jobs of a number of tasks on an open number of nodes.
fn asks_open(nodes: usize) {
    let mut placer = placer(nodes);
    (0..nodes * 2 / 5).for_each(|id| placer.set_job(running(id, nodes)));
    let all = NodeSet::full(nodes);
    for at in 0..100usize {
        placer.set_job(running(nodes + at, nodes));
        placer.maintain();
        let tasks = 128u32 << (at % 4);
        let shape = Shape {
            min_nodes: 1,
            max_nodes: u32::MAX,
            req_nodes: 1,
            min_cpus: tasks,
            num_tasks: tasks,
            memory: Memory::PerCpu(2_000),
            ..Shape::default()
        };
        let span = Span { now_s: NOW_S, limit_s: 3_600 };
        let candidates = Candidates::new(all.words()).for_time(Some(span));
        let placed = counted(|| placer.decide(&shape, candidates, Holding::After(0)));
        assert!(placed.is_ok());
    }
}

fn events(nodes: usize) {
    let mut placer = placer(nodes);
    counted(|| {
        for id in 0..2_000 {
            placer.set_job(running(id, nodes));
            assert!(id < 1_000 || placer.end_job(u32::try_from(id - 1_000).unwrap()));
        }
        placer.maintain();
    });
}

fn proofs() {
    let mut full = Full::new(5_000);
    let all = NodeSet::full(proof::NODES as usize);
    let mut nodes = Vec::new();
    for _ in 0..100 {
        let shape = full.turn();
        counted(|| full.prove(&shape, &all, true, &mut nodes));
    }
}

/// Makes a plan without search, in which time would decide how much is done.
fn plan_of(nodes: u32) {
    let snapshot = snapshot(nodes, 200).unwrap();
    let usages = NodeUsage::of_snapshot(&snapshot);
    let (settings, bred) = (Settings::default(), Bred::default());
    let inputs = Inputs {
        snapshot: &snapshot,
        usages: &usages,
        now_ms: 1,
        beliefs: &Known,
        settings: &settings,
        remaining: &|| Some(Duration::ZERO),
        bred: &bred,
    };
    counted(|| plan(&inputs));
}

/// Does with a queue and its nodes what the daemon does: snapshot, demand, and the tally of both.
fn poll(jobs: u32) {
    let Snapshot { nodes, partitions, jobs, .. } = snapshot(1_000, jobs).unwrap();
    counted(|| {
        let mut builder = Builder::default();
        builder.nodes(nodes).unwrap();
        (builder.draft.partitions, builder.draft.jobs) = (partitions, jobs);
        let snapshot = builder.build(1, 1).unwrap();
        let usages = NodeUsage::of_snapshot(&snapshot);
        let demand = attribution::count(&snapshot, &usages, 1, 10_000);
        Tally::new(&snapshot, usages, 1, &demand)
    });
}

fn accounting() {
    let mut text = "JobID|User|Submit|Start|End|State|NNodes|AllocTRES|NodeList\n".to_owned();
    for at in 0..2_000 {
        let second = at % 60;
        let (user, last) = (at % 40, at + 1);
        text += &format!(
            "{at}|u{user}|2026-03-01T10:00:{second:02}|2026-03-01T11:00:00|\
             2026-03-01T12:00:{second:02}|COMPLETED|2|billing=4,cpu=4,gres/gpu=2,mem=8G,node=2|\
             n[{at}-{last}]\n"
        );
    }
    let mut read = 0;
    counted(|| sacct::read(text.as_bytes(), &TimeZone::UTC, |_, _| read += 1, |_, _| {})).unwrap();
    assert_eq!(read, 2_000);
}

fn swf() {
    let line = |at: u32| format!("{at} {at} 5 100 4 -1 -1 4 200 -1 1 {} 1 1 1 1 -1 -1\n", at % 30);
    let text: String = (1..=5_000).map(line).collect();
    let mut reader = SwfReader::new(text.as_bytes());
    let jobs = counted(|| std::iter::from_fn(|| reader.next_job().unwrap()).count());
    assert_eq!(jobs, 5_000);
}

fn conf() {
    let line = |at: u32| {
        format!("NodeName=n[{at}00-{at}99] CPUs=64 Sockets=2 RealMemory=256000 Gres=gpu:a100:4\n")
    };
    let text: String = (1..=2_000).map(line).collect();
    assert_eq!(counted(|| slurm_conf::lines(&text, slurm_conf::Form::File)).len(), 2_000);
}

fn topology() {
    let placer = placer(10_000);
    let line =
        |leaf: u32| format!("SwitchName=s{leaf} Nodes=n[{}-{}]\n", leaf * 25, leaf * 25 + 24);
    let text = (0..400).map(line).collect::<String>() + "SwitchName=top Switches=s[0-399]\n";
    let table = placer.cluster().table();
    assert!(counted(|| parse_conf(&text, 0, table)).is_ok());
}

fn hosts() {
    let part = |at: u32| format!("r{at}c[0-7]n[001-016],r{at}s[1,3,5-9]");
    let text = (0..100).map(part).collect::<Vec<_>>().join(",");
    assert_eq!(counted(|| hostlist::expand(&text, 1 << 20)).unwrap().len(), 13_500);
}

fn configuration() {
    let text = include_str!("../../config/examples/phalanx.toml");
    assert!(counted(|| Config::parse(text, Path::new("phalanx.toml"))).is_ok());
}
