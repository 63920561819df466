// SPDX-License-Identifier: GPL-3.0-or-later
//! The control socket: HTTP/1.1 with JSON bodies over a Unix socket.
//!
//! Reading is open to every local user unless the configuration says
//! otherwise; changing anything needs root, SlurmUser, the daemon's own user or
//! a listed one. Who asks is known from the socket's peer credentials.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use log::warn;
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::{UnixListener, unix::UCred};
use tokio::sync::watch;

use super::auth::{self, Gate};
use super::collect::{self, DataService};
use super::extract::{Arg, Ask, Body, error};
use super::tcp;
use crate::api::heat::HeatReport;
use crate::api::metrics::{self, Sources};
use crate::api::page;
use crate::api::types::{
    EnergyReport, Explain, ImportReport, NodesReport, PlanReport, RecordRequest, RecordingStatus,
    ReloadReport, RunsReport, ShadowReport, SpeedsReport, Status,
};
use phalanx_core::limits;
use phalanx_core::run::Run;
use phalanx_methods::data_jobs::blockmap::BlockMap;
use phalanx_planner::state::State as LiveState;

/// The description of every resource (OpenAPI 3.1).
const OPENAPI: &str = include_str!("openapi.json");

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no such thing (404).
    NotFound(String),
    /// The question is malformed (400).
    BadRequest(String),
    /// It collides with what is there (409).
    Conflict(String),
    /// Not now (503).
    Unavailable(String),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Failure::NotFound(text) => (StatusCode::NOT_FOUND, text),
            Failure::BadRequest(text) => (StatusCode::BAD_REQUEST, text),
            Failure::Conflict(text) => (StatusCode::CONFLICT, text),
            Failure::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
        };
        let mut response = error(status, text);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// What the daemon answers with.
pub trait Backend: Send + Sync + 'static {
    /// `GET /v1/status`
    fn status(&self) -> Status;
    /// `GET /v1/nodes`
    ///
    /// # Errors
    /// Before the first picture of the nodes.
    fn nodes(&self) -> Result<NodesReport, Failure>;
    /// `GET /v1/explain/{job}`, `job` as users write it.
    ///
    /// # Errors
    /// Unknown or malformed ids.
    fn explain(&self, job: &str) -> Result<Explain, Failure>;
    /// `GET /v1/jobs/{id}/blocks`: which task reads which block, for `user` (`None`: whoever
    /// may see everybody's).
    ///
    /// # Errors
    /// Not a running job of that user with an input that was found; [`Failure::Unavailable`]
    /// while it is looked up, or where another daemon is in charge.
    fn block_map(&self, job_id: u32, user: Option<u32>) -> Result<Arc<BlockMap>, Failure>;
    /// `GET /v1/shadow?since=`, unix milliseconds
    ///
    /// # Errors
    /// When the history cannot be read.
    fn shadow(&self, since_ms: Option<u64>) -> Result<ShadowReport, Failure>;
    /// `GET /v1/plan`
    ///
    /// # Errors
    /// Before the first plan.
    fn plan(&self) -> Result<PlanReport, Failure>;
    /// `GET /v1/state`
    ///
    /// # Errors
    /// There is no picture of the queue yet.
    fn state(&self) -> Result<LiveState, Failure>;
    /// `GET /v1/history/runs?since=&limit=`
    ///
    /// # Errors
    /// When the history cannot be read.
    fn runs(&self, since_ms: Option<u64>, limit: Option<u32>) -> Result<RunsReport, Failure>;
    /// `GET /v1/history/speeds?class=&node=`
    ///
    /// # Errors
    /// When nothing is learned, or not of this class.
    fn speeds(&self, class: Option<&str>, node: Option<&str>) -> Result<SpeedsReport, Failure>;
    /// `GET /v1/history/energy`
    ///
    /// # Errors
    /// When nothing is learned.
    fn energy(&self) -> Result<EnergyReport, Failure>;
    /// `POST /v1/history/import`
    ///
    /// # Errors
    /// When the history cannot be written.
    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure>;
    /// `POST /v1/reload`
    fn reload(&self) -> ReloadReport;
    /// `POST /v1/record`
    ///
    /// # Errors
    /// There is a recording already, or none to stop.
    fn record(&self, request: RecordRequest) -> Result<RecordingStatus, Failure>;
    /// The data service, if it is switched on.
    fn data_service(&self) -> Option<&dyn DataService> {
        None
    }
    /// `GET /v1/heat`
    ///
    /// # Errors
    /// Before the first picture of the nodes.
    fn heat(&self) -> Result<HeatReport, Failure> {
        self.nodes().map(|nodes| HeatReport::of(&nodes))
    }
    /// What `GET /metrics` is made of.
    fn sources(&self) -> Sources {
        let (status, nodes, plan) = (self.status(), self.nodes().ok(), self.plan().ok());
        let service = self.data_service();
        Sources {
            status,
            nodes,
            plan,
            collectors: service.map(DataService::collectors),
            data: service.map(DataService::data_names),
            agents: service.map(DataService::agents),
        }
    }
}

/// Who may do what.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Every local user may read.
    pub public_read: bool,
    /// User ids that may read and change, besides root and the daemon's own.
    pub allowed_uids: Vec<u32>,
}

impl Access {
    pub(super) fn may_change(&self, uid: u32) -> bool {
        uid == 0 || uid == Uid::effective().as_raw() || self.allowed_uids.contains(&uid)
    }
}

/// Why there is no control socket.
#[derive(Debug, Error)]
#[error("{path}: {what}: {source}")]
pub struct ApiError {
    path: PathBuf,
    what: &'static str,
    source: io::Error,
}

/// User id at the other end of a connection, and whether it came over TCP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) Option<u32>, bool);

impl Peer {
    /// Over TCP, with a good credential.
    pub(super) fn remote_user(uid: u32) -> Self {
        Self(Some(uid), true)
    }

    /// Over TCP, with none (yet).
    pub(super) fn stranger() -> Self {
        Self(None, true)
    }

    pub(super) fn remote(self) -> bool {
        self.1
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|cred: UCred| cred.uid()), false)
    }
}

pub(super) struct Shared<B> {
    pub(super) backend: Arc<B>,
    pub(super) access: Access,
    pub(super) stop: watch::Receiver<bool>,
}

/// The bound socket.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: std::os::unix::net::UnixListener,
    tcp: Option<(std::net::TcpListener, Gate)>,
    access: Access,
}

impl Server {
    /// Binds the socket, replacing a stale one. Mode 0666 when everybody may
    /// read, else 0660.
    ///
    /// # Errors
    /// The path and what the system refused.
    pub fn bind(path: &Path, access: Access) -> Result<Self, ApiError> {
        let fail = |what| move |source| ApiError { path: path.to_path_buf(), what, source };
        if let Ok(meta) = std::fs::symlink_metadata(path)
            && meta.file_type().is_socket()
            && std::os::unix::net::UnixStream::connect(path).is_err()
        {
            std::fs::remove_file(path).map_err(fail("remove the stale socket"))?;
        }
        let listener =
            std::os::unix::net::UnixListener::bind(path).map_err(fail("bind the socket"))?;
        let mode = if access.public_read { 0o666 } else { 0o660 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(fail("set the socket's mode"))?;
        listener.set_nonblocking(true).map_err(fail("set non-blocking"))?;
        Ok(Self { path: path.to_path_buf(), listener, tcp: None, access })
    }

    /// Listens on a TCP address as well.
    ///
    /// # Errors
    /// The address and what the system refused.
    pub fn with_tcp(mut self, address: SocketAddr, gate: Gate) -> Result<Self, ApiError> {
        let fail = |what| move |source| ApiError { path: address.to_string().into(), what, source };
        let listener = std::net::TcpListener::bind(address).map_err(fail("listen"))?;
        listener.set_nonblocking(true).map_err(fail("set non-blocking"))?;
        self.tcp = Some((listener, gate));
        Ok(self)
    }

    /// Serves until `stop` changes, on this thread.
    ///
    /// # Errors
    /// When the runtime cannot be made.
    pub fn run<B: Backend>(
        self,
        backend: Arc<B>,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(limits::API_BLOCKING_THREADS)
            .build()?;
        let shared = Arc::new(Shared { backend, access: self.access, stop: stop.clone() });
        let routes = routes(shared);
        let local = routes.clone().layer(axum::middleware::from_fn(auth::bounded));
        let service = local.into_make_service_with_connect_info::<Peer>();
        let path = self.path;
        runtime.block_on(async move {
            if let Some((listener, gate)) = self.tcp {
                let guard = move |request, next| auth::guard(gate.clone(), request, next);
                let routes = routes.layer(axum::middleware::from_fn(guard));
                tokio::spawn(tcp::serve(listener, routes, stop.clone()));
            }
            let listener = UnixListener::from_std(self.listener)?;
            let stopped = async move {
                // An error means that the sender is gone: stop as well.
                let _ = stop.wait_for(|stop| *stop).await;
            };
            axum::serve(listener, service).with_graceful_shutdown(stopped).await
        })?;
        let _ = std::fs::remove_file(path);
        Ok(())
    }
}

fn routes<B: Backend>(shared: Arc<Shared<B>>) -> Router {
    Router::new()
        .route("/v1/status", get(status::<B>))
        .route("/v1/nodes", get(nodes::<B>))
        .route("/v1/explain/{job}", get(explain::<B>))
        .route("/v1/jobs/{id}/blocks", get(block_map::<B>))
        .route("/v1/shadow", get(shadow::<B>))
        .route("/v1/plan", get(plan::<B>))
        .route("/v1/state", get(state::<B>))
        .route("/v1/history/runs", get(runs::<B>))
        .route("/v1/history/speeds", get(speeds::<B>))
        .route("/v1/history/energy", get(energy::<B>))
        .route("/v1/history/import", post(import::<B>))
        .route("/v1/reload", post(reload::<B>))
        .route("/v1/record", post(record::<B>))
        .route("/openapi.json", get(openapi))
        .merge(collect::routes())
        .route("/v1/heat", get(heat::<B>))
        .route("/metrics", get(metrics::<B>))
        .route("/healthz", get(healthz))
        .route("/", get(page::index))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        // Bodies are bounded by the path, where their user is known.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

pub(super) type Ctx<B> = State<Arc<Shared<B>>>;

async fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "no such resource; see phalanx(1)")
}

async fn wrong_method() -> Response {
    error(StatusCode::METHOD_NOT_ALLOWED, "this resource has other methods; see /openapi.json")
}

/// The document that describes all of this.
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Answers a question of whoever may read.
pub(super) async fn read<B: Backend, T: Serialize + Send + 'static>(
    shared: Arc<Shared<B>>,
    peer: Peer,
    ask: impl FnOnce(&B) -> Result<T, Failure> + Send + 'static,
) -> Response {
    match unreadable(&shared, peer) {
        None => answer(shared, ask).await,
        Some(refused) => refused,
    }
}

/// Why this user may not read.
fn unreadable<B>(shared: &Shared<B>, peer: Peer) -> Option<Response> {
    let allowed = peer.0.is_some_and(|uid| shared.access.may_change(uid));
    // A stranger over TCP came through the gate, which knows what is public there.
    let stranger = peer.remote() && peer.0.is_none();
    (!shared.access.public_read && !allowed && !stranger)
        .then(|| error(StatusCode::FORBIDDEN, "control.public_read is off"))
}

/// Changes something for whoever may; the body is looked at only then.
pub(super) async fn change<B: Backend, T: Serialize + Send + 'static, A: Send + 'static>(
    shared: Arc<Shared<B>>,
    peer: Peer,
    body: Result<A, Response>,
    make: impl FnOnce(&B, A) -> Result<T, Failure> + Send + 'static,
) -> Response {
    if !peer.0.is_some_and(|uid| shared.access.may_change(uid)) {
        let text = "changes need root, SlurmUser, phalanxd's user or control.allowed_uids";
        return error(StatusCode::FORBIDDEN, text);
    }
    match body {
        Ok(body) => answer(shared, move |backend: &B| make(backend, body)).await,
        Err(response) => response,
    }
}

/// Runs a question off the runtime's thread: it may read a database, and its
/// answer may be large.
pub(super) async fn answer<B: Backend, T: Serialize + Send + 'static>(
    shared: Arc<Shared<B>>,
    ask: impl FnOnce(&B) -> Result<T, Failure> + Send + 'static,
) -> Response {
    off_thread(shared, ask, |body| match serde_json::to_vec(&body) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(wrong) => {
            warn!("control: answer: {wrong}");
            error(StatusCode::INTERNAL_SERVER_ERROR, "question failed")
        }
    })
    .await
}

/// The same with an answer of any form.
async fn off_thread<B: Backend, T: Send + 'static>(
    shared: Arc<Shared<B>>,
    ask: impl FnOnce(&B) -> Result<T, Failure> + Send + 'static,
    form: impl FnOnce(T) -> Response + Send + 'static,
) -> Response {
    let backend = Arc::clone(&shared.backend);
    let work = move || ask(&backend).map_or_else(IntoResponse::into_response, form);
    match tokio::task::spawn_blocking(work).await {
        Ok(response) => response,
        Err(join) => {
            warn!("control: question failed: {join}");
            error(StatusCode::INTERNAL_SERVER_ERROR, "question failed")
        }
    }
}

async fn status<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| Ok(backend.status())).await
}

async fn nodes<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| backend.nodes()).await
}

async fn heat<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| backend.heat()).await
}

async fn metrics<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    if let Some(refused) = unreadable(&s, peer) {
        return refused;
    }
    let ask = |backend: &B| Ok(metrics::text(&backend.sources()));
    let form =
        |text: String| ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response();
    off_thread(s, ask, form).await
}

/// That this answers at all is the news: threads that hang are the
/// watchdog's business.
async fn healthz() -> Response {
    "ok\n".into_response()
}

async fn plan<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| backend.plan()).await
}

async fn state<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| backend.state()).await
}

async fn explain<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg(job): Arg<String>,
) -> Response {
    read(s, peer, move |backend: &B| backend.explain(&job)).await
}

async fn block_map<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg(job): Arg<u32>,
) -> Response {
    let Some(uid) = peer.0 else {
        return error(StatusCode::FORBIDDEN, "a block map is for its job's user");
    };
    // What is a user's own is for that user, also where others' things are not public.
    let user = (!s.access.may_change(uid)).then_some(uid);
    answer(s, move |backend: &B| backend.block_map(job, user).map(Shown)).await
}

/// A map that is kept, and not copied for each node that asks.
struct Shown(Arc<BlockMap>);

impl Serialize for Shown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShadowQuery {
    /// Unix milliseconds.
    since: Option<u64>,
}

async fn shadow<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Ask(query): Ask<ShadowQuery>,
) -> Response {
    read(s, peer, move |b: &B| b.shadow(query.since)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunsQuery {
    /// Unix milliseconds.
    since: Option<u64>,
    limit: Option<u32>,
}

async fn runs<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Ask(query): Ask<RunsQuery>,
) -> Response {
    read(s, peer, move |b: &B| b.runs(query.since, query.limit)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeedsQuery {
    class: Option<String>,
    node: Option<String>,
}

async fn speeds<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Ask(query): Ask<SpeedsQuery>,
) -> Response {
    read(s, peer, move |b: &B| b.speeds(query.class.as_deref(), query.node.as_deref())).await
}

async fn energy<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |b: &B| b.energy()).await
}

async fn import<B: Backend>(
    State(shared): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    body: Result<Body<Vec<Run>>, Response>,
) -> Response {
    let runs = match body {
        Ok(Body(runs)) if runs.len() > limits::IMPORT_RUNS_MAX => {
            let text = format!("expected at most {} runs", limits::IMPORT_RUNS_MAX);
            Err(error(StatusCode::BAD_REQUEST, text))
        }
        Ok(Body(runs)) => Ok(runs),
        Err(refused) => Err(refused),
    };
    change(shared, peer, runs, |backend: &B, runs| backend.import(runs)).await
}

async fn reload<B: Backend>(
    State(shared): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
) -> Response {
    change(shared, peer, Ok(()), |backend: &B, ()| Ok(backend.reload())).await
}

async fn record<B: Backend>(
    State(shared): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    body: Result<Body<RecordRequest>, Response>,
) -> Response {
    let request = body.map(|Body(request)| request);
    change(shared, peer, request, |backend: &B, request| backend.record(request)).await
}
