// SPDX-License-Identifier: GPL-3.0-or-later
//! The reason for which a request to the daemon was not fulfilled, with the text for the user.

/// The reason for which a request was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The request is wrong (HTTP 400).
    #[error("{0}")]
    BadRequest(String),
    /// The thing asked for does not exist (404).
    #[error("{0}")]
    NotFound(String),
    /// The request collides with an existing thing (409).
    #[error("{0}")]
    Conflict(String),
    /// The daemon cannot answer at present (503).
    #[error("{0}")]
    Unavailable(String),
}

/// Converts the error of a database that cannot be asked at present.
impl From<crate::sqlite::Error> for Failure {
    fn from(error: crate::sqlite::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}
