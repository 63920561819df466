// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts of the link for the status page.

use std::borrow::Cow;
use std::collections::BTreeMap;

use phalanx_ffi::wire::{self, Reason};

use crate::decision::Answer;
use crate::hist::Histogram;
use crate::refusals::OptionCount;
use phalanx_messages::rest::{CallShares, LinkStatus, ProofStatus};
use phalanx_planner::place::Why;

/// Number of the first reason that is the plugin's rather than the daemon's.
const PLUGINS: u16 = 16;

/// The plugin at the other end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginState {
    /// Version of the overlay.
    pub overlay_version: String,
    /// Version of Slurm that the overlay was built for, such as `22.05.8`.
    pub slurm_version: String,
    /// Cluster name.
    pub cluster: String,
    /// Process id of slurmctld.
    pub pid: u32,
}

/// The plugin's counters as of its last report.
#[derive(Debug, Clone)]
pub struct PluginCounters(pub Box<wire::Stats>);

/// Counts of the link; a copy.
#[derive(Debug, Clone, Default)]
pub struct LinkView {
    /// Whether a plugin is connected.
    pub connected: bool,
    /// Whether the mirror is complete.
    pub synced: bool,
    /// Versions and process of the plugin.
    pub plugin: PluginState,
    /// Counters of the plugin.
    pub counters: Option<PluginCounters>,
    /// Calls of any mode that were not asked about, or asked in vain, by the plugin's reasons.
    pub not_asked: BTreeMap<Cow<'static, str>, u64>,
    /// Outcomes by option.
    pub options: BTreeMap<String, OptionCount>,
    /// Time of the view, on the clock of [`OptionCount::left_until_ms`].
    pub now_ms: u64,
    /// RUN_NOW asks.
    pub run_now: CallShares,
    /// WILL_RUN asks.
    pub will_run: CallShares,
    /// Proofs by kind, in the order of the protocol.
    pub proofs: [ProofStatus; 3],
    /// Time to answer, in nanoseconds.
    pub answer_ns: Histogram,
    /// Counts of the plugin's connections and of the mirror, without [`LinkView::answer_ns`].
    pub link: LinkStatus,
    /// Notes dropped because the recorder was behind.
    pub notes_dropped: u64,
}

impl LinkView {
    /// Counts an answer, with nodes or without.
    pub fn answered(&mut self, will_run: bool, answer: &Answer, took_ns: u64) {
        let shares = self.shares(will_run);
        shares.asked += 1;
        shares.answered += u64::from(answer.reason().is_none());
        if let Answer::Leave(why @ (Why::Left(_) | Why::Refused(_) | Why::Unknown(_))) = answer
            && let Some(option) = why.detail()
        {
            *shares.options.entry(option.into()).or_insert(0) += 1;
        }
        self.answer_ns.add(took_ns);
    }

    /// Records that a plugin connected, since another slurmctld counts from zero.
    pub fn greeted(&mut self, plugin: PluginState) {
        if plugin.pid != self.plugin.pid {
            self.counters = None;
        }
        self.plugin = plugin;
    }

    /// Takes the plugin's counters and adds their growth since the previous ones. The first
    /// counters may include counts from before the daemon's start.
    pub fn counted(&mut self, counters: PluginCounters) {
        if let Some(before) = &self.counters {
            let more = |new: u64, old: u64| if new < old { new } else { new - old };
            let (new, old) = (&counters.0, &before.0);
            self.run_now.calls += more(new.calls[0], old.calls[0]);
            self.will_run.calls += more(new.calls[2], old.calls[2]);
            let reasons = new.reasons.iter().zip(&old.reasons);
            for (number, (new, old)) in (0u16..).zip(reasons).filter(|(n, _)| *n >= PLUGINS) {
                let count = more(*new, *old);
                if count > 0 {
                    let name = Reason::from_raw(number).map_or("unknown", Reason::as_str);
                    *self.not_asked.entry(name.into()).or_insert(0) += count;
                }
            }
        }
        self.counters = Some(counters);
    }

    /// Returns the counts of RUN_NOW or WILL_RUN asks.
    pub fn shares(&mut self, will_run: bool) -> &mut CallShares {
        if will_run { &mut self.will_run } else { &mut self.run_now }
    }
}
