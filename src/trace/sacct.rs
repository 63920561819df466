// SPDX-License-Identifier: GPL-3.0-or-later
//! Reader of `sacct --parsable2` (and `--parsable`): a header line that names the columns, in any
//! order and number, then one line for each job or step.
//!
//! Needed are `JobID` (or `JobIDRaw`), `State`, and two of `Start`, `End` and `Elapsed` (or
//! `ElapsedRaw`); other columns are used where they are there. Fields are separated by whatever
//! stands after the first column's name; a separator inside a free text (job name, comment,
//! command line) is told apart by whether the other fields can then be read. A line that cannot be read is an error that names line
//! and field; reading goes on behind it.

mod column;
mod fields;
mod row;
#[cfg(test)]
mod tests;

use std::io::BufRead;

use jiff::tz::TimeZone;

use column::{Column, FREE_TEXT};
use fields::Fields;
pub use fields::{count, duration};
pub use row::{Entry, Row, Step};

use super::{Lines, TraceError, shorten};

/// The columns of a text, and the time zone that its times are in.
#[derive(Debug, Clone)]
pub struct Header {
    text: String,
    columns: Vec<Option<Column>>,
    separator: char,
    zone: TimeZone,
}

impl Header {
    /// Reads the header line.
    ///
    /// # Errors
    /// What is missing of it.
    pub fn parse(line: &str, zone: TimeZone) -> Result<Header, String> {
        let line = line.trim_start_matches('\u{feff}').trim_end();
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%';
        let separator = line.chars().find(|&c| !name(c)).unwrap_or('|');
        let columns: Vec<Option<Column>> = line
            .split(separator)
            .map(|field| Column::of(field.split('%').next().unwrap_or_default().trim()))
            .collect();
        let has = |any: &[Column]| any.iter().any(|column| columns.contains(&Some(*column)));
        let elapsed = has(&[Column::Elapsed, Column::ElapsedRaw]);
        let start = match has(&[Column::End]) && elapsed {
            true => &[Column::Start, Column::End][..],
            false => &[Column::Start],
        };
        let wanted: [(&str, &[Column]); 4] = [
            ("JobID or JobIDRaw", &[Column::JobId, Column::JobIdRaw]),
            ("State", &[Column::State]),
            ("Start", start),
            ("End, Elapsed or ElapsedRaw", &[Column::End, Column::Elapsed, Column::ElapsedRaw]),
        ];
        let known = columns.iter().flatten().count();
        if known < 2 {
            return Err(format!(
                "expected the header line of `sacct --parsable2` (JobID|State|Start|End|...), got \
                 `{}`: nothing says what the columns are; leave out -n (--noheader), or put the \
                 names given to --format in front, as `sed '1i JobID|State|...' FILE`",
                shorten(line)
            ));
        }
        let missing = wanted.iter().filter(|(_, any)| !has(any)).map(|(name, _)| *name);
        let missing: Vec<&str> = missing.collect();
        if missing.is_empty() {
            return Ok(Header { text: line.to_owned(), columns, separator, zone });
        }
        Err(format!("column {} is missing from the header", missing.join(", column ")))
    }

    /// Reads a line; `None` for a blank one and for the header once more.
    ///
    /// # Errors
    /// The field that cannot be read and what was expected.
    pub fn entry(&self, line: &str) -> Result<Option<Entry>, String> {
        let line = line.trim_end_matches(['\r', '\n']);
        if line.trim().is_empty() || line.trim_end() == self.text {
            return Ok(None);
        }
        let mut first = None;
        for fields in self.readings(line)? {
            let mut raw = Fields { header: self, fields };
            let id = raw.first(&[Column::JobId, Column::JobIdRaw]);
            // `9_[1-10,...` is an array whose list was cut off.
            if let Some((job, name)) = id.split_once('.').filter(|(job, _)| !job.contains('[')) {
                let joules = raw.joules("").ok().flatten();
                let step = Step { job: job.to_owned(), name: name.to_owned(), joules };
                return Ok(Some(Entry::Step(step)));
            }
            match raw.row() {
                Ok(row) => return Ok(Some(Entry::Job(Box::new(row)))),
                Err(what) => first = first.or(Some(what)),
            }
        }
        Err(first.unwrap_or_else(|| "no field".to_owned()))
    }

    /// The fields of a line, in each way that it can be read: separators beyond those of the
    /// header are part of one of the free texts.
    fn readings<'a>(&self, line: &'a str) -> Result<Vec<Vec<&'a str>>, String> {
        let (count, separator) = (self.columns.len(), self.separator);
        let fields: Vec<&str> = line.split(separator).collect();
        let found = fields.len();
        if found == count {
            return Ok(vec![fields]);
        }
        let wrong = || format!("expected {count} fields as in the header, got {found}");
        // `--parsable` ends its lines with a separator, and some tools drop it from the header.
        if found == count + 1 && line.ends_with(separator) {
            return Ok(vec![fields.into_iter().take(count).collect()]);
        }
        let free = |c: &Option<Column>| c.is_some_and(|c| FREE_TEXT.contains(&c));
        let places = self.columns.iter().enumerate().filter(|(_, c)| free(c)).map(|(i, _)| i);
        let more = found.checked_sub(count).ok_or_else(wrong)?;
        let width = separator.len_utf8();
        let joined = |place: usize| {
            let start: usize = fields.iter().take(place).map(|f| f.len() + width).sum();
            let length: usize =
                fields.iter().skip(place).take(more + 1).map(|f| f.len() + width).sum();
            let text = line.get(start..start + length - width)?;
            let (head, tail) = (fields.iter().take(place), fields.iter().skip(place + more + 1));
            Some(head.copied().chain([text]).chain(tail.copied()).collect())
        };
        let readings: Vec<Vec<&str>> = places.filter_map(joined).collect();
        if readings.is_empty() { Err(wrong()) } else { Ok(readings) }
    }
}

/// Reads a whole text: jobs go to `job` with their line, lines that cannot be read to `bad`.
/// Returns the number of steps; of those the energy counts.
///
/// # Errors
/// When there is no header, or the input breaks.
pub fn read<R: BufRead>(
    reader: R,
    zone: &TimeZone,
    mut job: impl FnMut(u64, Row),
    mut bad: impl FnMut(u64, String),
) -> Result<u64, TraceError> {
    let mut lines = Lines::new(reader);
    let mut header = None;
    let mut steps = 0;
    // A job's steps follow it.
    let mut latest: Option<(u64, Row)> = None;
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
        match header.entry(&line) {
            Ok(Some(Entry::Job(row))) => {
                if let Some((line, whole)) = latest.replace((number, *row)) {
                    job(line, whole);
                }
            }
            Ok(Some(Entry::Step(step))) => {
                steps += 1;
                if let Some((_, row)) = &mut latest {
                    row.add(&step);
                }
            }
            Ok(None) => {}
            Err(what) => bad(number, what),
        }
    };
    if let Some((line, whole)) = latest {
        job(line, whole);
    }
    if let Some(error) = broke {
        return Err(error);
    }
    if header.is_none() {
        return Err(TraceError::Empty("the text is empty: expected output of sacct".to_owned()));
    }
    Ok(steps)
}
