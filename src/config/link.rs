// SPDX-License-Identifier: GPL-3.0-or-later
//! `[link]` and `[control]`: the sockets of the plugin and of the command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::section::section;

/// Calls of Slurm that a proof may answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proofs {
    /// No calls: Slurm is asked in full each time.
    None,
    /// Calls that ask whether a job could ever run, and when it could.
    #[default]
    Planning,
    /// Calls that ask for a plan, and starts that cannot fit now.
    All,
    /// All calls, but each proof is compared with Slurm's answer in full, which counts.
    Checked,
}

section! {
    /// `[link]`: the Unix socket between the overlay plugin and the daemon.
    LinkConfig {
        /// Path of the `SOCK_SEQPACKET` socket that the plugin connects to.
        socket: PathBuf = "/run/phalanx/plugin.sock".into(),
        /// Longest time that the plugin waits for one answer, in microseconds.
        deadline_us: u32 = 2000,
        /// Calls for which Slurm may test a few nodes, with a proof, instead of all.
        proofs: Proofs = Proofs::Planning,
        /// User ids that may connect besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new(),
        /// Whether jobs are placed on a release of Slurm that was never tested.
        untested_release: bool = false,
    }
}

/// Clients that may read without authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PublicRead {
    /// Nobody: only the users that may administer.
    None,
    /// Every user of this host, by the socket.
    #[default]
    Local,
    /// Every user of this host, and any client of the TCP listener, such as a browser.
    All,
}

section! {
    /// `[control]`: the HTTP socket of the command line.
    ControlConfig {
        /// Path of the Unix socket.
        socket: PathBuf = "/run/phalanx/control.sock".into(),
        /// User ids that may read and reload besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new(),
        /// Clients that may read without authentication; reload is never public.
        public_read: PublicRead = PublicRead::Local,
        /// Address and port of a TCP listener for agents and others; empty: none.
        listen: String = String::new(),
        /// Socket of munged; empty: the host's default.
        munge_socket: String = String::new(),
        /// Addresses of daemons, `http://HOST[:PORT]`, that commands ask in turn on other hosts.
        masters: Vec<String> = Vec::new(),
    }
}
