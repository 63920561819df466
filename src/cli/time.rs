// SPDX-License-Identifier: GPL-3.0-or-later
//! Durations and times as users type them.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

use crate::exit::Failure;

/// Parses a duration such as `500ms`, `90min`, `24h` or `7d`; a day has 24 hours.
pub fn duration(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Unix milliseconds of the `--since` of a command: a time, or a duration before the present.
pub fn since_ms(text: &str) -> Result<i64, Failure> {
    before(text, Timestamp::now(), &TimeZone::system()).ok_or_else(|| {
        Failure::usage(format!(
            "--since: expected a duration (90min, 24h, 7d) or a time \
             (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z), got {text:?}"
        ))
    })
}

fn before(text: &str, now: Timestamp, zone: &TimeZone) -> Option<i64> {
    let time = if let Ok(time) = text.parse::<Timestamp>() {
        time
    } else if let Ok(time) = text.parse::<DateTime>() {
        zone.to_timestamp(time).ok()?
    } else {
        now.checked_sub(duration(text)?).ok()?
    };
    Some(time.as_millisecond().max(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let at = |text: &str| {
            let ms = before(text, now, &zone).unwrap();
            Timestamp::from_millisecond(ms).unwrap().to_string()
        };
        assert_eq!(at("90min"), "2026-11-21T10:30:00Z");
        assert_eq!(at("24h"), "2026-11-20T12:00:00Z");
        assert_eq!(at("7d"), "2026-11-14T12:00:00Z");
        assert_eq!(at("1w 2h"), "2026-11-14T10:00:00Z");
        assert_eq!(at("2026-11-20"), "2026-11-19T23:00:00Z");
        assert_eq!(at("2026-11-20T08:00"), "2026-11-20T07:00:00Z");
        assert_eq!(at("2026-11-20T08:00:00Z"), "2026-11-20T08:00:00Z");
        assert_eq!(at("1900-01-01"), "1970-01-01T00:00:00Z");
        for bad in ["", "yesterday", "24", "-1h", "1y", "2026-13-01"] {
            assert_eq!(before(bad, now, &zone), None, "{bad}");
        }
    }
}
