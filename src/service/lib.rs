// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon and its modules for everything outside it.
//!
//! The modules use each other downwards only: [`daemon`] wires the others together; [`link`]
//! speaks with the plugin in slurmctld, `source` reads Slurm's tables, `locations` where inputs
//! lie, `collect` what nodes measure; `history` and [`recordings`] keep what happened; `api`
//! serves it.
#![forbid(unsafe_code)]

mod api;
mod clock;
mod collect;
pub mod daemon;
mod failure;
mod gate_socket;
mod history;
pub mod link;
mod locations;
pub mod recordings;
mod source;
mod sqlite;
mod sync;
mod version;

pub use version::version;

/// Makes a panic of any thread end the process, whatever the build's profile says: systemd starts
/// the daemon again, which without a thread would go on answering wrong or not at all.
pub fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}
