// SPDX-License-Identifier: GPL-3.0-or-later
//! HTTP/1.1 to the daemon, from commands and agents: over its Unix socket, where the kernel names
//! the user, or over TCP, where each request carries a MUNGE credential. One connection, one
//! request at a time.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

use phalanx_core::collect::request_text;
use phalanx_core::target::Target;

/// Longest time for a connection to a host that may be down.
const CONNECT: Duration = Duration::from_secs(2);
/// Longest time in which an open connection shows that it still works.
const READY: Duration = Duration::from_secs(1);

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    fn http(self) -> hyper::Method {
        match self {
            Method::Get => hyper::Method::GET,
            Method::Post => hyper::Method::POST,
            Method::Put => hyper::Method::PUT,
            Method::Patch => hyper::Method::PATCH,
            Method::Delete => hyper::Method::DELETE,
        }
    }
}

/// Answer of the daemon.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Milliseconds of `Retry-After`.
    pub retry_ms: Option<u64>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A connection to the daemon, opened with the first request.
#[derive(Debug)]
pub struct Connection {
    target: Target,
    munge_socket: Option<PathBuf>,
    reply_bytes_max: usize,
    runtime: Runtime,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// `munge_socket` is that of another munged than the machine's.
    pub fn new(
        target: Target,
        munge_socket: Option<PathBuf>,
        reply_bytes_max: usize,
    ) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build()?;
        Ok(Self { target, munge_socket, reply_bytes_max, runtime, open: None })
    }

    /// Address of the daemon.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request and takes its whole answer, within `patience`. `body` is JSON.
    pub fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<Answer, String> {
        let request = self.request(method, path, body)?;
        let open = self.open.take();
        let (target, max) = (&self.target, self.reply_bytes_max);
        let exchanged = self.runtime.block_on(async {
            tokio::time::timeout(patience, exchange(target, open, request, max)).await
        });
        let (open, answer) =
            exchanged.map_err(|_| format!("no answer within {} s", seconds(patience)))??;
        self.open = Some(open);
        Ok(answer)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<hyper::Request<Full<Bytes>>, String> {
        let method = method.http();
        let mut request = hyper::Request::builder().method(method.clone()).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.unwrap_or_default();
        match &self.target {
            Target::Unix(_) => request = request.header(HOST, "localhost"),
            Target::Tcp(authority) => {
                let text = request_text(method.as_str(), path, &body);
                let socket = self.munge_socket.as_deref();
                let credential = phalanx_ffi::munge::encode(text.as_bytes(), socket, 0)
                    .map_err(|error| error.to_string())?;
                request = request
                    .header(HOST, authority)
                    .header(AUTHORIZATION, format!("Munge {credential}"));
            }
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| format!("{path}: {error}"))
    }
}

type Exchanged = (SendRequest<Full<Bytes>>, Answer);

/// One request and its answer; on the open connection if that still works.
async fn exchange(
    target: &Target,
    open: Option<SendRequest<Full<Bytes>>>,
    request: hyper::Request<Full<Bytes>>,
    reply_bytes_max: usize,
) -> Result<Exchanged, String> {
    let mut sender = match open {
        // The runtime runs only here: this lets it see a close since the last request.
        Some(mut sender) => match tokio::time::timeout(READY, sender.ready()).await {
            Ok(Ok(())) => sender,
            _ => connect(target).await?,
        },
        None => connect(target).await?,
    };
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let seconds = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let retry_ms = seconds.map(|seconds: u64| seconds.saturating_mul(1000));
    let body = Limited::new(response.into_body(), reply_bytes_max)
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    Ok((sender, Answer { status, retry_ms, body: body.to_vec() }))
}

async fn connect(target: &Target) -> Result<SendRequest<Full<Bytes>>, String> {
    match target {
        Target::Unix(path) => {
            handshake(UnixStream::connect(path).await.map_err(|error| error.to_string())?).await
        }
        Target::Tcp(authority) => {
            let stream = tokio::time::timeout(CONNECT, TcpStream::connect(authority))
                .await
                .map_err(|_| format!("no connection within {} s", CONNECT.as_secs()))?
                .map_err(|error| error.to_string())?;
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
/// Rounded to tenths; whole ones without a point.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
