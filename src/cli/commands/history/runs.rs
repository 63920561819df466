// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx history runs`.

use std::collections::BTreeMap;

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::{amount, many, seconds_fine, time};
use crate::text::{clean, heading, table_of};
use crate::time::since_ms;
use phalanx_core::number::{as_f64, nearest_u64};
use phalanx_core::run::Run;
use phalanx_messages::rest::RunsReport;

/// Show runs of jobs that ended, newest first
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
    /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: String,
    /// Most runs that are shown
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    limit: u32,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let since = since_ms(&self.since)?;
        let path = format!("/v1/history/runs?since={since}&limit={}", self.limit);
        global.report(&path, text)
    }
}

fn text(report: &RunsReport) -> String {
    let mut out = String::new();
    heading(&mut out, &sentence(report));
    if report.runs.is_empty() {
        return out;
    }
    out.push('\n');
    let ended = |end_s: i64| time(nearest_u64(end_s).saturating_mul(1000));
    table_of(&report.runs)
        .left("Ended", |run| ended(run.end_s))
        .left("Job", |run| run.job.clone())
        .left("Class", |run| run.class.clone())
        .left("Nodes", |run| run.nodes.clone())
        .left("State", |run| run.state.clone())
        .right("Time [s]", |run| seconds_fine(as_f64(run.elapsed_ms) / 1000.0))
        .right("Work", |run| run.work.map(amount).unwrap_or_default())
        .right("Energy [J]", |run| run.joules.map(amount).unwrap_or_default())
        .left("Placed by", |run| run.placed_by.clone())
        .without_empty_columns()
        .add_to(&mut out);
    out
}

/// Says how many runs ended, in which states, and what they took.
fn sentence(report: &RunsReport) -> String {
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &report.runs {
        *states.entry(&run.state).or_default() += 1;
    }
    let states: Vec<String> =
        states.iter().map(|(state, runs)| format!("{runs} {}", clean(state))).collect();
    let hours = |run: &Run| as_f64(run.cpus) * as_f64(run.elapsed_ms) / 3.6e6;
    let hours: f64 = report.runs.iter().map(hours).sum();
    let (runs, since) = (many(report.runs.len() as u64, "run"), time(report.since_ms));
    match states.len() {
        0 => format!("No run ended since {since}."),
        _ => format!("{runs} since {since}, {hours:.2} CPU hours: {}.", states.join(", ")),
    }
}
