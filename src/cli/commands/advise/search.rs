// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings of Slurm that are tried, and the figures by which one is better than another.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::commands::simulate::each;
use crate::exit::Failure;
use phalanx_config::Config;
use phalanx_core::hostlist;
use phalanx_core::number::{as_f64, nearest_u64, nearest_usize};
use phalanx_core::snapshot::Node;
use phalanx_sim::card;
use phalanx_sim::job::Workload;
use phalanx_sim::metrics::Figures;
use phalanx_sim::nodes::load::figures;
use phalanx_sim::nodes::{NodeLoad, Setup, engine};
use phalanx_sim::policy::SLURM;
use phalanx_sim::schedule::Schedule;
use phalanx_sim::slurm::{Parameters, Rules};
use phalanx_sim::waits::wait_s;

/// Numbers of a partition's jobs that backfill reserves nodes for, which are tried; 0: all.
const RESERVED: [i64; 4] = [0, 1, 2, 3];
/// Ages from which on a job gets a reservation or blocks its partition, seconds, which are tried.
const AGES_S: [i64; 6] = [0, 1_800, 3_600, 7_200, 14_400, 28_800];
/// Times between two passes of backfill, seconds, which are tried.
const INTERVALS_S: [i64; 2] = [10, 120];
/// Number of longest waits whose mean counts, since a single one is one job's luck.
const LONGEST: usize = 10;
/// Seconds added to both sides of a ratio, so that differences below a minute hardly count.
const NOTICED_S: f64 = 60.0;
/// Fewest jobs of a class that counts.
const CLASS_MIN: usize = 20;
/// Ratio beyond which growing waits weigh more than the mean of all.
const PENALTY: f64 = 1.25;

/// Settings of Slurm: keys of SchedulerParameters, and Weight of the nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Keys that differ from today's, with their new values.
    pub words: Vec<(&'static str, i64)>,
    pub parameters: Parameters,
    /// Whether nodes get a Weight by their kind.
    pub weights: bool,
}

impl Setting {
    /// Today's.
    pub fn now(parameters: &Parameters) -> Self {
        Self { words: Vec::new(), parameters: parameters.clone(), weights: false }
    }

    /// Writes the setting as it stands in SchedulerParameters.
    pub fn words(&self) -> Vec<String> {
        self.words.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    pub fn name(&self) -> String {
        let weights = self.weights.then(|| "Weight by kind of node".to_owned());
        let words = Some(self.words().join(",")).filter(|words| !words.is_empty());
        let all: Vec<String> = words.into_iter().chain(weights).collect();
        if all.is_empty() { "as it is".to_owned() } else { all.join("; ") }
    }

    /// Copies a setting with another value of one key.
    fn with(&self, key: &'static str, value: i64, now: &Parameters) -> Self {
        let mut other = self.clone();
        let of = &mut other.parameters;
        let differs = match key {
            "bf_job_part_count_reserve" => {
                of.bf_job_part_count_reserve = nearest_usize(nearest_u64(value));
                of.bf_job_part_count_reserve != now.bf_job_part_count_reserve
            }
            "bf_min_age_reserve" => {
                of.bf_min_age_reserve_s = value;
                of.bf_min_age_reserve_s != now.bf_min_age_reserve_s
            }
            "bf_interval" => {
                of.bf_interval_s = of.bf_interval_s.and(Some(value));
                of.bf_interval_s != now.bf_interval_s
            }
            _ => {
                of.bf_window_s = value * 60;
                of.bf_window_s != now.bf_window_s
            }
        };
        other.words.retain(|(own, _)| *own != key);
        if differs {
            other.words.push((key, value));
        }
        other
    }
}

/// Today's setting, and each pair of a number of jobs that get reservations and an age from which
/// on; each with a window as long as the longest limit too, where that is longer.
pub fn pairs(now: &Parameters, longest_s: u64) -> Vec<Setting> {
    let mut found = vec![Setting::now(now)];
    let longest_min = i64::try_from(longest_s / 60).unwrap_or(i64::MAX / 120);
    let windows = [now.bf_window_s / 60, longest_min.max(now.bf_window_s / 60)];
    for window in windows.into_iter().collect::<BTreeSet<i64>>() {
        for count in RESERVED {
            for age_s in AGES_S {
                let setting = Setting::now(now)
                    .with("bf_window", window, now)
                    .with("bf_job_part_count_reserve", count, now)
                    .with("bf_min_age_reserve", age_s, now);
                if !found.contains(&setting) {
                    found.push(setting);
                }
            }
        }
    }
    found
}

/// The settings one step away: in another interval, and with the other Weights.
pub fn steps(of: &Setting, now: &Parameters, weights: bool) -> Vec<Setting> {
    let intervals = INTERVALS_S.into_iter().filter(|_| now.bf_interval_s.is_some());
    let mut found: Vec<Setting> =
        intervals.map(|seconds| of.with("bf_interval", seconds, now)).collect();
    found.extend(weights.then(|| Setting { weights: !of.weights, ..of.clone() }));
    found.retain(|other| other != of);
    found
}

/// The kinds of nodes, with the names of each kind's nodes, in the order in which jobs should take
/// them: without GPUs, with little memory, with few CPUs.
pub fn kinds(load: &NodeLoad) -> Vec<(String, Vec<String>)> {
    let gpus = |node: &Node| {
        node.gres.iter().filter(|of| &*of.kind == "gpu").map(|of| of.total).sum::<u64>()
    };
    let key = |node: &Node| (gpus(node), node.memory_mb, node.cpus);
    let keys: BTreeSet<_> = load.cluster.nodes.iter().map(key).collect();
    let of_kind = |kind: (u64, u64, u64)| {
        let own = load.cluster.nodes.iter().filter(|node| key(node) == kind);
        let (gpus, memory_mb, cpus) = kind;
        let name = format!("{gpus} GPUs, {memory_mb} MB, {cpus} CPUs");
        (name, own.map(|node| node.name.to_string()).collect())
    };
    keys.into_iter().map(of_kind).collect()
}

/// The load with a Weight by kind of node; `None` where nodes are alike, or taken in that order
/// already.
pub fn weighted(load: &NodeLoad) -> Option<NodeLoad> {
    let mut other = load.clone();
    let mut was: Vec<u32> = Vec::new();
    for (weight, (_, names)) in (1u32..).zip(kinds(load)) {
        let own =
            other.cluster.nodes.iter_mut().filter(|node| names.contains(&node.name.to_string()));
        let mut seen = BTreeSet::new();
        for node in own {
            seen.insert(node.weight);
            node.weight = weight * 10;
        }
        was.extend(seen);
    }
    // Weights that rise from kind to kind do the same.
    let rises = was.windows(2).all(|two| two.first() < two.last());
    (was.len() > 1 && !rises).then_some(other)
}

/// The lines of slurm.conf that give each kind of node its Weight.
pub fn weight_lines(load: &NodeLoad) -> Vec<String> {
    let each = (1u32..).zip(kinds(load));
    let line = |(weight, (_, names)): (u32, (String, Vec<String>))| {
        format!("NodeName={} Weight={}", hostlist::compress(&names), weight * 10)
    };
    each.map(line).collect()
}

/// A simulation of Slurm under a setting.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub figures: Figures,
    /// Mean of the longest waits, seconds.
    pub longest_s: f64,
}

/// A load, and the same load with a Weight by kind of node, where that differs.
#[derive(Debug)]
pub struct Loads {
    pub load: NodeLoad,
    pub weighted: Option<NodeLoad>,
    pub pool: Workload,
}

impl Loads {
    pub fn new(load: NodeLoad) -> Self {
        Self { weighted: weighted(&load), pool: load.workload(), load }
    }
}

/// Runs each of `loads` under each of `settings`; returns for each setting its runs.
pub fn under(loads: &[Loads], settings: &[Setting]) -> Result<Vec<Vec<Run>>, Failure> {
    let config = Config::default();
    let all: Vec<(usize, usize)> =
        (0..settings.len()).flat_map(|at| (0..loads.len()).map(move |of| (at, of))).collect();
    let steps = loads.first().map_or(0, |of| of.load.jobs.len());
    let found = each(None, &all, steps, |(at, of), progress| {
        let (Some(setting), Some(loads)) = (settings.get(*at), loads.get(*of)) else {
            return Ok(Run::default());
        };
        let heavier = loads.weighted.as_ref().filter(|_| setting.weights);
        let load = heavier.unwrap_or(&loads.load);
        let rules = Rules { parameters: setting.parameters.clone(), ..Rules::default() };
        let setup = Setup::of(&SLURM, &config.tuning(), &config.gang_settings(), &rules);
        let outcome = engine::run(load, &setup, None, progress)?;
        let (mut figures, schedule) = figures(&setting.name(), &loads.pool, &outcome);
        figures.card = Some(card::of(&loads.pool, &schedule, None));
        let longest_s = longest_s(&loads.pool, &schedule);
        Ok(Run { figures, longest_s })
    });
    let found: Result<Vec<Run>, String> = found.into_iter().collect();
    let found = found.map_err(Failure::usage_line)?;
    Ok(found.chunks(loads.len().max(1)).map(<[Run]>::to_vec).collect())
}

fn longest_s(pool: &Workload, schedule: &Schedule) -> f64 {
    let jobs = pool.jobs.iter().zip(&schedule.starts_s).skip(pool.held);
    let mut waits: Vec<Reverse<i64>> =
        jobs.map(|(job, start_s)| Reverse(wait_s(job, *start_s))).collect();
    waits.sort_unstable();
    waits.truncate(LONGEST);
    #[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
    let sum: f64 = waits.iter().map(|Reverse(seconds)| *seconds as f64).sum();
    sum / as_f64(waits.len().max(1) as u64)
}

/// Ratios of waits under a setting to the waits under today's setting.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ratios {
    /// Setting, as in SchedulerParameters.
    pub setting: String,
    /// Geometric mean of the ratios of the classes' medians and 95th percentiles, times the excess
    /// of ratios beyond 1.25.
    pub score: f64,
    pub wait_mean: f64,
    pub wait_by_work: f64,
    pub wait_p95: f64,
    /// Ratio of the mean of the ten longest waits.
    pub wait_longest: f64,
    /// The largest ratio of a class's median or 95th percentile, of the node-hour wait and of the
    /// ten longest waits.
    pub worst: f64,
    /// Name of the figure with the largest ratio.
    pub worst_of: String,
}

impl Ratios {
    /// Compares runs of the same loads under a setting and under today's.
    pub fn new(setting: &str, now: &[Run], then: &[Run]) -> Self {
        let ratio = |of: &dyn Fn(&Run) -> Option<f64>, more_s: f64| {
            let sum = |runs: &[Run]| runs.iter().filter_map(of).sum::<f64>();
            let more = more_s * as_f64(now.len().max(1) as u64);
            (sum(then) + more) / (sum(now) + more)
        };
        #[allow(clippy::cast_precision_loss)] // seconds stay below 2^53
        let whole = |seconds: Option<i64>| seconds.map(|seconds| seconds as f64);
        let wait_by_work = ratio(&|of| of.figures.card.as_ref()?.wait_by_work_s, NOTICED_S);
        let wait_longest = ratio(&|of| Some(of.longest_s), NOTICED_S);
        let mut worst = (wait_by_work, "the wait by node-hours".to_owned());
        let mut see = |ratio: f64, of: String| {
            if ratio > worst.0 {
                worst = (ratio, of);
            }
        };
        see(wait_longest, "the ten longest waits".to_owned());
        let mut all = Vec::new();
        let classes = now.first().and_then(|of| of.figures.card.as_ref()).map(|of| &of.classes);
        for class in classes.into_iter().flatten().filter(|class| class.jobs >= CLASS_MIN) {
            let of = |run: &Run, median: bool| {
                let own = run.figures.card.as_ref()?.classes.iter();
                let own = own.clone().find(|of| (of.size, of.run) == (class.size, class.run))?;
                whole(Some(if median { own.wait_p50_s } else { own.wait_p95_s }))
            };
            for (median, what) in [(true, "median"), (false, "95 %")] {
                let ratio = ratio(&|run| of(run, median), NOTICED_S);
                all.push(ratio);
                see(ratio, format!("the {what} of jobs {}, {}", class.size, class.run));
            }
        }
        let mean =
            all.iter().map(|ratio| ratio.ln()).sum::<f64>() / as_f64(all.len().max(1) as u64);
        let harms = all.iter().chain([&wait_by_work, &wait_longest]);
        let penalty: f64 = harms.map(|ratio| (ratio / PENALTY).max(1.0)).product();
        let (worst, worst_of) = worst;
        Self {
            setting: setting.to_owned(),
            score: mean.exp() * penalty,
            wait_mean: ratio(&|of| of.figures.wait_mean_s, 1.0),
            wait_by_work,
            wait_p95: ratio(&|of| whole(of.figures.wait_p95_s), 1.0),
            wait_longest,
            worst,
            worst_of,
        }
    }
}

/// The settings that were tried, with the ratios of their figures to today's, and today's runs.
type Tried = (Vec<(Setting, Ratios)>, Vec<Run>);

/// Tries settings by coordinate descent on one load, without today's.
pub fn search(loads: &[Loads], now: &Parameters) -> Result<Tried, Failure> {
    let jobs = loads.iter().flat_map(|of| &of.pool.jobs);
    let longest_s = jobs.map(|job| job.limit_s).max().unwrap_or(0);
    let grid = pairs(now, longest_s);
    let mut runs = under(loads, &grid)?.into_iter();
    let today = runs.next().unwrap_or_default();
    let ratios = |setting: &Setting, runs: &[Run]| Ratios::new(&setting.name(), &today, runs);
    let mut tried: Vec<(Setting, Ratios)> = grid
        .iter()
        .skip(1)
        .zip(runs)
        .map(|(setting, runs)| (setting.clone(), ratios(setting, &runs)))
        .collect();
    let has_weights = loads.iter().any(|of| of.weighted.is_some());
    let mut from = Setting::now(now);
    let mut least = 1.0;
    loop {
        let best = tried.iter().min_by(|a, b| a.1.score.total_cmp(&b.1.score));
        match best.filter(|(_, of)| of.score < least) {
            Some((setting, of)) => (from, least) = (setting.clone(), of.score),
            None if tried.iter().any(|(of, _)| of.weights) || !has_weights => break,
            None => {}
        }
        let seen = |of: &Setting| tried.iter().any(|(own, _)| own == of);
        let next = steps(&from, now, has_weights).into_iter().filter(|of| !seen(of));
        let mut next: Vec<Setting> = next.collect();
        let alone = Setting { weights: has_weights, ..Setting::now(now) };
        if has_weights && !seen(&alone) && !next.contains(&alone) {
            next.push(alone);
        }
        if next.is_empty() {
            break;
        }
        let runs = under(loads, &next)?;
        tried.extend(next.into_iter().zip(runs).map(|(setting, runs)| {
            let of = ratios(&setting, &runs);
            (setting, of)
        }));
    }
    Ok((tried, today))
}

/// The best of a few settings that help at many sites: one reservation a partition, that of jobs of
/// four hours, Weight by kind of node; `None` where none shortens waits without harm.
pub fn quick(loads: &[Loads], now: &Parameters) -> Result<Option<Setting>, Failure> {
    let as_is = Setting::now(now);
    let pair = as_is.with("bf_job_part_count_reserve", 1, now).with(
        "bf_min_age_reserve",
        QUICK_AGE_S,
        now,
    );
    let mut settings = vec![as_is.clone()];
    let weights = loads.iter().any(|of| of.weighted.is_some());
    for weights in [false, true].into_iter().take(1 + usize::from(weights)) {
        for base in [&as_is, &pair] {
            let setting = Setting { weights, ..base.clone() };
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
    }
    let mut runs = under(loads, &settings)?.into_iter();
    let today = runs.next().unwrap_or_default();
    let stranded =
        |runs: &[Run]| runs.iter().filter_map(|run| run.figures.stranded.get("gpu")).sum::<f64>();
    let judged = settings.into_iter().skip(1).zip(runs).map(|(setting, runs)| {
        let of = Ratios::new(&setting.name(), &today, &runs);
        (of, stranded(&runs) - stranded(&today), setting)
    });
    let helps = judged.filter(|(of, stranded, _)| {
        of.worst <= QUICK_WORST && (of.score < QUICK_GAIN || *stranded < -STRANDED)
    });
    Ok(helps.min_by(|a, b| a.0.score.total_cmp(&b.0.score)).map(|(.., setting)| setting))
}

/// Age of [`quick`], seconds, the harm that it accepts, and the least gain in waits or in
/// percentage points of stranded GPUs.
const QUICK_AGE_S: i64 = 14_400;
const QUICK_WORST: f64 = 1.1;
const QUICK_GAIN: f64 = 0.97;
const STRANDED: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_tried_and_the_window_where_limits_are_longer() {
        let names = |now: &Parameters, longest_s| {
            let all = pairs(now, longest_s);
            all.into_iter().map(|of| of.name()).collect::<Vec<_>>()
        };
        let all = names(&Parameters::default(), 60);
        assert_eq!((all[0].as_str(), all.len()), ("as it is", 24), "{all:?}");
        let both = "bf_job_part_count_reserve=1,bf_min_age_reserve=14400";
        assert!(all.contains(&both.to_owned()), "{all:?}");
        let all = names(&Parameters::default(), 604_800);
        assert_eq!(all.len(), 48);
        assert!(all.contains(&format!("bf_window=10080,{both}")), "{all:?}");
        let one = Parameters { bf_job_part_count_reserve: 1, ..Parameters::default() };
        assert!(names(&one, 60).contains(&"bf_job_part_count_reserve=0".to_owned()));
    }

    #[test]
    fn harm_costs_more_than_it_gains() {
        let run = |waits: [i64; 2], longest_s| {
            let class = |size, wait_s| card::ClassWaits {
                size,
                run: "longer",
                jobs: 100,
                wait_p50_s: wait_s,
                wait_p95_s: wait_s,
            };
            let classes = vec![class("to 1 %", waits[0]), class("larger", waits[1])];
            let card = card::Card { classes, ..card::Card::default() };
            let figures = Figures { card: Some(card), ..Figures::default() };
            Run { figures, longest_s }
        };
        let now = [run([6000, 6000], 9000.0)];
        let of = |waits, longest_s| Ratios::new("x", &now, &[run(waits, longest_s)]);
        let good = of([3000, 6000], 9000.0);
        assert!(good.score < 0.75 && good.worst <= 1.0, "{good:?}");
        let bad = of([1500, 12_000], 9000.0);
        assert!(bad.score > 1.0 && bad.worst > 1.9, "{bad:?}");
        assert!(bad.worst_of.contains("larger"), "{bad:?}");
        assert!(of([3000, 6000], 90_000.0).score > good.score * 5.0, "the longest count");
    }
}
