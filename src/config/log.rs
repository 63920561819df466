// SPDX-License-Identifier: GPL-3.0-or-later
//! `[log]`: messages on standard error, hence in the journal.

use log::LevelFilter;
use serde::{Deserialize, Serialize};

use super::section::section;

/// Least urgent level of messages that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Messages about parts that stopped working.
    Error,
    /// Errors, and messages about parts that work worse than they should.
    Warn,
    /// Warnings, and messages about changes.
    #[default]
    Info,
    /// Information, and each decision.
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

section! {
    /// `[log]`: messages on standard error, hence in the journal.
    LogConfig {
        /// Least urgent level of messages that are written.
        level: LogLevel = LogLevel::Info,
    }
}
