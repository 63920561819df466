// SPDX-License-Identifier: GPL-3.0-or-later
//! Why a connection of the plugin is closed.

use phalanx_ffi::wire;
use phalanx_messages::rest::OTHER_PROTOCOL;
use thiserror::Error;

/// Reason why a connection is closed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(super) enum ProtocolError {
    /// The bytes are no message.
    #[error(transparent)]
    Wire(wire::WireError),
    /// The overlay is of another release; the text is for the administrator.
    #[error(
        "the overlay in slurmctld speaks version {got} {OTHER_PROTOCOL}, this phalanxd version \
         {}: install both from one release, then restart phalanxd and slurmctld",
        wire::PHX_VERSION
    )]
    Version {
        /// Version that the overlay speaks.
        got: u16,
    },
    /// A valid message came that is not allowed at that point.
    #[error("{got} came {when}")]
    Order {
        /// Type of the message.
        got: wire::Type,
        /// Point in the protocol at which the message came, in words.
        when: &'static str,
    },
    /// The full state is not the one that its frame announces.
    #[error("full state: {what}: {got}, expected {expected}")]
    Sync {
        /// The counted thing.
        what: &'static str,
        /// Number that was found.
        got: u64,
        /// Number that was announced.
        expected: u64,
    },
}

impl From<wire::WireError> for ProtocolError {
    fn from(error: wire::WireError) -> Self {
        match error {
            wire::WireError::Version { got } => Self::Version { got },
            other => Self::Wire(other),
        }
    }
}
