// SPDX-License-Identifier: GPL-3.0-or-later
//! Passes each client over TCP on to a socket of the daemon, which alone reads what clients say and
//! decides who may stay. Until the daemon takes them, addresses take turns.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Bound;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use log::{info, warn};
use nix::sys::socket::{Shutdown, setsockopt, shutdown, sockopt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpSocket, TcpStream, UnixStream as Carrier};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

use phalanx_core::limits::{API_ADDRESS_STRANGERS_MAX, API_CONNECTIONS_MAX, API_STRANGERS_MAX};
use phalanx_messages::gate::{Door, send};

/// Most connections that are passed on at a time: those of known clients and of strangers that the
/// daemon lets stay, and as many strangers again, which are leaving.
const CARRIED_MAX: usize = API_CONNECTIONS_MAX + 2 * API_STRANGERS_MAX;
/// Connections that wait to be accepted; the system takes less where it allows no more.
const BACKLOG: u32 = 4096;
/// Pause after the system refused to accept, for example for lack of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// First and longest pause between attempts to listen.
const LISTEN_PAUSE: (Duration, Duration) =
    (Duration::from_millis(if cfg!(test) { 50 } else { 1000 }), Duration::from_secs(60));
/// Longest time for [`PART_BYTES`] of an answer, and for the bytes that the system still buffers.
const WRITE_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 10_000 });
/// Bytes of an answer that are passed on at a time.
const PART_BYTES: usize = 16 << 10;
/// Most bytes of answers of one connection that the system buffers: with less than a packet of the
/// loopback, readers would wait.
const SEND_BYTES: u32 = 64 << 10;
/// Longest wait for the daemon to accept, and pause between attempts.
const DAEMON_WAIT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(5));

/// Listens at an address until the daemon, which is told of each attempt, disconnects.
///
/// # Errors
/// The system's, where it gives no runtime, and the connection's.
pub fn listen(at: SocketAddr, daemon: &UnixStream, door: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = |door: Door| send(&mut &*daemon, &door);
    let watched = daemon.try_clone()?;
    watched.set_nonblocking(true)?;
    runtime.block_on(async {
        let mut watched = Carrier::from_std(watched)?;
        tokio::select! {
            // The daemon says nothing more.
            ended = watched.read_u8() => ended.map(|_| ()),
            ended = serve(at, report, door) => ended,
        }
    })
}

async fn serve(
    at: SocketAddr,
    report: impl Fn(Door) -> io::Result<()>,
    door: &Path,
) -> io::Result<()> {
    let mut pause = LISTEN_PAUSE.0;
    let listener = loop {
        match bind(at) {
            Ok(listener) => break listener,
            Err(error) => report(Err(error.to_string()))?,
        }
        sleep(pause).await;
        pause = (pause * 2).min(LISTEN_PAUSE.1);
    };
    info!("listening at {at}");
    report(Ok(()))?;
    let waiting = Arc::<Waiting>::default();
    let _accepting = Accepting::start(listener, &waiting)?;
    let places = Arc::new(Semaphore::new(CARRIED_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let (client, host) = waiting.next().await;
        // A daemon that hangs is waited for with each client; the rest push out each other.
        let Ok(Ok(daemon)) = timeout(DAEMON_WAIT.0, connect(door, host)).await else { continue };
        tokio::spawn(async move {
            // A client that goes away ends its connection, and it alone.
            let _ = carry(client, daemon).await;
            drop(place);
        });
    }
}

/// The thread that accepts clients, which ends when this is dropped.
struct Accepting {
    ends: Arc<AtomicBool>,
    listener: std::net::TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    fn start(listener: std::net::TcpListener, waiting: &Arc<Waiting>) -> io::Result<Self> {
        let (ends, waiting, of) = (Arc::default(), Arc::clone(waiting), listener.try_clone()?);
        let seen = Arc::clone(&ends);
        let accepts = move || waiting.accept(&of, &seen);
        let thread = std::thread::Builder::new().name("accept".to_owned()).spawn(accepts)?;
        Ok(Self { ends, listener, thread: Some(thread) })
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Whoever waits in accept returns.
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        // A panic would have ended the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Clients that wait until a connection to the daemon takes them on.
#[derive(Debug, Default)]
struct Waiting {
    all: Mutex<Hosts>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Hosts {
    /// The clients of each host that has any, the oldest first.
    clients: BTreeMap<IpAddr, VecDeque<std::net::TcpStream>>,
    count: usize,
    /// The host that had the last turn.
    last: Option<IpAddr>,
}

impl Hosts {
    /// Removes the oldest client of a host.
    fn remove(&mut self, host: IpAddr) -> Option<std::net::TcpStream> {
        let own = self.clients.get_mut(&host)?;
        let oldest = own.pop_front();
        if own.is_empty() {
            self.clients.remove(&host);
        }
        self.count -= usize::from(oldest.is_some());
        oldest
    }
}

impl Waiting {
    /// Accepts clients until the end, on a thread of its own: however busy the other threads are,
    /// nobody waits behind a queue of the system that is full.
    fn accept(&self, listener: &std::net::TcpListener, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((client, from)) => self.add(host_of(from.ip()), client),
                Err(_) if ends.load(Ordering::Relaxed) => {}
                Err(error) => {
                    warn!("accept: {error}");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Adds a client; if too many wait, drops the oldest of its host, or of the host with most.
    fn add(&self, host: IpAddr, client: std::net::TcpStream) {
        let mut waiting = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Hosts { clients, count, .. } = &mut *waiting;
        let own = clients.entry(host).or_default();
        own.push_back(client);
        *count += 1;
        let own = (own.len() > API_ADDRESS_STRANGERS_MAX).then_some(host);
        let most = || clients.iter().max_by_key(|(_, own)| own.len()).map(|(of, _)| *of);
        if let Some(host) = own.or_else(|| (*count > API_STRANGERS_MAX).then(most).flatten()) {
            waiting.remove(host);
        }
        self.came.notify_one();
    }

    /// Returns the client whose turn it is: hosts take turns, each with its oldest.
    fn take(&self) -> Option<(IpAddr, std::net::TcpStream)> {
        let mut waiting = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let after = waiting.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = waiting.clients.range((after, Bound::Unbounded)).next();
        let host = *next.or_else(|| waiting.clients.first_key_value())?.0;
        waiting.last = Some(host);
        Some((host, waiting.remove(host)?))
    }

    async fn next(&self) -> (TcpStream, IpAddr) {
        loop {
            match self.take() {
                Some((host, client)) => {
                    let ready = client.set_nonblocking(true);
                    if let Ok(client) = ready.and_then(|()| TcpStream::from_std(client)) {
                        return (client, host);
                    }
                }
                None => self.came.notified().await,
            }
        }
    }
}

/// Returns the address that stands for a host, which with IPv6 has a network of 64 bits.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

fn bind(at: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BYTES)?;
    socket.bind(at)?;
    let listener = socket.listen(BACKLOG)?.into_std()?;
    listener.set_nonblocking(false)?;
    Ok(listener)
}

/// Passes a client's bytes on to the daemon, and the answers back, until the daemon ends it.
async fn carry(mut client: TcpStream, mut daemon: Carrier) -> io::Result<()> {
    // Small answers go out at once; what nobody reads the system drops soon.
    client.set_nodelay(true)?;
    let kept_ms = u32::try_from(WRITE_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    setsockopt(&client, sockopt::TcpUserTimeout, &kept_ms)?;
    let (mut asks, mut answers) = client.split();
    let (mut answered, mut asked) = daemon.split();
    let up = async {
        // The daemon sees the end, and answers what it has.
        let _ = copy(&mut asks, &mut asked).await;
        let _ = asked.shutdown().await;
        std::future::pending().await
    };
    let down = async {
        let mut part = vec![0; PART_BYTES];
        loop {
            let count = answered.read(&mut part).await?;
            if count == 0 {
                return Ok(());
            }
            timeout(WRITE_TIMEOUT, answers.write_all(&part[..count])).await??;
        }
    };
    let done: io::Result<()> = tokio::select! {
        done = down => done,
        never = up => never,
    };
    if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut) {
        // The system drops what a client has not read: it would try for long to send it.
        client.set_zero_linger()?;
    }
    done
}

/// Connects to the daemon for a host; the daemon may be too busy to accept at once.
async fn connect(door: &Path, host: IpAddr) -> io::Result<Carrier> {
    let address = match host {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    loop {
        match Carrier::connect(door).await {
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(DAEMON_WAIT.1).await,
            Err(error) => return Err(error),
            // Nothing was sent before, so there is room for all of it.
            Ok(daemon) => return daemon.try_write(&address.octets()).map(|_| daemon),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use phalanx_messages::gate::receive;

    fn free() -> SocketAddr {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    /// A gate that listens at an address; the daemon's connection, and its clients' socket.
    fn gate(at: SocketAddr) -> (UnixStream, UnixListener, std::thread::JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let door = UnixListener::bind(dir.path().join("door")).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let thread = std::thread::spawn(move || {
            let _ = listen(at, &theirs, &dir.path().join("door"));
        });
        (ours, door, thread)
    }

    fn told(daemon: &mut UnixStream) -> Door {
        receive(daemon).unwrap()
    }

    /// Accepts for the daemon; returns the connection and the client's address.
    fn comes(door: &UnixListener) -> (UnixStream, std::net::Ipv6Addr) {
        let (mut stream, _) = door.accept().unwrap();
        let mut address = [0; 16];
        stream.read_exact(&mut address).unwrap();
        (stream, address.into())
    }

    /// Goal: bytes and their end are passed on in both directions; without a daemon nobody listens.
    #[test]
    fn bytes_and_ends_are_carried() {
        let at = free();
        let (mut daemon, door, thread) = gate(at);
        assert_eq!(told(&mut daemon), Ok(()));
        let mut client = Client::connect(at).unwrap();
        client.write_all(b"GET").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut carried, address) = comes(&door);
        assert_eq!(address.to_canonical(), IpAddr::from([127, 0, 0, 1]));
        let mut asked = String::new();
        carried.read_to_string(&mut asked).unwrap();
        assert_eq!(asked, "GET");
        let long = vec![b'x'; 1 << 20];
        let sent = long.clone();
        let sends = std::thread::spawn(move || carried.write_all(&sent).map(|()| drop(carried)));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        sends.join().unwrap().unwrap();
        assert_eq!(answer, long);
        drop(daemon);
        thread.join().unwrap();
        assert!(Client::connect(at).is_err(), "it listens for a daemon alone");
    }

    #[test]
    fn a_taken_port_is_waited_for() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut daemon, _door, thread) = gate(taken.local_addr().unwrap());
        assert!(told(&mut daemon).unwrap_err().contains("in use"));
        drop(taken);
        while told(&mut daemon).is_err() {}
        drop(daemon);
        thread.join().unwrap();
    }

    /// Goal: an answer that nobody reads takes little of the host's memory, and none once its
    /// reader is cut off; else a flood of these kept root from the port.
    #[test]
    fn answers_that_nobody_reads_leave_nothing_behind() {
        let at = free();
        let (mut daemon, door, thread) = gate(at);
        assert_eq!(told(&mut daemon), Ok(()));
        let mut client = Client::connect(at).unwrap();
        let (mut carried, _) = comes(&door);
        carried.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut kept = 0;
        while let Ok(count) = carried.write(&[b'x'; 4096]) {
            kept += count;
        }
        assert!(kept < 8 << 20, "{kept} bytes");
        let mut rest = Vec::new();
        // What the system keeps it would send, and then end the connection in order.
        let end = client.read_to_end(&mut rest).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset));
        drop(daemon);
        thread.join().unwrap();
    }

    /// Goal: each host with waiting clients has its turn, however many wait at another, and a host
    /// that floods pushes out its own.
    #[test]
    fn hosts_take_turns() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let waiting = Waiting::default();
        let come = |at: u8| {
            let client = Client::connect(listener.local_addr().unwrap()).unwrap();
            waiting.add([10, 0, 0, at].into(), client);
        };
        (0..API_ADDRESS_STRANGERS_MAX + 9).for_each(|_| come(2));
        [3, 1].into_iter().for_each(come);
        let next = || waiting.take().map(|(host, _)| host.to_string());
        let first: Vec<String> = std::iter::from_fn(next).collect();
        assert_eq!(first[..4], ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2"]);
        assert_eq!(first.len(), API_ADDRESS_STRANGERS_MAX + 2);
    }

    #[test]
    fn a_host_has_one_address() {
        let host = |text: &str| host_of(text.parse().unwrap()).to_string();
        assert_eq!(host("10.1.2.3"), "10.1.2.3");
        assert_eq!(host("::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_ne!(host("2001:db8:1:2:3:4:5:6"), host("2001:db8:1:3:3:4:5:6"));
    }

    /// Goal: clients that left while the daemon hung do not keep a later one from reaching it.
    #[test]
    fn a_daemon_that_hangs_holds_its_clients_alone() {
        let at = free();
        let (mut daemon, door, thread) = gate(at);
        assert_eq!(told(&mut daemon), Ok(()));
        let many: Vec<_> = (0..300).map(|_| Client::connect(at).unwrap()).collect();
        drop(many);
        let mut client = Client::connect(at).unwrap();
        client.write_all(b"here").unwrap();
        let begun = Instant::now();
        loop {
            let (mut carried, _) = comes(&door);
            let mut said = String::new();
            let _ = carried.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = carried.read_to_string(&mut said);
            if said == "here" {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
        drop(daemon);
        thread.join().unwrap();
    }
}
