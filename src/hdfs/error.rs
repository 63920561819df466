// SPDX-License-Identifier: GPL-3.0-or-later
//! Why an input could not be located.

/// A reason for which an input could not be located.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HdfsError {
    /// The text is no valid URI.
    #[error("{0}")]
    BadUri(String),
    /// A NameNode that the configuration does not name.
    #[error("{0} is not among the NameNodes of the configuration")]
    NotConfigured(String),
    /// The Hadoop configuration cannot be read.
    #[error("{0}")]
    Configuration(String),
    /// The NameNode could not be connected to.
    #[error("{address}: {error}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The system's error text.
        error: String,
    },
    /// The connection broke, or what came was not understood.
    #[error("connection lost: {0}")]
    Broken(String),
    /// The time for the call is over; names the limit of all calls.
    #[error("no answer in time")]
    OutOfTime(&'static str),
    /// The time limit of the whole input is over; names that limit.
    #[error("no answer in time ({0})")]
    Late(&'static str),
    /// Kerberos did not say who asks.
    #[error("Kerberos: {0}")]
    Kerberos(String),
    /// The NameNode's own refusal.
    #[error("{}: {message}", short(class))]
    Remote {
        /// Class of the exception.
        class: String,
        /// First line of the exception's text.
        message: String,
    },
    /// The file does not exist, or no file matches the pattern.
    #[error("{0}: no such file")]
    NotFound(String),
    /// The input is larger than the limits allow.
    #[error("{0}")]
    TooMuch(String),
}

/// Fails where there are more items than the limit.
pub(super) fn at_most(most: usize, count: usize, path: &str, what: &str) -> Result<(), HdfsError> {
    let more = || HdfsError::TooMuch(format!("{path}: more than {most} {what}"));
    if count > most { Err(more()) } else { Ok(()) }
}

/// Returns the exception's name without its package.
fn short(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

impl HdfsError {
    pub(super) fn is_remote(&self, name: &str) -> bool {
        matches!(self, Self::Remote { class, .. } if short(class) == name)
    }

    /// Whether another NameNode of the same name service may do better.
    pub(super) fn try_next(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken(_) | Self::OutOfTime(_))
            || self.is_remote("StandbyException")
            || self.is_remote("ObserverRetryOnActiveException")
    }

    /// Whether the same request may succeed a little later.
    pub(super) fn try_later(&self) -> bool {
        self.is_remote("RetriableException")
            || self.is_remote("SafeModeException")
            || self.is_remote("RetryStartFileException")
    }
}
