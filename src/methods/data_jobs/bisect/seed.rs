// SPDX-License-Identifier: GPL-3.0-or-later
//! The source's method, bisection on the makespan, with guards that make its bounds valid and its
//! search end.

use super::assignment::{Assignment, local_first, migrate};
use super::budget::Budget;
use super::instance::{Instance, Job, SLACK_MS, whole_ms};
use super::schedule::{Placed, Schedule};
use super::weights::{Chooser, Room};
use phalanx_core::limits::{BISECT_MIGRATIONS_MAX, BISECT_PROBES_MAX};

/// A makespan that was probed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Probed {
    /// Probed makespan, whole ms.
    pub(super) makespan: f64,
    /// Whether every job could end by the makespan.
    pub(super) feasible: bool,
}

/// Result of a probe: whether all jobs, or one, can end by a makespan.
#[derive(Debug)]
pub(super) enum Probe<T> {
    /// The jobs can end by the makespan, by this schedule.
    Feasible(T),
    /// No schedule was found that ends by the makespan.
    Infeasible,
    /// The budget was used up before the answer was known.
    OutOfBudget,
}

impl<T> From<Option<T>> for Probe<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or(Self::Infeasible, Self::Feasible)
    }
}

/// Looks for a schedule within a makespan.
pub(super) type Prober<'a> = dyn FnMut(f64, &mut Budget<'_>) -> Probe<Schedule> + 'a;

/// Largest and smallest makespan to begin with (formula 6, guarded).
pub(super) fn bounds(instance: &Instance, budget: &mut Budget<'_>) -> Option<(f64, f64)> {
    let idle = vec![0.0; instance.host_of.len()];
    let (mut up, mut down) = (0.0_f64, 0.0_f64);
    for &i in &instance.queue {
        let job = &instance.jobs[i];
        up = up.max(on_one_core(instance, job, &|_| true));
        let mut chooser = chooser(instance, job, (&idle, 1.0), 0.0);
        let mut least = f64::INFINITY;
        for n in 1..=job.cap {
            if !budget.spend(instance.hosts.len() + job.blocks.len() * n) || !chooser.add() {
                return None;
            }
            let hosts = instance.hosts_of(&chooser.chosen);
            least = least.min(local_first(instance, job, &hosts).longest());
        }
        down = down.max(least);
    }
    Some((up, down))
}

/// Returns a chooser over all hosts, of at most `job.cap` cores and without limits per host.
fn chooser<'a>(
    instance: &'a Instance,
    job: &Job,
    free: (&'a [f64], f64),
    smooth: f64,
) -> Chooser<'a> {
    let most = usize::MAX;
    let room = Room { cores: job.cap, per_host: most, hosts_min: 0, hosts_max: most };
    let all = (0..instance.hosts.len()).map(|host| (host, 0.0));
    Chooser::new(instance, job, all, free, room, smooth)
}

/// Milliseconds of a job on one core, on the allowed host that holds most of its blocks.
pub(super) fn on_one_core(instance: &Instance, job: &Job, may: &dyn Fn(usize) -> bool) -> f64 {
    let usable = |host: usize| instance.hosts[host].cores > 0 && may(host);
    let held = job.held.iter().filter(|(host, _)| usable(*host));
    let local = held.map(|&(_, held)| held).fold(0.0, f64::max);
    let remote = (job.total - local).max(0.0);
    1000.0 * (job.total / job.speed + remote / instance.transfer)
}

/// Bisection between two bounds. The upper one, which knows nothing of queueing, is doubled until
/// it is feasible; the lower one stays, because less may be feasible. With `tighten` the upper one
/// becomes what a feasible probe really reached, and blocks have migrated. Returns the earliest end
/// of all feasible probes.
pub(super) fn bisect(
    instance: &Instance,
    (up, down): (f64, f64),
    tighten: bool,
    probe: &mut Prober<'_>,
    probes: &mut Vec<Probed>,
    budget: &mut Budget<'_>,
) -> Option<Schedule> {
    let mut best: Option<Schedule> = None;
    let mut makespan = whole_ms(up).max(1.0);
    let (mut up, mut down) = (makespan, down.min(makespan));
    let (mut previous, mut expanding) = (f64::NAN, true);
    for _ in 0..BISECT_PROBES_MAX {
        let found = match probe(makespan, budget) {
            Probe::Feasible(schedule) => Some(schedule),
            Probe::Infeasible => None,
            Probe::OutOfBudget => break,
        };
        probes.push(Probed { makespan, feasible: found.is_some() });
        if let Some(schedule) = found {
            if makespan == previous {
                Schedule::improve(&mut best, schedule);
                break;
            }
            up = if tighten { makespan.min(schedule.end) } else { makespan };
            expanding = false;
            Schedule::improve(&mut best, schedule);
        } else if expanding {
            up = 2.0 * makespan;
        } else {
            down = makespan;
            if makespan >= up {
                break;
            }
        }
        previous = makespan;
        makespan = if expanding { up } else { whole_ms((up + down) / 2.0) };
        if tighten && !expanding && (makespan >= up || up - down <= 1.0) {
            break;
        }
        if !makespan.is_finite() {
            break;
        }
    }
    if instance.moment == 3 && !tighten {
        best.iter_mut().for_each(|best| migrate_all(instance, best));
    }
    best
}

/// The source's probe: each job gets the fewest cores, up to its cap, with which it ends in time;
/// then blocks migrate at the configured moment.
pub(super) fn probe(
    instance: &Instance,
    smooth: f64,
    makespan: f64,
    budget: &mut Budget<'_>,
) -> Probe<Schedule> {
    let mut available = instance.available.clone();
    let mut schedule = Schedule::default();
    for &i in &instance.queue {
        match place(instance, i, smooth, makespan, &mut available, budget) {
            Probe::Feasible(placed) => schedule.placed.push(placed),
            Probe::Infeasible => return Probe::Infeasible,
            Probe::OutOfBudget => return Probe::OutOfBudget,
        }
    }
    Probe::Feasible(migrated(instance, schedule))
}

fn place(
    instance: &Instance,
    i: usize,
    smooth: f64,
    makespan: f64,
    available: &mut [f64],
    budget: &mut Budget<'_>,
) -> Probe<Placed> {
    let job = &instance.jobs[i];
    if !budget.spend(instance.host_of.len()) {
        return Probe::OutOfBudget;
    }
    let mut chooser = chooser(instance, job, (available, makespan), smooth);
    let mut fits: Option<(Vec<usize>, Assignment)> = None;
    for n in 1..=job.cap {
        if !budget.spend(instance.hosts.len() + job.blocks.len() * n) {
            return Probe::OutOfBudget;
        }
        if !chooser.add() {
            break;
        }
        let cores = &chooser.chosen;
        if let Some(assignment) = in_time(instance, job, cores, available, makespan) {
            fits = Some((cores.to_vec(), assignment));
            break;
        }
    }
    fits.map(|(cores, assignment)| Placed::new(instance, i, cores, assignment, available)).into()
}

/// Assigns the blocks of a job to `cores`; `None` if the job does not end by the makespan.
pub(super) fn in_time(
    instance: &Instance,
    job: &Job,
    cores: &[usize],
    available: &[f64],
    makespan: f64,
) -> Option<Assignment> {
    let hosts = instance.hosts_of(cores);
    let mut assignment = local_first(instance, job, &hosts);
    if instance.moment == 1 {
        let threshold = job.threshold_ms();
        migrate(instance, job, &hosts, &mut assignment, threshold, BISECT_MIGRATIONS_MAX);
    }
    // A copy only of what the job would occupy: its end decides.
    let end = Placed::end_of(instance, job, cores, &assignment, available);
    (end <= makespan + SLACK_MS).then_some(assignment)
}

/// Computes the times of a probe's schedule, after migration of blocks where `moment` is 2.
pub(super) fn migrated(instance: &Instance, mut schedule: Schedule) -> Schedule {
    if instance.moment == 2 {
        migrate_all(instance, &mut schedule);
    } else {
        schedule.recompute(instance);
    }
    schedule
}

/// Migrates the blocks of every job, then computes the times again.
fn migrate_all(instance: &Instance, schedule: &mut Schedule) {
    for placed in &mut schedule.placed {
        let job = &instance.jobs[placed.job];
        let hosts = instance.hosts_of(&placed.cores);
        let threshold = job.threshold_ms();
        let assignment = &mut placed.assignment;
        migrate(instance, job, &hosts, assignment, threshold, BISECT_MIGRATIONS_MAX);
    }
    schedule.recompute(instance);
}

/// Runs the whole method; `None` when the budget ended it before the first feasible probe.
pub(super) fn run(
    instance: &Instance,
    probes: &mut Vec<Probed>,
    budget: &mut Budget<'_>,
) -> Option<Schedule> {
    let bounds = bounds(instance, budget)?;
    let mut prober =
        |makespan: f64, budget: &mut Budget<'_>| probe(instance, 0.0, makespan, budget);
    bisect(instance, bounds, false, &mut prober, probes, budget)
}
