// SPDX-License-Identifier: GPL-3.0-or-later
//! The two listeners. Unlike `axum::serve` they bound the number of connections, the time of silent
//! ones and the time of answers that are not read.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use log::{debug, info, warn};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, timeout};

use super::doors::{Counters, Doors, Place};
use super::handler::Shared;
use super::peer::Peer;
use phalanx_ffi::locks::lock;

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
/// Answers of one connection over TCP that the system keeps, in bytes: whoever asks and does not
/// read costs the thread of all no more; less than a packet of the loopback would cost its readers.
const SEND_BYTES: u32 = 64 << 10;
/// Connections that wait to be accepted; the system takes less where it allows no more.
const BACKLOG: u32 = 4096;
/// Pause after the system refused to accept, for example for lack of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// First and longest pause between attempts to listen.
const LISTEN_PAUSE: (Duration, Duration) =
    (Duration::from_millis(if cfg!(test) { 50 } else { 1000 }), Duration::from_secs(60));
/// Longest time for answers under way at the end.
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

    /// Listens at an address until the stop. While the address is taken it tries again, and the
    /// rest of the daemon goes on.
    pub(super) async fn remote(self, address: SocketAddr) {
        let mut wait = LISTEN_PAUSE.0;
        let listener = loop {
            match bind(address) {
                Ok(listener) => break listener,
                Err(error) => {
                    let text = format!("{address}: {error}");
                    let known =
                        lock(&self.shared.doors.counters.listen_error).replace(text.clone());
                    if known.as_ref() != Some(&text) {
                        warn!("control: listen at {text}; trying again");
                    }
                }
            }
            tokio::select! {
                () = self.stopped() => return,
                () = sleep(wait) => wait = (wait * 2).min(LISTEN_PAUSE.1),
            }
        };
        info!("control: listening on {address}");
        *lock(&self.shared.doors.counters.listen_error) = None;
        let (doors, stop) = (Arc::clone(&self.shared.doors), self.shared.stop.clone());
        let accepts = move || accept(&listener, &doors, &stop);
        if let Err(error) = std::thread::Builder::new().name("accept".to_owned()).spawn(accepts) {
            warn!("control: start thread accept: {error}");
        }
        loop {
            tokio::select! {
                () = self.stopped() => return,
                () = self.shared.doors.came.notified() => {}
            }
            while let Some((host, stream, place)) = self.shared.doors.next_stranger() {
                let peer = Peer { uid: None, remote: true, address: Some(host) };
                if let Ok(stream) = TcpStream::from_std(stream) {
                    tokio::spawn(self.clone().connection(stream, peer, place));
                }
                // Those who are in first: who waits, or is pushed out meanwhile, costs nothing.
                yield_now().await;
            }
        }
    }

    pub(super) async fn connection<S>(self, stream: S, peer: Peer, place: Place)
    where
        S: AsyncRead + AsyncWrite + Abort + Unpin + Send + 'static,
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
        let cut = Arc::new(AtomicBool::new(false));
        let (inner, of) = (TokioIo::new(stream), Arc::clone(&cut));
        let stream = Impatient { inner, counters, wait: None, taken: 0, cut: of };
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
                cut.store(true, Ordering::Relaxed);
                serving.as_mut().graceful_shutdown();
                let Ok(done) = timeout(grace, serving.as_mut()).await else { return };
                cut.store(grace.is_zero() || done.is_err(), Ordering::Relaxed);
                done
            }
            done = serving.as_mut() => done,
        };
        if let Err(error) = done {
            debug!("control: connection: {error}");
        }
    }
}

/// Lets connections in until the stop, on a thread of its own: however busy those who are in keep
/// the API's thread, nobody waits behind a queue of the system that is full.
fn accept(listener: &std::net::TcpListener, doors: &Doors, stop: &watch::Receiver<bool>) {
    // An error means that the sender is gone: stop as well.
    while stop.has_changed().is_ok() && !*stop.borrow() {
        match listener.accept() {
            Ok((stream, from)) => {
                // Small answers go out at once.
                let ready = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
                if ready.is_ok() {
                    doors.let_in(host_of(from.ip()), Some(stream));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                warn!("control: accept: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// Answers one request of a client beyond the bounds; of many only the first.
async fn refuse(stream: UnixStream, at_once: Arc<Semaphore>) {
    let Ok(_turn) = at_once.try_acquire() else { return };
    let _ = timeout(Duration::from_secs(1), stream.readable()).await;
    let _ = stream.try_read(&mut [0; 4096]);
    let _ = stream.try_write(FULL);
}

/// Waits until a connection has lived long enough without a credential, or has to make room;
/// returns the time for an answer under way.
async fn stays_strange(place: &Place) -> Duration {
    let pushed_out = timeout(STRANGER, place.leave.notified()).await.is_ok();
    if place.stranger().is_none() {
        return std::future::pending().await;
    }
    if pushed_out { Duration::ZERO } else { STRANGER }
}

/// Returns the address that stands for a host: with IPv6 it has a network of 64 bits.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let v4 = address.is_ipv4();
    let socket = if v4 { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BYTES)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?.into_std()?;
    listener.set_nonblocking(false)?;
    // So that an accept ends soon after the stop.
    setsockopt(&listener, sockopt::ReceiveTimeout, &TimeVal::milliseconds(200))?;
    Ok(listener)
}

/// A stream of which the system may keep what was not sent.
pub(super) trait Abort {
    /// Lets the end of the stream drop that.
    fn abort(&self) {}
}

impl Abort for UnixStream {}

impl Abort for TcpStream {
    fn abort(&self) {
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        // A connection that is gone has nothing left to drop.
        let _ = setsockopt(self, sockopt::Linger, &at_once);
    }
}

/// A stream whose other side must read. Of one that is cut off the system keeps nothing: it would
/// try for minutes to send what nobody reads.
struct Impatient<S: Abort> {
    inner: TokioIo<S>,
    counters: Arc<Counters>,
    /// Timer that runs since the other side has not read enough.
    wait: Option<Pin<Box<Sleep>>>,
    /// Bytes read by the other side since the timer started.
    taken: usize,
    /// Whether the connection was cut off.
    cut: Arc<AtomicBool>,
}

impl<S: Abort> Drop for Impatient<S> {
    fn drop(&mut self) {
        if self.cut.load(Ordering::Relaxed) {
            self.inner.inner().abort();
        }
    }
}

impl<S: Abort> Impatient<S> {
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
                        self.cut.store(true, Ordering::Relaxed);
                        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                    }
                }
            }
        }
    }
}

impl<S: AsyncRead + Abort + Unpin> Read for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Abort + Unpin> Write for Impatient<S> {
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
    use std::time::Instant;

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

    #[test]
    fn a_taken_port_is_waited_for() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (serving, stop) = serving();
        let counters = Arc::clone(&serving.shared.doors.counters);
        let thread = run(serving.remote(address));
        until("an error is said", || lock(&counters.listen_error).is_some());
        drop(taken);
        until("it listens", || lock(&counters.listen_error).is_none());
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.len() > ANSWER_BYTES && answer.starts_with(b"HTTP/1.1 200"));
        stop.send(true).unwrap();
        thread.join().unwrap();
    }

    /// Goal: addresses full of silent connections keep nobody from the control socket, and each
    /// is gone after its time; a request half said is no credential.
    #[test]
    fn silent_strangers_are_gone_soon_and_keep_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (mut serving, stop) = serving();
        serving.routes = Router::new().route("/", axum::routing::get(|| async { "here" }));
        let (local, doors) = (serving.clone(), Arc::clone(&serving.shared.doors));
        let threads = [
            run(async { local.local(UnixListener::from_std(socket).unwrap()).await }),
            run(serving.remote(port)),
        ];
        until("it listens", || std::net::TcpStream::connect(port).is_ok());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connect = |at: u8| {
            let from = SocketAddr::from(([127, 0, 9, at], 0));
            let stream = runtime.block_on(async {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind(from).unwrap();
                socket.connect(port).await.unwrap()
            });
            stream.try_write(b"GET / HT").unwrap();
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

    /// Goal: who is pushed out keeps no file by an answer that it does not read.
    #[test]
    fn who_is_pushed_out_leaves_at_once() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let client = host_of([10, 0, 0, 1].into());
        let place = doors.come(client);
        assert_eq!(runtime.block_on(stays_strange(&place)), STRANGER);
        let first = doors.come(client);
        let rest: Vec<_> = (0..API_ADDRESS_STRANGERS_MAX).map(|_| doors.come(client)).collect();
        assert_eq!(runtime.block_on(stays_strange(&first)), Duration::ZERO);
        drop(rest);
    }

    /// Goal: an answer that nobody reads takes little of the host's memory, and none once its
    /// reader is cut off; else a flood of these kept root from the port.
    #[test]
    fn answers_that_nobody_reads_leave_nothing_behind() {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let kept = {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let listener = runtime.unwrap().block_on(async { bind(address).unwrap() });
            nix::sys::socket::getsockopt(&listener, sockopt::SndBuf).unwrap()
        };
        assert!(kept <= 2 * SEND_BYTES as usize && kept < 256 << 10, "{kept}");
        let (serving, stop) = serving();
        let doors = Arc::clone(&serving.shared.doors);
        let thread = run(serving.remote(address));
        until("it listens", || std::net::TcpStream::connect(address).is_ok());
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        until("it is cut off", || doors.counters.slow_readers.load(Ordering::Relaxed) == 1);
        until("its place is free", || doors.connected() == 0);
        let mut rest = Vec::new();
        // What the system keeps it would send, and then end the connection in order.
        let end = client.read_to_end(&mut rest).map_err(|error| error.kind());
        assert_eq!(end, Err(io::ErrorKind::ConnectionReset));
        assert!(rest.len() < ANSWER_BYTES);
        stop.send(true).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn a_host_has_one_address() {
        let host = |text: &str| host_of(text.parse().unwrap()).to_string();
        assert_eq!(host("10.1.2.3"), "10.1.2.3");
        assert_eq!(host("::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_ne!(host("2001:db8:1:3:3:4:5:6"), host("2001:db8:1:2:3:4:5:6"));
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
}
