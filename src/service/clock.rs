// SPDX-License-Identifier: GPL-3.0-or-later
//! The time of day in the time zone of this host.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Converts unix milliseconds to the time zone of this host.
pub(crate) fn zoned(now_ms: u64) -> Zoned {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or_default().to_zoned(TimeZone::system())
}

/// Returns the hour of the day, 0 to 23.
pub(crate) fn hour(time: &Zoned) -> usize {
    usize::try_from(time.hour()).unwrap_or(0)
}
