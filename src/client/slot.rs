// SPDX-License-Identifier: GPL-3.0-or-later
//! Run slots: foreign programs run one by one, or many at once, and never block the caller.
//!
//! Each instance is started without a shell, in a process group of its own,
//! as an unprivileged user, with an environment of documented variables only.
//! Its output is read up to a cap. At its end, at its timeout, or when it
//! prints too much, the rest of its process group is killed, and also
//! processes that left the group but still descend from it. A program that even
//! SIGKILL does not end (waiting for a dead file server) is reported and set
//! aside until the kernel lets it go.

mod child;
mod orphans;
mod pipes;
mod run;
mod user;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollTimeout, poll};

pub use run::{Run, RunError};
pub use user::RunAs;

use child::Child;
use phalanx_core::limits::SLOT_EXIT_CHECK_MS;

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Id that was given to [`Slots::start`].
    pub id: u64,
    /// Standard output of the run, without white space at both ends.
    pub output: Result<String, RunError>,
    /// Last lines of the run's standard error.
    pub stderr: String,
    /// Duration of the run.
    pub took: Duration,
    /// Time at which the run ended.
    pub at: Instant,
}

impl Finished {
    /// A run that ends without output at the present time.
    pub fn failed(id: u64, why: RunError, took: Duration) -> Self {
        Self { id, output: Err(why), stderr: String::new(), took, at: Instant::now() }
    }
}

/// Reason for which a run was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The greatest number of programs runs.
    #[error("all run slots are taken")]
    Full,
    /// The previous run of the id has not ended, or cannot be ended.
    #[error("its last run has not ended")]
    Busy,
}

/// The programs that run now.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    running: BTreeMap<u64, Child>,
    /// Runs that were killed and reported, but still exist.
    dying: BTreeMap<u64, Child>,
    finished: Vec<Finished>,
}

impl Slots {
    /// Makes slots for `most` programs at once. This makes the process the parent of orphans among
    /// its descendants, so that none escapes.
    pub fn new(most: usize) -> Self {
        if let Err(error) = phalanx_ffi::process::adopt_orphans() {
            log::warn!("run slots: processes that leave their group may stay: {error}");
        }
        let (running, dying) = (BTreeMap::new(), BTreeMap::new());
        Self { most, running, dying, finished: Vec::new() }
    }

    /// Whether no program runs.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.dying.is_empty()
    }

    /// Whether the greatest number of programs runs.
    pub fn is_full(&self) -> bool {
        self.running.len() + self.dying.len() >= self.most
    }

    /// Whether the previous run of the id has not ended.
    pub fn busy(&self, id: u64) -> bool {
        self.running.contains_key(&id) || self.dying.contains_key(&id)
    }

    /// Starts a program, unless no slot is free. [`Slots::wait`] returns a failed start as any
    /// other failure.
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
                self.finished.push(Finished::failed(id, RunError::Start(why), Duration::ZERO));
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

    /// Kills all programs.
    pub fn stop_all(&mut self, now: Instant) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.stop(id, now);
        }
    }

    /// Waits until a program has ended, `until` has come, or `wake` can be read; returns the ended
    /// runs.
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
        self.finished.push(Finished { id, output, stderr, took: child.age(now), at: now });
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
