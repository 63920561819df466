// SPDX-License-Identifier: GPL-3.0-or-later
//! `[history]` and `[record]`: what is kept of decisions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[history]`: the SQLite file with decisions and placements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// Whether anything is recorded.
    pub enabled: bool,
    /// Path of the database.
    pub path: PathBuf,
    /// Age at which records are deleted, days.
    pub retention_days: u32,
    /// The same for runs of jobs, from which speeds are learned, days.
    pub runs_days: u32,
    /// Size at which the oldest records are deleted, MiB.
    pub max_mb: u32,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        HistoryConfig {
            enabled: true,
            path: "/var/lib/phalanx/history.sqlite".into(),
            retention_days: 30,
            runs_days: 365,
            max_mb: 1024,
        }
    }
}

/// `[record]`: decisions and what they depend on, in files to be replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordConfig {
    /// Whether the daemon records from its start on.
    pub enabled: bool,
    /// Directory of the files.
    pub dir: PathBuf,
    /// Size at which the next file is begun, MiB.
    pub file_mb: u32,
    /// Size of all at which the oldest are deleted, MiB.
    pub max_mb: u32,
}

impl Default for RecordConfig {
    fn default() -> Self {
        RecordConfig {
            enabled: false,
            dir: "/var/lib/phalanx/recordings".into(),
            file_mb: 64,
            max_mb: 1024,
        }
    }
}
