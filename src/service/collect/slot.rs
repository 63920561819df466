// SPDX-License-Identifier: GPL-3.0-or-later
//! Run slots: foreign programs run one by one, or many at once, without ever
//! blocking whoever runs them.
//!
//! Each instance is started without a shell, in a process group of its own,
//! as an unprivileged user, with an environment of documented variables only.
//! What it prints is read up to a cap. At its end, at its timeout, or when it
//! prints too much, all that is left of its process group is killed, and also
//! what left the group but still descends from it. A program that even
//! SIGKILL does not end (waiting for a dead file server) is reported and set
//! aside until the kernel lets it go.
//!
//! # Source
//! methods.md section 3 (c): "allocates a run slot that runs the instance,
//! wraps its output".

mod child;
mod orphans;
mod pipes;
mod user;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollTimeout, poll};

pub use user::{RunAs, UserError};

use child::Child;
use phalanx_core::limits::SLOT_EXIT_CHECK_MS;

/// One run of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment besides [`BASE_ENVIRONMENT`].
    pub env: Vec<(String, String)>,
    /// What it can read from its standard input.
    pub input: Vec<u8>,
    /// After so long it is killed.
    pub timeout: Duration,
    /// Who it runs as.
    pub run_as: RunAs,
}

/// Environment that every instance has, whatever the daemon's is.
pub const BASE_ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("LANG", "C.UTF-8"),
    ("HOME", "/"),
];

/// Why a run gave no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The program could not be started.
    #[error("cannot start: {0}")]
    Start(String),
    /// It ended with a status other than 0.
    #[error("exit status {0}")]
    Exit(i32),
    /// It was ended by a signal.
    #[error("ended by signal {0}")]
    Signal(i32),
    /// It took too long.
    #[error("no end within its timeout of {0} ms")]
    Timeout(u128),
    /// It printed too much.
    #[error("printed more than {0} bytes")]
    TooLong(usize),
    /// What it printed is no text.
    #[error("printed bytes that are not UTF-8, the first at byte {0}")]
    NotUtf8(usize),
    /// It was stopped because nobody wants its value any more.
    #[error("stopped")]
    Stopped,
}

/// One run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What [`Slots::start`] was given.
    pub id: u64,
    /// What it printed, without white space at both ends.
    pub output: Result<String, RunError>,
    /// Last lines of its standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

/// Why a run was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many run as may.
    #[error("all run slots are taken")]
    Full,
    /// The last run of this id has not ended, or cannot be ended.
    #[error("its last run has not ended")]
    Busy,
}

/// The programs that run now.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    running: BTreeMap<u64, Child>,
    /// Killed, reported, and not gone yet.
    dying: BTreeMap<u64, Child>,
    finished: Vec<Finished>,
}

impl Slots {
    /// Room for `most` programs at once. Makes this process the parent of
    /// orphans among its descendants, so that none escapes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        if let Err(error) = phalanx_ffi::process::adopt_orphans() {
            log::warn!("run slots: processes that leave their group may stay: {error}");
        }
        let (running, dying) = (BTreeMap::new(), BTreeMap::new());
        Self { most, running, dying, finished: Vec::new() }
    }

    /// Programs that run, counting those that do not end after SIGKILL.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len() + self.dying.len()
    }

    /// Whether nothing runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether as many run as may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Whether the last run of this id has not ended.
    #[must_use]
    pub fn busy(&self, id: u64) -> bool {
        self.running.contains_key(&id) || self.dying.contains_key(&id)
    }

    /// Starts a program. That it cannot be started is told by [`Slots::wait`]
    /// as for any other failure.
    ///
    /// # Errors
    /// When there is no slot for it now.
    pub fn start(&mut self, id: u64, run: Run, now: Instant) -> Result<(), Refused> {
        if self.busy(id) {
            return Err(Refused::Busy);
        }
        if self.is_full() {
            return Err(Refused::Full);
        }
        match Child::start(run, now) {
            Ok(child) => {
                self.running.insert(id, child);
            }
            Err(why) => {
                let (stderr, took) = (String::new(), Duration::ZERO);
                let output = Err(RunError::Start(why));
                self.finished.push(Finished { id, output, stderr, took });
            }
        }
        Ok(())
    }

    /// Kills a program, if it runs.
    pub fn stop(&mut self, id: u64, now: Instant) {
        if let Some(mut child) = self.running.remove(&id) {
            child.give_up(RunError::Stopped);
            self.report(id, child, now);
        }
    }

    /// Kills all.
    pub fn stop_all(&mut self, now: Instant) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.stop(id, now);
        }
    }

    /// Waits until a program has ended, `until` has come, or `wake` can be
    /// read; gives what has ended.
    pub fn wait(&mut self, until: Instant, wake: Option<BorrowedFd<'_>>) -> Vec<Finished> {
        if self.finished.is_empty() {
            self.sleep(until, wake);
        }
        let now = Instant::now();
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            let Some(child) = self.running.get_mut(&id) else { continue };
            if child.turn(now)
                && let Some(child) = self.running.remove(&id)
            {
                self.report(id, child, now);
            }
        }
        self.dying.retain(|_, child| !child.reap());
        if !self.finished.is_empty() {
            let alive: BTreeSet<u32> = self.running.values().map(Child::pid).collect();
            let gone: BTreeSet<u32> = self.dying.values().map(Child::pid).collect();
            orphans::end(&alive, &gone);
        }
        std::mem::take(&mut self.finished)
    }

    fn report(&mut self, id: u64, mut child: Child, now: Instant) {
        let (output, stderr) = child.result();
        self.finished.push(Finished { id, output, stderr, took: child.age(now) });
        if !child.reap() {
            self.dying.insert(id, child);
        }
    }

    fn sleep(&self, until: Instant, wake: Option<BorrowedFd<'_>>) {
        let now = Instant::now();
        let mut until = until;
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(1 + 4 * self.running.len());
        fds.extend(wake.map(|fd| PollFd::new(fd, nix::poll::PollFlags::POLLIN)));
        for child in self.running.values() {
            until = until.min(child.deadline());
            if child.exit_fd().is_none() {
                until = until.min(now + Duration::from_millis(SLOT_EXIT_CHECK_MS));
            }
            child.add_to(&mut fds);
        }
        for child in self.dying.values() {
            match child.exit_fd() {
                Some(fd) => fds.push(PollFd::new(fd.as_fd(), nix::poll::PollFlags::POLLIN)),
                None => until = until.min(now + Duration::from_millis(SLOT_EXIT_CHECK_MS)),
            }
        }
        let left = until.saturating_duration_since(now);
        // Rounded up, or the last part of a millisecond would be a busy loop.
        let ms = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        // An interrupted or failed wait is a short one.
        let _ = poll(&mut fds, PollTimeout::from(ms));
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            child.give_up(RunError::Stopped);
            let _ = child.reap();
        }
    }
}
