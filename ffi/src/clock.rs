// SPDX-License-Identifier: GPL-3.0-or-later
//! The time of day, and times in milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns unix milliseconds.
pub fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns unix seconds.
pub fn now_s() -> i64 {
    (now_ms() / 1000).cast_signed()
}

/// Returns the whole milliseconds of a time.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
