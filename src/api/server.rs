// SPDX-License-Identifier: GPL-3.0-or-later
//! The control socket: HTTP/1.1 with JSON bodies over a Unix socket.
//!
//! Reading is open to every local user unless the configuration says
//! otherwise; changing anything needs root, SlurmUser, the daemon's own user or
//! a listed one. Who asks is known from the socket's peer credentials.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path as UrlPath, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use log::warn;
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::{UnixListener, unix::UCred};
use tokio::sync::watch;

use crate::api::types::{
    ErrorBody, Explain, ImportReport, NodesReport, PlanReport, ReloadReport, RunsReport,
    ShadowReport, SpeedsReport, Status,
};
use crate::limits;
use crate::model::run::Run;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no such thing (404).
    NotFound(String),
    /// The question is malformed (400).
    BadRequest(String),
    /// Not now (503).
    Unavailable(String),
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
    /// `POST /v1/history/import`
    ///
    /// # Errors
    /// When the history cannot be written.
    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure>;
    /// `POST /v1/reload`
    fn reload(&self) -> ReloadReport;
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
    fn may_change(&self, uid: u32) -> bool {
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

/// User id at the other end of a connection.
#[derive(Debug, Clone, Copy)]
struct Peer(Option<u32>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|cred: UCred| cred.uid()))
    }
}

struct Shared<B> {
    backend: Arc<B>,
    access: Access,
}

/// The bound socket.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: std::os::unix::net::UnixListener,
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
        Ok(Self { path: path.to_path_buf(), listener, access })
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
        let shared = Arc::new(Shared { backend, access: self.access });
        let service = routes(shared).into_make_service_with_connect_info::<Peer>();
        let path = self.path;
        runtime.block_on(async move {
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
        .route("/v1/shadow", get(shadow::<B>))
        .route("/v1/plan", get(plan::<B>))
        .route("/v1/history/runs", get(runs::<B>))
        .route("/v1/history/speeds", get(speeds::<B>))
        .route("/v1/history/import", import_route::<B>())
        .route("/v1/reload", post(reload::<B>))
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(limits::API_BODY_BYTES_MAX))
        .with_state(shared)
}

type Ctx<B> = State<Arc<Shared<B>>>;

async fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "no such resource; see phalanx(1)".to_owned())
}

fn error(status: StatusCode, text: String) -> Response {
    (status, Json(ErrorBody { error: text })).into_response()
}

/// Runs a question off the runtime's thread: it may read the history.
async fn read<B: Backend, T: Serialize + Send + 'static>(
    shared: Arc<Shared<B>>,
    peer: Peer,
    ask: impl FnOnce(&B) -> Result<T, Failure> + Send + 'static,
) -> Response {
    let allowed = peer.0.is_some_and(|uid| shared.access.may_change(uid));
    if !shared.access.public_read && !allowed {
        return error(StatusCode::FORBIDDEN, "control.public_read is off".to_owned());
    }
    let backend = Arc::clone(&shared.backend);
    match tokio::task::spawn_blocking(move || ask(&backend)).await {
        Ok(Ok(body)) => Json(body).into_response(),
        Ok(Err(Failure::NotFound(text))) => error(StatusCode::NOT_FOUND, text),
        Ok(Err(Failure::BadRequest(text))) => error(StatusCode::BAD_REQUEST, text),
        Ok(Err(Failure::Unavailable(text))) => error(StatusCode::SERVICE_UNAVAILABLE, text),
        Err(join) => {
            warn!("control: question failed: {join}");
            error(StatusCode::INTERNAL_SERVER_ERROR, "question failed".to_owned())
        }
    }
}

async fn status<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| Ok(backend.status())).await
}

async fn nodes<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| backend.nodes()).await
}

async fn plan<B: Backend>(State(s): Ctx<B>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    read(s, peer, |backend: &B| backend.plan()).await
}

async fn explain<B: Backend>(
    State(s): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    UrlPath(job): UrlPath<String>,
) -> Response {
    read(s, peer, move |backend: &B| backend.explain(&job)).await
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
    query: Result<Query<ShadowQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => read(s, peer, move |b: &B| b.shadow(query.since)).await,
        Err(rejection) => error(StatusCode::BAD_REQUEST, rejection.body_text()),
    }
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
    query: Result<Query<RunsQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => read(s, peer, move |b: &B| b.runs(query.since, query.limit)).await,
        Err(rejection) => error(StatusCode::BAD_REQUEST, rejection.body_text()),
    }
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
    query: Result<Query<SpeedsQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => {
            let ask = move |b: &B| b.speeds(query.class.as_deref(), query.node.as_deref());
            read(s, peer, ask).await
        }
        Err(rejection) => error(StatusCode::BAD_REQUEST, rejection.body_text()),
    }
}

/// Runs come in larger bodies than anything else.
fn import_route<B: Backend>() -> axum::routing::MethodRouter<Arc<Shared<B>>> {
    post(import::<B>).layer(DefaultBodyLimit::max(limits::IMPORT_BODY_BYTES_MAX))
}

async fn import<B: Backend>(
    State(shared): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    body: Result<Json<Vec<Run>>, axum::extract::rejection::JsonRejection>,
) -> Response {
    if !peer.0.is_some_and(|uid| shared.access.may_change(uid)) {
        let text = "import needs root, SlurmUser, phalanxd's user or control.allowed_uids";
        return error(StatusCode::FORBIDDEN, text.to_owned());
    }
    match body {
        Ok(Json(runs)) if runs.len() <= limits::IMPORT_RUNS_MAX => {
            read(shared, peer, move |backend: &B| backend.import(runs)).await
        }
        Ok(_) => {
            let text = format!("expected at most {} runs", limits::IMPORT_RUNS_MAX);
            error(StatusCode::BAD_REQUEST, text)
        }
        Err(rejection) => error(StatusCode::BAD_REQUEST, rejection.body_text()),
    }
}

async fn reload<B: Backend>(
    State(shared): Ctx<B>,
    ConnectInfo(peer): ConnectInfo<Peer>,
) -> Response {
    if !peer.0.is_some_and(|uid| shared.access.may_change(uid)) {
        let text = "reload needs root, SlurmUser, phalanxd's user or control.allowed_uids";
        return error(StatusCode::FORBIDDEN, text.to_owned());
    }
    read(shared, peer, |backend: &B| Ok(backend.reload())).await
}
