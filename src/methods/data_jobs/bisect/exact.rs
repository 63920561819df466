// SPDX-License-Identifier: GPL-3.0-or-later
//! The optimum of small problems with a gang start, by branch and bound.
//!
//! Jobs are placed in the order of their starts. Cores of one host that are free by then
//! are alike, and starting later than possible gains nothing, so that a schedule is an
//! order and a number of cores per host for each job; blocks are assigned optimally.

use super::assignment::Assignment;
use super::bound::JobBound;
use super::budget::Budget;
use super::construct::best_assignment;
use super::cores::{earliest, host_list, occupy, pick};
use super::instance::{Instance, Job, SLACK_MS};
use super::problem::Start;
use super::schedule::{Placed, Schedule};
use phalanx_core::limits::{
    BISECT_EXACT_BLOCKS_MAX, BISECT_EXACT_CORES_MAX, BISECT_EXACT_JOBS_MAX,
};

/// Part by which sums of work may be rounded up.
const ROUNDING: f64 = 1e-12;

/// Whether the problem is small enough.
///
/// # Errors
/// The limit that it exceeds.
pub(super) fn is_small(instance: &Instance) -> Result<(), String> {
    let over = |what: &str, count: usize, limit: usize| {
        if count > limit { Err(format!("at most {limit} {what}, got {count}")) } else { Ok(()) }
    };
    if instance.start == Start::Async {
        return Err("only start \"gang\", got \"async\"".into());
    }
    over("jobs", instance.queue.len(), BISECT_EXACT_JOBS_MAX)?;
    over("cores", instance.host_of.len(), BISECT_EXACT_CORES_MAX)?;
    let blocks = instance.jobs.iter().map(|job| job.blocks.len()).max().unwrap_or(0);
    over("blocks in one job", blocks, BISECT_EXACT_BLOCKS_MAX)
}

/// Cores per host of one job, and the optimal assignment on them.
struct Choice {
    counts: Vec<usize>,
    n: usize,
    duration: f64,
    assignment: Assignment,
}

struct Search<'a, 'b> {
    /// Choices of each job of the queue, shortest duration first.
    choices: Vec<Vec<Choice>>,
    /// Least core ms of each job of the queue.
    area: Vec<f64>,
    best: f64,
    found: Option<Vec<(usize, usize)>>,
    path: Vec<(usize, usize)>,
    budget: &'a mut Budget<'b>,
}

/// The best schedule, and whether the search was complete; `None` when nothing better
/// than `incumbent` was found in an incomplete search, the incumbent itself otherwise.
pub(super) fn search(
    instance: &Instance,
    bounds: &[JobBound],
    incumbent: Option<&Schedule>,
    budget: &mut Budget<'_>,
) -> Option<(Schedule, bool)> {
    let mut choices = Vec::with_capacity(instance.queue.len());
    for &i in &instance.queue {
        let job = &instance.jobs[i];
        choices.push(choices_of(instance, job, bounds[i].end.len(), budget)?);
    }
    let least = |list: &Vec<Choice>| {
        let areas = list.iter().map(|choice| choice.n as f64 * choice.duration);
        areas.fold(f64::INFINITY, f64::min)
    };
    let area = choices.iter().map(least).collect();
    let best = incumbent.map_or(f64::INFINITY, |schedule| schedule.end);
    let mut search = Search { choices, area, best, found: None, path: Vec::new(), budget };
    let free = instance.free_times();
    let all = (1_usize << instance.queue.len()) - 1;
    let complete = search.extend(&free, all, 0.0, 0.0);
    match search.found.take() {
        Some(path) => Some((build(instance, &search.choices, &path), complete)),
        None => incumbent.filter(|_| complete).map(|schedule| (schedule.clone(), true)),
    }
}

/// Returns all counts of up to `most` cores that are not made useless by other counts; `None` = out
/// of budget.
fn choices_of(
    instance: &Instance,
    job: &Job,
    most: usize,
    budget: &mut Budget<'_>,
) -> Option<Vec<Choice>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for host in &instance.hosts {
        let longer = |counts: &Vec<usize>| {
            let counts = counts.clone();
            let used: usize = counts.iter().sum();
            (0..=host.cores.min(most - used)).map(move |count| {
                let mut longer = counts.clone();
                longer.push(count);
                longer
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    let mut choices: Vec<Choice> = Vec::new();
    for counts in all {
        let n: usize = counts.iter().sum();
        if n == 0 {
            continue;
        }
        let assignment = optimal_assignment(instance, job, &host_list(&counts), budget)?;
        choices.push(Choice { counts, n, duration: assignment.longest(), assignment });
    }
    choices.sort_by(|a, b| a.n.cmp(&b.n).then(a.duration.total_cmp(&b.duration)));
    let mut kept: Vec<Choice> = Vec::new();
    for choice in choices {
        let within = |other: &Choice| {
            let pairs = other.counts.iter().zip(&choice.counts);
            other.duration <= choice.duration && pairs.into_iter().all(|(a, b)| a <= b)
        };
        if !kept.iter().any(within) {
            kept.push(choice);
        }
    }
    kept.sort_by(|a, b| a.duration.total_cmp(&b.duration));
    Some(kept)
}

/// Assigns blocks so that the largest load is least.
struct AssignmentSearch<'a, 'b, 'c> {
    instance: &'a Instance,
    job: &'a Job,
    hosts: &'a [usize],
    best: Assignment,
    reached: f64,
    budget: &'b mut Budget<'c>,
}

fn optimal_assignment(
    instance: &Instance,
    job: &Job,
    hosts: &[usize],
    budget: &mut Budget<'_>,
) -> Option<Assignment> {
    let best = best_assignment(instance, job, hosts, &vec![0.0; hosts.len()]);
    let reached = best.longest();
    let mut search = AssignmentSearch { instance, job, hosts, best, reached, budget };
    let mut assignment =
        Assignment { blocks: vec![Vec::new(); hosts.len()], loads: vec![0.0; hosts.len()] };
    search.extend(&mut assignment, 0).then_some(search.best)
}

impl AssignmentSearch<'_, '_, '_> {
    /// Assigns the blocks from `rank` on; false when the budget is used up.
    fn extend(&mut self, assignment: &mut Assignment, rank: usize) -> bool {
        if !self.budget.spend(self.hosts.len()) {
            return false;
        }
        let Some(&b) = self.job.falling.get(rank) else {
            let longest = assignment.longest();
            if longest < self.reached {
                self.reached = longest;
                self.best = assignment.clone();
            }
            return true;
        };
        for c in 0..self.hosts.len() {
            // Of cores of one host with equal loads the first stands for all.
            let alike = |d: &usize| self.hosts[*d] == self.hosts[c];
            if (0..c).filter(alike).any(|d| assignment.loads[d] == assignment.loads[c]) {
                continue;
            }
            let old = assignment.loads[c];
            let load = old + self.instance.block_ms(self.job, b, self.hosts[c], self.hosts.len());
            if load >= self.reached - SLACK_MS {
                continue;
            }
            assignment.loads[c] = load;
            assignment.blocks[c].push(b);
            let goes_on = self.extend(assignment, rank + 1);
            assignment.blocks[c].pop();
            assignment.loads[c] = old;
            if !goes_on {
                return false;
            }
        }
        true
    }
}

impl Search<'_, '_> {
    /// Places the jobs of the set `open`; false when the budget is used up.
    fn extend(&mut self, free: &[Vec<f64>], open: usize, start: f64, end: f64) -> bool {
        if open == 0 {
            if end < self.best - SLACK_MS {
                self.best = end;
                self.found = Some(self.path.clone());
            }
            return true;
        }
        if !self.budget.spend(10 * self.choices.len()) {
            return false;
        }
        let jobs = |open: usize| (0..usize::BITS as usize).filter(move |q| open >> q & 1 == 1);
        // Work fits only where a core is free before the best end; one that is busy for longer
        // need not work at all.
        let before = self.best - SLACK_MS;
        let room: f64 = free.iter().flatten().map(|at| (before - at.max(start)).max(0.0)).sum();
        let work: f64 = jobs(open).take(self.area.len()).map(|q| self.area[q]).sum();
        if room <= work * (1.0 - ROUNDING) {
            return true;
        }
        for q in jobs(open) {
            for c in 0..self.choices[q].len() {
                let choice = &self.choices[q][c];
                let Some(begin) = earliest(free, &choice.counts) else { continue };
                let done = begin + choice.duration;
                // An earlier begin belongs to another order.
                if begin < start || done >= self.best - SLACK_MS {
                    continue;
                }
                let mut after = free.to_vec();
                for (free, &count) in after.iter_mut().zip(&choice.counts) {
                    occupy(free, count, begin, done);
                }
                self.path.push((q, c));
                let goes_on = self.extend(&after, open & !(1 << q), begin, end.max(done));
                self.path.pop();
                if !goes_on {
                    return false;
                }
            }
        }
        true
    }
}

fn build(instance: &Instance, choices: &[Vec<Choice>], path: &[(usize, usize)]) -> Schedule {
    let mut available = instance.available.clone();
    let mut schedule = Schedule::default();
    for &(q, c) in path {
        let choice = &choices[q][c];
        let hosts = 0..instance.hosts.len();
        let cores = hosts.flat_map(|host| pick(instance, host, &choice.counts, &available));
        let (cores, assignment) = (cores.collect(), choice.assignment.clone());
        let job = instance.queue[q];
        schedule.placed.push(Placed::new(instance, job, cores, assignment, &mut available));
    }
    schedule.recompute(instance);
    schedule
}
