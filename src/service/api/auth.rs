// SPDX-License-Identifier: GPL-3.0-or-later
//! Authentication by MUNGE credentials over TCP, and bounds of bodies.
//!
//! A credential is good for one request: it carries the method, the path with
//! its query, and the hash of the body, and munged decodes it once. Nothing of a
//! body is read before the credential is good.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Frame;
use phalanx_ffi::munge::{self, MungeError};

use super::extract::error;
use super::peer::Peer;
use phalanx_core::collect::request_text;
use phalanx_core::limits::{API_BODY_BYTES_MAX, COLLECT_BODY_BYTES_MAX, IMPORT_BODY_BYTES_MAX};

/// Longest time that a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a body that are read at most, stored or not.
const DRAIN_BYTES_MAX: usize = 32 << 20;
/// Name of the scheme in `Authorization`.
const SCHEME: &str = "Munge";
/// Paths that everybody may read.
const OPEN: [&str; 2] = ["/healthz", "/openapi.json"];

/// Authentication on the TCP listener.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// Reading needs no credential.
    pub public_read: bool,
    /// Socket of munged; `None`: the machine's own.
    pub munge_socket: Option<PathBuf>,
}

/// Largest body of a request to this path.
pub(super) fn body_bytes_max(path: &str) -> usize {
    let values = ["/v1/data", "/v1/agents/"].iter().any(|start| path.starts_with(start));
    match path {
        "/v1/history/import" => IMPORT_BODY_BYTES_MAX,
        _ if values => COLLECT_BODY_BYTES_MAX,
        _ => API_BODY_BYTES_MAX,
    }
}

/// Lets a request over TCP pass, with its user, if its credential is good or it needs none.
pub(super) async fn authenticate(gate: Gate, request: Request, next: Next) -> Response {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
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
    match verified(gate, credential, request).await {
        Ok(request) => next.run(request).await,
        Err(response) => response,
    }
}

/// Takes the body of a request on the control socket, whose user is known.
pub(super) async fn bounded(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match whole(body, body_bytes_max(parts.uri.path())).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(refused) => refused,
    }
}

/// A body of at most `max` bytes. Of a larger one the rest is read and thrown
/// away, within reason: a client that cannot send it would not see the answer.
async fn whole(mut body: Body, max: usize) -> Result<Bytes, Response> {
    let take = async {
        let (mut taken, mut seen) = (Vec::new(), 0_usize);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map(Frame::into_data) else {
                return Err(error(StatusCode::BAD_REQUEST, "the body broke off"));
            };
            let data = data.unwrap_or_default();
            seen += data.len();
            if seen <= max {
                taken.extend_from_slice(&data);
            } else if seen > DRAIN_BYTES_MAX {
                break;
            }
        }
        if seen > max {
            let text = format!("expected a body of at most {max} bytes");
            return Err(error(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        Ok(Bytes::from(taken))
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
    let mut response = error(StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(SCHEME));
    response
}

/// The request with its user, if the credential is good and meant for it.
async fn verified(gate: Gate, credential: String, request: Request) -> Result<Request, Response> {
    let decode = move || munge::decode(&credential, gate.munge_socket.as_deref());
    let decoded = match tokio::task::spawn_blocking(decode).await {
        Ok(Ok(decoded)) => decoded,
        Ok(Err(MungeError::Unavailable(text))) => {
            return Err(error(StatusCode::SERVICE_UNAVAILABLE, format!("munged: {text}")));
        }
        Ok(Err(refused)) => return Err(unauthorized(&refused.to_string())),
        Err(_) => return Err(error(StatusCode::SERVICE_UNAVAILABLE, "stopping")),
    };
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let head = format!("phalanx/1\n{}\n{path}\n", parts.method);
    if !decoded.payload.starts_with(head.as_bytes()) {
        return Err(unauthorized("credential is for another request"));
    }
    let body = whole(body, body_bytes_max(parts.uri.path())).await?;
    if decoded.payload != request_text(parts.method.as_str(), &path, &body).as_bytes() {
        return Err(unauthorized("credential is for another request"));
    }
    parts.extensions.insert(ConnectInfo(Peer { uid: Some(decoded.uid), remote: true }));
    Ok(Request::from_parts(parts, Body::from(body)))
}
