// SPDX-License-Identifier: GPL-3.0-or-later
//! The tables, as a list of steps from one version to the next.
//!
//! `PRAGMA user_version` counts the steps done. A step, once released, is
//! never changed; a new need is a new step at the end.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::HistoryError;

/// `PRAGMA application_id` of our files: "Phlx" in ASCII.
const APPLICATION_ID: i64 = 0x5068_6c78;

/// The steps; the first makes version 1 of an empty file.
pub(super) const MIGRATIONS: &[&str] = &["
CREATE TABLE decisions (
  seq           INTEGER PRIMARY KEY,
  decision      INTEGER NOT NULL,
  time_ms       INTEGER NOT NULL,
  job_id        INTEGER NOT NULL,
  array_job_id  INTEGER,
  array_task_id INTEGER,
  het_job_id    INTEGER,
  user_id       INTEGER NOT NULL,
  partition     TEXT NOT NULL,
  ask           TEXT NOT NULL,
  mode          TEXT NOT NULL,
  verdict       TEXT NOT NULL,
  reason        TEXT,
  nodes         TEXT NOT NULL,
  node_count    INTEGER NOT NULL,
  generation    INTEGER NOT NULL,
  latency_us    INTEGER NOT NULL,
  explain       TEXT,
  outcome_ms     INTEGER,
  outcome_reason TEXT,
  outcome_rc     INTEGER,
  outcome_nodes  INTEGER,
  ask_ns         INTEGER
) STRICT;
CREATE INDEX decisions_decision ON decisions (decision);
CREATE INDEX decisions_job ON decisions (job_id);
CREATE INDEX decisions_task ON decisions (array_job_id, array_task_id)
  WHERE array_job_id IS NOT NULL;
CREATE INDEX decisions_time ON decisions (time_ms);

CREATE TABLE placements (
  seq           INTEGER PRIMARY KEY,
  time_ms       INTEGER NOT NULL,
  job_id        INTEGER NOT NULL,
  array_job_id  INTEGER,
  array_task_id INTEGER,
  het_job_id    INTEGER,
  user_id       INTEGER NOT NULL,
  partition     TEXT NOT NULL,
  mode          TEXT NOT NULL,
  nodes         TEXT NOT NULL,
  node_count    INTEGER NOT NULL,
  decision      INTEGER,
  dispersion_actual  REAL,
  dispersion_decided REAL
) STRICT;
CREATE INDEX placements_job ON placements (job_id);
CREATE INDEX placements_task ON placements (array_job_id, array_task_id)
  WHERE array_job_id IS NOT NULL;
CREATE INDEX placements_time ON placements (time_ms);

CREATE TABLE job_ends (
  seq     INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  job_id  INTEGER NOT NULL,
  state   TEXT NOT NULL
) STRICT;
CREATE INDEX job_ends_job ON job_ends (job_id);
CREATE INDEX job_ends_time ON job_ends (time_ms);
"];

/// Checks, without changing anything, that the file is ours and not newer.
/// Returns its version.
///
/// # Errors
/// [`HistoryError::Foreign`] for a file with tables of another program,
/// [`HistoryError::Newer`] for one from a newer version, else SQLite's.
pub(super) fn check(
    connection: &Connection,
    path: &Path,
    steps: &[&str],
) -> Result<i64, HistoryError> {
    let failed = HistoryError::sql(path, "read its version");
    let version = pragma(connection, "user_version").map_err(&failed)?;
    let application = pragma(connection, "application_id").map_err(&failed)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(&failed)?;
    let fresh = version == 0 && application == 0 && tables == 0;
    if application != APPLICATION_ID && !fresh {
        return Err(HistoryError::Foreign { path: path.to_path_buf() });
    }
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if version > known {
        return Err(HistoryError::Newer { path: path.to_path_buf(), found: version, known });
    }
    Ok(version)
}

/// Brings the file from its version to the newest.
///
/// # Errors
/// SQLite's. A step that fails leaves the file at the version before it.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    steps: &[&str],
    version: i64,
) -> Result<(), HistoryError> {
    for (target, step) in (1..).zip(steps).filter(|(target, _)| *target > version) {
        let failed = HistoryError::sql(path, "bring its tables up to date");
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&failed)?;
        // Another process may have done it between the look and the lock.
        if pragma(&transaction, "user_version").map_err(&failed)? >= target {
            continue;
        }
        transaction.execute_batch(step).map_err(&failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(&failed)?;
        transaction.pragma_update(None, "user_version", target).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
    }
    Ok(())
}

/// The integer value of a pragma.
pub(super) fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
