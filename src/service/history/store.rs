// SPDX-License-Identifier: GPL-3.0-or-later
//! The writing side of the history: one connection, one transaction for each batch.

use std::path::Path;

use rusqlite::{Transaction, params_from_iter};

use super::HistoryError;
use super::columns::{Columns, insert};
use super::records::{OutcomeRecord, Record};
use super::runs;
use super::schema::{APPLICATION_ID, MIGRATIONS};
use crate::sqlite::{Database, Schema};
use phalanx_core::run::Run;
use phalanx_messages::rest::ImportReport;

/// Age and size at which records are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Age at which records are deleted, days.
    pub retention_days: u32,
    /// Age at which runs, from which speeds are learned, are deleted, in days.
    pub runs_days: u32,
    /// Size of the database at which the oldest records are deleted, MiB.
    pub max_mb: u32,
}

/// Age at which runs of jobs, from which speeds are learned, are deleted, in days: a year, so that
/// yearly workloads are known.
pub const RUNS_DAYS: u32 = 365;
/// Size of the database at which the oldest records are deleted, in MiB.
const MAX_MB: u32 = 1024;

impl Limits {
    /// Returns limits with an age, in days, of decisions and placements.
    pub fn new(retention_days: u32) -> Self {
        Self { retention_days, runs_days: RUNS_DAYS, max_mb: MAX_MB }
    }
}

/// An open history that can be written.
#[derive(Debug)]
pub struct History {
    pub(super) database: Database,
    pub(super) limits: Limits,
    /// Whether the size limit was reached, and the size is not well below the limit yet.
    pub(super) shrinking: bool,
}

impl History {
    /// Opens the database, making it (mode 0640) and its directory (0750) if they are missing, and
    /// brings its tables up to date.
    ///
    /// # Errors
    /// Anything of [`HistoryError`]; nothing is deleted or moved.
    pub fn open(path: &Path, limits: Limits) -> Result<History, HistoryError> {
        History::open_with(path, limits, MIGRATIONS)
    }

    pub(super) fn open_with(
        path: &Path,
        limits: Limits,
        steps: &[&str],
    ) -> Result<History, HistoryError> {
        let database = Database::open(path, Schema { application_id: APPLICATION_ID, steps })?;
        let mut history = History { database, limits, shrinking: false };
        history.set_limits(limits)?;
        Ok(history)
    }

    /// Takes other limits; they apply from the next write and prune.
    ///
    /// # Errors
    /// SQLite's, if the bound on the file's size could not be set.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), HistoryError> {
        self.limits = limits;
        self.database.bound(self.max_bytes())
    }

    pub(super) fn max_bytes(&self) -> u64 {
        u64::from(self.limits.max_mb) << 20
    }

    /// Whether the file at the path is another one than the open file.
    pub fn moved(&self) -> bool {
        self.database.moved()
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// # Errors
    /// SQLite's; nothing of the batch is in the file then.
    pub fn record(&mut self, records: &[Record]) -> Result<(), HistoryError> {
        self.database.change("write", |transaction| {
            for record in records {
                match record {
                    Record::Decision(made) => insert(transaction, "INTO decisions", made, None),
                    Record::Outcome(outcome) => update_outcome(transaction, outcome),
                    Record::Placement(placement) => {
                        insert(transaction, "INTO placements", placement, None)
                    }
                    Record::JobEnd(end) => insert(transaction, "INTO job_ends", end, None),
                    Record::Run(run) => runs::add(transaction, run).map(|_| 0),
                    Record::Sample(sample) => insert(transaction, "INTO samples", sample, None),
                }?;
            }
            Ok(())
        })
    }

    /// Adds runs in one transaction; the same run given twice counts once.
    ///
    /// # Errors
    /// SQLite's; none of them is in the file then.
    pub fn import(&mut self, runs: &[Run]) -> Result<ImportReport, HistoryError> {
        self.database.change("import", |transaction| {
            let mut sum = ImportReport::default();
            for run in runs {
                let one = runs::add(transaction, run)?;
                sum.new += one.new;
                sum.filled += one.filled;
                sum.known += one.known;
            }
            Ok(sum)
        })
    }

    /// Moves everything from the write-ahead log into the database.
    pub fn checkpoint(&mut self) -> Result<(), HistoryError> {
        self.database
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(HistoryError::sql(&self.database.path, "checkpoint"))
    }
}

/// Adds an outcome to its decision; an outcome whose decision is missing changes nothing.
fn update_outcome(transaction: &Transaction<'_>, o: &OutcomeRecord) -> rusqlite::Result<usize> {
    let mut values = Vec::new();
    o.values(&mut values)?;
    transaction
        .prepare_cached(
            "UPDATE decisions SET outcome_ms = ?3, outcome_reason = ?4, outcome_rc = ?5, \
             outcome_nodes = ?6, ask_ns = ?7 WHERE seq = \
             (SELECT max(seq) FROM decisions WHERE decision = ?1 AND job_id = ?2)",
        )?
        .execute(params_from_iter(values))
}
