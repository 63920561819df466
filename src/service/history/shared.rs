// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters and limits that the history's thread shares with the rest of the daemon.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crossbeam_channel::Sender;

use super::records::Record;
use super::store::Limits;
use phalanx_ffi::locks::lock;

/// Counters since the start, the thread's state, and the limits in force.
#[derive(Debug, Default)]
pub struct HistoryShared {
    pub written: AtomicU64,
    /// Records that found the channel full or the thread gone.
    pub dropped: AtomicU64,
    /// Records that were dropped because they could not be written.
    pub lost: AtomicU64,
    /// Number of failed attempts to open or to write.
    pub errors: AtomicU64,
    /// Number of times that the database was opened.
    pub opens: AtomicU64,
    /// Rows deleted for age or size.
    pub pruned: AtomicU64,
    last_error: Mutex<Option<String>>,
    limits: Mutex<Limits>,
}

impl HistoryShared {
    /// Makes counters at zero.
    pub(super) fn new(limits: Limits) -> Arc<HistoryShared> {
        Arc::new(HistoryShared { limits: Mutex::new(limits), ..HistoryShared::default() })
    }

    pub fn limits(&self) -> Limits {
        *lock(&self.limits)
    }

    /// Puts other limits in force, as after a reload; the thread follows within about a second.
    pub fn set_limits(&self, limits: Limits) {
        *lock(&self.limits) = limits;
    }

    /// Records that are not in the database because the channel was full or the disk failed.
    pub fn not_written(&self) -> u64 {
        self.dropped.load(Relaxed).saturating_add(self.lost.load(Relaxed))
    }

    /// Text of the last failure, until a write succeeds.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    pub(super) fn set_last_error(&self, text: Option<String>) {
        *lock(&self.last_error) = text;
    }
}

/// Sending end of the history's channel, which never waits.
#[derive(Clone, Debug)]
pub struct HistorySender {
    sender: Sender<Record>,
    shared: Arc<HistoryShared>,
}

impl HistorySender {
    /// Wraps the sending end of the channel that the thread reads.
    pub(super) fn new(sender: Sender<Record>, shared: Arc<HistoryShared>) -> HistorySender {
        HistorySender { sender, shared }
    }

    /// Hands a record to the thread, or counts it as dropped.
    pub fn send(&self, record: Record) {
        if self.sender.try_send(record).is_err() {
            self.shared.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Returns the counters.
    pub fn shared(&self) -> &Arc<HistoryShared> {
        &self.shared
    }
}
