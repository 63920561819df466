// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs of Slurm's that the daemon runs for itself (scontrol, sacct).
//!
//! The process that runs collectors kills what they leave behind: all of its children that belong
//! to no run. Those that are started here are none of them.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, Output};
use std::sync::Mutex;

use crate::locks::lock;

static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A child that is the daemon's own until it was waited for.
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

    /// [`Child::wait_with_output`].
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

/// [`Command::output`]; the streams are as the command says.
///
/// # Errors
/// The system's.
pub fn output(command: &mut Command) -> io::Result<Output> {
    OwnChild::spawn(command)?.wait_with_output()
}

/// Calls `look` with the ids of these children, of which no more start meanwhile.
pub fn with_ids<T>(look: impl FnOnce(&BTreeSet<u32>) -> T) -> T {
    look(&lock(&OWN))
}

impl OwnChild {
    /// The child, until it is waited for.
    pub fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }
}
