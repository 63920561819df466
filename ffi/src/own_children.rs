// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs that a process runs for itself (sacct, curl).
//!
//! A process that runs collectors kills what they leave behind: all of its children that belong
//! to no run. Children that are started here are spared.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Output};
use std::sync::Mutex;

use crate::locks::lock;

/// Bytes of standard error that are kept.
const ERRORS_MAX: u64 = 64 << 10;

static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A child that belongs to the daemon itself until it was waited for.
#[derive(Debug)]
pub struct OwnChild {
    child: Option<Child>,
    id: u32,
}

impl OwnChild {
    /// Starts a program.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        // Under the lock, so that nobody sees a child that is not known yet.
        let mut own = lock(&OWN);
        let child = command.spawn()?;
        let id = child.id();
        own.insert(id);
        Ok(Self { child: Some(child), id })
    }

    /// Does the same as [`Child::wait_with_output`].
    ///
    /// # Errors
    /// The system's.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        self.child.take().ok_or_else(gone)?.wait_with_output()
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        lock(&OWN).remove(&self.id);
    }
}

/// Does the same as [`Command::output`], with `input` for the program. A program that writes more
/// than `most` bytes is ended and `most + 1` bytes are returned, with the first 64 KiB of its
/// standard error.
///
/// # Errors
/// The system's.
pub fn output_within(command: &mut Command, input: &[u8], most: usize) -> io::Result<Output> {
    let mut own = OwnChild::spawn(command)?;
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let child = own.child.as_mut().ok_or_else(gone)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (out, errors) = std::thread::scope(|scope| {
        let errors =
            scope.spawn(|| stderr.map_or_else(|| Ok(Vec::new()), |pipe| first(pipe, ERRORS_MAX)));
        if let Some(mut stdin) = stdin {
            // Whoever does not read it says so by its status.
            let _ = stdin.write_all(input);
        }
        let out = stdout.map_or_else(
            || Ok(Vec::new()),
            |mut pipe| {
                let mut bytes = Vec::new();
                let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
                pipe.by_ref().take(limit).read_to_end(&mut bytes)?;
                if bytes.len() > most {
                    child.kill()?;
                }
                io::Result::Ok(bytes)
            },
        );
        (out, errors.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
    });
    let status = child.wait()?;
    Ok(Output { status, stdout: out?, stderr: errors? })
}

/// Returns the first bytes of a stream, which is read to its end.
fn first(mut stream: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.by_ref().take(most).read_to_end(&mut bytes)?;
    io::copy(&mut stream, &mut io::sink())?;
    Ok(bytes)
}

/// Calls `look` with the ids of the daemon's own children, of which no more start meanwhile.
pub fn with_ids<T>(look: impl FnOnce(&BTreeSet<u32>) -> T) -> T {
    look(&lock(&OWN))
}

impl OwnChild {
    /// Returns the child, `None` once it was waited for.
    pub fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }
}
