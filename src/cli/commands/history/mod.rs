// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history`

mod import;
mod runs;
mod speeds;

pub use import::run_of;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Show ended runs and the speeds learned from them, or import runs from sacct
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    Speeds(speeds::Args),
    Runs(runs::Args),
    Import(import::Args),
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        self.command.run(global)
    }
}
