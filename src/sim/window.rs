// SPDX-License-Identifier: GPL-3.0-or-later
//! The period that a text or a recording covers, and the part of a job that lies in it.
//!
//! `sacct -S A -E B` lists what overlaps the time from A to B: jobs that began long before, and
//! jobs that still run. Shares of time are of this period alone, in which all that held nodes is
//! known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

/// Number of mean times between two submissions. A time at the end as long as this without one is
/// not covered: a text of last month that was made today has the ends of this month, and none of
/// the jobs that came in it.
const TAIL: i64 = 20;

/// A period, Unix seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// First second of the period.
    pub begin_s: i64,
    /// First second behind the period.
    pub end_s: i64,
}

/// When a job was submitted, started and ended, Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Submission of the job, or the time from which it could start.
    pub submit_s: i64,
    /// Start.
    pub start_s: i64,
    /// End of the job; `None` if it still ran when the text was made.
    pub end_s: Option<i64>,
    /// Time limit, seconds.
    pub limit_s: u64,
}

/// The part of a job that lies in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    /// Whether the job began before the period, so that it holds its nodes at the beginning.
    pub began_before: bool,
    /// Whether the job still ran at the end of the period, so that its runtime is unknown.
    pub goes_on: bool,
    /// Submission; the beginning of the period for a job that began before.
    pub submit_s: i64,
    /// Seconds that the job runs in the period, and behind it if its end is known; at least 1.
    pub run_s: u64,
    /// Time limit that is left, seconds; at least `run_s`.
    pub limit_s: u64,
}

impl Window {
    /// The part of a job in the period; `None` if it ended as the period began, or came later.
    pub fn inside(&self, span: &Span) -> Option<Inside> {
        let began_before = span.start_s < self.begin_s;
        let is_over = began_before && span.end_s.is_some_and(|end_s| end_s <= self.begin_s);
        if is_over || span.submit_s > self.end_s {
            return None;
        }
        let from_s = span.start_s.max(self.begin_s);
        let until_s = span.end_s.unwrap_or(self.end_s);
        let run_s = until_s.saturating_sub(from_s).max(1).unsigned_abs();
        let gone_s = from_s.saturating_sub(span.start_s).max(0).unsigned_abs();
        Some(Inside {
            began_before,
            goes_on: span.end_s.is_none(),
            submit_s: if began_before { self.begin_s } else { span.submit_s },
            run_s,
            limit_s: span.limit_s.saturating_sub(gone_s).max(run_s),
        })
    }

    /// The part of the time from `start_s` to `end_s` that lies in the period, seconds.
    pub fn overlap_s(&self, start_s: i64, end_s: i64) -> u64 {
        let (from_s, until_s) = (start_s.max(self.begin_s), end_s.min(self.end_s));
        until_s.saturating_sub(from_s).max(0).unsigned_abs()
    }
}

/// Fewest jobs that start after the earliest end of a window; a text of fewer is a list, whose
/// period begins with its first job.
const WINDOW_MIN: usize = 20;

/// Times in the rows of a text, from which its period follows.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    first_submit_s: Option<i64>,
    /// The latest starts; the earliest of them is on top.
    starts_s: BinaryHeap<Reverse<i64>>,
    last_submit_s: Option<i64>,
    jobs: i64,
    first_end_s: Option<i64>,
    last_end_s: Option<i64>,
}

fn earlier(a: Option<i64>, b_s: i64) -> Option<i64> {
    Some(a.map_or(b_s, |a_s| a_s.min(b_s)))
}

impl Seen {
    /// Adds a job that ended, whether the job ever ran or not.
    pub fn ended(&mut self, end_s: i64) {
        self.first_end_s = earlier(self.first_end_s, end_s);
        self.last_end_s = self.last_end_s.max(Some(end_s));
    }

    /// Adds a job that could start from a time on, whether it did or not.
    pub fn came(&mut self, from_s: i64) {
        self.last_submit_s = self.last_submit_s.max(Some(from_s));
        self.jobs += 1;
    }

    /// Adds a job that could start from one time on, and started at another.
    pub fn started(&mut self, from_s: i64, start_s: i64) {
        self.first_submit_s = earlier(self.first_submit_s, from_s.min(start_s));
        self.came(from_s.min(start_s));
        self.starts_s.push(Reverse(start_s));
        if self.starts_s.len() > WINDOW_MIN {
            self.starts_s.pop();
        }
    }

    /// Adds a job that had run until a time and still ran when the text was made.
    pub fn runs(&mut self, until_s: i64) {
        self.last_end_s = self.last_end_s.max(Some(until_s));
    }

    /// The period: nothing is listed that ended before it, so the earliest end is its beginning.
    /// It lasts as long as what still runs had run, else to the latest end; to the latest
    /// submission, where none comes for twenty times as long as it takes else. Few jobs are a list,
    /// from the first one's submission to the latest end.
    pub fn window(&self) -> Window {
        let earliest = self.starts_s.peek().filter(|_| self.starts_s.len() >= WINDOW_MIN);
        let is_window = |at_s: &i64| earliest.is_some_and(|Reverse(start_s)| start_s >= at_s);
        let cut_s = self.first_end_s.filter(is_window);
        let begin_s = cut_s.or(self.first_submit_s).unwrap_or(0);
        let end_s = self.last_end_s.unwrap_or(begin_s).max(begin_s.saturating_add(1));
        let gap_s = |last_s: i64| last_s.saturating_sub(begin_s) / self.jobs.max(1);
        let is_late = |last_s: &i64| {
            let tail_s = end_s.saturating_sub(*last_s);
            cut_s.is_some() && *last_s > begin_s && tail_s > gap_s(*last_s).saturating_mul(TAIL)
        };
        Window { begin_s, end_s: self.last_submit_s.filter(is_late).unwrap_or(end_s) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start_s: i64, end_s: Option<i64>) -> Span {
        Span { submit_s: start_s - 50, start_s, end_s, limit_s: 1000 }
    }

    #[test]
    fn a_period_that_ends_as_it_begins_holds_nothing() {
        let none = Window { begin_s: 100, end_s: 99 };
        for (start_s, end_s) in [(0, 200), (0, 100), (99, 101), (100, 100), (150, 160)] {
            assert_eq!(none.overlap_s(start_s, end_s), 0);
        }
        assert_eq!(Window { begin_s: 100, end_s: 110 }.overlap_s(105, 200), 5);
    }

    #[test]
    fn a_period_is_read_off_the_rows() {
        let seen = |rows: &[(i64, i64)], until_s: Option<i64>| {
            let mut seen = Seen::default();
            rows.iter().for_each(|(start_s, end_s)| {
                seen.started(start_s - 10, *start_s);
                seen.ended(*end_s);
            });
            until_s.into_iter().for_each(|at_s| seen.runs(at_s));
            let Window { begin_s, end_s } = seen.window();
            (begin_s, end_s)
        };
        let many = |last: (i64, i64)| -> Vec<(i64, i64)> {
            let short = (0..WINDOW_MIN).map(|_| (500, 600));
            short.chain([(-900, 100), last]).collect()
        };
        assert_eq!(seen(&many((950, 1000)), None), (100, 1000));
        assert_eq!(seen(&many((950, 1000)), Some(1040)), (100, 1040));
        // The ends of a month later are no part of the month.
        assert_eq!(seen(&many((1000, 9000)), None), (100, 990));
        // Few jobs are a list.
        assert_eq!(seen(&[(0, 100), (0, 60)], None), (-10, 100));
        assert_eq!(seen(&[(-900, 100), (1000, 9000)], None), (-910, 9000));
        assert_eq!(seen(&[], None), (0, 1));
    }

    #[test]
    fn a_job_counts_where_it_is_inside() {
        let window = Window { begin_s: 100, end_s: 500 };
        let of = |start_s, end_s| window.inside(&span(start_s, end_s));
        assert_eq!(of(0, Some(100)), None);
        let before = of(-200, Some(150)).unwrap();
        assert_eq!((before.began_before, before.submit_s), (true, 100));
        assert_eq!((before.run_s, before.limit_s), (50, 700));
        let open = of(300, None).unwrap();
        assert_eq!((open.began_before, open.goes_on), (false, true));
        assert_eq!((open.submit_s, open.run_s, open.limit_s), (250, 200, 1000));
        assert_eq!(of(-5000, None).unwrap().limit_s, 400, "beyond its limit");
        assert_eq!(window.overlap_s(0, 150), 50);
        assert_eq!(window.overlap_s(450, 900) + window.overlap_s(500, 900), 50);
    }
}
