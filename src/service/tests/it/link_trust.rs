// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of whom the daemon serves at the plugin's socket, and of what it does about a wrong
//! mirror.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends a test")]

use std::time::Duration;

use phalanx_config::Mode;
use phalanx_ffi::wire::{self, Message, Reason, Verdict};
use phalanx_mirror::{LinkEvent, Settings};
use phalanx_service::link::Look;
use zerocopy::FromZeros;

use crate::link::{Daemon, Plugin, settings, until};

fn hello_of(cluster: &str) -> wire::Hello {
    let mut hello = wire::Hello::new_zeroed();
    hello.slurm_version = 0x16_05_08;
    hello.node_count = 2;
    hello.cluster = wire::wire_name(cluster).unwrap();
    hello
}

/// Goal: plugins of two clusters do not displace each other, and a restarted slurmctld is accepted
/// although the old end still seems open.
#[test]
fn two_clusters_at_one_socket() {
    let daemon = Daemon::start(Mode::Enforce);
    daemon.responder.set_cluster_name("one");
    let mut wrong = Plugin::connect(&daemon.socket);
    wrong.send(&Message::Hello(&hello_of("two")));
    assert!(wrong.closed());
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.send(&Message::Hello(&hello_of("one")));
    assert!(matches!(plugin.receive(), Message::Welcome(_)));
    plugin.sync(&[8, 8], &[]);
    assert_eq!(plugin.ask(1, 0, 2, 0b11).0, Verdict::Narrow);
    for _ in 0..3 {
        let mut other = Plugin::connect(&daemon.socket);
        other.send(&Message::Hello(&hello_of("two")));
        assert!(other.closed());
    }
    assert_eq!(plugin.ask(2, 0, 2, 0b11).0, Verdict::Narrow, "the first is still served");
    let view = daemon.responder.view();
    assert!(view.connected && view.link.refused == 4 && view.plugin.cluster == "one", "{view:?}");
    assert!(view.link.last_error.unwrap().contains("\"two\""));
    let mut again = Plugin::connect(&daemon.socket);
    again.send(&Message::Hello(&hello_of("one")));
    assert!(matches!(again.receive(), Message::Welcome(_)));
    assert!(plugin.closed());
}

/// Returns the daemon's text about a state with these nodes, announced by names, and one job.
fn refusal(daemon: &Daemon, sent: &[&str], announced: [&str; 2], job: u32) -> String {
    let before = daemon.responder.view().link.protocol_errors;
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.send(&Message::Hello(&hello_of("")));
    assert!(matches!(plugin.receive(), Message::Welcome(_)));
    let mut begin = wire::SyncBegin::new_zeroed();
    (begin.node_count, begin.job_count) = (2, 1);
    begin.node_hash = wire::node_hash(announced);
    plugin.send(&Message::SyncBegin(&begin));
    let node = |name: &&str| {
        let name = wire::wire_name(name).unwrap();
        wire::Node { name, cpus: 8, cores: 8, threads: 1, ..wire::Node::empty() }
    };
    let nodes: Vec<wire::Node> = sent.iter().map(node).collect();
    let head = wire::NodesHead::new_zeroed();
    plugin.send(&Message::Nodes(wire::Nodes { head: &head, entries: &nodes }));
    let mut head = wire::JobHead::new_zeroed();
    (head.job_id, head.flags) = (1, wire::PHX_JOB_FIRST | job);
    plugin.send(&Message::Job(wire::Job { head: &head, allocs: &[], gres: &[] }));
    let mut end = wire::SyncEnd::new_zeroed();
    (end.node_count, end.job_count) = (2, 1);
    plugin.send(&Message::SyncEnd(&end));
    let view = || daemon.responder.view();
    until("a verdict", || view().synced || view().link.protocol_errors > before);
    if view().synced { "taken".to_owned() } else { view().link.last_error.unwrap() }
}

/// Goal: only a whole state of the announced nodes becomes the mirror, and a plugin cannot say
/// HELLO twice under different names.
#[test]
fn a_state_that_is_not_whole_is_refused() {
    let daemon = Daemon::start(Mode::Enforce);
    let (both, whole) = (["n0", "n1"], wire::PHX_JOB_LAST);
    for (sent, announced, job, expected) in [
        (&both[..1], ["n0", ""], whole, "nodes: 1, expected 2"),
        (&both, both, 0, "complete jobs: 0, expected 1"),
        (&both, ["n0", "n2"], whole, "hash of the node names"),
    ] {
        let said = refusal(&daemon, sent, announced, job);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.send(&Message::Hello(&hello_of("")));
    until("an error", || daemon.responder.view().link.protocol_errors == 4);
    assert!(daemon.responder.view().link.last_error.unwrap().contains("twice"));
}

/// Goal: a mirror that stays different from polls is put right by a whole state.
#[test]
fn a_lasting_difference_asks_for_the_whole_state() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[]);
    until("the mirror", || daemon.responder.view().synced);
    let look = Look { differing: 1, repair: vec![(1, (2, 0), (0, 0))], ..Look::default() };
    daemon.responder.compared(&look);
    assert!(matches!(plugin.receive(), Message::Resync(_)));
    let view = daemon.responder.view();
    assert_eq!((view.link.differing_nodes, view.link.resyncs_asked), (1, 1));
    plugin.sync(&[8, 8], &[]);
    daemon.responder.compared(&Look::default());
    assert_eq!(plugin.ask(1, 0, 2, 0b11).0, Verdict::Narrow);
    assert_eq!(daemon.responder.view().link.differing_nodes, 0);
}

/// Goal: an untested patch release of a known series places; another series does not.
#[test]
fn an_unknown_series_stays_in_shadow() {
    for (version, known) in [(0x18_0b_63, true), (0x1a_0b_00, false)] {
        let daemon = Daemon::start(Mode::Enforce);
        let mut plugin = Plugin::connect(&daemon.socket);
        let mut hello = hello_of("");
        hello.slurm_version = version;
        plugin.send(&Message::Hello(&hello));
        assert!(matches!(plugin.receive(), Message::Welcome(_)));
        plugin.sync(&[8, 8], &[]);
        assert_eq!(plugin.ask(1, 0, 2, 0b11).0 == Verdict::Narrow, known);
        assert_eq!(daemon.responder.is_shadow_only(), !known);
    }
}

/// Flags of the next WELCOME or CONFIG.
fn told_flags(plugin: &mut Plugin) -> u32 {
    match plugin.receive() {
        Message::Welcome(limits) | Message::Config(limits) => limits.flags,
        other => panic!("{other:?}"),
    }
}

/// Goal: where nothing enforces, the plugin is to wait for no answer; its report of a start is
/// decided on the mirror before the start, and the start's outcome is that decision's.
#[test]
fn where_nothing_enforces_the_daemon_watches() {
    let daemon = Daemon::start(Mode::Shadow);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.send(&Message::Hello(&hello_of("")));
    let watch = wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_WATCH;
    assert_eq!(told_flags(&mut plugin) & !wire::PHX_W_ORDER, watch);
    plugin.sync(&[8, 8], &[]);
    plugin.started(2, 2, 0b11);
    plugin.job(1, 0, 8);
    assert_eq!(plugin.ask(8, 0, 2, 0b01).1, Reason::NoFit, "the watched one got no answer");
    let note = || daemon.events.recv_timeout(Duration::from_secs(20)).unwrap();
    let LinkEvent::Asked(decision) = note() else { panic!("no decision") };
    assert_eq!((decision.mode, decision.answer.placement().is_some()), (Mode::Shadow, true));
    let outcome = std::iter::repeat_with(note).find_map(|event| match event {
        LinkEvent::Outcome(outcome) => Some(outcome),
        _ => None,
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.decision, outcome.reason), (decision.id, Some(Reason::Shadow)));
    assert_eq!((outcome.rc, outcome.count), (0, 1));
    // A drill needs answers that are waited for.
    daemon.responder.ask_for(Duration::from_millis(600));
    let asks = wire::PHX_W_ASK_RUN_NOW | wire::PHX_W_ASK_WILL_RUN;
    assert_eq!(told_flags(&mut plugin) & (asks | wire::PHX_W_WATCH), asks);
    assert_eq!(told_flags(&mut plugin) & !wire::PHX_W_ORDER, watch, "its time is over");
    let enforce = Settings { generation: 2, ..settings(Mode::Enforce) };
    daemon.responder.set_settings(enforce).unwrap();
    assert_eq!(told_flags(&mut plugin) & (asks | wire::PHX_W_WATCH), asks);
    let before = daemon.events.len();
    plugin.started(2, 2, 0b11);
    until("its decision", || daemon.events.len() > before + 1);
    let decided = daemon.events.try_iter().find_map(|event| match event {
        LinkEvent::Asked(decision) => Some(decision.mode),
        _ => None,
    });
    assert_eq!(decided, Some(Mode::Shadow), "Slurm has started it already");
}
