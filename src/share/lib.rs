// SPDX-License-Identifier: GPL-3.0-or-later
//! The program `phalanx-share`: splits an input over nodes by what each can do, at once (`split`),
//! or hands it to workers item by item (`stream`). Options that name the daemon, exit codes and
//! output are those of the command line `phalanx`.
#![forbid(unsafe_code)]

mod input;
mod split;
mod stream;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use phalanx_cli::common::{EXIT_CODES, Global, run};

/// Split an input over nodes by what each can do, at once or item by item
///
/// With --input, a file or the blocks of files in HDFS are split into one part for each node. With
/// --stream, a command started here runs workers (--worker) on the nodes, and each gets the next
/// item when it is expected to be done first.
#[derive(Debug, Parser)]
#[command(name = "phalanx-share", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    split: split::Args,
    #[command(flatten)]
    global: Global,
}

/// The options, as help, manual page and completion show them.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    run("phalanx-share", |cli: &Cli| cli.split.run(&cli.global))
}
