// SPDX-License-Identifier: GPL-3.0-or-later
//! Recording in the mirror: its changes as events, and the begin of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;

use crate::decision::Decision;
use crate::recording::{Event, EventKind, Offer, Op, RawPreferences, Recording, Rest, nanos};
use crate::settings::Settings;
use crate::state::State;
use phalanx_planner::cluster::Table;
use phalanx_planner::place::Candidates;
use phalanx_planner::preference::{Method, PreferenceTable};

impl State {
    /// Sends an event to the writer; the recording is cut when its channel is full.
    pub fn send_event(&mut self, at: Instant, what: EventKind) {
        let Some(recording) = &self.recording else { return };
        let at_ns = nanos(self.born, at);
        if recording.sender.try_send(Event { at_ns, what }).is_err() {
            recording.cut.store(true, Ordering::Release);
            self.recording = None;
        }
    }

    /// Records an event if the state recorded so far is complete.
    pub fn record(&mut self, what: impl FnOnce(&Self) -> EventKind) {
        if self.recording.as_ref().is_some_and(|recording| recording.is_whole) {
            let what = what(self);
            self.send_event(Instant::now(), what);
        }
    }

    /// Records a change of an allocation, which a copy under way needs too.
    pub fn record_job(&mut self, op: impl FnOnce() -> Op) {
        if self.recording.is_some() {
            self.send_event(Instant::now(), EventKind::Op(op()));
        }
    }

    /// Records a decision, if the state recorded so far is complete.
    pub fn record_ask(&mut self, at: Instant, decision: &Arc<Decision>, offer: Candidates<'_>) {
        match &mut self.recording {
            Some(recording) if recording.is_whole => {
                self.send_event(at, EventKind::Ask(Arc::clone(decision), Offer::of(offer)));
            }
            Some(recording) => recording.missed += 1,
            None => {}
        }
    }

    /// Begins a recording; returns the number of the copy that it needs. A full channel ends it and
    /// sets `cut`.
    pub fn start_recording(&mut self, sender: Sender<Event>, cut: Arc<AtomicBool>) -> u64 {
        self.copies += 1;
        let copy = self.copies;
        self.recording = Some(Recording { sender, cut, copy, is_whole: false, missed: 0 });
        copy
    }

    /// Asks for another copy, of a new mirror.
    pub fn restart_recording(&mut self) {
        self.copies += 1;
        let copy = self.copies;
        if let Some(recording) = &mut self.recording {
            (recording.copy, recording.is_whole) = (copy, false);
            self.send_event(Instant::now(), EventKind::Anew(copy));
        }
    }

    /// Completes a copy by all except node table and jobs, unless there is another mirror by now.
    pub fn complete_recording(&mut self, copy: u64, settings: &Settings) {
        let Some(recording) = &mut self.recording else { return };
        if recording.copy != copy || recording.is_whole {
            return;
        }
        recording.is_whole = true;
        let missed = std::mem::take(&mut recording.missed);
        let rest = Rest { missed, ..rest(self, settings) };
        self.send_event(Instant::now(), EventKind::Op(Op::Rest(Box::new(rest))));
        let tables = self.preferences.tables();
        let raw: Vec<_> = tables.map(|(method, table)| self.raw_of(method, table)).collect();
        let now = Instant::now();
        raw.into_iter().for_each(|raw| self.send_event(now, EventKind::Preferences(raw)));
    }

    /// Returns the rows of a table that is to be put in force.
    pub fn raw_of(&self, method: Method, table: &PreferenceTable) -> RawPreferences {
        let is_its = |t: &Arc<Table>| Arc::ptr_eq(t, table.table());
        let current = self.placer.as_ref().is_some_and(|p| is_its(p.cluster().table()));
        RawPreferences(method, current, table.rows())
    }
}

/// Returns the record that completes a copy, except for the preferences.
fn rest(state: &State, settings: &Settings) -> Rest {
    Rest {
        synced: state.view.synced,
        generation: settings.generation,
        config: settings.config.to_string(),
        levels: BTreeMap::clone(&settings.tuning.levels),
        pending: state.pending.clone(),
        pools: state.pools.clone(),
        poll_start: state.placer.as_ref().map_or(0, |p| p.engine().poll_start()),
        polled: state.polled,
        first_seen: state.holds.first().map(|(job, ms)| (job, ms * 1_000_000)).collect(),
        inputs: state.inputs.iter().copied().collect(),
        newest: state.preferences.newest(),
        refusals: state.refusals.clone(),
        preferences: Vec::new(),
        missed: 0,
    }
}
