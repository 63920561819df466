// SPDX-License-Identifier: GPL-3.0-or-later
//! The link's clock: the system's, or virtual in the campaign's thread.

use std::time::{Duration, Instant, SystemTime};

/// The time now.
pub(super) fn now() -> Instant {
    #[cfg(test)]
    if let Some((instant, _)) = test::VIRTUAL.get() {
        return instant;
    }
    Instant::now()
}

/// Time that has passed since `then`.
pub(super) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// Unix seconds now.
pub(super) fn unix_s() -> u64 {
    #[cfg(test)]
    if let Some((_, unix_s)) = test::VIRTUAL.get() {
        return unix_s;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
pub(super) mod test {
    use std::cell::Cell;
    use std::time::Instant;

    thread_local! {
        pub(super) static VIRTUAL: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
    }

    /// Sets the time of the calling thread, which stands still until it is set again.
    pub(in crate::link) fn set(instant: Instant, unix_s: u64) {
        VIRTUAL.set(Some((instant, unix_s)));
    }
}
