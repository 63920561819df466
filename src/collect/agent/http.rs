// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service over HTTP/1.1: one connection, one request at a time.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

use super::target::Target;
use crate::collect::{Service, ServiceError};
use crate::limits::AGENT_REPLY_BYTES_MAX;
use crate::model::collect::{DataReport, SyncReply, SyncRequest, request_text};

/// Longest time for an answer beyond the time that it may be held.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause where the answer does not name one.
const BUSY_MS: u64 = 1000;

/// See the module. Over TCP each request carries a MUNGE credential; over a
/// Unix socket the kernel tells the daemon who asks.
#[derive(Debug)]
pub struct HttpService {
    target: Target,
    node: String,
    munge_socket: Option<PathBuf>,
    runtime: Runtime,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl HttpService {
    /// For the agent of this node.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(target: Target, node: &str, munge_socket: Option<PathBuf>) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build()?;
        Ok(Self { target, node: node.to_owned(), munge_socket, runtime, connection: None })
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<T, ServiceError> {
        let request = self.request(method, path, body)?;
        let connection = self.connection.take();
        let target = &self.target;
        let exchanged = self.runtime.block_on(async {
            tokio::time::timeout(patience, exchange(target, connection, request)).await
        });
        let (connection, answer) = match exchanged {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Err(_) => {
                let text = format!("no answer within {} s", patience.as_secs());
                return Err(self.unreachable(&text));
            }
        };
        self.connection = Some(connection);
        answer.parse().map_err(|error| match error {
            ServiceError::Unreachable(text) => self.unreachable(&text),
            other => other,
        })
    }

    fn unreachable(&self, why: &str) -> ServiceError {
        ServiceError::Unreachable(format!("{}: {why}", self.target))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, ServiceError> {
        let mut request = Request::builder().method(method.clone()).uri(path);
        match &self.target {
            Target::Unix(_) => request = request.header(HOST, "localhost"),
            Target::Tcp(authority) => {
                let text = request_text(method.as_str(), path, &body);
                let socket = self.munge_socket.as_deref();
                let credential = phalanx_ffi::munge::encode(text.as_bytes(), socket, 0)
                    .map_err(|error| ServiceError::Unreachable(error.to_string()))?;
                request = request
                    .header(HOST, authority)
                    .header(AUTHORIZATION, format!("Munge {credential}"));
            }
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ServiceError::Refused(format!("{path}: {error}")))
    }
}

impl Service for HttpService {
    fn sync(&mut self, request: &SyncRequest) -> Result<SyncReply, ServiceError> {
        let body = serde_json::to_vec(request)
            .map_err(|error| ServiceError::Refused(error.to_string()))?;
        let path = format!("/v1/agents/{}/sync", self.node);
        self.ask(Method::POST, &path, body, Duration::from_millis(request.wait_ms) + PATIENCE)
    }

    fn read(&mut self, name: &str, node: Option<&str>) -> Result<DataReport, ServiceError> {
        let path = match node {
            Some(node) => format!("/v1/data/{name}/{node}"),
            None => format!("/v1/data/{name}"),
        };
        self.ask(Method::GET, &path, Vec::new(), PATIENCE)
    }
}

struct Answer {
    status: StatusCode,
    retry_ms: Option<u64>,
    body: Bytes,
}

impl Answer {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ServiceError> {
        if self.status.is_success() {
            return serde_json::from_slice(&self.body).map_err(|error| {
                ServiceError::Refused(format!("unexpected answer: {error}; another version?"))
            });
        }
        let error: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = error["error"].as_str().unwrap_or_default();
        let text = format!("{}: {text}", self.status);
        Err(match self.status {
            StatusCode::NOT_FOUND => ServiceError::NotFound(text),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                ServiceError::Busy(self.retry_ms.unwrap_or(BUSY_MS))
            }
            status if status.is_server_error() => ServiceError::Unreachable(text),
            _ => ServiceError::Refused(text),
        })
    }
}

type Exchanged = (SendRequest<Full<Bytes>>, Answer);

/// One request and its answer; on the open connection if that still works.
async fn exchange(
    target: &Target,
    connection: Option<SendRequest<Full<Bytes>>>,
    request: Request<Full<Bytes>>,
) -> Result<Exchanged, String> {
    let mut sender = match connection {
        // Turns of the runtime only here: let it see a close since the last request.
        Some(mut sender) => {
            match tokio::time::timeout(Duration::from_secs(1), sender.ready()).await {
                Ok(Ok(())) => sender,
                _ => connect(target).await?,
            }
        }
        None => connect(target).await?,
    };
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let seconds = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let retry_ms = seconds.map(|seconds: u64| seconds.saturating_mul(1000));
    let body = Limited::new(response.into_body(), AGENT_REPLY_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    Ok((sender, Answer { status, retry_ms, body }))
}

async fn connect(target: &Target) -> Result<SendRequest<Full<Bytes>>, String> {
    match target {
        Target::Unix(path) => {
            handshake(UnixStream::connect(path).await.map_err(|error| error.to_string())?).await
        }
        Target::Tcp(authority) => {
            let stream = TcpStream::connect(authority).await.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            handshake(stream).await
        }
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends with the sender, or when the other side closes.
    tokio::spawn(connection);
    Ok(sender)
}
