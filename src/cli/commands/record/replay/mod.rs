// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx record replay`: decides again what was recorded.

mod render;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::topology::TopologyFile;
use phalanx_core::limits::REPLAY_LIST_MAX;
use phalanx_core::snapshot::Table;
use phalanx_mirror::{Other, TopologyOf, replay};

/// Records between two reports of progress.
const PROGRESS_EVERY: u64 = 20_000;

/// Decide recorded questions again, unchanged or under another configuration (--config)
///
/// The recorded questions and events go to the code that answers Slurm, and each answer is
/// compared bit by bit with the recorded one. With --config or --topology each question is also
/// decided under that, in the recorded state. Plans of gangs, bags and data jobs are not made
/// again; those of the recording are followed.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files of one recording, in their order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Also decide under this topology: topology.conf, .yaml, or what scontrol show topology says
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Number of differences listed, the first ones first
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    list: usize,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if self.list > REPLAY_LIST_MAX {
            return Err(Failure::usage(format!("--list: expected at most {REPLAY_LIST_MAX}")));
        }
        let config = global.given_config().map_err(Failure::usage_line)?;
        let file = self.topology.as_deref().map(TopologyFile::open).transpose()?;
        let topology = file.as_ref().map(|file| {
            |table: &Table| file.over(table).map_err(|failure| failure.message.clone())
        });
        let topology = topology.as_ref().map(|of| of as &TopologyOf<'_>);
        let other = Other { config: config.as_ref(), topology };
        let other = (config.is_some() || topology.is_some()).then_some(&other);
        let terminal = std::io::stderr().is_terminal();
        let progress = |records: u64| {
            if terminal && records.is_multiple_of(PROGRESS_EVERY) {
                // Nothing can be done where standard error is closed.
                let _ = write!(std::io::stderr(), "\rrecords: {records}\x1b[K");
            }
        };
        let report = replay(&self.files, other, self.list, &progress);
        if terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let report = report.map_err(Failure::usage_line)?;
        let exit = if report.is_same() { Exit::Ok } else { Exit::Negative };
        Ok(global.show(&report, render::text)?.ends_with(exit))
    }
}
