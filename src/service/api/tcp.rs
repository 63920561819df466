// SPDX-License-Identifier: GPL-3.0-or-later
//! The TCP listener. Unlike `axum::serve` it bounds the number of connections and the time of
//! silent ones.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use log::{debug, warn};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::peer::Peer;
use phalanx_core::limits::API_CONNECTIONS_MAX;

/// Longest time for the head of a request, also of the next one on a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Pause after the system refused to accept, for example for lack of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Serves until `stop` changes; requests under way are cut off then.
pub(super) async fn serve(
    listener: std::net::TcpListener,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let routes = routes.layer(axum::Extension(ConnectInfo(Peer { uid: None, remote: true })));
    let permits = Arc::new(Semaphore::new(API_CONNECTIONS_MAX));
    let stopped = stop.clone();
    loop {
        let accepted = tokio::select! {
            // An error means that the sender is gone: stop as well.
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => {
                    tokio::spawn(connection(stream, routes.clone(), stopped.clone(), permit));
                }
                Err(_) => debug!("control: more than {API_CONNECTIONS_MAX} connections"),
            },
            Err(error) => {
                warn!("control: accept: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    routes: Router,
    mut stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        done = serving => if let Err(error) = done {
            debug!("control: connection: {error}");
        }
    }
}
