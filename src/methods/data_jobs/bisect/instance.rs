// SPDX-License-Identifier: GPL-3.0-or-later
//! The problem with indexes instead of names, and the formulas on it.

use std::collections::HashMap;

use super::problem::{Problem, Start};
use crate::data_jobs::attenuation::Attenuation;
use crate::data_jobs::merge_equal;

/// Milliseconds by which a time must be smaller to count as smaller, and by which
/// an end may exceed the probed makespan.
pub(super) const SLACK_MS: f64 = 1e-9;

/// Least relative speed of a host: a slower host counts as this fast, which is next to useless.
const PACE_MIN: f64 = 1e-3;

/// The next whole millisecond; a time that is whole up to rounding stays.
pub(super) fn whole_ms(time_ms: f64) -> f64 {
    (time_ms - SLACK_MS - time_ms.abs() * 1e-14).ceil()
}

/// A block of an input.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Megabytes.
    pub(super) size: f64,
    /// Hosts, ascending.
    pub(super) replicas: Vec<usize>,
}

/// A job of the instance.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// MB/s.
    pub(super) speed: f64,
    /// f(n).
    pub(super) decay: Attenuation,
    /// Relative speed by host; empty: all hosts are alike.
    pub(super) pace: Vec<f64>,
    /// Earliest start on each host, ms, for other reasons than cores; empty: none.
    pub(super) from: Vec<f64>,
    /// The input.
    pub(super) blocks: Vec<Block>,
    /// Megabytes of all blocks.
    pub(super) total: f64,
    /// Blocks, largest first, equal ones in the order given.
    pub(super) falling: Vec<usize>,
    /// Pairs of a host and the megabytes of the job's input on it, hosts ascending.
    pub(super) held: Vec<(usize, f64)>,
    /// Largest number of cores that the source's method gives the job (formula 9).
    pub(super) cap: usize,
    /// Largest number of cores that can shorten the job.
    pub(super) cores_max: usize,
}

/// A host of the instance.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Index of the host's first core.
    pub(super) first: usize,
    /// Number of the host's cores.
    pub(super) cores: usize,
}

/// The whole problem, with cores numbered consecutively, host by host.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    /// The hosts.
    pub(super) hosts: Vec<Host>,
    /// Host of each core.
    pub(super) host_of: Vec<usize>,
    /// Milliseconds until each core is free.
    pub(super) available: Vec<f64>,
    /// The jobs in the order given.
    pub(super) jobs: Vec<Job>,
    /// MB/s from another host.
    pub(super) transfer: f64,
    /// Rule by which a job's cores start.
    pub(super) start: Start,
    /// Moment of migration.
    pub(super) moment: u8,
    /// Jobs with blocks, longest estimated time first (formula 2).
    pub(super) queue: Vec<usize>,
}

impl Instance {
    /// Indexes a valid problem.
    pub(super) fn new(problem: &Problem<'_>) -> Self {
        let waits = |host: &super::problem::Host<'_>| {
            host.available_ms.clone().unwrap_or_else(|| vec![0.0; host.cores])
        };
        let names = problem.hosts.iter().map(|host| host.name.0.as_ref());
        let known: HashMap<&str, usize> = names.enumerate().map(|(k, name)| (name, k)).collect();
        let cores = problem.hosts.iter().map(|host| host.cores).sum();
        let jobs = problem.jobs.iter().map(|job| index(job, &known, problem.alpha, cores));
        let (hosts, transfer) = (problem.hosts.iter().map(waits), problem.transfer_mb_per_s);
        let mut all = Self::of(hosts, jobs.collect(), transfer, problem.start, problem.moment);
        let Self { queue, jobs, .. } = &mut all;
        queue.retain(|&i| !jobs[i].blocks.is_empty());
        all
    }

    /// Makes an instance of hosts, given as their cores' waits, and of jobs in the queue.
    pub(super) fn of(
        waits: impl Iterator<Item = Vec<f64>>,
        jobs: Vec<Job>,
        transfer: f64,
        start: Start,
        moment: u8,
    ) -> Self {
        let (mut hosts, mut host_of, mut available) = (Vec::new(), Vec::new(), Vec::new());
        for (k, waits) in waits.enumerate() {
            hosts.push(Host { first: host_of.len(), cores: waits.len() });
            host_of.resize(host_of.len() + waits.len(), k);
            available.extend(waits);
        }
        let mut queue: Vec<usize> = (0..jobs.len()).collect();
        let estimate = |i: usize| jobs[i].total / jobs[i].speed;
        queue.sort_by(|&a, &b| estimate(b).total_cmp(&estimate(a)));
        Self { hosts, host_of, available, jobs, transfer, start, moment, queue }
    }

    /// Returns the hosts of `cores`.
    pub(super) fn hosts_of(&self, cores: &[usize]) -> Vec<usize> {
        cores.iter().map(|&core| self.host_of[core]).collect()
    }

    /// Times at which the cores of each host are free, ascending.
    pub(super) fn free_times(&self) -> Vec<Vec<f64>> {
        let times = |host: &Host| {
            let mut free = self.available[host.first..host.first + host.cores].to_vec();
            free.sort_by(f64::total_cmp);
            free
        };
        self.hosts.iter().map(times).collect()
    }

    /// Milliseconds of a block on a core of `host` when the job has `n` cores (formula 3).
    pub(super) fn block_ms(&self, job: &Job, block: usize, host: usize, n: usize) -> f64 {
        let block = &job.blocks[block];
        let compute = block.size / (job.speed * job.decay.factor(n) * job.pace_on(host));
        let read = if block.is_on(host) { 0.0 } else { block.size / self.transfer };
        1000.0 * (read + compute)
    }
}

impl Block {
    /// Whether `host` holds a replica.
    pub(super) fn is_on(&self, host: usize) -> bool {
        self.replicas.binary_search(&host).is_ok()
    }
}

impl Job {
    /// Part of the job's speed that remains on a host, above 0.
    pub(super) fn pace_on(&self, host: usize) -> f64 {
        self.pace.get(host).map_or(1.0, |pace| pace.clamp(PACE_MIN, 1.0))
    }

    /// Earliest start of the job on a host for other reasons than cores, ms.
    pub(super) fn earliest_on(&self, host: usize) -> f64 {
        self.from.get(host).copied().unwrap_or(0.0)
    }

    /// Difference of loads, in ms, that is not worth a migration (formula 8).
    pub(super) fn threshold_ms(&self) -> f64 {
        let least = self.blocks.iter().map(|block| block.size).fold(f64::INFINITY, f64::min);
        1000.0 * 0.5 * least / self.speed
    }
}

fn index(
    job: &super::problem::Job<'_>,
    known: &HashMap<&str, usize>,
    alpha: f64,
    cores: usize,
) -> Job {
    let mut blocks = Vec::with_capacity(job.blocks.len());
    for block in &job.blocks {
        let names = block.replicas.iter();
        let mut replicas: Vec<usize> =
            names.filter_map(|name| known.get(name.0.as_ref()).copied()).collect();
        replicas.sort_unstable();
        blocks.push(Block { size: block.size_mb, replicas });
    }
    let decay = job.attenuation.clone().unwrap_or(Attenuation::Linear(alpha));
    Job::new(job.speed_mb_per_s, decay, blocks, cores)
}

impl Job {
    /// A job, with all figures that follow from its blocks, on a cluster of `cores` cores.
    pub(super) fn new(speed: f64, decay: Attenuation, blocks: Vec<Block>, cores: usize) -> Self {
        let mut held: Vec<(usize, f64)> = Vec::new();
        for block in &blocks {
            held.extend(block.replicas.iter().map(|&host| (host, block.size)));
        }
        held.sort_by_key(|&(host, _)| host);
        merge_equal(&mut held, |sum, next| sum + next);
        let mut falling: Vec<usize> = (0..blocks.len()).collect();
        falling.sort_by(|&a, &b| blocks[b].size.total_cmp(&blocks[a].size));
        let cores_max = decay.positive_up_to(cores.min(blocks.len()));
        let mut cap = 1;
        for n in 2..=cores_max {
            let gain = |n: usize| n as f64 * decay.factor(n);
            if gain(n) > gain(cap) + 1e-12 {
                cap = n;
            }
        }
        let total = blocks.iter().map(|block| block.size).sum();
        let (pace, from) = (Vec::new(), Vec::new());
        Self { speed, decay, pace, from, blocks, total, falling, held, cap, cores_max }
    }
}
