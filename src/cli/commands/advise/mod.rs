// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx advise`: better requests for users, and better settings for sites.

mod render;
mod report;
pub mod search;
mod slurm_conf;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use jiff::tz::TimeZone;
use nix::unistd::{User, geteuid};

use crate::commands::history::run_of;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::{Outcome, note_left_out};
use crate::time::since_ms;
use phalanx_core::run::Run;
use phalanx_core::trace::{LeftOut, sacct};
use phalanx_messages::rest::RunsReport;
use phalanx_sim::input;
use report::Report;

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
        global.show(&Report::of(&runs), |report| render::text(report, user.as_deref()))
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
