// SPDX-License-Identifier: GPL-3.0-or-later
//! Errors of a database's file.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Remedies that the owner of a database has for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no space: old records are to be deleted, or space waited for.
    Full,
    /// The file is damaged or not SQLite; it is to be moved aside and a new one begun.
    Corrupt,
    /// The file belongs to a newer version or to another program; it is to be left as it is.
    NotOurs,
    /// Another connection holds the lock; the action is to be tried again.
    Busy,
    /// Another error, such as a read-only file system; the file is to be opened again later.
    Other,
}

/// Why a database could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused.
    #[error("database {}: cannot {action}: {source}", path.display())]
    Sql {
        /// The database.
        path: PathBuf,
        /// Action that failed, such as `open`.
        action: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The system refused.
    #[error("database {}: cannot {action}: {source}", path.display())]
    Io {
        /// The database or its directory.
        path: PathBuf,
        /// The attempt.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file was written by a newer version of the program.
    #[error(
        "database {}: its schema is version {found}, newer than {known}, \
         the newest that this program knows",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// The file is a database of some other program.
    #[error(
        "database {}: this is a database of another program; \
         expected an empty or a phalanx one",
        path.display()
    )]
    Foreign {
        /// The database.
        path: PathBuf,
    },
}

impl Error {
    /// Makes errors of SQLite, met while doing `action`.
    pub fn sql(path: &Path, action: &'static str) -> impl Fn(rusqlite::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Error::Sql { path: path.clone(), action, source }
    }

    /// Makes errors of the system, met while doing `action`.
    pub fn io(path: &Path, action: &'static str) -> impl Fn(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Error::Io { path: path.clone(), action, source }
    }

    pub fn trouble(&self) -> Trouble {
        match self {
            Error::Newer { .. } | Error::Foreign { .. } => Trouble::NotOurs,
            Error::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    Trouble::Full
                }
                _ => Trouble::Other,
            },
            Error::Sql { source, .. } => match source.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Trouble::Full,
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Trouble::Corrupt,
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Busy,
                _ => Trouble::Other,
            },
        }
    }
}
