// SPDX-License-Identifier: GPL-3.0-or-later
//! The header line, and by it the fields of the other lines.

use std::cell::Cell;

use jiff::tz::TimeZone;

use super::column::Column;
use super::fields::Fields;
use super::row::{Entry, Step};
use super::separators::Split;
use crate::trace::shorten;

/// Columns that a text has at most; sacct knows some 120.
const COLUMNS_MAX: usize = 1000;
/// Readings that may fail in a whole text, beside the second number of each job that is read.
const TRIES: (u64, u64) = (50_000, 20);

/// The columns of a text, and the time zone that its times are in.
#[derive(Debug, Clone)]
pub struct Header {
    text: String,
    pub(super) columns: Vec<Option<Column>>,
    pub(super) separator: String,
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
            let mut raw = Fields { columns: &self.columns, zone: &self.zone, fields };
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
    pub(super) fn is_free(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(|column| column.is_none_or(Column::is_text))
    }

    /// Whether a line that cannot be read goes on with the text at the end of the line before it.
    pub(super) fn goes_on(&self, line: &str) -> bool {
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
