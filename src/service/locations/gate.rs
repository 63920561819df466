// SPDX-License-Identifier: GPL-3.0-or-later
//! The program `phalanx-gate`, which asks NameNodes for files in HDFS, and its listening at TCP.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, recv};

use super::{INPUT_BYTES_MAX, Locations, Question as Asked};
use phalanx_config::HdfsConfig;
use phalanx_core::blocks::Located;
use phalanx_core::limits::DATA_LOOKUP_THREADS;
use phalanx_ffi::locks::lock;
use phalanx_messages::gate::{Door, Lookup, Question, receive, receive_located, send, text};

/// Longest wait for a gate that is not connected, as just after a start.
const COMES: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 2 });
/// Time beyond the limit of a lookup within which its answer must arrive.
const SENDING: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 2000 });

/// Connections of the gate.
#[derive(Debug, Default)]
pub struct Gate {
    /// Connections that wait for a question.
    idle: Mutex<Vec<UnixStream>>,
    came: Condvar,
    /// Connections on which a question was asked.
    asked: AtomicUsize,
}

impl Gate {
    /// Adds a connection; beyond the number that can be asked at once the oldest one leaves.
    pub fn let_in(&self, stream: UnixStream) {
        let mut idle = lock(&self.idle);
        idle.push(stream);
        if idle.len() > DATA_LOOKUP_THREADS {
            idle.remove(0);
        }
        self.came.notify_one();
    }

    /// Drops connections that have ended, or that send unasked; returns the number of the others.
    pub fn connections(&self) -> usize {
        let mut idle = lock(&self.idle);
        idle.retain(is_silent);
        idle.len() + self.asked.load(Ordering::Relaxed)
    }

    /// Takes a connection to ask, the newest first.
    fn take(&self, wait: Duration) -> Option<UnixStream> {
        let idle = lock(&self.idle);
        let waited = self.came.wait_timeout_while(idle, wait, |idle| idle.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop()
    }

    /// Asks a question; if the connection had ended before, another one is tried once.
    fn ask(&self, asked: &Question<&HdfsConfig>, limit: Duration) -> Result<Located, String> {
        let mut ended = "not connected; is the service phalanx-gate running?".to_owned();
        for _ in 0..2 {
            let Some(stream) = self.take(COMES.min(limit)) else { break };
            self.asked.fetch_add(1, Ordering::Relaxed);
            let mut timed = Timed { stream: &stream, end: Instant::now() + limit + SENDING };
            let found = send(&mut timed, asked)
                .and_then(|()| receive_located(&mut BufReader::new(&mut timed), INPUT_BYTES_MAX));
            self.asked.fetch_sub(1, Ordering::Relaxed);
            match found {
                Ok(found) => {
                    self.let_in(stream);
                    return found;
                }
                Err(error) if gone(error.kind()) => ended = format!("connection lost: {error}"),
                Err(error) => return Err(format!("phalanx-gate: {error}")),
            }
        }
        Err(format!("phalanx-gate: {ended}"))
    }
}

/// Whether a connection lasts and sends nothing.
fn is_silent(stream: &UnixStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(stream.as_raw_fd(), &mut [0], flags) == Err(nix::errno::Errno::EAGAIN)
}

/// The gate's listening for clients over TCP.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    /// Connection on which the gate was asked to listen.
    stream: Option<UnixStream>,
}

impl Listening {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Asks the gate to listen, again whenever the gate has gone; returns a new door.
    pub fn tend(&mut self, gate: &Gate) -> Option<Door> {
        match &self.stream {
            Some(stream) if is_silent(stream) => None,
            Some(stream) => match receive(&mut Timed { stream, end: Instant::now() + SENDING }) {
                Ok(Door::Ok(())) => Some(Ok(())),
                Ok(Err(why)) => Some(Err(text(&why))),
                Err(error) => {
                    self.stream = None;
                    Some(Err(format!("phalanx-gate: {error}")))
                }
            },
            None => {
                let mut stream = gate.take(Duration::ZERO)?;
                let asked = Question::<()>::Listen(self.address);
                self.stream = send(&mut stream, &asked).is_ok().then_some(stream);
                None
            }
        }
    }
}

fn gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

/// A stream on which everything happens before one end.
struct Timed<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(late()) } else { Ok(left) }
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "no answer in time")
}

fn in_time<T>(done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| if error.kind() == ErrorKind::WouldBlock { late() } else { error })
}

impl Read for Timed<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        in_time((&mut &*self.stream).read(to))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        in_time((&mut &*self.stream).write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file systems of a configuration, whose files the gate finds.
#[derive(Debug)]
pub struct Hdfs<'a> {
    pub gate: &'a Gate,
    pub config: &'a HdfsConfig,
}

impl Locations for Hdfs<'_> {
    fn locate(&mut self, question: &Asked<'_>) -> Result<Arc<Located>, String> {
        let Asked { input, recursive, user, job_id, limit, patience } = *question;
        let ms = |of: Duration| u64::try_from(of.min(limit).as_millis()).unwrap_or(u64::MAX);
        let asked = Question::Lookup(Lookup {
            settings: self.config,
            input: input.to_owned(),
            recursive,
            user: user.to_owned(),
            job_id,
            limit_ms: ms(limit),
            patience_ms: ms(patience),
        });
        self.gate.ask(&asked, limit).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_messages::gate::{answer, receive};

    fn ask(gate: &Gate) -> Result<Arc<Located>, String> {
        let limit = Duration::from_millis(100);
        let question = Asked {
            input: "/a",
            recursive: true,
            user: "u",
            job_id: 7,
            limit,
            patience: Duration::MAX,
        };
        Hdfs { gate, config: &HdfsConfig::default() }.locate(&question)
    }

    /// A connection whose other end runs a function.
    fn other(does: impl FnOnce(UnixStream) + Send + 'static) -> UnixStream {
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::spawn(move || does(there));
        here
    }

    fn honest(mut stream: UnixStream) {
        while let Ok(Question::Lookup(asked)) = receive::<Question<HdfsConfig>>(&mut stream) {
            assert_eq!((&*asked.input, &*asked.user, asked.patience_ms), ("/a", "u", 100));
            answer(&mut stream, Err("no such file")).unwrap();
        }
    }

    #[test]
    fn a_connection_is_asked_again_and_again() {
        let gate = Gate::default();
        assert!(ask(&gate).unwrap_err().contains("is the service phalanx-gate running?"));
        gate.let_in(other(honest));
        for _ in 0..3 {
            assert_eq!(ask(&gate).unwrap_err(), "no such file");
            assert_eq!(gate.connections(), 1);
        }
    }

    #[test]
    fn a_gate_that_was_started_anew_is_asked() {
        let gate = Gate::default();
        gate.let_in(other(honest));
        gate.let_in(other(drop));
        assert_eq!(ask(&gate).unwrap_err(), "no such file");
        gate.let_in(other(drop));
        while gate.connections() > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        (0..2 * DATA_LOOKUP_THREADS).for_each(|_| gate.let_in(other(honest)));
        assert_eq!(gate.connections(), DATA_LOOKUP_THREADS);
    }

    /// Goal: each gate that connects is asked to listen, and its answers are passed on, as are its
    /// end and invalid answers.
    #[test]
    fn a_gate_is_asked_to_listen_again_after_its_end() {
        let gate = Gate::default();
        let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let mut door = Listening::new(address);
        assert_eq!(door.tend(&gate), None);
        let mut next = || loop {
            match door.tend(&gate) {
                Some(told) => return told,
                None => std::thread::yield_now(),
            }
        };
        let says = move |bytes: &'static [u8]| {
            other(move |mut stream| {
                let asked = receive::<Question<HdfsConfig>>(&mut stream).unwrap();
                assert_eq!(asked, Question::Listen(address));
                send(&mut stream, &Door::Err("in\nuse".to_owned())).unwrap();
                send(&mut stream, &Door::Ok(())).unwrap();
                let _ = stream.write_all(bytes);
            })
        };
        for bytes in [&[][..], &[255; 4], &[1, 0, 0, 0, b'{']] {
            gate.let_in(says(bytes));
            assert_eq!(next(), Err("in use".to_owned()));
            assert_eq!(next(), Ok(()));
            assert!(next().unwrap_err().starts_with("phalanx-gate: "));
        }
    }

    /// Goal: silence, single bytes and lies cost the one lookup, within its time.
    #[test]
    fn a_gate_that_hangs_or_lies_costs_one_lookup() {
        let silent = |stream: UnixStream| {
            std::thread::sleep(Duration::from_secs(5));
            drop(stream);
        };
        let drip = |mut stream: UnixStream| {
            while stream.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let lie = |mut stream: UnixStream| {
            let _ = receive::<Question<HdfsConfig>>(&mut stream);
            let _ = stream.write_all(&[255; 4]);
        };
        let gate = Gate::default();
        for (stream, says) in
            [(other(silent), "in time"), (other(drip), ""), (other(lie), "a message of")]
        {
            gate.let_in(stream);
            let begun = Instant::now();
            let error = ask(&gate).unwrap_err();
            assert!(error.starts_with("phalanx-gate: ") && error.contains(says), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
            assert_eq!(gate.connections(), 0);
        }
        (0..2).for_each(|_| gate.let_in(other(lie)));
        ask(&gate).unwrap_err();
        assert_eq!(gate.connections(), 1, "who lied is not asked again");
    }
}
