// SPDX-License-Identifier: GPL-3.0-or-later
//! Numbers, durations and times as text.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use phalanx_core::number::{as_f64, nearest_u64};
use phalanx_planner::bag::WattsFrom;

/// Formats a resource amount: whole numbers without decimals, others with two.
pub fn amount(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Formats a number of things: `1 job`, `2 jobs`.
pub fn many(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Formats `part` of `whole` in percent; a dash where `whole` is 0.
pub fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}", part / whole * 100.0) } else { "-".to_owned() }
}

/// Formats a count in percent of another.
pub fn share(part: u64, whole: u64) -> String {
    percent(as_f64(part), as_f64(whole))
}

/// Formats a weight, dispersion, score or fraction.
pub fn fraction(value: f64) -> String {
    format!("{value:.4}")
}

pub fn fraction_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), fraction)
}

/// Formats nanoseconds as microseconds with at most three significant decimals.
pub fn micros(ns: u64) -> String {
    let us = as_f64(ns) / 1000.0;
    if us >= 100.0 {
        format!("{us:.0}")
    } else if us >= 10.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.2}")
    }
}

/// Formats seconds as `3d 04:05:06`, or `04:05:06` below a day.
pub fn seconds(total: u64) -> String {
    let (days, rest) = (total / 86_400, total % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

/// Formats seconds with their fraction, in about three significant places.
pub fn seconds_fine(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Formats milliseconds as `250 ms`, `1.5 s`, or a clock from a minute on.
pub fn millis(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        _ => seconds(ms / 1000),
    }
}

/// Formats unix milliseconds as local time in Slurm's form.
pub fn time(ms: u64) -> String {
    time_in(ms, &TimeZone::system(), "%Y-%m-%dT%H:%M:%S")
}

/// Formats a forecast of a start, in unix milliseconds: how soon within a day, or to the minute.
pub fn start(at_ms: [u64; 2]) -> String {
    start_from(nearest_u64(Timestamp::now().as_millisecond()), at_ms)
}

fn start_from(now_ms: u64, [middle, end]: [u64; 2]) -> String {
    let minute = |ms| time_in(ms, &TimeZone::system(), "%Y-%m-%dT%H:%M");
    let middle = match (middle.saturating_sub(now_ms) + 30_000) / 60_000 {
        0 => "now".to_owned(),
        minutes @ 1..120 => format!("in {minutes} min"),
        minutes @ 120..1440 => format!("in {} h", (minutes + 30) / 60),
        _ => minute(middle),
    };
    format!("{middle}, nine in ten by {}", minute(end))
}

fn time_in(ms: u64, zone: &TimeZone, format: &str) -> String {
    i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).map_or_else(
        || format!("{ms} ms"),
        |time| time.to_zoned(zone.clone()).strftime(format).to_string(),
    )
}

/// Names the source of a power figure.
pub fn watts_from(from: WattsFrom) -> &'static str {
    match from {
        WattsFrom::Accounting => "accounting",
        WattsFrom::Slurm => "slurm",
        WattsFrom::Metric => "metric",
        WattsFrom::Configuration => "configuration",
        WattsFrom::OtherClasses => "other classes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(amount(512.0), "512");
        assert_eq!(amount(0.125), "0.12");
        assert_eq!(share(1, 3), "33.3");
        assert_eq!(share(0, 0), "-");
        assert_eq!(percent(3.0, 4.0), "75.0");
        assert_eq!(fraction_or_dash(Some(0.5)), "0.5000");
        assert_eq!(fraction_or_dash(None), "-");
        assert_eq!(micros(999), "1.00");
        assert_eq!(micros(12_345), "12.3");
        assert_eq!(micros(75_000_000), "75000");
    }

    #[test]
    fn durations_and_times() {
        assert_eq!(seconds(59), "00:00:59");
        assert_eq!(seconds(2 * 86_400 + 3 * 3600 + 4 * 60 + 5), "2d 03:04:05");
        assert_eq!(millis(999), "999 ms");
        assert_eq!(millis(1550), "1.5 s");
        assert_eq!(millis(61_000), "00:01:01");
        for (ahead_s, soon) in [(0, "now"), (29, "now"), (90, "in 2 min"), (9_000, "in 3 h")] {
            let said = start_from(60_000, [60_000 + ahead_s * 1000, 0]);
            assert!(said.starts_with(&format!("{soon}, nine in ten by ")), "{said}");
        }
        assert!(start_from(60_000, [0, 0]).starts_with("now,"));
        assert!(start_from(0, [86_400_000, 0]).starts_with(&time(86_400_000)[..16]));
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let form = "%Y-%m-%dT%H:%M:%S";
        assert_eq!(time_in(1_795_262_400_000, &zone, form), "2026-11-21T13:00:00");
        assert_eq!(time_in(u64::MAX, &zone, form), "18446744073709551615 ms");
    }
}
