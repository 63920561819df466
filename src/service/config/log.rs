// SPDX-License-Identifier: GPL-3.0-or-later
//! `[log]`: what is written to standard error, hence to the journal.

use log::LevelFilter;
use serde::{Deserialize, Serialize};

/// Least urgent message that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what stopped working.
    Error,
    /// Also what works worse than it should.
    Warn,
    /// Also what changed.
    #[default]
    Info,
    /// Also each decision.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => LevelFilter::Error,
            LogLevel::Warn => LevelFilter::Warn,
            LogLevel::Info => LevelFilter::Info,
            LogLevel::Debug => LevelFilter::Debug,
            LogLevel::Trace => LevelFilter::Trace,
        }
    }
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`: what is written to standard error, hence to the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Least urgent message that is written.
    pub level: LogLevel,
    /// Form of a line.
    pub format: LogFormat,
}
