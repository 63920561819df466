// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line `phalanx`.
//!
//! Arguments go through two steps: [`args`] is what was typed, [`resolve`]
//! makes it into one [`Action`](resolve::Action) with everything looked up
//! (which socket, which time). Then the action runs and its text goes out in
//! one piece: results to standard output, errors as one line to standard
//! error. [`Exit`] lists the exit codes.
#![forbid(unsafe_code)]

pub mod agent;
pub mod args;
mod check;
mod client;
pub mod collector;
pub mod doctor;
mod exit;
mod generate;
mod hdfs;
mod import;
mod json;
pub mod record;
mod recorded;
pub mod render;
pub mod replay;
mod resolve;
pub mod share;
pub mod simulate;
pub mod solve;
mod splits;
mod toml_page;
pub mod whatif;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use serde::de::DeserializeOwned;

pub use exit::{Exit, Failure};

use client::{Client, Method};
use phalanx_service::api::types::{
    EnergyReport, Explain, NodesReport, PlanReport, ReloadReport, RunsReport, ShadowReport,
    SpeedsReport, Status,
};
use resolve::Action;

/// Runs the command line with these arguments, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = match args::Cli::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&arguments, &error).into(),
    };
    let command = match parsed.command {
        args::Top::Solve(arguments) => return solve::run(&arguments),
        args::Top::Agent(arguments) => return agent::main(&parsed.global, &arguments),
        args::Top::Share(arguments) => return finish(share::run(&parsed.global, &arguments)),
        args::Top::Collector { command } => {
            return finish(collector::run(&parsed.global, command));
        }
        args::Top::Simulate(arguments) => return finish(simulate::run(&parsed.global, &arguments)),
        args::Top::Splits(arguments) => return finish(splits::run(&parsed.global, &arguments)),
        args::Top::Record { command } => return finish(record::run(&parsed.global, &command)),
        args::Top::Replay(arguments) => return finish(replay::run(&parsed.global, &arguments)),
        args::Top::WhatIf(arguments) => return finish(whatif::run(&parsed.global, &arguments)),
        args::Top::Hdfs(arguments) => return finish(hdfs::run(&parsed.global, &arguments)),
        args::Top::Command(command) => command,
    };
    finish(resolve::resolve(parsed.global, command).and_then(run))
}

/// Prints what came out, or one line of what went wrong.
fn finish(result: Result<Outcome, Failure>) -> ExitCode {
    let result = result.and_then(|outcome| print(&outcome.text).map(|()| outcome.exit));
    let exit = result.unwrap_or_else(|failure| {
        // Nothing can be done where standard error is closed.
        let _ = writeln!(std::io::stderr(), "phalanx: {}", failure.message);
        failure.exit
    });
    exit.into()
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
        // The first paragraph says what is wrong, the others how to do better.
        let said = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let line = said.collect::<Vec<_>>().join(" ");
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        let _ = writeln!(std::io::stderr(), "{program}{line}");
    } else if let Some(said) = text.strip_prefix("error: ") {
        let _ = write!(std::io::stderr(), "{program}{said}");
    } else {
        // Help, where a command is missing.
        let _ = error.print();
    }
    Exit::Usage
}

/// What a command prints and how it ends.
#[derive(Debug)]
struct Outcome {
    text: String,
    exit: Exit,
}

impl Outcome {
    fn ok(text: String) -> Outcome {
        Outcome { text, exit: Exit::Ok }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader (such as `head`) has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(Failure::new(Exit::Usage, format!("cannot write to standard output: {error}")))
        }
        Ok(()) => Ok(()),
    }
}

fn run(action: Action) -> Result<Outcome, Failure> {
    match action {
        Action::Check { file, json } => check::run(&file, json),
        Action::Doctor { conf, config, socket, json } => doctor::run(&conf, &config, &socket, json),
        Action::Generate { directory } => generate::run(&directory),
        Action::Status(ask) => get::<Status>(&ask, render::status::text),
        Action::Nodes(ask) => get::<NodesReport>(&ask, render::nodes::text),
        Action::Explain(ask) => get::<Explain>(&ask, render::explain::text),
        Action::Shadow(ask) => get::<ShadowReport>(&ask, render::shadow::text),
        Action::Plan(ask, false) => get::<PlanReport>(&ask, render::plan::text),
        Action::Plan(ask, true) => get::<PlanReport>(&ask, render::bags::text),
        Action::Reload(ask) => reload(&ask),
        Action::Speeds(ask) => get::<SpeedsReport>(&ask, render::history::speeds),
        Action::Energy(ask) => get::<EnergyReport>(&ask, render::bags::energy),
        Action::Runs(ask) => get::<RunsReport>(&ask, render::history::runs),
        Action::Import(import) => import::run(&import),
    }
}

/// Asks for a report and renders it, or passes its JSON on.
fn get<T: DeserializeOwned>(
    ask: &resolve::Ask,
    text: fn(&T) -> String,
) -> Result<Outcome, Failure> {
    let client = Client::new(&ask.masters);
    let reply = client.request(Method::Get, &ask.path)?;
    let body = reply.expect_success()?;
    let report: T = client.parse(body)?;
    if ask.json {
        return Ok(Outcome::ok(json::indent(body)));
    }
    Ok(Outcome::ok(text(&report)))
}

/// A refused configuration is an answer, whatever its HTTP status.
fn reload(ask: &resolve::Ask) -> Result<Outcome, Failure> {
    let client = Client::new(&ask.masters);
    let reply = client.request(Method::Post, &ask.path)?;
    let report: ReloadReport = match reply.try_parse() {
        Some(report) => report,
        None => client.parse(reply.expect_success()?)?,
    };
    let exit = if report.ok { Exit::Ok } else { Exit::Negative };
    if ask.json {
        return Ok(Outcome { text: json::indent(&reply.body), exit });
    }
    if report.ok {
        return Ok(Outcome::ok(render::reload::text(&report)));
    }
    let why = report.error.as_deref().unwrap_or("no reason given");
    let message = format!(
        "the new configuration was refused; generation {} stays in force\n{why}",
        report.generation
    );
    Err(Failure::new(Exit::Negative, message))
}
