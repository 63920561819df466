// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx doctor`: is this host set up so that Slurm uses Phalanx, and if
//! not, which line is to be changed?
//!
//! [`facts`] looks, the checks judge what was found (pure functions, one file
//! for each part), and the report lists their findings, worst first. Nothing
//! is changed and no plugin is loaded. The rules come from Slurm's loader
//! (`src/common/plugin.c`) and slurm.conf(5).

mod check_daemon;
mod check_data;
mod check_host;
mod check_overlay;
mod check_slurm;
mod command;
mod conf;
mod facts;
mod plugin;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::exit::{Exit, Failure};
use super::{Outcome, json, render};
use facts::Facts;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Phalanx does not work, or Slurm's programs stop.
    Error,
    /// It works worse than it could, or will stop doing so.
    Warning,
    /// Worth knowing.
    Note,
    /// Looked at and good.
    Ok,
}

impl Level {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
            Level::Ok => "ok",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// Which check found it: stable, for scripts.
    pub check: &'static str,
    /// What is so.
    pub what: String,
    /// What follows from it.
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
    fn new(level: Level, check: &'static str, what: impl Into<String>) -> Finding {
        let (why, fix) = (String::new(), String::new());
        Finding { level, check, what: what.into(), why, fix, place: None }
    }

    fn error(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Error, check, what)
    }

    fn warning(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, check, what)
    }

    fn note(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Note, check, what)
    }

    fn ok(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Ok, check, what)
    }

    fn why(mut self, why: impl Into<String>) -> Finding {
        self.why = why.into();
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    fn at(mut self, place: Option<String>) -> Finding {
        self.place = place;
        self
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    /// This host.
    pub host: String,
    /// `controller`, or `other` for hosts that only read slurm.conf.
    pub role: &'static str,
    /// The slurm.conf that was read.
    pub slurm_conf: PathBuf,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Worst first.
    pub findings: Vec<Finding>,
}

/// Exit code 0 without errors and warnings, 1 with warnings, 2 with errors.
pub(super) fn run(
    conf: &Path,
    config: &Path,
    control: &Path,
    as_json: bool,
) -> Result<Outcome, Failure> {
    let facts = Facts::gather(conf, config, control);
    let report = judge(&facts, conf);
    let exit = match (report.errors, report.warnings) {
        (0, 0) => Exit::Ok,
        (0, _) => Exit::Negative,
        _ => Exit::Usage,
    };
    let text = if as_json {
        let body = serde_json::to_vec(&report)
            .map_err(|error| Failure::new(Exit::Negative, error.to_string()))?;
        json::indent(&body)
    } else {
        render::doctor::text(&report)
    };
    Ok(Outcome { text, exit })
}

fn judge(facts: &Facts, conf: &Path) -> Report {
    let mut findings = check_overlay::all(facts);
    findings.extend(check_slurm::all(facts));
    findings.extend(check_daemon::all(facts));
    findings.extend(check_host::all(facts));
    findings.extend(check_data::all(facts));
    findings.sort_by_key(|finding| finding.level);
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    Report {
        host: facts.host.clone(),
        role: if facts.is_controller() { "controller" } else { "other" },
        slurm_conf: conf.to_path_buf(),
        errors: count(Level::Error),
        warnings: count(Level::Warning),
        findings,
    }
}

/// Places of slurm.conf: given, of the environment, of Debian, of a host
/// without one of its own.
pub(super) fn find_conf(given: Option<PathBuf>) -> PathBuf {
    let variable = std::env::var_os("SLURM_CONF").filter(|path| !path.is_empty());
    if let Some(path) = given.or(variable.map(PathBuf::from)) {
        return path;
    }
    let usual = [
        "/etc/slurm/slurm.conf",
        "/run/slurm/conf/slurm.conf",
        "/etc/slurm-llnl/slurm.conf",
        "/usr/local/etc/slurm.conf",
    ];
    let found = usual.iter().map(Path::new).find(|path| path.is_file());
    found.unwrap_or(Path::new(usual[0])).to_path_buf()
}
