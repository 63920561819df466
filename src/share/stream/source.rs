// SPDX-License-Identifier: GPL-3.0-or-later
//! Sources of a stream's items: lines, the files of a directory, or requests at a socket. A thread
//! of its own reads no further than somebody takes from its channel.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use nix::sys::stat::{Mode, umask};

use super::journal::Past;
use super::wire::{LINE_BYTES_MAX, read_line};
use phalanx_cli::common::Failure;

/// Greatest number of unanswered requests of one client; more are not read.
const CLIENT_REQUESTS_MAX: usize = 64;
/// Pause between two reads of a directory that is followed.
const LOOK: Duration = Duration::from_millis(500);

/// An item, and the client that waits for its answer.
pub struct Piece {
    pub text: Vec<u8>,
    pub client: Option<Client>,
}

pub enum Message {
    Piece(Piece),
    End,
    /// The source cannot be read further.
    Failed(String),
}

/// A request's place in its client's order.
pub struct Client {
    number: u64,
    answers: Sender<(u64, Vec<u8>)>,
}

impl Client {
    pub fn answer(self, mut text: Vec<u8>) {
        text.push(b'\n');
        // A client that is gone wants no answer.
        let _ = self.answers.send((self.number, text));
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Input,
    File(PathBuf),
    /// Files of a directory; `true`: also files that appear later.
    Directory(PathBuf, bool),
    Socket(PathBuf),
}

impl Source {
    pub fn of(name: &str, follow: bool) -> Result<Self, Failure> {
        let source = match name.strip_prefix("unix:") {
            Some("") => return Err(Failure::usage("--stream: expected a path after unix:")),
            Some(path) => Self::Socket(path.into()),
            None if name == "-" => Self::Input,
            None => {
                let path = PathBuf::from(name);
                let metadata = path
                    .metadata()
                    .map_err(|error| Failure::usage(format!("--stream {name}: {error}")))?;
                if metadata.is_dir() { Self::Directory(path, follow) } else { Self::File(path) }
            }
        };
        if follow && !matches!(source, Self::Directory(..)) {
            return Err(Failure::usage(format!("--follow: {name} is not a directory")));
        }
        Ok(source)
    }

    /// Whether the source ends only by a signal.
    pub fn is_endless(&self) -> bool {
        matches!(self, Self::Socket(_) | Self::Directory(_, true))
    }

    /// Returns how an item is recognised at the next start.
    pub fn past(&self) -> Past {
        match self {
            Self::Input | Self::File(_) => Past::Number,
            Self::Directory(..) => Past::Text,
            Self::Socket(_) => Past::Nothing,
        }
    }

    /// Removes the socket, which would block the next stream.
    pub fn close(&self) {
        if let Self::Socket(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }

    pub fn start(&self) -> Result<Receiver<Message>, Failure> {
        let (sender, receiver) = bounded(1);
        let failed = |error: io::Error| Failure::usage(format!("--stream: {error}"));
        match self.clone() {
            Self::Input => run(sender, |sender| lines(&mut io::stdin().lock(), sender)),
            Self::File(path) => {
                let named =
                    |error| failed(io::Error::other(format!("{}: {error}", path.display())));
                let mut file = BufReader::new(File::open(&path).map_err(named)?);
                run(sender, move |sender| lines(&mut file, sender));
            }
            Self::Directory(path, follow) => {
                run(sender, move |sender| files(&path, follow, sender));
            }
            Self::Socket(path) => {
                let listener = listen(&path)?;
                run(sender, move |sender| requests(&listener, sender));
            }
        }
        Ok(receiver)
    }
}

fn run(
    sender: Sender<Message>,
    read: impl FnOnce(&Sender<Message>) -> io::Result<()> + Send + 'static,
) {
    thread::spawn(move || {
        let last = read(&sender)
            .map_or_else(|error| Message::Failed(error.to_string()), |()| Message::End);
        let _ = sender.send(last);
    });
}

/// Hands a piece on; fails where nobody takes pieces any more.
fn send(to: &Sender<Message>, text: Vec<u8>, client: Option<Client>) -> io::Result<()> {
    to.send(Message::Piece(Piece { text, client })).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Reads lines; a last line without a line end counts as well.
fn lines(from: &mut impl BufRead, to: &Sender<Message>) -> io::Result<()> {
    for number in 1_u64.. {
        let mut line = Vec::new();
        let most = LINE_BYTES_MAX as u64 + 1;
        if io::Read::take(&mut *from, most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.pop_if(|last| *last == b'\n').is_none() && line.len() > LINE_BYTES_MAX {
            let text = format!("line {number}: expected at most {LINE_BYTES_MAX} bytes");
            return Err(io::Error::other(text));
        }
        send(to, line, None)?;
    }
    Ok(())
}

/// Reads regular files by name, but none that begins with a dot, which may be incomplete.
fn files(directory: &Path, follow: bool, to: &Sender<Message>) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::other(format!("--stream {}: {error}", directory.display()));
    let mut seen = HashSet::new();
    loop {
        let mut new = Vec::new();
        for entry in directory.read_dir().map_err(named)? {
            let entry = entry.map_err(named)?;
            let name = entry.file_name();
            let usable = !name.as_bytes().starts_with(b".")
                && !name.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\t'));
            // Gone again, or not readable: not a file to work on.
            let is_file = || entry.path().metadata().is_ok_and(|found| found.is_file());
            if usable && !seen.contains(&name) && is_file() {
                new.push(name);
            }
        }
        new.sort();
        for name in new {
            send(to, directory.join(&name).into_os_string().as_bytes().to_vec(), None)?;
            seen.insert(name);
        }
        if !follow {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// Opens a socket that only the user's own programs can reach.
fn listen(path: &Path) -> Result<UnixListener, Failure> {
    let failed =
        |error: io::Error| Failure::usage(format!("--stream unix:{}: {error}", path.display()));
    if UnixStream::connect(path).is_ok() {
        return Err(failed(io::Error::other("another stream listens there")));
    }
    // What one that was killed has left.
    if path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let before = umask(Mode::S_IXUSR | Mode::S_IRWXG | Mode::S_IRWXO);
    let listener = UnixListener::bind(path);
    umask(before);
    listener.map_err(failed)
}

fn requests(listener: &UnixListener, to: &Sender<Message>) -> io::Result<()> {
    for connection in listener.incoming() {
        let Ok(connection) = connection else { continue };
        let to = to.clone();
        thread::spawn(move || client(connection, &to));
    }
    Ok(())
}

fn client(connection: UnixStream, to: &Sender<Message>) {
    let Ok(writer) = connection.try_clone() else { return };
    let (answers, ready) = unbounded();
    // Full while the client waits for so many answers.
    let (asked, unanswered) = bounded(CLIENT_REQUESTS_MAX);
    thread::spawn(move || reply(writer, &ready, &unanswered));
    let mut reader = BufReader::new(connection);
    for number in 0.. {
        let Ok(Some(text)) = read_line(&mut reader) else { return };
        let client = Client { number, answers: answers.clone() };
        if asked.send(()).is_err() || send(to, text, Some(client)).is_err() {
            return;
        }
    }
}

/// Sends answers in the order of the requests. Ends when the client has closed its end and
/// everything is answered.
fn reply(mut writer: UnixStream, ready: &Receiver<(u64, Vec<u8>)>, unanswered: &Receiver<()>) {
    let (mut next, mut early) = (0, BTreeMap::new());
    for (number, text) in ready {
        early.insert(number, text);
        while let Some(text) = early.remove(&next) {
            next += 1;
            let _ = unanswered.try_recv();
            // A client that is gone: its requests are done all the same.
            let _ = writer.write_all(&text);
        }
    }
}
