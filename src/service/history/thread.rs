// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `database` writes records in batches and outlives every failure.
//!
//! * No space, or the size limit: the oldest records are deleted and the batch is tried again; if
//!   that does not help it is lost.
//! * Damaged file: moved aside as `NAME.corrupt-TIME`, a new one is begun.
//! * File deleted or replaced: noticed within a second, opened anew.
//! * Anything else: closed, opened again after 1 s, 2 s, ... at most 60 s.
//!
//! Records that arrive meanwhile are counted as lost. The log gets one line a minute at most, and
//! one when writing works again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::proven::ProvenClock;
use super::records::Record;
use super::shared::{HistorySender, HistoryShared};
use super::store::{History, Limits};
use super::{HistoryError, Trouble};
use phalanx_core::limits::{HISTORY_BATCH_MAX, HISTORY_QUEUE_MAX};
use phalanx_ffi::clock::{millis, now_ms};

/// Shortest time between two log lines about failures.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Path of the history's file, and intervals of writing it.
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    /// The database.
    pub path: PathBuf,
    /// Longest time that a record waits for others before it is written.
    pub batch_wait: Duration,
    /// First pause before opening again after a failure; doubles each time.
    pub retry_min: Duration,
    /// Longest pause before opening again after a failure.
    pub retry_max: Duration,
    /// Time between two looks at the file's identity, limits and age.
    pub upkeep: Duration,
}

impl ThreadOptions {
    /// Returns the shipped intervals for a database at `path`.
    pub fn new(path: &Path) -> ThreadOptions {
        ThreadOptions {
            path: path.to_path_buf(),
            batch_wait: Duration::from_millis(200),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
            upkeep: Duration::from_secs(1),
        }
    }
}

/// The running thread `database`.
#[derive(Debug)]
pub struct HistoryThread {
    handle: JoinHandle<()>,
}

impl HistoryThread {
    /// Starts the thread on the receiving end of a bounded channel.
    ///
    /// The thread ends, after writing what is left, once every sender is gone. A database that
    /// cannot be opened is no error here: see the module.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub(super) fn spawn(
        options: ThreadOptions,
        records: Receiver<Record>,
        shared: Arc<HistoryShared>,
    ) -> io::Result<HistoryThread> {
        let run = move || Writer::new(options, shared).run(&records);
        let handle = thread::Builder::new().name("database".to_owned()).spawn(run)?;
        Ok(HistoryThread { handle })
    }

    /// Makes the channel and starts the thread.
    ///
    /// # Errors
    /// As [`spawn`](HistoryThread::spawn).
    pub fn start(
        options: ThreadOptions,
        limits: Limits,
    ) -> io::Result<(HistorySender, HistoryThread)> {
        let shared = HistoryShared::new(limits);
        let (sender, receiver) = bounded(HISTORY_QUEUE_MAX);
        let thread = HistoryThread::spawn(options, receiver, Arc::clone(&shared))?;
        Ok((HistorySender::new(sender, shared), thread))
    }

    /// Waits until everything is written, at most for `patience`; drop every sender before.
    pub fn join(self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.handle.is_finished() {
            if Instant::now() >= until {
                log::warn!("history: the last records are still being written");
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Writer {
    options: ThreadOptions,
    shared: Arc<HistoryShared>,
    database: Option<History>,
    /// Clock by which old records are deleted; made with the first file.
    clock: Option<ProvenClock>,
    started: Instant,
    /// Time before which the thread does not open or write again.
    retry_at: Instant,
    retry_wait: Duration,
    upkeep_at: Instant,
    failing: bool,
    logged_at: Option<Instant>,
}

impl Writer {
    fn new(options: ThreadOptions, shared: Arc<HistoryShared>) -> Writer {
        let now = Instant::now();
        Writer {
            retry_wait: options.retry_min,
            upkeep_at: now + options.upkeep,
            options,
            shared,
            database: None,
            clock: None,
            started: now,
            retry_at: now,
            failing: false,
            logged_at: None,
        }
    }

    fn run(mut self, records: &Receiver<Record>) {
        let mut batch: Vec<Record> = Vec::with_capacity(HISTORY_BATCH_MAX);
        crate::sqlite::was_emptied(&self.options.path);
        self.open_if_due();
        loop {
            let wait = self.upkeep_at.saturating_duration_since(Instant::now());
            match records.recv_timeout(wait) {
                Ok(record) => {
                    batch.push(record);
                    self.fill(&mut batch, records);
                    self.write(&batch);
                    batch.clear();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= self.upkeep_at {
                self.upkeep(records);
                self.upkeep_at = Instant::now() + self.options.upkeep;
            }
        }
        if let Some(mut database) = self.database.take()
            && let Err(error) = database.checkpoint()
        {
            log::warn!("{error}");
        }
    }

    /// Adds records until the batch is full or the first record has waited enough.
    fn fill(&self, batch: &mut Vec<Record>, records: &Receiver<Record>) {
        let until = Instant::now() + self.options.batch_wait;
        while batch.len() < HISTORY_BATCH_MAX {
            match records.recv_deadline(until) {
                Ok(record) => batch.push(record),
                Err(_) => return,
            }
        }
    }

    /// Writes a batch, or counts it as lost.
    fn write(&mut self, batch: &[Record]) {
        let count = batch.len() as u64;
        if Instant::now() < self.retry_at {
            self.shared.lost.fetch_add(count, Relaxed);
            return;
        }
        // A second attempt follows only where something was done about the
        // first failure.
        for _ in 0..2 {
            self.open_if_due();
            let Some(database) = self.database.as_mut() else {
                break;
            };
            match database.record(batch) {
                Ok(()) => {
                    self.shared.written.fetch_add(count, Relaxed);
                    self.succeeded();
                    return;
                }
                Err(error) => {
                    if !self.handle_failure(&error) {
                        break;
                    }
                }
            }
        }
        self.shared.lost.fetch_add(count, Relaxed);
    }

    fn open_if_due(&mut self) {
        if self.database.is_some() || Instant::now() < self.retry_at {
            return;
        }
        // At most twice: the second time after a damaged file was moved away.
        for _ in 0..2 {
            match self.open() {
                Ok(database) => {
                    self.shared.opens.fetch_add(1, Relaxed);
                    self.database = Some(database);
                    return;
                }
                Err(error) => {
                    if !self.handle_failure(&error) {
                        return;
                    }
                }
            }
        }
    }

    /// Opens the file. A file whose newest record cannot be read is not opened: without that record
    /// a clock that is ahead would be believed, and everything deleted.
    fn open(&mut self) -> Result<History, HistoryError> {
        let database = History::open(&self.options.path, self.shared.limits())?;
        if self.clock.is_none() {
            let newest = database.newest_ms(now_ms())?;
            let monotonic = millis(self.started.elapsed());
            self.clock = Some(ProvenClock::new(newest, now_ms(), monotonic));
        }
        Ok(database)
    }

    /// Counts and reports a failure and takes the remedy for it, if any. Returns whether trying
    /// again at once makes sense.
    fn handle_failure(&mut self, error: &HistoryError) -> bool {
        self.shared.errors.fetch_add(1, Relaxed);
        self.shared.set_last_error(Some(error.to_string()));
        self.report(error);
        self.failing = true;
        match error.trouble() {
            Trouble::Full => {
                let freed = self.database.as_mut().map(History::delete_oldest);
                if let Some(Ok(rows @ 1..)) = freed {
                    self.shared.pruned.fetch_add(rows, Relaxed);
                    return true;
                }
            }
            Trouble::Corrupt => {
                self.database = None;
                match move_aside(&self.options.path) {
                    Ok(aside) => {
                        let aside = aside.display();
                        log::warn!("history: damaged file moved to {aside}; a new one is begun");
                        return true;
                    }
                    Err(error) => log::warn!("history: cannot move the damaged file: {error}"),
                }
            }
            Trouble::Busy => {}
            Trouble::NotOurs | Trouble::Other => self.database = None,
        }
        self.retry_at = Instant::now() + self.retry_wait;
        self.retry_wait = (self.retry_wait * 2).min(self.options.retry_max);
        false
    }

    /// Logs a failure, one line a minute at most.
    fn report(&mut self, error: &HistoryError) {
        let now = Instant::now();
        if self.logged_at.is_some_and(|at| now < at + LOG_EVERY) {
            return;
        }
        self.logged_at = Some(now);
        log::error!(
            "{error}; placement goes on without it, {} records lost so far",
            self.shared.lost.load(Relaxed)
        );
    }

    fn succeeded(&mut self) {
        self.retry_wait = self.options.retry_min;
        if self.failing {
            self.failing = false;
            self.shared.set_last_error(None);
            log::info!(
                "history: writing to {} again, {} records were lost",
                self.options.path.display(),
                self.shared.lost.load(Relaxed)
            );
        }
    }

    /// Notices a deleted file, applies other limits, deletes old records.
    fn upkeep(&mut self, records: &Receiver<Record>) {
        if self.database.as_ref().is_some_and(History::moved) {
            log::warn!(
                "history: {} was deleted or replaced; opening it anew",
                self.options.path.display()
            );
            self.database = None;
        }
        self.open_if_due();
        if Instant::now() < self.retry_at {
            return;
        }
        let limits = self.shared.limits();
        let (wall, monotonic) = (now_ms(), millis(self.started.elapsed()));
        let now = self.clock.as_mut().map_or(wall, |clock| clock.now(wall, monotonic));
        // Short steps, and none while records wait.
        while let Some(database) = self.database.as_mut() {
            let changed = database.limits != limits;
            let step = if changed { database.set_limits(limits) } else { Ok(()) }
                .and_then(|()| database.prune_step(now));
            match step {
                Ok((deleted, more)) => {
                    self.shared.pruned.fetch_add(deleted, Relaxed);
                    if !more || !records.is_empty() {
                        return;
                    }
                }
                Err(error) => {
                    self.handle_failure(&error);
                    return;
                }
            }
        }
    }
}

/// Renames a damaged database to `NAME.corrupt-SECONDS` and removes its write-ahead log, which must
/// not be applied to the next database.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let mut aside = with(&format!(".corrupt-{}", now_ms() / 1000));
    for extra in 1..1000 {
        if !aside.exists() {
            break;
        }
        aside = with(&format!(".corrupt-{}-{extra}", now_ms() / 1000));
    }
    fs::rename(path, &aside)?;
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(with(suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_damaged_files_of_a_second_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.sqlite");
        let log = dir.path().join("h.sqlite-wal");
        for at in 0..20 {
            fs::write(&path, [at]).unwrap();
            fs::write(&log, [at]).unwrap();
            assert_eq!(fs::read(move_aside(&path).unwrap()).unwrap(), [at]);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 20);
    }
}
