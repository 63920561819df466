// SPDX-License-Identifier: GPL-3.0-or-later
//! The time of day in the time zone of this host, and whether somebody set it.

use std::time::Instant;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use phalanx_core::number::nearest_i64;
use phalanx_ffi::clock::millis;

/// Difference of the two clocks up to which none counts as set, milliseconds: a busy machine may
/// let time pass between the readings of both.
const JUMP_MS: u64 = 3000;

/// The wall clock and the monotonic clock at the last look.
#[derive(Debug, Default)]
pub(crate) struct WallClock(Option<(u64, Instant)>);

impl WallClock {
    /// Whether the wall clock was set since the last look.
    pub(crate) fn was_set(&mut self, now_ms: u64, now: Instant) -> bool {
        let last = self.0.replace((now_ms, now));
        let expected = last.map(|(ms, at)| ms + millis(now.saturating_duration_since(at)));
        expected.is_some_and(|expected| now_ms.abs_diff(expected) > JUMP_MS)
    }
}

/// Converts unix milliseconds to the time zone of this host.
pub(crate) fn zoned(now_ms: u64) -> Zoned {
    let ms = nearest_i64(now_ms);
    Timestamp::from_millisecond(ms).unwrap_or_default().to_zoned(TimeZone::system())
}

/// Returns the hour of the day, 0 to 23.
pub(crate) fn hour(time: &Zoned) -> usize {
    usize::try_from(time.hour()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_clock_that_was_set_is_seen_once() {
        let start = Instant::now();
        let mut clock = WallClock::default();
        let mut look =
            |wall_s: u64, s| clock.was_set(wall_s * 1000, start + Duration::from_secs(s));
        assert!(!look(7200, 0) && !look(7201, 1) && !look(7203, 2) && !look(7203, 3));
        assert!(look(10_804, 4) && !look(10_805, 5), "an hour ahead");
        assert!(look(7206, 6) && !look(7207, 7), "back");
        assert!(look(7208, 17), "by less than has passed");
    }
}
