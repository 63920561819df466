// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx config check`: needs no daemon.

use std::path::Path;

use serde::Serialize;

use super::exit::{Exit, Failure};
use super::{Outcome, json};
use phalanx_service::config::{Config, ConfigError, Issue};

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    file: String,
    ok: bool,
    issues: &'a [Issue],
    warnings: Vec<String>,
}

/// Exit code 0 for a valid file, 1 for a wrong one, 2 for one that cannot be
/// read.
pub(super) fn run(file: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let checked = Config::load(file);
    let (issues, warnings) = match &checked {
        Ok(config) => (&[][..], config.warnings()),
        Err(error @ ConfigError::Read { .. }) => {
            return Err(Failure::new(Exit::Usage, error.to_string()));
        }
        Err(error) => (error.issues(), Vec::new()),
    };
    let exit = if checked.is_ok() { Exit::Ok } else { Exit::Negative };
    if as_json {
        let file = file.display().to_string();
        let report = Report { file, ok: checked.is_ok(), issues, warnings };
        let body = serde_json::to_vec(&report)
            .map_err(|error| Failure::new(Exit::Negative, error.to_string()))?;
        return Ok(Outcome { text: json::indent(&body), exit });
    }
    if let Err(error) = &checked {
        let problems = if issues.len() == 1 { "problem" } else { "problems" };
        let message = format!("{} {problems}\n{error}", issues.len());
        return Err(Failure::new(exit, message));
    }
    let mut text = format!("{}: valid\n", file.display());
    for warning in warnings {
        text.push_str(&format!("{}: warning: {warning}\n", file.display()));
    }
    Ok(Outcome { text, exit })
}
