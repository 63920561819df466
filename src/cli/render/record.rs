// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx record` and `phalanx replay`

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Left, Right, clean, facts, heading, lines, table};
use phalanx_service::api::types::RecordingStatus;
use phalanx_service::recordings::{Difference, Report, Then};

fn time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(ms).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[allow(clippy::cast_precision_loss)] // sizes for people
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// How a recording goes.
pub fn status(status: &RecordingStatus) -> String {
    let mut out = String::new();
    if status.file.is_empty() && status.last_error.is_none() {
        return "Nothing was recorded since phalanxd started.\n".to_owned();
    }
    let head = if status.active { "Recording" } else { "Not recording; the last recording:" };
    heading(&mut out, head);
    let mut rows = vec![
        ("File", clean(&status.file)),
        ("Since", time(status.since_ms)),
        ("Files", status.files.to_string()),
        ("Records", status.records.to_string()),
        ("Size", mib(status.bytes)),
    ];
    if let Some(until) = status.until_ms.filter(|_| status.active) {
        rows.insert(2, ("Until", time(until)));
    }
    if status.gaps > 0 {
        rows.push(("Gaps", status.gaps.to_string()));
    }
    if status.deleted > 0 {
        rows.push(("Old files deleted", status.deleted.to_string()));
    }
    if let Some(error) = &status.last_error {
        rows.push(("Error", clean(error)));
    }
    facts(&mut out, &rows);
    out
}

#[allow(clippy::cast_precision_loss)] // shares for people
fn share(part: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.3} %", part as f64 * 100.0 / of as f64) }
}

/// What came of a replay.
pub fn replayed(report: &Report) -> String {
    let mut out = String::new();
    heading(&mut out, &format!("{} records of {} files", report.records, report.files));
    let mut rows = vec![
        ("Period", format!("{} to {}", time(report.begin_ms), time(report.end_ms))),
        ("Questions", report.asks.to_string()),
        ("Same answer", format!("{} ({})", report.same, share(report.same, report.asks))),
        ("Differing", report.differing.to_string()),
    ];
    if report.missed > 0 {
        rows.push(("Not recorded", format!("{} while a state was copied", report.missed)));
    }
    let mut ends: Vec<(&String, u64)> = Vec::new();
    for end in &report.ends {
        match ends.iter_mut().find(|(known, _)| *known == end) {
            Some((_, count)) => *count += 1,
            None => ends.push((end, 1)),
        }
    }
    for (end, count) in ends {
        let times = if count > 1 { format!(" ({count} files)") } else { String::new() };
        rows.push(("End", clean(end) + &times));
    }
    for broken in &report.broken {
        rows.push(("Broken", clean(broken)));
    }
    facts(&mut out, &rows);
    if let Some(then) = &report.then {
        changed(&mut out, then, report.same);
    }
    if !report.first.is_empty() {
        heading(&mut out, "First differences");
        out.push_str(&differences(&report.first));
    }
    out
}

fn changed(out: &mut String, then: &Then, asks: u64) {
    heading(out, "Under the other configuration");
    let number = |of: Option<f64>| of.map_or("-".to_owned(), |y| format!("{y:.4}"));
    let [recorded, now] = then.dispersion;
    facts(
        out,
        &[
            ("Same answer", format!("{} ({})", then.same, share(then.same, asks))),
            ("Placed elsewhere", format!("{}, {} jobs", then.elsewhere, then.jobs_elsewhere)),
            ("Placed only now", then.placed.to_string()),
            ("No longer placed", then.not_placed.to_string()),
            ("Other reason", then.other_reason.to_string()),
            ("Mean dispersion", format!("{} recorded, {} now", number(recorded), number(now))),
        ],
    );
    let mut rows = table(&[("Answer", Left), ("Recorded", Right), ("Now", Right)]);
    for (word, [recorded, now]) in &then.answers {
        rows.add_row([clean(word), recorded.to_string(), now.to_string()]);
    }
    out.push_str(&lines(&rows));
}

fn differences(all: &[Difference]) -> String {
    let heads =
        [("Record", Right), ("Time", Left), ("Job", Right), ("Recorded", Left), ("Now", Left)];
    let mut rows = table(&heads);
    for one in all {
        let record = match one.file.as_str() {
            "" => one.record.to_string(),
            file => format!("{}:{}", clean(file), one.record),
        };
        let job = if one.will_run { format!("{} (when)", one.job) } else { one.job.to_string() };
        let cells = [record, time(one.time_ms), job, clean(&one.recorded), clean(&one.now)];
        rows.add_row(cells);
    }
    lines(&rows)
}
