// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx collector`: what is registered with the data service, its values,
//! and which of them the methods use.

mod how;
mod render;

use clap::Subcommand;
use serde::Serialize;

use crate::client::Method;
use crate::exit::{EXIT_CODES, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use how::How;
use phalanx_core::text::percent_encode;
use phalanx_messages::collect::{Patch, Registration, UseChange, valid_name};

/// Register programs that measure the nodes, and see what they give
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    /// Let it run again, everywhere or on some nodes
    #[command(after_help = EXIT_CODES)]
    Start {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
        /// On these nodes only, as a hostlist
        #[arg(long, value_name = "HOSTLIST")]
        nodes: Option<String>,
    },
    /// Stop running it, everywhere or on some nodes; its values grow stale
    #[command(after_help = EXIT_CODES)]
    Stop {
        /// Name of the datum
        #[arg(value_name = "NAME")]
        name: String,
        /// On these nodes only, as a hostlist
        #[arg(long, value_name = "HOSTLIST")]
        nodes: Option<String>,
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

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let of = |name: &str| part(name).map(|name| format!("/v1/collectors/{name}"));
        match &self.command {
            Command::Add { name, cmd, how } => {
                let patch = how.clone().patch(Some(name.clone()), Some(cmd.clone()));
                change(global, Method::Post, "/v1/collectors", Some(&patch), "registered")
            }
            Command::Update { name, cmd, how } => {
                let patch = how.clone().patch(None, cmd.clone());
                if patch == Patch::default() {
                    let text = "nothing to change: give an option; see --help";
                    return Err(Failure::usage(text));
                }
                change(global, Method::Patch, &of(name)?, Some(&patch), "updated")
            }
            Command::List { name: None } => global.report("/v1/collectors", render::list),
            Command::List { name: Some(name) } => global.report(&of(name)?, render::one),
            Command::Remove { name } => {
                change(global, Method::Delete, &of(name)?, None::<&()>, "removed")
            }
            Command::Start { name, nodes } => {
                let path = of(name)? + "/start" + &on(nodes);
                change(global, Method::Post, &path, None::<&()>, "started")
            }
            Command::Stop { name, nodes } => {
                let path = of(name)? + "/stop" + &on(nodes);
                change(global, Method::Post, &path, None::<&()>, "stopped")
            }
            Command::Data { name: None, .. } => global.report("/v1/data", render::names),
            Command::Data { name: Some(name), nodes } => {
                let path = format!("/v1/data/{}{}", part(name)?, on(nodes));
                global.report(&path, render::data)
            }
            Command::Use { key: None, .. } => global.report("/v1/use", render::uses),
            Command::Use { key: Some(key), name: None, reset: false, .. } => {
                let path = format!("/v1/use/{}", part(key)?);
                global.report(&path, render::used)
            }
            Command::Use { key: Some(key), name, fallback, .. } => {
                let path = format!("/v1/use/{}", part(key)?);
                let change =
                    name.clone().map(|name| UseChange { name, fallback: fallback.clone() });
                let method = if change.is_some() { Method::Put } else { Method::Delete };
                global.exchange(method, &path, change.as_ref(), render::uses)
            }
        }
    }
}

/// Changes a registration.
fn change(
    global: &Global,
    method: Method,
    path: &str,
    body: Option<&impl Serialize>,
    done: &str,
) -> Result<Outcome, Failure> {
    global.exchange(method, path, body, |made: &Registration| {
        format!("{done} {}, version {}\n", made.name, made.version)
    })
}

/// The query of some nodes.
fn on(nodes: &Option<String>) -> String {
    let nodes = nodes.as_ref().map(|nodes| format!("?nodes={}", percent_encode(nodes)));
    nodes.unwrap_or_default()
}

/// A name as a part of a path.
fn part(name: &str) -> Result<&str, Failure> {
    if valid_name(name) {
        return Ok(name);
    }
    Err(Failure::usage(format!("{name:?}: expected the name of a datum")))
}
