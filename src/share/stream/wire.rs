// SPDX-License-Identifier: GPL-3.0-or-later
//! Protocol between a stream and its workers: lines over TCP.
//!
//! Both prove first that they know the stream's key, without saying it. Then the stream sends
//! `NUMBER`, a tab and an item; the worker answers `NUMBER`, a tab and what the program printed, or
//! `!NUMBER`, a tab and why the program failed. A `.` says that the other end is still there, `end`
//! that no item comes any more, and `?` with a text why a worker leaves.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use sha2::Digest;

/// Environment variable with the address and the key, for the workers that the command starts.
pub const VARIABLE: &str = "PHALANX_STREAM";
/// Longest item or answer, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Pause between two signs of life.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time without a sign of life after which the other end counts as dead.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Longest time for the handshake of a connection.
const BEGINNING: Duration = Duration::from_secs(10);

const GREETING: &str = "phalanx-stream/1";
/// Bytes that a line may have beside its item or answer: number, word and separators.
const OVERHEAD: u64 = 64;

/// Address of a stream, and the key that its workers must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host and port, `HOST:PORT`.
    pub at: String,
    /// Key as hexadecimal digits.
    pub key: String,
}

impl Address {
    /// Parses `HOST:PORT/KEY`.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, key) = text.trim().rsplit_once('/')?;
        let valid = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        (valid && at.contains(':')).then(|| Self { at: at.to_owned(), key: key.to_owned() })
    }

    pub fn text(&self) -> String {
        format!("{}/{}", self.at, self.key)
    }
}

/// Returns random hexadecimal digits, two a byte.
pub fn random(bytes: u64) -> io::Result<String> {
    let mut read = Vec::new();
    std::fs::File::open(Path::new("/dev/urandom"))?.take(bytes).read_to_end(&mut read)?;
    Ok(hex(&read))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the proof of the key for a connection; `who` is `stream` or `worker`.
fn proof(key: &str, who: &str, nonces: [&str; 2]) -> String {
    let [ours, theirs] = nonces;
    hex(&sha2::Sha256::digest(format!("{GREETING} {who} {key} {ours} {theirs}")))
}

/// Reads a line without its end; `None` at the end of the input, also in the middle of a line.
pub fn read_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = LINE_BYTES_MAX as u64 + OVERHEAD;
    from.by_ref().take(most).read_until(b'\n', &mut line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(line));
    }
    if line.len() as u64 == most {
        let text = format!("a line of more than {LINE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(None)
}

fn read_text(from: &mut impl BufRead) -> io::Result<String> {
    let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    String::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what.to_owned())
}

/// A connection whose other end knows the key.
pub struct Known {
    pub reader: BufReader<TcpStream>,
    pub writer: TcpStream,
    pub worker: String,
    /// Node that the worker runs on.
    pub node: String,
}

/// Runs the stream's side of the handshake.
pub fn welcome(connection: TcpStream, key: &str) -> io::Result<Known> {
    prepare(&connection)?;
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    let ours = random(16)?;
    writeln!(writer, "{GREETING} {ours}")?;
    let line = read_text(&mut reader)?;
    let mut words = line.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (theirs, proved, worker, node) = (word(), word(), word(), word());
    if proved != proof(key, "worker", [&ours, &theirs]) {
        return Err(refused("it does not know the stream's key"));
    }
    writeln!(writer, "{}", proof(key, "stream", [&ours, &theirs]))?;
    writer.set_read_timeout(Some(SILENCE))?;
    Ok(Known { reader, writer, worker, node })
}

/// Runs the worker's side of the handshake. The host on which `srun` was called, as Slurm names it
/// to its tasks, is tried too: the stream's own name for itself need not be known everywhere.
pub fn enter(address: &Address, worker: &str, node: &str) -> io::Result<Known> {
    let port = address.at.rsplit(':').next().unwrap_or_default();
    let launched = std::env::var("SLURM_LAUNCH_NODE_IPADDR").ok();
    let other = launched.filter(|host| !host.is_empty()).map(|host| format!("{host}:{port}"));
    let mut last = None;
    for at in [Some(address.at.clone()), other].into_iter().flatten() {
        match connect(&at).and_then(|connection| introduce(connection, address, worker, node)) {
            Ok(known) => return Ok(known),
            Err(error) => last = last.or(Some(error)),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn connect(at: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in at.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, BEGINNING) {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn introduce(
    connection: TcpStream,
    address: &Address,
    worker: &str,
    node: &str,
) -> io::Result<Known> {
    prepare(&connection)?;
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    let line = read_text(&mut reader)?;
    let theirs = line
        .strip_prefix(GREETING)
        .map(str::trim)
        .ok_or_else(|| refused("no stream of this version listens there"))?;
    let ours = random(16)?;
    let nonces = [theirs, ours.as_str()];
    writeln!(writer, "{ours} {} {worker} {node}", proof(&address.key, "worker", nonces))?;
    let proved = read_text(&mut reader).map_err(|_| refused("the stream refused the key"))?;
    if proved != proof(&address.key, "stream", nonces) {
        return Err(refused("what listens there does not know the stream's key"));
    }
    writer.set_read_timeout(Some(SILENCE))?;
    Ok(Known { reader, writer, worker: worker.to_owned(), node: node.to_owned() })
}

fn prepare(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_write_timeout(Some(SILENCE))?;
    connection.set_read_timeout(Some(BEGINNING))
}

/// Splits a line into `NUMBER` and what follows the tab.
pub fn split(line: &[u8]) -> Option<(u64, &[u8])> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let number = std::str::from_utf8(line.get(..tab)?).ok()?.parse().ok()?;
    Some((number, line.get(tab + 1..)?))
}

/// Formats the line of a number and a text.
pub fn join(mark: &str, number: u64, text: &[u8]) -> Vec<u8> {
    let mut line = format!("{mark}{number}\t").into_bytes();
    line.extend_from_slice(text);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_are_whole_or_not_at_all() {
        let mut text = &b"12\ta b\tc\n\nhalf"[..];
        let line = read_line(&mut text).unwrap().unwrap();
        assert_eq!(split(&line), Some((12, &b"a b\tc"[..])));
        assert_eq!(read_line(&mut text).unwrap().unwrap(), b"");
        assert_eq!(read_line(&mut text).unwrap(), None);
        let long = vec![b'x'; LINE_BYTES_MAX + 100];
        assert!(read_line(&mut &long[..]).is_err());
        assert_eq!(split(b"x\ty"), None);
        assert_eq!(split(b"12"), None);
        assert_eq!(join("!", 3, b"why"), b"!3\twhy\n");
    }

    #[test]
    fn addresses() {
        let key = "0f".repeat(32);
        let address = Address { at: "n1:70".into(), key };
        assert_eq!(Address::parse(&address.text()), Some(address));
        for wrong in ["", "n1:70", "n1:70/abc", &format!("n1/{}", "0f".repeat(32))] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }

    /// Goal: both ends must know the key; neither sends it.
    #[test]
    fn who_does_not_know_the_key_is_refused() {
        let meet = |theirs: &str, ours: &str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = listener.local_addr().unwrap().to_string();
            let address = Address { at, key: theirs.to_owned() };
            let worker = std::thread::spawn(move || enter(&address, "n1.0", "n1").map(|_| ()));
            let known = welcome(listener.accept().unwrap().0, ours);
            (known.map(|known| (known.worker, known.node)), worker.join().unwrap())
        };
        let (key, other) = ("00".repeat(32), "11".repeat(32));
        let (stream, worker) = meet(&key, &key);
        assert_eq!(stream.unwrap(), ("n1.0".into(), "n1".into()));
        worker.unwrap();
        let (stream, worker) = meet(&other, &key);
        assert!(stream.is_err() && worker.is_err());
    }
}
