// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon's SQLite files: they are made, recognised, brought up to date and bounded here.
//!
//! Files are in WAL mode with `synchronous = NORMAL`: after `kill -9` every committed transaction
//! is there; after a power failure the last ones may not be, but the file is whole.

mod error;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use phalanx_core::number::{nearest_i64, nearest_u64};
use phalanx_ffi::locks::lock;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub use error::{Error, Trouble};

/// Longest wait of a write for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait of a query for another connection's lock.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// The tables of one kind of file, as a list of steps from one version to the next, which
/// `PRAGMA user_version` counts. A step, once released, is never changed; a new need is a new step
/// at the end.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'s> {
    /// `PRAGMA application_id` of files of this kind.
    pub application_id: i64,
    /// Steps from version to version; the first makes version 1 of an empty file.
    pub steps: &'s [&'s str],
}

/// An open file that can be written.
#[derive(Debug)]
pub struct Database {
    pub connection: Connection,
    pub path: PathBuf,
    /// Size of a page, in bytes.
    page_bytes: u64,
    /// Device and inode of the file, by which its deletion is noticed.
    identity: (u64, u64),
}

impl Database {
    /// Opens the file, making it (mode 0640) and its directory (0750) if they are missing, and
    /// brings its tables up to date.
    ///
    /// # Errors
    /// Anything of [`Error`]; nothing is deleted or moved.
    pub fn open(path: &Path, schema: Schema<'_>) -> Result<Database, Error> {
        // One thread at a time: SQLite does not wait for the lock by which a file becomes WAL.
        static OPENING: Mutex<()> = Mutex::new(());
        let _opening = lock(&OPENING);
        if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o750)
                .create(parent)
                .map_err(Error::io(parent, "make the directory"))?;
        }
        create_private(path)?;
        let metadata = fs::metadata(path).map_err(Error::io(path, "inspect it"))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection =
            Connection::open_with_flags(path, flags).map_err(Error::sql(path, "open it"))?;
        let version = check(&connection, path, schema)?;
        configure(&connection).map_err(Error::sql(path, "configure it"))?;
        migrate(&mut connection, path, schema, version)?;
        let page_bytes =
            pragma(&connection, "page_size").map_err(Error::sql(path, "read its page size"))?;
        Ok(Database {
            connection,
            path: path.to_path_buf(),
            page_bytes: u64::try_from(page_bytes).unwrap_or(4096).max(512),
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    /// Whether the file at the path is another one than the open file.
    pub fn moved(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |m| (m.dev(), m.ino()) != self.identity)
    }

    /// Sets a hard bound a little above the size at which pruning begins.
    pub fn bound(&self, max_bytes: u64) -> Result<(), Error> {
        let pages = (max_bytes / self.page_bytes).saturating_mul(21) / 20;
        let pages = i64::try_from(pages.max(64)).unwrap_or(i64::MAX).min(0xffff_fffe);
        self.connection
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            .map_err(Error::sql(&self.path, "bound its size"))
    }

    /// Makes a change in one transaction, all or nothing; errors name it by `what`.
    pub fn change<T>(
        &mut self,
        what: &'static str,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let changed = begun.and_then(|transaction| {
            let changed = change(&transaction)?;
            transaction.commit().map(|()| changed)
        });
        changed.map_err(Error::sql(&self.path, what))
    }

    /// Counts the pages of the file, and the unused ones among them.
    pub fn pages(&self) -> Result<(i64, i64), Error> {
        let count =
            |name| pragma(&self.connection, name).map_err(Error::sql(&self.path, "measure it"));
        Ok((count("page_count")?, count("freelist_count")?))
    }

    /// Bytes of the file without its unused pages.
    pub fn used_bytes(&self) -> Result<u64, Error> {
        let (pages, unused) = self.pages()?;
        Ok(nearest_u64(pages - unused).saturating_mul(self.page_bytes))
    }
}

/// Reads a file through a connection of its own, which cannot write.
pub fn read<T>(
    path: &Path,
    question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, Error> {
    let failed = Error::sql(path, "read");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(&failed)?;
    connection.busy_timeout(READ_TIMEOUT).map_err(&failed)?;
    question(&connection).map_err(&failed)
}

/// Whether a file whose owner writes a header first is there without a byte, which is a loss and is
/// logged: a new file has tables before anybody writes.
pub fn was_emptied(path: &Path) -> bool {
    let bytes = |path: &Path| fs::metadata(path).map(|of| of.len()).ok();
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let emptied = bytes(path) == Some(0) && bytes(log.as_ref()).is_none_or(|bytes| bytes == 0);
    if emptied {
        log::warn!("database {}: the file is empty: what it held is lost", path.display());
    }
    emptied
}

/// Makes an empty file that only owner and group may read: SQLite would make it readable for all,
/// and its -wal and -shm files take over its mode.
///
/// A file that exists is not touched: closing a descriptor of it would drop the locks that other
/// connections of this process hold on it.
fn create_private(path: &Path) -> Result<(), Error> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path);
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::io(path, "make the file")(error))
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

/// Checks, without changing anything, that the file is of this kind and not newer; returns its
/// version.
///
/// # Errors
/// [`Error::Foreign`] for a file with tables of another program,
/// [`Error::Newer`] for one from a newer version, else SQLite's.
fn check(connection: &Connection, path: &Path, schema: Schema<'_>) -> Result<i64, Error> {
    let failed = Error::sql(path, "read its version");
    // One transaction: another connection may be making the tables.
    let look = connection.unchecked_transaction().map_err(&failed)?;
    let version = pragma(&look, "user_version").map_err(&failed)?;
    let application = pragma(&look, "application_id").map_err(&failed)?;
    let tables: i64 = look
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(&failed)?;
    drop(look);
    let fresh = version == 0 && application == 0 && tables == 0;
    if application != schema.application_id && !fresh {
        return Err(Error::Foreign { path: path.to_path_buf() });
    }
    let known = nearest_i64(schema.steps.len() as u64);
    if version > known {
        return Err(Error::Newer { path: path.to_path_buf(), found: version, known });
    }
    Ok(version)
}

/// Brings the file from its version to the newest.
///
/// # Errors
/// SQLite's. A step that fails leaves the file at the version before it.
fn migrate(
    connection: &mut Connection,
    path: &Path,
    schema: Schema<'_>,
    version: i64,
) -> Result<(), Error> {
    for (target, step) in (1..).zip(schema.steps).filter(|(target, _)| *target > version) {
        let failed = Error::sql(path, "bring its tables up to date");
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&failed)?;
        // Another process may have done it between the look and the lock.
        if pragma(&transaction, "user_version").map_err(&failed)? >= target {
            continue;
        }
        transaction.execute_batch(step).map_err(&failed)?;
        transaction
            .pragma_update(None, "application_id", schema.application_id)
            .map_err(&failed)?;
        transaction.pragma_update(None, "user_version", target).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
    }
    Ok(())
}

pub fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Converts a time to a column's signed number.
pub fn signed(ms: u64) -> i64 {
    nearest_i64(ms)
}
