// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx data`: inputs of data jobs, as HDFS and block maps describe them.

mod hdfs;
mod splits;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Show who reads which blocks of an input, and what HDFS says about it
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    Splits(splits::Args),
    Check(hdfs::Check),
    Ls(hdfs::Ls),
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        self.command.run(global)
    }
}
