// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx collector`: programs registered with the data service, their values, which of them
//! the methods use, and the agent of a node.

mod agent;
mod how;
mod render;

pub use agent::servers;

use serde::Serialize;

use crate::client::Method;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use how::How;
use phalanx_core::text::percent_encode;
use phalanx_messages::collect::{Patch, Registration, UseChange, valid_name};

group! {
    /// Register programs that measure the nodes, show their values, and run them on a node
    Add(Add),
    Update(Update),
    List(List),
    Remove(Remove),
    Start(Start),
    Stop(Stop),
    Data(Data),
    Use(Use),
    Agent(agent::Args),
}

/// Register a program that makes a datum
#[derive(clap::Args, Debug)]
pub struct Add {
    /// Name of the datum
    #[arg(value_name = "NAME")]
    name: String,
    /// Program in one of [collect] command_dirs, or builtin:NAME
    #[arg(long, value_name = "PATH")]
    cmd: String,
    #[command(flatten)]
    how: How,
}

/// Change a registration: options not given stay as they are
#[derive(clap::Args, Debug)]
pub struct Update {
    /// Name of the datum
    #[arg(value_name = "NAME")]
    name: String,
    /// Program in one of [collect] command_dirs, or builtin:NAME
    #[arg(long, value_name = "PATH")]
    cmd: Option<String>,
    #[command(flatten)]
    how: How,
}

/// List registered programs with their state; with NAME, each of its nodes
#[derive(clap::Args, Debug)]
pub struct List {
    /// Name of the datum
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Delete a registration and its latest values
#[derive(clap::Args, Debug)]
pub struct Remove {
    /// Name of the datum
    #[arg(value_name = "NAME")]
    name: String,
}

/// Run a stopped program again, everywhere or on some nodes
#[derive(clap::Args, Debug)]
pub struct Start {
    #[command(flatten)]
    at: At,
}

/// Stop running a program, everywhere or on some nodes; its values grow stale
#[derive(clap::Args, Debug)]
pub struct Stop {
    #[command(flatten)]
    at: At,
}

/// Datum and nodes of a program to start or stop.
#[derive(clap::Args, Debug)]
struct At {
    /// Name of the datum
    #[arg(value_name = "NAME")]
    name: String,
    /// Only on these nodes, as a hostlist
    #[arg(long, value_name = "HOSTLIST")]
    nodes: Option<String>,
}

/// Show which data there are, or the latest values of one
#[derive(clap::Args, Debug)]
pub struct Data {
    /// Name of the datum
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Only of these nodes, as a hostlist
    #[arg(long, value_name = "HOSTLIST", requires = "name")]
    nodes: Option<String>,
}

/// Show which data the methods use, or switch one
#[derive(clap::Args, Debug)]
pub struct Use {
    /// Key of the use, such as share.capability
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Name of the datum, or a word that the key knows instead, such as `configuration`; without
    /// it: the value of each node in use now
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Datum used for nodes whose value is stale
    #[arg(long, value_name = "NAME", requires = "name")]
    fallback: Option<String>,
    /// Go back to the configuration
    #[arg(long, requires = "key", conflicts_with = "name")]
    reset: bool,
}

impl Add {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let patch = self.how.clone().patch(Some(self.name.clone()), Some(self.cmd.clone()));
        change(global, Method::POST, "/v1/collectors", Some(&patch), "registered")
    }
}

impl Update {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let patch = self.how.clone().patch(None, self.cmd.clone());
        if patch == Patch::default() {
            return Err(Failure::usage("nothing to change: give an option; see --help"));
        }
        change(global, Method::PATCH, &path_of(&self.name)?, Some(&patch), "updated")
    }
}

impl List {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        match &self.name {
            None => global.report("/v1/collectors", render::list),
            Some(name) => global.report(&path_of(name)?, render::one),
        }
    }
}

impl Remove {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        change(global, Method::DELETE, &path_of(&self.name)?, None::<&()>, "removed")
    }
}

impl Start {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let path = path_of(&self.at.name)? + "/start" + &on(&self.at.nodes);
        change(global, Method::POST, &path, None::<&()>, "started")
    }
}

impl Stop {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let path = path_of(&self.at.name)? + "/stop" + &on(&self.at.nodes);
        change(global, Method::POST, &path, None::<&()>, "stopped")
    }
}

impl Data {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        match &self.name {
            None => global.report("/v1/data", render::names),
            Some(name) => {
                let path = format!("/v1/data/{}{}", part(name)?, on(&self.nodes));
                global.report(&path, render::data)
            }
        }
    }
}

impl Use {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let Some(key) = &self.key else { return global.report("/v1/use", render::uses) };
        let path = format!("/v1/use/{}", part(key)?);
        let fallback = self.fallback.clone();
        match &self.name {
            None if self.reset => global.exchange(Method::DELETE, &path, None::<&()>, render::uses),
            None => global.report(&path, render::used),
            Some(name) => {
                let change = UseChange { name: name.clone(), fallback };
                global.exchange(Method::PUT, &path, Some(&change), render::uses)
            }
        }
    }
}

/// Returns the path of a registration in the daemon's interface.
fn path_of(name: &str) -> Result<String, Failure> {
    part(name).map(|name| format!("/v1/collectors/{name}"))
}

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

/// Returns the query string `?nodes=HOSTLIST`, or nothing where no nodes are named.
fn on(nodes: &Option<String>) -> String {
    let nodes = nodes.as_ref().map(|nodes| format!("?nodes={}", percent_encode(nodes)));
    nodes.unwrap_or_default()
}

/// Checks a name that becomes a part of a path.
fn part(name: &str) -> Result<&str, Failure> {
    if valid_name(name) {
        return Ok(name);
    }
    Err(Failure::usage(format!("{name:?}: expected the name of a datum")))
}
