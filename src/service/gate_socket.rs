// SPDX-License-Identifier: GPL-3.0-or-later
//! Sockets to which only the program `phalanx-gate` may connect.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Uid, User};

use phalanx_messages::gate::GATE_USER;

/// Binds a socket for the gate.
///
/// # Errors
/// The system's.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    // No other daemon is alive: it would have the control socket.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    // Each is asked who it is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Whether the other end is of the gate's user, of the daemon's own or root.
pub fn is_gate(stream: &impl AsFd) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| is_gates(Uid::from_raw(peer.uid())))
}

fn is_gates(uid: Uid) -> bool {
    let named = || User::from_uid(uid).ok().flatten().is_some_and(|user| user.name == GATE_USER);
    uid.is_root() || uid == Uid::effective() || named()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_not_the_gate() {
        assert!(is_gates(Uid::from_raw(0)) && is_gates(Uid::effective()));
        for other in [64_911, 65_534, u32::MAX - 1] {
            assert!(!is_gates(Uid::from_raw(other)), "{other}");
        }
    }
}
