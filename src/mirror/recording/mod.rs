// SPDX-License-Identifier: GPL-3.0-or-later
//! The events of a recording: every change of the state that answers depend on, in order, and every
//! question with its answer.
//!
//! Under the mirror's lock an [`Event`] is only put into a bounded channel; costly parts (texts,
//! digests) are made by the writer. When the channel is full the recording is cut: a gap could not
//! be replayed. At its beginning the writer copies the running jobs as planning does, in pieces and
//! so not of one moment: allocations are given whole and replace former ones, so that events since
//! the beginning of the copy make it exact. [`Op::Rest`] completes it; only questions after it are
//! recorded. A new mirror that the plugin sends is recorded at once.

mod ops;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crossbeam_channel::Sender;

pub use ops::{
    AskOp, Change, Offer, Op, PreferenceRow, PreferencesOp, RawPreferences, RecordedAnswer, Rest,
    TableOp,
};

use crate::decision::Decision;
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::cluster::{RunningJob, Table};

/// An event, cheap to make.
#[derive(Debug)]
pub enum EventKind {
    /// A record as it is written.
    Op(Op),
    /// A new mirror, for [`Op::Table`] and [`Op::Jobs`]: its node table, whether memory is a
    /// consumable resource, its jobs.
    Mirror(Arc<Table>, bool, Vec<RunningJob>),
    /// Preferences of one method, for [`Op::Preferences`].
    Preferences(RawPreferences),
    /// A decision and the candidates offered, for [`Op::Ask`].
    Ask(Arc<Decision>, Offer),
    /// A snapshot of the queue, which the writer reduces to its changes.
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

/// A recording under way, as the link knows it.
#[derive(Debug)]
pub struct Recording {
    pub(crate) sender: Sender<Event>,
    pub(crate) cut: Arc<AtomicBool>,
    /// Whether the state recorded so far is complete, so that everything has to be recorded.
    pub(crate) is_whole: bool,
    /// Questions that were not recorded, because the state was not complete.
    pub(crate) missed: u64,
}

/// Returns the nanoseconds from `born` to `at`.
pub fn nanos(born: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(born).as_nanos()).unwrap_or(u64::MAX)
}
