// SPDX-License-Identifier: GPL-3.0-or-later
//! `[history]` and `[record]`: decisions in the database and in recordings.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[history]`: the SQLite file with decisions and placements.
    HistoryConfig {
        /// Decisions and placements are written.
        enabled: bool = true,
        /// Path of the database.
        path: PathBuf = "/var/lib/phalanx/history.sqlite".into(),
        /// Age at which records are deleted, days.
        retention_days: u32 = 30,
        /// Age at which runs of jobs, from which speeds are learned, are deleted, days.
        runs_days: u32 = 365,
        /// Size at which the oldest records are deleted, MiB.
        max_mb: u32 = 1024,
    }
}

section! {
    /// `[record]`: decisions and their inputs, in files that can be replayed.
    RecordConfig {
        /// The daemon records from its start on.
        enabled: bool = false,
        /// Directory of the files.
        dir: PathBuf = "/var/lib/phalanx/recordings".into(),
        /// Size at which the next file is begun, MiB.
        file_mb: u32 = 64,
        /// Size of all files at which the oldest are deleted, MiB.
        max_mb: u32 = 1024,
    }
}
