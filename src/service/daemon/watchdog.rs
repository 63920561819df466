// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages to systemd, sd_notify(3): ready, reloading, stopping, and the watchdog, which is fed
//! only while the link and plan threads make turns. The poll thread does not count: it may hang in
//! libslurm as long as slurmctld does not answer, and a restart of the daemon would not help.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use log::warn;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use sd_notify::NotifyState;

/// Time without a turn after which a thread is stuck; well above a plan's deadline and slot.
const STUCK: Duration = Duration::from_secs(20);
/// Time between two looks at the threads.
const LOOK: Duration = Duration::from_secs(1);

/// Turns of the threads that the watchdog looks at.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    pub(super) link: AtomicU64,
    pub(super) plan: AtomicU64,
}

/// Turns of the threads that the watchdog looks at.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Counts of turns of `link` and `plan`, and the times when they last grew.
    seen: [(u64, Instant); 2],
    warned: bool,
}

impl Watchdog {
    pub(super) fn start() -> Self {
        Self { seen: [(0, Instant::now()); 2], warned: false }
    }

    /// Waits for a signal; returns `None` after [`LOOK`] without one.
    pub(super) fn wait(&self, signals: &SignalFd) -> Option<Signal> {
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
        // An interrupted wait only means an early look.
        let _ = poll(&mut fds, timeout);
        let info = signals.read_signal().ok().flatten()?;
        Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()
    }

    /// Feeds the watchdog if every thread made a turn lately.
    pub(super) fn tick(&mut self, heartbeats: &Heartbeats) {
        let threads = [("link", &heartbeats.link), ("plan", &heartbeats.plan)];
        let mut stuck = None;
        for ((name, made), (turns, since)) in threads.into_iter().zip(&mut self.seen) {
            let now = made.load(Ordering::Relaxed);
            if now != *turns {
                (*turns, *since) = (now, Instant::now());
            } else if since.elapsed() > STUCK {
                stuck = Some(name);
            }
        }
        match stuck {
            None => notify(&[NotifyState::Watchdog]),
            Some(name) if !self.warned => {
                warn!("thread {name} made no turn for {} s", STUCK.as_secs());
                self.warned = true;
            }
            Some(_) => {}
        }
    }

    pub(super) fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    pub(super) fn reloading(&self) {
        notify(&[NotifyState::Reloading]);
    }

    pub(super) fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    // Without systemd nobody listens; nothing depends on it.
    let _ = sd_notify::notify(states);
}
