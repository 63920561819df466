// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands. Each is a module with `Args` (its options, whose comments are the help text) and
//! `Args::run`; adding one is adding its module and its line in the list. Help, manual pages and
//! completion come from the list.

/// Declares the commands of one level, in the order of the help text, each with the type of its
/// arguments, and the call of the given command.
macro_rules! commands {
    ($($(#[$more:meta])* $name:ident($args:ty),)*) => {
        /// One command with its arguments.
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($(#[$more])* $name($args),)*
        }

        impl Command {
            /// Runs the given command.
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

/// Declares a command with subcommands: its help text, then their list.
macro_rules! group {
    ($(#[$about:meta])* $($name:ident($args:ty) $(as $text:literal)?,)*) => {
        $(#[$about])*
        #[derive(clap::Args, Debug)]
        pub struct Args {
            #[command(subcommand)]
            command: Command,
        }

        impl Args {
            pub fn run(
                &self,
                global: &crate::global::Global,
            ) -> Result<crate::outcome::Outcome, crate::exit::Failure> {
                self.command.run(global)
            }
        }

        commands! {
            $($(#[command(name = $text)])? $name($args),)*
        }
    };
}

mod advise;
mod collector;
mod daemon;
mod data;
mod doctor;
mod drill;
mod explain;
mod history;
mod nodes;
mod plan;
mod record;
mod report;
pub mod simulate;
pub mod solve;
mod status;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::exit::{ABOUT_ALL, EXIT_CODES};
use crate::global::Global;

/// Show how jobs are placed, check the installation, and run the methods without a cluster
#[derive(Debug, Parser)]
#[command(name = "phalanx", version)]
#[command(max_term_width = 100, after_long_help = ABOUT_ALL)]
#[command(subcommand_required = true, arg_required_else_help = true)]
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
    Drill(drill::Args),
    #[command(alias = "config")]
    Daemon(daemon::Args),
    Data(data::Args),
    Collector(collector::Args),
    Record(record::Args),
    Simulate(simulate::Args),
    Solve(solve::Args),
}

impl Cli {
    /// The commands with their options, as help, manual pages and completion show them.
    pub fn described() -> clap::Command {
        with_exit_codes(Self::command())
    }

    /// Parses the arguments of the process, the program's name first.
    pub fn parsed(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::described();
        let matches = command.try_get_matches_from_mut(arguments)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Ends the help of all commands with the exit codes, but where a command lists its own.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let command = match command.get_after_help() {
        Some(_) => command,
        None => command.after_help(EXIT_CODES),
    };
    command.mut_subcommands(with_exit_codes)
}
