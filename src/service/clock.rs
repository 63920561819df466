// SPDX-License-Identifier: GPL-3.0-or-later
//! The time of day, and times in milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Unix milliseconds.
pub(crate) fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Unix seconds.
pub(crate) fn now_s() -> i64 {
    i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX)
}

/// Whole milliseconds of a time.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Unix milliseconds in the time zone of this host.
pub(crate) fn zoned(now_ms: u64) -> Zoned {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or_default().to_zoned(TimeZone::system())
}
