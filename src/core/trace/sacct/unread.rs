// SPDX-License-Identifier: GPL-3.0-or-later
//! Line ends that are part of a text: a job name or command line of several lines.

use super::header::Header;
use super::row::Entry;

/// Lines that one job has at most.
const LINES_MAX: usize = 1000;
/// Times that a job is tried to be read at most.
const TRIES_MAX: usize = 16;

/// A line that cannot be read by itself, with the lines that may belong to it.
pub(super) struct Unread {
    /// Number of each line that cannot be read, and why.
    pub(super) bad: Vec<(u64, String)>,
    text: String,
    separators: usize,
    lines: usize,
    tries: usize,
}

impl Unread {
    pub(super) fn new(header: &Header, line: u64, text: &str, what: String) -> Self {
        let separators = text.matches(&header.separator).count();
        Self { bad: vec![(line, what)], text: text.to_owned(), separators, lines: 1, tries: 0 }
    }

    /// Adds a line that is blank or cannot be read by itself either; returns the entry if the line
    /// completes it.
    pub(super) fn add(
        &mut self,
        header: &Header,
        line: u64,
        text: &str,
        what: Option<String>,
    ) -> Option<Entry> {
        self.bad.extend(what.map(|what| (line, what)));
        self.text.push('\n');
        self.text.push_str(text);
        self.lines += 1;
        self.separators += text.matches(&header.separator).count();
        if self.separators + 1 < header.columns.len() {
            return None;
        }
        self.tries += 1;
        header.entry(&self.text).ok().flatten()
    }

    /// Whether the row can begin a text of several lines: none of its lines has a separator.
    pub(super) fn is_text(&self) -> bool {
        self.separators == 0
    }

    /// Whether further lines could complete the row.
    pub(super) fn is_open(&self) -> bool {
        self.lines < LINES_MAX && self.tries < TRIES_MAX
    }
}
