// SPDX-License-Identifier: GPL-3.0-or-later
//! The listeners: HTTP/1.1 with JSON bodies over a Unix socket, and over TCP if configured.
//!
//! Reading is open to every local user unless the configuration says
//! otherwise; changes need root, SlurmUser, the daemon's own user or
//! a listed one. The socket's peer credentials name the user.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::auth::{self, Gate};
use super::backend::Backend;
use super::handler::Shared;
use super::peer::{Access, Peer};
use super::routes::routes;
use super::tcp;
use phalanx_core::limits::API_BLOCKING_THREADS;

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
    tcp: Option<(std::net::TcpListener, Gate)>,
    access: Access,
}

impl Server {
    /// Binds the socket, replacing a stale one. Its mode is 0666 if everybody may read, else 0660.
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
        Ok(Self { path: path.to_path_buf(), listener, tcp: None, access })
    }

    /// Listens on a TCP address as well.
    pub fn with_tcp(mut self, address: SocketAddr, gate: Gate) -> Result<Self, ApiError> {
        let fail = |what| move |source| ApiError { path: address.to_string().into(), what, source };
        let listener = std::net::TcpListener::bind(address).map_err(fail("listen"))?;
        listener.set_nonblocking(true).map_err(fail("set non-blocking"))?;
        self.tcp = Some((listener, gate));
        Ok(self)
    }

    /// Serves until `stop` changes, on this thread.
    pub fn run(
        self,
        backend: Arc<impl Backend>,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(API_BLOCKING_THREADS)
            .build()?;
        let shared = Arc::new(Shared { backend, access: self.access, stop: stop.clone() });
        let routes = routes(shared);
        let local = routes.clone().layer(axum::middleware::from_fn(auth::bounded));
        let service = local.into_make_service_with_connect_info::<Peer>();
        let path = self.path;
        runtime.block_on(async move {
            if let Some((listener, gate)) = self.tcp {
                let check = move |request, next| auth::authenticate(gate.clone(), request, next);
                let routes = routes.layer(axum::middleware::from_fn(check));
                tokio::spawn(tcp::serve(listener, routes, stop.clone()));
            }
            let listener = UnixListener::from_std(self.listener)?;
            let stopped = async move {
                // An error means that the sender is gone: stop as well.
                let _ = stop.wait_for(|stop| *stop).await;
            };
            axum::serve(listener, service).with_graceful_shutdown(stopped).await
        })?;
        let _ = std::fs::remove_file(path);
        Ok(())
    }
}
