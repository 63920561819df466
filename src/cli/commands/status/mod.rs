// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx status`

mod render;
#[cfg(test)]
mod tests;
mod watch;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;

/// Show daemon and plugin state and how placement calls were answered
///
/// With --watch: queue, questions and the latest decisions, on a terminal again and again until
/// Ctrl-C; elsewhere, and with --json, once.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Show queue, questions and the latest decisions, live
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    live: watch::Args,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if self.watch {
            return self.live.run(global);
        }
        global.report("/v1/status", render::text)
    }
}
