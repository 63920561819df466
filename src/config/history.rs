// SPDX-License-Identifier: GPL-3.0-or-later
//! `[history]` and `[record]`: decisions in the database and in recordings.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[history]`: the SQLite file with decisions and placements.
    HistoryConfig {
        /// Path of the database.
        path: PathBuf = "/var/lib/phalanx/history.sqlite".into(),
        /// Age at which records are deleted, days.
        retention_days: u32 = 30,
    }
}

section! {
    /// `[record]`: decisions and their inputs, in files that can be replayed.
    RecordConfig {
        /// Directory of the files.
        dir: PathBuf = "/var/lib/phalanx/recordings".into(),
    }
}
