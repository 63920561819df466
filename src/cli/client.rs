// SPDX-License-Identifier: GPL-3.0-or-later
//! HTTP/1.1 over the daemon's control socket: one request, one connection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::exit::{Exit, Failure};
use crate::api::types::ErrorBody;
use crate::limits::REPLY_BYTES_MAX;

/// Longest time that a request may take, from connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The same for one that brings a body with it, which is to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// Where the daemon listens.
#[derive(Clone, Debug)]
pub(super) struct Client {
    socket: PathBuf,
}

/// What it answered.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// The body of a success.
    ///
    /// # Errors
    /// The daemon's message: [`Exit::Usage`] where it says that the request
    /// was bad, else [`Exit::Negative`].
    pub(super) fn expect_success(&self) -> Result<&[u8], Failure> {
        if self.status.is_success() {
            return Ok(&self.body);
        }
        let message = match self.try_parse::<ErrorBody>() {
            Some(body) if !body.error.is_empty() => body.error,
            _ => format!("phalanxd answered {}", self.status),
        };
        let exit = match self.status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Exit::Usage,
            _ => Exit::Negative,
        };
        Err(Failure::new(exit, message))
    }

    /// Whether it said "not now".
    pub(super) fn is_unavailable(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// The body as JSON, if it is of this form.
    pub(super) fn try_parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Client {
    pub(super) fn new(socket: &Path) -> Client {
        Client { socket: socket.to_path_buf() }
    }

    /// Parses the body of a success.
    ///
    /// # Errors
    /// [`Exit::Unreachable`]: whatever answers there does not speak as phalanxd
    /// of this version does.
    pub(super) fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(body).map_err(|error| {
            let message = format!(
                "unexpected answer at {}: {error}; are phalanx and phalanxd of the same version?",
                self.socket.display()
            );
            Failure::new(Exit::Unreachable, message)
        })
    }

    /// Sends a request without a body and takes the whole answer.
    ///
    /// # Errors
    /// [`Exit::Unreachable`] when there is no complete answer within
    /// [`TIMEOUT`] and [`REPLY_BYTES_MAX`].
    pub(super) fn request(&self, method: Method, path: &str) -> Result<Reply, Failure> {
        self.send(method, path, None)
    }

    /// Whether somebody listens there.
    pub(super) fn is_listening(&self) -> bool {
        std::os::unix::net::UnixStream::connect(&self.socket).is_ok()
    }

    /// The same with a JSON body.
    ///
    /// # Errors
    /// As [`Client::request`], within [`WRITE_TIMEOUT`].
    pub(super) fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Reply, Failure> {
        let limit = if body.is_none() { TIMEOUT } else { WRITE_TIMEOUT };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| self.unreachable(&error.to_string()))?;
        runtime.block_on(async {
            match tokio::time::timeout(limit, self.exchange(method, path, body)).await {
                Ok(answer) => answer.map_err(|reason| self.unreachable(&reason)),
                Err(_) => Err(self.unreachable(&format!("no answer within {} s", limit.as_secs()))),
            }
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Reply, String> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let driver = tokio::spawn(connection);
        let method = match method {
            Method::Get => hyper::Method::GET,
            Method::Post => hyper::Method::POST,
            Method::Put => hyper::Method::PUT,
            Method::Patch => hyper::Method::PATCH,
            Method::Delete => hyper::Method::DELETE,
        };
        let mut request =
            Request::builder().method(method).uri(path).header(hyper::header::HOST, "localhost");
        if body.is_some() {
            request = request.header(hyper::header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::<Bytes>::from(body.unwrap_or_default()))
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), REPLY_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        driver.abort();
        Ok(Reply { status, body: body.to_vec() })
    }

    fn unreachable(&self, reason: &str) -> Failure {
        let message = format!(
            "phalanxd does not answer at {}: {reason}; is phalanxd running? \
             Slurm places jobs by itself meanwhile",
            self.socket.display()
        );
        Failure::new(Exit::Unreachable, message)
    }
}
