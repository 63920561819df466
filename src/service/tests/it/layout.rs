// SPDX-License-Identifier: GPL-3.0-or-later
//! Questions that name cores, sockets and threads, from the plugin's packet to the answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends a test")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::link::{Daemon, Plugin, until};
use phalanx_config::Mode;
use phalanx_ffi::wire::{self, AskHead, Exc, Message, Reason};
use phalanx_mirror::replay;
use phalanx_service::recordings::{Options, Order, RecordingWriter};
use zerocopy::FromZeros;

/// A node of two sockets of four cores with two threads each.
fn smt(node: &mut wire::Node) {
    (node.cores, node.sockets, node.threads, node.cpus_per_core) = (8, 2, 2, 2);
}

/// A request for `tasks` tasks of one CPU on one node.
fn tasks(tasks: u32) -> AskHead {
    let mut head = AskHead::new_zeroed();
    (head.job_id, head.array_task_id, head.max_share) = (99, 0xffff_fffe, 1);
    (head.min_nodes, head.max_nodes, head.req_nodes) = (1, 1, 1);
    (head.min_cpus, head.num_tasks, head.cpus_per_task) = (tasks, tasks, 1);
    head.flags = wire::PHX_ASK_CORES;
    head.partition = wire::wire_name("main").unwrap();
    head
}

impl Plugin {
    /// A job with a number of cores on each socket of one node, with two threads each.
    fn job_on(&mut self, id: u32, node: u32, cores: [u16; 8]) {
        let mut head = wire::JobHead::new_zeroed();
        (head.job_id, head.array_task_id) = (id, 0xffff_fffe);
        head.flags = wire::PHX_JOB_FIRST | wire::PHX_JOB_LAST;
        let cpus = 2 * cores.iter().map(|&count| u32::from(count)).sum::<u32>();
        let alloc = wire::Alloc { node, cpus, memory_mb: 10, cores };
        self.send(&Message::Job(wire::Job { head: &head, allocs: &[alloc], gres: &[] }));
    }
}

struct Asked {
    /// Decision.
    id: u64,
    reason: Reason,
    nodes: Vec<u32>,
}

fn ask(plugin: &mut Plugin, head: &AskHead, candidates: u64, exc: &[Exc]) -> Asked {
    let mut head = *head;
    head.node_bits = 4;
    let candidates = [candidates];
    let ask = wire::Ask { exc, ..wire::Ask::new(&head, &candidates) };
    plugin.send(&Message::Ask(ask));
    match plugin.receive() {
        Message::Answer(answer) => Asked {
            id: answer.head.decision,
            reason: answer.reason().unwrap(),
            nodes: answer.nodes.to_vec(),
        },
        other => panic!("expected ANSWER, got {other:?}"),
    }
}

fn outcome(plugin: &mut Plugin, decision: u64, reason: Reason) {
    let mut outcome = wire::Outcome::new_zeroed();
    (outcome.decision, outcome.job_id) = (decision, 99);
    outcome.mode = wire::Mode::RunNow.raw();
    outcome.reason = reason.raw();
    plugin.send(&Message::Outcome(&outcome));
}

/// Four nodes of 16 CPUs; n0 has half a socket left, n1 half of each.
fn busy(daemon: &Daemon) -> Plugin {
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    plugin.sync_nodes(&[16; 4], &[], smt);
    plugin.job_on(1, 0, [4, 2, 0, 0, 0, 0, 0, 0]);
    plugin.job_on(2, 1, [2, 2, 0, 0, 0, 0, 0, 0]);
    plugin
}

/// Goal: what a job gets of a node follows from the options in the packet.
#[test]
fn options_of_the_packet_are_heeded() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = busy(&daemon);
    let mut on = |head: &AskHead, candidates: u64| ask(&mut plugin, head, candidates, &[]).nodes;
    // Bit 3 is idle, and there so that not every candidate is chosen.
    let (left, right) = (0b0001, 0b0010);
    assert_eq!((on(&tasks(4), left | right), on(&tasks(5), left)), (vec![0], vec![]));
    let one = AskHead { threads_per_core: 1, ..tasks(3) };
    assert_eq!(on(&one, left | right), [1]);
    let by_socket = AskHead { ntasks_per_socket: 1, ..tasks(2) };
    assert_eq!(on(&by_socket, left | right), [1]);
    let sockets = AskHead { sockets_per_node: 2, ..tasks(2) };
    assert_eq!(on(&sockets, left | right), [1]);
    let cores = AskHead { cores_per_socket: 3, ..tasks(2) };
    assert_eq!((on(&cores, left | right), on(&cores, 0b1001)), (vec![], vec![3]));
    let spec = AskHead { core_spec: 1, ..tasks(14) };
    assert_eq!(
        (on(&spec, 0b1011), on(&AskHead { core_spec: 2, ..spec }, 0b1011)),
        (vec![3], vec![])
    );
    let partition = AskHead { max_share: 0, ..tasks(1) };
    assert_eq!(on(&partition, 0b1011), [3]);
    let user = AskHead { whole_node: 2, ..tasks(4) };
    assert_eq!(on(&user, left | right), [0]);
    let sockets = AskHead { flags: wire::PHX_ASK_CORES | wire::PHX_ASK_SOCKETS, ..tasks(1) };
    assert_eq!((on(&sockets, left | right), on(&sockets, 0b1001)), (vec![], vec![3]));
}

/// Goal: cores of reservations are not offered, and jobs that may be preempted are reported.
#[test]
fn reserved_cores_and_preemption() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = busy(&daemon);
    let exc = Exc { node: 1, cores: 3, pad: 0, sockets: [2, 1, 0, 0, 0, 0, 0, 0] };
    let answer = ask(&mut plugin, &tasks(3), 0b0110, &[exc]);
    assert_eq!(answer.nodes, [2]);
    let head = AskHead { preempt_all: 7, ..tasks(17) };
    let answer = ask(&mut plugin, &head, 0b1111, &[]);
    assert_eq!((answer.reason, answer.nodes), (Reason::NoFit, vec![]));
}

/// Goal: an option whose answers Slurm refuses is left to Slurm, other options are not.
#[test]
fn refused_options_are_left_to_slurm() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = busy(&daemon);
    let head = AskHead { ntasks_per_socket: 1, ..tasks(2) };
    for _ in 0..20 {
        let answer = ask(&mut plugin, &head, 0b1110, &[]);
        assert_eq!(answer.reason, Reason::None);
        outcome(&mut plugin, answer.id, Reason::NarrowFailed);
    }
    assert_eq!(ask(&mut plugin, &head, 0b1110, &[]).reason, Reason::Unsupported);
    // Of a proof no nodes were chosen that it could have refused.
    let mut unproved = wire::Outcome::new_zeroed();
    (unproved.job_id, unproved.mode) = (99, wire::Mode::RunNow.raw());
    (unproved.reason, unproved.proof) = (Reason::NarrowFailed.raw(), 1);
    plugin.send(&Message::Outcome(&unproved));
    assert_eq!(ask(&mut plugin, &tasks(2), 0b1110, &[]).reason, Reason::None);
    let view = daemon.responder.view();
    let count = &view.options["--ntasks-per-socket"];
    assert_eq!((count.answered, count.refused, count.left), (20, 20, 1));
    assert_eq!(view.run_now.options["--ntasks-per-socket"], 1);
    let fallen_back = |name| view.run_now.fallen_back.get(name).copied();
    assert_eq!((fallen_back("narrow_failed"), fallen_back("not_proved")), (Some(20), Some(1)));
}

/// Goal: limits that Slurm alone knows leave an ask to it by name, and numbers keep their meaning,
/// also those that mean "not given" in shorter fields.
#[test]
fn limits_that_are_not_known_are_left_to_slurm() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = busy(&daemon);
    for flag in [wire::PHX_ASK_PART_CPUS, wire::PHX_ASK_GPU_CORES, wire::PHX_ASK_EXC_GRES] {
        let head = AskHead { flags: wire::PHX_ASK_CORES | flag, ..tasks(1) };
        assert_eq!(ask(&mut plugin, &head, 0b1111, &[]).reason, Reason::Unsupported);
    }
    // FORCE:2 always, YES:2 where the job asks; FORCE and YES:2 without leave CPUs to one job.
    for (max_share, share_res, reason) in [
        (0x8002, 0, Reason::Unsupported),
        (2, 1, Reason::Unsupported),
        (0x8001, 1, Reason::None),
        (2, 0xff, Reason::None),
    ] {
        let head = AskHead { max_share, share_res, ..tasks(1) };
        assert_eq!(ask(&mut plugin, &head, 0b1111, &[]).reason, reason, "{max_share:x}");
    }
    let names = daemon.responder.view().run_now.options;
    let named = ["MaxCPUsPerNode", "OverSubscribe", "RestrictedCoresPerGPU", "gres reserved"];
    assert_eq!(names.into_keys().collect::<Vec<_>>(), named);
    for many in [65_534, 65_535] {
        let head = AskHead { num_tasks: many, ..tasks(1) };
        assert_eq!(ask(&mut plugin, &head, 0b1111, &[]).reason, Reason::NoFit);
    }
}

/// Goal: the table says which nodes take jobs, and of which GRES amounts are used up.
#[test]
fn the_table_knows_what_counts() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync_nodes(&[8; 2], &[], |node| {
        node.no_consume = 1;
        node.flags = u16::from(node.gres_count == 0);
    });
    until("mirror", || daemon.responder.view().synced);
    let table = daemon.responder.table().unwrap();
    assert_eq!(table.nodes.iter().map(|node| node.out).collect::<Vec<_>>(), [true, false]);
    assert_eq!(table.unspent, [phalanx_core::GresIdx::new(0)]);
}

/// Goal: questions with core layout, reserved cores and refusals are decided again to the
/// last bit.
#[test]
fn a_recording_with_core_layout_is_replayed_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(Mode::Enforce);
    let (writer, recording) = RecordingWriter::new(Arc::clone(&daemon.responder));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run(&|| None, &stop));
        let mut plugin = busy(&daemon);
        let path = dir.path().to_path_buf();
        let options =
            Options { dir: path, file_bytes: 1 << 30, total_bytes: 1 << 30, length: None };
        assert!(recording.order(Order::Start(options)));
        // Table, jobs and the rest: from here on questions are recorded.
        until("recording", || recording.status().records >= 3);
        let mut random = 7u32;
        let mut next = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        let small = |count: u32| u16::try_from(count).unwrap();
        for round in 0..600 {
            let head = AskHead {
                threads_per_core: next(3),
                ntasks_per_core: next(2),
                ntasks_per_socket: next(3),
                sockets_per_node: small(next(3)),
                cores_per_socket: small(next(4)),
                core_spec: next(8) / 6,
                ..tasks(1 + next(6))
            };
            let cores = small(next(2));
            let exc = Exc { node: next(4), cores, pad: 0, sockets: [cores, 0, 0, 0, 0, 0, 0, 0] };
            let exc = if next(3) == 0 { vec![exc] } else { Vec::new() };
            let answer = ask(&mut plugin, &head, 0b1111, &exc);
            if answer.reason == Reason::None {
                let refused = [Reason::NarrowFailed, Reason::None, Reason::None][next(3) as usize];
                outcome(&mut plugin, answer.id, refused);
            }
            plugin.job_on(
                10 + next(6),
                next(4),
                [small(next(3)), small(next(3)), 0, 0, 0, 0, 0, 0],
            );
            plugin.end(10 + next(6));
            if round == 300 {
                plugin.sync_nodes(&[16; 4], &[], smt);
                // Several looks of the writer, which copies the new state.
                std::thread::sleep(std::time::Duration::from_millis(400));
            }
        }
        until("refusals", || daemon.responder.view().options.values().any(|c| c.left > 0));
        assert!(recording.order(Order::Stop));
        until("end of the recording", || !recording.status().active);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let files: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let same = replay(&files, None, 5, &|_| {}).unwrap();
    // Those that came while the state was being copied are counted only.
    assert!(same.asks > 500 && same.asks + same.missed == 600, "{same:?}");
    assert_eq!((same.same, same.differing, &same.broken), (same.asks, 0, &Vec::new()), "{same:?}");
}
