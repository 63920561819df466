// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands. Each is a module with `Args` (its options, whose comments are the help text) and
//! `Args::run`; adding one is adding its module and its line in the list below. Help, manual
//! pages and completion come from the list.

/// Declares the commands of one level, in the order of the help text, each with the type of its
/// arguments, and the call of the one that was given.
macro_rules! commands {
    ($($name:ident($args:ty),)*) => {
        /// One command with its arguments.
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($name($args),)*
        }

        impl Command {
            /// Does what was asked.
            pub fn run(
                &self,
                global: &crate::global::Global,
            ) -> Result<crate::outcome::Outcome, crate::exit::Failure> {
                match self {
                    $(Command::$name(args) => args.run(global),)*
                }
            }
        }
    };
}

mod advise;
mod collector;
mod config;
mod daemon;
mod data;
mod doctor;
mod explain;
pub mod generate;
mod history;
mod nodes;
mod plan;
mod record;
mod report;
pub mod simulate;
mod solve;
mod status;

use clap::Parser;

use crate::exit::{ABOUT_ALL, EXIT_CODES};
use crate::global::Global;

/// Show how jobs are placed, check the installation, and run the methods without a cluster
#[derive(Debug, Parser)]
#[command(name = "phalanx", version)]
#[command(max_term_width = 100, after_help = EXIT_CODES)]
#[command(after_long_help = ABOUT_ALL, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

commands! {
    Status(status::Args),
    Nodes(nodes::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Report(report::Args),
    Advise(advise::Args),
    History(history::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Daemon(daemon::Args),
    Data(data::Args),
    Collector(collector::Args),
    Record(record::Args),
    Simulate(simulate::Args),
    Solve(solve::Args),
    Generate(generate::Args),
}
