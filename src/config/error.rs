// SPDX-License-Identifier: GPL-3.0-or-later
//! Errors of the configuration, each with its place in the file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One problem and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path of the key (`link.deadline_us`); empty when the text is not TOML.
    pub key: String,
    /// The problem, and what was expected.
    pub message: String,
}

impl Issue {
    /// Creates the problem at a byte offset of `text`.
    pub(super) fn at(text: &str, offset: usize, key: &str, message: &str) -> Issue {
        let head = &text[..text.floor_char_boundary(offset)];
        let line_start = head.rfind('\n').map_or(0, |at| at + 1);
        Issue {
            line: head.matches('\n').count() + 1,
            column: head[line_start..].chars().count() + 1,
            key: key.to_owned(),
            message: message.to_owned(),
        }
    }
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Reason for which a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot read the configuration: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file was read and is wrong; one line for each problem.
    #[error("{}", lines(path, issues))]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Every problem found, in the order of the file; at least one.
        issues: Vec<Issue>,
    },
}

impl ConfigError {
    /// Returns the problems with their places; empty when the file was not read.
    pub fn issues(&self) -> &[Issue] {
        match self {
            ConfigError::Read { .. } => &[],
            ConfigError::Invalid { issues, .. } => issues,
        }
    }
}

fn lines(path: &std::path::Path, issues: &[Issue]) -> String {
    let lines = issues.iter().map(|issue| format!("{}:{issue}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}
