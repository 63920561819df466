// SPDX-License-Identifier: GPL-3.0-or-later
//! The upkeep of the data service: reopening the database after a failure, writing once a second,
//! deleting old values.

use super::clock::Now;
use super::database::CollectorStore;
use super::service::{Collect, Settings};
use phalanx_ffi::locks::{lock, read, write};

/// Time between two searches for past values to delete, in milliseconds.
const PRUNE_MS: u64 = 10_000;
/// Pause of deletions after the wall clock was set, in milliseconds: it may be set back.
const JUMP_PAUSE_MS: u64 = 3_600_000;

impl Collect {
    /// Performs the work of every second: start and stop registrations by their times, choose live
    /// nodes for replicas, write values, delete old ones.
    pub fn tick(&self, now: Now) {
        let changed = {
            let mut registry = write(&self.registry);
            // Both, whatever the first one says.
            registry.set_time(now.local()) | registry.elect(&lock(&self.agents).alive(now))
        };
        if changed {
            self.bump();
        }
        let mut database = lock(&self.database);
        let settings = read(&self.settings).clone();
        if database.jumped(now) {
            database.jumps += 1;
            log::warn!("data service: the wall clock was set; ages do not depend on it");
            database.prune_at_ms = now.mono_ms.saturating_add_unsigned(JUMP_PAUSE_MS);
        }
        if database.store.is_none() {
            let may_reopen = now.mono_ms >= database.reopen_at_ms;
            let Some(path) = settings.path.as_deref().filter(|_| may_reopen) else { return };
            if database.open(path, settings.max_mb, now).is_none() {
                return;
            }
            log::info!("data service: the database is open again");
            database.last_error = None;
            self.restore(&mut database);
        }
        self.flush(&mut database, &settings, now);
        if now.mono_ms >= database.prune_at_ms {
            let retention_ms = u64::from(settings.retention_hours) * 3_600_000;
            let before = now.wall_ms.saturating_sub(retention_ms);
            let pruned = database.store.as_mut().map(|store| store.prune(before));
            match pruned {
                // More to do: at the next tick.
                Some(Ok(true)) | None => {}
                Some(Ok(false)) => {
                    database.prune_at_ms = now.mono_ms.saturating_add_unsigned(PRUNE_MS);
                }
                Some(Err(error)) => database.failed(&error, now),
            }
        }
    }

    /// Writes the registrations in memory into a database that was unavailable.
    fn restore(&self, database: &mut CollectorStore) {
        let registry = read(&self.registry);
        let Some(store) = &mut database.store else { return };
        for registration in registry.all() {
            if registration.origin == phalanx_messages::collect::Origin::Api
                && let Err(error) = store.put_registration(registration)
            {
                log::warn!("data service: {error}");
                return;
            }
        }
    }

    fn flush(&self, database: &mut CollectorStore, settings: &Settings, now: Now) {
        let Some(store) = &mut database.store else { return };
        let step_ms = u64::from(settings.history_step_s) * 1000;
        let unwritten = write(&self.latest).take_dirty(step_ms, now);
        if unwritten.is_empty() {
            return;
        }
        if store.moved() {
            // Deleted or replaced: the next tick opens what is there now.
            log::warn!("data service: the database was moved away; opening a new one");
            write(&self.latest).give_back(&unwritten);
            database.store = None;
            database.last_error = Some("the database was moved away".to_owned());
            return;
        }
        match store.put_values(&unwritten) {
            Ok(()) => {
                database.written += unwritten.len() as u64;
                database.last_error = None;
            }
            Err(error) => {
                write(&self.latest).give_back(&unwritten);
                database.failed(&error, now);
            }
        }
    }
}
