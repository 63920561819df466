// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon: answers the overlay plugin inside slurmctld.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use phalanx_config::args::Args;

fn main() -> ExitCode {
    phalanx_service::abort_on_panic();
    let command = Args::command().long_version(phalanx_service::version());
    let args = match Args::from_arg_matches(&command.get_matches()) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    match phalanx_service::daemon::run(&args.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phalanxd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
