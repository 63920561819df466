// SPDX-License-Identifier: GPL-3.0-or-later
//! `[log]`: messages on standard error, hence in the journal.

use log::LevelFilter;
use serde::{Deserialize, Serialize};

use super::section::section;

/// Least urgent message that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only parts that stopped working.
    Error,
    /// Also parts that work worse than they should.
    Warn,
    /// Also changes.
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

section! {
    /// `[log]`: messages on standard error, hence in the journal.
    LogConfig {
        /// Least urgent message that is written.
        level: LogLevel = LogLevel::Info,
        /// Form of a line.
        format: LogFormat = LogFormat::Text,
    }
}
