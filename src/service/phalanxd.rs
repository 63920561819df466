// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon: answers the overlay plugin inside slurmctld.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use phalanx_service::daemon::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    match phalanx_service::daemon::run(&args.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phalanxd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
