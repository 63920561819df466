// SPDX-License-Identifier: GPL-3.0-or-later
//! Recurring times, as systemd's `OnCalendar` writes them.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Weekday};

/// Days to search backwards for a time: 29 February recurs within 8 years.
const DAYS_BACK: u32 = 8 * 366;
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Numbers in ranges, both ends included.
type Numbers = Vec<(i16, i16)>;

/// `[WEEKDAYS] [YEAR-MONTH-DAY | MONTH-DAY] HOUR:MINUTE`, each part of a date or time `*`, a
/// number, or several such as `1..5,9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    weekdays: Numbers,
    year: Numbers,
    month: Numbers,
    day: Numbers,
    hour: Numbers,
    minute: Numbers,
}

fn has(numbers: &Numbers, number: i16) -> bool {
    numbers.iter().any(|(from, to)| (*from..=*to).contains(&number))
}

/// Parses numbers between bounds: `*`, or some with commas, ranges with two dots.
fn numbers(text: &str, (least, most): (i16, i16)) -> Option<Numbers> {
    if text == "*" {
        return Some(vec![(least, most)]);
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: i16 = text.parse().ok().filter(|_| digits)?;
        (least..=most).contains(&number).then_some(number)
    };
    ranges(text, number)
}

fn ranges(text: &str, one: impl Fn(&str) -> Option<i16>) -> Option<Numbers> {
    let range = |text: &str| {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (from, to) = (one(from)?, one(to)?);
        (from <= to).then_some((from, to))
    };
    text.split(',').map(range).collect()
}

fn weekdays(text: &str) -> Option<Numbers> {
    let one = |text: &str| {
        let text = text.to_ascii_lowercase();
        let known = WEEKDAYS.iter().position(|day| {
            text == *day || (text.starts_with(day) && text.ends_with("day") && text.len() < 10)
        });
        i16::try_from(known?).ok()
    };
    ranges(text, one)
}

impl Calendar {
    /// Reads an expression.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        Self::read(text).ok_or(
            "expected a time such as 08:00, Mon..Fri 08:00, *-*-01 06:30 or 2026-12-24 18:00",
        )
    }

    fn read(text: &str) -> Option<Self> {
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (hour, minute) = words.pop()?.split_once(':')?;
        let mut calendar = Self {
            weekdays: vec![(0, 6)],
            year: numbers("*", (1970, 2199))?,
            month: numbers("*", (1, 12))?,
            day: numbers("*", (1, 31))?,
            hour: numbers(hour, (0, 23))?,
            minute: numbers(minute, (0, 59))?,
        };
        if words.last().is_some_and(|word| word.contains('-')) {
            let date: Vec<&str> = words.pop()?.split('-').collect();
            let (year, month, day) = match date[..] {
                [year, month, day] => (year, month, day),
                [month, day] => ("*", month, day),
                _ => return None,
            };
            calendar.year = numbers(year, (1970, 2199))?;
            calendar.month = numbers(month, (1, 12))?;
            calendar.day = numbers(day, (1, 31))?;
        }
        match words[..] {
            [] => {}
            [days] => calendar.weekdays = weekdays(days)?,
            _ => return None,
        }
        Some(calendar)
    }

    fn has_day(&self, date: Date) -> bool {
        let weekday = i16::from(date.weekday().since(Weekday::Monday));
        has(&self.weekdays, weekday)
            && has(&self.year, date.year())
            && has(&self.month, date.month().into())
            && has(&self.day, date.day().into())
    }

    /// Returns the latest past time; the present minute counts.
    #[must_use]
    pub fn last(&self, now: DateTime) -> Option<DateTime> {
        let mut date = now.date();
        let mut until = i16::from(now.hour()) * 60 + i16::from(now.minute());
        for _ in 0..DAYS_BACK {
            if self.has_day(date) {
                let comes =
                    |minute: &i16| has(&self.hour, minute / 60) && has(&self.minute, minute % 60);
                if let Some(minute) = (0..=until).rev().find(comes) {
                    return date
                        .to_datetime(jiff::civil::Time::midnight())
                        .checked_add(minute.minutes())
                        .ok();
                }
            }
            date = date.yesterday().ok()?;
            until = 24 * 60 - 1;
        }
        None
    }
}

/// Returns whether a registration with these times runs now: it started after it last stopped.
/// Without a start it always runs.
#[must_use]
pub fn runs(start: Option<&Calendar>, stop: Option<&Calendar>, now: DateTime) -> bool {
    let Some(start) = start else { return true };
    let stopped = stop.and_then(|stop| stop.last(now));
    start.last(now).is_some_and(|started| stopped.is_none_or(|stopped| started > stopped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_time_that_has_come() {
        // 2026-11-25 is a Wednesday.
        for (calendar, now, last) in [
            ("08:00", "2026-11-25T08:00", Some("2026-11-25T08:00")),
            ("08:00", "2026-11-25T07:59", Some("2026-11-24T08:00")),
            ("Mon..Fri 08:00", "2026-11-23T07:00", Some("2026-11-20T08:00")),
            ("sat,Sunday 10:30", "2026-11-25T12:00", Some("2026-11-22T10:30")),
            ("*-*-01 06:30", "2026-11-25T12:00", Some("2026-11-01T06:30")),
            ("12-24 18:00", "2026-11-25T12:00", Some("2025-12-24T18:00")),
            ("2026-12-24 18:00", "2026-11-25T12:00", None),
            ("2024-02-29 *:15", "2026-11-25T12:00", Some("2024-02-29T23:15")),
            ("*:0,30", "2026-11-25T12:29:59", Some("2026-11-25T12:00")),
            ("Mon 9..17:00", "2026-11-25T12:00", Some("2026-11-23T17:00")),
        ] {
            let found = Calendar::parse(calendar).unwrap().last(at(now));
            assert_eq!(found, last.map(at), "{calendar} at {now}");
        }
    }

    #[test]
    fn windows() {
        let runs_at = |start: &str, stop: &str, now: &str| {
            let (start, stop) = (Calendar::parse(start).unwrap(), Calendar::parse(stop).unwrap());
            runs(Some(&start), Some(&stop), at(now))
        };
        for (start, stop, now, expected) in [
            ("Mon..Fri 08:00", "Mon..Fri 18:00", "2026-11-25T08:00", true),
            ("Mon..Fri 08:00", "Mon..Fri 18:00", "2026-11-25T17:59", true),
            ("Mon..Fri 08:00", "Mon..Fri 18:00", "2026-11-25T18:00", false),
            ("Mon..Fri 08:00", "Mon..Fri 18:00", "2026-11-22T12:00", false),
            ("22:00", "06:00", "2026-11-25T03:00", true),
            ("22:00", "06:00", "2026-11-25T12:00", false),
            ("Fri 18:00", "Mon 06:00", "2026-11-22T12:00", true),
            ("2026-11-24 12:00", "2026-11-26 12:00", "2026-11-25T00:00", true),
            ("2026-11-24 12:00", "2026-11-26 12:00", "2026-11-26T12:00", false),
            ("08:00", "08:00", "2026-11-26T12:00", false),
        ] {
            assert_eq!(runs_at(start, stop, now), expected, "{start} to {stop} at {now}");
        }
        let start = Calendar::parse("2026-12-01 00:00").unwrap();
        assert!(!runs(Some(&start), None, at("2026-11-25T00:00")));
        assert!(runs(Some(&start), None, at("2027-01-25T00:00")));
        assert!(runs(None, None, at("2026-11-25T00:00")));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "8",
            "08:60",
            "24:00",
            "Foo 08:00",
            "Fri..Mon 08:00",
            "13-01 08:00",
            "08:00 Mon",
            "Mon Tue 08:00",
            "1-2-3-4 08:00",
            "*-*-* -1:00",
            "08:+1",
            "08:00:00",
            "Monxday 08:00x",
        ] {
            let error = Calendar::parse(text).unwrap_err();
            assert!(error.starts_with("expected a time such as 08:00"), "{text}: {error}");
        }
    }
}
