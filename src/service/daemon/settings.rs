// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings of the parts that do not read the configuration themselves.

use std::time::Duration;

use crate::config::{Config, HistoryConfig};
use crate::history::Limits;
use crate::recordings::Options;

/// Age and size at which the history deletes records.
pub(super) fn history_limits(config: &HistoryConfig) -> Limits {
    Limits {
        retention_days: config.retention_days,
        runs_days: config.runs_days,
        max_mb: config.max_mb,
    }
}

/// Directory, sizes and length of a recording.
pub(super) fn record_options(config: &Config, length: Option<Duration>) -> Options {
    Options {
        dir: config.record.dir.clone(),
        file_bytes: u64::from(config.record.file_mb) << 20,
        total_bytes: u64::from(config.record.max_mb) << 20,
        length,
    }
}
