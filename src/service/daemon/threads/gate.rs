// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `gate` accepts connections of the program `phalanx-gate`.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use log::{info, warn};

use crate::daemon::shared::Shared;
use crate::gate_socket::{bind, is_gate};
use crate::locations::{Gate, Listening};
use crate::sync::TICK;
use phalanx_config::Config;
use phalanx_ffi::locks::lock;
use phalanx_messages::gate::{Door, GATE_SOCKET};

/// Most connections that are looked at in one turn.
const TURN_MAX: usize = 256;

/// Returns the path of the gate's socket.
pub fn path(config: &Config) -> PathBuf {
    config.control.socket.with_file_name(GATE_SOCKET)
}

/// Accepts the gate's connections until `stop`, and has the gate listen at `control.listen`.
pub fn run(shared: &Shared, stop: &AtomicBool) {
    let config = shared.config();
    let path = path(&config);
    let ready = bind(&path).and_then(|bound| bound.set_nonblocking(true).map(|()| bound));
    let listener = match ready {
        Ok(listener) => listener,
        Err(error) => {
            warn!("{}: {error}; nothing is asked elsewhere", path.display());
            return;
        }
    };
    let mut door = config.control.listen.parse().ok().map(Listening::new);
    if door.is_some() {
        told(shared, Err("phalanx-gate is not connected".to_owned()));
    }
    let mut connected = false;
    while !stop.load(Ordering::Relaxed) {
        accept(&listener, &shared.inputs.gate);
        if let Some(new) = door.as_mut().and_then(|door| door.tend(&shared.inputs.gate)) {
            told(shared, new);
        }
        let now = shared.inputs.gate.connections() > 0;
        if now != std::mem::replace(&mut connected, now) {
            info!("phalanx-gate is {}", if now { "connected" } else { "gone" });
        }
        std::thread::sleep(TICK);
    }
    let _ = std::fs::remove_file(path);
}

/// Keeps whether the gate listens, for the status, and logs changes.
fn told(shared: &Shared, door: Door) {
    let address = &shared.config().control.listen;
    let error = door.err();
    let known = std::mem::replace(&mut *lock(&shared.control.listen_error), error.clone());
    match error {
        Some(error) if known.as_ref() != Some(&error) => warn!("listen at {address}: {error}"),
        Some(_) => {}
        None => info!("listening at {address}"),
    }
}

fn accept(listener: &UnixListener, gate: &Gate) {
    for _ in 0..TURN_MAX {
        let Ok((stream, _)) = listener.accept() else { return };
        if is_gate(&stream) {
            gate.let_in(stream);
        }
    }
}
