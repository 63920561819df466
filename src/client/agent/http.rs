// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service over HTTP/1.1.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::data_service::{Service, ServiceError};
use crate::remote::{Answer, Connection, Method};
use phalanx_core::limits::AGENT_REPLY_BYTES_MAX;
use phalanx_messages::collect::{DataReport, SyncReply, SyncRequest};
use phalanx_messages::target::Target;

/// Longest time for an answer beyond the time that the request may be held.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a refusal for load that gives no time, in milliseconds.
const BUSY_MS: u64 = 1000;

/// A connection to the data service for one agent.
#[derive(Debug)]
pub struct HttpService {
    connection: Connection,
    node: String,
}

impl HttpService {
    /// Connects the agent of this node to the service. Answers count only if one of the users
    /// `answered_by` gave them: an agent may run as root.
    pub fn new(
        target: Target,
        node: &str,
        munge_socket: Option<PathBuf>,
        answered_by: Vec<u32>,
    ) -> std::io::Result<Self> {
        let (uids, most) = (Some(answered_by), AGENT_REPLY_BYTES_MAX);
        let connection = Connection::new(target, munge_socket, uids, most)?;
        Ok(Self { connection, node: node.to_owned() })
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<T, ServiceError> {
        let answer = self.connection.ask(method, path, body, patience);
        let parsed = answer.map_err(ServiceError::Unreachable).and_then(|answer| parse(&answer));
        parsed.map_err(|error| match error {
            ServiceError::Unreachable(why) => {
                ServiceError::Unreachable(format!("{}: {why}", self.connection.target()))
            }
            other => other,
        })
    }
}

impl Service for HttpService {
    fn sync(&mut self, request: &SyncRequest) -> Result<SyncReply, ServiceError> {
        let body = serde_json::to_vec(request)
            .map_err(|error| ServiceError::Refused(error.to_string()))?;
        let path = format!("/v1/agents/{}/sync", self.node);
        let patience = Duration::from_millis(request.wait_ms) + PATIENCE;
        self.ask(&Method::POST, &path, Some(body), patience)
    }

    fn read(&mut self, name: &str, node: Option<&str>) -> Result<DataReport, ServiceError> {
        let path = match node {
            Some(node) => format!("/v1/data/{name}/{node}"),
            None => format!("/v1/data/{name}"),
        };
        self.ask(&Method::GET, &path, None, PATIENCE)
    }
}

fn parse<T: DeserializeOwned>(answer: &Answer) -> Result<T, ServiceError> {
    if (200..300).contains(&answer.status) {
        return serde_json::from_slice(&answer.body).map_err(|error| {
            ServiceError::Refused(format!("unexpected answer: {error}; another version?"))
        });
    }
    let error: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = format!("{}: {}", answer.status, error["error"].as_str().unwrap_or_default());
    Err(match answer.status {
        404 => ServiceError::NotFound(text),
        429 | 503 => ServiceError::Busy(answer.retry_ms.unwrap_or(BUSY_MS)),
        500.. => ServiceError::Unreachable(text),
        _ => ServiceError::Refused(text),
    })
}
