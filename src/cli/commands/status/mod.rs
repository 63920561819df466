// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx status`

mod render;
#[cfg(test)]
mod tests;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;

/// Show daemon and plugin state and how placement calls were answered
#[derive(clap::Args, Debug)]
pub struct Args {}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.report("/v1/status", render::text)
    }
}
