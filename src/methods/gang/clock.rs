// SPDX-License-Identifier: GPL-3.0-or-later
//! The deadline of one part of the search, as shares of its own time.

use super::problem::Remaining;

/// Servers, reworks or steps between two readings of the clock: all are short, so that no search
/// ends late and none spends its time on reading.
pub const READ_EVERY: usize = 16;

/// A span of the caller's time, from the clock's creation to an end.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    remaining: Remaining<'a>,
    /// Seconds left at the span's begin and at its end; `None` without a deadline.
    span: Option<(f64, f64)>,
}

impl std::fmt::Debug for Clock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("span", &self.span).finish_non_exhaustive()
    }
}

impl<'a> Clock<'a> {
    /// Starts a clock with all time that is left.
    pub fn new(remaining: Remaining<'a>) -> Self {
        Self { remaining, span: remaining().map(|left| (left.as_secs_f64(), 0.0)) }
    }

    /// Returns a clock that begins now and ends when a share of the span is over.
    pub fn until(&self, share: f64) -> Self {
        let end = self.span.map(|(begin, end)| begin + (end - begin) * share);
        self.starting_now(end)
    }

    /// Returns a clock that begins now and lasts for a share of the span, at most until its end.
    pub fn for_share(&self, share: f64) -> Self {
        let end = self.span.map(|(begin, end)| (self.left() - (begin - end) * share).max(end));
        self.starting_now(end)
    }

    fn starting_now(&self, end: Option<f64>) -> Self {
        let left = self.left();
        Self { span: end.map(|end| (left, end.min(left))), ..*self }
    }

    fn left(&self) -> f64 {
        (self.remaining)().map_or(0.0, |left| left.as_secs_f64())
    }

    /// Share of the span that is over, in [0, 1]; none without a deadline.
    pub fn used(&self) -> Option<f64> {
        let (begin, end) = self.span?;
        let length = begin - end;
        Some(if length > 0.0 { ((begin - self.left()) / length).clamp(0.0, 1.0) } else { 1.0 })
    }

    /// Length of the span; none without a deadline.
    pub fn seconds(&self) -> Option<f64> {
        self.span.map(|(begin, end)| begin - end)
    }

    /// Whether there is a deadline.
    pub fn is_limited(&self) -> bool {
        self.span.is_some()
    }

    /// Whether a share of the span is over; never without a deadline.
    pub fn past(&self, share: f64) -> bool {
        self.used().is_some_and(|used| used >= share.min(1.0))
    }

    /// Whether the span is over.
    pub fn expired(&self) -> bool {
        self.past(1.0)
    }
}
