// SPDX-License-Identifier: GPL-3.0-or-later
//! The program `phalanx-bench`: measurements of the methods, and simulations under the policies
//! that they are compared with. Also the maker of the manual pages. It is no part of the product.

mod bag;
mod balance;
mod counts;
mod data;
mod gang;
mod pages;
mod plot;
mod proof;
mod simulate;
mod starts;
mod timing;
mod topology;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use phalanx_cli::{Global, end, in_one_line, solve};

/// Measure Phalanx, and simulate the policies that it is compared with
#[derive(Debug, Parser)]
#[command(name = "phalanx-bench", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// The experiments of the bag method's source: [--seed N] [--instances N] [--data DIR] [--svg
    /// FILE]
    BagExperiments(Words),
    /// Time of one decision of balance on 10,000 nodes
    Balance,
    /// The worked example of the balance method's source: [FILE.svg]
    BalanceExample(Words),
    /// Jobs that fit before the first one waits, by policy: [RUNS]
    BalancePacking(Words),
    /// Makespans of the bisection method beside published ones: [--large] [FILE...]
    BisectQuality(Words),
    /// The bisection method beside round robin, over the number of jobs: [RUNS] [FILE.svg]
    BisectTurns(Words),
    /// One piece of work whose instructions are counted (tests/counts.py): NAME
    Counts(Words),
    /// Time and quality of plans of data jobs
    DataPlan,
    /// Time and memory of plans of gangs: [NODES] [GANGS] [DEADLINE_MS] [ROUNDS] [MODE]
    GangPlan(Words),
    /// The experiment of the gang method's source: [SLOTS] [RUNS] [FILE.svg]
    GangPolicies(Words),
    /// Gaps of the gang method on seeded instances: gaps|large|table ...
    GangQuality(Words),
    /// Regret of the learned index: [SLOTS] [RUNS] [FILE.svg]
    GangRegret(Words),
    /// Manual pages and completion scripts into a directory: man/, bash/, zsh/, fish/ below it
    Pages {
        directory: PathBuf,
    },
    /// Time of one proof of a planned start on 10,000 nodes
    Proof,
    Simulate(Box<simulate::Args>),
    Solve(Box<solve::Args>),
    /// Forecasts of starts beside Slurm's on logs, or their time: [FILE...]
    Starts(Words),
    /// Time and memory of a decision on 400 leaf switches or blocks
    Topology,
}

/// Arguments of a measurement.
#[derive(Debug, clap::Args)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Text before each error.
const PROGRAM: &str = "phalanx-bench: ";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return in_one_line(PROGRAM, &error).into(),
        Err(error) => error.exit(),
    };
    if let Command::Simulate(args) = &cli.command {
        return end(PROGRAM, args.run(&cli.global)).into();
    }
    if let Command::Solve(args) = &cli.command {
        // As of `phalanx solve`: an error begins with the field of the problem.
        return end("", args.run_all()).into();
    }
    match cli.command.measure() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{PROGRAM}{error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Command {
    /// Measures; returns whether all that must hold does.
    fn measure(&self) -> Result<bool, Box<dyn Error>> {
        match self {
            Self::BagExperiments(args) => return Ok(bag::run(&args.words)?),
            Self::Balance => balance::decisions::run(),
            Self::BalanceExample(args) => balance::example::run(&args.words)?,
            Self::BalancePacking(args) => balance::packing::run(&args.words),
            Self::BisectQuality(args) => return Ok(data::bisect::run(&args.words)?),
            Self::BisectTurns(args) => data::turns::run(&args.words)?,
            Self::Counts(args) => counts::run(&args.words)?,
            Self::DataPlan => data::plan::run(),
            Self::GangPlan(args) => gang::plan::run(&args.words)?,
            Self::GangPolicies(args) => gang::policies::run(&args.words)?,
            Self::GangQuality(args) => gang::quality::run(&args.words)?,
            Self::GangRegret(args) => gang::regret::run(&args.words)?,
            Self::Pages { directory } => pages::run(directory)?,
            Self::Proof => proof::run(),
            Self::Simulate(_) | Self::Solve(_) => {}
            Self::Starts(args) => starts::run(&args.words)?,
            Self::Topology => topology::run(),
        }
        Ok(true)
    }
}
