// SPDX-License-Identifier: GPL-3.0-or-later
//! Authentication by MUNGE credentials over TCP, rights, and bounds of bodies.
//!
//! A credential is good for one request: it carries the method, the path with
//! its query, and the hash of the body, and munged decodes it once. Nothing of a
//! body is read before the user is known and may make the request.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Frame;
use phalanx_ffi::munge::{self, MungeError};

use tokio::sync::OwnedSemaphorePermit;

use super::doors::{Client, Counters, Doors, Place, off_thread};
use super::extract::{error, no_room};
use super::handler::{Shared, peer_of};
use super::peer::{Peer, Right};
use phalanx_core::limits::{
    API_BODY_BYTES_MAX, API_READ_BODY_BYTES_MAX, COLLECT_BODY_BYTES_MAX, IMPORT_BODY_BYTES_MAX,
};
use phalanx_messages::collect::{PROOF_HEADER, answer_text, request_head, request_text};

/// Longest time that a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes read of a body, stored or not.
const DRAIN_BYTES_MAX: usize = 32 << 20;
/// Maximum number of bytes read of a refused body: enough for a client to see the answer.
const REFUSED_BYTES_MAX: usize = 1 << 20;
/// Longest wait for munged: for a thread that may ask it, and for its answer.
const MUNGE_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 5000 });
/// Name of the scheme in `Authorization`.
const SCHEME: &str = "Munge";
/// The answer to a credential that was made for another request or daemon.
const OF_ANOTHER: &str = "credential is for another request or another phalanxd";
/// Paths that every client may read.
pub(super) const OPEN: [&str; 3] = ["/healthz", "/metrics", "/openapi.json"];

/// Authentication on the TCP listener.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Whether reading needs no credential.
    pub public_read: bool,
    /// Socket of munged; `None`: the host's default.
    pub munge_socket: Option<PathBuf>,
    /// Name of this daemon in credentials, which makes them useless at any other daemon.
    realm: Arc<str>,
}

impl Gate {
    /// Creates a gate with a realm that no other daemon has, nor this one after its next start.
    pub fn new(public_read: bool, munge_socket: Option<PathBuf>) -> Self {
        // Keyed by the system's random numbers; a name, not a secret.
        let [high, low] = [0, 1].map(|half| RandomState::new().hash_one(half));
        Self { public_read, munge_socket, realm: format!("{high:016x}{low:016x}").into() }
    }
}

/// Returns the largest body of a request, in bytes.
fn body_bytes_max(method: &Method, path: &str) -> usize {
    let values = ["/v1/data", "/v1/agents/"].iter().any(|start| path.starts_with(start));
    match path {
        _ if Right::of(method, path) == Right::Read => API_READ_BODY_BYTES_MAX,
        "/v1/history/import" | "/v1/history/energy" => IMPORT_BODY_BYTES_MAX,
        _ if values => COLLECT_BODY_BYTES_MAX,
        _ => API_BODY_BYTES_MAX,
    }
}

/// Passes on a request that came over TCP, with its user, if its credential is valid or none is
/// needed. A client without credential gets the realm.
pub(super) async fn authenticate(
    shared: Arc<Shared>,
    gate: Gate,
    request: Request,
    next: Next,
) -> Response {
    let signed = request.headers().contains_key(header::AUTHORIZATION);
    let challenge = HeaderValue::from_str(&format!("{SCHEME} realm=\"{}\"", gate.realm));
    let mut answer = admitted(shared, gate, request, next).await;
    let unsigned = !signed || answer.status() == StatusCode::UNAUTHORIZED;
    if let Some(challenge) = challenge.ok().filter(|_| unsigned) {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    answer
}

async fn admitted(shared: Arc<Shared>, gate: Gate, request: Request, next: Next) -> Response {
    let reads = Right::of(request.method(), request.uri().path()) == Right::Read;
    let open = reads && OPEN.contains(&request.uri().path());
    let given = request.headers().get(header::AUTHORIZATION);
    if given.is_none() && (open || (reads && gate.public_read)) {
        return next.run(request).await;
    }
    let credential = match given.map(credential_of) {
        None => return unauthorized("expected the header `Authorization: Munge CREDENTIAL`"),
        Some(None) => return unauthorized("Authorization: expected `Munge CREDENTIAL`"),
        Some(Some(credential)) => credential,
    };
    let asks_proof = request.headers().contains_key(PROOF_HEADER);
    let answer = match verified(&shared, &gate, credential.clone(), request).await {
        // The room for the body is kept until the answer is there.
        Ok((request, _room)) => next.run(request).await,
        Err(response) => response,
    };
    if asks_proof { proven(&shared, &gate, &credential, answer).await } else { answer }
}

/// Returns the answer with a proof that it is from this daemon, and to this request.
async fn proven(shared: &Shared, gate: &Gate, credential: &str, answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "question failed");
    };
    let text = answer_text(credential, parts.status.as_u16(), &body);
    let socket = gate.munge_socket.clone();
    let encode = move || munge::encode(text.as_bytes(), socket.as_deref(), 0);
    match ask_munged(&shared.doors, encode).await.map(|proof| HeaderValue::from_str(&proof)) {
        Ok(Ok(proof)) => {
            parts.headers.insert(PROOF_HEADER, proof);
            Response::from_parts(parts, Body::from(body))
        }
        Ok(Err(_)) => error(StatusCode::INTERNAL_SERVER_ERROR, "no proof"),
        Err(wrong) => error(StatusCode::SERVICE_UNAVAILABLE, format!("munged: {wrong}")),
    }
}

/// Takes the body of a request on the control socket, if its user, who is known, may make it.
pub(super) async fn bounded(shared: Arc<Shared>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = match permitted(&shared, &parts, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    match whole(&shared.doors, body, &parts).await {
        Ok((body, _room)) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(refused) => refused,
    }
}

/// Returns the body, if its user may make the request.
async fn permitted(shared: &Shared, parts: &Parts, body: Body) -> Result<Body, Response> {
    let peer = peer_of(&parts.extensions);
    let refused = match Right::of(&parts.method, parts.uri.path()) {
        Right::Read => None,
        Right::HandIn => shared.no_agent(peer),
        Right::Change => shared.unchangeable(peer),
    };
    let Some(refused) = refused else { return Ok(body) };
    Counters::count(&shared.doors.counters.forbidden);
    // Who waits for leave to send gets the answer without it.
    if !parts.headers.contains_key(header::EXPECT) {
        let _ = tokio::time::timeout(BODY_TIMEOUT, drain(body, REFUSED_BYTES_MAX)).await;
    }
    Err(refused)
}

/// Reads up to `max` bytes of a body and discards them.
async fn drain(mut body: Body, max: usize) {
    let mut seen = 0;
    while let Some(Ok(frame)) = body.frame().await {
        seen += frame.data_ref().map_or(0, Bytes::len);
        if seen > max {
            return;
        }
    }
}

type Taken = (Bytes, Vec<OwnedSemaphorePermit>);

/// Returns a body within its bound, and its room. The rest of a larger one is read and discarded,
/// within limits: a client that cannot send it would not see the answer.
async fn whole(doors: &Doors, mut body: Body, parts: &Parts) -> Result<Taken, Response> {
    let max = body_bytes_max(&parts.method, parts.uri.path());
    let take = async {
        let (mut taken, mut rooms) = (Vec::new(), Vec::new());
        let (mut seen, mut room) = (0_usize, 0_usize);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map(Frame::into_data) else {
                return Err(error(StatusCode::BAD_REQUEST, "the body broke off"));
            };
            let data = data.unwrap_or_default();
            seen += data.len();
            if seen <= max {
                if seen > room {
                    // As a vector grows: twice what there is.
                    let more = seen.max(2 * room).max(4096) - room;
                    rooms.push(doors.body(more).ok_or_else(no_room)?);
                    room += more;
                    taken.reserve_exact(room - taken.len());
                }
                taken.extend_from_slice(&data);
            } else if seen > DRAIN_BYTES_MAX {
                break;
            }
        }
        if seen > max {
            let text = format!("expected a body of at most {max} bytes");
            return Err(error(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        Ok((Bytes::from(taken), rooms))
    };
    match tokio::time::timeout(BODY_TIMEOUT, take).await {
        Ok(taken) => taken,
        Err(_) => Err(error(StatusCode::REQUEST_TIMEOUT, "the body did not arrive")),
    }
}

fn credential_of(value: &HeaderValue) -> Option<String> {
    let (scheme, credential) = value.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| credential.trim().to_owned())
}

fn unauthorized(text: &str) -> Response {
    error(StatusCode::UNAUTHORIZED, text)
}

/// Asks munged on a separate thread. A hanging munged blocks only the few such threads.
pub(super) async fn ask_munged<T: Send + 'static>(
    doors: &Doors,
    ask: impl FnOnce() -> Result<T, MungeError> + Send + 'static,
) -> Result<T, MungeError> {
    let late = || MungeError::Unavailable("no answer".to_owned());
    let turn = tokio::time::timeout(MUNGE_TIMEOUT, Arc::clone(&doors.munge).acquire_owned());
    let turn = turn.await.map_err(|_| late())?.map_err(|_| late())?;
    let answer = tokio::time::timeout(MUNGE_TIMEOUT, off_thread(turn, ask)).await;
    answer.map_err(|_| late())?.map_or_else(|_| Err(late()), |(_, answer)| answer)
}

/// Returns the request with its user, who may make it and whose credential is valid and for it.
async fn verified(
    shared: &Shared,
    gate: &Gate,
    credential: String,
    request: Request,
) -> Result<(Request, Vec<OwnedSemaphorePermit>), Response> {
    let place = request.extensions().get::<Arc<Place>>().cloned();
    let check = Place::check(place.as_deref()).await;
    let socket = gate.munge_socket.clone();
    // The turn ends with munged's answer, also where nobody waits for that any more.
    let decode = move || (munge::decode(&credential, socket.as_deref()), check).0;
    let decoded = match ask_munged(&shared.doors, decode).await {
        Ok(decoded) => decoded,
        Err(MungeError::Unavailable(text)) => {
            return Err(error(StatusCode::SERVICE_UNAVAILABLE, format!("munged: {text}")));
        }
        Err(refused) => return Err(unauthorized(&refused.to_string())),
    };
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let method = parts.method.clone();
    let method = method.as_str();
    let realm = decoded.payload.starts_with(b"phalanx/2\n").then_some(&*gate.realm);
    if !decoded.payload.starts_with(request_head(realm, method, &path).as_bytes()) {
        return Err(unauthorized(OF_ANOTHER));
    }
    let before = peer_of(&parts.extensions);
    let peer = Peer { uid: Some(decoded.uid), remote: true, ..before };
    parts.extensions.insert(ConnectInfo(peer));
    // Agents have a connection from each node.
    let agent = shared.no_agent(peer).is_none();
    let client = if agent { Client::Trusted } else { shared.access.client(peer) };
    if place.is_some_and(|place| !place.known(client)) {
        return Err(error(StatusCode::SERVICE_UNAVAILABLE, "too many connections"));
    }
    let body = permitted(shared, &parts, body).await?;
    let (body, room) = whole(&shared.doors, body, &parts).await?;
    if decoded.payload != request_text(realm, method, &path, &body).as_bytes() {
        return Err(unauthorized(OF_ANOTHER));
    }
    Ok((Request::from_parts(parts, Body::from(body)), room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::limits::MUNGE_THREADS;

    /// While munged hangs, each request that needs it ends after its wait and other requests go on;
    /// afterwards munged is asked as before.
    #[test]
    fn a_munged_that_hangs_keeps_nobody_else() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let doors = Doors::new(Arc::default());
        let (let_go, hangs) = std::sync::mpsc::channel::<()>();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        let asks = (0..MUNGE_THREADS + 2).map(|_| {
            let hangs = Arc::clone(&hangs);
            ask_munged(&doors, move || {
                let _ = hangs.lock().map(|hangs| hangs.recv());
                Ok(())
            })
        });
        let mut asks: Vec<_> = asks.map(Box::pin).collect();
        runtime.block_on(async {
            let mut other = 0;
            let begin = std::time::Instant::now();
            for ask in &mut asks {
                tokio::select! {
                    answer = ask => assert!(matches!(answer, Err(MungeError::Unavailable(_)))),
                    () = async { loop { tokio::task::yield_now().await; other += 1; } } => {}
                }
            }
            let most = MUNGE_TIMEOUT * u32::try_from(asks.len() + 1).unwrap();
            assert!(other > 0 && begin.elapsed() < 4 * most, "{:?}", begin.elapsed());
        });
        drop((asks, let_go));
        let again = || runtime.block_on(ask_munged(&doors, || Ok(7)));
        assert!((0..100).any(|_| again().is_ok()));
    }
}
