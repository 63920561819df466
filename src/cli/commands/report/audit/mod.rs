// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx report audit`

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::client::Method;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{many, millis, time};
use crate::text::{clean, compared, heading, table_of, wrapped};
use crate::time::since_ms;
use phalanx_core::text::percent_encode;
use phalanx_messages::rest::{AuditReport, AuditRow, Receipt};

/// Longest wait for a report, since a month of a large cluster takes time to sum up.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Most lines that the text shows.
const SHOWN: usize = 20;

/// Show what Phalanx changed for which job: nodes, holds and places in the order of starts
///
/// Users see their own jobs; root, SlurmUser and the users of [control] allowed_uids see all.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this job, array or task, as squeue prints it
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// Only jobs of this user, a name or an id
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Begin of the period: a duration back from now (24h, 30d) or a time (2026-11-20)
    #[arg(long, value_name = "TIME", default_value = "30d")]
    since: String,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let mut path = format!("/v1/audit?since={}", since_ms(&self.since)?);
        for (name, value) in [("job", &self.job), ("user", &self.user)] {
            let given = value.iter().map(|value| format!("&{name}={}", percent_encode(value)));
            path.extend(given);
        }
        let reply = global.client()?.within(PATIENCE, Method::GET, &path, None)?;
        let report: AuditReport = global.client()?.parse(reply.expect_success()?)?;
        global.show(&report, text)
    }
}

fn text(report: &AuditReport) -> String {
    let mut out = String::new();
    heading(&mut out, &sentence(report));
    if report.moved_of_all > 0 {
        let moved = many(report.moved_of_all, "start");
        let said = format!("Of all users {moved} had a changed place, and may have passed others.");
        out.push_str(&wrapped(&said, ""));
    }
    if let Some(compared) = compared(report.compared) {
        out.push_str(&wrapped(&format!("Compared of all users' decisions: {compared}."), ""));
    }
    if report.rows.len() > 1 {
        out.push('\n');
        table_of(&report.rows)
            .left("User", user)
            .left("Partition", |row| clean(&row.partition))
            .right("Starts", |row| row.starts)
            .right("Nodes chosen", |row| row.placed)
            .right("Held", |row| row.held)
            .right("Time of holds", |row| millis(row.held_ms))
            .right("At most", |row| millis(row.held_max_ms))
            .right("Moved", |row| row.moved)
            .add_to(&mut out);
    }
    if report.receipts.is_empty() {
        return out;
    }
    let more = report.left_out + report.receipts.len().saturating_sub(SHOWN) as u64;
    let more = if more > 0 { format!("; {more} more in --json") } else { String::new() };
    heading(&mut out, &format!("Latest changes{more}"));
    table_of(report.receipts.iter().take(SHOWN))
        .left("Time", |line| time(line.time_ms))
        .left("Job", |line| clean(&line.job))
        .left("What", |line| what(line))
        .left("By", |line| clean(&line.reason))
        .add_to(&mut out);
    out
}

fn user(row: &&AuditRow) -> String {
    if row.user.is_empty() { row.user_id.to_string() } else { clean(&row.user) }
}

fn what(line: &Receipt) -> String {
    match line.kind.as_str() {
        "placed" => format!("on {}", clean(&line.nodes)),
        "held" => format!("held for {}", millis(line.held_ms)),
        _ => format!("site factor {:+}", line.delta),
    }
}

/// Says how many starts there were, and how many were changed.
fn sentence(report: &AuditReport) -> String {
    let sum = |of: fn(&AuditRow) -> u64| report.rows.iter().map(of).sum::<u64>();
    let held = match sum(|row| row.held) {
        0 => "none was held".to_owned(),
        waits => format!(
            "{} had a hold, of {} in all and {} at most",
            many(waits, "wait"),
            millis(sum(|row| row.held_ms)),
            millis(report.rows.iter().map(|row| row.held_max_ms).max().unwrap_or(0))
        ),
    };
    format!(
        "{} since {}: {} on nodes that Phalanx chose, {} with a changed place; {held}.",
        many(sum(|row| row.starts), "start"),
        time(report.since_ms),
        sum(|row| row.placed),
        sum(|row| row.moved),
    )
}
