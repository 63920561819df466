// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon check`, which needs no daemon.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_config::{Config, ConfigError, DEFAULT_PATH, Issue};

/// Check a configuration: every problem with line, column, key and what was expected
///
/// The daemon is not asked: it need not run.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// File to check [default: the one of --config, or /etc/phalanx/phalanx.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let file = self.file.as_ref().or(global.config.as_ref());
        check(file.map_or(Path::new(DEFAULT_PATH), PathBuf::as_path), global.json)
    }
}

/// The result, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    file: String,
    ok: bool,
    issues: &'a [Issue],
    warnings: Vec<String>,
}

/// Checks a file; exit code 0 for a valid file, 1 for a wrong one, 2 for one that cannot be read.
fn check(path: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let checked = Config::load(path);
    let (issues, warnings) = match &checked {
        Ok(config) => (&[][..], config.warnings()),
        Err(error @ ConfigError::Read { .. }) => return Err(Failure::usage(error)),
        Err(error) => (error.issues(), Vec::new()),
    };
    let file = path.display().to_string();
    if as_json {
        let report = Report { file, ok: checked.is_ok(), issues, warnings };
        let exit = if checked.is_ok() { Exit::Ok } else { Exit::Negative };
        return Ok(Outcome::json(&report)?.ends_with(exit));
    }
    if let Err(error) = &checked {
        let problems = if issues.len() == 1 { "problem" } else { "problems" };
        let message = format!("{} {problems}\n{error}", issues.len());
        return Err(Failure::negative(message));
    }
    let mut text = format!("{file}: valid\n");
    for warning in warnings {
        text.push_str(&format!("{file}: warning: {warning}\n"));
    }
    Ok(Outcome::ok(text))
}
