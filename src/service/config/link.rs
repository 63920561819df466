// SPDX-License-Identifier: GPL-3.0-or-later
//! `[link]` and `[control]`: the sockets of the plugin and of the command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[link]`: the Unix socket between the overlay plugin and the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Path of the `SOCK_SEQPACKET` socket that the plugin connects to.
    pub socket: PathBuf,
    /// Longest time that the plugin waits for one answer, microseconds.
    pub deadline_us: u32,
    /// Misses in a row that make the plugin stop asking.
    pub breaker_misses: u32,
    /// How long it then does not ask, milliseconds.
    pub breaker_open_ms: u32,
    /// Whether backfill's questions ("when could it run") are asked too.
    pub ask_will_run: bool,
    /// User ids that may connect besides root, SlurmUser and the daemon's own.
    pub allowed_uids: Vec<u32>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            socket: "/run/phalanx/plugin.sock".into(),
            deadline_us: 2000,
            breaker_misses: 3,
            breaker_open_ms: 5000,
            ask_will_run: true,
            allowed_uids: Vec::new(),
        }
    }
}

/// `[control]`: the HTTP socket of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// User ids that may read and reload besides root, SlurmUser and the
    /// daemon's own.
    pub allowed_uids: Vec<u32>,
    /// Whether every local user may read; reload is never public.
    pub public_read: bool,
    /// Address and port of a TCP listener for agents and others; empty: none.
    pub listen: String,
    /// Whether anybody who reaches that listener may read without a credential.
    pub listen_public_read: bool,
    /// Socket of munged; empty: the machine's own.
    pub munge_socket: String,
    /// Where commands on hosts without the socket reach a daemon: `http://HOST[:PORT]`, in order.
    pub masters: Vec<String>,
}

impl Default for ControlConfig {
    fn default() -> Self {
        ControlConfig {
            socket: "/run/phalanx/control.sock".into(),
            allowed_uids: Vec::new(),
            public_read: true,
            listen: String::new(),
            listen_public_read: false,
            munge_socket: String::new(),
            masters: Vec::new(),
        }
    }
}
