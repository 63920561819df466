// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service over HTTP: registrations, values, agents, and what methods
//! use.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use tokio::sync::watch;

use super::extract::{Arg, Ask, Body, error};
use super::server::{Backend, Ctx, Failure, Peer, Shared, answer, change, read};
use phalanx_core::collect::{
    AgentsReport, Batch, CollectorReport, CollectorsReport, DataNames, DataReport, Past, Patch,
    PutOne, Refused, Registration, Stored, SyncReply, SyncRequest, UseChange, UsedValues,
    UsesReport,
};
use phalanx_core::limits::COLLECT_HOLD_MS_MAX;

/// The data service as the API asks it. Nothing here waits for a collection.
pub trait DataService: Send + Sync + 'static {
    /// Generation of the assignments, as it changes.
    fn generations(&self) -> watch::Receiver<u64>;
    /// Whether this user's agents may hand in values.
    fn is_agent(&self, uid: u32) -> bool;
    /// `GET /v1/collectors`
    fn collectors(&self) -> CollectorsReport;
    /// `GET /v1/collectors/{name}`
    ///
    /// # Errors
    /// When there is none.
    fn collector(&self, name: &str) -> Result<CollectorReport, Failure>;
    /// `POST /v1/collectors`
    ///
    /// # Errors
    /// When it is wrong or exists.
    fn add_collector(&self, patch: Patch) -> Result<Registration, Failure>;
    /// `PATCH /v1/collectors/{name}`, also start and stop.
    ///
    /// # Errors
    /// When there is none, it is the configuration's, or the change is wrong.
    fn update_collector(&self, name: &str, patch: Patch) -> Result<Registration, Failure>;
    /// `DELETE /v1/collectors/{name}`
    ///
    /// # Errors
    /// When there is none or it is the configuration's.
    fn remove_collector(&self, name: &str) -> Result<Registration, Failure>;
    /// `GET /v1/data`
    fn data_names(&self) -> DataNames;
    /// `GET /v1/data/{name}`, of these nodes (a hostlist) or of all.
    ///
    /// # Errors
    /// When nothing has that name, or the nodes are no hostlist.
    fn data(&self, name: &str, nodes: Option<&str>) -> Result<DataReport, Failure>;
    /// `GET /v1/data/{name}/{node}/history`
    ///
    /// # Errors
    /// When it cannot be read.
    fn past(&self, name: &str, node: &str, ask: &PastQuery) -> Result<Past, Failure>;
    /// `POST /v1/data`
    ///
    /// # Errors
    /// When there are too many.
    fn store(&self, batch: &Batch) -> Result<Stored, Failure>;
    /// `PUT /v1/data/{name}/{node}`, by the node's agent or an administrator.
    ///
    /// # Errors
    /// When the value is wrong.
    fn store_one(
        &self,
        name: &str,
        node: &str,
        put: PutOne,
        admin: bool,
    ) -> Result<Stored, Failure>;
    /// `GET /v1/agents`
    fn agents(&self) -> AgentsReport;
    /// First half of `POST /v1/agents/{node}/sync`: the number of the agent's
    /// turn, and what was refused.
    ///
    /// # Errors
    /// When the node's name is none.
    fn begin_sync(&self, node: &str, ask: &SyncRequest) -> Result<(u64, Vec<Refused>), Failure>;
    /// Second half.
    fn end_sync(&self, node: &str, had: u64, refused: Vec<Refused>) -> SyncReply;
    /// The agent's connection broke in between.
    fn lost(&self, node: &str, turn: u64);
    /// `GET /v1/use`
    fn uses(&self) -> UsesReport;
    /// `GET /v1/use/{key}`
    ///
    /// # Errors
    /// When there is no such key.
    fn used(&self, key: &str, ask: &UseQuery) -> Result<UsedValues, Failure>;
    /// `PUT` and `DELETE /v1/use/{key}`
    ///
    /// # Errors
    /// When there is no such key or name.
    fn choose(&self, key: &str, choice: Option<UseChange>) -> Result<(), Failure>;
}

/// Query of `GET /v1/data/{name}`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataQuery {
    nodes: Option<String>,
}

/// Query of `GET /v1/data/{name}/{node}/history`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastQuery {
    /// Earliest receipt, unix milliseconds.
    pub since_ms: Option<u64>,
    /// Latest receipt, unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most points.
    pub limit: Option<usize>,
}

/// Query of `GET /v1/use/{key}`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseQuery {
    /// Hostlist; absent: every node of the cluster.
    pub nodes: Option<String>,
    /// Datum to take instead of the one in force.
    pub name: Option<String>,
}

pub(super) fn routes<B: Backend>() -> Router<Arc<Shared<B>>> {
    Router::new()
        .route("/v1/collectors", get(collectors::<B>).post(add::<B>))
        .route("/v1/collectors/{name}", get(collector::<B>).patch(update::<B>).delete(remove::<B>))
        .route("/v1/collectors/{name}/start", post(start::<B>))
        .route("/v1/collectors/{name}/stop", post(halt::<B>))
        .route("/v1/data/{name}", get(data::<B>))
        .route("/v1/data/{name}/{node}/history", get(past::<B>))
        .route("/v1/agents", get(agents::<B>))
        .route("/v1/use", get(uses::<B>))
        .route("/v1/use/{key}", get(used::<B>).put(choose::<B>).delete(unchoose::<B>))
        .route("/v1/data", get(data_names::<B>).post(store::<B>))
        .route("/v1/data/{name}/{node}", get(data_of_node::<B>).put(store_one::<B>))
        .route("/v1/agents/{node}/sync", post(sync::<B>))
}

type From = ConnectInfo<Peer>;

/// The service, if it is switched on.
fn service<B: Backend>(backend: &B) -> Result<&dyn DataService, Failure> {
    backend.data_service().ok_or_else(|| Failure::Unavailable("collect.enabled is off".to_owned()))
}

async fn collectors<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): From) -> Response {
    read(s, peer, |backend: &B| Ok(service(backend)?.collectors())).await
}

async fn collector<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(name): Arg<String>,
) -> Response {
    read(s, peer, move |backend: &B| service(backend)?.collector(&name)).await
}

async fn add<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    body: Result<Body<Patch>, Response>,
) -> Response {
    let done =
        change(s, peer, body, |backend: &B, Body(patch)| service(backend)?.add_collector(patch));
    let mut response = done.await;
    if response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    response
}

async fn update<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(name): Arg<String>,
    body: Result<Body<Patch>, Response>,
) -> Response {
    change(s, peer, body, move |backend: &B, Body(patch)| {
        service(backend)?.update_collector(&name, patch)
    })
    .await
}

async fn remove<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(name): Arg<String>,
) -> Response {
    change(s, peer, Ok(()), move |backend: &B, ()| service(backend)?.remove_collector(&name)).await
}

async fn start<B: Backend>(s: Ctx<B>, peer: From, name: Arg<String>) -> Response {
    switch(s, peer, name, true).await
}

async fn halt<B: Backend>(s: Ctx<B>, peer: From, name: Arg<String>) -> Response {
    switch(s, peer, name, false).await
}

async fn switch<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(name): Arg<String>,
    enabled: bool,
) -> Response {
    let patch = Patch { enabled: Some(enabled), ..Patch::default() };
    change(s, peer, Ok(patch), move |backend: &B, patch| {
        service(backend)?.update_collector(&name, patch)
    })
    .await
}

async fn data_names<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): From) -> Response {
    read(s, peer, |backend: &B| Ok(service(backend)?.data_names())).await
}

async fn data<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(name): Arg<String>,
    Ask(ask): Ask<DataQuery>,
) -> Response {
    read(s, peer, move |backend: &B| service(backend)?.data(&name, ask.nodes.as_deref())).await
}

async fn data_of_node<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg((name, node)): Arg<(String, String)>,
) -> Response {
    let one = move |backend: &B| {
        let report = service(backend)?.data(&name, Some(&node))?;
        if report.values.is_empty() {
            return Err(Failure::NotFound(format!("data {name} of {node}: there is none")));
        }
        Ok(report)
    };
    read(s, peer, one).await
}

async fn past<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg((name, node)): Arg<(String, String)>,
    Ask(ask): Ask<PastQuery>,
) -> Response {
    read(s, peer, move |backend: &B| service(backend)?.past(&name, &node, &ask)).await
}

async fn store<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    body: Result<Body<Batch>, Response>,
) -> Response {
    change(s, peer, body, |backend: &B, Body(batch)| service(backend)?.store(&batch)).await
}

/// Whether this user's agents may hand in values: administrators' always may.
fn may_report<B: Backend>(shared: &Shared<B>, peer: Peer) -> bool {
    let agent = |uid| shared.backend.data_service().is_some_and(|service| service.is_agent(uid));
    peer.0.is_some_and(|uid| shared.access.may_change(uid) || agent(uid))
}

fn no_agent() -> Response {
    let text = "handing in values needs root, SlurmUser, phalanxd's user, control.allowed_uids or \
                collect.agent_uids";
    error(StatusCode::FORBIDDEN, text)
}

async fn store_one<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg((name, node)): Arg<(String, String)>,
    body: Result<Body<PutOne>, Response>,
) -> Response {
    if !may_report(&s, peer) {
        return no_agent();
    }
    let admin = peer.0.is_some_and(|uid| s.access.may_change(uid));
    let Body(put) = match body {
        Ok(put) => put,
        Err(response) => return response,
    };
    answer(s, move |backend: &B| service(backend)?.store_one(&name, &node, put, admin)).await
}

async fn agents<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): From) -> Response {
    read(s, peer, |backend: &B| Ok(service(backend)?.agents())).await
}

/// Tells the service when the connection breaks while its answer is held: then
/// this is dropped before it is done.
struct Held<B: Backend> {
    shared: Arc<Shared<B>>,
    node: String,
    turn: u64,
    done: bool,
}

impl<B: Backend> Drop for Held<B> {
    fn drop(&mut self) {
        if !self.done
            && let Some(service) = self.shared.backend.data_service()
        {
            service.lost(&self.node, self.turn);
        }
    }
}

/// Takes what an agent hands over at once, and holds the answer until its
/// assignments change or its time is over.
async fn sync<B: Backend>(
    State(shared): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(node): Arg<String>,
    body: Result<Body<SyncRequest>, Response>,
) -> Response {
    if !may_report(&shared, peer) {
        return no_agent();
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
    let reply = service(&*held.shared.backend)
        .map(|service| service.end_sync(&held.node, ask.generation, refused));
    match reply {
        Ok(reply) => Json(reply).into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn uses<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): From) -> Response {
    read(s, peer, |backend: &B| Ok(service(backend)?.uses())).await
}

async fn used<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(key): Arg<String>,
    Ask(ask): Ask<UseQuery>,
) -> Response {
    read(s, peer, move |backend: &B| service(backend)?.used(&key, &ask)).await
}

async fn choose<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(key): Arg<String>,
    body: Result<Body<UseChange>, Response>,
) -> Response {
    change(s, peer, body, move |backend: &B, Body(choice)| {
        let service = service(backend)?;
        service.choose(&key, Some(choice))?;
        Ok(service.uses())
    })
    .await
}

async fn unchoose<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): From,
    Arg(key): Arg<String>,
) -> Response {
    change(s, peer, Ok(()), move |backend: &B, ()| {
        let service = service(backend)?;
        service.choose(&key, None)?;
        Ok(service.uses())
    })
    .await
}
