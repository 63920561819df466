// SPDX-License-Identifier: GPL-3.0-or-later
//! Accepts workers, each over a connection with two threads of its own.

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::wire::{self, Address, Known, read_line};
use phalanx_cli::common::Failure;

/// Most connections that have not shown yet that they know the key; with more the oldest goes.
const STRANGERS_MAX: usize = 64;

/// Number of a connection.
pub type Peer = u64;

pub enum Event {
    Joined {
        peer: Peer,
        worker: String,
        node: String,
        say: Sender<Vec<u8>>,
    },
    Line(Peer, Vec<u8>),
    Gone(Peer, String),
    /// The command that starts the workers has ended.
    Launched(io::Result<ExitStatus>),
    /// A signal asks the stream to end.
    Signal,
}

/// Listens at the given place, or at every address of the host under its name.
pub fn open(listen: Option<&str>, events: &Sender<Event>) -> Result<Address, Failure> {
    let failed = |error: io::Error| {
        let at = listen.unwrap_or("any address");
        Failure::usage(format!("--listen: {at}: {error}"))
    };
    let listener = match listen {
        Some(at) if at.contains(':') => TcpListener::bind(at),
        Some(host) => TcpListener::bind((host, 0)),
        None => TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")),
    };
    let listener = listener.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let host = match listen {
        Some(at) => at.rsplit_once(':').map_or(at, |(host, _)| host).to_owned(),
        None => {
            let host = nix::unistd::gethostname().map_err(|error| failed(error.into()))?;
            host.to_string_lossy().into_owned()
        }
    };
    let key = wire::random(32).map_err(failed)?;
    let address = Address { at: format!("{host}:{port}"), key };
    let (key, events) = (address.key.clone(), events.clone());
    thread::spawn(move || accept(&listener, &key, &events));
    Ok(address)
}

/// Serves each connection on a thread of its own, and keeps few that have not shown the key.
fn accept(listener: &TcpListener, key: &str, events: &Sender<Event>) {
    let mut strangers: VecDeque<(Arc<AtomicBool>, TcpStream)> = VecDeque::new();
    for (peer, connection) in (0..).zip(listener.incoming()) {
        let Ok((connection, same)) = connection.and_then(|c| Ok((c.try_clone()?, c))) else {
            continue;
        };
        strangers.retain(|(known, _)| !known.load(Ordering::Relaxed));
        if strangers.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = strangers.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let known = Arc::new(AtomicBool::new(false));
        strangers.push_back((Arc::clone(&known), same));
        let (key, events) = (key.to_owned(), events.clone());
        thread::spawn(move || {
            serve(peer, connection, &key, &events, &known);
            known.store(true, Ordering::Relaxed);
        });
    }
}

/// Writes the address into a file that only the user can read.
pub fn publish(address: &Address, path: &Path) -> Result<(), Failure> {
    let write = || {
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&part)?;
        writeln!(file, "{}", address.text())?;
        std::fs::rename(part, path)
    };
    let failed =
        |error: io::Error| Failure::usage(format!("--address-file {}: {error}", path.display()));
    write().map_err(failed)
}

fn serve(peer: Peer, connection: TcpStream, key: &str, events: &Sender<Event>, known: &AtomicBool) {
    // Who does not know the key hears why in its own error.
    let Ok(Known { mut reader, writer, worker, node }) = wire::welcome(connection, key) else {
        return;
    };
    known.store(true, Ordering::Relaxed);
    let (say, lines) = unbounded();
    thread::spawn(move || write(writer, &lines));
    if events.send(Event::Joined { peer, worker, node, say }).is_err() {
        return;
    }
    let why = listen(peer, &mut reader, events);
    let _ = events.send(Event::Gone(peer, why));
}

fn listen(peer: Peer, reader: &mut BufReader<TcpStream>, events: &Sender<Event>) -> String {
    loop {
        match read_line(reader) {
            Ok(Some(line)) if line == b"." => {}
            Ok(Some(line)) => {
                if events.send(Event::Line(peer, line)).is_err() {
                    return "the stream has ended".to_owned();
                }
            }
            Ok(None) => return "it closed the connection".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return format!("it is silent for {} s", wire::SILENCE.as_secs());
            }
            Err(error) => return error.to_string(),
        }
    }
}

fn write(mut writer: TcpStream, lines: &Receiver<Vec<u8>>) {
    for line in lines {
        if writer.write_all(&line).is_err() {
            // The reader sees it and tells.
            let _ = writer.shutdown(Shutdown::Both);
            return;
        }
    }
    let _ = writer.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;
    use std::time::Duration;

    use super::*;

    /// Goal: connections that do not know the key have few threads of the stream, and keep no
    /// worker out.
    #[test]
    fn strangers_push_out_each_other() {
        let (events, joined) = unbounded();
        let address = open(Some("127.0.0.1"), &events).unwrap();
        let silent: Vec<TcpStream> =
            (0..3 * STRANGERS_MAX).map(|_| TcpStream::connect(&address.at).unwrap()).collect();
        let worker = wire::enter(&address, "w", "n1").map(|_| ());
        worker.unwrap();
        let first = joined.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(matches!(first, Event::Joined { .. }));
        let open = silent.into_iter().filter(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let read = (&*stream).read_to_end(&mut Vec::new());
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        });
        assert!(open.count() <= STRANGERS_MAX);
    }
}
