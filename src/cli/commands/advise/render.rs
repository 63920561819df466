// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx advise`.

use super::report::{Report, Row};
use crate::text::{table_of, wrapped};
use phalanx_methods::learn::advice::RUNS_MIN;

/// Most rows that are shown; `--json` has all rows.
const SHOWN: usize = 30;

pub fn text(report: &Report, user: Option<&str>) -> String {
    if report.jobs.is_empty() {
        let whose = user.map_or(String::new(), |user| format!(" of {user}"));
        return format!(
            "No job{whose} with a time limit completed or reached it in this period.\n"
        );
    }
    let mut out = wrapped(&sentence(report), "");
    out.push('\n');
    table_of(report.jobs.iter().take(SHOWN))
        .left("User", |row| row.user.clone())
        .left("Job", |row| row.job.clone())
        .right("Runs", |row| row.runs)
        .right("Longest", |row| limit(row.longest_s.div_ceil(60)))
        .right("Asked", |row| limit(u64::from(row.asked_min)))
        .right("Advice", |row| advice(row))
        .right("Too short", |row| record(row))
        .right("Unused [CPU h]", |row| format!("{:.1}", row.unused_cpu_hours))
        .add_to(&mut out);
    let more = report.jobs.len().saturating_sub(SHOWN);
    if more > 0 {
        out.push_str(&format!("  and {more} more (--json)\n"));
    }
    out
}

fn sentence(report: &Report) -> String {
    let shorter = report.jobs.iter().filter(|row| row.advised_min.is_some()).count();
    let sum = |of: fn(&Row) -> usize| report.jobs.iter().map(of).sum::<usize>();
    let mut text = format!(
        "{shorter} of {} kinds of jobs need less than the time limit they ask for; with a shorter \
         --time Slurm can start them in more gaps.",
        report.jobs.len()
    );
    let (tried, too_short) = (sum(|row| row.tried), sum(|row| row.too_short));
    if tried > 0 {
        text.push_str(&format!(
            " Had every run been given the advice from those before it, {too_short} of {tried} \
             would have been ended early."
        ));
    }
    text
}

fn advice(row: &Row) -> String {
    match row.advised_min {
        Some(minutes) => limit(u64::from(minutes)),
        None if row.runs < RUNS_MIN => "too few runs".to_owned(),
        None if row.cut > 0 => format!("longer ({} cut)", row.cut),
        None => "keep".to_owned(),
    }
}

fn record(row: &Row) -> String {
    if row.tried == 0 { "-".to_owned() } else { format!("{} of {}", row.too_short, row.tried) }
}

/// Minutes as `--time` takes them.
fn limit(minutes: u64) -> String {
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 {
        format!("{days}-{hours:02}:{rest:02}:00")
    } else {
        format!("{hours:02}:{rest:02}:00")
    }
}
