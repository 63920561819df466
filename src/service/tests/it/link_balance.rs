// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of what moves in balance between two polls: the poll pointer of mode seed, and the counts
//! of the pending jobs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends a test")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use phalanx_config::{BalanceMode, Config, Mode};
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Builder, Job, Node, Partition, Snapshot, TableNode, shared};
use phalanx_ffi::wire::{self, Message, Reason};
use phalanx_mirror::{Settings, replay};
use phalanx_planner::attribution;
use phalanx_planner::tally::Tally;
use phalanx_service::recordings::{Options, Order, RecordingWriter};
use zerocopy::FromZeros;

use crate::link::{Daemon, Plugin, settings, until};

/// Asks for a CPU and 100 MiB on one of four nodes; returns the decision and its nodes.
fn ask(plugin: &mut Plugin, job: u32, mode: wire::Mode) -> (u64, Reason, Vec<u32>) {
    let mut head = wire::AskHead::new_zeroed();
    (head.job_id, head.array_task_id) = (job, 0xffff_fffe);
    head.mode = mode.raw();
    (head.min_nodes, head.max_nodes, head.req_nodes) = (1, 1, 1);
    (head.min_cpus, head.num_tasks, head.cpus_per_task) = (1, 1, 1);
    head.flags = wire::PHX_ASK_MEM_TRACKED;
    (head.mem_per_node_mb, head.max_share) = (100, 1);
    head.partition = wire::wire_name("main").unwrap();
    head.node_bits = 4;
    plugin.send(&Message::Ask(wire::Ask::new(&head, &[0b1111])));
    match plugin.receive() {
        Message::Answer(answer) => {
            (answer.head.decision, answer.reason().unwrap(), answer.nodes.to_vec())
        }
        other => panic!("expected ANSWER, got {other:?}"),
    }
}

fn tell(plugin: &mut Plugin, decision: u64, job: u32, mode: wire::Mode, reason: Reason) {
    let mut outcome = wire::Outcome::new_zeroed();
    (outcome.decision, outcome.job_id) = (decision, job);
    (outcome.mode, outcome.reason) = (mode.raw(), reason.raw());
    plugin.send(&Message::Outcome(&outcome));
}

/// Settings of mode seed with a threshold.
fn seed(threshold: f64) -> Settings {
    let mut config = Config { mode: Mode::Enforce, ..Config::default() };
    config.balance.mode = BalanceMode::Seed;
    config.balance.threshold = threshold;
    let (config, tuning) = (config.text().into(), config.tuning());
    Settings { generation: 2, config, tuning, ..settings(Mode::Enforce) }
}

/// Four nodes with half of the CPUs in use and little memory, where a job improves the balance.
fn synced(daemon: &Daemon, settings: Settings) -> Plugin {
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    daemon.responder.set_settings(settings).unwrap();
    assert!(matches!(plugin.receive(), Message::Config(_)));
    plugin.sync_nodes(&[8; 4], &[(1, 0, 4), (2, 1, 4), (3, 2, 4), (4, 3, 4)], |node| {
        (node.memory_mb, node.gres_count) = (400, 0);
    });
    plugin
}

/// Starts equal jobs; returns the node of each.
fn nodes_of(plugin: &mut Plugin, jobs: std::ops::Range<u32>) -> Vec<u32> {
    let mut nodes = Vec::new();
    for job in jobs {
        let (decision, reason, found) = ask(plugin, job, wire::Mode::RunNow);
        assert_eq!((reason, found.len()), (Reason::None, 1));
        tell(plugin, decision, job, wire::Mode::RunNow, Reason::None);
        plugin.job(job, found[0], 1);
        nodes.push(found[0]);
    }
    nodes
}

/// Goal: each poll begins behind the node that the previous poll took; only a placement moves the
/// pointer.
#[test]
fn equal_jobs_go_round_in_mode_seed() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = synced(&daemon, seed(0.9));
    // What could run, and what Slurm refuses, place nothing.
    let (decision, _, nodes) = ask(&mut plugin, 9, wire::Mode::WillRun);
    assert_eq!(nodes, [0]);
    tell(&mut plugin, decision, 9, wire::Mode::WillRun, Reason::None);
    let (decision, _, nodes) = ask(&mut plugin, 10, wire::Mode::RunNow);
    assert_eq!(nodes, [0]);
    tell(&mut plugin, decision, 10, wire::Mode::RunNow, Reason::NarrowFailed);
    assert_eq!(nodes_of(&mut plugin, 11..16), [0, 1, 2, 3, 0]);
}

/// Goal: where all nodes are compared, the pointer changes nothing.
#[test]
fn above_the_threshold_the_pointer_does_not_count() {
    let answers = |start: u32| {
        let daemon = Daemon::start(Mode::Enforce);
        let mut plugin = synced(&daemon, seed(0.9));
        let first = nodes_of(&mut plugin, 11..11 + start);
        (11..11 + start).for_each(|job| plugin.end(job));
        daemon.responder.set_settings(Settings { generation: 3, ..seed(0.0) }).unwrap();
        assert!(matches!(plugin.receive(), Message::Config(_)));
        (first.len(), nodes_of(&mut plugin, 31..36))
    };
    let expected = answers(0).1;
    for start in 1..4 {
        assert_eq!(answers(start), (start as usize, expected.clone()));
    }
}

/// The queue over the daemon's nodes: `waiting` jobs of six CPUs, which no node has free.
fn queue(daemon: &Daemon, waiting: std::ops::Range<u32>) -> Snapshot {
    let table = daemon.responder.table().unwrap();
    let mut builder = Builder::default();
    let node = |slot: &TableNode| Node {
        name: Arc::clone(&slot.name),
        available: true,
        cpus: slot.cpus,
        memory_mb: slot.memory_mb,
        ..Node::default()
    };
    builder.nodes_by(&table, table.nodes.iter().map(node).collect()).unwrap();
    let nodes = builder.node_set(["n0", "n1", "n2", "n3"].into_iter());
    let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
    builder.draft.partitions.push(main);
    let shape = Shape { min_nodes: 1, max_nodes: 1, min_cpus: 6, ..Shape::default() };
    let job = |id| Job {
        id,
        priority: 1,
        task_count: 1,
        reason: "Resources".into(),
        partitions: "main".into(),
        shape: shape.clone(),
        ..Job::default()
    };
    builder.draft.jobs = shared(waiting.map(job));
    builder.build(1, 1000).unwrap()
}

fn cpu_waiters(daemon: &Daemon) -> u64 {
    let of = |placer: &phalanx_planner::place::Placer| placer.engine().pending()[0];
    daemon.responder.with_placer(of).unwrap()
}

/// Goal: between two polls the counts follow jobs that begin and end, and a recording of it is
/// decided again to the last bit.
#[test]
fn pending_counts_are_fresh_at_each_ask() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(Mode::Enforce);
    let (writer, recording) = RecordingWriter::new(Arc::clone(&daemon.responder));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run(&|| None, &stop));
        let mut plugin = synced(&daemon, seed(0.9));
        until("mirror", || daemon.responder.view().synced);
        let path = dir.path().to_path_buf();
        let options =
            Options { dir: path, file_bytes: 1 << 20, total_bytes: 1 << 30, length: None };
        assert!(recording.order(Order::Start(options)));
        // Table, jobs and the rest: from here on questions are recorded.
        until("recording", || recording.status().records >= 3);
        daemon.responder.mark_for_tally();
        let (table, usages) = daemon.responder.copy_usages().unwrap();
        let snapshot = queue(&daemon, 21..26);
        let whole = attribution::count(&snapshot, &usages, 0, 100);
        daemon.responder.set_queue(whole.clone(), Vec::new());
        daemon.responder.set_tally(Tally::new(&snapshot, usages, 0, &whole), &table);
        assert_eq!(cpu_waiters(&daemon), 5, "all five wait for CPUs");
        // One of them begins, and later a node is free for the others.
        plugin.job(21, 3, 4);
        ask(&mut plugin, 90, wire::Mode::RunNow);
        assert_eq!(cpu_waiters(&daemon), 4);
        plugin.end(2);
        ask(&mut plugin, 90, wire::Mode::RunNow);
        assert_eq!(cpu_waiters(&daemon), 0);
        plugin.job(5, 1, 8);
        ask(&mut plugin, 90, wire::Mode::RunNow);
        assert_eq!(cpu_waiters(&daemon), 4);
        nodes_of(&mut plugin, 91..93);
        assert!(recording.order(Order::Stop));
        until("end of the recording", || !recording.status().active);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    replays_equal(dir.path(), 5);
}

fn replays_equal(dir: &Path, asks: u64) {
    let files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    let same = replay(&files, None, 5, &|_| {}).unwrap();
    assert_eq!((same.asks + same.missed, same.same), (asks, same.asks), "{same:?}");
    assert!(same.asks > 0 && same.broken.is_empty(), "{same:?}");
}
