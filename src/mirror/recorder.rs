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
    fn send_event(&mut self, at: Instant, what: EventKind) {
        let Some(recording) = &self.recording else { return };
        let at_ns = nanos(self.born, at);
        if recording.sender.try_send(Event { at_ns, what }).is_err() {
            recording.cut.store(true, Ordering::Release);
            self.recording = None;
        }
    }

    /// Records an event if the state recorded so far is complete.
    pub fn record(&mut self, what: impl FnOnce(&Self) -> EventKind) {
        self.record_at(Instant::now(), what);
    }

    /// Records an event with a time if the state recorded so far is complete.
    pub(crate) fn record_at(&mut self, at: Instant, what: impl FnOnce(&Self) -> EventKind) {
        if self.recording.as_ref().is_some_and(|recording| recording.is_whole) {
            let what = what(self);
            self.send_event(at, what);
        }
    }

    /// Records a change of an allocation, which a copy under way needs too.
    pub(crate) fn record_job(&mut self, op: impl FnOnce() -> Op) {
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

    /// Begins a recording, before which table and jobs of a copy have to be recorded. A full
    /// channel ends it and sets `cut`.
    pub fn start_recording(&mut self, sender: Sender<Event>, cut: Arc<AtomicBool>) {
        self.recording = Some(Recording { sender, cut, is_whole: false, missed: 0 });
    }

    /// Records a new mirror.
    pub fn record_mirror(&mut self, settings: &Settings) {
        let Some((recording, placer)) = self.recording.as_mut().zip(self.placer.as_ref()) else {
            return;
        };
        recording.is_whole = false;
        let (table, jobs) = (Arc::clone(placer.cluster().table()), placer.cluster().jobs());
        let jobs = jobs.values().cloned().collect();
        let mirror = EventKind::Mirror(table, placer.memory_tracked(), jobs);
        self.send_event(Instant::now(), mirror);
        self.complete_recording(settings);
    }

    /// Adds all state beside node table and jobs, unless a new mirror was recorded meanwhile.
    pub fn complete_recording(&mut self, settings: &Settings) {
        let Some(recording) = self.recording.as_mut().filter(|recording| !recording.is_whole)
        else {
            return;
        };
        recording.is_whole = true;
        let missed = std::mem::take(&mut recording.missed);
        let rest = Rest {
            poll_start: self.placer.as_ref().map_or(0, |p| p.engine().poll_start()),
            polled: self.polled,
            first_seen: self.holds.first().map(|(job, ms)| (job, ms * 1_000_000)).collect(),
            inputs: self.inputs.iter().copied().collect(),
            newest: self.preferences.newest(),
            refusals: self.refusals.clone(),
            missed,
        };
        let gone = (!self.view.synced).then_some(Op::Gone);
        let state = [
            Op::Settings(settings.generation, settings.config.to_string()),
            Op::Levels(BTreeMap::clone(&settings.tuning.levels)),
            Op::Queue(self.pending.clone(), self.pools.clone()),
            Op::Rest(Box::new(rest)),
        ];
        let tables = self.preferences.tables();
        let raw = tables.map(|(method, table)| EventKind::Preferences(self.raw_of(method, table)));
        let ops = state.into_iter().chain(gone).map(EventKind::Op);
        let events: Vec<EventKind> = ops.chain(raw).collect();
        let now = Instant::now();
        events.into_iter().for_each(|event| self.send_event(now, event));
    }

    /// Returns the rows of a table that is to be put in force.
    pub(crate) fn raw_of(&self, method: Method, table: &PreferenceTable) -> RawPreferences {
        let is_its = |t: &Arc<Table>| Arc::ptr_eq(t, table.table());
        let current = self.placer.as_ref().is_some_and(|p| is_its(p.cluster().table()));
        RawPreferences(method, current, self.preferences.newest(), table.rows())
    }
}
