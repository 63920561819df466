// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs that are yet to be submitted, as a history makes them likely.
//!
//! Each class of jobs (user and job class) arrives as a Poisson process whose
//! rate follows the hour: of the week if the history is long enough, else of
//! the day, else one rate. A rate is the class's arrivals in that hour over how
//! often the hour was seen, drawn to the class's overall rate by
//! [`PRIOR_HOURS`]. A sampled job is one of the runs of its class: its request,
//! limit and runtime. Same history, time and seed give the same jobs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::nodes::load::shape_of;
use super::nodes::{NodeJob, NodeLoad};
use phalanx_core::number::{nearest_u64, nearest_usize, whole};
use phalanx_core::random::Stream;
use phalanx_core::run::Run;
use phalanx_core::snapshot::Job;
use phalanx_core::trace::sacct::Row;
use phalanx_methods::learn::JobTraits;
use phalanx_methods::learn::runtime::JobClass;

/// Shortest history, hours, that gives rates.
const HOURS_MIN: usize = 24;
/// Fewest runs of a history that gives rates.
const RUNS_MIN: usize = 20;
/// Hours of history from which rates follow the hour of the day.
const DAILY_HOURS: usize = 3 * 24;
/// Hours of history from which on the hour of the week is used.
const WEEKLY_HOURS: usize = 3 * 7 * 24;
/// Times that an hour counts as seen at the overall rate.
const PRIOR_HOURS: f64 = 2.0;
/// Most jobs that are sampled.
const SAMPLED_MAX: usize = 200_000;
/// First id of sampled jobs, beyond Slurm's largest job id.
const FIRST_ID: u32 = 0x8000_0000;
const HOUR_S: i64 = 3600;

/// Sampled arrivals and the generator that samples them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Jobs sampled.
    pub jobs: usize,
    /// Number of sampled jobs that fit no node even when it is idle.
    pub skipped: u64,
    /// Runs that the rates come from.
    pub runs: usize,
    /// Hours that the runs behind the rates span.
    pub hours: usize,
    /// Classes of jobs.
    pub classes: usize,
    /// `week`, `day` or `none`: the period over which rates differ by the hour.
    pub rates_by: String,
    /// Reason for which no new job arrives, if none does.
    pub none: Option<String>,
}

/// Classes of hours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Week,
    Day,
    Nothing,
}

impl By {
    fn bins(self) -> usize {
        match self {
            Self::Week => 168,
            Self::Day => 24,
            Self::Nothing => 1,
        }
    }

    fn bin(self, at_s: i64, zone: &TimeZone) -> usize {
        // Submissions are read as times of the calendar, so that each has its hour.
        let time = Timestamp::from_second(at_s).unwrap_or_default().to_zoned(zone.clone());
        let hour = usize::from(time.hour().unsigned_abs());
        let day = usize::from(time.weekday().to_monday_zero_offset().unsigned_abs());
        match self {
            Self::Week => day * 24 + hour,
            Self::Day => hour,
            Self::Nothing => 0,
        }
    }
}

/// Adds the arrivals of `hours` from the beginning of `load` on.
pub fn add(load: &mut NodeLoad, runs: &[Run], hours: f64, seed: u64, zone: &TimeZone) -> Arrivals {
    let now_s = load.begin_s;
    let runs: Vec<&Run> =
        runs.iter().filter(|run| run.submit_s > 0 && run.submit_s < now_s).collect();
    let from_s = runs.iter().map(|run| run.submit_s).min().unwrap_or(now_s);
    let seen_h = now_s.saturating_sub(from_s) / HOUR_S;
    let seen = nearest_usize(nearest_u64(seen_h));
    let mut told = Arrivals { runs: runs.len(), hours: seen, ..Arrivals::default() };
    if seen < HOURS_MIN || runs.len() < RUNS_MIN {
        told.none = Some(format!(
            "the history is too thin ({} runs in {seen} h, needed are {RUNS_MIN} in {HOURS_MIN} h)",
            runs.len()
        ));
        return told;
    }
    let (by, word) = match seen {
        WEEKLY_HOURS.. => (By::Week, "week"),
        DAILY_HOURS.. => (By::Day, "day"),
        _ => (By::Nothing, "none"),
    };
    word.clone_into(&mut told.rates_by);
    let mut exposure = vec![0.0; by.bins()];
    for hour in 1..=seen_h {
        if let Some(slot) = exposure.get_mut(by.bin(now_s - HOUR_S * hour, zone)) {
            *slot += 1.0;
        }
    }
    let mut classes: BTreeMap<(&str, &str), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        classes.entry((run.user.as_str(), run.class.as_str())).or_default().push(run);
    }
    told.classes = classes.len();
    let mut sampler = Sampler { by, zone, exposure, seen, now_s, hours, seed };
    let mut jobs: Vec<NodeJob> = Vec::new();
    for of_class in classes.values() {
        sampler.class(of_class, load, &mut jobs);
    }
    jobs.sort_by_key(|job| job.job.submit_s);
    jobs.truncate(SAMPLED_MAX);
    for (job, id) in jobs.iter_mut().zip(FIRST_ID..) {
        job.job.id = id;
        job.job.label = format!("new {}", id - FIRST_ID + 1).into();
    }
    told.jobs = jobs.len();
    let before = load.skipped;
    load.jobs.append(&mut jobs);
    load.drop_impossible();
    told.skipped = load.skipped - before;
    load.skipped = before;
    told.jobs -= nearest_usize(told.skipped);
    told
}

struct Sampler<'a> {
    by: By,
    zone: &'a TimeZone,
    exposure: Vec<f64>,
    seen: usize,
    now_s: i64,
    hours: f64,
    seed: u64,
}

impl Sampler<'_> {
    fn class(&mut self, runs: &[&Run], load: &NodeLoad, jobs: &mut Vec<NodeJob>) {
        let mut counts = vec![0.0; self.by.bins()];
        for run in runs {
            if let Some(slot) = counts.get_mut(self.by.bin(run.submit_s, self.zone)) {
                *slot += 1.0;
            }
        }
        let overall = runs.len() as f64 / self.seen.max(1) as f64;
        // Each class has numbers of its own, so that one more class moves no other's.
        self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let mut random = Stream::new(self.seed);
        let mean_s = runs.iter().map(|run| run.elapsed_ms as f64 / 1000.0).sum::<f64>()
            / runs.len().max(1) as f64;
        let mut at_h = 0.0;
        while at_h < self.hours {
            let end_h = (at_h + 1.0_f64).floor().min(self.hours).max(at_h + 1e-6);
            let bin = self.by.bin(self.at_s(at_h), self.zone);
            let (seen, count) = (self.exposure.get(bin), counts.get(bin));
            let (seen, count) = (seen.copied().unwrap_or(0.0), count.copied().unwrap_or(0.0));
            let rate = (count + PRIOR_HOURS * overall) / (seen + PRIOR_HOURS);
            let mut time_h = at_h;
            loop {
                // Above 0 and at most 1.
                let unit = random.unit() + f64::EPSILON / 2.0;
                time_h -= unit.ln() / rate;
                if time_h >= end_h || jobs.len() >= SAMPLED_MAX {
                    break;
                }
                let pick = random.bits() % (runs.len().max(1) as u64);
                let run = usize::try_from(pick).ok().and_then(|at| runs.get(at));
                let job = run.and_then(|run| job_of(run, self.at_s(time_h), mean_s, load));
                jobs.extend(job);
            }
            at_h = end_h;
        }
    }

    fn at_s(&self, hour: f64) -> i64 {
        self.now_s.saturating_add_unsigned(whole((hour * 3600.0).min(1e9)))
    }
}

/// Makes a job like the run; `None` where the run's request is not known.
fn job_of(run: &Run, submit_s: i64, mean_s: f64, load: &NodeLoad) -> Option<NodeJob> {
    let row = Row {
        tres_req: run.tres_req.clone(),
        tres_alloc: run.tres_alloc.clone(),
        cpus: run.cpus,
        node_count: run.node_count,
        ..Row::default()
    };
    let shape = shape_of(&row, &load.cluster).ok()?;
    let traits = JobTraits::of_run(run);
    let class =
        JobClass { size: u64::from(shape.min_cpus.max(1)), ..JobClass::of(&traits, run.limit_min) };
    let run_s = (run.elapsed_ms / 1000).clamp(1, class.limit_s.max(1));
    let job = Job {
        task_count: 1,
        user: run.user.as_str().into(),
        account: run.account.as_str().into(),
        name: run.name.as_str().into(),
        partitions: run.partition.as_str().into(),
        tres_req: run.tres_req.as_str().into(),
        priority: 1,
        submit_s,
        time_limit_min: run.limit_min,
        shape,
        ..Job::default()
    };
    let expected_s = Some(mean_s.clamp(1.0, class.limit_s.max(1) as f64));
    let limit_s = class.limit_s;
    let job = NodeJob { job, run_s, limit_s, class, expected_s, ..NodeJob::default() };
    Some(NodeJob { sampled: true, ..job })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::load::{PARTITION, Site, idle};
    use phalanx_core::trace::spec;

    const NOW_S: i64 = 1_700_000_000 / 3600 * 3600;

    fn run(hours_ago: i64, user: &str) -> Run {
        Run {
            user: user.to_owned(),
            class: "train".to_owned(),
            name: "train".to_owned(),
            partition: PARTITION.to_owned(),
            submit_s: NOW_S - hours_ago * HOUR_S,
            elapsed_ms: 600_000,
            limit_min: Some(60),
            tres_req: "cpu=2,node=1".to_owned(),
            ..Run::default()
        }
    }

    fn sampled(runs: &[Run], seed: u64) -> (Arrivals, Vec<(i64, u32)>) {
        let nodes = spec::parse("4x(cpu=8)").unwrap();
        let mut load = NodeLoad { begin_s: NOW_S, ..idle(&Site::of(&nodes)).unwrap() };
        let told = add(&mut load, runs, 48.0, seed, &TimeZone::UTC);
        let jobs = load.jobs.iter().map(|j| (j.job.submit_s, j.job.shape.min_cpus)).collect();
        (told, jobs)
    }

    /// Goal: where ten jobs a day came in the same hour for 40 days, drawn arrivals keep to that.
    #[test]
    fn arrivals_keep_rate_and_hour() {
        let runs: Vec<Run> =
            (0..400).map(|i| run((i / 10) * 24 + 5, if i % 2 == 0 { "a" } else { "b" })).collect();
        let (told, jobs) = sampled(&runs, 7);
        assert_eq!((told.rates_by.as_str(), told.classes, told.skipped), ("week", 2, 0));
        assert!((8..=35).contains(&jobs.len()), "20 in 2 days, got {}", jobs.len());
        let hour = (NOW_S / HOUR_S - 5) % 24;
        let there = jobs.iter().filter(|(at, _)| (at / HOUR_S) % 24 == hour).count();
        assert!(there * 3 > jobs.len(), "{there} of {}", jobs.len());
        assert!(jobs.iter().all(|(at, cpus)| *at >= NOW_S && *cpus == 2));
        assert_eq!(sampled(&runs, 7).1, jobs);
        assert_ne!(sampled(&runs, 8).1, jobs);
    }

    #[test]
    fn a_thin_history_says_so() {
        let few: Vec<Run> = (0..5).map(|i| run(i * 24 + 1, "a")).collect();
        let (told, jobs) = sampled(&few, 1);
        assert!(told.none.unwrap().contains("too thin (5 runs in 97 h"));
        assert!(jobs.is_empty());
    }
}
