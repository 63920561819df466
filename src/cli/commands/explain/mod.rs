// SPDX-License-Identifier: GPL-3.0-or-later
//! Most leaves, and most jobs that end there, which are named.

mod render;
#[cfg(test)]
mod tests;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_core::text::percent_encode;

/// Show why a job runs where it runs, or why it waits
///
/// In three lines; --verbose has the request, what each filter leaves, the scores of the decision
/// and Slurm's latest questions.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Job as squeue prints it: 123, 120_7 (array task), 120_[1-6] (tasks that wait) or 130+1
    /// (component of a het job)
    #[arg(value_name = "JOB")]
    job: String,
    /// Show everything that is known
    #[arg(long, short)]
    verbose: bool,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let path = format!("/v1/explain/{}", percent_encode(&self.job));
        global.report(&path, if self.verbose { render::text } else { render::short })
    }
}
