// SPDX-License-Identifier: GPL-3.0-or-later
//! The resources of the data service: registrations, values, agents, and the data that methods use.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{ConnectInfo, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde::Deserialize;

use super::backend::Backend;
use super::extract::{Arg, Body, Params};
use super::handler::{Shared, change, read, resources};
use super::peer::Peer;
use crate::collect::{Collect, Now, Sender};
use crate::failure::Failure;
use phalanx_core::hostlist;
use phalanx_core::limits::{COLLECT_HOLD_MS_MAX, COLLECT_POINTS_MAX, NODES_MAX};
#[cfg(test)]
use phalanx_messages::collect::SyncReply;
use phalanx_messages::collect::{
    Batch, DataReport, MASTER, Past, Patch, Put, PutOne, Registration, Stored, SyncRequest,
    UseChange, UsedValues, UsesReport,
};

/// Number of past values in an answer by default.
const POINTS: usize = 1000;

/// Query of `GET /v1/data/{name}`, and of starting and stopping
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct NodesQuery {
    /// Hostlist; absent: all.
    nodes: Option<String>,
}

/// Query of `GET /v1/data/{name}/{node}/history`
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct PastQuery {
    /// Earliest receipt, unix milliseconds.
    since_ms: Option<u64>,
    /// Latest receipt, unix milliseconds.
    until_ms: Option<u64>,
    /// Most points, the newest.
    #[cfg_attr(test, schemars(range(min = 1, max = COLLECT_POINTS_MAX)))]
    limit: Option<usize>,
}

/// Query of `GET /v1/use/{key}`
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct UseQuery {
    /// Hostlist; absent: every node of the cluster.
    nodes: Option<String>,
    /// Datum to use instead of the one in force.
    name: Option<String>,
}

resources! {
    GET "/v1/collectors" collectors => read(|b, ()| Ok(b.collect().collectors(Now::read())));
    POST "/v1/collectors" addCollector (Body<New>) -> Registration => add;
    GET "/v1/collectors/{name}" collector =>
        read(|b, Arg(name): Arg<String>| b.collect().collector(&name, Now::read()));
    PATCH "/v1/collectors/{name}" updateCollector =>
        change(|b, Arg(name): Arg<String>, Body(patch)| {
            b.collect().update(&name, patch, Now::read())
        });
    DELETE "/v1/collectors/{name}" removeCollector =>
        change(|b, Arg(name): Arg<String>, _: Request| b.collect().remove(&name));
    POST "/v1/collectors/{name}/start" startCollector =>
        change(|b, named: OnNodes, _: Request| switch(b.collect(), named, true));
    POST "/v1/collectors/{name}/stop" stopCollector =>
        change(|b, named: OnNodes, _: Request| switch(b.collect(), named, false));
    GET "/v1/data" dataNames => read(|b, ()| Ok(b.collect().names(Now::read())));
    POST "/v1/data" store =>
        change(|b, (), Body(batch): Body<Batch>| b.collect().store_batch(&batch, Now::read()));
    GET "/v1/data/{name}" data => read(|b, (Arg(name), Params(query)): OnNodes| {
        data(b.collect(), &name, query.nodes)
    });
    GET "/v1/data/{name}/{node}" dataOfNode =>
        read(|b, of: OfNode| data_of_node(b.collect(), of));
    PUT "/v1/data/{name}/{node}" storeOne (OfNode, Body<PutOne>) -> Stored => store_one;
    GET "/v1/data/{name}/{node}/history" past => read(|b, ask| past(b.collect(), ask));
    GET "/v1/agents" agents => read(|b, ()| Ok(b.collect().agents(Now::read())));
    POST "/v1/agents/{node}/sync" sync (Arg<String>, Body<SyncRequest>) -> SyncReply => sync;
    GET "/v1/use" uses => read(|b, ()| Ok(b.collect().uses(Now::read())));
    GET "/v1/use/{key}" used => read(used);
    PUT "/v1/use/{key}" choose => change(|b, Arg(key): Arg<String>, Body(choice)| {
        choose(b.collect(), &key, Some(choice))
    });
    DELETE "/v1/use/{key}" unchoose =>
        change(|b, Arg(key): Arg<String>, _: Request| choose(b.collect(), &key, None));
}

/// A registration that does not exist yet.
#[derive(Deserialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("required" = ["name", "cmd"])))]
struct New(Patch);

type OnNodes = (Arg<String>, Params<NodesQuery>);
type OfNode = Arg<(String, String)>;

async fn add(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let add = change(|b, (), Body(New(patch))| b.collect().add(patch, Now::read()));
    let mut response = add.call(request, shared).await;
    if response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    response
}

fn switch(
    collect: &Collect,
    (Arg(name), Params(query)): OnNodes,
    run: bool,
) -> Result<Registration, Failure> {
    collect.switch(&name, query.nodes.as_deref(), run, Now::read())
}

fn choose(collect: &Collect, key: &str, choice: Option<UseChange>) -> Result<UsesReport, Failure> {
    collect.choose(key, choice)?;
    Ok(collect.uses(Now::read()))
}

/// Expands the hostlist of a query.
fn expand(nodes: &str) -> Result<Vec<String>, Failure> {
    hostlist::expand(nodes, NODES_MAX)
        .map_err(|error| Failure::BadRequest(format!("nodes: {error}")))
}

fn data(collect: &Collect, name: &str, nodes: Option<String>) -> Result<DataReport, Failure> {
    // The pseudo nodes are no hostlist.
    let expand = |nodes: String| match nodes.starts_with('@') {
        true => Ok(vec![nodes]),
        false => expand(&nodes),
    };
    let nodes = nodes.map(expand).transpose()?;
    collect.data(name, nodes.as_deref(), Now::read())
}

fn data_of_node(collect: &Collect, Arg((name, node)): OfNode) -> Result<DataReport, Failure> {
    let none = Failure::NotFound(format!("data {name} of {node}: there is none"));
    let report = data(collect, &name, Some(node))?;
    if report.values.is_empty() { Err(none) } else { Ok(report) }
}

fn past(
    collect: &Collect,
    (Arg((name, node)), Params(ask)): (OfNode, Params<PastQuery>),
) -> Result<Past, Failure> {
    let period = (ask.since_ms.unwrap_or(0), ask.until_ms.unwrap_or(u64::MAX));
    let limit = ask.limit.unwrap_or(POINTS);
    if !(1..=COLLECT_POINTS_MAX).contains(&limit) {
        let text = format!("limit: expected 1 to {COLLECT_POINTS_MAX}, got {limit}");
        return Err(Failure::BadRequest(text));
    }
    collect.past((&name, &node), period, limit)
}

fn used(
    backend: &dyn Backend,
    (Arg(key), Params(ask)): (Arg<String>, Params<UseQuery>),
) -> Result<UsedValues, Failure> {
    let nodes = ask.nodes.as_deref().map(expand).transpose()?;
    backend.used(&key, nodes, ask.name.as_deref())
}

/// Stores a value of a node, by the node's agent or an administrator.
fn put_one(
    collect: &Collect,
    (name, node): (String, String),
    PutOne { value, time_ms, age_ms }: PutOne,
    admin: bool,
) -> Result<Stored, Failure> {
    let put = Put { name, node: Some(node.clone()), value, time_ms, age_ms };
    let from = if admin { Sender::Admin } else { Sender::Agent(&node) };
    let mut stored = collect.store(&[put], from, Now::read());
    match stored.refused.pop() {
        Some(refused) => Err(Failure::BadRequest(refused.reason)),
        None => Ok(stored),
    }
}

async fn store_one(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg(named): OfNode,
    body: Result<Body<PutOne>, Response>,
) -> Response {
    if let Some(refused) = shared.no_agent(peer) {
        return refused;
    }
    let admin = shared.access.may_change(peer);
    match body {
        Ok(Body(put)) => {
            let ask = move |b: &dyn Backend| put_one(b.collect(), named, put, admin);
            shared.answer(peer, ask).await
        }
        Err(response) => response,
    }
}

/// A held answer. Dropped before it is done, as the connection broke, it reports the agent lost.
struct Held {
    shared: Arc<Shared>,
    node: String,
    turn: u64,
    done: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.done {
            self.shared.backend.collect().lost(&self.node, self.turn, Now::read());
        }
    }
}

/// Takes an agent's values at once; the answer waits for new assignments or until its time ends.
async fn sync(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg(node): Arg<String>,
    body: Result<Body<SyncRequest>, Response>,
) -> Response {
    if let Some(refused) = shared.no_agent(peer) {
        return refused;
    }
    let Body(ask) = match body {
        Ok(ask) => ask,
        Err(response) => return response,
    };
    // Credentials over TCP name a user, not a host.
    if node.starts_with('@') && (node != MASTER || peer.remote) {
        return Failure::BadRequest(format!("{node}: no node has that name")).into_response();
    }
    let collect = shared.backend.collect();
    let (turn, refused) = match collect.begin_sync(&node, &ask, Now::read()) {
        Ok(begun) => begun,
        Err(failure) => return failure.into_response(),
    };
    let mut generations = collect.generations();
    let mut stop = shared.stop.clone();
    let mut held = Held { shared, node, turn, done: false };
    tokio::select! {
        // An error means that the sender is gone: the daemon stops.
        _ = generations.wait_for(|generation| *generation != ask.generation) => {}
        _ = stop.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(Duration::from_millis(ask.wait_ms.min(COLLECT_HOLD_MS_MAX))) => {}
    }
    held.done = true;
    let collect = held.shared.backend.collect();
    Json(collect.end_sync(&held.node, ask.generation, refused, Now::read())).into_response()
}
