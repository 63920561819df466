// SPDX-License-Identifier: GPL-3.0-or-later
//! A child's three pipes, none of which blocks.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStderr, ChildStdin, ChildStdout};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use phalanx_core::limits::{SLOT_OUTPUT_BYTES_MAX, SLOT_STDERR_BYTES_MAX};

/// Size of one read, in bytes.
const CHUNK: usize = 16 * 1024;
/// Reads of one pipe in one turn, so that a flood does not hold up the others.
const READS_A_TURN: usize = 16;

pub(super) fn unblock(fd: impl AsFd) -> nix::Result<()> {
    let fd = fd.as_fd();
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(|_| ())
}

/// The pipe to standard input, and the input that is not written yet.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) pipe: Option<ChildStdin>,
    bytes: Vec<u8>,
    done: usize,
}

impl Input {
    pub(super) fn new(pipe: Option<ChildStdin>, bytes: Vec<u8>) -> Self {
        Self { pipe, bytes, done: 0 }
    }

    /// Writes what the pipe takes; closes it at the end or when nobody reads it.
    pub(super) fn turn(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            let rest = self.bytes.get(self.done..).unwrap_or_default();
            match pipe.write(rest) {
                _ if rest.is_empty() => self.pipe = None,
                Ok(written) => self.done += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A program need not read its input.
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// Standard output up to its cap.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) pipe: Option<ChildStdout>,
    pub(super) bytes: Vec<u8>,
}

impl Output {
    pub(super) fn new(pipe: Option<ChildStdout>) -> Self {
        Self { pipe, bytes: Vec::new() }
    }

    /// Reads what is there; returns true once the output is longer than its cap.
    pub(super) fn turn(&mut self) -> bool {
        let bytes = &mut self.bytes;
        drain(&mut self.pipe, |chunk| {
            let left = (SLOT_OUTPUT_BYTES_MAX + 1).saturating_sub(bytes.len());
            bytes.extend_from_slice(chunk.get(..left).unwrap_or(chunk));
            bytes.len() <= SLOT_OUTPUT_BYTES_MAX
        });
        self.bytes.len() > SLOT_OUTPUT_BYTES_MAX
    }
}

/// The last bytes of standard error; all earlier bytes are read and dropped.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) pipe: Option<ChildStderr>,
    bytes: Vec<u8>,
}

impl Tail {
    pub(super) fn new(pipe: Option<ChildStderr>) -> Self {
        Self { pipe, bytes: Vec::new() }
    }

    pub(super) fn turn(&mut self) {
        let bytes = &mut self.bytes;
        drain(&mut self.pipe, |chunk| {
            bytes.extend_from_slice(chunk);
            let excess = bytes.len().saturating_sub(SLOT_STDERR_BYTES_MAX);
            bytes.drain(..excess);
            true
        });
    }

    /// Returns the bytes as text. Malformed bytes are replaced, and control characters other than
    /// line ends and tabs.
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
        text.trim().chars().map(|c| if odd(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

/// Reads until the pipe is empty, `take` has enough, or the end.
fn drain<P: Read>(pipe: &mut Option<P>, mut take: impl FnMut(&[u8]) -> bool) {
    let mut chunk = [0; CHUNK];
    for _ in 0..READS_A_TURN {
        let Some(open) = pipe else { return };
        match open.read(&mut chunk) {
            Ok(0) => *pipe = None,
            Ok(read) => {
                if !take(chunk.get(..read).unwrap_or_default()) {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => *pipe = None,
        }
    }
}
