// SPDX-License-Identifier: GPL-3.0-or-later
//! The plugin's socket: one thread that receives, applies and answers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use log::{info, warn};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect, getsockopt,
    listen, recv, send, socket, sockopt,
};
use nix::unistd::Uid;
use phalanx_ffi::wire::{self, Message, PacketBuf, WireName};
use thiserror::Error;

use crate::link::clock;
use crate::link::order::{LEASE, RENEW, Wanted};
use crate::link::protocol_error::ProtocolError;
use crate::link::responder::Responder;
use crate::link::session::{Session, Step};
use phalanx_mirror::LinkEvent;

/// Longest wait for a packet, after which the thread does its other work.
const TICK: Duration = Duration::from_millis(200);
/// Time without a packet after which no question is expected soon: events are then handed over and
/// the index is put in order.
const QUIET: Duration = Duration::from_millis(10);
/// Longest time that events are held back while questions keep coming.
const EVENTS_AGE: Duration = Duration::from_millis(200);
/// Most events that are held back.
const EVENTS_HELD_MAX: usize = 1024;
/// Longest wait for HELLO on a second connection.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Pause after the system refused to accept, for example for lack of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Interval of the check that the socket is still at its path.
const PATH_CHECK: Duration = Duration::from_secs(1);

/// The socket, and the users who may connect.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Path of the socket.
    pub socket: PathBuf,
    /// User ids that may connect, besides root, the daemon's own and the owner.
    pub allowed_uids: Vec<u32>,
    /// Owner to give the socket when running as root: SlurmUser, once slurmctld has told it.
    pub owner: Arc<OnceLock<u32>>,
}

impl ServerConfig {
    /// Lets SlurmUser and the other allowed users connect; returns whether SlurmUser is known.
    fn give(&self) -> io::Result<bool> {
        let (own, owner) = (Uid::effective().as_raw(), self.owner.get().copied());
        if own == 0 {
            std::os::unix::fs::chown(&self.socket, owner, None)?;
        }
        let mode = mode(own, owner, &self.allowed_uids);
        std::fs::set_permissions(&self.socket, std::fs::Permissions::from_mode(mode))?;
        Ok(owner.is_some())
    }
}

/// Returns the mode of a socket that the daemon, as root, gives to its owner. Other users need the
/// file's permission too; each is asked who it is anyway.
fn mode(own: u32, owner: Option<u32>, allowed: &[u32]) -> u32 {
    let reaches = |uid: &u32| [0, own].contains(uid) || own == 0 && Some(*uid) == owner;
    if owner.iter().chain(allowed).all(reaches) { 0o660 } else { 0o666 }
}

/// Reason why there is no socket.
#[derive(Debug, Error)]
pub enum LinkError {
    /// Another daemon answers at the path.
    #[error("{0}: another process is listening there; expected none")]
    InUse(PathBuf),
    /// Something other than a socket is at the path.
    #[error("{0}: exists and is not a socket; remove it or change link.socket")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("{path}: {what}: {source}")]
    Io {
        /// Socket path.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The listening socket.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    listener: UnixListener,
    inode: (u64, u64),
    /// Whether the socket belongs to its intended owner.
    given: bool,
    /// Time before which the listener does not accept again, after the system refused.
    accept_after: Option<Instant>,
}

pub(super) struct Connection {
    fd: OwnedFd,
    session: Session,
    generation_sent: u64,
    /// Whether the plugin was told to watch.
    watches: bool,
    sent: u64,
    /// Set of deltas that the plugin has, and when it was last sent or renewed.
    order_sent: Option<(u64, Instant)>,
}

impl Server {
    /// Binds the socket, replacing one that nobody listens on.
    ///
    /// # Errors
    /// The socket is in use, is no socket, or the system refuses.
    pub fn bind(config: ServerConfig) -> Result<Self, LinkError> {
        let (listener, given) = listen_at(&config)?;
        let inode = inode_of(&config.socket).unwrap_or_default();
        Ok(Self { config, listener, inode, given, accept_after: None })
    }

    /// Serves until `stop`. Increments `beat` at every turn, for the watchdog.
    pub fn run(mut self, responder: &Responder, stop: &AtomicBool, beat: &AtomicU64) {
        let mut peers = Peers::default();
        let mut path_checked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            beat.fetch_add(1, Ordering::Relaxed);
            if path_checked.elapsed() >= PATH_CHECK {
                path_checked = Instant::now();
                self.keep_path();
            }
            self.accept_after = self.accept_after.filter(|after| Instant::now() < *after);
            let ready = self.wait(peers.open(), peers.pause());
            let fresh = if ready == Ready::Peer { self.accept(responder) } else { None };
            peers.turn(responder, fresh, ready == Ready::Nothing);
        }
        peers.buffers.record(responder, true);
        if inode_of(&self.config.socket) == Some(self.inode) {
            let _ = std::fs::remove_file(&self.config.socket);
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, connections: [Option<&Connection>; 2], pause: Duration) -> Ready {
        let pauses = self.accept_after.is_some();
        let events = if pauses { PollFlags::empty() } else { PollFlags::POLLIN };
        let listener = PollFd::new(self.listener.as_fd(), events);
        let timeout = PollTimeout::try_from(pause).unwrap_or(PollTimeout::ZERO);
        // The first is the listener; connections take the places of its copies, others are unused.
        let mut fds = [listener.clone(), listener.clone(), listener];
        let mut count = 1;
        for connection in connections.into_iter().flatten() {
            if let Some(slot) = fds.get_mut(count) {
                *slot = PollFd::new(connection.fd.as_fd(), PollFlags::POLLIN);
                count += 1;
            }
        }
        match poll(fds.get_mut(..count).unwrap_or_default(), timeout) {
            Ok(0) => Ready::Nothing,
            Ok(_) if fds.first().and_then(PollFd::any) == Some(true) => Ready::Peer,
            // An interrupted or failed wait only means an early look.
            _ => Ready::Packet,
        }
    }

    fn accept(&mut self, responder: &Responder) -> Option<Connection> {
        let (stream, _) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                // Lack of files stays for a while: without a pause this would be all it does.
                if error.kind() != io::ErrorKind::WouldBlock {
                    warn!("plugin socket: accept: {error}");
                    self.accept_after = Some(Instant::now() + ACCEPT_PAUSE);
                }
                return None;
            }
        };
        let fd = OwnedFd::from(stream);
        let peer = getsockopt(&fd, sockopt::PeerCredentials).ok()?;
        let own = Uid::effective().as_raw();
        let uid = peer.uid();
        let owns = self.config.owner.get() == Some(&uid);
        if uid != 0 && uid != own && !owns && !self.config.allowed_uids.contains(&uid) {
            let why = format!(
                "user id {uid} (pid {}) may not connect to the plugin socket: expected root, \
                 SlurmUser or one of link.allowed_uids",
                peer.pid()
            );
            responder.refused(why);
            return None;
        }
        info!("plugin connected: pid {} user id {uid}", peer.pid());
        Some(Connection::new(fd))
    }

    /// Listens anew if the socket was deleted, or nobody could ever connect again.
    fn keep_path(&mut self) {
        if inode_of(&self.config.socket) == Some(self.inode) {
            // slurmctld may have been down when it was bound.
            if !self.given {
                self.given = self.config.give().unwrap_or_else(|error| {
                    warn!("{}: give to SlurmUser: {error}", self.config.socket.display());
                    true
                });
            }
            return;
        }
        match listen_at(&self.config) {
            Ok((listener, given)) => {
                warn!("{}: socket was gone, listening anew", self.config.socket.display());
                (self.listener, self.given) = (listener, given);
                self.inode = inode_of(&self.config.socket).unwrap_or_default();
            }
            Err(error) => warn!("socket is gone and cannot be made anew: {error}"),
        }
    }
}

/// Connections, and the state that the thread keeps from turn to turn.
#[derive(Default)]
pub(super) struct Peers {
    connection: Option<Connection>,
    caller: Option<Caller>,
    buffers: Buffers,
}

impl Peers {
    /// Connections whose packets are waited for.
    fn open(&self) -> [Option<&Connection>; 2] {
        [self.connection.as_ref(), self.caller.as_ref().map(|caller| &caller.connection)]
    }

    /// Returns how long a turn may wait for something to do.
    pub(super) fn pause(&self) -> Duration {
        match (self.buffers.copying, self.buffers.busy) {
            (true, _) => Duration::ZERO,
            (false, true) => QUIET,
            (false, false) => TICK,
        }
    }

    /// Makes one turn: `fresh` may have connected, packets may have come, or `nothing` has.
    pub(super) fn turn(&mut self, responder: &Responder, fresh: Option<Connection>, nothing: bool) {
        let buffers = &mut self.buffers;
        if nothing && !buffers.copying {
            let more = buffers.busy && responder.quiet();
            buffers.record(responder, true);
            buffers.busy = more;
        }
        if let Some(connection) = fresh {
            self.caller = Some(Caller { connection, since: clock::now() });
        }
        if let Some(caller) = self.caller.take() {
            match receive(caller, self.connection.is_some(), responder, buffers) {
                Received::Connected(fresh) => {
                    self.connection = Some(fresh);
                    responder.connected();
                }
                Received::Waits(caller) => self.caller = Some(caller),
                Received::Refused => {}
            }
        }
        if let Some(mut open) = self.connection.take() {
            match open.serve(responder, buffers) {
                Ok(()) => self.connection = Some(open),
                Err(closed) => closed.report(responder),
            }
        }
        // What can wait, after the answers.
        buffers.record(responder, false);
        responder.copies.set_busy(buffers.busy);
        responder.job_copies.set_busy(buffers.busy);
        buffers.copying = responder.copies.serve(|copy| responder.copy_piece(copy))
            | responder.job_copies.serve(|copy| responder.copy_piece(copy));
    }
}

/// A connection that has not said HELLO yet.
struct Caller {
    connection: Connection,
    since: Instant,
}

enum Received {
    Connected(Connection),
    Waits(Caller),
    Refused,
}

/// Takes a new connection. slurmctld may have been restarted before the old end was seen closed;
/// but a connected plugin gives way only to one that says it is of the same cluster, or two of them
/// would displace each other for ever.
fn receive(
    caller: Caller,
    occupied: bool,
    responder: &Responder,
    buffers: &mut Buffers,
) -> Received {
    if !occupied {
        return Received::Connected(caller.connection);
    }
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC | MsgFlags::MSG_PEEK;
    let why = match recv(caller.connection.fd.as_raw_fd(), buffers.packet.space_mut(), flags) {
        Err(Errno::EAGAIN | Errno::EINTR) if clock::since(caller.since) < HELLO_WAIT => {
            return Received::Waits(caller);
        }
        Ok(len @ 1..) => {
            let hello = buffers.packet.set_len(len).and_then(|()| buffers.packet.message());
            match hello {
                Ok(Message::Hello(hello)) => {
                    match responder.of_another_cluster(&hello.cluster.name()) {
                        None => return Received::Connected(caller.connection),
                        Some(why) => why,
                    }
                }
                _ => "somebody connected beside the plugin and did not say HELLO".to_owned(),
            }
        }
        _ => "somebody connected beside the plugin and said nothing".to_owned(),
    };
    responder.refused(why);
    Received::Refused
}

#[derive(Default)]
struct Buffers {
    packet: PacketBuf,
    reply: PacketBuf,
    nodes: Vec<u32>,
    events: Vec<LinkEvent>,
    /// Time of the first of `events`.
    events_since: Option<Instant>,
    /// Whether packets came since the last quiet time.
    busy: bool,
    /// Whether a copy of the mirror is in the making.
    copying: bool,
}

impl Buffers {
    /// Hands the events over when no question is expected soon, or when events are many or old.
    fn record(&mut self, responder: &Responder, quiet: bool) {
        if quiet {
            self.busy = false;
        }
        if self.events.is_empty() {
            return;
        }
        let since = *self.events_since.get_or_insert_with(clock::now);
        if quiet || self.events.len() >= EVENTS_HELD_MAX || clock::since(since) >= EVENTS_AGE {
            responder.record(&mut self.events);
            self.events_since = None;
        }
    }
}

/// Result of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Nothing,
    /// A new connection waits; packets may be there too.
    Peer,
    Packet,
}

enum Closed {
    ByPeer,
    Error(String),
    Refused(String),
}

impl Closed {
    fn report(self, responder: &Responder) {
        match self {
            Self::ByPeer => {
                info!("plugin disconnected");
                responder.disconnected(None);
            }
            Self::Refused(why) => {
                responder.refused(why);
                responder.disconnected(None);
            }
            Self::Error(text) => {
                warn!("connection of the plugin closed: {text}");
                responder.disconnected(Some(text));
            }
        }
    }
}

impl From<ProtocolError> for Closed {
    fn from(error: ProtocolError) -> Self {
        Self::Error(error.to_string())
    }
}

/// Most packets handled before the thread's other work.
const BURST: usize = 256;

impl Connection {
    /// Makes a connection of an accepted socket.
    pub(super) fn new(fd: OwnedFd) -> Self {
        let session = Session::default();
        Self { fd, session, generation_sent: 0, watches: false, sent: 0, order_sent: None }
    }

    /// Handles the packets that have arrived.
    fn serve(&mut self, responder: &Responder, buffers: &mut Buffers) -> Result<(), Closed> {
        for _ in 0..BURST {
            let space = buffers.packet.space_mut();
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            let len = match recv(self.fd.as_raw_fd(), space, flags) {
                Ok(0) => return Err(Closed::ByPeer),
                Ok(len) => len,
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Err(Errno::ECONNRESET | Errno::EPIPE) => return Err(Closed::ByPeer),
                Err(error) => return Err(Closed::Error(format!("receive: {error}"))),
            };
            let received = clock::now();
            buffers.packet.set_len(len).map_err(ProtocolError::from)?;
            let message = buffers.packet.message().map_err(ProtocolError::from)?;
            let seq = message.seq();
            let step = self.session.take(message)?;
            let greeting = matches!(step, Step::Hello(_));
            if let Step::Hello(plugin) = &step
                && let Some(why) = responder.of_another_cluster(&plugin.cluster)
            {
                return Err(Closed::Refused(why));
            }
            let synced = matches!(step, Step::Synced(..));
            buffers.busy = true;
            let (nodes, events) = (&mut buffers.nodes, &mut buffers.events);
            let (mut sent, reply) = (Ok(()), &mut buffers.reply);
            responder.apply(&self.session, step, received, nodes, events, |head, nodes| {
                let answer = wire::Answer { head, nodes };
                sent = self.send(reply, seq, &Message::Answer(answer));
            });
            sent?;
            if greeting {
                self.configure(responder, &mut buffers.reply, true)?;
            }
            if synced {
                let view = responder.view();
                info!(
                    "mirror complete: {} nodes, {} jobs",
                    view.link.mirror_nodes, view.link.mirror_jobs
                );
            }
        }
        self.configure(responder, &mut buffers.reply, false)?;
        if self.generation_sent > 0 && responder.resync.swap(false, Ordering::Relaxed) {
            self.sent += 1;
            let resync = wire::Resync::default();
            self.send(&mut buffers.reply, self.sent, &Message::Resync(&resync))?;
        }
        self.order(responder, &mut buffers.reply)
    }

    /// Sends the deltas once, and again where the plugin has lost them, and renews their lease as
    /// long as the order thread is alive.
    fn order(&mut self, responder: &Responder, reply: &mut PacketBuf) -> Result<(), Closed> {
        let Some(wanted) = responder.order.wanted().filter(Wanted::alive) else { return Ok(()) };
        let allowed = responder.settings().order && !responder.is_shadow_only();
        if self.generation_sent == 0 || !allowed {
            return Ok(());
        }
        let whole = match self.order_sent {
            Some((sent, _)) if sent != wanted.generation => true,
            Some((_, at)) if clock::since(at) < RENEW => return Ok(()),
            // A report may have been under way when the set was sent.
            Some((sent, at)) => responder.order.lost(sent, at + RENEW / 2),
            None => true,
        };
        if self.send_order(&wanted, whole, reply)? {
            self.order_sent = Some((wanted.generation, clock::now()));
        }
        Ok(())
    }

    /// Sends the deltas, or, `whole` unset, that they hold; `false`: the socket is full.
    fn send_order(
        &mut self,
        wanted: &Wanted,
        whole: bool,
        reply: &mut PacketBuf,
    ) -> Result<bool, Closed> {
        let lease_ms = u32::try_from(LEASE.as_millis()).unwrap_or(u32::MAX);
        let parts: Vec<&[wire::Delta]> =
            wanted.deltas.chunks(wire::PHX_ORDER_PER_MSG as usize).collect();
        let parts = if parts.is_empty() || !whole { vec![&[][..]] } else { parts };
        for (at, deltas) in parts.iter().enumerate() {
            let first = if at == 0 { wire::PHX_PART_FIRST } else { 0 };
            let last = if at + 1 == parts.len() { wire::PHX_PART_LAST } else { 0 };
            let flags = if whole { first | last } else { wire::PHX_PART_SAME };
            let head = wire::Order::head(wanted.generation, lease_ms, flags);
            self.sent += 1;
            let order = wire::Order { head: &head, deltas };
            if !self.try_send(reply, self.sent, &Message::Order(order))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends WELCOME once and CONFIG after each change.
    fn configure(
        &mut self,
        responder: &Responder,
        reply: &mut PacketBuf,
        first: bool,
    ) -> Result<(), Closed> {
        let settings = responder.settings();
        if !first && self.generation_sent == 0 {
            return Ok(());
        }
        let watches = responder.watches(&settings);
        if (self.generation_sent, self.watches) == (settings.generation, watches) {
            return Ok(());
        }
        let welcome = settings.welcome(watches);
        (self.generation_sent, self.watches) = (settings.generation, watches);
        self.sent += 1;
        let message = if first { Message::Welcome(&welcome) } else { Message::Config(&welcome) };
        self.send(reply, self.sent, &message)
    }

    /// Sends a message, or drops it: a plugin that does not read has given up on its answer.
    fn send(&self, buf: &mut PacketBuf, seq: u64, message: &Message<'_>) -> Result<(), Closed> {
        self.try_send(buf, seq, message).map(|_| ())
    }

    /// Sends a message; returns `false` if the socket has no room.
    fn try_send(
        &self,
        buf: &mut PacketBuf,
        seq: u64,
        message: &Message<'_>,
    ) -> Result<bool, Closed> {
        let bytes = wire::build(buf, seq, message).map_err(ProtocolError::from)?;
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match send(self.fd.as_raw_fd(), bytes, flags) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
            Err(Errno::EPIPE | Errno::ECONNRESET) => Err(Closed::ByPeer),
            Err(error) => Err(Closed::Error(format!("send: {error}"))),
        }
    }
}

fn inode_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Listens at the path. The standard library's listener also holds a SOCK_SEQPACKET socket, as
/// accepting is the same call.
fn listen_at(config: &ServerConfig) -> Result<(UnixListener, bool), LinkError> {
    let path = &config.socket;
    let fail = |what: &'static str| {
        move |source: io::Error| LinkError::Io { path: path.clone(), what, source }
    };
    let errno = |what: &'static str| move |e: Errno| fail(what)(io::Error::from(e));
    clear_stale(path)?;
    let address = UnixAddr::new(path).map_err(errno("name"))?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd =
        socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(errno("socket"))?;
    bind(fd.as_raw_fd(), &address).map_err(errno("bind"))?;
    let given = config.give().map_err(fail("give to SlurmUser"))?;
    listen(&fd, Backlog::new(4).unwrap_or(Backlog::MAXCONN)).map_err(errno("listen"))?;
    Ok((UnixListener::from(fd), given))
}

/// Removes a socket that nobody listens on.
fn clear_stale(path: &Path) -> Result<(), LinkError> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(LinkError::NotASocket(path.to_path_buf()));
    }
    let probe = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
    if let (Ok(probe), Ok(address)) = (probe, UnixAddr::new(path))
        && connect(probe.as_raw_fd(), &address).is_ok()
    {
        return Err(LinkError::InUse(path.to_path_buf()));
    }
    std::fs::remove_file(path).map_err(|source| LinkError::Io {
        path: path.to_path_buf(),
        what: "remove the stale socket",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::mode;

    #[test]
    fn who_cannot_reach_a_socket_of_another_opens_it() {
        let (root, slurm, own) = (0, 64030, 990);
        assert_eq!(mode(slurm, Some(slurm), &[]), 0o660);
        assert_eq!(mode(root, Some(slurm), &[root, slurm]), 0o660, "it is given to SlurmUser");
        assert_eq!(mode(own, Some(root), &[]), 0o660, "root reaches all");
        assert_eq!(mode(own, None, &[]), 0o660, "until SlurmUser is known");
        assert_eq!(mode(own, Some(slurm), &[]), 0o666);
        assert_eq!(mode(root, None, &[slurm]), 0o666);
        assert_eq!(mode(slurm, Some(slurm), &[own]), 0o666);
    }
}
