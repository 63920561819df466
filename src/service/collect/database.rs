// SPDX-License-Identifier: GPL-3.0-or-later
//! The database behind the memory: it may be unavailable for a while and is reopened.

use std::path::Path;

use super::clock::Now;
use super::store::{Held, Store};
use crate::failure::Failure;
use crate::sqlite::Error;

/// Pause before a failed database is reopened, in milliseconds.
const REOPEN_MS: u64 = 10_000;
/// Least difference between the steps of the wall and the monotonic clock at which the wall clock
/// counts as set, in milliseconds.
const JUMP_MS: u64 = 60_000;

/// The database, or the error for which there is none.
#[derive(Debug, Default)]
pub(super) struct CollectorStore {
    pub(super) store: Option<Store>,
    pub(super) written: u64,
    pub(super) errors: u64,
    pub(super) last_error: Option<String>,
    pub(super) reopen_at_ms: i64,
    pub(super) prune_at_ms: i64,
    checked: Option<Now>,
    /// Number of times that the wall clock was set.
    pub(super) jumps: u64,
}

impl CollectorStore {
    pub(super) fn open(&mut self, path: &Path, max_mb: u32, now: Now) -> Option<Held> {
        match Store::open(path, max_mb) {
            Ok((store, held)) => {
                self.store = Some(store);
                Some(held)
            }
            Err(error) => {
                self.failed(&error, now);
                None
            }
        }
    }

    /// Closes the database after an error.
    pub(super) fn failed(&mut self, error: &Error, now: Now) {
        let text = error.to_string();
        if self.last_error.as_deref() != Some(&text) {
            log::warn!("data service: {text}; values stay in memory");
        }
        self.errors += 1;
        self.last_error = Some(text);
        self.store = None;
        self.reopen_at_ms = now.mono_ms.saturating_add_unsigned(REOPEN_MS);
    }

    pub(super) fn set_max_mb(&mut self, max_mb: u32) {
        if let Some(store) = &mut self.store
            && let Err(error) = store.set_max_mb(max_mb)
        {
            log::warn!("data service: {error}");
        }
    }

    /// Writes a change that must be durable before it takes effect.
    pub(super) fn write(
        &mut self,
        change: impl FnOnce(&mut Store) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let Some(store) = &mut self.store else {
            return match &self.last_error {
                // Memory only, as configured.
                None => Ok(()),
                Some(error) => Err(Failure::Unavailable(format!("nothing changed: {error}"))),
            };
        };
        change(store).map_err(|error| {
            let text = error.to_string();
            self.failed(&error, Now::read());
            Failure::Unavailable(format!("nothing changed: {text}"))
        })
    }

    /// Returns whether the wall clock was set since the last check.
    pub(super) fn jumped(&mut self, now: Now) -> bool {
        let Some(before) = self.checked.replace(now) else { return false };
        let wall = now.wall_ms.abs_diff(before.wall_ms);
        wall.abs_diff(now.since(before.mono_ms)) > JUMP_MS || now.wall_ms < before.wall_ms
    }
}
