// SPDX-License-Identifier: GPL-3.0-or-later
//! Reader of `sacct --parsable2` (and `--parsable`): a header line that names the columns, in any
//! order and number, then one line for each job or step.
//!
//! Needed are `JobID` (or `JobIDRaw`), `State`, and two of `Start`, `End` and `Elapsed` (or
//! `ElapsedRaw`); other columns are used where they are there. Fields are separated by whatever
//! stands after the first column's name, one character or several; separators and line ends inside
//! texts (job name, comment, command line, columns that are not known) are recognised by whether
//! the other fields can then be read. A line that cannot be read is reported with line and field;
//! reading goes on behind it.

mod column;
mod fields;
mod header;
mod row;
mod separators;
#[cfg(test)]
mod tests;
mod unread;

use std::io::BufRead;

use jiff::tz::TimeZone;

pub use fields::{count, duration};
pub use header::Header;
pub use row::{Entry, Row, Step};
use unread::Unread;

use super::{Lines, TraceError};

/// Reads a whole text: jobs go to `job` with their line, lines that cannot be read to `bad`.
/// Returns the number of step rows, of which only the energy is used.
///
/// # Errors
/// Fails when there is no header, or the input breaks.
pub fn read<R: BufRead>(
    reader: R,
    zone: &TimeZone,
    job: impl FnMut(u64, Row),
    bad: impl FnMut(u64, String),
) -> Result<u64, TraceError> {
    let mut lines = Lines::new(reader);
    let mut header = None;
    let mut entries = Entries { job, bad, latest: None, unread: None, steps: 0 };
    let broke = loop {
        let (number, line) = match lines.next_line() {
            Ok(Some(next)) => next,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let Some(header) = &header else {
            if !line.trim().is_empty() {
                let parsed = Header::parse(&line, zone.clone());
                header = Some(parsed.map_err(|what| TraceError::line(number, what))?);
            }
            continue;
        };
        entries.take_line(header, number, &line);
    };
    let steps = entries.end();
    if let Some(error) = broke {
        return Err(error);
    }
    if header.is_none() {
        return Err(TraceError::Empty("the text is empty: expected output of sacct".to_owned()));
    }
    Ok(steps)
}

/// The entries of a text, and the lines that are not entries yet.
struct Entries<J, B> {
    job: J,
    bad: B,
    /// The latest job row, which rows of its steps follow.
    latest: Option<(u64, Row)>,
    unread: Option<Unread>,
    steps: u64,
}

impl<J: FnMut(u64, Row), B: FnMut(u64, String)> Entries<J, B> {
    fn take_line(&mut self, header: &Header, number: u64, line: &str) {
        let entry = match (header.entry(line), self.unread.take()) {
            (Ok(entry), None) => entry,
            (Err(_), None) if self.latest.is_some() && header.goes_on(line) => None,
            (Err(what), None) => {
                self.unread = Some(Unread::new(header, number, line, what));
                None
            }
            // A line that can be read by itself belongs to no other.
            (Ok(Some(entry)), Some(open)) => {
                if !(header.is_free(0) && open.is_text()) {
                    self.report(open);
                }
                Some(entry)
            }
            (read, Some(mut open)) => {
                let entry = open.add(header, number, line, read.err());
                match open.is_open() {
                    _ if entry.is_some() => {}
                    true => self.unread = Some(open),
                    false => self.report(open),
                }
                entry
            }
        };
        match entry {
            Some(Entry::Job(row)) => {
                if let Some((line, whole)) = self.latest.replace((number, *row)) {
                    (self.job)(line, whole);
                }
            }
            Some(Entry::Step(step)) => {
                self.steps += 1;
                if let Some((_, row)) = &mut self.latest {
                    row.add(&step);
                }
            }
            None => {}
        }
    }

    fn report(&mut self, unread: Unread) {
        unread.bad.into_iter().for_each(|(line, what)| (self.bad)(line, what));
    }

    /// Hands out the entries that are left; returns the number of step rows.
    fn end(mut self) -> u64 {
        if let Some(unread) = self.unread.take() {
            self.report(unread);
        }
        if let Some((line, whole)) = self.latest {
            (self.job)(line, whole);
        }
        self.steps
    }
}
