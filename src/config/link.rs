// SPDX-License-Identifier: GPL-3.0-or-later
//! `[link]` and `[control]`: the sockets of the plugin and of the command line.

use std::path::PathBuf;

use super::section::section;

section! {
    /// `[link]`: the Unix socket between the overlay plugin and the daemon.
    LinkConfig {
        /// Path of the `SOCK_SEQPACKET` socket that the plugin connects to.
        socket: PathBuf = "/run/phalanx/plugin.sock".into(),
        /// Longest time that the plugin waits for one answer, microseconds.
        deadline_us: u32 = 2000,
        /// Time a minute for which slurmctld may wait in vain, milliseconds.
        late_budget_ms: u32 = 1000,
        /// Former key: at least so many deadlines are within that time.
        breaker_misses: u32 = 0,
        /// Share of the answers that Slurm may refuse.
        refused_share: f64 = 0.5,
        /// Whole states a minute that the plugin may have to send for the daemon's sake.
        syncs_a_minute: u32 = 10,
        /// Time for which the plugin does not ask, milliseconds; twice as long when a
        /// limit is crossed anew.
        breaker_open_ms: u32 = 5000,
        /// So many openings of the breaker within the window eject the plugin; 0: never.
        eject_openings: u32 = 10,
        /// That window, seconds.
        eject_window_s: u32 = 3600,
        /// The plugin also asks when backfill wants to know when a job could run.
        ask_will_run: bool = true,
        /// The plugin asks whether a job could ever run about few nodes first.
        prove_test_only: bool = true,
        /// The plugin asks when a job could run about few nodes first, where a proof allows it.
        prove_will_run: bool = true,
        /// A start that is proved not to fit is not tried.
        prove_no_fit: bool = false,
        /// One proof in so many is held against Slurm's own answer; 0: none.
        verify_every: u32 = 256,
        /// User ids that may connect besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new(),
        /// Jobs are placed also on a release of Slurm on which nothing was tested.
        untested_release: bool = false,
    }
}

section! {
    /// `[control]`: the HTTP socket of the command line.
    ControlConfig {
        /// Path of the Unix socket.
        socket: PathBuf = "/run/phalanx/control.sock".into(),
        /// User ids that may read and reload besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new(),
        /// Every local user may read; reload is never public.
        public_read: bool = true,
        /// Address and port of a TCP listener for agents and others; empty: none.
        listen: String = String::new(),
        /// Anybody who reaches that listener may read without a credential.
        listen_public_read: bool = false,
        /// Socket of munged; empty: the machine's own.
        munge_socket: String = String::new(),
        /// Daemons that commands on hosts without the socket ask: `http://HOST[:PORT]`, in order.
        masters: Vec<String> = Vec::new(),
    }
}
