// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `gate` lets the program `phalanx-gate` in.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use log::{info, warn};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Uid, User};

use crate::daemon::shared::Shared;
use crate::locations::Gate;
use crate::sync::TICK;
use phalanx_config::Config;
use phalanx_messages::gate::{GATE_SOCKET, GATE_USER};

/// Connections that are looked at in one turn.
const TURN_MAX: usize = 256;

/// Returns the path of the gate's socket.
pub fn path(config: &Config) -> PathBuf {
    config.control.socket.with_file_name(GATE_SOCKET)
}

/// Lets the gate in until `stop`.
pub fn run(shared: &Shared, stop: &AtomicBool) {
    let path = path(&shared.config());
    let listener = match listen(&path) {
        Ok(listener) => listener,
        Err(error) => {
            warn!("{}: {error}; nothing is looked up in HDFS", path.display());
            return;
        }
    };
    let mut connected = false;
    while !stop.load(Ordering::Relaxed) {
        accept(&listener, &shared.inputs.gate);
        let now = shared.inputs.gate.connections() > 0;
        if now != std::mem::replace(&mut connected, now) {
            info!("phalanx-gate is {}", if now { "connected" } else { "gone" });
        }
        std::thread::sleep(TICK);
    }
    let _ = std::fs::remove_file(path);
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    // No other daemon is alive: it would have the control socket.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    // Each is asked who it is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(listener: &UnixListener, gate: &Gate) {
    for _ in 0..TURN_MAX {
        let Ok((stream, _)) = listener.accept() else { return };
        if is_gate(&stream) {
            gate.let_in(stream);
        }
    }
}

/// Whether the other end is of the gate's user, of the daemon's own or root.
fn is_gate(stream: &UnixStream) -> bool {
    let Ok(peer) = getsockopt(stream, PeerCredentials) else { return false };
    let uid = Uid::from_raw(peer.uid());
    let named = || User::from_uid(uid).ok().flatten().is_some_and(|user| user.name == GATE_USER);
    uid.is_root() || uid == Uid::effective() || named()
}
