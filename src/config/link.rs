// SPDX-License-Identifier: GPL-3.0-or-later
//! `[link]` and `[control]`: the sockets of the plugin and of the command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::section::section;

/// Calls of Slurm that a proof may answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proofs {
    /// None: Slurm is asked in full each time.
    None,
    /// Whether a job could ever run, and when it could.
    #[default]
    Planning,
    /// Also starts that cannot fit now.
    All,
    /// All, and each is compared with Slurm's answer in full, which counts.
    Checked,
}

section! {
    /// `[link]`: the Unix socket between the overlay plugin and the daemon.
    LinkConfig {
        /// Path of the `SOCK_SEQPACKET` socket that the plugin connects to.
        socket: PathBuf = "/run/phalanx/plugin.sock".into(),
        /// Longest time that the plugin waits for one answer, microseconds.
        deadline_us: u32 = 2000,
        /// Calls that a proof may answer for few nodes instead of Slurm for all.
        proofs: Proofs = Proofs::Planning,
        /// User ids that may connect besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new(),
        /// Jobs are placed also on a release of Slurm on which nothing was tested.
        untested_release: bool = false,
    }
}

/// Who may read without being known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PublicRead {
    /// Nobody: only the users that may administer.
    None,
    /// Every user of this host, by the socket.
    #[default]
    Local,
    /// Also whoever reaches the TCP listener, as browsers and Prometheus have to.
    All,
}

section! {
    /// `[control]`: the HTTP socket of the command line.
    ControlConfig {
        /// Path of the Unix socket.
        socket: PathBuf = "/run/phalanx/control.sock".into(),
        /// User ids that may read and reload besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new(),
        /// Who may read without being known; reload is never public.
        public_read: PublicRead = PublicRead::Local,
        /// Address and port of a TCP listener for agents and others; empty: none.
        listen: String = String::new(),
        /// Socket of munged; empty: the machine's own.
        munge_socket: String = String::new(),
        /// Daemons that commands on hosts without the socket ask: `http://HOST[:PORT]`, in order.
        masters: Vec<String> = Vec::new(),
    }
}
