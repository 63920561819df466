// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line `phalanx`.
//!
//! Each command is one module below `commands`: its arguments, what it does
//! and how its result reads. The other modules serve several of them. A
//! command's text goes out in one piece: results to standard output, errors as
//! one line to standard error. `exit` lists the exit codes.
#![forbid(unsafe_code)]

mod client;
mod command;
mod commands;
mod exit;
mod global;
mod hdfs;
mod outcome;
mod site;
mod slurm_conf;
mod text;
mod time;
mod topology;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use commands::{Cli, Command};
pub use commands::{simulate, solve};
pub use exit::{Exit, Failure};
pub use global::Global;
pub use outcome::Outcome;

/// Parts of this command line that other programs of Phalanx share.
pub mod common {
    pub use crate::exit::EXIT_CODES;
    pub use crate::hdfs::Access;
    pub use crate::run;
    pub use crate::site::own_node;
    pub use crate::text::clean;
    pub use crate::time::duration;
    pub use crate::{Exit, Failure, Global, Outcome};
}

/// The commands with their options, as help, manual pages and completion show them.
pub fn command() -> clap::Command {
    Cli::described()
}

/// Runs the command line with these arguments, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let exit = match Cli::parsed(&arguments) {
        Ok(cli) => {
            // An error of `solve` begins with the field of the problem.
            let is_solve = matches!(cli.command, Command::Solve(_));
            end(if is_solve { "" } else { "phalanx: " }, cli.command.run(&cli.global))
        }
        Err(error) => {
            let option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
            let command = arguments.iter().skip(1).find(|argument| !option(argument));
            let is = |name: &str| command.is_some_and(|command| command == name);
            let one_line = is("solve") || is("simulate");
            usage(if is("solve") { "" } else { "phalanx: " }, one_line, &error)
        }
    };
    exit.into()
}

/// Runs another program of Phalanx with the arguments of the process.
pub fn run<P: Parser>(name: &str, run: fn(&P) -> Result<Outcome, Failure>) -> ExitCode {
    let program = format!("{name}: ");
    let exit = match P::try_parse() {
        Ok(parsed) => end(&program, run(&parsed)),
        Err(error) => usage(&program, false, &error),
    };
    exit.into()
}

/// Prints a result, or an error in one line behind `program`.
pub fn end(program: &str, result: Result<Outcome, Failure>) -> Exit {
    result.and_then(|outcome| outcome.print()).unwrap_or_else(|Failure { exit, message }| {
        // Nothing can be done where standard error is closed.
        let _ = writeln!(std::io::stderr(), "{program}{message}");
        exit
    })
}

/// Prints what clap says: help and version, which are no errors, and errors after the program's
/// name, in one line where the command's other errors are one line.
fn usage(program: &str, one_line: bool, error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    if one_line {
        return in_one_line(program, error);
    }
    let text = error.render().to_string();
    if let Some(said) = text.strip_prefix("error: ") {
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
