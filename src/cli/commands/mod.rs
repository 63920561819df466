// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands. Each is a module with `Args` (its options, whose comments are the help text) and
//! `Args::run`; adding one is adding its module and its line in the list below. Help, manual
//! pages and completion come from the list.

mod advise;
mod agent;
mod collector;
mod complete;
mod config;
mod doctor;
mod enable;
mod energy;
mod explain;
mod generate;
mod hdfs;
mod history;
mod nodes;
mod plan;
mod record;
mod reload;
mod replay;
mod report;
mod shadow;
mod share;
mod simulate;
mod solve;
mod splits;
mod status;
mod top;
mod what_if;

use clap::{Parser, Subcommand};

use crate::exit::{ABOUT_ALL, EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;

/// Ask phalanxd about placement, or check its configuration.
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

macro_rules! commands {
    ($($name:ident($module:ident::Args),)*) => {
        /// One command with its arguments.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($name($module::Args),)*
        }

        impl Command {
            /// Does what was asked.
            pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
                match self {
                    $(Command::$name(args) => args.run(global),)*
                }
            }
        }
    };
}

// In the order of the help text.
commands! {
    Status(status::Args),
    Top(top::Args),
    Nodes(nodes::Args),
    Explain(explain::Args),
    Shadow(shadow::Args),
    Report(report::Args),
    Advise(advise::Args),
    Plan(plan::Args),
    Config(config::Args),
    History(history::Args),
    Energy(energy::Args),
    Reload(reload::Args),
    Enable(enable::Args),
    Doctor(doctor::Args),
    Generate(generate::Args),
    Complete(complete::Args),
    Solve(solve::Args),
    Splits(splits::Args),
    Hdfs(hdfs::Args),
    Agent(agent::Args),
    Share(share::Args),
    Collector(collector::Args),
    Simulate(simulate::Args),
    Record(record::Args),
    Replay(replay::Args),
    WhatIf(what_if::Args),
}
