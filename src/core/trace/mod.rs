// SPDX-License-Identifier: GPL-3.0-or-later
//! Readers of workload traces and of node specifications.
//!
//! Each reader takes a [`BufRead`](std::io::BufRead), holds one line at a time
//! and names line and field of what it cannot read. Nothing here opens files.

pub mod sacct;
pub mod spec;
pub mod swf;

use std::collections::BTreeMap;
use std::io::BufRead;

use crate::limits::TRACE_LINE_BYTES_MAX;

/// An error in a trace, with the place of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// Field and what was expected.
        what: String,
    },
    /// The input ended, broke or is too large.
    #[error("after line {line}: {what}")]
    Input {
        /// Last line read whole.
        line: u64,
        /// The system's or decompressor's message.
        what: String,
    },
    /// The input has nothing to work on.
    #[error("{0}")]
    Empty(String),
}

impl TraceError {
    /// A line that cannot be read.
    pub fn line(line: u64, what: impl Into<String>) -> Self {
        Self::Line { line, what: what.into() }
    }
}

/// Jobs that are left out, by reason: how many, and the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<&'static str, (u64, String)>);

impl Reasons {
    /// Adds a job.
    pub fn add(&mut self, why: &'static str, job: &str) {
        self.0.entry(why).or_insert_with(|| (0, job.to_owned())).0 += 1;
    }

    /// Number of jobs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|(jobs, _)| jobs).sum()
    }

    /// Reason, number of jobs with it and the first of them, most jobs first.
    #[must_use]
    pub fn by_count(&self) -> Vec<(&'static str, u64, String)> {
        let each = self.0.iter().map(|(why, (jobs, first))| (*why, *jobs, first.clone()));
        let mut all: Vec<_> = each.collect();
        all.sort_by_key(|(_, jobs, _)| std::cmp::Reverse(*jobs));
        all
    }
}

/// Lines of a text that cannot be read: how many, and the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of lines.
    pub lines: u64,
    first: Option<(u64, String)>,
}

impl LeftOut {
    /// Adds a line.
    pub fn add(&mut self, line: u64, what: String) {
        self.lines += 1;
        if self.first.as_ref().is_none_or(|(first, _)| line < *first) {
            self.first = Some((line, what));
        }
    }

    /// Returns the sentence for people; `None` where every line was read.
    pub fn sentence(&self) -> Option<String> {
        let (line, what) = self.first.as_ref()?;
        Some(match self.lines {
            1 => format!("line {line} cannot be read and is left out: {what}"),
            lines => {
                format!("{lines} lines cannot be read and are left out, as line {line}: {what}")
            }
        })
    }

    /// Returns the error of a text without a single good line: the first line that cannot be read,
    /// else `what`.
    pub fn nothing_but(self, what: &str) -> TraceError {
        self.first.map_or_else(
            || TraceError::Empty(what.to_owned()),
            |(line, what)| TraceError::Line { line, what },
        )
    }
}

/// The mark that some programs put before the first line of a text.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Lines of a reader with their numbers; a line is at most
/// [`TRACE_LINE_BYTES_MAX`] bytes and valid UTF-8 (other bytes are replaced). A byte order mark
/// before the first one is left out.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines of `reader`, from 1.
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line without its end, with its number; `None` at the end.
    ///
    /// # Errors
    /// Fails when the input breaks or the line is too long.
    pub fn next_line(&mut self) -> Result<Option<(u64, std::borrow::Cow<'_, str>)>, TraceError> {
        self.buffer.clear();
        let mut limited = std::io::Read::take(&mut self.reader, TRACE_LINE_BYTES_MAX);
        let read = limited
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| TraceError::Input { line: self.number, what: error.to_string() })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if read as u64 == TRACE_LINE_BYTES_MAX {
            let what = format!("longer than {TRACE_LINE_BYTES_MAX} bytes");
            return Err(TraceError::line(self.number, what));
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        let mark = self.number == 1 && self.buffer.starts_with(BYTE_ORDER_MARK);
        let text = self.buffer.get(if mark { BYTE_ORDER_MARK.len() } else { 0 }..);
        Ok(Some((self.number, String::from_utf8_lossy(text.unwrap_or_default()))))
    }
}

/// The part of `text` that fits an error line.
pub fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if text.chars().count() > SHOWN {
        shown.push('…');
    }
    shown
}
