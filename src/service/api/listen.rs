// SPDX-License-Identifier: GPL-3.0-or-later
//! The two listeners. Unlike `axum::serve` they bound the number of connections, the time of silent
//! ones and the time of answers that are not read.

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use log::{debug, warn};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, timeout};

use super::doors::{Counters, Place};
use super::handler::Shared;
use super::peer::Peer;
use crate::gate_socket::is_gate;

/// Longest time for the head of a request, also of the next one on a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Life of a connection over TCP without a valid credential; an answer under way gets as much.
const STRANGER: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 10_000 });
/// Maximum length of a request's head, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest time for [`WRITE_BYTES`] of an answer, or for its end.
const WRITE_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 10_000 });
/// Bytes of an answer that a client must read within [`WRITE_TIMEOUT`].
const WRITE_BYTES: usize = 64 << 10;
/// `SO_SNDBUF` of a connection over TCP, in bytes: the most that a client which never reads its
/// answers can occupy in the kernel.
const SEND_BYTES: usize = 64 << 10;
/// Longest wait for the gate to tell a client's address.
const ADDRESS_TIMEOUT: Duration = Duration::from_millis(200);
/// Pause after the system refused to accept, for example for lack of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Longest time for unfinished answers when the daemon ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Answer to clients beyond the bound of connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n\
    Content-Type: application/json\r\nContent-Length: 32\r\n\r\n\
    {\"error\":\"too many connections\"}";

/// State that both listeners need.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) routes: Router,
    pub(super) shared: Arc<Shared>,
}

impl Serving {
    async fn stopped(&self) {
        // An error means that the sender is gone: stop as well.
        let _ = self.shared.stop.clone().wait_for(|stop| *stop).await;
    }

    /// Serves the control socket until the stop; answers under way get a moment.
    pub(super) async fn local(self, listener: UnixListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stopped() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted.inspect_err(|error| warn!("control: accept: {error}"))
            else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let uid = stream.peer_cred().ok().map(|credentials| credentials.uid());
            let peer = Peer { uid, ..Peer::default() };
            match self.shared.doors.connect(self.shared.access.client(peer)) {
                Some(place) => drop(tokio::spawn(self.clone().connection(stream, peer, place))),
                // It is told if it asks soon.
                None => drop(tokio::spawn(refuse(stream, Arc::clone(&self.shared.doors.refusals)))),
            }
        }
        let end = tokio::time::Instant::now() + LAST_ANSWERS;
        while self.shared.doors.connected() > 0 && tokio::time::Instant::now() < end {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Serves clients over TCP, whose bytes the gate passes to this socket, until the stop.
    pub(super) async fn remote(self, listener: UnixListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stopped() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted.inspect_err(|error| warn!("control: accept: {error}"))
            else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // The gate says this at once; one that does not delays its own clients alone.
            let Ok(Ok(client)) = timeout(ADDRESS_TIMEOUT, carried(&stream)).await else { continue };
            let peer = Peer { uid: None, remote: true, address: Some(client) };
            let place = self.shared.doors.let_in(client);
            tokio::spawn(self.clone().connection(stream, peer, place));
            // Those who are in first.
            yield_now().await;
        }
    }

    pub(super) async fn connection<S>(self, stream: S, peer: Peer, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let routes = TowerToHyperService::new(self.routes.clone());
        let place = Arc::new(place);
        let of = Arc::clone(&place);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(Arc::clone(&of));
            routes.call(request)
        });
        let counters = Arc::clone(&self.shared.doors.counters);
        let stream = Impatient { inner: TokioIo::new(stream), counters, wait: None, taken: 0 };
        let mut serving = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(stream, service)
        );
        let done = tokio::select! {
            biased;
            () = self.stopped() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
            grace = stays_strange(&place) => {
                serving.as_mut().graceful_shutdown();
                let Ok(done) = timeout(grace, serving.as_mut()).await else { return };
                done
            }
            done = serving.as_mut() => done,
        };
        if let Err(error) = done {
            debug!("control: connection: {error}");
        }
    }
}

/// Returns the address of the client whose bytes the gate passes on over a connection.
async fn carried(stream: &UnixStream) -> io::Result<IpAddr> {
    if !is_gate(stream) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    setsockopt(stream, sockopt::SndBuf, &SEND_BYTES)?;
    let mut address = [0; 16];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut address) {
            Ok(count) if count == address.len() => {
                return Ok(IpAddr::from(address).to_canonical());
            }
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Answers one request of a client beyond the bounds; of many such clients only the first.
async fn refuse(stream: UnixStream, at_once: Arc<Semaphore>) {
    let Ok(_turn) = at_once.try_acquire() else { return };
    let _ = timeout(Duration::from_secs(1), stream.readable()).await;
    let _ = stream.try_read(&mut [0; 4096]);
    let _ = stream.try_write(FULL);
}

/// Waits until a connection has lived long enough without a credential, or has to make room;
/// returns the time for an unfinished answer.
async fn stays_strange(place: &Place) -> Duration {
    let pushed_out = timeout(STRANGER, place.leave.notified()).await.is_ok();
    if place.stranger().is_none() {
        return std::future::pending().await;
    }
    if pushed_out { Duration::ZERO } else { STRANGER }
}

/// A stream that fails when its other side does not read.
struct Impatient<S> {
    inner: TokioIo<S>,
    counters: Arc<Counters>,
    /// Timer that runs since the other side has not read enough.
    wait: Option<Pin<Box<Sleep>>>,
    /// Bytes read by the other side since the timer started.
    taken: usize,
}

impl<S> Impatient<S> {
    fn progress(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                self.taken += count;
                if self.taken >= WRITE_BYTES {
                    (self.wait, self.taken) = (None, 0);
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => {
                let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
                match wait.as_mut().poll(context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => {
                        Counters::count(&self.counters.slow_readers);
                        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                    }
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> Read for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> Write for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, buf);
        self.progress(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All of the answer has left.
        (self.wait, self.taken) = (None, 0);
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bufs);
        self.progress(written, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::Ordering;
    use std::time::Instant;
    use tokio::sync::watch;

    use crate::api::doors::Doors;
    use crate::api::fuzz::Empty;
    use crate::api::peer::Access;
    use phalanx_core::limits::API_ADDRESS_STRANGERS_MAX;

    const ANSWER_BYTES: usize = 1 << 20;

    fn serving() -> (Serving, watch::Sender<bool>) {
        let (stop, stopped) = watch::channel(false);
        let answer = axum::routing::get(|| async { vec![b'x'; ANSWER_BYTES] });
        let serving = Serving {
            routes: Router::new().route("/", answer),
            shared: Arc::new(Shared {
                backend: Arc::new(Empty::new()),
                access: Access { public_read: true, ..Access::default() },
                doors: Arc::new(Doors::new(Arc::default())),
                stop: stopped,
            }),
        };
        (serving, stop)
    }

    fn run(work: impl Future<Output = ()> + Send + 'static) -> std::thread::JoinHandle<()> {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(work);
        })
    }

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Goal: addresses full of silent connections keep nobody from the control socket, and each
    /// is gone after its time; a request half said is no credential.
    #[test]
    fn silent_strangers_are_gone_soon_and_keep_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let door_path = dir.path().join("door");
        let door = std::os::unix::net::UnixListener::bind(&door_path).unwrap();
        door.set_nonblocking(true).unwrap();
        let (mut serving, stop) = serving();
        serving.routes = Router::new().route("/", axum::routing::get(|| async { "here" }));
        let (local, doors) = (serving.clone(), Arc::clone(&serving.shared.doors));
        let threads = [
            run(async { local.local(UnixListener::from_std(socket).unwrap()).await }),
            run(async { serving.remote(UnixListener::from_std(door).unwrap()).await }),
        ];
        let connect = |at: u8| {
            let mut stream = std::os::unix::net::UnixStream::connect(&door_path).unwrap();
            let address = std::net::Ipv4Addr::from([127, 0, 9, at]).to_ipv6_mapped();
            stream.write_all(&[&address.octets(), &b"GET / HT"[..]].concat()).unwrap();
            stream
        };
        let silent: Vec<_> = (1..4).flat_map(|at| [at; 70]).map(connect).collect();
        let asked = Instant::now();
        let mut root = std::os::unix::net::UnixStream::connect(&path).unwrap();
        root.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        root.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("here") && asked.elapsed() < Duration::from_secs(1));
        until("they are gone", || doors.connected() == 0);
        drop(silent);
        stop.send(true).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Goal: a client that is pushed out keeps no file open by an answer that it does not read.
    #[test]
    fn who_is_pushed_out_leaves_at_once() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let client = [10, 0, 0, 1].into();
        let place = doors.let_in(client);
        assert_eq!(runtime.block_on(stays_strange(&place)), STRANGER);
        let first = doors.let_in(client);
        let rest: Vec<_> = (0..API_ADDRESS_STRANGERS_MAX).map(|_| doors.let_in(client)).collect();
        assert_eq!(runtime.block_on(stays_strange(&first)), Duration::ZERO);
        drop(rest);
    }

    #[test]
    fn who_does_not_read_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (serving, stop) = serving();
        let doors = Arc::clone(&serving.shared.doors);
        let thread = run(async { serving.local(UnixListener::from_std(listener).unwrap()).await });
        let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        until("it is cut off", || doors.counters.slow_readers.load(Ordering::Relaxed) == 1);
        until("its place is free", || doors.connected() == 0);
        stop.send(true).unwrap();
        thread.join().unwrap();
    }

    /// Goal: a client over TCP that does not read costs the system no more than the stated bytes.
    #[test]
    fn little_is_kept_for_who_does_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("door");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (serving, stop) = serving();
        let doors = Arc::clone(&serving.shared.doors);
        let thread = run(async { serving.remote(UnixListener::from_std(listener).unwrap()).await });
        let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        client.write_all(&[1; 16]).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        until("it is cut off", || doors.counters.slow_readers.load(Ordering::Relaxed) == 1);
        until("its place is free", || doors.connected() == 0);
        stop.send(true).unwrap();
        thread.join().unwrap();
        let mut kept = Vec::new();
        client.read_to_end(&mut kept).unwrap();
        // Linux takes twice the size that is asked for, and the piece that goes over it.
        assert!(!kept.is_empty() && kept.len() <= 3 * SEND_BYTES, "{} bytes", kept.len());
    }
}
