// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history`

mod energy;
mod import;
mod runs;
mod speeds;

pub use import::run_of;

use clap::Subcommand;

use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use crate::time::since_ms;
use phalanx_core::text::percent_encode;

/// Show what ran, what was learned from it, and add what ran before
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show how fast job classes run on which nodes
    #[command(after_help = EXIT_CODES)]
    Speeds {
        /// Only this job class
        #[arg(long, value_name = "CLASS")]
        class: Option<String>,
        /// Only this node
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
    /// Show what is believed of power and energy, and where it comes from
    #[command(after_help = EXIT_CODES)]
    Energy,
    /// Show runs of jobs that ended, newest first
    #[command(after_help = EXIT_CODES)]
    Runs {
        /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
        /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
        #[arg(long, value_name = "TIME", default_value = "24h")]
        since: String,
        /// Most runs that are shown
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: u32,
    },
    Import(import::Args),
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        match &self.command {
            Command::Speeds { class, node } => {
                let given = [("class", class), ("node", node)];
                let given = given.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
                let query: Vec<String> = given
                    .map(|(name, value)| format!("{name}={}", percent_encode(value)))
                    .collect();
                global.report(&format!("/v1/history/speeds?{}", query.join("&")), speeds::text)
            }
            Command::Energy => global.report("/v1/history/energy", energy::text),
            Command::Runs { since, limit } => {
                let since_ms = since_ms(since)?;
                let path = format!("/v1/history/runs?since={since_ms}&limit={limit}");
                global.report(&path, runs::text)
            }
            Command::Import(args) => args.run(global),
        }
    }
}
