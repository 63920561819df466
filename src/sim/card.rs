// SPDX-License-Identifier: GPL-3.0-or-later
//! The card of a policy: who waits how long by size and runtime, and what the policy costs whom
//! compared with another one. It is made of starts alone, so that what really happened has one too.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::job::{Dimension, Workload};
use super::schedule::Schedule;
use super::waits::{percentile, wait_s};

/// Shares of the machine up to which a job is small or of medium size.
const SIZES: [(&str, f64); 3] = [("to 1 %", 0.01), ("to 10 %", 0.1), ("larger", f64::MAX)];
/// Runtimes up to which a job is short or of medium length, seconds.
const RUNS: [(&str, u64); 3] = [("to 10 min", 600), ("to 4 h", 14_400), ("longer", u64::MAX)];
/// Fewest jobs of a user whose mean wait counts, and the changes of it that count: a share, and
/// seconds.
const USER: (u64, f64, f64) = (20, 0.1, 600.0);
const WEEK_S: i64 = 7 * 86_400;
/// Most waiting jobs, the oldest, that a start is compared with.
const LOOKED_AT: usize = 200;

/// Waits of the jobs of a class.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub struct ClassWaits {
    /// Share of the machine's CPUs.
    pub size: &'static str,
    /// Runtime.
    pub run: &'static str,
    /// Number of jobs.
    pub jobs: usize,
    /// Median of the wait, seconds.
    pub wait_p50_s: i64,
    /// 95th percentile of the wait, seconds.
    pub wait_p95_s: i64,
}

/// Figures beside those that are sums over all jobs.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub struct Card {
    /// Waits by size and runtime, of classes with jobs.
    pub classes: Vec<ClassWaits>,
    /// Mean wait, each job counted by its CPUs and runtime, seconds.
    pub wait_by_work_s: Option<f64>,
    /// User and number of the job that waited longest.
    pub longest: Option<(String, i64)>,
    /// Number of users of 20 jobs or more whose mean wait is shorter than under the first policy,
    /// by a tenth and ten minutes; absent for the first one.
    pub users_better: Option<u64>,
    /// Number of users of 20 jobs or more whose mean wait is longer by a tenth and ten minutes.
    pub users_worse: Option<u64>,
    /// Largest change of an account's part of the CPUs' time in a week, percentage points.
    pub shares_moved_pct: Option<f64>,
    /// Longest time from the first start planned for the job in front until its start, seconds.
    pub slip_s: Option<i64>,
    /// Starts ahead of an older job that asked for no more and for no longer.
    pub inversions: u64,
    /// Share of a resource free while a waiting job asks for no more of it, percent, by its name.
    pub idle_pct: BTreeMap<&'static str, f64>,
}

/// Makes the card of a schedule, compared with another one.
pub fn of(load: &Workload, schedule: &Schedule, base: Option<&Schedule>) -> Card {
    let starts_s = &schedule.starts_s;
    let jobs = || load.jobs.iter().zip(starts_s).enumerate().skip(load.held);
    let waits = || jobs().map(|(at, (job, start_s))| (at, wait_s(job, *start_s)));
    let work = |at: usize| load.jobs.get(at).map_or(0.0, |job| job.size as f64 * job.run_s as f64);
    let (wait, all) = waits().fold((0.0, 0.0), |(wait, all), (at, wait_s)| {
        (wait + wait_s as f64 * work(at), all + work(at))
    });
    let longest = waits().max_by_key(|(at, wait_s)| (*wait_s, usize::MAX - at));
    let longest = longest.and_then(|(at, _)| load.jobs.get(at));
    let users = base.map(|base| users(load, &base.starts_s, starts_s));
    let (inversions, idle_pct) = sweep(load, schedule);
    Card {
        classes: classes(load, starts_s),
        wait_by_work_s: (all > 0.0).then(|| wait / all),
        longest: longest.map(|job| {
            let name = load.users.get(&job.user).cloned();
            (name.unwrap_or_else(|| format!("user {}", job.user.saturating_sub(1))), job.number)
        }),
        users_better: users.map(|(better, _)| better),
        users_worse: users.map(|(_, worse)| worse),
        shares_moved_pct: base.map(|base| moved(load, base, schedule)),
        slip_s: schedule.slip_s,
        inversions,
        idle_pct,
    }
}

fn classes(load: &Workload, starts_s: &[i64]) -> Vec<ClassWaits> {
    let mut waits: BTreeMap<(usize, usize), Vec<i64>> = BTreeMap::new();
    for (job, start_s) in load.jobs.iter().zip(starts_s).skip(load.held) {
        let share = job.size as f64 / load.cpus.max(1) as f64;
        let size = SIZES.iter().position(|(_, most)| share <= *most).unwrap_or(2);
        let run = RUNS.iter().position(|(_, most)| job.run_s <= *most).unwrap_or(2);
        waits.entry((size, run)).or_default().push(wait_s(job, *start_s));
    }
    let class = |((size, run), mut waits): ((usize, usize), Vec<i64>)| {
        waits.sort_unstable();
        ClassWaits {
            size: SIZES.get(size).map_or("", |(name, _)| name),
            run: RUNS.get(run).map_or("", |(name, _)| name),
            jobs: waits.len(),
            wait_p50_s: percentile(&waits, 50),
            wait_p95_s: percentile(&waits, 95),
        }
    };
    waits.into_iter().map(class).collect()
}

/// Numbers of users who wait less, and more, than under another policy.
fn users(load: &Workload, base: &[i64], starts_s: &[i64]) -> (u64, u64) {
    let mut sums: BTreeMap<u64, (u64, f64, f64)> = BTreeMap::new();
    for ((job, was), is) in load.jobs.iter().zip(base).zip(starts_s).skip(load.held) {
        let sum = sums.entry(job.user).or_default();
        sum.0 += 1;
        sum.1 += wait_s(job, *was) as f64;
        sum.2 += wait_s(job, *is) as f64;
    }
    let changes = sums.values().filter(|(jobs, ..)| *jobs >= USER.0).map(|(jobs, was, is)| {
        let matters = (was * USER.1).max(*jobs as f64 * USER.2);
        (u64::from(was - is >= matters), u64::from(is - was >= matters))
    });
    changes.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// The largest change of an account's part of the machine's time in a week, percentage points.
fn moved(load: &Workload, base: &Schedule, schedule: &Schedule) -> f64 {
    let mut change: BTreeMap<(i64, u64), f64> = BTreeMap::new();
    for (schedule, sign) in [(base, -1.0), (schedule, 1.0)] {
        for (at, (job, (start_s, end_s))) in load.jobs.iter().zip(schedule.spans()).enumerate() {
            let account = load.owners.get(at).map_or(job.user, |(account, _)| *account);
            let mut from_s = start_s;
            while from_s < end_s {
                let week = from_s.div_euclid(WEEK_S);
                let until_s = end_s.min((week + 1).saturating_mul(WEEK_S));
                let work = until_s.saturating_sub(from_s) as f64 * job.size as f64;
                *change.entry((week, account)).or_default() += sign * work;
                from_s = until_s;
            }
        }
    }
    let whole = load.cpus.max(1) as f64 * WEEK_S as f64;
    change.values().fold(0.0, |most: f64, work| most.max(work.abs() / whole * 100.0))
}

/// A resource with the amount that is free, and the jobs that wait for some of it, by how much.
struct Free<'a> {
    of: &'a Dimension,
    free: i128,
    waiting: BTreeMap<u64, u64>,
    /// Amount times seconds that were free beside a waiting job that asked for no more.
    idle: i128,
}

impl Free<'_> {
    fn amount(&self, at: usize) -> u64 {
        self.of.amounts.get(at).copied().unwrap_or(0)
    }

    fn pass(&mut self, seconds: u64) {
        let least = self.waiting.first_key_value().map(|(amount, _)| i128::from(*amount));
        if least.is_some_and(|least| least <= self.free) {
            self.idle += self.free * i128::from(seconds);
        }
    }

    fn starts(&mut self, at: usize) {
        let amount = self.amount(at);
        self.free -= i128::from(amount);
        let left = self.waiting.get_mut(&amount).map(|count| {
            *count -= 1;
            *count
        });
        left.filter(|left| *left == 0).and_then(|_| self.waiting.remove(&amount));
    }
}

/// Goes through time to count starts that passed an older equal job, and resources that are idle
/// beside waiting jobs.
fn sweep(load: &Workload, schedule: &Schedule) -> (u64, BTreeMap<&'static str, f64>) {
    let own = load.cpus_in_use();
    let all = || [&own].into_iter().chain(&load.others);
    let free = |of| Free { of, free: 0, waiting: BTreeMap::new(), idle: 0 };
    let mut free: Vec<Free<'_>> = all().map(free).collect();
    free.iter_mut().for_each(|own| own.free = i128::from(own.of.total));
    // Ends before arrivals before starts.
    let mut events: Vec<(i64, u8, usize)> = Vec::with_capacity(load.jobs.len() * 3);
    for (at, (job, (start_s, end_s))) in load.jobs.iter().zip(schedule.spans()).enumerate() {
        let start_s = start_s.max(job.submit_s);
        events.extend([(end_s, 0, at), (job.submit_s, 1, at), (start_s, 2, at)]);
    }
    events.sort_unstable();
    let (mut waiting, mut inversions): (BTreeSet<usize>, u64) = (BTreeSet::new(), 0);
    let period = load.period(schedule);
    let mut last_s = period.begin_s;
    for (at_s, kind, at) in events {
        let seconds = period.overlap_s(last_s, at_s);
        free.iter_mut().for_each(|own| own.pass(seconds));
        last_s = at_s;
        for own in &mut free {
            let amount = own.amount(at);
            match kind {
                0 => own.free += i128::from(amount),
                _ if amount == 0 => {}
                1 => *own.waiting.entry(amount).or_default() += 1,
                _ => own.starts(at),
            }
        }
        match kind {
            0 => {}
            1 => _ = waiting.insert(at),
            _ => {
                waiting.remove(&at);
                inversions += u64::from(passes(load, &schedule.starts_s, &waiting, at));
            }
        }
    }
    let seconds = i128::from(period.end_s.saturating_sub(period.begin_s).max(1));
    let share = |own: Free<'_>| {
        let whole = i128::from(own.of.total.max(1)) * seconds;
        let name = match own.of.name {
            "GPUs in use" => "gpu",
            "Memory in use" => "mem",
            _ => "cpu",
        };
        (name, own.idle as f64 / whole as f64 * 100.0)
    };
    (inversions, free.into_iter().map(share).collect())
}

/// Whether a job that starts passes an older one of its partition that asks for no more of anything
/// and starts later.
fn passes(load: &Workload, starts_s: &[i64], waiting: &BTreeSet<usize>, at: usize) -> bool {
    let Some(own) = load.jobs.get(at) else { return false };
    let start = |at: usize| starts_s.get(at).copied().unwrap_or(i64::MAX);
    let place = |at: usize| load.owners.get(at).map(|(_, place)| place);
    waiting.range(..at).take(LOOKED_AT).any(|&older| {
        let no_more = |of: &Dimension| of.amounts.get(older) <= of.amounts.get(at);
        start(older) > start(at)
            && place(older) == place(at)
            && load.jobs.get(older).is_some_and(|job| {
                job.submit_s < own.submit_s && job.size <= own.size && job.limit_s <= own.limit_s
            })
            && load.others.iter().all(no_more)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SimJob;

    fn job(submit_s: i64, run_s: u64, size: u64, user: u64) -> SimJob {
        SimJob { submit_s, run_s, limit_s: run_s, size, user, class: 1, number: submit_s }
    }

    /// Goal: each figure of the card is what its name says. Method: three jobs on 10 CPUs, by hand.
    #[test]
    fn a_card_by_hand() {
        let jobs = vec![job(0, 100, 10, 1), job(10, 50, 5, 2), job(20, 50, 5, 3)];
        let load = Workload { jobs, cpus: 10, ..Workload::default() };
        let of = |starts_s: &[i64], base: Option<&[i64]>| {
            let base = base.map(|starts_s| Schedule::of(&load, starts_s));
            of(&load, &Schedule::of(&load, starts_s), base.as_ref())
        };
        let fair = of(&[0, 100, 150], None);
        assert_eq!(fair.wait_by_work_s, Some((90.0 + 130.0) * 250.0 / 1500.0));
        assert_eq!(fair.longest, Some(("user 2".to_owned(), 20)));
        assert_eq!((fair.inversions, fair.users_better), (0, None));
        // From 100 to 150 five CPUs are free while the third job waits.
        assert_eq!(fair.idle_pct["cpu"], 250.0 / 2000.0 * 100.0);
        assert_eq!(fair.classes.iter().map(|class| class.jobs).collect::<Vec<_>>(), [3]);
        assert_eq!((fair.classes[0].wait_p50_s, fair.classes[0].wait_p95_s), (90, 130));
        let swapped = of(&[0, 150, 100], Some(&[0, 100, 150]));
        assert_eq!((swapped.inversions, swapped.users_worse), (1, Some(0)), "too few jobs");
        assert_eq!(swapped.shares_moved_pct, Some(0.0), "all is within a week");
    }

    #[test]
    fn users_count_from_twenty_jobs_on() {
        let jobs = (0..40).map(|at| job(at, 10, 1, u64::from(at % 2 == 1))).collect();
        let load = Workload { jobs, cpus: 1, ..Workload::default() };
        let base: Vec<i64> = (0..40).map(|at| at + 10_000).collect();
        let by = |change: [i64; 2]| -> Vec<i64> {
            base.iter().zip([0, 1].iter().cycle()).map(|(at, user)| at + change[*user]).collect()
        };
        assert_eq!(users(&load, &base, &by([-1000, 1000])), (1, 1));
        assert_eq!(users(&load, &base, &by([-999, 999])), (0, 0), "less than a tenth");
    }

    #[test]
    fn a_share_moves_between_weeks() {
        let load = Workload { jobs: vec![job(0, 604_800, 5, 1)], cpus: 10, ..Workload::default() };
        let at = |start_s| Schedule::of(&load, &[start_s]);
        assert_eq!(moved(&load, &at(0), &at(604_800)), 50.0);
        assert_eq!(moved(&load, &at(0), &at(302_400)), 25.0);
    }
}
