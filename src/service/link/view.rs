// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts of the link for the status page.

use std::collections::BTreeMap;

use crate::link::hist::Histogram;
use crate::link::session::{PluginCounters, PluginState};

/// Calls of one mode.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// Asks received.
    pub asked: u64,
    /// Answered with nodes.
    pub answered: u64,
    /// Placed on exactly the answered set.
    pub narrowed: u64,
    /// The others by reason.
    pub fallen_back: BTreeMap<&'static str, u64>,
}

/// Counts of the link; a copy.
#[derive(Debug, Clone, Default)]
pub struct LinkView {
    /// Plugin connected.
    pub connected: bool,
    /// Mirror complete.
    pub synced: bool,
    /// Its versions and process.
    pub plugin: PluginState,
    /// Its counters.
    pub counters: Option<PluginCounters>,
    /// RUN_NOW asks.
    pub run_now: Shares,
    /// WILL_RUN asks.
    pub will_run: Shares,
    /// Time to answer.
    pub answer_ns: Histogram,
    /// Events applied.
    pub events: u64,
    /// Running jobs.
    pub mirror_jobs: u64,
    /// Nodes.
    pub mirror_nodes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused for credentials.
    pub refused: u64,
    /// Connections closed for a malformed message.
    pub protocol_errors: u64,
    /// Text of the last of these.
    pub last_error: Option<String>,
    /// Comparisons of mirror and polls.
    pub comparisons: u64,
    /// Nodes of which mirror and polls say different things for long.
    pub differing_nodes: u64,
    /// Whole states asked for because of that.
    pub resyncs_asked: u64,
    /// Jobs that were not held for their input because their user's jobs were held long enough.
    pub holds_refused: u64,
    /// Notes dropped because the recorder was behind.
    pub notes_dropped: u64,
}

impl LinkView {
    /// Counts an answer, with nodes or without.
    pub(super) fn answered(&mut self, will_run: bool, with_nodes: bool, took_ns: u64) {
        let shares = self.shares(will_run);
        shares.asked += 1;
        shares.answered += u64::from(with_nodes);
        self.answer_ns.add(took_ns);
    }

    /// Counts of RUN_NOW or WILL_RUN asks.
    pub(super) fn shares(&mut self, will_run: bool) -> &mut Shares {
        if will_run { &mut self.will_run } else { &mut self.run_now }
    }
}
