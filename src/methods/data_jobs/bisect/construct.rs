// SPDX-License-Identifier: GPL-3.0-or-later
//! A probe that chooses cores by the end that they lead to, in any order of jobs.

use super::assignment::{Assignment, earliest_end, local_first, migrate};
use super::bound::JobBound;
use super::budget::Budget;
use super::instance::{Instance, Job, SLACK_MS};
use super::problem::Start;
use super::schedule::{Placed, Schedule};
use super::seed::Probe;
use phalanx_core::limits::{BISECT_ASSIGNMENTS_MAX, BISECT_REFINE_MAX};

/// Assigns the blocks in two ways and keeps the better assignment; loads are without the offsets by
/// which cores begin later than the first one.
pub(super) fn best_assignment(
    instance: &Instance,
    job: &Job,
    hosts: &[usize],
    offsets: &[f64],
) -> Assignment {
    let refined = |mut assignment: Assignment| {
        migrate(instance, job, hosts, &mut assignment, 0.0, BISECT_REFINE_MAX);
        assignment
    };
    let free = refined(earliest_end(instance, job, hosts, offsets));
    let mut assignment = if offsets.iter().any(|&offset| offset > 0.0) {
        free
    } else {
        let local = refined(local_first(instance, job, hosts));
        if local.longest() < free.longest() - SLACK_MS { local } else { free }
    };
    assignment.recompute(instance, job, hosts);
    assignment
}

/// Offsets of cores when each begins on its own; zeros when all begin together.
pub(super) fn offsets(instance: &Instance, cores: &[usize], available: &[f64]) -> Vec<f64> {
    match instance.start {
        Start::Gang => vec![0.0; cores.len()],
        Start::Async => {
            let free = || cores.iter().map(|&core| available[core]);
            let first = free().fold(f64::INFINITY, f64::min);
            free().map(|at| at - first).collect()
        }
    }
}

/// Megabytes of a job that each host holds and that no chosen core reads yet.
pub(super) struct Coverage<'a> {
    job: &'a Job,
    /// Megabytes that each host still holds uncovered.
    pub(super) gain: Vec<f64>,
    covered: Vec<bool>,
}

impl<'a> Coverage<'a> {
    /// Starts before the first choice.
    pub(super) fn new(job: &'a Job, hosts: usize) -> Self {
        let mut gain = vec![0.0; hosts];
        job.held.iter().for_each(|&(host, held)| gain[host] = held);
        Self { job, gain, covered: vec![false; job.blocks.len()] }
    }

    /// Covers blocks of a chosen host, `share` megabytes of them.
    pub(super) fn take(&mut self, on_host: &[usize], share: f64) {
        let mut left = share;
        for &b in on_host {
            if left <= 0.0 {
                break;
            }
            if !std::mem::replace(&mut self.covered[b], true) {
                let block = &self.job.blocks[b];
                left -= block.size;
                block.replicas.iter().for_each(|&other| self.gain[other] -= block.size);
            }
        }
    }
}

/// Chooses cores for one job after the other.
pub(super) struct Constructor<'a> {
    pub(super) instance: &'a Instance,
    pub(super) bounds: &'a [JobBound],
    /// Blocks of the current job on each host.
    on_host: Vec<Vec<usize>>,
}

impl<'a> Constructor<'a> {
    /// Makes the constructor that serves all probes of an instance.
    pub(super) fn new(instance: &'a Instance, bounds: &'a [JobBound]) -> Self {
        Self { instance, bounds, on_host: vec![Vec::new(); instance.hosts.len()] }
    }

    /// Gives each job of `order` the fewest cores with which it ends by `makespan`.
    pub(super) fn probe(
        &mut self,
        order: &[usize],
        makespan: f64,
        budget: &mut Budget<'_>,
    ) -> Probe<Schedule> {
        let mut available = self.instance.available.clone();
        let mut schedule = Schedule::default();
        let mut free = self.sorted_cores(&available);
        for &i in order {
            let placed = match self.place(i, makespan, &mut available, &free, budget) {
                Probe::Feasible(placed) => placed,
                Probe::Infeasible => return Probe::Infeasible,
                Probe::OutOfBudget => return Probe::OutOfBudget,
            };
            for &core in &placed.cores {
                let host = self.instance.host_of[core];
                free[host].sort_by(|&a, &b| available[a].total_cmp(&available[b]).then(a.cmp(&b)));
            }
            schedule.placed.push(placed);
        }
        schedule.recompute(self.instance);
        Probe::Feasible(schedule)
    }

    /// Cores of each host, the first free one first.
    fn sorted_cores(&self, available: &[f64]) -> Vec<Vec<usize>> {
        let sorted = |host: &super::instance::Host| {
            let mut cores: Vec<usize> = (host.first..host.first + host.cores).collect();
            cores.sort_by(|&a, &b| available[a].total_cmp(&available[b]));
            cores
        };
        self.instance.hosts.iter().map(sorted).collect()
    }

    fn place(
        &mut self,
        i: usize,
        makespan: f64,
        available: &mut [f64],
        free: &[Vec<usize>],
        budget: &mut Budget<'_>,
    ) -> Probe<Placed> {
        let job = &self.instance.jobs[i];
        let replicas = self.list_blocks(job);
        let mut assignments = 0;
        let mut placed = None;
        for n in 1..=job.cores_max {
            if self.bounds[i].end[n - 1] > makespan + SLACK_MS {
                continue;
            }
            if !budget.spend(replicas + n * (self.instance.hosts.len() + 4 * job.blocks.len())) {
                self.forget_blocks(job);
                return Probe::OutOfBudget;
            }
            let cores = self.choose(job, n, available, free);
            let hosts = self.instance.hosts_of(&cores);
            let waits = offsets(self.instance, &cores, available);
            let assignment = best_assignment(self.instance, job, &hosts, &waits);
            let end = Placed::end_of(self.instance, job, &cores, &assignment, available);
            if end <= makespan + SLACK_MS {
                placed = Some(Placed::new(self.instance, i, cores, assignment, available));
                break;
            }
            assignments += 1;
            if assignments == BISECT_ASSIGNMENTS_MAX {
                break;
            }
        }
        self.forget_blocks(job);
        placed.into()
    }

    /// Fills `on_host`; returns the number of replicas.
    fn list_blocks(&mut self, job: &Job) -> usize {
        let mut replicas = 0;
        for &b in &job.falling {
            for &host in &job.blocks[b].replicas {
                self.on_host[host].push(b);
                replicas += 1;
            }
        }
        replicas
    }

    fn forget_blocks(&mut self, job: &Job) {
        for &(host, _) in &job.held {
            self.on_host[host].clear();
        }
    }

    /// Chooses `n` cores one by one: the one with the earliest start, less the time that local
    /// reading on it saves on average over the cores; ties go to the core that has waited least and
    /// then to the lowest index.
    fn choose(&self, job: &Job, n: usize, available: &[f64], free: &[Vec<usize>]) -> Vec<usize> {
        let instance = self.instance;
        let share = job.total / n as f64;
        let saved_ms = 1000.0 / (instance.transfer * n as f64);
        let mut coverage = Coverage::new(job, instance.hosts.len());
        let mut used = vec![0; instance.hosts.len()];
        let (mut cores, mut start) = (Vec::with_capacity(n), 0.0_f64);
        for _ in 0..n {
            let mut best: Option<((f64, f64), usize, usize)> = None;
            for (host, list) in free.iter().enumerate() {
                let Some(&core) = list.get(used[host]) else { continue };
                let at = available[core];
                let cost = (start.max(at) - coverage.gain[host].min(share) * saved_ms, -at);
                if best.is_none_or(|(least, _, _)| cost < least) {
                    best = Some((cost, host, core));
                }
            }
            let Some((_, host, core)) = best else { break };
            used[host] += 1;
            start = start.max(available[core]);
            cores.push(core);
            coverage.take(&self.on_host[host], share);
        }
        cores
    }
}
