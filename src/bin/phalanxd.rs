// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon: answers the overlay plugin inside slurmctld.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use phalanx::cli::args::Daemon;

fn main() -> ExitCode {
    let args = Daemon::parse();
    match phalanx::daemon::run(&args.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phalanxd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
