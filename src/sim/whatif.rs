// SPDX-License-Identifier: GPL-3.0-or-later
//! The live queue under two configurations, side by side.

use phalanx_core::number::whole;
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::metrics::Figures;
use super::nodes::{LeafFigures, NodeLoad, Outcome, Setup, engine};

/// Change of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobChange {
    /// Id of the job as users write it.
    pub job: String,
    /// User's name.
    pub user: String,
    /// Seconds from now until the job starts under today's configuration; absent if not within the
    /// period.
    pub today_s: Option<i64>,
    /// Seconds from now until the job starts under the other configuration.
    pub then_s: Option<i64>,
}

/// A configuration over the period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Pending jobs that start within the period.
    pub starts: usize,
    /// Mean seconds from now to the start, of jobs that start under both configurations.
    pub wait_mean_s: f64,
    /// Longest wait from now of jobs that start under both.
    pub wait_max_s: i64,
    /// Number of new jobs that start within the period, of those that are likely to come.
    pub new_starts: usize,
    /// Mean seconds from submission to start of the new jobs that start.
    pub new_wait_mean_s: Option<f64>,
    /// Shares of CPUs, memory and GPUs in use, until the last job ends or over the period.
    pub utilization: super::metrics::Utilization,
    /// GPUs that are free but of no use to the queue's mix, percent of all.
    pub gpu_fragmented_pct: Option<f64>,
    /// Percent of each resource that is free on nodes where another resource is used up.
    pub stranded: std::collections::BTreeMap<String, f64>,
    /// Leaf switches or blocks, where there is a topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<LeafFigures>,
    /// Joules of all nodes over the whole period, where their power is known.
    pub energy_j: Option<f64>,
}

/// The two configurations, and the jobs that start at another time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Length of the period, hours.
    pub hours: f64,
    /// Jobs that run now.
    pub running: usize,
    /// Jobs of the queue.
    pub pending: usize,
    /// Jobs that can not start at all, or wait for something other than resources.
    pub skipped: u64,
    /// Jobs that are likely to be submitted within the period.
    pub arrivals: Arrivals,
    /// Reason for which the energy is not known.
    pub no_energy: Option<String>,
    /// Results under the configuration in force.
    pub today: Side,
    /// Results under the other configuration.
    pub then: Side,
    /// Jobs that start earlier under the other configuration.
    pub earlier: usize,
    /// Jobs that start later under the other configuration.
    pub later: usize,
    /// Jobs with the largest change, at most as many as asked for.
    pub changes: Vec<JobChange>,
}

/// Simulates both.
///
/// # Errors
/// Fails with the balance engine's error for a tuning that it does not take.
pub fn compare(
    load: &NodeLoad,
    today: &Setup,
    then: &Setup,
    hours: f64,
    listed: usize,
) -> Result<WhatIf, String> {
    let until_s = load.begin_s.saturating_add_unsigned(whole((hours * 3600.0).clamp(1.0, 1e9)));
    let run = |setup: &Setup| engine::run(load, setup, Some(until_s), &|_| {});
    let outcomes = [run(today)?, run(then)?];
    let [before, after] = outcomes.each_ref().map(|outcome| waits(load, outcome, until_s));
    let mut report = WhatIf {
        hours,
        running: load.jobs.iter().filter(|job| job.held.is_some()).count(),
        pending: before.len(),
        skipped: load.skipped,
        ..WhatIf::default()
    };
    let both: Vec<(i64, i64)> =
        before.iter().zip(&after).filter_map(|((_, a), (_, b))| Some(((*a)?, (*b)?))).collect();
    let [first, second] = &outcomes;
    report.today = side(first, &before, both.iter().map(|(wait, _)| *wait));
    report.then = side(second, &after, both.iter().map(|(_, wait)| *wait));
    fresh(load, first, until_s, &mut report.today);
    fresh(load, second, until_s, &mut report.then);
    let mut changes: Vec<JobChange> = Vec::new();
    for ((at, today_s), (_, then_s)) in before.into_iter().zip(after) {
        let rank = |wait: Option<i64>| wait.unwrap_or(i64::MAX);
        report.earlier += usize::from(rank(then_s) < rank(today_s));
        report.later += usize::from(rank(then_s) > rank(today_s));
        let Some(job) = load.jobs.get(at).filter(|_| today_s != then_s) else { continue };
        let (job, user) = (job.job.label.to_string(), job.job.user.to_string());
        changes.push(JobChange { job, user, today_s, then_s });
    }
    let end_s = until_s - load.begin_s;
    let size = |c: &JobChange| c.today_s.unwrap_or(end_s).abs_diff(c.then_s.unwrap_or(end_s));
    changes.sort_by_key(|change| std::cmp::Reverse(size(change)));
    changes.truncate(listed);
    report.changes = changes;
    Ok(report)
}

/// Position and wait of each pending job; `None` beyond the period.
fn waits(load: &NodeLoad, outcome: &Outcome, until_s: i64) -> Vec<(usize, Option<i64>)> {
    let jobs = load.jobs.iter().zip(&outcome.starts_s).enumerate();
    let pending = jobs.filter(|(_, (job, _))| job.held.is_none() && !job.sampled);
    let wait = |start: &Option<i64>| start.filter(|s| *s < until_s).map(|s| s - load.begin_s);
    pending.map(|(at, (_, start))| (at, wait(start))).collect()
}

/// Figures of the jobs that are likely to come.
fn fresh(load: &NodeLoad, outcome: &Outcome, until_s: i64, side: &mut Side) {
    let jobs = load.jobs.iter().zip(&outcome.starts_s).filter(|(job, _)| job.sampled);
    let started = jobs.filter_map(|(job, start)| Some((job, start.filter(|s| *s < until_s)?)));
    let (count, sum) = started.fold((0usize, 0i64), |(count, sum), (job, start)| {
        (count + 1, sum.saturating_add(start - job.job.submit_s))
    });
    side.new_starts = count;
    side.new_wait_mean_s = (count > 0).then(|| sum as f64 / count as f64);
}

fn side(
    outcome: &Outcome,
    waits: &[(usize, Option<i64>)],
    both: impl Iterator<Item = i64> + Clone,
) -> Side {
    let mut figures = Figures::default();
    outcome.usage.fill(&mut figures, outcome.joules);
    let count = both.clone().count();
    Side {
        starts: waits.iter().filter(|(_, wait)| wait.is_some()).count(),
        wait_mean_s: both.clone().sum::<i64>() as f64 / count.max(1) as f64,
        wait_max_s: both.max().unwrap_or(0),
        utilization: figures.utilization,
        gpu_fragmented_pct: figures.gpu_fragmented_pct,
        stranded: figures.stranded,
        energy_j: figures.energy_j,
        topology: outcome.leaves.clone(),
        ..Side::default()
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::nodes::accounted::read_sacct;
    use crate::nodes::load::Site;
    use crate::policy::{BALANCE, BALANCE_SEED};
    use crate::slurm::Rules;
    use phalanx_core::trace::spec;
    use phalanx_planner::gang::Settings;
    use phalanx_planner::place::Tuning;

    /// Three jobs of 4 CPUs for 20 minutes on a node of 8 CPUs, 100 W idle and 300 W full.
    fn load() -> NodeLoad {
        let row = |id| format!("{id}|COMPLETED|1700000000|1700000000|1700001200|4|01:00:00\n");
        let text =
            format!("JobID|State|Submit|Start|End|NCPUS|Timelimit\n{}{}{}", row(1), row(2), row(3));
        let nodes = spec::parse("1x(cpu=8,idle=100,busy=300)").unwrap();
        read_sacct(text.as_bytes(), &TimeZone::UTC, &Site::of(&nodes)).unwrap()
    }

    /// Goal: in mode seed each poll begins behind the node of the previous poll, as in the daemon.
    #[test]
    fn equal_jobs_go_round_in_mode_seed() {
        let row = |at: u32, cpus: u32, mem: u32| {
            let at = 1_700_000_000 + at;
            format!("{at}|COMPLETED|{at}|{at}|1700001200|{cpus}|{mem}M|01:00:00\n")
        };
        let columns = "JobID|State|Submit|Start|End|NCPUS|ReqMem|Timelimit\n";
        // Half of the CPUs of each node go first, then jobs that even that out.
        let rows = (0..4).map(|at| row(at, 4, 10)).chain((4..8).map(|at| row(at, 1, 100)));
        let text = format!("{columns}{}", rows.collect::<String>());
        let nodes = spec::parse("4x(cpu=8,mem=400M)").unwrap();
        let load = read_sacct(text.as_bytes(), &TimeZone::UTC, &Site::of(&nodes)).unwrap();
        let params = phalanx_methods::balance::Params { threshold: 0.9, ..Default::default() };
        let tuning = Tuning { params, ..Tuning::default() };
        let setup = Setup::of(&BALANCE_SEED, &tuning, &Settings::default(), &Rules::default());
        let outcome = engine::run(&load, &setup, None, &|_| {}).unwrap();
        let nodes: Vec<u32> = outcome.nodes.iter().flatten().copied().collect();
        assert_eq!(nodes[4..], [0, 1, 2, 3], "{nodes:?}");
    }

    #[test]
    fn energy_counts_over_the_period_and_no_longer() {
        let rules = Rules::default();
        let setup = Setup::of(&BALANCE, &Tuning::default(), &Settings::default(), &rules);
        let joules = |hours: f64| {
            let report = compare(&load(), &setup, &setup, hours, 9).unwrap();
            assert_eq!((report.earlier, report.later, &report.today), (0, 0, &report.then));
            report.today.energy_j.unwrap()
        };
        // 20 minutes full and 20 half, then idle; the second stretch is cut off.
        assert_eq!(joules(2.0), 100.0 * 7200.0 + 200.0 * 1200.0 + 100.0 * 1200.0);
        assert_eq!(joules(0.5), 100.0 * 1800.0 + 200.0 * 1200.0 + 100.0 * 600.0);
        let unknown = NodeLoad { watts: Vec::new(), ..load() };
        assert_eq!(compare(&unknown, &setup, &setup, 1.0, 9).unwrap().then.energy_j, None);
    }
}
