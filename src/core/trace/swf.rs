// SPDX-License-Identifier: GPL-3.0-or-later
//! The Standard Workload Format of the Parallel Workloads Archive: 18 numbers
//! a line, -1 for what is unknown, comments and header after `;`.

use std::io::BufRead;

use super::{Lines, TraceError, shorten};

/// Fields of a line.
const FIELDS: usize = 18;
/// Names of the fields for errors, in their order.
const NAMES: &str = "job number,submit time,wait time,run time,allocated processors,\
    average CPU time,used memory,requested processors,requested time,requested memory,status,\
    user,group,executable,queue,partition,preceding job,think time";

/// A line. Unknown numbers are -1 as in the file; fractions are cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwfJob {
    /// Field 1.
    pub number: i64,
    /// Field 2, seconds.
    pub submit_s: i64,
    /// Field 4, seconds.
    pub run_s: i64,
    /// Field 5.
    pub allocated: i64,
    /// Field 8.
    pub requested: i64,
    /// Field 9, seconds.
    pub request_s: i64,
    /// Field 11; see [`SwfJob::is_part`].
    pub status: i64,
    /// Field 12.
    pub user: i64,
    /// Field 14.
    pub executable: i64,
}

impl SwfJob {
    /// Whether the line is of a part of a job that was swapped out or checkpointed: the job goes
    /// on, or this was its last part and it ended well or not. Most logs have a line of the whole
    /// job too.
    pub fn is_part(&self) -> bool {
        (2..=4).contains(&self.status)
    }
}

/// The machine's size by the log's header; 0 where the header gives none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwfHeader {
    /// `MaxNodes`.
    pub nodes: u64,
    /// `MaxProcs`.
    pub processors: u64,
}

/// Reads job after job.
#[derive(Debug)]
pub struct SwfReader<R> {
    lines: Lines<R>,
    header: SwfHeader,
}

impl<R: BufRead> SwfReader<R> {
    /// A reader at the beginning of a log.
    pub fn new(reader: R) -> Self {
        Self { lines: Lines::new(reader), header: SwfHeader::default() }
    }

    /// The header, of the lines read so far.
    pub fn header(&self) -> SwfHeader {
        self.header
    }

    /// The next job; `None` at the end.
    ///
    /// # Errors
    /// A line with fewer or more than 18 fields, or with something that is no
    /// number; an input that breaks.
    pub fn next_job(&mut self) -> Result<Option<SwfJob>, TraceError> {
        while let Some((number, line)) = self.lines.next_line()? {
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            if let Some(comment) = text.strip_prefix(';') {
                note_header(&mut self.header, comment);
                continue;
            }
            return job_of(number, text).map(Some);
        }
        Ok(None)
    }
}

fn note_header(header: &mut SwfHeader, comment: &str) {
    let Some((key, value)) = comment.split_once(':') else { return };
    let first = value.split_whitespace().next().unwrap_or_default();
    let Ok(value) = first.parse::<u64>() else { return };
    match key.trim().to_ascii_lowercase().as_str() {
        "maxnodes" => header.nodes = value,
        "maxprocs" => header.processors = value,
        _ => {}
    }
}

fn job_of(line: u64, text: &str) -> Result<SwfJob, TraceError> {
    let mut values = [0i64; FIELDS];
    let mut count = 0;
    for field in text.split_ascii_whitespace() {
        let Some(slot) = values.get_mut(count) else {
            let what = format!("expected {FIELDS} fields, got more");
            return Err(TraceError::line(line, what));
        };
        *slot = number(field).ok_or_else(|| {
            let name = NAMES.split(',').nth(count).unwrap_or_default();
            let got = shorten(field);
            let at = count + 1;
            TraceError::line(line, format!("field {at} ({name}): expected a number, got {got:?}"))
        })?;
        count += 1;
    }
    if count < FIELDS {
        let what = format!("expected {FIELDS} fields, got {count}");
        return Err(TraceError::line(line, what));
    }
    let [number, submit_s, _, run_s, allocated, _, _, requested, request_s, ..] = values;
    let [.., status, user, _, executable, _, _, _, _] = values;
    Ok(SwfJob {
        number,
        submit_s,
        run_s,
        allocated,
        requested,
        request_s,
        status,
        user,
        executable,
    })
}

/// A whole number, or a decimal number cut to a whole one; at most the largest up to which a double
/// holds every whole number, so that sums of times cannot overflow.
fn number(field: &str) -> Option<i64> {
    const LARGEST: i64 = 1 << 53;
    let whole = field.parse::<i64>().ok().or_else(|| {
        #[allow(clippy::cast_possible_truncation)] // saturates, which is beyond the bound
        field.parse::<f64>().ok().filter(|value| !value.is_nan()).map(|value| value as i64)
    });
    whole.filter(|whole| (-LARGEST..=LARGEST).contains(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "; MaxNodes: 10\n;MaxProcs: 40 (4 each)\n\n";

    fn all(text: &str) -> Result<Vec<SwfJob>, TraceError> {
        let mut reader = SwfReader::new(text.as_bytes());
        let mut jobs = Vec::new();
        while let Some(job) = reader.next_job()? {
            jobs.push(job);
        }
        Ok(jobs)
    }

    #[test]
    fn jobs_and_header_are_read() {
        let text = format!("{HEAD} 1 0 5 9.7 2 -1 -1 4 60 -1 1 7 1 3 -1 -1 -1 -1\r\n");
        let mut reader = SwfReader::new(text.as_bytes());
        let job = reader.next_job().unwrap().unwrap();
        assert_eq!((job.run_s, job.requested, job.request_s, job.user), (9, 4, 60, 7));
        assert_eq!((job.allocated, job.executable), (2, 3));
        assert_eq!(reader.header(), SwfHeader { nodes: 10, processors: 40 });
        assert_eq!(reader.next_job().unwrap(), None);
    }

    #[test]
    fn a_byte_order_mark_and_another_case_of_the_header_are_read() {
        let job = "1 0 5 9 2 -1 -1 4 60 -1 1 7 1 3 -1 -1 -1 -1\n";
        let text = format!("\u{feff};maxprocs:  64 \n{job}");
        let mut reader = SwfReader::new(text.as_bytes());
        assert_eq!(reader.next_job().unwrap().map(|job| job.number), Some(1));
        assert_eq!(reader.header().processors, 64);
        assert_eq!(all(&format!("\u{feff}{job}")).unwrap().len(), 1);
        assert!(all(&format!("{job}\u{feff}{job}")).is_err(), "only at the beginning");
    }

    #[test]
    fn errors_name_line_and_field() {
        let bad = format!("{HEAD}1 0 5 x 2 -1 -1 4 60 -1 1 7 1 3 -1 -1 -1 -1\n");
        let error = all(&bad).unwrap_err().to_string();
        assert_eq!(error, "line 4: field 4 (run time): expected a number, got \"x\"");
        let short = all("1 2 3\n").unwrap_err().to_string();
        assert_eq!(short, "line 1: expected 18 fields, got 3");
        for beyond in ["9223372036854775807", "-9223372036854775808", "1e300", "nan"] {
            let line = format!("1 {beyond} 5 9 2 -1 -1 4 60 -1 1 7 1 3 -1 -1 -1 -1\n");
            let error = all(&line).unwrap_err().to_string();
            assert!(error.starts_with("line 1: field 2 (submit time): expected"), "{error}");
        }
        let long = "1 ".repeat(19);
        assert_eq!(all(&long).unwrap_err().to_string(), "line 1: expected 18 fields, got more");
    }
}
