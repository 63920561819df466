// SPDX-License-Identifier: GPL-3.0-or-later
//! Reader of `sacct --parsable2` (and `--parsable`): a header line that names the columns, in any
//! order and number, then one line for each job or step.
//!
//! Needed are `JobID` (or `JobIDRaw`), `State`, and two of `Start`, `End` and `Elapsed` (or
//! `ElapsedRaw`); other columns are used where they are there. Fields are separated by whatever
//! stands after the first column's name; a separator inside a free text (job name, comment,
//! command line) is told apart by whether the other fields can then be read. A line that cannot be read is an error that names line
//! and field; reading goes on behind it.

use std::io::BufRead;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{Lines, TraceError, shorten};
use crate::limits::HOSTLIST_NAMES_MAX;
use crate::model::hostlist;

/// Columns that may hold the separator as text.
const FREE_TEXT: [Column; 4] =
    [Column::Name, Column::Comment, Column::AdminComment, Column::OtherText];
/// Slurm's NO_VAL64 and INFINITE64: no value.
const NO_VALUE: f64 = 1.8e19;

/// A column that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    JobId,
    JobIdRaw,
    Cluster,
    User,
    Account,
    Name,
    Partition,
    Qos,
    Comment,
    AdminComment,
    Submit,
    Start,
    End,
    Elapsed,
    ElapsedRaw,
    State,
    ExitCode,
    Nodes,
    NodeList,
    ReqNodes,
    Cpus,
    ReqCpus,
    ReqTres,
    AllocTres,
    Limit,
    LimitRaw,
    Energy,
    EnergyRaw,
    ReqMem,
    /// Text that is not used.
    OtherText,
}

impl Column {
    /// By sacct's name, in any case.
    fn of(name: &str) -> Option<Column> {
        Some(match name.to_ascii_lowercase().as_str() {
            "jobid" => Column::JobId,
            "jobidraw" => Column::JobIdRaw,
            "cluster" => Column::Cluster,
            "user" => Column::User,
            "account" => Column::Account,
            "jobname" => Column::Name,
            "partition" => Column::Partition,
            "qos" => Column::Qos,
            "comment" => Column::Comment,
            "admincomment" => Column::AdminComment,
            "submit" => Column::Submit,
            "start" => Column::Start,
            "end" => Column::End,
            "elapsed" => Column::Elapsed,
            "elapsedraw" => Column::ElapsedRaw,
            "state" => Column::State,
            "exitcode" => Column::ExitCode,
            "nnodes" | "allocnodes" => Column::Nodes,
            "nodelist" => Column::NodeList,
            "reqnodes" => Column::ReqNodes,
            "ncpus" | "alloccpus" => Column::Cpus,
            "reqcpus" => Column::ReqCpus,
            "reqtres" => Column::ReqTres,
            "alloctres" => Column::AllocTres,
            "timelimit" => Column::Limit,
            "timelimitraw" => Column::LimitRaw,
            "consumedenergy" => Column::Energy,
            "consumedenergyraw" => Column::EnergyRaw,
            "reqmem" => Column::ReqMem,
            "submitline" | "workdir" | "systemcomment" | "extra" | "failednode" => {
                Column::OtherText
            }
            _ => return None,
        })
    }
}

/// One job of the accounting; text is empty and numbers are `None` where sacct does not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// As users write it: `123`, `123_4`, `130+1`.
    pub job: String,
    /// Slurm's job id: `JobIDRaw`, else the number that `job` begins with.
    pub job_id: u32,
    /// Array and task, of an array task.
    pub array: Option<(u32, u32)>,
    /// Id of the het job, of a component.
    pub het_job_id: Option<u32>,
    /// Cluster.
    pub cluster: String,
    /// User's name.
    pub user: String,
    /// Account.
    pub account: String,
    /// Job name.
    pub name: String,
    /// Partition.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// The user's comment.
    pub comment: String,
    /// The administrator's comment.
    pub admin_comment: String,
    /// Submission, unix seconds.
    pub submit_s: Option<i64>,
    /// Start, unix seconds; `None` if it never started.
    pub start_s: Option<i64>,
    /// End, unix seconds; `None` if it did not end.
    pub end_s: Option<i64>,
    /// Seconds that it ran, suspensions left out.
    pub elapsed_s: u64,
    /// First word of its state: `COMPLETED`, `CANCELLED`.
    pub state: String,
    /// Exit code and signal.
    pub exit: (u8, u8),
    /// Nodes as a canonical hostlist.
    pub nodes: String,
    /// Whether the text has a column of nodes: without it they are not known.
    pub has_nodes: bool,
    /// Number of nodes.
    pub node_count: u32,
    /// CPUs allocated, else asked for; 0 if not known.
    pub cpus: u64,
    /// TRES asked for; made of `ReqCPUS` and `ReqNodes` where there is no such column.
    pub tres_req: String,
    /// TRES allocated.
    pub tres_alloc: String,
    /// Memory asked for in Slurm's form, such as `16G`, `4Gn` (of a node) or `2Gc` (of a CPU).
    pub req_mem: String,
    /// Time limit in minutes; `None` without limit.
    pub limit_min: Option<u32>,
    /// Energy, joules.
    pub joules: Option<f64>,
}

impl Row {
    /// Whether it ended, as far as the accounting knows.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let going = ["PENDING", "RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING"];
        !going.contains(&self.state.as_str()) && self.end_s.is_some()
    }

    /// Takes what a step says more. Slurm counts the energy of a job's steps but
    /// the batch step's, which on one node is that of the whole job: a job
    /// without `srun` has none, one with several at once has it several times.
    fn add(&mut self, step: &Step) {
        if step.job == self.job && step.name == "batch" && self.node_count == 1 {
            self.joules = step.joules.or(self.joules);
        }
    }

    /// Whether it ran at all: it had a start and nodes, or some time where nodes are not told.
    #[must_use]
    pub fn ran(&self) -> bool {
        let had_nodes = if self.has_nodes { !self.nodes.is_empty() } else { self.elapsed_s > 0 };
        self.start_s.is_some() && had_nodes
    }

    /// Memory of the whole job by `ReqMem`, MiB, on so many nodes and CPUs.
    #[must_use]
    pub fn req_mem_mb(&self, nodes: u64, cpus: u64) -> Option<u64> {
        let (text, times) = match self.req_mem.as_bytes().last()? {
            b'n' => (self.req_mem.trim_end_matches('n'), nodes),
            b'c' => (self.req_mem.trim_end_matches('c'), cpus),
            _ => (self.req_mem.as_str(), 1),
        };
        let (digits, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
        let number: f64 = digits.parse().ok().filter(|n| (0.0..=1e12).contains(n))?;
        let mb = match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
            None | Some('M') => number,
            Some('K') => number / 1024.0,
            Some('G') => number * 1024.0,
            Some('T') => number * 1024.0 * 1024.0,
            Some(_) => return None,
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 1e18
        let mb = mb.ceil() as u64;
        Some(mb.saturating_mul(times.max(1)))
    }
}

/// What a line of the text is.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A job.
    Job(Box<Row>),
    /// A step (`123.batch`, `123.0`) of a job that has a line of its own.
    Step(Step),
}

/// What a step's line says.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its job, as [`Row::job`].
    pub job: String,
    /// `batch`, `extern` or a number.
    pub name: String,
    /// Energy, joules.
    pub joules: Option<f64>,
}

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

struct Fields<'a> {
    header: &'a Header,
    fields: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    fn get(&self, column: Column) -> &'a str {
        let at = self.header.columns.iter().position(|c| *c == Some(column));
        at.and_then(|at| self.fields.get(at)).map_or("", |field| field.trim())
    }

    fn first(&self, columns: &[Column]) -> &'a str {
        columns.iter().map(|c| self.get(*c)).find(|text| !text.is_empty()).unwrap_or("")
    }

    fn row(&mut self) -> Result<Row, String> {
        let text = |column| self.get(column).to_owned();
        let mut row = Row {
            cluster: text(Column::Cluster),
            user: text(Column::User),
            account: text(Column::Account),
            name: text(Column::Name),
            partition: text(Column::Partition),
            qos: text(Column::Qos),
            comment: text(Column::Comment),
            admin_comment: text(Column::AdminComment),
            submit_s: self.time("Submit", Column::Submit)?,
            start_s: self.time("Start", Column::Start)?,
            end_s: self.time("End", Column::End)?,
            tres_alloc: text(Column::AllocTres),
            tres_req: self.tres_req(),
            has_nodes: self.header.columns.contains(&Some(Column::NodeList)),
            req_mem: text(Column::ReqMem),
            ..Row::default()
        };
        self.identity(&mut row)?;
        let state = self.get(Column::State);
        state.split([' ', '+']).next().unwrap_or_default().clone_into(&mut row.state);
        if row.state.is_empty() || !row.state.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
            return Err(expected("State", "a state such as COMPLETED", state));
        }
        self.durations(&mut row)?;
        self.nodes(&mut row)?;
        row.cpus = self.cpus(&row)?;
        row.exit = self.exit()?;
        row.joules = self.joules(&row.tres_alloc)?;
        Ok(row)
    }

    /// CPUs by the first column that tells them.
    fn cpus(&self, row: &Row) -> Result<u64, String> {
        let cpu = |tres: &str| {
            let count = tres.split(',').find_map(|part| part.strip_prefix("cpu="));
            count.and_then(|count| count.parse::<u64>().ok())
        };
        let own = self.number("NCPUS", Column::Cpus)?.or_else(|| cpu(&row.tres_alloc));
        let own = own.filter(|cpus| *cpus > 0);
        let asked = self.number("ReqCPUS", Column::ReqCpus)?.or_else(|| cpu(&row.tres_req));
        Ok(own.or(asked).unwrap_or(0))
    }

    fn identity(&self, row: &mut Row) -> Result<(), String> {
        let id = self.first(&[Column::JobId, Column::JobIdRaw]);
        let wrong = || expected("JobID", "a job such as 123, 123_4 or 130+1", id);
        let leading = id.split(['_', '+']).next().unwrap_or_default();
        let first: u32 = leading.parse().map_err(|_| wrong())?;
        row.job_id = first;
        match id.get(leading.len()..).unwrap_or_default().split_at_checked(1) {
            None => {}
            // sacct may cut a long list of tasks off.
            Some(("_", task)) if task.starts_with('[') => {}
            Some(("_", task)) => {
                row.array = Some((first, task.parse().map_err(|_| wrong())?));
            }
            Some(("+", offset)) => {
                offset.parse::<u32>().map_err(|_| wrong())?;
                row.het_job_id = Some(first);
            }
            Some(_) => return Err(wrong()),
        }
        id.clone_into(&mut row.job);
        let raw = self.get(Column::JobIdRaw);
        if !raw.is_empty() {
            row.job_id = raw.parse().map_err(|_| expected("JobIDRaw", "a number", raw))?;
        }
        Ok(())
    }

    /// Elapsed, end and limit; each of elapsed and end follows from the other.
    fn durations(&self, row: &mut Row) -> Result<(), String> {
        let seconds = match self.number("ElapsedRaw", Column::ElapsedRaw)? {
            Some(seconds) => Some(seconds),
            None => match self.get(Column::Elapsed) {
                "" | "Unknown" | "INVALID" => None,
                text => Some(duration(text).ok_or_else(|| {
                    expected("Elapsed", "a duration such as 1-02:03:04 or 05:30", text)
                })?),
            },
        };
        let from_ends = match (row.start_s, row.end_s) {
            (Some(start), Some(end)) if end < start => {
                return Err(format!("field End: {end} is before Start {start} (unix seconds)"));
            }
            (Some(start), Some(end)) => u64::try_from(end.saturating_sub(start)).ok(),
            _ => None,
        };
        row.elapsed_s = seconds.or(from_ends).unwrap_or(0);
        let has = |column| self.header.columns.contains(&Some(column));
        if let (false, Some(end), Some(seconds)) = (has(Column::Start), row.end_s, seconds) {
            row.start_s = end.checked_sub_unsigned(seconds).filter(|_| seconds > 0);
        }
        let has_end = has(Column::End);
        if !has_end && let Some(start) = row.start_s {
            row.end_s = i64::try_from(row.elapsed_s).ok().and_then(|s| start.checked_add(s));
        }
        let minutes = match self.get(Column::LimitRaw) {
            "" => match self.get(Column::Limit) {
                "" | "UNLIMITED" | "Partition_Limit" | "INVALID" | "Unknown" => None,
                text => Some(duration(text).map(|s| s.div_ceil(60)).ok_or_else(|| {
                    expected("Timelimit", "a duration such as 1-02:00:00 or UNLIMITED", text)
                })?),
            },
            "UNLIMITED" | "Partition_Limit" => None,
            _ => self.number("TimelimitRaw", Column::LimitRaw)?,
        };
        row.limit_min = minutes.and_then(|minutes| u32::try_from(minutes).ok());
        Ok(())
    }

    fn nodes(&self, row: &mut Row) -> Result<(), String> {
        let count = self.number("NNodes", Column::Nodes)?;
        row.node_count = count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        let text = self.get(Column::NodeList);
        if matches!(text, "" | "None assigned" | "(null)" | "None") {
            return Ok(());
        }
        let names = hostlist::expand(text, HOSTLIST_NAMES_MAX)
            .map_err(|error| format!("field NodeList: {error}"))?;
        row.nodes = hostlist::compress(&names);
        row.node_count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        Ok(())
    }

    fn tres_req(&self) -> String {
        let asked = self.get(Column::ReqTres);
        if !asked.is_empty() {
            return asked.to_owned();
        }
        let cpus = self.first(&[Column::ReqCpus, Column::Cpus]);
        let nodes = self.first(&[Column::ReqNodes, Column::Nodes]);
        if cpus.is_empty() && nodes.is_empty() {
            return self.get(Column::AllocTres).to_owned();
        }
        let named = [("cpu", cpus), ("node", nodes)];
        let parts = named.iter().filter(|(_, n)| !n.is_empty()).map(|(k, n)| format!("{k}={n}"));
        parts.collect::<Vec<_>>().join(",")
    }

    fn time(&self, name: &str, column: Column) -> Result<Option<i64>, String> {
        let text = self.get(column);
        if matches!(text, "" | "Unknown" | "None" | "N/A" | "0") {
            return Ok(None);
        }
        if text.bytes().all(|b| b.is_ascii_digit())
            && let Ok(seconds) = text.parse()
        {
            return Ok(Some(seconds));
        }
        let wrong = || expected(name, "a time such as 2026-11-21T10:00:00 or Unknown", text);
        let time: DateTime = text.parse().map_err(|_| wrong())?;
        let zone = &self.header.zone;
        let at = zone.to_timestamp(time).map_err(|_| wrong())?;
        Ok(Some(at.as_second()))
    }

    fn number(&self, name: &str, column: Column) -> Result<Option<u64>, String> {
        let text = self.get(column);
        if matches!(text, "" | "Unknown" | "None" | "N/A") {
            return Ok(None);
        }
        let number = count(text).ok_or_else(|| expected(name, "a whole number", text))?;
        Ok(Some(number))
    }

    fn exit(&self) -> Result<(u8, u8), String> {
        let text = self.get(Column::ExitCode);
        if text.is_empty() {
            return Ok((0, 0));
        }
        let pair = text
            .split_once(':')
            .and_then(|(code, signal)| Some((code.parse().ok()?, signal.parse().ok()?)));
        pair.ok_or_else(|| expected("ExitCode", "CODE:SIGNAL such as 0:0", text))
    }

    /// Energy; Slurm counts 0 where nothing measures it.
    fn joules(&self, tres_alloc: &str) -> Result<Option<f64>, String> {
        let raw = self.first(&[Column::EnergyRaw, Column::Energy]);
        let tres = tres_alloc.split(',').find_map(|t| t.strip_prefix("energy="));
        let text = if raw.is_empty() { tres.unwrap_or("") } else { raw };
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || expected("ConsumedEnergyRaw", "joules", text);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text.get(digits.len()..).unwrap_or_default() {
            "" | "J" => 1.0,
            "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            _ => return Err(wrong()),
        };
        let joules = digits.parse::<f64>().map_err(|_| wrong())? * unit;
        Ok((joules > 0.0 && joules < NO_VALUE).then_some(joules))
    }
}

fn expected(field: &str, what: &str, got: &str) -> String {
    format!("field {field}: expected {what}, got `{}`", shorten(got))
}

/// `12`, or as sacct shortens large numbers: `1.50K`, `2M`.
#[must_use]
pub fn count(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (digits, factor) = match text.split_at_checked(text.len().checked_sub(1)?)? {
        (digits, "K") => (digits, 1e3),
        (digits, "M") => (digits, 1e6),
        _ => return None,
    };
    let number = digits.parse::<f64>().ok()? * factor;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked
    (0.0..1e15).contains(&number).then(|| number.round() as u64)
}

/// Seconds of `[DAYS-]HOURS:MINUTES:SECONDS[.FRACTION]`, `MINUTES:SECONDS` or `DAYS-HOURS`.
#[must_use]
pub fn duration(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u64>().ok()?), clock),
        None => (None, text),
    };
    let clock = clock.split('.').next()?;
    let parts: Option<Vec<u64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let parts = parts?;
    let (hours, minutes, seconds) = match (&parts[..], days) {
        (&[hours, minutes, seconds], _) => (hours, minutes, seconds),
        (&[hours, minutes], Some(_)) => (hours, minutes, 0),
        (&[minutes, seconds], None) => (0, minutes, seconds),
        (&[hours], Some(_)) => (hours, 0, 0),
        _ => return None,
    };
    let days = days.unwrap_or(0).checked_mul(86_400)?;
    let hours = hours.checked_mul(3600)?;
    days.checked_add(hours)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
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

#[cfg(test)]
#[path = "sacct_tests.rs"]
mod tests;
