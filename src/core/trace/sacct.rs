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
mod row;
mod separators;
#[cfg(test)]
mod tests;
mod unread;

use std::cell::Cell;
use std::io::BufRead;

use jiff::tz::TimeZone;

use column::Column;
use fields::Fields;
pub use fields::{count, duration};
pub use row::{Entry, Row, Step};
use separators::Split;
use unread::Unread;

use super::{Lines, TraceError, shorten};

/// Columns that a text has at most; sacct knows some 120.
const COLUMNS_MAX: usize = 1000;
/// Readings that may fail in a whole text, beside the second number of each job that is read.
const TRIES: (u64, u64) = (50_000, 20);

/// The columns of a text, and the time zone that its times are in.
#[derive(Debug, Clone)]
pub struct Header {
    text: String,
    columns: Vec<Option<Column>>,
    separator: String,
    /// Whether lines end with a separator (`--parsable`).
    closed: bool,
    zone: TimeZone,
    /// Readings that may still fail; when none may, no separator is taken as part of a text.
    tries: Cell<u64>,
}

impl Header {
    /// Reads the header line.
    ///
    /// # Errors
    /// Fails with the columns that it lacks.
    pub fn parse(line: &str, zone: TimeZone) -> Result<Header, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%';
        let behind = line.trim_start_matches(is_name);
        let separator = behind.split(is_name).next().filter(|text| !text.is_empty());
        let separator = separator.unwrap_or("|");
        let open = line.strip_suffix(separator);
        let columns: Vec<Option<Column>> = open
            .unwrap_or(line)
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
        if line.trim_start().starts_with(['{', '[']) {
            return Err("JSON is not read: leave out --json, and use --parsable2".to_owned());
        }
        if known < 2 {
            return Err(format!(
                "expected the header line of `sacct --parsable2` (JobID|State|Start|End|...), got \
                 `{}`: nothing says what the columns are; leave out -n (--noheader), or put the \
                 names given to --format in front, as `sed '1i JobID|State|...' FILE`",
                shorten(line)
            ));
        }
        if separator.trim_matches(' ').is_empty() {
            return Err("the columns are padded with blanks: expected them separated by |, as \
                        `sacct --parsable2` prints them"
                .to_owned());
        }
        let missing = wanted.iter().filter(|(_, any)| !has(any)).map(|(name, _)| *name);
        let missing: Vec<&str> = missing.collect();
        if columns.len() > COLUMNS_MAX {
            return Err(format!("more than {COLUMNS_MAX} columns"));
        }
        if missing.is_empty() {
            let (text, separator) = (line.trim_end().to_owned(), separator.to_owned());
            let (closed, tries) = (open.is_some(), Cell::new(TRIES.0));
            return Ok(Header { text, columns, separator, closed, zone, tries });
        }
        Err(format!(
            "column {} is missing from the header; sacct prints it with \
             --format=JobID,User,JobName,State,Submit,Start,End,NCPUS,NNodes,ReqTRES,Timelimit",
            missing.join(", column ")
        ))
    }

    /// Reads a line; `None` for a blank line and for a repeated header.
    ///
    /// # Errors
    /// The field that cannot be read and what was expected.
    pub fn entry(&self, line: &str) -> Result<Option<Entry>, String> {
        let line = line.trim_end_matches('\r');
        if line.trim().is_empty() || line.trim_end() == self.text {
            return Ok(None);
        }
        let (mut first, tries) = (None, self.tries.get());
        for fields in self.readings(line)? {
            self.tries.set(self.tries.get().saturating_sub(1));
            let mut raw = Fields { header: self, fields };
            if !self.is_plain(&raw.fields) {
                first = first.or_else(|| Some("line ends in other fields than texts".to_owned()));
                continue;
            }
            let id = raw.first(&[Column::JobId, Column::JobIdRaw]);
            // `9_[1-10,...` is an array whose list was cut off; `a.b` is part of some text.
            let is_job = |job: &str| job.bytes().all(|b| b.is_ascii_digit() || b"_+".contains(&b));
            if let Some((job, name)) = id.split_once('.').filter(|(job, _)| is_job(job)) {
                let joules = raw.joules("").ok().flatten();
                let step = Step { job: job.to_owned(), name: name.to_owned(), joules };
                return Ok(Some(Entry::Step(step)));
            }
            match raw.row() {
                Ok(row) => {
                    self.tries.set(tries.min(self.tries.get() + TRIES.1));
                    return Ok(Some(Entry::Job(Box::new(row))));
                }
                Err(what) => first = first.or(Some(what)),
            }
        }
        Err(first.unwrap_or_else(|| "no field".to_owned()))
    }

    /// The fields of a line, in each way in which it can be read: separators beyond those of the
    /// header are part of free texts.
    fn readings<'a>(&self, line: &'a str) -> Result<Vec<Vec<&'a str>>, String> {
        let count = self.columns.len();
        let open = line.strip_suffix(&self.separator);
        let split = Split::of(open.filter(|_| self.closed).unwrap_or(line), &self.separator);
        let found = split.count();
        if found == count {
            return Ok(vec![split.first(count)]);
        }
        let wrong = || format!("expected {count} fields as in the header, got {found}");
        let more = found.checked_sub(count).filter(|_| self.tries.get() > 0).ok_or_else(wrong)?;
        let places: Vec<usize> = (0..count).filter(|at| self.is_free(*at)).collect();
        let (users, others): (Vec<usize>, Vec<usize>) =
            places.iter().partition(|at| self.columns.get(**at).is_some_and(Option::is_some));
        // What users wrote comes first.
        let mut readings = split.ways(count, more, &users);
        if !others.is_empty() {
            readings.extend(split.ways(count, more, &places));
        }
        // `--parsable` ends its lines with a separator, and some tools drop it from the header.
        if more == 1 && !self.closed && open.is_some() {
            readings.insert(0, split.first(count));
        }
        if readings.is_empty() { Err(wrong()) } else { Ok(readings) }
    }

    /// Whether a column holds text that may hold separators and line ends.
    fn is_free(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(|column| column.is_none_or(Column::is_text))
    }

    /// Whether a line that cannot be read goes on with the text at the end of the line before it.
    fn goes_on(&self, line: &str) -> bool {
        let first = match self.columns.first() {
            Some(Some(Column::JobId | Column::JobIdRaw)) => {
                !line.starts_with(|c: char| c.is_ascii_digit())
            }
            _ => !line.contains(&self.separator),
        };
        first && !self.closed && self.is_free(self.columns.len().saturating_sub(1))
    }

    /// Whether line ends are in free texts only.
    fn is_plain(&self, fields: &[&str]) -> bool {
        fields.iter().enumerate().all(|(at, field)| self.is_free(at) || !field.contains('\n'))
    }
}

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
