// SPDX-License-Identifier: GPL-3.0-or-later
//! The events of a recording: every change of the state that answers depend on, in order, and every
//! question with its answer.
//!
//! Under the mirror's lock an [`Event`] is only put into a bounded channel; costly parts (texts,
//! digests) are made by the writer ([`EventKind::into_op`]). When the channel is full the recording
//! is cut: a gap could not be replayed. The state at the start is copied in pieces, as usage is for
//! planning: allocations are given whole and replace former ones, so pieces and events may mix.
//! [`Op::Rest`] completes the copy; only questions after it are recorded.

mod ops;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crossbeam_channel::Sender;
use phalanx_ffi::wire::Reason;

pub use ops::{
    AskOp, Change, Offer, Op, OutcomeOp, PreferenceRow, PreferencesOp, RawPreferences,
    RecordedAnswer, Rest, TableOp,
};

use crate::decision::Decision;
use crate::events::OutcomeEvent;
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::cluster::Table;

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
    /// A decision and the candidates offered, for [`Op::Ask`].
    Ask(Arc<Decision>, Offer),
    /// A snapshot of the queue; the writer makes it into changes.
    Snapshot(Arc<Snapshot>),
}

/// One event and its time, in nanoseconds since the responder was made.
#[derive(Debug)]
pub struct Event {
    /// Time, in nanoseconds since the responder was made.
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
            Self::Ask(decision, offer) => Op::Ask(Box::new(AskOp::of(&decision, offer))),
            Self::Snapshot(snapshot) => return Err(snapshot),
        })
    }
}

/// Progress of the copy of the state at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Fresh,
    /// Next job id to copy.
    Jobs(u32),
    Rest,
    Whole,
}

/// A recording under way, as the link knows it.
#[derive(Debug)]
pub struct Recording {
    pub(crate) sender: Sender<Event>,
    pub(crate) cut: Arc<AtomicBool>,
    pub(crate) phase: Phase,
    /// Questions that were not recorded, because the state was not complete.
    pub(crate) missed: u64,
}

impl Recording {
    /// Begins with a copy of the state; `cut` is set when the channel is full.
    pub fn new(sender: Sender<Event>, cut: Arc<AtomicBool>) -> Self {
        Self { sender, cut, phase: Phase::Fresh, missed: 0 }
    }

    /// Returns whether allocations have to be recorded.
    pub(crate) fn follows_jobs(&self) -> bool {
        self.phase != Phase::Fresh
    }

    /// Returns whether everything has to be recorded.
    pub fn is_whole(&self) -> bool {
        self.phase == Phase::Whole
    }
}

/// Returns the nanoseconds from `born` to `at`.
pub fn nanos(born: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(born).as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the record of an outcome.
pub fn outcome_op(event: &OutcomeEvent) -> Op {
    let reason = match event.reason {
        Some(Reason::None) => "",
        Some(reason) => reason.as_str(),
        None => "unknown",
    };
    Op::Outcome(OutcomeOp {
        decision: event.decision,
        job_id: event.job_id,
        will_run: event.will_run,
        reason: reason.to_owned(),
    })
}
