// SPDX-License-Identifier: GPL-3.0-or-later
//! A client of the daemon: one request, one connection. Of several addresses the first that answers
//! counts; a daemon that answers "not now", as that of a standby controller does, is passed over.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::{Exit, Failure};
pub use phalanx_client::remote::Method;
use phalanx_client::remote::{Answer, Connection};
use phalanx_core::limits::REPLY_BYTES_MAX;
use phalanx_messages::rest::ErrorBody;
use phalanx_messages::target::Target;

/// Longest time that a request may take, from connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time of a request with a body, which the daemon stores before it answers.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends requests to daemons.
#[derive(Clone, Debug)]
pub struct Client {
    /// Addresses of daemons, in the order in which the program asks them.
    pub targets: Vec<Target>,
    /// Socket of a munged other than the machine's default.
    pub munge_socket: Option<PathBuf>,
    /// Users whose answers over TCP count; `None`: any user's.
    pub answered_by: Option<Vec<u32>>,
}

fn name(target: &Target) -> String {
    match target {
        Target::Unix(path) => path.display().to_string(),
        Target::Tcp(_) => target.to_string(),
    }
}

/// The answer of one daemon.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the body of a success.
    ///
    /// # Errors
    /// The daemon's message: [`Exit::Usage`] where it says that the request was bad, else
    /// [`Exit::Negative`].
    pub fn expect_success(&self) -> Result<&[u8], Failure> {
        if (200..300).contains(&self.status) {
            return Ok(&self.body);
        }
        let message = match self.try_parse::<ErrorBody>() {
            Some(body) if !body.error.is_empty() => body.error,
            _ => format!("phalanxd answered {}", self.status),
        };
        let exit = if matches!(self.status, 400 | 422) { Exit::Usage } else { Exit::Negative };
        Err(Failure::new(exit, message))
    }

    /// Whether the daemon said "not now".
    pub fn is_unavailable(&self) -> bool {
        self.status == 503
    }

    /// Returns the body parsed from JSON, if it has the form of `T`.
    pub fn try_parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Client {
    /// Asks at a control socket of this host.
    pub fn local(socket: PathBuf) -> Self {
        Self { targets: vec![Target::Unix(socket)], munge_socket: None, answered_by: None }
    }

    /// Parses the body of a success.
    ///
    /// # Errors
    /// [`Exit::Unreachable`]: whatever answers there does not speak as phalanxd
    /// of this version does.
    pub fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(body).map_err(|error| {
            let names: Vec<String> = self.targets.iter().map(name).collect();
            let message = format!(
                "unexpected answer at {}: {error}; are phalanx and phalanxd of the same version?",
                names.join(", ")
            );
            Failure::new(Exit::Unreachable, message)
        })
    }

    /// Asks for a report.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let reply = self.ask(Method::GET, path, None::<&()>)?;
        self.parse(reply.expect_success()?)
    }

    /// Sends a request, with a JSON body or without, and takes the whole answer.
    ///
    /// # Errors
    /// [`Exit::Unreachable`] when none gives a complete answer within
    /// [`TIMEOUT`] ([`WRITE_TIMEOUT`] with a body) and [`REPLY_BYTES_MAX`].
    pub fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Reply, Failure> {
        let limit = if body.is_none() { TIMEOUT } else { WRITE_TIMEOUT };
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(Failure::usage)?;
        self.within(limit, method, path, body)
    }

    /// Asks each daemon in turn until one answers, all within `limit`.
    pub fn within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Reply, Failure> {
        let until = Instant::now() + limit;
        let (mut silent, mut busy) = (Vec::new(), None);
        for target in &self.targets {
            let left = until.saturating_duration_since(Instant::now());
            match self.ask_one(target, left, (&method, path, body.clone())) {
                Ok(Answer { status, body, .. }) => {
                    let reply = Reply { status, body };
                    if !reply.is_unavailable() {
                        return Ok(reply);
                    }
                    busy = Some(reply);
                }
                Err(why) => silent.push(format!("at {}: {why}", name(target))),
            }
        }
        busy.ok_or_else(|| unreachable(&silent.join("; ")))
    }

    fn ask_one(
        &self,
        target: &Target,
        limit: Duration,
        (method, path, body): (&Method, &str, Option<Vec<u8>>),
    ) -> Result<Answer, String> {
        if limit.is_zero() {
            return Err("no time left".to_owned());
        }
        let (socket, uids) = (self.munge_socket.clone(), self.answered_by.clone());
        let connection = Connection::new(target.clone(), socket, uids, REPLY_BYTES_MAX);
        connection.map_err(|error| error.to_string())?.ask(method, path, body, limit)
    }
}

fn unreachable(reasons: &str) -> Failure {
    let message = format!(
        "phalanxd does not answer {reasons}; is phalanxd running? \
         Slurm places jobs by itself meanwhile"
    );
    Failure::new(Exit::Unreachable, message)
}
