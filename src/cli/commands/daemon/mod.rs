// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon`: changes of the running phalanxd and its plugin.

mod enable;
mod reload;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Reload the configuration of phalanxd, or enable an ejected plugin again
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    Reload(reload::Args),
    Enable(enable::Args),
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        self.command.run(global)
    }
}
