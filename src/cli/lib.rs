// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line `phalanx`.
//!
//! Each command is one module below `commands`: its arguments, what it does
//! and how its result reads. The other modules serve several of them. A
//! command's text goes out in one piece: results to standard output, errors as
//! one line to standard error. `exit` lists the exit codes.
#![forbid(unsafe_code)]

mod client;
mod commands;
mod exit;
mod global;
mod hdfs;
mod json;
mod outcome;
mod slurm_conf;
mod text;
mod time;
mod topology;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use commands::simulate;
use commands::{Cli, Command};
pub use exit::{Exit, Failure};
pub use global::Global;
pub use outcome::Outcome;

/// The commands with their options, as help, manual pages and completion show them.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line with these arguments, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let exit = match Cli::try_parse_from(&arguments) {
        Ok(cli) => run(&cli),
        Err(error) => usage(&arguments, &error),
    };
    exit.into()
}

/// Prints the result, or one line of what went wrong: for `solve` it begins with the field.
fn run(cli: &Cli) -> Exit {
    let program = if matches!(cli.command, Command::Solve(_)) { "" } else { "phalanx: " };
    end(program, cli.command.run(&cli.global))
}

/// Prints a result, or what went wrong in one line behind `program`.
pub fn end(program: &str, result: Result<Outcome, Failure>) -> Exit {
    result.and_then(|outcome| outcome.print()).unwrap_or_else(|Failure { exit, message }| {
        // Nothing can be done where standard error is closed.
        let _ = writeln!(std::io::stderr(), "{program}{message}");
        exit
    })
}

/// Prints what clap says: help and version, which are no errors, and errors
/// under the program's name; for `solve` and `simulate` these are one line, as
/// their other errors are, which `solve` begins with the field.
fn usage(arguments: &[OsString], error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    let option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
    let command = arguments.iter().skip(1).find(|argument| !option(argument));
    let is = |name: &str| command.is_some_and(|command| command == name);
    let text = error.render().to_string();
    let program = if is("solve") { "" } else { "phalanx: " };
    if is("solve") || is("simulate") {
        return in_one_line(program, error);
    } else if let Some(said) = text.strip_prefix("error: ") {
        let _ = write!(std::io::stderr(), "{program}{said}");
    } else {
        // Help, where a command is missing.
        let _ = error.print();
    }
    Exit::Usage
}

/// Prints what is wrong with arguments in one line behind `program`.
pub fn in_one_line(program: &str, error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    // The first paragraph says what is wrong, the others how to do better.
    let said = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let line = said.collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let _ = writeln!(std::io::stderr(), "{program}{line}");
    Exit::Usage
}
