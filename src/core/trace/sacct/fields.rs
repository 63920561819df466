// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns the fields of a line into a job.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::column::Column;
use super::row::Row;
use crate::hostlist;
use crate::limits::HOSTLIST_NAMES_MAX;
use crate::number::{as_u32, whole};
use crate::trace::shorten;

/// Slurm's NO_VAL64 and INFINITE64: no value.
const NO_VALUE: f64 = 1.8e19;

pub(super) struct Fields<'a> {
    pub(super) columns: &'a [Option<Column>],
    /// Time zone of the times.
    pub(super) zone: &'a TimeZone,
    pub(super) fields: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    fn get(&self, column: Column) -> &'a str {
        let at = self.columns.iter().position(|c| *c == Some(column));
        at.and_then(|at| self.fields.get(at)).map_or("", |field| field.trim())
    }

    pub(super) fn first(&self, columns: &[Column]) -> &'a str {
        columns.iter().map(|c| self.get(*c)).find(|text| !text.is_empty()).unwrap_or("")
    }

    /// Parses a row; columns by which wrong lines fail come first, before anything is copied.
    pub(super) fn row(&mut self) -> Result<Row, String> {
        let text = |column| self.get(column).to_owned();
        let mut row = Row::default();
        self.identity(&mut row)?;
        let state = self.get(Column::State);
        let word = state.split([' ', '+']).next().unwrap_or_default();
        if word.is_empty() || !word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
            return Err(expected("State", "a state such as COMPLETED", state));
        }
        let mut row = Row {
            state: word.to_owned(),
            cluster: text(Column::Cluster),
            user: text(Column::User),
            account: text(Column::Account),
            name: text(Column::JobName),
            partition: text(Column::Partition),
            qos: text(Column::Qos),
            comment: text(Column::Comment),
            admin_comment: text(Column::AdminComment),
            submit_s: self.time("Submit", Column::Submit)?.map(|[earlier, _]| earlier),
            eligible_s: self.time("Eligible", Column::Eligible)?.map(|[earlier, _]| earlier),
            priority: self.get(Column::Priority).parse().ok(),
            reservation: text(Column::Reservation),
            constraints: text(Column::Constraints),
            tres_alloc: text(Column::AllocTres),
            tres_req: self.tres_req(),
            has_nodes: self.columns.contains(&Some(Column::NodeList)),
            req_mem: text(Column::ReqMem),
            ..row
        };
        self.durations(&mut row)?;
        self.nodes(&mut row)?;
        row.cpus = self.cpus(&row)?;
        row.exit = self.exit()?;
        row.joules = self.joules(&row.tres_alloc)?;
        Ok(row)
    }

    /// CPUs by the first column that has a value.
    fn cpus(&self, row: &Row) -> Result<u64, String> {
        let cpu = |tres: &str| {
            let count = tres.split(',').find_map(|part| part.strip_prefix("cpu="));
            count.and_then(|count| count.parse::<u64>().ok()).filter(is_amount)
        };
        let own = self.number("NCPUS", Column::NCpus)?.or_else(|| cpu(&row.tres_alloc));
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
        (row.start_s, row.end_s) = self.ends(seconds)?;
        let from_ends = row.start_s.zip(row.end_s).map(|(start, end)| end.saturating_sub(start));
        let from_ends = from_ends.and_then(|seconds| u64::try_from(seconds).ok());
        row.elapsed_s = seconds.or(from_ends).unwrap_or(0);
        let has = |column| self.columns.contains(&Some(column));
        if let (false, Some(end), Some(seconds)) = (has(Column::Start), row.end_s, seconds) {
            row.start_s = end.checked_sub_unsigned(seconds).filter(|_| seconds > 0);
        }
        let has_end = has(Column::End);
        if !has_end && let Some(start) = row.start_s {
            row.end_s = i64::try_from(row.elapsed_s).ok().and_then(|s| start.checked_add(s));
        }
        let minutes = match self.get(Column::TimeLimitRaw) {
            "" => match self.get(Column::TimeLimit) {
                "" | "UNLIMITED" | "Partition_Limit" | "INVALID" | "Unknown" => None,
                text => Some(duration(text).map(|s| s.div_ceil(60)).ok_or_else(|| {
                    expected("Timelimit", "a duration such as 1-02:00:00 or UNLIMITED", text)
                })?),
            },
            "UNLIMITED" | "Partition_Limit" => None,
            _ => self.number("TimelimitRaw", Column::TimeLimitRaw)?,
        };
        row.limit_min = minutes.and_then(|minutes| u32::try_from(minutes).ok());
        Ok(())
    }

    /// Start and end. Where a clock was set back, or shows an hour twice, the readings that agree
    /// best with how long the job ran.
    fn ends(&self, elapsed_s: Option<u64>) -> Result<(Option<i64>, Option<i64>), String> {
        let (start, end) = (self.time("Start", Column::Start)?, self.time("End", Column::End)?);
        let (Some(starts), Some(ends)) = (start, end) else {
            let earlier = |times: Option<[i64; 2]>| times.map(|[earlier, _]| earlier);
            return Ok((earlier(start), earlier(end)));
        };
        let pairs = starts.iter().flat_map(|start| ends.iter().map(move |end| (*start, *end)));
        let apart = |(start, end): &(i64, i64)| {
            let seconds = i128::from(*end) - i128::from(*start);
            (seconds < 0, (seconds - i128::from(elapsed_s.unwrap_or(0))).abs())
        };
        let [first, _] = starts;
        let (start, end) = pairs.min_by_key(apart).unwrap_or((first, first));
        if start <= end {
            return Ok((Some(start), Some(end)));
        }
        let by_elapsed = elapsed_s.and_then(|seconds| start.checked_add_unsigned(seconds));
        by_elapsed.map(|end| (Some(start), Some(end))).ok_or_else(|| {
            format!("field End: {end} is before Start {start} (unix seconds), without Elapsed")
        })
    }

    fn nodes(&self, row: &mut Row) -> Result<(), String> {
        let count = self.number("NNodes", Column::NNodes)?;
        row.node_count = count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        let text = self.get(Column::NodeList);
        if matches!(text, "" | "None assigned" | "(null)" | "None") {
            return Ok(());
        }
        // Cut off by sacct, as `n[001-003,0+`.
        if text.ends_with('+') {
            row.has_nodes = false;
            return Ok(());
        }
        let count = hostlist::count(text, HOSTLIST_NAMES_MAX);
        let count = count.map_err(|error| format!("field NodeList: {error}"))?;
        row.node_count = as_u32(count);
        text.clone_into(&mut row.nodes);
        Ok(())
    }

    fn tres_req(&self) -> String {
        let asked = self.get(Column::ReqTres);
        if !asked.is_empty() {
            return asked.to_owned();
        }
        let cpus = self.first(&[Column::ReqCpus, Column::NCpus]);
        let nodes = self.first(&[Column::ReqNodes, Column::NNodes]);
        if cpus.is_empty() && nodes.is_empty() {
            return self.get(Column::AllocTres).to_owned();
        }
        let named = [("cpu", cpus), ("node", nodes)];
        let parts = named.iter().filter(|(_, n)| !n.is_empty()).map(|(k, n)| format!("{k}={n}"));
        parts.collect::<Vec<_>>().join(",")
    }

    /// Seconds of a time, in both readings where the zone's clock shows it twice.
    fn time(&self, name: &str, column: Column) -> Result<Option<[i64; 2]>, String> {
        let text = self.get(column);
        if matches!(text, "" | "Unknown" | "None" | "N/A" | "0") {
            return Ok(None);
        }
        if text.bytes().all(|b| b.is_ascii_digit())
            && let Ok(seconds) = text.parse()
        {
            return Ok(Some([seconds; 2]));
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Some([at.as_second(); 2]));
        }
        let wrong = || expected(name, "a time such as 2026-11-21T10:00:00 or Unknown", text);
        let time: DateTime = text.parse().map_err(|_| wrong())?;
        let read = || self.zone.to_ambiguous_timestamp(time);
        let seconds = |at: Result<Timestamp, _>| at.map(Timestamp::as_second).map_err(|_| wrong());
        Ok(Some([seconds(read().earlier())?, seconds(read().later())?]))
    }

    fn number(&self, name: &str, column: Column) -> Result<Option<u64>, String> {
        let text = self.get(column);
        if matches!(text, "" | "Unknown" | "None" | "N/A" | "INVALID") {
            return Ok(None);
        }
        let number = count(text).ok_or_else(|| expected(name, "a whole number", text))?;
        Ok(Some(number).filter(is_amount))
    }

    fn exit(&self) -> Result<(u8, u8), String> {
        let text = self.get(Column::ExitCode);
        if text.is_empty() {
            return Ok((0, 0));
        }
        let pair =
            text.split_once(':').and_then(|(code, signal)| Some((byte(code)?, byte(signal)?)));
        pair.ok_or_else(|| expected("ExitCode", "CODE:SIGNAL such as 0:0", text))
    }

    /// Energy; Slurm counts 0 where nothing measures it.
    pub(super) fn joules(&self, tres_alloc: &str) -> Result<Option<f64>, String> {
        let raw = self.first(&[Column::ConsumedEnergyRaw, Column::ConsumedEnergy]);
        let tres = tres_alloc.split(',').find_map(|t| t.strip_prefix("energy="));
        let text = if raw.is_empty() { tres.unwrap_or("") } else { raw };
        if text.is_empty() {
            return Ok(None);
        }
        let joules = scaled(text).ok_or_else(|| expected("ConsumedEnergyRaw", "joules", text))?;
        Ok((joules > 0.0 && joules < NO_VALUE).then_some(joules))
    }
}

/// Whether a number is none of Slurm's of 32 bits for "no value" and "without limit".
fn is_amount(number: &u64) -> bool {
    ![0xffff_fffe, 0xffff_ffff].contains(number)
}

/// The low byte of a number, which is what a waiting parent process sees of it.
fn byte(text: &str) -> Option<u8> {
    u8::try_from(text.parse::<i64>().ok()?.rem_euclid(256)).ok()
}

fn expected(field: &str, what: &str, got: &str) -> String {
    format!("field {field}: expected {what}, got `{}`", shorten(got))
}

/// `12`, or as sacct shortens large numbers: `1.50K`, `2M`.
#[must_use]
pub fn count(text: &str) -> Option<u64> {
    let short = || scaled(text).filter(|n| text.ends_with(['K', 'M']) && (0.0..1e15).contains(n));
    text.parse().ok().or_else(|| short().map(|number| whole(number.round())))
}

fn scaled(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..)? {
        "" | "J" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * factor)
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
