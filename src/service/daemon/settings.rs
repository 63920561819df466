// SPDX-License-Identifier: GPL-3.0-or-later
//! What a configuration means to the parts that do not read it themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{Config, HistoryConfig};
use crate::history::Limits;
use crate::recordings::Options;

/// Modes of the partitions that have one of their own, as words.
pub(super) fn partition_modes(config: &Config) -> BTreeMap<String, String> {
    let own = config.partition.iter().filter_map(|(name, p)| Some((name.clone(), p.mode?)));
    own.map(|(name, mode)| (name, mode.as_str().to_owned())).collect()
}

/// Bounds of what the history keeps.
pub(super) fn history_limits(config: &HistoryConfig) -> Limits {
    Limits {
        retention_days: config.retention_days,
        runs_days: config.runs_days,
        max_mb: config.max_mb,
    }
}

/// Where and how long is recorded.
pub(super) fn record_options(config: &Config, length: Option<Duration>) -> Options {
    Options {
        dir: config.record.dir.clone(),
        file_bytes: u64::from(config.record.file_mb) << 20,
        total_bytes: u64::from(config.record.max_mb) << 20,
        length,
    }
}
