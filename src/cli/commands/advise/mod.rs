// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx advise`: better requests for users, and better settings for sites.

mod render;
pub mod search;
mod slurm_conf;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use nix::unistd::{User, geteuid};
use serde::Serialize;

use crate::commands::history::run_of;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::{Outcome, note_left_out};
use crate::time::since_ms;
use phalanx_core::number::as_f64;
use phalanx_core::run::Run;
use phalanx_core::trace::{LeftOut, sacct};
use phalanx_messages::rest::RunsReport;
use phalanx_methods::learn::advice::{Advice, Past, advise};
use phalanx_methods::learn::program_name;
use phalanx_sim::input;

/// Greatest number of runs that are read.
const RUNS_MAX: u32 = 100_000;

group! {
    /// Advise users on what to request, and sites on what to set
    Time(Time),
    SlurmConf(slurm_conf::SlurmConf) as "slurm.conf",
}

/// Show time limits that would have covered your jobs
///
/// Slurm plans with the time limit: the shorter it is, the more gaps a job fits into. Jobs of one
/// user with the same name (without its numbers) or declared class form one group. The advised
/// limit is the longest of the latest 100 runs plus 20 %, if there are at least 10; runs that
/// completed or reached their limit count. Nothing is changed.
#[derive(clap::Args, Debug)]
pub struct Time {
    /// Begin of the period: a duration back from now (24h, 30d) or a time (2026-11-20)
    #[arg(long, value_name = "TIME", default_value = "60d")]
    since: String,
    /// Jobs of this user [default: yours; of all users for root]
    #[arg(long, value_name = "NAME", conflicts_with = "allusers")]
    user: Option<String>,
    /// Jobs of all users
    #[arg(short = 'a', long)]
    allusers: bool,
    /// Read runs from the output of sacct --parsable2 (plain, .gz or .zst; - is standard input)
    /// instead of the history of phalanxd
    #[arg(long, value_name = "FILE", conflicts_with = "since")]
    sacct: Option<PathBuf>,
}

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    runs: u64,
    /// Jobs, those with most unused CPU time first.
    jobs: Vec<Row>,
}

/// Runs of one user under one job name.
#[derive(Debug, Default, Serialize)]
struct Row {
    user: String,
    /// Job name without its numbers, or `=CLASS`.
    job: String,
    runs: usize,
    /// Duration of the longest run, in seconds.
    longest_s: u64,
    /// Limit of the latest run, minutes.
    asked_min: u32,
    /// Shorter limit that is advised, minutes.
    advised_min: Option<u32>,
    /// Number of the latest runs that were ended by their limit.
    cut: usize,
    /// Number of runs for which earlier runs advised a shorter limit.
    tried: usize,
    /// Number of runs among `tried` that the shorter limit would have ended early.
    too_short: usize,
    /// CPU hours that limits reserved beyond the runs' ends.
    unused_cpu_hours: f64,
}

impl Time {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let user = self.user_of();
        let mut runs = match &self.sacct {
            Some(file) => of_sacct(file)?,
            None => {
                let since = since_ms(&self.since)?;
                let path = format!("/v1/history/runs?since={since}&limit={RUNS_MAX}");
                global.client()?.get::<RunsReport>(&path)?.runs
            }
        };
        runs.retain(|run| user.as_ref().is_none_or(|user| run.user == *user));
        runs.sort_by(|a, b| (a.end_s, &a.job).cmp(&(b.end_s, &b.job)));
        global.show(&report(&runs), |report| render::text(report, user.as_deref()))
    }

    /// Returns the user whose jobs count; `None`: all users.
    fn user_of(&self) -> Option<String> {
        let me = geteuid();
        let all = self.allusers || (self.user.is_none() && me.is_root());
        let own = || User::from_uid(me).ok().flatten().map_or_else(|| me.to_string(), |u| u.name);
        (!all).then(|| self.user.clone().unwrap_or_else(own))
    }
}

fn of_sacct(file: &std::path::Path) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    let take = |_, row| runs.extend(run_of(row).ok());
    let mut left_out = LeftOut::default();
    let bad = |line, what| left_out.add(line, what);
    sacct::read(input::open(file)?, &TimeZone::system(), take, bad)
        .map_err(|error| Failure::usage(format!("{}: {error}", input::shown(file))))?;
    note_left_out(&input::shown(file), &left_out);
    Ok(runs)
}

/// Makes the report of `runs`, which are sorted, the oldest first.
fn report(runs: &[Run]) -> Report {
    let mut groups: BTreeMap<(&str, String), Vec<&Run>> = BTreeMap::new();
    for run in runs.iter().filter(|run| past_of(run).is_some()) {
        let job = match &run.declared {
            Some(class) => format!("={class}"),
            None => program_name(&run.name),
        };
        groups.entry((&run.user, job)).or_default().push(run);
    }
    let count = groups.values().map(|group| group.len() as u64).sum();
    let mut jobs: Vec<Row> = groups.into_iter().map(row).collect();
    jobs.sort_by(|a, b| {
        let by_hours = b.unused_cpu_hours.total_cmp(&a.unused_cpu_hours);
        by_hours.then_with(|| (&a.user, &a.job).cmp(&(&b.user, &b.job)))
    });
    Report { runs: count, jobs }
}

fn row(((user, job), group): ((&str, String), Vec<&Run>)) -> Row {
    let past: Vec<Past> = group.iter().filter_map(|run| past_of(run)).collect();
    let advised = advise(&past);
    let unused = group.iter().zip(&past).map(|(run, past)| {
        let unused_s = (u64::from(past.limit_min) * 60).saturating_sub(past.run_s);
        as_f64(unused_s * run.cpus.max(1)) / 3600.0
    });
    Row {
        user: user.to_owned(),
        job,
        runs: past.len(),
        longest_s: past.iter().map(|past| past.run_s).max().unwrap_or(0),
        asked_min: past.last().map_or(0, |past| past.limit_min),
        advised_min: match advised.advice {
            Advice::Shorter(minutes) => Some(minutes),
            _ => None,
        },
        cut: match advised.advice {
            Advice::Longer(cut) => cut,
            _ => 0,
        },
        tried: advised.tried,
        too_short: advised.too_short,
        unused_cpu_hours: unused.sum(),
    }
}

/// Returns what a run says of the time that such jobs need; `None` if it says nothing, or had no
/// limit.
fn past_of(run: &Run) -> Option<Past> {
    let cut = match run.state.split_whitespace().next()? {
        "COMPLETED" => false,
        "TIMEOUT" => true,
        _ => return None,
    };
    Some(Past { run_s: run.elapsed_ms.div_ceil(1000), limit_min: run.limit_min?, cut })
}
