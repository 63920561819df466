// SPDX-License-Identifier: GPL-3.0-or-later
//! What a recording is made from: every change of what answers depend on, in
//! the order in which it was made, and every question with its answer.
//!
//! Under the mirror's lock an [`Event`] is only put into a bounded channel;
//! what is costly (texts, digests) is made by whoever writes it
//! ([`Event::into_op`]). When the channel is full the tape is cut: a gap could
//! not be replayed. The state at the start is copied in pieces, as usage is
//! for planning: allocations are given whole and replace what was known, so
//! pieces and events may mix. [`Op::Rest`] completes the copy; only questions
//! after it are on the tape.

mod ops;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use phalanx_ffi::wire::Reason;

pub use ops::{Answer, AskOp, Change, Op, OutcomeOp, QueueOp, Rest, SteerRow, SteersOp, TableOp};

use crate::link::decide::Asked;
use crate::link::notes::{AskNote, OutcomeNote};
use crate::link::settings::Settings;
use crate::link::state::State;
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::{Pool, Tuning};
use phalanx_planner::steer::{Method, Rows, SteerTable};

/// Jobs copied at a time.
const PIECE_JOBS: usize = 128;

/// What happened, cheap to make.
#[derive(Debug)]
pub enum What {
    /// As it is written.
    Op(Op),
    /// See [`Op::Table`].
    Table(Arc<Table>, bool),
    /// See [`Op::Rest`], and the steers that belong to it.
    Rest(Box<Rest>, Vec<RawSteers>),
    /// See [`Op::Steers`].
    Steers(RawSteers),
    /// See [`Op::Ask`].
    Ask(Box<RawAsk>),
    /// See [`Op::Picture`]; made into changes by the writer.
    Snapshot(Arc<Snapshot>),
}

/// Steers of one method: by whom, whether made for the table in force, rows.
#[derive(Debug)]
pub struct RawSteers(pub Method, pub bool, pub Rows);

/// See [`What::Ask`].
#[derive(Debug)]
pub struct RawAsk {
    pub(super) decision: u64,
    pub(super) asked: Asked<'static>,
    pub(super) candidates: Vec<u64>,
    pub(super) reason: Option<Reason>,
    /// Absent when nothing was decided.
    pub(super) note: Option<Arc<AskNote>>,
}

/// One thing that happened, and when: nanoseconds since the responder was made.
#[derive(Debug)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

impl What {
    /// As it is written; `None` for a snapshot, which the writer compares with
    /// the one before.
    pub fn into_op(self) -> Result<Op, Arc<Snapshot>> {
        Ok(match self {
            Self::Op(op) => op,
            Self::Table(table, memory_tracked) => {
                Op::Table(Box::new(TableOp { table: Table::clone(&table), memory_tracked }))
            }
            Self::Rest(mut rest, steers) => {
                rest.steers = steers.into_iter().map(SteersOp::of).collect();
                Op::Rest(rest)
            }
            Self::Steers(raw) => Op::Steers(SteersOp::of(raw)),
            Self::Ask(raw) => Op::Ask(Box::new(raw.into_op())),
            Self::Snapshot(snapshot) => return Err(snapshot),
        })
    }
}

impl RawAsk {
    fn into_op(self) -> AskOp {
        let answer = match &self.note {
            Some(note) => {
                let placement = note.placement.as_ref();
                Answer::new(note.reason, note.detail, placement, note.steered.as_ref())
            }
            None => Answer::new(self.reason, None, None, None),
        };
        let Self { decision, asked, candidates, .. } = self;
        AskOp { decision, asked, candidates, answer }
    }
}

/// How far the copy of the state at the start is.
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
pub(super) struct Tape {
    sender: Sender<Event>,
    cut: Arc<AtomicBool>,
    phase: Phase,
    missed: u64,
}

impl Tape {
    pub(super) fn new(sender: Sender<Event>, cut: Arc<AtomicBool>) -> Self {
        Self { sender, cut, phase: Phase::Fresh, missed: 0 }
    }

    /// Whether allocations have to be told.
    pub(super) fn follows_jobs(&self) -> bool {
        self.phase != Phase::Fresh
    }

    /// Whether everything has to be told.
    pub(super) fn is_whole(&self) -> bool {
        self.phase == Phase::Whole
    }
}

/// Nanoseconds from one to the other.
pub(super) fn nanos(born: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(born).as_nanos()).unwrap_or(u64::MAX)
}

impl State {
    /// Puts an event on the tape, which is cut when there is no room.
    pub(super) fn put(&mut self, at: Instant, what: What) {
        let Some(tape) = &self.tape else { return };
        let at_ns = nanos(self.born, at);
        if tape.sender.try_send(Event { at_ns, what }).is_err() {
            tape.cut.store(true, Ordering::Release);
            self.tape = None;
        }
    }

    /// The same, if the state on the tape is complete.
    pub(super) fn tell(&mut self, what: impl FnOnce(&Self) -> What) {
        if self.tape.as_ref().is_some_and(Tape::is_whole) {
            let what = what(self);
            self.put(Instant::now(), what);
        }
    }

    /// The same for a change of an allocation, which a copy under way needs too.
    pub(super) fn tell_job(&mut self, op: impl FnOnce() -> Op) {
        if self.tape.as_ref().is_some_and(Tape::follows_jobs) {
            self.put(Instant::now(), What::Op(op()));
        }
    }

    /// A question and its answer.
    pub(super) fn tell_ask(&mut self, at: Instant, raw: impl FnOnce() -> RawAsk) {
        match &mut self.tape {
            Some(tape) if tape.is_whole() => self.put(at, What::Ask(Box::new(raw()))),
            Some(tape) => tape.missed += 1,
            None => {}
        }
    }

    /// Copies the next piece of the state; whether there is more to do.
    pub(super) fn tape_piece(&mut self, rest: impl FnOnce(&Self) -> Rest) -> bool {
        let Some(tape) = &self.tape else { return false };
        let now = Instant::now();
        let placer = self.placer.as_ref().filter(|_| self.view.synced);
        let (what, next) = match (tape.phase, placer) {
            (Phase::Whole, _) => return false,
            (Phase::Fresh, Some(placer)) => {
                let table = Arc::clone(placer.cluster().table());
                (What::Table(table, placer.memory_tracked()), Phase::Jobs(0))
            }
            (Phase::Jobs(from), Some(placer)) => {
                let range = (Bound::Included(from), Bound::Unbounded);
                let jobs = placer.cluster().jobs().range(range).map(|(_, job)| job);
                let jobs: Vec<RunningJob> = jobs.take(PIECE_JOBS).cloned().collect();
                let last = jobs.last().filter(|_| jobs.len() == PIECE_JOBS).map(|job| job.id);
                let next = last.and_then(|id| id.checked_add(1)).map_or(Phase::Rest, Phase::Jobs);
                (What::Op(Op::Jobs(jobs)), next)
            }
            (Phase::Rest, _) | (_, None) => {
                let rest = Rest { missed: tape.missed, ..rest(self) };
                (What::Rest(Box::new(rest), self.raw_steers()), Phase::Whole)
            }
        };
        if let Some(tape) = &mut self.tape {
            tape.phase = next;
            tape.missed *= u64::from(next != Phase::Whole);
        }
        self.put(now, what);
        next != Phase::Whole
    }

    /// A new mirror: the copy begins anew with it.
    pub(super) fn tape_again(&mut self) {
        if let Some(tape) = &mut self.tape {
            tape.phase = Phase::Fresh;
        }
    }

    /// Steers of a table that is to be put in force.
    pub(super) fn raw_of(&self, method: Method, table: &SteerTable) -> RawSteers {
        let is_its = |t: &Arc<Table>| Arc::ptr_eq(t, table.table());
        let current = self.placer.as_ref().is_some_and(|p| is_its(p.cluster().table()));
        RawSteers(method, current, table.rows())
    }

    fn raw_steers(&self) -> Vec<RawSteers> {
        self.steers.tables().map(|(method, table)| self.raw_of(method, table)).collect()
    }
}

pub(super) fn levels(tuning: &Tuning) -> Vec<(String, u32)> {
    tuning.levels.iter().map(|(name, level)| (name.to_string(), *level)).collect()
}

pub(super) fn queue(pending: &Demand, pools: &[Pool]) -> Op {
    Op::Queue(QueueOp::of(pending), pools.to_vec())
}

/// What completes a copy, but for the steers.
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
        newest: state.steers.newest(),
        steers: Vec::new(),
        missed: 0,
    }
}

pub(super) fn outcome_op(note: &OutcomeNote) -> Op {
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
