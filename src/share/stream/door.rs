// SPDX-License-Identifier: GPL-3.0-or-later
//! Entry of workers, each by a connection with two threads of its own.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::wire::{self, Address, Known, read_line};
use phalanx_cli::common::Failure;

/// Number of a connection.
pub type Peer = u64;

/// An event of a stream.
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
    /// A signal asks for the end.
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
    thread::spawn(move || {
        for (peer, connection) in (0..).zip(listener.incoming()) {
            let Ok(connection) = connection else { continue };
            let (key, events) = (key.clone(), events.clone());
            thread::spawn(move || serve(peer, connection, &key, &events));
        }
    });
    Ok(address)
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

fn serve(peer: Peer, connection: TcpStream, key: &str, events: &Sender<Event>) {
    // Who does not know the key hears why in its own error.
    let Ok(Known { mut reader, writer, worker, node }) = wire::welcome(connection, key) else {
        return;
    };
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
