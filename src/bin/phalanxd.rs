// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon: answers the overlay plugin inside slurmctld.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Decides which nodes Slurm's jobs get; asked by the overlay plugin inside
/// slurmctld over a Unix socket.
#[derive(Debug, Parser)]
#[command(name = "phalanxd", version)]
struct Args {
    /// Configuration file.
    #[arg(long, value_name = "FILE", default_value = phalanx::config::DEFAULT_PATH)]
    config: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match phalanx::daemon::run(&args.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phalanxd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
