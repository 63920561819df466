// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx daemon`: changes of phalanxd and its plugin.

mod enable;
mod reload;
mod restore;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Reload the configuration, enable an ejected plugin, restore what a lost plugin left
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    Reload(reload::Args),
    Enable(enable::Args),
    Restore(restore::Args),
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        self.command.run(global)
    }
}
