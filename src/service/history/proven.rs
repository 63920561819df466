// SPDX-License-Identifier: GPL-3.0-or-later
//! The time by which old records are deleted: that of the system's clock, as far as it is proven.
//!
//! A clock that jumps a year ahead, at start (a dead battery) or later, would make everything
//! that was learned too old. So a jump of more than a day counts only after the clock has kept
//! that time for a day; until then time goes on from where it was, at first from the newest
//! record.

const DAY_MS: u64 = 86_400_000;

/// A clock that follows the system's clock without its jumps ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProvenClock {
    /// Time that counts as proven, as of `at_ms` of the monotonic clock, in unix milliseconds.
    wall_ms: u64,
    at_ms: u64,
    /// Both clocks at the moment since which the system's clock is ahead.
    ahead: Option<(u64, u64)>,
}

impl ProvenClock {
    /// Makes a clock; `newest_ms` is the time of the newest record, if there is any.
    pub(super) fn new(newest_ms: Option<u64>, wall_ms: u64, monotonic_ms: u64) -> Self {
        let wall_ms = newest_ms.map_or(wall_ms, |newest| newest.min(wall_ms));
        Self { wall_ms, at_ms: monotonic_ms, ahead: None }
    }

    /// Returns the proven time, given the readings of the two clocks.
    pub(super) fn now(&mut self, wall_ms: u64, monotonic_ms: u64) -> u64 {
        let expected = self.wall_ms + monotonic_ms.saturating_sub(self.at_ms);
        if wall_ms <= expected + DAY_MS {
            self.ahead = None;
            if wall_ms + DAY_MS >= expected {
                (self.wall_ms, self.at_ms) = (wall_ms, monotonic_ms);
            }
            // Far behind: less is deleted, and what was known of the time stays.
            return wall_ms.min(expected + DAY_MS);
        }
        let (wall_then, then) = *self.ahead.get_or_insert((wall_ms, monotonic_ms));
        let passed = monotonic_ms.saturating_sub(then);
        if wall_ms.abs_diff(wall_then + passed) > DAY_MS {
            // Another jump.
            self.ahead = Some((wall_ms, monotonic_ms));
        } else if passed >= DAY_MS {
            (self.wall_ms, self.at_ms, self.ahead) = (wall_ms, monotonic_ms, None);
            return wall_ms;
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 20_000 * DAY_MS;
    const HOUR_MS: u64 = DAY_MS / 24;

    #[test]
    fn a_jump_ahead_counts_after_a_day() {
        let mut clock = ProvenClock::new(Some(NOW - HOUR_MS), NOW, 0);
        assert_eq!(clock.now(NOW, 0), NOW);
        assert_eq!(clock.now(NOW + HOUR_MS, HOUR_MS), NOW + HOUR_MS);
        // 400 days ahead for five seconds.
        let ahead = NOW + 400 * DAY_MS;
        for second in 0..5 {
            let at = HOUR_MS + second * 1000;
            assert_eq!(clock.now(ahead + at, at), NOW + at);
        }
        assert_eq!(clock.now(NOW + 2 * HOUR_MS, 2 * HOUR_MS), NOW + 2 * HOUR_MS);
        // Ahead, and it stays so.
        assert_eq!(clock.now(ahead, 3 * HOUR_MS), NOW + 3 * HOUR_MS);
        assert_eq!(clock.now(ahead + 23 * HOUR_MS, 26 * HOUR_MS), NOW + 26 * HOUR_MS);
        assert_eq!(clock.now(ahead + 24 * HOUR_MS, 27 * HOUR_MS), ahead + 24 * HOUR_MS);
        assert_eq!(clock.now(ahead + 25 * HOUR_MS, 28 * HOUR_MS), ahead + 25 * HOUR_MS);
    }

    #[test]
    fn at_start_the_newest_record_says_the_time() {
        let mut clock = ProvenClock::new(Some(NOW), NOW + 30 * DAY_MS, 7);
        assert_eq!(clock.now(NOW + 30 * DAY_MS, 7), NOW);
        assert_eq!(clock.now(NOW + 31 * DAY_MS, DAY_MS + 7), NOW + 31 * DAY_MS);
        let mut empty = ProvenClock::new(None, NOW, 0);
        assert_eq!(empty.now(NOW + HOUR_MS, HOUR_MS), NOW + HOUR_MS);
    }

    #[test]
    fn a_jump_back_deletes_less() {
        let mut clock = ProvenClock::new(None, NOW, 0);
        assert_eq!(clock.now(NOW - 50 * DAY_MS, 0), NOW - 50 * DAY_MS);
        assert_eq!(clock.now(NOW + HOUR_MS, HOUR_MS), NOW + HOUR_MS);
    }
}
