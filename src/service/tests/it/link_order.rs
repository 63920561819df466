// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the link's knowledge of the order of starts.

#![allow(clippy::unwrap_used, reason = "a failed expectation ends a test")]

use phalanx_config::Mode;
use phalanx_ffi::wire::{self, Message};
use phalanx_mirror::LinkEvent;
use zerocopy::FromZeros;

use crate::link::{Daemon, Plugin, until};

/// Goal: a start has the delta of the last report before it, whoever reads the event and when.
#[test]
fn a_start_has_the_delta_that_its_job_had() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(2);
    plugin.sync(&[8, 8], &[]);
    let queued = |job_id, delta| wire::Queued { job_id, delta, ..wire::Queued::new_zeroed() };
    let report = |plugin: &mut Plugin, jobs: &[wire::Queued]| {
        let flags = wire::PHX_PART_FIRST | wire::PHX_PART_LAST;
        let head = wire::QueueHead { flags, active: 1, ..wire::QueueHead::new_zeroed() };
        plugin.send(&Message::Queue(wire::Queue { head: &head, jobs }));
    };
    report(&mut plugin, &[queued(9, -4), queued(8, 0), queued(3, 5)]);
    plugin.job(3, 0, 8);
    plugin.job(8, 1, 4);
    report(&mut plugin, &[queued(9, -4)]);
    until("the starts", || daemon.events.len() >= 2);
    let began = daemon.events.try_iter().filter_map(|event| match event {
        LinkEvent::Began(began) => Some((began.job.id, began.delta)),
        _ => None,
    });
    assert_eq!(began.collect::<Vec<_>>(), [(3, 5), (8, 0)]);
}
