// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx-gate` speaks to hosts elsewhere for `phalanxd`, which decides and speaks to none.
//!
//! Each thread has a connection to the daemon's socket and answers one question after the other:
//! where files lie, and to listen for clients over TCP, which takes as long as the connection.
//! What breaks here, or is broken into, has this program's rights alone, and the daemon holds each
//! answer to what a stranger may say.
#![forbid(unsafe_code)]

mod door;
mod locations;

use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use log::{debug, info};

use locations::HdfsLocations;
use phalanx_config::args::GateArgs;
use phalanx_config::{LogConfig, logging};
use phalanx_core::limits::DATA_LOOKUP_THREADS;
use phalanx_messages::gate::{DOOR_SOCKET, Question, answer, receive};

/// Pause between attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let args = GateArgs::parse();
    // A thread less would answer less; the service starts it again.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
    logging::start(&LogConfig::default());
    info!("answers at {}", args.socket.display());
    std::thread::scope(|scope| {
        // One more, which listens.
        for _ in 0..DATA_LOOKUP_THREADS {
            scope.spawn(|| serve(&args.socket));
        }
        serve(&args.socket)
    })
}

/// Connects to the socket and answers its questions, again after each end.
fn serve(socket: &Path) -> ! {
    let mut hdfs = HdfsLocations::default();
    loop {
        let done =
            UnixStream::connect(socket).and_then(|stream| answer_at(&stream, socket, &mut hdfs));
        if let Err(error) = done {
            debug!("{}: {error}", socket.display());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Answers the questions of one connection until its end.
fn answer_at(stream: &UnixStream, socket: &Path, hdfs: &mut HdfsLocations) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(stream), BufWriter::new(stream));
    loop {
        let asked = match receive(&mut from)? {
            Question::Lookup(asked) => asked,
            Question::Listen(at) => {
                return door::listen(at, stream, &socket.with_file_name(DOOR_SOCKET));
            }
        };
        let found = hdfs.locate(asked);
        match answer(&mut to, found.as_ref().map(Arc::as_ref).map_err(String::as_str)) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                answer(&mut to, Err(&error.to_string()))?;
            }
            sent => sent?,
        }
        to.flush()?;
    }
}
