// SPDX-License-Identifier: GPL-3.0-or-later
//! `[history]`: decisions in the database.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[history]`: the SQLite file with decisions and placements.
    HistoryConfig {
        /// Path of the database.
        path: PathBuf = "/var/lib/phalanx/history.sqlite".into(),
        /// Age at which records are deleted, in days.
        retention_days: u32 = 30,
    }
}
