// SPDX-License-Identifier: GPL-3.0-or-later
//! The writing side: one connection, one transaction for each batch.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::HistoryError;
use super::records::{DecisionRecord, JobEndRecord, OutcomeRecord, PlacementRecord, Record};
use super::schema::{self, MIGRATIONS};
use crate::limits::EXPLAIN_BYTES_MAX;

/// How long a write waits for somebody else's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Age at which records are deleted, days.
    pub retention_days: u32,
    /// Size of the database at which the oldest are deleted, MiB.
    pub max_mb: u32,
}

/// An open history that can be written.
#[derive(Debug)]
pub struct History {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) limits: Limits,
    pub(super) page_bytes: u64,
    /// Set from reaching the size limit until well below it.
    pub(super) shrinking: bool,
    /// Device and inode of the file, to notice that it was deleted.
    identity: (u64, u64),
}

impl History {
    /// Opens the database, making it (mode 0640) and its directory (0750) if
    /// they are missing, and brings its tables up to date.
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
        if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o750)
                .create(parent)
                .map_err(HistoryError::io(parent, "make the directory"))?;
        }
        create_private(path)?;
        let metadata = fs::metadata(path).map_err(HistoryError::io(path, "inspect it"))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection =
            Connection::open_with_flags(path, flags).map_err(HistoryError::sql(path, "open it"))?;
        let version = schema::check(&connection, path, steps)?;
        configure(&connection).map_err(HistoryError::sql(path, "configure it"))?;
        schema::migrate(&mut connection, path, steps, version)?;
        let page_bytes = schema::pragma(&connection, "page_size")
            .map_err(HistoryError::sql(path, "read its page size"))?;
        let mut history = History {
            connection,
            path: path.to_path_buf(),
            limits,
            page_bytes: u64::try_from(page_bytes).unwrap_or(4096).max(512),
            shrinking: false,
            identity: (metadata.dev(), metadata.ino()),
        };
        history.set_limits(limits)?;
        Ok(history)
    }

    /// Takes other limits; they apply from the next write and prune.
    ///
    /// # Errors
    /// SQLite's, if the bound on the file's size could not be set.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), HistoryError> {
        self.limits = limits;
        // A hard bound a little above the size at which pruning begins.
        let pages = (self.max_bytes() / self.page_bytes).saturating_mul(21) / 20;
        let pages = i64::try_from(pages.max(64)).unwrap_or(i64::MAX).min(0xffff_fffe);
        self.connection
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            .map_err(HistoryError::sql(&self.path, "bound its size"))
    }

    pub(super) fn max_bytes(&self) -> u64 {
        u64::from(self.limits.max_mb) << 20
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file at the path is no longer the one that is open.
    pub fn moved(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |m| (m.dev(), m.ino()) != self.identity)
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// # Errors
    /// SQLite's; nothing of the batch is in the file then.
    pub fn record(&mut self, records: &[Record]) -> Result<(), HistoryError> {
        let failed = HistoryError::sql(&self.path, "write");
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&failed)?;
        for record in records {
            match record {
                Record::Decision(decision) => insert_decision(&transaction, decision),
                Record::Outcome(outcome) => update_outcome(&transaction, outcome),
                Record::Placement(placement) => insert_placement(&transaction, placement),
                Record::JobEnd(end) => insert_job_end(&transaction, end),
            }
            .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)
    }

    /// Moves everything from the write-ahead log into the database.
    ///
    /// # Errors
    /// SQLite's.
    pub fn checkpoint(&mut self) -> Result<(), HistoryError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(HistoryError::sql(&self.path, "checkpoint"))
    }
}

/// Makes an empty file that only owner and group may read: SQLite would make
/// it readable for all, and its -wal and -shm files take over its mode.
///
/// A file that exists is not touched: closing a descriptor of it would drop
/// the locks that other connections of this process hold on it.
fn create_private(path: &Path) -> Result<(), HistoryError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path);
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(HistoryError::io(path, "make the file")(error))
        }
        _ => Ok(()),
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Takes effect in a file that has no tables yet.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update_and_check(None, "journal_size_limit", 16 << 20, |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", -8192)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn insert_decision(transaction: &Transaction<'_>, d: &DecisionRecord) -> rusqlite::Result<()> {
    let explain = d.explain.as_deref().filter(|text| text.len() <= EXPLAIN_BYTES_MAX);
    transaction
        .prepare_cached(
            "INSERT INTO decisions (decision, time_ms, job_id, array_job_id, array_task_id, \
             het_job_id, user_id, partition, ask, mode, verdict, reason, nodes, node_count, \
             generation, latency_us, explain) \
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17)",
        )?
        .execute(params![
            d.decision.cast_signed(),
            d.time_ms.cast_signed(),
            d.job.job_id,
            d.job.array_job_id,
            d.job.array_task_id,
            d.job.het_job_id,
            d.job.user_id,
            d.job.partition,
            d.ask,
            d.mode,
            d.verdict,
            d.reason,
            d.nodes,
            d.node_count,
            d.generation.cast_signed(),
            d.latency_us.cast_signed(),
            explain,
        ])?;
    Ok(())
}

/// An outcome whose decision is not (or no longer) there changes nothing.
fn update_outcome(transaction: &Transaction<'_>, o: &OutcomeRecord) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE decisions SET outcome_ms = ?3, outcome_reason = ?4, outcome_rc = ?5, \
             outcome_nodes = ?6, ask_ns = ?7 WHERE seq = \
             (SELECT max(seq) FROM decisions WHERE decision = ?1 AND job_id = ?2)",
        )?
        .execute(params![
            o.decision.cast_signed(),
            o.job_id,
            o.time_ms.cast_signed(),
            o.reason,
            o.rc,
            o.node_count,
            o.ask_ns.cast_signed(),
        ])?;
    Ok(())
}

fn insert_placement(transaction: &Transaction<'_>, p: &PlacementRecord) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO placements (time_ms, job_id, array_job_id, array_task_id, het_job_id, \
             user_id, partition, mode, nodes, node_count, decision, dispersion_actual, \
             dispersion_decided) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
        )?
        .execute(params![
            p.time_ms.cast_signed(),
            p.job.job_id,
            p.job.array_job_id,
            p.job.array_task_id,
            p.job.het_job_id,
            p.job.user_id,
            p.job.partition,
            p.mode,
            p.nodes,
            p.node_count,
            p.decision.map(u64::cast_signed),
            p.dispersion_actual,
            p.dispersion_decided,
        ])?;
    Ok(())
}

fn insert_job_end(transaction: &Transaction<'_>, e: &JobEndRecord) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO job_ends (time_ms, job_id, state) VALUES (?1, ?2, ?3)")?
        .execute(params![e.time_ms.cast_signed(), e.job_id, e.state])?;
    Ok(())
}
