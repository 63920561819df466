// SPDX-License-Identifier: GPL-3.0-or-later
//! The listeners: HTTP/1.1 with JSON bodies over a Unix socket, and one for the clients over TCP
//! that `phalanx-gate` passes on, if configured.
//!
//! Reading is open to every local user unless the configuration says otherwise; changes need root,
//! SlurmUser, the daemon's own user or a listed one. The socket's peer credentials name the user.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{Backlog, listen};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::auth::{self, Gate};
use super::backend::Backend;
use super::doors::{Counters, Doors};
use super::handler::Shared;
use super::listen::Serving;
use super::peer::Access;
use super::routes::routes;
use crate::gate_socket;
use phalanx_core::limits::{API_BLOCKING_THREADS, API_PUBLIC_THREADS, MUNGE_THREADS};

/// Clients over TCP that may wait here to be accepted; more wait at the gate, by host.
const DOOR_BACKLOG: i32 = 16;
/// Longest wait, when the daemon ends, for threads that make answers.
const LAST_THREADS: Duration = Duration::from_secs(2);

/// Reason for which there is no control socket.
#[derive(Debug, Error)]
#[error("{path}: {what}: {source}")]
pub struct ApiError {
    path: PathBuf,
    what: &'static str,
    source: io::Error,
}

/// The bound socket.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: std::os::unix::net::UnixListener,
    remote: Option<(PathBuf, std::os::unix::net::UnixListener, Gate)>,
    access: Access,
    counters: Arc<Counters>,
}

impl Server {
    /// Binds the socket, replacing a stale one. Mode 0666 if every user may read, else 0660.
    pub fn bind(path: &Path, access: Access) -> Result<Self, ApiError> {
        let fail = |what| move |source| ApiError { path: path.to_path_buf(), what, source };
        if let Ok(meta) = std::fs::symlink_metadata(path)
            && meta.file_type().is_socket()
            && std::os::unix::net::UnixStream::connect(path).is_err()
        {
            std::fs::remove_file(path).map_err(fail("remove the stale socket"))?;
        }
        let listener =
            std::os::unix::net::UnixListener::bind(path).map_err(fail("bind the socket"))?;
        let mode = if access.public_read { 0o666 } else { 0o660 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(fail("set the socket's mode"))?;
        listener.set_nonblocking(true).map_err(fail("set non-blocking"))?;
        let path = path.to_path_buf();
        Ok(Self { path, listener, remote: None, access, counters: Arc::default() })
    }

    /// Serves clients over TCP as well, whose bytes the gate passes to this socket.
    pub fn with_remote(mut self, path: PathBuf, gate: Gate) -> Result<Self, ApiError> {
        let fail = |source| ApiError { path: path.clone(), what: "bind the socket", source };
        let bound = gate_socket::bind(&path);
        let ready = |it: std::os::unix::net::UnixListener| {
            it.set_nonblocking(true)?;
            listen(&it, Backlog::new(DOOR_BACKLOG)?)?;
            Ok(it)
        };
        let listener = bound.and_then(ready).map_err(fail)?;
        self.remote = Some((path, listener, gate));
        Ok(self)
    }

    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves on this thread until `stop` changes; each thread that makes answers calls `prepare`.
    pub fn run(
        self,
        backend: Arc<impl Backend>,
        stop: watch::Receiver<bool>,
        prepare: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_start(prepare)
            .max_blocking_threads(API_BLOCKING_THREADS + API_PUBLIC_THREADS + MUNGE_THREADS)
            .build()?;
        let Self { path, listener, remote, access, counters } = self;
        let doors = Arc::new(Doors::new(counters));
        let shared = Arc::new(Shared { backend, access, doors, stop });
        let all = routes(Arc::clone(&shared));
        let door = remote.as_ref().map(|(path, ..)| path.clone());
        let done = runtime.block_on(async {
            if let Some((_, listener, gate)) = remote {
                let [of, asked] = [&shared; 2].map(Arc::clone);
                let check = move |request, next| {
                    auth::authenticate(Arc::clone(&asked), gate.clone(), request, next)
                };
                let routes = all.clone().layer(axum::middleware::from_fn(check));
                let listener = UnixListener::from_std(listener)?;
                tokio::spawn(Serving { routes, shared: of }.remote(listener));
            }
            let of = Arc::clone(&shared);
            let check = move |request, next| auth::bounded(Arc::clone(&of), request, next);
            let routes = all.layer(axum::middleware::from_fn(check));
            Serving { routes, shared }.local(UnixListener::from_std(listener)?).await;
            Ok(())
        });
        // A thread that waits for munged must not keep the daemon from ending.
        runtime.shutdown_timeout(LAST_THREADS);
        for path in door.iter().chain([&path]) {
            let _ = std::fs::remove_file(path);
        }
        done
    }
}
