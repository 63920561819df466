// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service as an agent sees it.

use phalanx_messages::collect::{DataReport, SyncReply, SyncRequest};

/// Reason for which the data service did not answer an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The service cannot be reached, or broke off: try again later.
    #[error("data service: {0}")]
    Unreachable(String),
    /// The service is overloaded: try again after this time, in milliseconds.
    #[error("data service: busy for {0} ms")]
    Busy(u64),
    /// The service does not accept this agent or request.
    #[error("data service: refused: {0}")]
    Refused(String),
    /// The service has no such datum.
    #[error("data service: no such datum: {0}")]
    NotFound(String),
}

/// The data service as an agent sees it.
pub trait Service: Send {
    /// Hands over values and reports; blocks for at most `request.wait_ms` until
    /// the generation differs from the request's. After an error nothing of the request counts.
    fn sync(&mut self, request: &SyncRequest) -> Result<SyncReply, ServiceError>;

    /// Returns the latest values of one name, of one node or of all nodes.
    fn read(&mut self, name: &str, node: Option<&str>) -> Result<DataReport, ServiceError>;
}
