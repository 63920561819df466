// SPDX-License-Identifier: GPL-3.0-or-later
//! A client of HTTP/1.1 to the daemon for commands and agents: over its Unix socket, where the
//! kernel names the user, or over TCP, where each request carries a MUNGE credential. One
//! connection, one request at a time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
pub use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

use phalanx_messages::collect::{PROOF_HEADER, answer_text, request_text};
use phalanx_messages::target::Target;

/// Longest time for a connection to a host that may be down.
const CONNECT: Duration = Duration::from_secs(2);
/// Status of an answer that wants another credential.
const UNAUTHORIZED: u16 = 401;
/// Longest time in which an open connection shows that it still works.
const READY: Duration = Duration::from_secs(1);

/// Answer of the daemon.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Milliseconds of `Retry-After`.
    pub retry_ms: Option<u64>,
    /// The whole body.
    pub body: Vec<u8>,
    /// Credential that proves which user answered.
    pub proof: Option<String>,
    /// Realm that a credential for this daemon has to name.
    realm: Option<String>,
}

/// A connection to the daemon, opened with the first request.
#[derive(Debug)]
pub struct Connection {
    target: Target,
    munge_socket: Option<PathBuf>,
    reply_bytes_max: usize,
    answered_by: Option<Vec<u32>>,
    /// Realm of the daemon at the other end; `None`: not known.
    realm: Option<String>,
    runtime: Runtime,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// Prepares a connection; `munge_socket` is that of a munged other than the machine's. With
    /// `answered_by`, answers over TCP count only with a proof of one of these users: anybody may
    /// listen at a port while phalanxd does not.
    pub fn new(
        target: Target,
        munge_socket: Option<PathBuf>,
        answered_by: Option<Vec<u32>>,
        reply_bytes_max: usize,
    ) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build()?;
        Ok(Self {
            target,
            munge_socket,
            reply_bytes_max,
            answered_by,
            realm: None,
            runtime,
            open: None,
        })
    }

    /// Address of the daemon.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request and takes its whole answer, within `patience`. `body` is JSON.
    pub fn ask(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<Answer, String> {
        let wait = Wait { patience, end: Instant::now() + patience };
        let body = body.map(Bytes::from);
        if self.realm.is_none() && matches!(self.target, Target::Tcp(_)) {
            let unsigned = self.builder(&Method::GET, "/healthz").body(Full::default());
            let unsigned = unsigned.map_err(|error| error.to_string())?;
            self.realm = self.send(unsigned, wait)?.realm;
        }
        let answer = self.signed(method, path, body.as_ref(), wait)?;
        let known = answer.realm.is_none() || answer.realm == self.realm;
        if answer.status != UNAUTHORIZED || known {
            return Ok(answer);
        }
        // It was started since, and has another realm.
        self.realm = answer.realm;
        self.signed(method, path, body.as_ref(), wait)
    }

    /// Sends one request, with a credential where the kernel does not name the user.
    fn signed(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&Bytes>,
        wait: Wait,
    ) -> Result<Answer, String> {
        let (request, credential) = self.request(method, path, body)?;
        let answer = self.send(request, wait)?;
        if let (Some(uids), Some(credential)) = (&self.answered_by, credential) {
            check_proof(&answer, &credential, self.munge_socket.as_deref(), uids)?;
        }
        Ok(answer)
    }

    fn send(&mut self, request: hyper::Request<Full<Bytes>>, wait: Wait) -> Result<Answer, String> {
        let open = self.open.take();
        let (target, max) = (&self.target, self.reply_bytes_max);
        let left = wait.end.saturating_duration_since(Instant::now());
        let exchanged = self.runtime.block_on(async {
            tokio::time::timeout(left, exchange(target, open, request, max)).await
        });
        let (open, answer) =
            exchanged.map_err(|_| format!("no answer within {} s", seconds(wait.patience)))??;
        self.open = Some(open);
        Ok(answer)
    }

    fn builder(&self, method: &Method, path: &str) -> hyper::http::request::Builder {
        let host = match &self.target {
            Target::Unix(_) => "localhost",
            Target::Tcp(authority) => authority,
        };
        hyper::Request::builder().method(method).uri(path).header(HOST, host)
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Bytes>,
    ) -> Result<(hyper::Request<Full<Bytes>>, Option<String>), String> {
        let mut sent = None;
        let mut request = self.builder(method, path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.cloned().unwrap_or_default();
        if let Target::Tcp(_) = &self.target {
            let text = request_text(self.realm.as_deref(), method.as_str(), path, &body);
            let socket = self.munge_socket.as_deref();
            let credential = phalanx_ffi::munge::encode(text.as_bytes(), socket, 0)
                .map_err(|error| error.to_string())?;
            request = request.header(AUTHORIZATION, format!("Munge {credential}"));
            if self.answered_by.is_some() {
                request = request.header(PROOF_HEADER, "munge");
            }
            sent = Some(credential);
        }
        let request = request.body(Full::new(body));
        request.map(|request| (request, sent)).map_err(|error| format!("{path}: {error}"))
    }
}

/// Time limit of an answer, and the moment when the limit ends.
#[derive(Clone, Copy)]
struct Wait {
    patience: Duration,
    end: Instant,
}

/// Returns the realm of a challenge such as `Munge realm="7f"`.
fn realm_of(headers: &HeaderMap) -> Option<String> {
    let challenge = headers.get(WWW_AUTHENTICATE)?.to_str().ok()?;
    let (realm, _) = challenge.strip_prefix("Munge realm=\"")?.split_once('"')?;
    Some(realm.to_owned())
}

/// Checks an answer's proof; the error says why the answer does not count.
fn check_proof(
    answer: &Answer,
    credential: &str,
    munge_socket: Option<&Path>,
    uids: &[u32],
) -> Result<(), String> {
    let proof = answer.proof.as_deref().ok_or(
        "the answer has no proof that it is phalanxd's: another program at its port, or an \
         older version",
    )?;
    let decoded = phalanx_ffi::munge::decode(proof, munge_socket)
        .map_err(|error| format!("proof of the answer: {error}"))?;
    if !uids.contains(&decoded.uid) {
        return Err(format!(
            "the answer is of user id {}: expected root or SlurmUser",
            decoded.uid
        ));
    }
    if decoded.payload != answer_text(credential, answer.status, &answer.body).as_bytes() {
        return Err("the proof is of another answer".to_owned());
    }
    Ok(())
}

type Exchanged = (SendRequest<Full<Bytes>>, Answer);

/// Sends one request and takes its answer, on the open connection if that still works.
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
    let proof = response.headers().get(PROOF_HEADER).and_then(|value| value.to_str().ok());
    let proof = proof.map(str::to_owned);
    let realm = realm_of(response.headers());
    let body = Limited::new(response.into_body(), reply_bytes_max)
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    Ok((sender, Answer { status, retry_ms, body: body.to_vec(), proof, realm }))
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
/// Converts a time to seconds, rounded to tenths; whole ones without a point.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
