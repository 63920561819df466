// SPDX-License-Identifier: GPL-3.0-or-later
//! Keeping the database: opening it again after a failure, writing once a
//! second, deleting what is old.

use super::clock::Now;
use super::registry::Refusal;
use super::service::{Collect, Settings, lock, read, write};
use super::store::{Held, Store};
use crate::sqlite::Error;

/// Pause before a database that failed is opened again.
const REOPEN_MS: u64 = 10_000;
/// Time between two looks for past values to delete.
const PRUNE_MS: u64 = 10_000;
/// How far the wall clock may run from the monotonic one between two looks
/// before it counts as having been set.
const JUMP_MS: u64 = 60_000;
/// After that nothing is deleted for so long: somebody may set it back.
const JUMP_PAUSE_MS: u64 = 3_600_000;

/// The database, or why there is none.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    store: Option<Store>,
    /// Counts and the last error, for the status.
    pub(super) written: u64,
    pub(super) errors: u64,
    pub(super) last_error: Option<String>,
    reopen_at_ms: i64,
    prune_at_ms: i64,
    looked: Option<Now>,
    /// Times that the wall clock was set.
    pub(super) jumps: u64,
}

impl Keeper {
    /// Opens the database if there is to be one.
    pub(super) fn open(&mut self, settings: &Settings, now: Now) -> Option<Held> {
        let path = settings.path.as_deref()?;
        match Store::open(path, settings.max_mb) {
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

    fn failed(&mut self, error: &Error, now: Now) {
        let text = error.to_string();
        if self.last_error.as_deref() != Some(&text) {
            log::warn!("data service: {text}; values are kept in memory");
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

    /// Writes something that must be durable before it counts.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] when it could not be written.
    pub(super) fn write(
        &mut self,
        change: impl FnOnce(&mut Store) -> Result<(), Error>,
    ) -> Result<(), Refusal> {
        let Some(store) = &mut self.store else {
            return match &self.last_error {
                // Memory only, as configured.
                None => Ok(()),
                Some(error) => Err(Refusal::Unavailable(format!("nothing changed: {error}"))),
            };
        };
        change(store).map_err(|error| {
            let text = error.to_string();
            self.failed(&error, Now::read());
            Refusal::Unavailable(format!("nothing changed: {text}"))
        })
    }

    /// Whether the wall clock was set since the last look.
    fn jumped(&mut self, now: Now) -> bool {
        let Some(before) = self.looked.replace(now) else { return false };
        let wall = now.wall_ms.abs_diff(before.wall_ms);
        wall.abs_diff(now.since(before.mono_ms)) > JUMP_MS || now.wall_ms < before.wall_ms
    }
}

impl Collect {
    /// What is to be done every second: choose the nodes of replicas among the
    /// living, write values, delete old ones.
    pub fn tick(&self, now: Now) {
        let changed = {
            let mut registry = write(&self.registry);
            registry.elect(&lock(&self.agents).alive(now))
        };
        if changed {
            self.bump();
        }
        let mut keeper = lock(&self.keeper);
        let settings = read(&self.settings).clone();
        if keeper.jumped(now) {
            keeper.jumps += 1;
            log::warn!("data service: the wall clock was set; ages do not depend on it");
            keeper.prune_at_ms = now.mono_ms.saturating_add_unsigned(JUMP_PAUSE_MS);
        }
        if keeper.store.is_none() {
            if settings.path.is_none() || now.mono_ms < keeper.reopen_at_ms {
                return;
            }
            if keeper.open(&settings, now).is_none() {
                return;
            }
            log::info!("data service: the database is open again");
            keeper.last_error = None;
            self.restore(&mut keeper);
        }
        self.flush(&mut keeper, &settings, now);
        if now.mono_ms >= keeper.prune_at_ms {
            let retention_ms = u64::from(settings.retention_hours) * 3_600_000;
            let before = now.wall_ms.saturating_sub(retention_ms);
            let pruned = keeper.store.as_mut().map(|store| store.prune(before));
            match pruned {
                // More to do: at the next tick.
                Some(Ok(true)) | None => {}
                Some(Ok(false)) => {
                    keeper.prune_at_ms = now.mono_ms.saturating_add_unsigned(PRUNE_MS);
                }
                Some(Err(error)) => keeper.failed(&error, now),
            }
        }
    }

    /// Writes what is in memory into a database that was away.
    fn restore(&self, keeper: &mut Keeper) {
        let registry = read(&self.registry);
        let Some(store) = &mut keeper.store else { return };
        for registration in registry.all() {
            if registration.origin == phalanx_core::collect::Origin::Api
                && let Err(error) = store.put_registration(registration)
            {
                log::warn!("data service: {error}");
                return;
            }
        }
    }

    fn flush(&self, keeper: &mut Keeper, settings: &Settings, now: Now) {
        let Some(store) = &mut keeper.store else { return };
        let step_ms = u64::from(settings.history_step_s) * 1000;
        let unwritten = write(&self.latest).take_dirty(step_ms, now);
        if unwritten.is_empty() {
            return;
        }
        if store.moved() {
            // Deleted or replaced: the next tick opens what is there now.
            log::warn!("data service: the database was moved away; opening a new one");
            write(&self.latest).give_back(&unwritten);
            keeper.store = None;
            keeper.last_error = Some("the database was moved away".to_owned());
            return;
        }
        match store.put_values(&unwritten) {
            Ok(()) => {
                keeper.written += unwritten.len() as u64;
                keeper.last_error = None;
            }
            Err(error) => {
                write(&self.latest).give_back(&unwritten);
                keeper.failed(&error, now);
            }
        }
    }
}
