// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx replay`: decides again what was recorded.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;

use super::exit::{Exit, Failure};
use super::{Outcome, args::Global, render};
use phalanx_core::limits::REPLAY_LIST_MAX;
use phalanx_service::config::Config;
use phalanx_service::recordings::replay;

/// Records between two signs of progress.
const PROGRESS_EVERY: u64 = 20_000;

/// Arguments of `phalanx replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// Files of one recording, in their order
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Differences that are listed, from the first on
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub list: usize,
}

/// Runs the command.
pub(super) fn run(global: &Global, args: &ReplayArgs) -> Result<Outcome, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message.replace(['\n', '\r'], " "));
    if args.list > REPLAY_LIST_MAX {
        return Err(usage(format!("--list: expected at most {REPLAY_LIST_MAX}")));
    }
    let other = global.config.as_ref().map(|path| Config::load(path)).transpose();
    let other = other.map_err(|error| usage(error.to_string()))?;
    let terminal = std::io::stderr().is_terminal();
    let progress = |records: u64| {
        if terminal && records.is_multiple_of(PROGRESS_EVERY) {
            // Nothing can be done where standard error is closed.
            let _ = write!(std::io::stderr(), "\r{records} records\x1b[K");
        }
    };
    let report = replay(&args.files, other.as_ref(), args.list, &progress);
    if terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let report = report.map_err(|error| usage(error.to_string()))?;
    let exit = if report.is_same() { Exit::Ok } else { Exit::Negative };
    let text = if global.json {
        serde_json::to_string(&report).map_err(|error| usage(error.to_string()))? + "\n"
    } else {
        render::record::replayed(&report)
    };
    Ok(Outcome { text, exit })
}
