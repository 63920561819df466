// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the daemon's end of the plugin socket, with a plugin made of the same wire builders
//! over a real SOCK_SEQPACKET socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends a test")]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};
use phalanx_config::{Config, Draw, Mode};
use phalanx_core::NodeIdx;
use phalanx_core::snapshot::{Builder, Node, Snapshot, TableNode};
use phalanx_ffi::wire::{self, Message, PacketBuf, Reason, Verdict};
use phalanx_mirror::{BreakerLimits, LinkEvent, Proving, Settings};
use phalanx_planner::preference::{
    CandidateSet, JobKey, Method, Note as PreferenceNote, Preference, Unused,
};
use phalanx_service::link::{OrderExchange, Responder, Server, ServerConfig};
use zerocopy::FromZeros;

pub struct Daemon {
    pub responder: Arc<Responder>,
    pub events: Receiver<LinkEvent>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub socket: PathBuf,
    _dir: tempfile::TempDir,
}

pub fn settings(mode: Mode) -> Settings {
    Settings {
        generation: 1,
        mode,
        partition_modes: [("gpu".to_owned(), Mode::Off)].into(),
        account_modes: [].into(),
        draw: None,
        deadline_us: 2000,
        breaker: BreakerLimits::DEFAULT,
        ask_will_run: true,
        proving: Default::default(),
        input_wait_ms: 0,
        require_wait_ms: 0,
        hold_budget_ms: 10_000,
        order: true,
        config: Config { mode, ..Config::default() }.text().into(),
        tuning: Config::default().tuning(),
    }
}

impl Daemon {
    pub fn start(mode: Mode) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("plugin.sock");
        let (sender, events) = bounded(1000);
        let responder = Arc::new(Responder::new(settings(mode), sender, 1));
        let config = ServerConfig {
            socket: socket.clone(),
            allowed_uids: Vec::new(),
            owner: Arc::default(),
        };
        let server = Server::bind(config).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (own, own_stop) = (Arc::clone(&responder), Arc::clone(&stop));
        let thread = std::thread::spawn(move || server.run(&own, &own_stop, &AtomicU64::new(0)));
        Self { responder, events, stop, thread: Some(thread), socket, _dir: dir }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        assert!(!self.socket.exists(), "the socket is removed at the end");
    }
}

pub struct Plugin {
    fd: OwnedFd,
    buf: PacketBuf,
    seq: u64,
    /// Flags of the last answer.
    pub flags: u32,
    /// Time limit of the jobs that it asks about, minutes.
    pub limit_min: u32,
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Plugin {
    pub fn connect(path: &Path) -> Self {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(fd.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        Self { fd, buf: PacketBuf::new(), seq: 0, flags: 0, limit_min: 0 }
    }

    pub fn send(&mut self, message: &Message<'_>) -> u64 {
        self.seq += 1;
        let bytes = wire::build(&mut self.buf, self.seq, message).unwrap();
        send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL).unwrap();
        self.seq
    }

    fn raw(&self, bytes: &[u8]) {
        let _ = send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL);
    }

    pub fn closed(&mut self) -> bool {
        matches!(recv(self.fd.as_raw_fd(), self.buf.space_mut(), MsgFlags::empty()), Ok(0) | Err(_))
    }

    pub fn receive(&mut self) -> Message<'_> {
        let len = recv(self.fd.as_raw_fd(), self.buf.space_mut(), MsgFlags::empty()).unwrap();
        assert!(len > 0, "the daemon closed the connection");
        self.buf.set_len(len).unwrap();
        self.buf.message().unwrap()
    }

    /// Returns the next ORDER, while `wanted` is asked for again and again.
    fn order(&mut self, desk: &OrderExchange, wanted: &[(u32, i32)]) -> wire::Order<'_> {
        until("ORDER", || {
            desk.want(wanted);
            let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, 100u8).unwrap() > 0
        });
        match self.receive() {
            Message::Order(order) => order,
            other => panic!("expected ORDER, got {other:?}"),
        }
    }

    pub fn greet(&mut self, nodes: u32) {
        let mut hello = wire::Hello::new_zeroed();
        hello.slurm_version = 0x16_05_08;
        hello.node_count = nodes;
        hello.select_param = 0x14;
        self.send(&Message::Hello(&hello));
        match self.receive() {
            Message::Welcome(welcome) => {
                assert_eq!((welcome.deadline_us, welcome.late_budget_ms), (2000, 1000));
                assert_eq!((welcome.held_s, welcome.eject_openings), (620, 10));
                let asks = wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_ASK_WILL_RUN;
                let watch = wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_WATCH;
                assert!([asks, watch].contains(&(welcome.flags & !wire::PHX_W_ORDER)));
            }
            other => panic!("expected WELCOME, got {other:?}"),
        }
    }

    /// Sends a full state: `cpus` usable CPUs and 1000 MiB on each node, 4 GPUs on every second
    /// node.
    pub fn sync(&mut self, cpus: &[u32], jobs: &[(u32, u32, u32)]) {
        self.sync_nodes(cpus, jobs, |_| {});
    }

    /// Sends a full state like [`Self::sync`], with nodes that `change` has altered.
    pub fn sync_nodes(
        &mut self,
        cpus: &[u32],
        jobs: &[(u32, u32, u32)],
        change: fn(&mut wire::Node),
    ) {
        let count = u32::try_from(cpus.len()).unwrap();
        let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
        let mut begin = wire::SyncBegin::new_zeroed();
        begin.node_count = count;
        begin.job_count = u32::try_from(jobs.len()).unwrap();
        begin.node_hash = wire::node_hash(&names);
        self.send(&Message::SyncBegin(&begin));
        let gpu =
            wire::GresName { plugin_id: 7, type_id: 0, name: wire::wire_name("gpu").unwrap() };
        let head = wire::GresNamesHead::new_zeroed();
        self.send(&Message::GresNames(wire::GresNames { head: &head, entries: &[gpu] }));
        let nodes: Vec<wire::Node> = (0..count)
            .zip(cpus)
            .map(|(i, &cpus)| {
                let mut node = wire::Node::empty();
                node.name = wire::wire_name(&format!("n{i}")).unwrap();
                (node.cpus, node.cores, node.threads, node.memory_mb) = (cpus, cpus, 1, 1000);
                if i % 2 == 1 {
                    node.gres_count = 1;
                    node.gres[0] = wire::GresCount { plugin_id: 7, type_id: 0, count: 4 };
                }
                change(&mut node);
                node
            })
            .collect();
        let head = wire::NodesHead::new_zeroed();
        self.send(&Message::Nodes(wire::Nodes { head: &head, entries: &nodes }));
        self.topology(wire::PHX_PART_FIRST, b"SwitchName=s0 Level=0 LinkSpeed=1");
        let last = format!(" Nodes=n[0-{}]\n", count.saturating_sub(1));
        self.topology(wire::PHX_PART_LAST, last.as_bytes());
        for &(id, node, cpus) in jobs {
            self.job(id, node, cpus);
        }
        let mut end = wire::SyncEnd::new_zeroed();
        end.node_count = count;
        end.job_count = u32::try_from(jobs.len()).unwrap();
        self.send(&Message::SyncEnd(&end));
    }

    fn topology(&mut self, part: u32, text: &[u8]) {
        let mut head = wire::TopologyHead::new_zeroed();
        head.flags = u16::try_from(part | wire::PHX_TOPOLOGY_DEFAULT).unwrap();
        head.name = wire::wire_name("default").unwrap();
        head.plugin = wire::wire_name("tree").unwrap();
        self.send(&Message::Topology(wire::Topology { head: &head, text }));
    }

    pub fn job(&mut self, id: u32, node: u32, cpus: u32) {
        let mut head = wire::JobHead::new_zeroed();
        head.job_id = id;
        head.array_task_id = 0xffff_fffe;
        head.flags = wire::PHX_JOB_FIRST | wire::PHX_JOB_LAST;
        head.cause = wire::Cause::Begin.raw();
        let alloc = wire::Alloc { node, cpus, memory_mb: 10, cores: [0; 8] };
        self.send(&Message::Job(wire::Job { head: &head, allocs: &[alloc], gres: &[] }));
    }

    /// Reports another end of a running job.
    pub fn ends(&mut self, job_id: u32, end_time: u64) {
        let head = wire::EndsHead { count: 1, ..wire::EndsHead::new_zeroed() };
        let entries = &[wire::End { job_id, end_time, ..wire::End::new_zeroed() }];
        self.send(&Message::Ends(wire::Ends { head: &head, entries }));
    }

    pub fn end(&mut self, id: u32) {
        let mut end = wire::JobEnd::new_zeroed();
        end.job_id = id;
        self.send(&Message::JobEnd(&end));
    }

    /// Asks for `cpus` CPUs and `gpus` GPUs on one of the candidates.
    pub fn ask(
        &mut self,
        cpus: u32,
        gpus: u64,
        bits: u32,
        candidates: u64,
    ) -> (Verdict, Reason, Vec<u32>) {
        self.ask_in("main", cpus, gpus, bits, candidates)
    }

    /// Reports that Slurm started a job on one of the candidates by itself.
    pub fn started(&mut self, cpus: u32, bits: u32, candidates: u64) {
        let head = wire::AskHead { watched: 1, ..ask_head("main", cpus, bits) };
        let ask_seq = self.send(&Message::Ask(wire::Ask::new(&head, &[candidates])));
        let mut outcome = wire::Outcome::new_zeroed();
        (outcome.ask_seq, outcome.job_id, outcome.count) = (ask_seq, head.job_id, 1);
        (outcome.mode, outcome.reason) = (head.mode, Reason::Shadow.raw());
        self.send(&Message::Outcome(&outcome));
    }

    fn ask_in(
        &mut self,
        partition: &str,
        cpus: u32,
        gpus: u64,
        bits: u32,
        candidates: u64,
    ) -> (Verdict, Reason, Vec<u32>) {
        let mut head = ask_head(partition, cpus, bits);
        head.time_limit_min = self.limit_min;
        if gpus > 0 {
            head.gres_count = 1;
            head.gres[0].plugin_id = 7;
            head.gres[0].per_node = gpus;
        }
        let seq = self.send(&Message::Ask(wire::Ask::new(&head, &[candidates])));
        match self.receive() {
            Message::Answer(answer) => {
                assert_eq!((answer.seq(), answer.head.job_id), (seq, 99));
                let (verdict, reason) = (answer.verdict().unwrap(), answer.reason().unwrap());
                let (flags, nodes) = (answer.head.flags, answer.nodes.to_vec());
                self.flags = flags;
                (verdict, reason, nodes)
            }
            other => panic!("expected ANSWER, got {other:?}"),
        }
    }
}

fn ask_head(partition: &str, cpus: u32, bits: u32) -> wire::AskHead {
    let mut head = wire::AskHead::new_zeroed();
    (head.job_id, head.array_task_id) = (99, 0xffff_fffe);
    (head.min_nodes, head.max_nodes, head.req_nodes) = (1, 1, 1);
    (head.min_cpus, head.num_tasks, head.cpus_per_task) = (cpus, 1, cpus);
    head.flags = wire::PHX_ASK_MEM_TRACKED | wire::PHX_ASK_CORES | wire::PHX_ASK_PROVE;
    (head.mem_per_node_mb, head.max_share) = (100, 1);
    wire::AskHead { partition: wire::wire_name(partition).unwrap(), node_bits: bits, ..head }
}

/// Goal: deltas reach the plugin whole, their lease is renewed, and reports in
/// parts are joined and end with the connection.
#[test]
fn orders_go_out_and_reports_come_in() {
    let daemon = Daemon::start(Mode::Enforce);
    let desk = &daemon.responder.order;
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    let few = [(3, 5), (9, 2)];
    let order = plugin.order(desk, &few);
    let deltas: Vec<_> = order.deltas.iter().map(|d| (d.job_id, d.delta)).collect();
    assert_eq!(deltas, few);
    assert_eq!(order.head.flags, wire::PHX_PART_FIRST | wire::PHX_PART_LAST);
    assert_eq!(order.head.lease_ms, 5000);
    let generation = order.head.generation;
    let renewed = plugin.order(desk, &few).head;
    assert_eq!((renewed.generation, renewed.flags), (generation, wire::PHX_PART_SAME));
    let many: Vec<(u32, i32)> = (1..=5000).map(|id| (id, 1)).collect();
    let mut got = 0;
    while got < many.len() {
        got += plugin.order(desk, &many).deltas.len();
    }

    let queued = |job_id| wire::Queued { job_id, ..wire::Queued::new_zeroed() };
    let mut part = |flags, jobs: &[wire::Queued]| {
        let head = wire::QueueHead { flags, written: 7, ..wire::QueueHead::new_zeroed() };
        plugin.send(&Message::Queue(wire::Queue { head: &head, jobs }));
    };
    part(wire::PHX_PART_LAST, &[queued(8)]); // without a beginning
    part(wire::PHX_PART_FIRST, &[queued(1), queued(2)]);
    part(wire::PHX_PART_LAST, &[queued(3)]);
    until("report", || desk.report().is_some_and(|r| r.jobs.len() == 3 && r.number == 1));
    // Generation 0: the plugin forgot its set, so it is sent anew, not renewed.
    std::thread::sleep(Duration::from_millis(600));
    part(wire::PHX_PART_SAME, &[]);
    while plugin.order(desk, &many).head.flags & wire::PHX_PART_FIRST == 0 {}
    drop(plugin);
    until("no report", || desk.report().is_none());
}

/// Goal: no proof says that a node lacks a GRES that it may have beyond those that are reported.
#[test]
fn gres_beyond_the_list_of_a_node_are_left_to_slurm() {
    fn others(node: &mut wire::Node, count: u32) {
        node.gres_count = count;
        for (id, gres) in (100..).zip(&mut node.gres) {
            (gres.plugin_id, gres.count) = (id, 1);
        }
    }
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    let proving = Proving { no_fit: true, ..Proving::default() };
    plugin.greet(2);
    let proving = Settings { generation: 2, proving, ..settings(Mode::Enforce) };
    daemon.responder.set_settings(proving).unwrap();
    assert!(matches!(plugin.receive(), Message::Config(_)));
    let asked = |plugin: &mut Plugin| {
        let answer = plugin.ask(1, 5, 2, 0b11);
        (answer.1, plugin.flags & wire::PHX_A_PROOF != 0)
    };
    plugin.sync_nodes(&[8, 8], &[], |node| others(node, wire::PHX_GRES_PER_NODE - 1));
    assert_eq!(asked(&mut plugin), (Reason::NoFit, true));
    plugin.sync_nodes(&[8, 8], &[], |node| others(node, wire::PHX_GRES_PER_NODE));
    assert_eq!(asked(&mut plugin), (Reason::Unsupported, false));
}

#[test]
fn answers_follow_the_events_before_them() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    plugin.sync(&[8, 8, 8, 8], &[(1, 0, 8)]);
    // n1 and n3 have GPUs, n0 is full: a CPU job belongs on n2.
    assert_eq!(plugin.ask(4, 0, 4, 0b0101), (Verdict::Narrow, Reason::None, vec![2]));
    plugin.job(2, 2, 8);
    assert_eq!(plugin.ask(4, 0, 4, 0b0101).1, Reason::NoFit);
    plugin.end(1);
    assert_eq!(plugin.ask(4, 0, 4, 0b0101).2, [0]);
    let (verdict, _, nodes) = plugin.ask(1, 4, 4, 0b1111);
    assert_eq!(verdict, Verdict::Narrow);
    assert!(nodes == [1] || nodes == [3], "{nodes:?}");
    assert_eq!(plugin.ask(1, 5, 4, 0b1111).1, Reason::NoFit);
    assert_eq!(plugin.ask(1, 0, 4, 0b0001).1, Reason::NoChoice);
    assert_eq!(plugin.ask_in("gpu", 1, 0, 4, 0b1111).1, Reason::Off);
    until("notes", || daemon.events.len() >= 8);
}

#[test]
fn shadow_decides_and_records_but_leaves_it_to_slurm() {
    let daemon = Daemon::start(Mode::Shadow);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[]);
    assert_eq!(plugin.ask(2, 0, 2, 0b11), (Verdict::NoOpinion, Reason::Shadow, vec![]));
    match daemon.events.recv_timeout(Duration::from_secs(20)).unwrap() {
        LinkEvent::Asked(decision) => {
            assert_eq!(decision.answer.placement().unwrap().nodes.len(), 1);
        }
        other => panic!("{other:?}"),
    }
}

/// Goal: in a live comparison Slurm's jobs get no nodes, and no decision on them is recorded.
#[test]
fn slurms_arm_of_a_comparison_gets_nothing() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[]);
    let mut answer = |share| {
        let draw = Some(Draw { key: "a".to_owned(), share, since_s: 0 });
        daemon.responder.set_settings(Settings { draw, ..settings(Mode::Enforce) }).unwrap();
        plugin.ask(2, 0, 2, 0b11).1
    };
    assert_eq!([1.0, 0.0].map(&mut answer), [Reason::None, Reason::Off]);
    until("one note", || !daemon.events.is_empty());
    assert_eq!((answer(0.0), daemon.events.len()), (Reason::Off, 1));
}

#[test]
fn a_new_full_state_replaces_everything() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[(1, 0, 8), (2, 1, 8)]);
    assert_eq!(plugin.ask(1, 0, 2, 0b11).1, Reason::NoFit);
    plugin.sync(&[8, 16], &[(1, 0, 8)]);
    assert_eq!(plugin.ask(16, 0, 2, 0b11).2, [1]);
    assert_eq!(daemon.responder.view().link.mirror_jobs, 1);
    // An ask for a table of another size is no error, only not answerable.
    assert_eq!(plugin.ask(1, 0, 3, 0b111).1, Reason::NotSynced);
}

#[test]
fn before_the_full_state_there_is_no_opinion() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    assert_eq!(plugin.ask(1, 0, 2, 0b11).1, Reason::NotSynced);
    drop(plugin);
    until("disconnect", || !daemon.responder.view().connected);
}

#[test]
fn malformed_messages_close_the_connection_and_the_next_one_works() {
    let daemon = Daemon::start(Mode::Enforce);
    let garbage: [&[u8]; 4] =
        [b"x", &[0u8; 24], &[0xff; 200], b"PHX1\x01\x00\x63\x00\x18\0\0\0\0\0\0\0"];
    for bytes in garbage {
        let mut plugin = Plugin::connect(&daemon.socket);
        plugin.raw(bytes);
        assert!(plugin.closed());
    }
    let mut early = Plugin::connect(&daemon.socket);
    early.send(&Message::Stats(&wire::Stats::new_zeroed()));
    assert!(early.closed(), "nothing may come before HELLO");
    let mut wrong = Plugin::connect(&daemon.socket);
    wrong.greet(2);
    wrong.job(1, 70, 1);
    assert!(wrong.closed(), "a node beyond the table");
    until("errors counted", || daemon.responder.view().link.protocol_errors == 6);
    let text = daemon.responder.view().link.last_error.unwrap();
    assert!(text.contains("allocs.node[0] is 70"), "{text}");
    let mut outside = Plugin::connect(&daemon.socket);
    outside.greet(2);
    let head = wire::TopologyHead::new_zeroed();
    outside.send(&Message::Topology(wire::Topology { head: &head, text: b"" }));
    assert!(outside.closed(), "a topology outside a full state");
    until("errors counted", || daemon.responder.view().link.protocol_errors == 7);
    let text = daemon.responder.view().link.last_error.unwrap();
    assert!(text.contains("TOPOLOGY came outside a full state"), "{text}");
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[]);
    assert_eq!(plugin.ask(1, 0, 2, 0b11).0, Verdict::Narrow);
}

#[test]
fn a_deleted_socket_is_made_anew() {
    let daemon = Daemon::start(Mode::Enforce);
    std::fs::remove_file(&daemon.socket).unwrap();
    until("new socket", || daemon.socket.exists());
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
}

#[test]
fn a_reload_reaches_the_plugin_and_the_next_decision() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[]);
    assert_eq!(plugin.ask(1, 0, 2, 0b11).0, Verdict::Narrow);
    let changed = Settings { generation: 2, deadline_us: 3000, ..settings(Mode::Off) };
    daemon.responder.set_settings(changed).unwrap();
    match plugin.receive() {
        Message::Config(config) => {
            assert_eq!((config.generation, config.deadline_us), (2, 3000));
            let asks = wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_ASK_WILL_RUN;
            assert_eq!(config.flags & asks, 0, "where all is off nothing is asked");
        }
        other => panic!("expected CONFIG, got {other:?}"),
    }
    assert_eq!(plugin.ask(1, 0, 2, 0b11).1, Reason::Off);
}

#[test]
fn a_second_daemon_does_not_take_the_socket() {
    let daemon = Daemon::start(Mode::Enforce);
    let config = ServerConfig {
        socket: daemon.socket.clone(),
        allowed_uids: Vec::new(),
        owner: Arc::default(),
    };
    let error = Server::bind(config).unwrap_err().to_string();
    assert!(error.contains("another process is listening"), "{error}");
    let file = daemon.socket.with_file_name("file");
    std::fs::write(&file, "x").unwrap();
    let config =
        ServerConfig { socket: file.clone(), allowed_uids: Vec::new(), owner: Arc::default() };
    assert!(Server::bind(config).unwrap_err().to_string().contains("not a socket"));
    assert!(file.exists());
}

/// Goal: a daemon that runs before slurmctld gives the socket to SlurmUser once slurmctld tells who
/// that is.
#[test]
fn the_socket_is_given_to_slurm_user_when_slurmctld_tells_who_that_is() {
    use std::os::unix::fs::MetadataExt;
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (socket, owner) = (dir.path().join("plugin.sock"), Arc::<OnceLock<u32>>::default());
    let config =
        ServerConfig { socket: socket.clone(), allowed_uids: Vec::new(), owner: owner.clone() };
    let server = Server::bind(config).unwrap();
    let responder = Responder::new(settings(Mode::Enforce), bounded(10).0, 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&responder, &stop, &AtomicU64::new(0)));
        let uid = || std::fs::metadata(&socket).unwrap().uid();
        assert_eq!(uid(), 0);
        owner.set(65_533).unwrap();
        until("the socket is given away", || uid() == 65_533);
        stop.store(true, Ordering::Relaxed);
    });
}

/// A snapshot of the nodes of the mirror.
pub fn snapshot(responder: &Responder) -> Snapshot {
    let table = responder.table().unwrap();
    let mut builder = Builder::default();
    let node = |slot: &TableNode| Node { name: Arc::clone(&slot.name), ..Node::default() };
    builder.nodes_by(&table, table.nodes.iter().map(node).collect()).unwrap();
    builder.build(1, 1).unwrap()
}

/// Puts a preference of job 99 in force: three nodes from `first` on, then the nodes from 10 to 19
/// that the table has.
pub fn prefer(responder: &Responder, first: u32) {
    let snapshot = snapshot(responder);
    let set = |nodes: std::ops::Range<u32>| CandidateSet {
        name: "planned".into(),
        nodes: nodes.map(NodeIdx::from).filter(|node| node.at() < snapshot.nodes.len()).collect(),
        quota: None,
    };
    let preference = Preference {
        key: JobKey::Job(99),
        method: Method::Gang,
        sets: vec![set(first..first + 3), set(10..20)],
        worth: Vec::new(),
        required: false,
        made_ms: 1,
        note: PreferenceNote::None,
    };
    responder.set_preferences(Method::Gang, &snapshot, vec![preference]);
}

/// Goal: a new full state of the same nodes leaves preferences in force, a state of other nodes
/// voids them until the next plan.
#[test]
fn preferences_outlive_a_new_full_state_of_the_same_nodes() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    plugin.sync(&[8; 4], &[]);
    until("mirror", || daemon.responder.table().is_some());
    prefer(&daemon.responder, 2);
    assert_eq!(plugin.ask(1, 0, 4, 0b1111).2.len(), 1);
    plugin.sync(&[8; 4], &[(1, 2, 1)]);
    plugin.ask(1, 0, 4, 0b1111);
    plugin.sync(&[8, 8, 8, 9], &[]);
    plugin.ask(1, 0, 4, 0b1111);
    let mut uses = Vec::new();
    while let Ok(event) = daemon.events.recv_timeout(Duration::from_secs(20)) {
        if let LinkEvent::Asked(decision) = event {
            let used = decision.preference_use.as_ref().unwrap();
            uses.push((used.set, used.unused));
        }
        if uses.len() == 3 {
            break;
        }
    }
    assert_eq!(uses, [(Some(0), None), (Some(0), None), (None, Some(Unused::OtherTable))]);
}
