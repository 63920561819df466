// SPDX-License-Identifier: GPL-3.0-or-later
//! The resources of the data service: registrations, values, agents, and the data that methods use.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::backend::{Backend, DataService, PastQuery, UseQuery};
use super::extract::{Arg, Body, Params};
use super::handler::{Change, Read, Shared};
use super::peer::Peer;
use crate::failure::Failure;
use phalanx_core::limits::COLLECT_HOLD_MS_MAX;
use phalanx_messages::collect::{
    Batch, DataReport, Patch, PutOne, Registration, SyncRequest, UseChange,
};

/// Query of `GET /v1/data/{name}`, and of starting and stopping
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesQuery {
    nodes: Option<String>,
}

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/collectors", get(read(|s, ()| Ok(s.collectors()))).post(add))
        .route(
            "/v1/collectors/{name}",
            get(read(|s, Arg(name): Arg<String>| s.collector(&name)))
                .patch(change(|s, Arg(name): Arg<String>, Body(patch)| {
                    s.update_collector(&name, patch)
                }))
                .delete(change(|s, Arg(name): Arg<String>, _: Request| s.remove_collector(&name))),
        )
        .route(
            "/v1/collectors/{name}/start",
            post(change(|s, named: OnNodes, _: Request| switch(s, named, true))),
        )
        .route(
            "/v1/collectors/{name}/stop",
            post(change(|s, named: OnNodes, _: Request| switch(s, named, false))),
        )
        .route(
            "/v1/data",
            get(read(|s, ()| Ok(s.data_names())))
                .post(change(|s, (), Body(batch): Body<Batch>| s.store(&batch))),
        )
        .route(
            "/v1/data/{name}",
            get(read(|s, (Arg(name), Params(query)): (Arg<String>, Params<NodesQuery>)| {
                s.data(&name, query.nodes.as_deref())
            })),
        )
        .route("/v1/data/{name}/{node}", get(read(data_of_node)).put(store_one))
        .route(
            "/v1/data/{name}/{node}/history",
            get(read(|s, (Arg((name, node)), Params(query)): (OfNode, Params<PastQuery>)| {
                s.past(&name, &node, &query)
            })),
        )
        .route("/v1/agents", get(read(|s, ()| Ok(s.agents()))))
        .route("/v1/agents/{node}/sync", post(sync))
        .route("/v1/use", get(read(|s, ()| Ok(s.uses()))))
        .route(
            "/v1/use/{key}",
            get(read(|s, (Arg(key), Params(query)): (Arg<String>, Params<UseQuery>)| {
                s.used(&key, &query)
            }))
            .put(change(|s, Arg(key): Arg<String>, Body(choice)| choose(s, &key, Some(choice))))
            .delete(change(|s, Arg(key): Arg<String>, _: Request| choose(s, &key, None))),
        )
}

type OnNodes = (Arg<String>, Params<NodesQuery>);
type OfNode = Arg<(String, String)>;

/// Returns the service, if it is switched on.
fn service(backend: &dyn Backend) -> Result<&dyn DataService, Failure> {
    backend
        .data_service()
        .ok_or_else(|| Failure::Unavailable("there is no data service here".to_owned()))
}

fn read<A, T, F>(
    ask: F,
) -> Read<impl FnOnce(&dyn Backend, A) -> Result<T, Failure> + Clone + Send + Sync + 'static>
where
    F: FnOnce(&dyn DataService, A) -> Result<T, Failure> + Clone + Send + Sync + 'static,
{
    super::handler::read(move |backend: &dyn Backend, args| ask(service(backend)?, args))
}

fn change<A, C, T, F>(
    make: F,
) -> Change<impl FnOnce(&dyn Backend, A, C) -> Result<T, Failure> + Clone + Send + Sync + 'static>
where
    F: FnOnce(&dyn DataService, A, C) -> Result<T, Failure> + Clone + Send + Sync + 'static,
{
    super::handler::change(move |backend: &dyn Backend, args, body| {
        make(service(backend)?, args, body)
    })
}

async fn add(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let add = change(|s, (), Body(patch): Body<Patch>| s.add_collector(patch));
    let mut response = add.call(request, shared).await;
    if response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    response
}

fn switch(
    service: &dyn DataService,
    (Arg(name), Params(query)): OnNodes,
    run: bool,
) -> Result<Registration, Failure> {
    service.switch_collector(&name, query.nodes.as_deref(), run)
}

fn choose(
    service: &dyn DataService,
    key: &str,
    choice: Option<UseChange>,
) -> Result<phalanx_messages::collect::UsesReport, Failure> {
    service.choose(key, choice)?;
    Ok(service.uses())
}

fn data_of_node(
    service: &dyn DataService,
    Arg((name, node)): OfNode,
) -> Result<DataReport, Failure> {
    let report = service.data(&name, Some(&node))?;
    if report.values.is_empty() {
        return Err(Failure::NotFound(format!("data {name} of {node}: there is none")));
    }
    Ok(report)
}

async fn store_one(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg((name, node)): OfNode,
    body: Result<Body<PutOne>, Response>,
) -> Response {
    if let Some(refused) = shared.no_agent(peer) {
        return refused;
    }
    let admin = shared.access.may_change(peer);
    match body {
        Ok(Body(put)) => {
            shared.answer(peer, move |b| service(b)?.store_one(&name, &node, put, admin)).await
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
        if !self.done
            && let Some(service) = self.shared.backend.data_service()
        {
            service.lost(&self.node, self.turn);
        }
    }
}

/// Takes an agent's values at once; the answer waits for new assignments or the end of its time.
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
    let begun = service(&*shared.backend)
        .and_then(|service| Ok((service.begin_sync(&node, &ask)?, service.generations())));
    let ((turn, refused), mut generations) = match begun {
        Ok(begun) => begun,
        Err(failure) => return failure.into_response(),
    };
    let mut stop = shared.stop.clone();
    let mut held = Held { shared, node, turn, done: false };
    tokio::select! {
        // An error means that the sender is gone: the daemon stops.
        _ = generations.wait_for(|generation| *generation != ask.generation) => {}
        _ = stop.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(Duration::from_millis(ask.wait_ms.min(COLLECT_HOLD_MS_MAX))) => {}
    }
    held.done = true;
    match service(&*held.shared.backend) {
        Ok(service) => Json(service.end_sync(&held.node, ask.generation, refused)).into_response(),
        Err(failure) => failure.into_response(),
    }
}
