// SPDX-License-Identifier: GPL-3.0-or-later
//! The user of a request and that user's rights.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use nix::unistd::Uid;
use tokio::net::UnixListener;

/// Rights of users.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Every local user may read.
    pub public_read: bool,
    /// User ids that may read and change, besides root and the daemon's own.
    pub allowed_uids: Vec<u32>,
}

impl Access {
    pub(super) fn may_change(&self, peer: Peer) -> bool {
        peer.uid.is_some_and(|uid| {
            uid == 0 || uid == Uid::effective().as_raw() || self.allowed_uids.contains(&uid)
        })
    }

    /// Reading is for everybody, or for those who may change. Strangers over TCP passed the gate,
    /// which knows what is public there.
    pub(super) fn may_read(&self, peer: Peer) -> bool {
        let stranger = peer.remote && peer.uid.is_none();
        self.public_read || stranger || self.may_change(peer)
    }
}

/// The user at the other end of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peer {
    /// User id, if it is known.
    pub(super) uid: Option<u32>,
    /// The request came over TCP.
    pub(super) remote: bool,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let uid = stream.io().peer_cred().ok().map(|credentials| credentials.uid());
        Self { uid, remote: false }
    }
}
