// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx collector`: what is registered with the data service, its values,
//! and which of them the methods use.

use clap::{Args, Subcommand, ValueEnum};
use jiff::SignedDuration;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::Global;
use super::client::{Client, Method};
use super::exit::{EXIT_CODES, Exit, Failure};
use super::{Outcome, json, render, resolve};
use phalanx_core::collect::{
    CollectorReport, CollectorsReport, DataNames, DataReport, Kind, Output, Patch, Registration,
    UseChange, UsedValues, UsesReport, ValueType, valid_name,
};

/// Commands of `phalanx collector`.
#[derive(Clone, Debug, Subcommand)]
pub enum CollectorCommand {
    /// Register a program that makes a datum
    #[command(after_help = EXIT_CODES)]
    Add {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
        /// Program in one of [collect] command_dirs, or builtin:NAME
        #[arg(long, value_name = "PATH")]
        cmd: String,
        /// How it runs
        #[command(flatten)]
        how: How,
    },
    /// Change a registration: what is not given stays
    #[command(after_help = EXIT_CODES)]
    Update {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
        /// Program in one of [collect] command_dirs, or builtin:NAME
        #[arg(long, value_name = "PATH")]
        cmd: Option<String>,
        /// How it runs
        #[command(flatten)]
        how: How,
    },
    /// List what is registered, with its state; with NAME, each of its nodes
    #[command(after_help = EXIT_CODES)]
    List {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Forget a registration and its latest values
    #[command(after_help = EXIT_CODES)]
    Remove {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Let it run again
    #[command(after_help = EXIT_CODES)]
    Start {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Stop running it; its values grow stale
    #[command(after_help = EXIT_CODES)]
    Stop {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show which data there are, or the latest values of one
    #[command(after_help = EXIT_CODES)]
    Data {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Of these nodes only, as a hostlist
        #[arg(long, value_name = "HOSTLIST", requires = "name")]
        nodes: Option<String>,
    },
    /// Show which data the methods use, or switch one
    #[command(after_help = EXIT_CODES)]
    Use {
        /// What uses it, such as share.capability
        #[arg(value_name = "KEY")]
        key: Option<String>,
        /// Name of the datum, or a word that the key knows instead, such as
        /// `configuration`; without it: what each node counts as now
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What stands in where it is stale
        #[arg(long, value_name = "NAME", requires = "name")]
        fallback: Option<String>,
        /// Go back to the configuration
        #[arg(long, requires = "key", conflicts_with = "name")]
        reset: bool,
    },
}

/// How a registered program runs.
#[derive(Clone, Debug, Default, Args)]
pub struct How {
    /// Time between two runs, such as 500ms, 30s, 5m [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    every: Option<u64>,
    /// Longest run [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    timeout: Option<u64>,
    /// Whether it measures, or computes from its inputs [default: collector]
    #[arg(long, value_enum)]
    kind: Option<KindWord>,
    /// Where it runs: all, a hostlist, or @master [default: all]
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Data that a processor reads
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    inputs: Option<Vec<String>>,
    /// Run on so many of the nodes; 0: on each [default: 0]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// An argument of the program; may be given several times
    #[arg(long = "arg", value_name = "TEXT", allow_hyphen_values = true)]
    args: Option<Vec<String>>,
    /// User to run as [default: [collect] run_as]
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
    /// One value, or lines NODE VALUE (with --nodes @master) [default: value]
    #[arg(long, value_enum)]
    output: Option<OutputWord>,
    /// Type of the value [default: number]
    #[arg(long = "type", value_enum)]
    value_type: Option<TypeWord>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindWord {
    Collector,
    Processor,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputWord {
    Value,
    Nodes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypeWord {
    Number,
    Text,
}

/// A duration in milliseconds; a number alone is seconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a time such as 500ms, 30s or 5m, got {text:?}");
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000).ok_or_else(expected);
    }
    let duration: SignedDuration = text.parse().map_err(|_| expected())?;
    u64::try_from(duration.as_millis()).map_err(|_| expected())
}

impl How {
    fn patch(self, name: Option<String>, cmd: Option<String>) -> Patch {
        Patch {
            name,
            cmd,
            kind: self.kind.map(|kind| match kind {
                KindWord::Collector => Kind::Collector,
                KindWord::Processor => Kind::Processor,
            }),
            args: self.args,
            every_ms: self.every,
            timeout_ms: self.timeout,
            nodes: self.nodes,
            inputs: self.inputs,
            replicas: self.replicas,
            run_as: self.run_as,
            output: self.output.map(|output| match output {
                OutputWord::Value => Output::Value,
                OutputWord::Nodes => Output::Nodes,
            }),
            value_type: self.value_type.map(|value_type| match value_type {
                TypeWord::Number => ValueType::Number,
                TypeWord::Text => ValueType::Text,
            }),
            enabled: None,
        }
    }
}

/// One request and how its answer is shown.
struct Asking {
    client: Client,
    json: bool,
}

impl Asking {
    fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        text: impl FnOnce(&T) -> String,
    ) -> Result<Outcome, Failure> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        let reply = self.client.send(method, path, body)?;
        let body = reply.expect_success()?;
        let report: T = self.client.parse(body)?;
        Ok(Outcome::ok(if self.json { json::indent(body) } else { text(&report) }))
    }

    fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        text: fn(&T) -> String,
    ) -> Result<Outcome, Failure> {
        self.ask(Method::Get, path, None::<&()>, text)
    }

    fn change(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        done: &str,
    ) -> Result<Outcome, Failure> {
        self.ask(method, path, body, |made: &Registration| {
            format!("{done} {}, version {}\n", made.name, made.version)
        })
    }
}

/// # Errors
/// What the daemon refuses, or a name that cannot be one.
pub(super) fn run(global: &Global, command: CollectorCommand) -> Result<Outcome, Failure> {
    let client = Client::new(&resolve::masters(global)?);
    let ask = Asking { client, json: global.json };
    let of = |name: &str| part(name).map(|name| format!("/v1/collectors/{name}"));
    match command {
        CollectorCommand::Add { name, cmd, how } => {
            let patch = how.patch(Some(name), Some(cmd));
            ask.change(Method::Post, "/v1/collectors", Some(&patch), "registered")
        }
        CollectorCommand::Update { name, cmd, how } => {
            let patch = how.patch(None, cmd);
            if patch == Patch::default() {
                let text = "nothing to change: give an option; see --help";
                return Err(Failure::new(Exit::Usage, text));
            }
            ask.change(Method::Patch, &of(&name)?, Some(&patch), "updated")
        }
        CollectorCommand::List { name: None } => {
            ask.get::<CollectorsReport>("/v1/collectors", render::collectors::list)
        }
        CollectorCommand::List { name: Some(name) } => {
            ask.get::<CollectorReport>(&of(&name)?, render::collectors::one)
        }
        CollectorCommand::Remove { name } => {
            ask.change(Method::Delete, &of(&name)?, None::<&()>, "removed")
        }
        CollectorCommand::Start { name } => {
            ask.change(Method::Post, &(of(&name)? + "/start"), None::<&()>, "started")
        }
        CollectorCommand::Stop { name } => {
            ask.change(Method::Post, &(of(&name)? + "/stop"), None::<&()>, "stopped")
        }
        CollectorCommand::Data { name: None, .. } => {
            ask.get::<DataNames>("/v1/data", render::collectors::names)
        }
        CollectorCommand::Data { name: Some(name), nodes } => {
            let query = nodes.map(|nodes| format!("?nodes={}", escape(&nodes)));
            let path = format!("/v1/data/{}{}", part(&name)?, query.unwrap_or_default());
            ask.get::<DataReport>(&path, render::collectors::data)
        }
        CollectorCommand::Use { key: None, .. } => {
            ask.get::<UsesReport>("/v1/use", render::collectors::uses)
        }
        CollectorCommand::Use { key: Some(key), name: None, reset: false, .. } => {
            let path = format!("/v1/use/{}", part(&key)?);
            ask.get::<UsedValues>(&path, render::collectors::used)
        }
        CollectorCommand::Use { key: Some(key), name, fallback, .. } => {
            let path = format!("/v1/use/{}", part(&key)?);
            let change = name.map(|name| UseChange { name, fallback });
            let method = if change.is_some() { Method::Put } else { Method::Delete };
            ask.ask(method, &path, change.as_ref(), render::collectors::uses)
        }
    }
}

/// A name as a part of a path.
fn part(name: &str) -> Result<&str, Failure> {
    if valid_name(name) {
        return Ok(name);
    }
    Err(Failure::new(Exit::Usage, format!("{name:?}: expected the name of a datum")))
}

/// Percent encoding of all that is not plain in a query.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_usual_forms() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2", 2000)] {
            assert_eq!(milliseconds(text), Ok(ms), "{text}");
        }
        for text in ["", "x", "-1s", "1.5", "99999999999999999999"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
        assert_eq!(escape("n[1-2],x&y"), "n%5B1-2%5D,x%26y");
    }
}
