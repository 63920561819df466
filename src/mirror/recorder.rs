// SPDX-License-Identifier: GPL-3.0-or-later
//! Recording in the mirror: its changes as events, and the copy of the state at the start.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::decision::Decision;
use crate::recording::{
    Event, EventKind, Offer, Op, Phase, RawPreferences, Recording, Rest, nanos,
};
use crate::settings::Settings;
use crate::state::State;
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::Candidates;
use phalanx_planner::preference::{Method, PreferenceTable};

/// Number of jobs copied at a time.
const PIECE_JOBS: usize = 128;

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
        if self.recording.as_ref().is_some_and(Recording::is_whole) {
            let what = what(self);
            self.send_event(Instant::now(), what);
        }
    }

    /// Records a change of an allocation, which a copy under way needs too.
    pub fn record_job(&mut self, op: impl FnOnce() -> Op) {
        if self.recording.as_ref().is_some_and(Recording::follows_jobs) {
            self.send_event(Instant::now(), EventKind::Op(op()));
        }
    }

    /// Records a decision, if the state recorded so far is complete.
    pub fn record_ask(&mut self, at: Instant, decision: &Arc<Decision>, offer: Candidates<'_>) {
        match &mut self.recording {
            Some(recording) if recording.is_whole() => {
                self.send_event(at, EventKind::Ask(Arc::clone(decision), Offer::of(offer)));
            }
            Some(recording) => recording.missed += 1,
            None => {}
        }
    }

    /// Copies the next piece of the state; returns whether there is more to do.
    pub fn recording_step(&mut self, settings: &Settings) -> bool {
        let Some(recording) = &self.recording else { return false };
        let now = Instant::now();
        let placer = self.placer.as_ref().filter(|_| self.view.synced);
        let (what, next) = match (recording.phase, placer) {
            (Phase::Whole, _) => return false,
            (Phase::Fresh, Some(placer)) => {
                let table = Arc::clone(placer.cluster().table());
                (EventKind::Table(table, placer.memory_tracked()), Phase::Jobs(0))
            }
            (Phase::Jobs(from), Some(placer)) => {
                let range = (Bound::Included(from), Bound::Unbounded);
                let jobs = placer.cluster().jobs().range(range).map(|(_, job)| job);
                let jobs: Vec<RunningJob> = jobs.take(PIECE_JOBS).cloned().collect();
                let last = jobs.last().filter(|_| jobs.len() == PIECE_JOBS).map(|job| job.id);
                let next = last.and_then(|id| id.checked_add(1)).map_or(Phase::Rest, Phase::Jobs);
                (EventKind::Op(Op::Jobs(jobs)), next)
            }
            (Phase::Rest, _) | (_, None) => {
                let rest = Rest { missed: recording.missed, ..rest(self, settings) };
                (EventKind::Rest(Box::new(rest), self.raw_preferences()), Phase::Whole)
            }
        };
        if let Some(recording) = &mut self.recording {
            recording.phase = next;
            recording.missed *= u64::from(next != Phase::Whole);
        }
        self.send_event(now, what);
        next != Phase::Whole
    }

    /// Begins the copy anew for a new mirror.
    pub fn restart_recording(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.phase = Phase::Fresh;
        }
    }

    /// Returns the rows of a table that is to be put in force.
    pub fn raw_of(&self, method: Method, table: &PreferenceTable) -> RawPreferences {
        let is_its = |t: &Arc<Table>| Arc::ptr_eq(t, table.table());
        let current = self.placer.as_ref().is_some_and(|p| is_its(p.cluster().table()));
        RawPreferences(method, current, table.rows())
    }

    fn raw_preferences(&self) -> Vec<RawPreferences> {
        self.preferences.tables().map(|(method, table)| self.raw_of(method, table)).collect()
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
