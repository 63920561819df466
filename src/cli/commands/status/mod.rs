// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx status`

mod render;
pub use render::verdict;
#[cfg(test)]
mod tests;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Show the daemon, the plugin, and what became of Slurm's placement calls
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args;

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.report("/v1/status", render::text)
    }
}
