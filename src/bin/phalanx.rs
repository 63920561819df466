// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx`: the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use phalanx::cli::solve::{self, SolveArgs};

#[derive(Parser)]
#[command(name = "phalanx", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Solve one problem given as JSON, without a daemon
    Solve(SolveArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Solve(args) => solve::run(&args),
    }
}
