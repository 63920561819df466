// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx advise slurm.conf`: settings of backfill that would have shortened waits.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::commands::simulate::{each, figures_text, rules};
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::{Outcome, note_left_out};
use crate::site;
use crate::slurm_conf::SlurmConf as Conf;
use crate::text::{heading, table_of, wrapped};
use phalanx_config::Config;
use phalanx_core::problem::InputError;
use phalanx_sim::metrics::{Figures, span};
use phalanx_sim::nodes::load::figures;
use phalanx_sim::nodes::{NodeLoad, Setup, accounted::read_sacct, engine};
use phalanx_sim::policy::SLURM;
use phalanx_sim::pool::Schedule;
use phalanx_sim::slurm::{Parameters, Rules};
use phalanx_sim::{card, input};

/// Share of the jobs, the oldest, on which a setting is chosen, percent.
const CHOSEN_ON: usize = 60;
/// Arrivals of the rest, closer together and farther apart, percent.
const SHIFTS: [i64; 5] = [94, 97, 100, 103, 106];
/// Ratio below which waits have to come for a change to be advised.
const GAIN: f64 = 0.95;
/// Ratio up to which 95th percentile, longest wait and wait by node-hours may grow.
const HARM: f64 = 1.1;

/// Show the SchedulerParameters that would have shortened waits on this cluster
///
/// Jobs of the accounting are simulated under Slurm's own rules with few settings of backfill. One
/// is chosen on the first 60 % of the jobs, and shown on the rest, whose arrivals are also drawn
/// together and apart by up to 6 %. Nothing is changed, and no daemon is needed.
#[derive(clap::Args, Debug)]
pub struct SlurmConf {
    /// Accounting: the output of sacct --parsable2 (plain, .gz or .zst; - is standard input)
    #[arg(long, value_name = "FILE")]
    sacct: PathBuf,
    /// Nodes, partitions and scheduling
    #[arg(long, value_name = "FILE", default_value = "/etc/slurm/slurm.conf")]
    slurm_conf: PathBuf,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    /// The line for slurm.conf; absent where nothing is better.
    line: Option<String>,
    /// Settings with ratios of their waits to those of today's, on the first jobs.
    tried: Vec<Tried>,
    /// The setting that was chosen there, and today's, on the rest.
    then: Option<Figures>,
    now: Figures,
    /// Least and largest ratio of the mean waits over the shifts of the rest.
    spread: Option<[f64; 2]>,
    /// Verdict in a sentence.
    sentence: String,
}

/// Ratios of waits under a setting to those under today's.
#[derive(Debug, Clone, Serialize)]
struct Tried {
    /// Setting, as in SchedulerParameters.
    setting: String,
    wait_mean: f64,
    wait_by_work: f64,
    wait_p95: f64,
    wait_max: f64,
}

impl Tried {
    fn new(setting: &str, now: &Figures, then: &Figures) -> Self {
        // A second more on both sides: nobody notices, and nothing is divided by 0.
        let ratio = |of: fn(&Figures) -> Option<f64>| {
            (of(then).unwrap_or(0.0) + 1.0) / (of(now).unwrap_or(0.0) + 1.0)
        };
        #[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
        let whole = |seconds: Option<i64>| seconds.map_or(0.0, |seconds| seconds as f64) + 1.0;
        Self {
            setting: setting.to_owned(),
            wait_mean: ratio(|of| of.wait_mean_s),
            wait_by_work: ratio(|of| of.card.as_ref()?.wait_by_work_s),
            wait_p95: whole(then.wait_p95_s) / whole(now.wait_p95_s),
            wait_max: whole(then.wait_max_s) / whole(now.wait_max_s),
        }
    }

    fn is_better(&self) -> bool {
        let harm = [self.wait_by_work, self.wait_p95, self.wait_max];
        self.wait_mean < GAIN && harm.iter().all(|ratio| *ratio <= HARM)
    }
}

impl SlurmConf {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let site = site::of_conf(&self.slurm_conf)?;
        let now = rules::rules(None, Some(&self.slurm_conf))?.parameters;
        let name = input::shown(&self.sacct);
        let load = read_sacct(input::open(&self.sacct)?, &TimeZone::system(), &site)
            .map_err(|error| Failure::usage_line(InputError::new(&name, error)))?;
        note_left_out(&name, &load.left_out);
        let (first, rest) = parts(&load);
        let grid = grid(&now, first.jobs.iter().map(|job| job.limit_s).max().unwrap_or(0));
        let found = under(&first, &grid)?;
        let today = found.first().cloned().unwrap_or_default();
        let named = grid.iter().zip(&found).skip(1);
        let tried: Vec<Tried> =
            named.map(|((setting, _), of)| Tried::new(setting, &today, of)).collect();
        let best = tried.iter().filter(|tried| tried.is_better());
        let best = best.min_by(|a, b| a.wait_mean.total_cmp(&b.wait_mean)).cloned();
        let pair: Vec<(String, Parameters)> = grid
            .into_iter()
            .enumerate()
            .filter(|(at, (of, _))| *at == 0 || best.as_ref().is_some_and(|b| b.setting == *of))
            .map(|(_, of)| of)
            .collect();
        let mut report = Report {
            line: None,
            tried,
            then: None,
            now: Figures::default(),
            spread: None,
            sentence: "Leave SchedulerParameters as it is: no setting shortens waits on the first \
                       60 % of the jobs without making others longer."
                .to_owned(),
        };
        let mut ratios = Vec::new();
        for percent in SHIFTS.into_iter().filter(|at| best.is_some() || *at == 100) {
            let mut both = under(&shifted(&rest, percent), &pair)?.into_iter();
            let (Some(now), then) = (both.next(), both.next()) else { continue };
            ratios.extend(then.iter().map(|then| Tried::new("", &now, then).wait_mean));
            if percent == 100 {
                (report.now, report.then) = (now, then);
            }
        }
        if let (Some(best), Some(then)) = (best, &report.then) {
            let on_rest = Tried::new(&best.setting, &report.now, then);
            let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let high = ratios.iter().copied().fold(0.0, f64::max);
            report.spread = Some([low, high]);
            let holds = on_rest.is_better() && high < 1.0;
            report.line = holds.then(|| line(&self.slurm_conf, &best.setting)).transpose()?;
            report.sentence = format!(
                "{}: mean wait {} with {}, {} without; {:.2} to {:.2} times with arrivals shifted.",
                if holds {
                    "Set it"
                } else {
                    "Leave it: what the first jobs gain, the rest do not"
                },
                span(then.wait_mean_s.unwrap_or(0.0)),
                best.setting,
                span(report.now.wait_mean_s.unwrap_or(0.0)),
                low,
                high
            );
        }
        global.show(&report, text)
    }
}

/// The first jobs, and the rest.
fn parts(load: &NodeLoad) -> (NodeLoad, NodeLoad) {
    let (mut first, mut rest) = (load.clone(), load.clone());
    let count = load.jobs.len() * CHOSEN_ON / 100;
    first.jobs.truncate(count);
    rest.jobs.drain(..count);
    rest.begin_s = rest.jobs.first().map_or(load.begin_s, |job| job.job.submit_s);
    (first, rest)
}

/// Jobs whose arrivals are so many percent of the time apart.
fn shifted(load: &NodeLoad, percent: i64) -> NodeLoad {
    let mut load = load.clone();
    for job in &mut load.jobs {
        let since_s = job.job.submit_s.saturating_sub(load.begin_s);
        job.job.submit_s = load.begin_s.saturating_add(since_s.saturating_mul(percent) / 100);
    }
    load
}

/// Today's settings, and each that is tried.
fn grid(now: &Parameters, longest_s: u64) -> Vec<(String, Parameters)> {
    let mut found = vec![("as it is".to_owned(), now.clone())];
    let mut add = |key: &str, value: i64, set: &dyn Fn(&mut Parameters)| {
        let mut other = now.clone();
        set(&mut other);
        if other != *now {
            found.push((format!("{key}={value}"), other));
        }
    };
    for count in [0, 1, 3, 10] {
        let set = |of: &mut Parameters| of.bf_job_part_count_reserve = count;
        add("bf_job_part_count_reserve", i64::try_from(count).unwrap_or(0), &set);
    }
    for seconds in [0, 1800, 14_400] {
        add("bf_min_age_reserve", seconds, &|of| of.bf_min_age_reserve_s = seconds);
    }
    for seconds in [10, 120] {
        add("bf_interval", seconds, &|of| of.bf_interval_s = of.bf_interval_s.and(Some(seconds)));
    }
    let longest_s = i64::try_from(longest_s).unwrap_or(i64::MAX);
    if longest_s > now.bf_window_s {
        add("bf_window", longest_s / 60, &|of| of.bf_window_s = longest_s / 60 * 60);
    }
    found
}

/// The figures of Slurm under each of these, each compared with the first.
fn under(load: &NodeLoad, settings: &[(String, Parameters)]) -> Result<Vec<Figures>, Failure> {
    let pool = load.workload();
    let config = Config::default();
    let found = each(None, settings, load.jobs.len(), |(name, parameters), progress| {
        let rules = Rules { parameters: parameters.clone(), ..Rules::default() };
        let setup = Setup::of(&SLURM, &config.tuning(), &config.gang_settings(), &rules);
        Ok(figures(name, &pool, &engine::run(load, &setup, None, progress)?))
    });
    let found: Result<Vec<(Figures, Schedule)>, String> = found.into_iter().collect();
    let mut found = found.map_err(Failure::usage_line)?;
    card::fill(&pool, &mut found, 0);
    Ok(found.into_iter().map(|(figures, _)| figures).collect())
}

/// The line of slurm.conf with a setting instead of its own.
fn line(conf: &std::path::Path, setting: &str) -> Result<String, Failure> {
    let conf = Conf::read(conf).map_err(Failure::usage_line)?;
    let now = conf.get("SchedulerParameters").map_or("", |(value, _)| value);
    let key = |word: &str| word.split('=').next().unwrap_or_default().trim().to_lowercase();
    let kept = now.split(',').filter(|word| !word.is_empty() && key(word) != key(setting));
    let words: Vec<&str> = kept.chain([setting]).collect();
    Ok(format!("SchedulerParameters={}", words.join(",")))
}

fn text(report: &Report) -> String {
    let mut out = wrapped(&report.sentence, "");
    if let Some(line) = &report.line {
        out.push_str(&format!("\n{line}\n"));
    }
    heading(&mut out, "The last 40 % of the jobs");
    let columns: Vec<&Figures> = [&report.now].into_iter().chain(&report.then).collect();
    out.push_str(&figures_text(&columns, &[]));
    heading(&mut out, "Tried on the first 60 %: ratios to the settings as they are");
    let ratio = |value: f64| format!("{value:.2}");
    table_of(&report.tried)
        .left("Setting", |of| of.setting.clone())
        .right("Mean wait", |of| ratio(of.wait_mean))
        .right("By node-hours", |of| ratio(of.wait_by_work))
        .right("95 %", |of| ratio(of.wait_p95))
        .right("Longest", |of| ratio(of.wait_max))
        .add_to(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_what_differs_from_today() {
        let of = |now: &Parameters, longest_s| {
            let grid = grid(now, longest_s);
            grid.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let names = of(&Parameters::default(), 604_800);
        assert_eq!((names[0].as_str(), names.len()), ("as it is", 9), "{names:?}");
        assert!(names.contains(&"bf_window=10080".to_owned()), "{names:?}");
        let one = Parameters { bf_job_part_count_reserve: 1, ..Parameters::default() };
        let names = of(&one, 60);
        assert!(names.contains(&"bf_job_part_count_reserve=0".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("bf_window")), "{names:?}");
    }

    #[test]
    fn who_gains_at_the_cost_of_others_is_not_better() {
        let of = |wait_mean, wait_max| Tried {
            setting: String::new(),
            wait_mean,
            wait_by_work: 1.0,
            wait_p95: 1.0,
            wait_max,
        };
        assert!(of(0.9, 1.1).is_better());
        assert!(!of(0.9, 1.2).is_better() && !of(0.96, 1.0).is_better());
    }
}
