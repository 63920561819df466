// SPDX-License-Identifier: GPL-3.0-or-later
//! The user of a request and that user's rights.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::http::Method;
use nix::unistd::Uid;

use super::doors::Client;

/// Rights of users.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Whether every local user may read.
    pub public_read: bool,
    /// User ids that may read and change, besides root, the daemon's own and SlurmUser.
    pub allowed_uids: Vec<u32>,
    /// SlurmUser, once slurmctld has told it.
    pub owner: Arc<OnceLock<u32>>,
}

impl Access {
    pub(super) fn may_change(&self, peer: Peer) -> bool {
        peer.uid.is_some_and(|uid| {
            let known = uid == 0 || self.owner.get() == Some(&uid);
            known || uid == Uid::effective().as_raw() || self.allowed_uids.contains(&uid)
        })
    }

    /// Returns whether the peer may read: anybody, or only users who may change the daemon. Peers
    /// over TCP passed [`Gate`](super::Gate), which decides what is public there.
    pub(super) fn may_read(&self, peer: Peer) -> bool {
        let stranger = peer.remote && peer.uid.is_none();
        self.public_read || stranger || self.may_change(peer)
    }

    /// Returns the client whose bounds apply to the peer.
    pub(super) fn client(&self, peer: Peer) -> Client {
        match (peer.uid, peer.address) {
            _ if self.may_change(peer) => Client::Trusted,
            (Some(uid), _) => Client::User(uid),
            (None, Some(address)) => Client::Address(address),
            // Nobody in particular.
            (None, None) => Client::User(u32::MAX),
        }
    }
}

/// The user at the other end of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peer {
    /// User id, if it is known.
    pub(super) uid: Option<u32>,
    /// Whether the request came over TCP.
    pub(super) remote: bool,
    pub(super) address: Option<IpAddr>,
}

/// Right that a request needs, which is known before its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// Right to read; the resource decides who has it.
    Read,
    /// Right to send values of a node.
    HandIn,
    /// Changing something.
    Change,
}

impl Right {
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method.as_str(), parts.as_slice()) {
            ("GET" | "HEAD" | "OPTIONS", _) => Self::Read,
            ("POST", ["v1", "agents", _, "sync"]) | ("PUT", ["v1", "data", _, _]) => Self::HandIn,
            _ => Self::Change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_change_is_named() {
        let access = Access { allowed_uids: vec![7], ..Access::default() };
        let may = |uid| access.may_change(Peer { uid, ..Peer::default() });
        assert!([0, 7, Uid::effective().as_raw()].into_iter().all(|uid| may(Some(uid))));
        assert!(!may(None) && !may(Some(64_911)));
        access.owner.set(64_911).unwrap();
        assert!(may(Some(64_911)) && !may(Some(64_912)));
    }

    #[test]
    fn rights_follow_from_method_and_path() {
        let right = |method: &str, path| Right::of(&method.parse().unwrap(), path);
        assert_eq!(right("GET", "/v1/history/import"), Right::Read);
        assert_eq!(right("POST", "/v1/agents/n1/sync"), Right::HandIn);
        assert_eq!(right("PUT", "/v1/data/load/n1"), Right::HandIn);
        for (method, path) in [
            ("POST", "/v1/history/import"),
            ("POST", "/v1/data"),
            ("PUT", "/v1/use/power"),
            ("POST", "/v1/agents/n1"),
            ("PUT", "/v1/agents/n1/sync"),
            ("POST", "/nothing"),
            ("BREW", "/v1/status"),
        ] {
            assert_eq!(right(method, path), Right::Change, "{method} {path}");
        }
    }
}
