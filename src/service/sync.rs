// SPDX-License-Identifier: GPL-3.0-or-later
//! Sleep and channels for the daemon's threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

/// Longest sleep before a thread looks whether it should stop.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Sleeps until `when`, or until `stop` is set.
pub(crate) fn sleep_until(when: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = when.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(TICK));
    }
}

/// Sending end of a channel that holds only the newest value.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    sender: Sender<T>,
    receiver: Receiver<T>,
}

impl<T> Newest<T> {
    pub(crate) fn channel() -> (Self, Receiver<T>) {
        let (sender, receiver) = bounded(1);
        (Self { sender, receiver: receiver.clone() }, receiver)
    }

    /// Puts a value into the channel; an older one that nobody took is dropped.
    pub(crate) fn send(&self, value: T) {
        if let Err(TrySendError::Full(newest)) = self.sender.try_send(value) {
            // The taker may be quicker than this: both ends then are fine.
            let _ = self.receiver.try_recv();
            let _ = self.sender.try_send(newest);
        }
    }
}

impl<T> Clone for Newest<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), receiver: self.receiver.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_of_one_holds_the_newest() {
        let (sender, receiver) = Newest::channel();
        (0..5).for_each(|value| sender.send(value));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_stop_ends_a_sleep() {
        let began = Instant::now();
        sleep_until(began + Duration::from_secs(60), &AtomicBool::new(true));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
