// SPDX-License-Identifier: GPL-3.0-or-later
//! Findings and the report of them.

use std::path::PathBuf;

use serde::Serialize;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Phalanx does not work, or Slurm's programs stop.
    Error,
    /// Phalanx works worse than it could, or will stop working.
    Warning,
    /// Worth knowing.
    Note,
    /// Checked and good.
    Ok,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity.
    pub level: Level,
    /// Name of the check, which stays the same for scripts.
    pub check: &'static str,
    /// The fact.
    pub what: String,
    /// Consequence of the fact.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The line to write or the command to run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
    /// File and line that the fix belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Finding {
    pub fn new(level: Level, check: &'static str, what: impl Into<String>) -> Finding {
        let (why, fix) = (String::new(), String::new());
        Finding { level, check, what: what.into(), why, fix, place: None }
    }

    pub fn error(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Error, check, what)
    }

    pub fn warning(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, check, what)
    }

    pub fn note(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Note, check, what)
    }

    pub fn ok(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Ok, check, what)
    }

    pub fn why(mut self, why: impl Into<String>) -> Finding {
        self.why = why.into();
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    pub fn at(mut self, place: Option<String>) -> Finding {
        self.place = place;
        self
    }

    pub fn to(self, all: &mut Vec<Finding>) {
        all.push(self);
    }

    pub fn some(self) -> Option<Finding> {
        Some(self)
    }

    pub fn when(self, found: bool) -> Option<Finding> {
        found.then_some(self)
    }
}

/// All findings, as `--json` prints them.
#[derive(Debug, Serialize)]
pub struct Report {
    pub host: String,
    /// `controller`, or `other` for hosts that only read slurm.conf.
    pub role: &'static str,
    pub slurm_conf: PathBuf,
    pub errors: usize,
    pub warnings: usize,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
}
