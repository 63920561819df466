// SPDX-License-Identifier: GPL-3.0-or-later
//! Simulated annealing over the order of jobs and their cores per host.
//!
//! With a gang start the duration of a job depends only on how many cores it has on each
//! host, so durations are computed once and remembered; an order and these counts then
//! decode to a schedule in some microseconds.

use std::collections::HashMap;

use super::budget::Budget;
use super::construct::{best_assignment, offsets};
use super::cores::{earliest, host_list, occupy, pick};
use super::instance::{Instance, SLACK_MS};
use super::schedule::{Placed, Schedule};
use phalanx_core::limits::{BISECT_ANNEAL_RUNS, BISECT_ANNEAL_STEPS, BISECT_DURATIONS_MAX};
use phalanx_core::random::Stream;

/// Temperatures at which runs begin, as a part of the makespan.
const HEAT: [f64; 3] = [0.03, 0.01, 0.004];

/// A point of the search: an order, and the cores of each job on each host.
#[derive(Debug, Clone)]
struct Genome {
    order: Vec<usize>,
    /// Counts of cores, by index of the job.
    counts: Vec<Vec<usize>>,
}

/// The search on one instance.
struct Search<'a> {
    instance: &'a Instance,
    /// Durations by job and counts.
    durations: Vec<HashMap<Vec<usize>, f64>>,
    remembered: usize,
    /// Sorted times at which the cores of each host are free; scratch space.
    free: Vec<Vec<f64>>,
    initial: Vec<Vec<f64>>,
}

/// Improves `best` until the budget ends, the runs are done or `lower` is reached.
pub(super) fn improve(
    instance: &Instance,
    best: &Schedule,
    lower: f64,
    random: &mut Stream,
    budget: &mut Budget<'_>,
) -> Option<Schedule> {
    let initial = instance.free_times();
    let durations = vec![HashMap::new(); instance.jobs.len()];
    let free = initial.clone();
    let mut search = Search { instance, durations, remembered: 0, free, initial };
    let mut genome = Genome::of(instance, best);
    let (mut reached, _) = search.decode(&genome)?;
    let mut found = genome.clone();
    for run in 0..BISECT_ANNEAL_RUNS {
        // Hot runs leave the best far enough to find another one; cool runs refine it.
        let heat = HEAT[run % HEAT.len()];
        let (end, better) = search.run(&genome, heat, lower, random, budget);
        if end < reached - SLACK_MS {
            reached = end;
            found = better;
        }
        genome = found.clone();
        if budget.is_over() || reached <= lower * (1.0 + 1e-9) {
            break;
        }
    }
    Some(search.schedule(&found))
}

impl Genome {
    fn of(instance: &Instance, schedule: &Schedule) -> Self {
        let mut counts = vec![vec![0; instance.hosts.len()]; instance.jobs.len()];
        let mut placed: Vec<&Placed> = schedule.placed.iter().collect();
        placed.sort_by(|a, b| a.start.total_cmp(&b.start));
        for placed in &placed {
            for &core in &placed.cores {
                counts[placed.job][instance.host_of[core]] += 1;
            }
        }
        Self { order: placed.iter().map(|placed| placed.job).collect(), counts }
    }
}

/// The change that a move made, kept to undo it.
enum Undo {
    Order { from: usize, to: usize },
    Swap(usize, usize),
    Counts { job: usize, old: Vec<usize> },
}

impl Search<'_> {
    fn duration(&mut self, job: usize, counts: &[usize]) -> f64 {
        if let Some(&known) = self.durations[job].get(counts) {
            return known;
        }
        let hosts = host_list(counts);
        let assignment = best_assignment(
            self.instance,
            &self.instance.jobs[job],
            &hosts,
            &vec![0.0; hosts.len()],
        );
        if self.remembered < BISECT_DURATIONS_MAX {
            self.durations[job].insert(counts.to_vec(), assignment.longest());
            self.remembered += 1;
        }
        assignment.longest()
    }

    /// The makespan, and the mean time at which cores become free; `None` when a job has
    /// more cores on a host than there are.
    fn decode(&mut self, genome: &Genome) -> Option<(f64, f64)> {
        self.free.clone_from(&self.initial);
        let mut makespan = 0.0_f64;
        for &job in &genome.order {
            let counts = &genome.counts[job];
            let start = earliest(&self.free, counts)?;
            let end = start + self.duration(job, counts);
            makespan = makespan.max(end);
            for (free, &count) in self.free.iter_mut().zip(counts) {
                occupy(free, count, start, end);
            }
        }
        let all: f64 = self.free.iter().flatten().sum();
        Some((makespan, all / self.instance.host_of.len() as f64))
    }

    fn cost(&mut self, genome: &Genome) -> (f64, f64) {
        // The mean end tells apart genomes of equal makespan: room left is worth having.
        let (makespan, mean) = self.decode(genome).unwrap_or((f64::INFINITY, f64::INFINITY));
        (makespan, makespan + 0.1 * mean)
    }

    fn run(
        &mut self,
        from: &Genome,
        heat: f64,
        lower: f64,
        random: &mut Stream,
        budget: &mut Budget<'_>,
    ) -> (f64, Genome) {
        let mut genome = from.clone();
        let (mut reached, mut cost) = self.cost(&genome);
        let mut best = (reached, genome.clone());
        let units = 40 * genome.order.len() * self.initial.len().max(2) / 2;
        for step in 0..BISECT_ANNEAL_STEPS {
            if !budget.spend(units) || best.0 <= lower * (1.0 + 1e-9) {
                break;
            }
            let left = 1.0 - step as f64 / BISECT_ANNEAL_STEPS as f64;
            let temperature = heat * left * left * best.0;
            let Some(undo) = self.mutate(&mut genome, random) else { continue };
            let (end, new) = self.cost(&genome);
            let accept = new <= cost || random.unit() < ((cost - new) / temperature).exp();
            if accept {
                (reached, cost) = (end, new);
                if reached < best.0 - SLACK_MS {
                    best = (reached, genome.clone());
                }
            } else {
                undo.apply(&mut genome);
            }
        }
        best
    }

    /// Makes one random change; `None` when the change drawn is not possible.
    fn mutate(&self, genome: &mut Genome, random: &mut Stream) -> Option<Undo> {
        let jobs = genome.order.len();
        match random.below(4) {
            0 => {
                let (a, b) = (random.below(jobs), random.below(jobs));
                genome.order.swap(a, b);
                (a != b).then_some(Undo::Swap(a, b))
            }
            1 => {
                let (from, to) = (random.below(jobs), random.below(jobs));
                let job = genome.order.remove(from);
                genome.order.insert(to, job);
                (from != to).then_some(Undo::Order { from, to })
            }
            _ => {
                let job = genome.order[random.below(jobs)];
                let old = genome.counts[job].clone();
                if self.change_counts(job, &mut genome.counts[job], random) {
                    return Some(Undo::Counts { job, old });
                }
                genome.counts[job] = old;
                None
            }
        }
    }

    /// Adds, removes or moves a core of a job; returns false when that is not possible.
    fn change_counts(&self, job: usize, counts: &mut [usize], random: &mut Stream) -> bool {
        let (from, to) = (random.below(counts.len()), random.below(counts.len()));
        let total: usize = counts.iter().sum();
        let kind = random.below(3);
        let remove = kind != 0;
        let add = kind != 1;
        if remove {
            if counts[from] == 0 || (!add && total == 1) {
                return false;
            }
            counts[from] -= 1;
        }
        if add {
            let full = counts[to] >= self.instance.hosts[to].cores;
            let most = self.instance.jobs[job].cores_max;
            if full || (!remove && total >= most) || (remove && from == to) {
                return false;
            }
            counts[to] += 1;
        }
        true
    }

    /// The schedule that a genome stands for.
    fn schedule(&self, genome: &Genome) -> Schedule {
        let mut available = self.instance.available.clone();
        let mut schedule = Schedule::default();
        for &i in &genome.order {
            let mut cores = Vec::new();
            for host in 0..self.instance.hosts.len() {
                cores.extend(pick(self.instance, host, &genome.counts[i], &available));
            }
            let hosts = host_list(&genome.counts[i]);
            let waits = offsets(self.instance, &cores, &available);
            let job = &self.instance.jobs[i];
            let assignment = best_assignment(self.instance, job, &hosts, &waits);
            schedule.placed.push(Placed::new(self.instance, i, cores, assignment, &mut available));
        }
        schedule.recompute(self.instance);
        schedule
    }
}

impl Undo {
    fn apply(self, genome: &mut Genome) {
        match self {
            Self::Swap(a, b) => genome.order.swap(a, b),
            Self::Order { from, to } => {
                let job = genome.order.remove(to);
                genome.order.insert(from, job);
            }
            Self::Counts { job, old } => genome.counts[job] = old,
        }
    }
}
