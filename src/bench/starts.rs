// SPDX-License-Identifier: GPL-3.0-or-later
//! Forecasts of starts along logs, compared with the starts that Slurm itself shows: `phalanx-bench
//! starts [FILE...]`.
//!
//! Each log in the Standard Workload Format runs under Slurm's rules, without the daemon's order
//! and with it; once an hour the start of every waiting job is forecast. Without a log: the time of
//! forecasts for 10,000 waiting jobs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use phalanx_core::number::as_f64;
use phalanx_methods::learn::runtime::Runtimes;
use phalanx_planner::order::{Ahead, Forecasts, Rank, Request, Start};
use phalanx_sim::input::open;
use phalanx_sim::job::{SimJob, Workload, read_swf};
use phalanx_sim::schedule::{Scheduler, schedule};
use phalanx_sim::slurm::pool::State;
use phalanx_sim::slurm::{OrderBy, OrderRule, Rules};

/// Prints the figures of each log: of the first forecast of each job, then of all.
pub fn run(files: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    if files.is_empty() {
        large();
        return Ok(());
    }
    let learned =
        OrderRule { by: OrderBy::Learned, short_s: 600, fair_share_percent: 40, max_delta: 1_000 };
    println!(
        "{:<34} {:<8} {:<6} {:>8} {:>9} {:>8} {:>9} {:>9}",
        "log", "policy", "asked", "count", "covered %", "beside", "error s", "Slurm's s"
    );
    for file in files {
        let load = read_swf(open(Path::new(file))?, None)?;
        let name = file.rsplit('/').next().unwrap_or(file);
        for (policy, order) in [("slurm", None), ("phalanx", Some(learned))] {
            let judged = judge(&load, &Rules { order, ..Rules::default() });
            let first: Vec<Judged> = judged.iter().copied().filter(|one| one.first).collect();
            for (asked, list) in [("first", &first), ("hourly", &judged)] {
                let of = Summary::of(list.iter());
                println!(
                    "{name:<34} {policy:<8} {asked:<6} {:>8} {:>9.1} {:>8} {:>9} {:>9}",
                    of.count, of.covered_pct, of.beside, of.error_s, of.slurm_error_s
                );
            }
        }
    }
    Ok(())
}

/// Forecasts for 10,000 waiting jobs beside 2,000 running ones, with a day of arrivals.
fn large() {
    let job = |id: u32| Ahead {
        job: Request {
            id,
            size: u64::from([1_u32, 4, 16, 64, 128][id as usize % 5]),
            limit_s: 3_600 * u64::from(1 + id % 24),
            rank: Rank::ARRIVAL,
        },
        user: u64::from(id % 97),
        mean_s: 900.0 * f64::from(1 + id % 24),
        ran_s: (id < 2_000).then_some(u64::from(id % 900)),
    };
    let jobs: Vec<Ahead> = (0..12_000).map(job).collect();
    let mut forecasts = Forecasts::default();
    for id in 0..10_000 {
        let came = job(id);
        forecasts.arrived(i64::from(id) * 9, 0, came.job, came.user, came.mean_s);
        forecasts.ended(came.user, 100.0, 10 + u64::from(id * 7 % 190));
    }
    let began = Instant::now();
    let time_is_up = || began.elapsed() > Duration::from_millis(1500);
    let found = forecasts.of_pool(100_000, (0, 100_000), &jobs, 40, &time_is_up);
    println!("{} forecasts in {:.2} s", found.len(), began.elapsed().as_secs_f64());
}

/// Time between two rounds of forecasts, seconds.
const ROUND_S: i64 = 3_600;
/// Number of forward runs in each round.
const DRAWS: usize = 20;

/// One forecast of a waiting job, in seconds from its time on.
#[derive(Debug, Clone, Copy)]
struct Judged {
    /// Whether the forecast is the first one of the job.
    first: bool,
    /// Time until the real start.
    wait_s: i64,
    /// The forecast.
    forecast: Start,
    /// The start that Slurm shows, if Slurm shows one.
    slurm_s: Option<i64>,
}

/// Runs a log, and forecasts the start of every waiting job once an hour.
fn judge(load: &Workload, rules: &Rules) -> Vec<Judged> {
    let mut watched = Watched {
        state: State::new(load, rules),
        load,
        runtimes: Runtimes::new(),
        forecasts: Forecasts::default(),
        means_s: BTreeMap::new(),
        running: BTreeMap::new(),
        asked: BTreeMap::new(),
        judged: Vec::new(),
        round_s: i64::MIN,
    };
    schedule(load, load.turnaround_s, &mut watched, &|_| {});
    watched.judged
}

/// The scheduler of a log, and what the daemon would see of it.
struct Watched<'a> {
    state: State<'a>,
    load: &'a Workload,
    runtimes: Runtimes,
    forecasts: Forecasts,
    /// Predicted runtimes of waiting and running jobs.
    means_s: BTreeMap<u32, f64>,
    running: BTreeMap<u32, i64>,
    /// Forecasts of waiting jobs: when each was made, and what it said.
    asked: BTreeMap<u32, Vec<(i64, Start, Option<i64>)>>,
    judged: Vec<Judged>,
    round_s: i64,
}

impl Scheduler for Watched<'_> {
    fn next_s(&self) -> Option<i64> {
        self.state.next_s()
    }

    fn arrived(&mut self, id: u32, job: &SimJob, now_s: i64, started: &mut Vec<u32>) {
        let mean_s = self.runtimes.predict(&job.class()).mean_s;
        self.means_s.insert(id, mean_s);
        self.forecasts.arrived(now_s, 0, request(id, job), job.user, mean_s);
        self.state.arrived(id, job, now_s, started);
    }

    fn ended(&mut self, id: u32, job: &SimJob, now_s: i64) {
        let mean_s = self.means_s.remove(&id).unwrap_or(1.0);
        self.running.remove(&id);
        self.forecasts.ended(job.user, mean_s, job.run_s);
        self.runtimes.observe(&job.class(), job.run_s);
        self.state.ended(id, job, now_s);
    }

    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        self.state.pass(now_s, started);
        started.iter().for_each(|id| self.started(*id, now_s));
        if now_s >= self.round_s {
            self.round_s = now_s + ROUND_S;
            self.ask(now_s);
        }
    }
}

fn request(id: u32, job: &SimJob) -> Request {
    Request { id, size: job.size, limit_s: job.limit_s, rank: Rank::ARRIVAL }
}

impl Watched<'_> {
    fn started(&mut self, id: u32, now_s: i64) {
        self.running.insert(id, now_s);
        self.forecasts.started(id, now_s);
        let asked = self.asked.remove(&id).unwrap_or_default();
        self.judged.extend(asked.iter().enumerate().map(|(at, (at_s, forecast, slurm_s))| {
            Judged {
                first: at == 0,
                wait_s: now_s - at_s,
                forecast: *forecast,
                slurm_s: slurm_s.map(|start_s| start_s - at_s),
            }
        }));
    }

    fn ask(&mut self, now_s: i64) {
        let waiting = self.state.waiting(now_s);
        if waiting.is_empty() {
            return;
        }
        let ran = |id: &u32| self.running.get(id).map(|at_s| now_s.abs_diff(*at_s));
        let ahead = |id: &u32| {
            let job = self.load.jobs.get(*id as usize)?;
            Some(Ahead {
                job: request(*id, job),
                user: job.user,
                mean_s: *self.means_s.get(id)?,
                ran_s: ran(id),
            })
        };
        let jobs: Vec<Ahead> = self.running.keys().chain(&waiting).filter_map(ahead).collect();
        let found = self.forecasts.of_pool(now_s, (0, self.load.cpus), &jobs, DRAWS, &|| false);
        let planned = self.state.planned(now_s);
        for (id, start) in found.into_iter().filter(|(id, _)| !self.running.contains_key(id)) {
            self.asked.entry(id).or_default().push((now_s, start, planned.get(&id).copied()));
        }
    }
}

/// Figures of forecasts.
#[derive(Debug, Clone, Copy, Default)]
struct Summary {
    /// Forecasts judged.
    count: usize,
    /// Percent of starts that came by the end of their forecast.
    covered_pct: f64,
    /// Number of forecasts compared with a start that Slurm showed.
    beside: usize,
    /// Median of the distance of those starts from the forecasts' middle, seconds.
    error_s: u64,
    /// Median of the distance of those starts from the ones that Slurm showed, seconds.
    slurm_error_s: u64,
}

impl Summary {
    /// Sums up.
    fn of<'j>(judged: impl Iterator<Item = &'j Judged>) -> Self {
        let (mut own, mut slurms) = (Vec::new(), Vec::new());
        let (mut count, mut covered) = (0, 0);
        for one in judged {
            count += 1;
            covered += usize::from(one.wait_s <= one.forecast.by_s);
            if let Some(slurm_s) = one.slurm_s {
                own.push(one.wait_s.abs_diff(one.forecast.median_s));
                slurms.push(one.wait_s.abs_diff(slurm_s));
            }
        }
        let middle = |list: &mut Vec<u64>| {
            list.sort_unstable();
            list.get(list.len() / 2).copied().unwrap_or(0)
        };
        Self {
            count,
            covered_pct: 100.0 * as_f64(covered as u64) / as_f64(count.max(1) as u64),
            beside: own.len(),
            error_s: middle(&mut own),
            slurm_error_s: middle(&mut slurms),
        }
    }
}
