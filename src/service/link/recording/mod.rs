// SPDX-License-Identifier: GPL-3.0-or-later
//! The events of a recording: every change of the state that answers depend on, in
//! the order in which it was made, and every question with its answer.
//!
//! Under the mirror's lock an [`Event`] is only put into a bounded channel;
//! what is costly (texts, digests) is made by whoever writes it
//! ([`Event::into_op`]). When the channel is full the recording is cut: a gap could
//! not be replayed. The state at the start is copied in pieces, as usage is
//! for planning: allocations are given whole and replace what was known, so
//! pieces and events may mix. [`Op::Rest`] completes the copy; only questions
//! after it are recorded.

mod ops;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use phalanx_ffi::wire::Reason;

pub use ops::{
    AskOp, Change, Op, OutcomeOp, PreferenceRow, PreferencesOp, QueueOp, RecordedAnswer, Rest,
    TableOp,
};

use crate::link::decide::Decision;
use crate::link::events::OutcomeEvent;
use crate::link::settings::Settings;
use crate::link::state::State;
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::{Pool, Tuning};
use phalanx_planner::preference::{Method, PreferenceTable, Rows};

/// Jobs copied at a time.
const PIECE_JOBS: usize = 128;

/// An event, cheap to make.
#[derive(Debug)]
pub enum EventKind {
    /// A record as it is written.
    Op(Op),
    /// The node table, for [`Op::Table`]; whether memory is a consumable resource.
    Table(Arc<Table>, bool),
    /// The rest of the state, for [`Op::Rest`], and the preferences that belong to it.
    Rest(Box<Rest>, Vec<RawPreferences>),
    /// Preferences of one method, for [`Op::Preferences`].
    Preferences(RawPreferences),
    /// A decision and the words of the candidates, for [`Op::Ask`].
    Ask(Arc<Decision>, Vec<u64>),
    /// A picture of the queue; the writer makes it into changes.
    Snapshot(Arc<Snapshot>),
}

/// Preferences of one method: the method, whether made for the table in force, rows.
#[derive(Debug)]
pub struct RawPreferences(pub Method, pub bool, pub Rows);

/// One thing that happened, and when: nanoseconds since the responder was made.
#[derive(Debug)]
pub struct Event {
    /// Time.
    pub at_ns: u64,
    /// The event.
    pub what: EventKind,
}

impl EventKind {
    /// Makes the record; `Err` for a snapshot, which the writer compares with the one before.
    pub fn into_op(self) -> Result<Op, Arc<Snapshot>> {
        Ok(match self {
            Self::Op(op) => op,
            Self::Table(table, memory_tracked) => {
                Op::Table(Box::new(TableOp { table: Table::clone(&table), memory_tracked }))
            }
            Self::Rest(mut rest, preferences) => {
                rest.preferences = preferences.into_iter().map(PreferencesOp::of).collect();
                Op::Rest(rest)
            }
            Self::Preferences(raw) => Op::Preferences(PreferencesOp::of(raw)),
            Self::Ask(decision, candidates) => Op::Ask(Box::new(AskOp::of(&decision, candidates))),
            Self::Snapshot(snapshot) => return Err(snapshot),
        })
    }
}

/// Progress of the copy of the state at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    /// Next job id to copy.
    Jobs(u32),
    Rest,
    Whole,
}

/// A recording under way, as the link knows it.
#[derive(Debug)]
pub(super) struct Recording {
    sender: Sender<Event>,
    cut: Arc<AtomicBool>,
    phase: Phase,
    missed: u64,
}

impl Recording {
    pub(super) fn new(sender: Sender<Event>, cut: Arc<AtomicBool>) -> Self {
        Self { sender, cut, phase: Phase::Fresh, missed: 0 }
    }

    /// Whether allocations have to be recorded.
    pub(super) fn follows_jobs(&self) -> bool {
        self.phase != Phase::Fresh
    }

    /// Whether everything has to be recorded.
    pub(super) fn is_whole(&self) -> bool {
        self.phase == Phase::Whole
    }
}

/// Nanoseconds from one to the other.
pub(super) fn nanos(born: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(born).as_nanos()).unwrap_or(u64::MAX)
}

impl State {
    /// Sends an event to the writer; the recording is cut when its channel is full.
    pub(super) fn send_event(&mut self, at: Instant, what: EventKind) {
        let Some(recording) = &self.recording else { return };
        let at_ns = nanos(self.born, at);
        if recording.sender.try_send(Event { at_ns, what }).is_err() {
            recording.cut.store(true, Ordering::Release);
            self.recording = None;
        }
    }

    /// Records an event if the state recorded so far is complete.
    pub(super) fn record(&mut self, what: impl FnOnce(&Self) -> EventKind) {
        if self.recording.as_ref().is_some_and(Recording::is_whole) {
            let what = what(self);
            self.send_event(Instant::now(), what);
        }
    }

    /// Records a change of an allocation, which a copy under way needs too.
    pub(super) fn record_job(&mut self, op: impl FnOnce() -> Op) {
        if self.recording.as_ref().is_some_and(Recording::follows_jobs) {
            self.send_event(Instant::now(), EventKind::Op(op()));
        }
    }

    /// Records a decision, if the state recorded so far is complete.
    pub(super) fn record_ask(&mut self, at: Instant, decision: &Arc<Decision>, words: &[u64]) {
        match &mut self.recording {
            Some(recording) if recording.is_whole() => {
                self.send_event(at, EventKind::Ask(Arc::clone(decision), words.to_vec()));
            }
            Some(recording) => recording.missed += 1,
            None => {}
        }
    }

    /// Copies the next piece of the state; whether there is more to do.
    pub(super) fn recording_step(&mut self, rest: impl FnOnce(&Self) -> Rest) -> bool {
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
                let rest = Rest { missed: recording.missed, ..rest(self) };
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

    /// A new mirror: the copy begins anew with it.
    pub(super) fn restart_recording(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.phase = Phase::Fresh;
        }
    }

    /// The rows of a table that is to be put in force.
    pub(super) fn raw_of(&self, method: Method, table: &PreferenceTable) -> RawPreferences {
        let is_its = |t: &Arc<Table>| Arc::ptr_eq(t, table.table());
        let current = self.placer.as_ref().is_some_and(|p| is_its(p.cluster().table()));
        RawPreferences(method, current, table.rows())
    }

    fn raw_preferences(&self) -> Vec<RawPreferences> {
        self.preferences.tables().map(|(method, table)| self.raw_of(method, table)).collect()
    }
}

pub(super) fn levels(tuning: &Tuning) -> Vec<(String, u32)> {
    tuning.levels.iter().map(|(name, level)| (name.to_string(), *level)).collect()
}

pub(super) fn queue(pending: &Demand, pools: &[Pool]) -> Op {
    Op::Queue(QueueOp::of(pending), pools.to_vec())
}

/// The record that completes a copy, but for the preferences.
pub(super) fn rest(state: &State, settings: &Settings) -> Rest {
    let first_seen = state.first_seen.iter();
    Rest {
        synced: state.view.synced,
        generation: settings.generation,
        config: settings.config.to_string(),
        levels: levels(&settings.tuning),
        pending: QueueOp::of(&state.pending),
        pools: state.pools.clone(),
        poll_start: state.placer.as_ref().map_or(0, |p| p.engine().poll_start()),
        first_seen: first_seen.map(|(job, at)| (*job, nanos(state.born, *at))).collect(),
        inputs: state.inputs.iter().copied().collect(),
        newest: state.preferences.newest(),
        preferences: Vec::new(),
        missed: 0,
    }
}

pub(super) fn outcome_op(note: &OutcomeEvent) -> Op {
    let reason = match note.reason {
        Some(Reason::None) => "",
        Some(reason) => reason.as_str(),
        None => "unknown",
    };
    Op::Outcome(OutcomeOp {
        decision: note.decision,
        job_id: note.job_id,
        will_run: note.will_run,
        reason: reason.to_owned(),
    })
}
