// SPDX-License-Identifier: GPL-3.0-or-later
//! The program `phalanx-share`: splits an input over nodes by what each can do, at once (`split`),
//! or hands it to workers item by item (`stream`). Options that name the daemon, exit codes and
//! output are those of the command line `phalanx`.
#![forbid(unsafe_code)]

mod input;
mod split;
mod stream;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use phalanx_cli::common::{EXIT_CODES, Failure, Global, Outcome, generate, run};

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
    /// Write manual page and completion scripts into this directory
    #[arg(long, value_name = "DIRECTORY", hide = true, exclusive = true)]
    generate: Option<PathBuf>,
}

impl Cli {
    fn run(&self) -> Result<Outcome, Failure> {
        match &self.generate {
            Some(directory) => generate(Self::command(), EXAMPLES, directory),
            None => self.split.run(&self.global),
        }
    }
}

/// Examples of the manual page.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "Cut a file for four nodes",
        "phalanx-share --input images.txt --nodes 'n[1-4]' --method C --out parts",
    ),
    (
        "In a job: hand lines to its tasks one by one, by learned speed",
        "phalanx-share --stream items.txt -- srun phalanx-share --worker -- ./work_on",
    ),
];

fn main() -> ExitCode {
    run("phalanx-share", Cli::run)
}
