// SPDX-License-Identifier: GPL-3.0-or-later
//! Limits of the nodes' power over a real plugin socket.

#![allow(clippy::unwrap_used, reason = "a failed expectation ends a test")]

use phalanx_config::Mode;
use phalanx_core::NodeIdx;
use phalanx_ffi::wire::{Message, PHX_A_LIMIT, PHX_W_MAY_HOLD, Reason, Verdict};
use phalanx_mirror::Settings;
use phalanx_planner::energy::{NodePower, PowerCap, PowerRow, PowerState, PowerTable};
use phalanx_service::link::Responder;

use crate::link::{Daemon, Plugin, settings, snapshot};

/// Puts a limit in force. Nodes draw 10 to 90 W, every fourth 10 to 50 W.
pub fn limit(responder: &Responder, cap_w: u64) {
    let row = |busy_w: u64, nodes: Vec<NodeIdx>| PowerRow {
        power: NodePower { idle_mw: 10_000, busy_mw: busy_w * 1000, state: PowerState::On },
        caps: 1,
        nodes,
    };
    let snapshot = snapshot(responder);
    let count = u32::try_from(snapshot.nodes.len()).unwrap();
    let (frugal, other): (Vec<u32>, Vec<u32>) = (0..count).partition(|node| node % 4 == 2);
    let nodes = |list: Vec<u32>| list.into_iter().map(NodeIdx::from).collect();
    let table = PowerTable {
        caps: vec![PowerCap { partition: "".into(), cap_mw: cap_w * 1000 }],
        rows: vec![row(90, nodes(other)), row(50, nodes(frugal))],
        ..PowerTable::default()
    };
    responder.set_power(&snapshot, Some(table));
}

/// Goal: what runs and what was promised counts; who does not fit waits, and no longer when there
/// is room; nodes that draw less are taken where only they fit.
#[test]
fn a_job_waits_below_the_limit() {
    let daemon = Daemon::start(Mode::Enforce);
    let responder = &daemon.responder;
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    // 40 W idle; n0 full 80 W more.
    plugin.sync(&[8, 8, 8, 8], &[(1, 0, 8)]);
    assert_eq!(plugin.ask(8, 0, 4, 0b1010).0, Verdict::Narrow);
    assert_eq!(responder.power(), None);
    limit(responder, 160);
    assert_eq!(plugin.ask(8, 0, 4, 0b1010).1, Reason::Held, "200 W of 160 W");
    assert_eq!(plugin.flags, PHX_A_LIMIT);
    let (hold, partition) = responder.power_hold(99).unwrap();
    let text = "held by the power cap: 200 W of 160 W with this job";
    assert_eq!(hold.text(&partition, |_| Default::default()), text);
    assert_eq!(plugin.ask(8, 0, 4, 0b1110).2, [2], "160 W on the frugal node");
    let view = responder.power().unwrap();
    assert_eq!((view.caps[0].1, view.known_nodes, view.holds), (160_000, 4, 1));
    plugin.end(1);
    assert_eq!(plugin.ask(8, 0, 4, 0b1010).0, Verdict::Narrow, "the same job asks again");
    limit(responder, 100);
    assert_eq!(plugin.ask(8, 0, 4, 0b1010).1, Reason::Held);
    responder.set_power(&snapshot(responder), None);
    assert_eq!(plugin.ask(8, 0, 4, 0b1010).0, Verdict::Narrow, "no limit any more");
}

/// Goal: until the nodes' power is known no job starts, where there is a limit; in shadow mode
/// nobody waits.
#[test]
fn nothing_starts_before_the_power_is_known() {
    for (mode, reason) in [(Mode::Enforce, Reason::Held), (Mode::Shadow, Reason::Shadow)] {
        let daemon = Daemon::start(mode);
        let capped = Settings { generation: 2, power_hold_s: Some(9000), ..settings(mode) };
        let mut plugin = Plugin::connect(&daemon.socket);
        plugin.greet(2);
        plugin.sync(&[8, 8], &[]);
        daemon.responder.set_settings(capped).unwrap();
        let Message::Config(limits) = plugin.receive() else { panic!("expected CONFIG") };
        assert_eq!(limits.flags & PHX_W_MAY_HOLD, PHX_W_MAY_HOLD);
        assert_eq!((limits.limit_hold_s, limits.held_s), (9000, 620), "no budget of a user");
        assert_eq!(plugin.ask(8, 0, 2, 0b11).1, reason);
        assert_eq!(plugin.flags == PHX_A_LIMIT, mode == Mode::Enforce);
        limit(&daemon.responder, 1000);
        let (verdict, ..) = plugin.ask(8, 0, 2, 0b11);
        assert_eq!(verdict == Verdict::Narrow, mode == Mode::Enforce);
        limit(&daemon.responder, 50);
        assert_eq!(plugin.ask(8, 0, 2, 0b11).1, reason);
        assert_eq!(daemon.responder.power_hold(99).is_some(), mode == Mode::Enforce);
    }
}
