// SPDX-License-Identifier: GPL-3.0-or-later
//! The problem with indexes instead of names, and the formulas on it.

use std::collections::HashMap;

use super::problem::{Attenuation, Problem, Start};

/// Milliseconds by which a time must be smaller to count as smaller, and by which
/// an end may exceed the probed makespan.
pub(super) const SLACK_MS: f64 = 1e-9;

/// Part of its speed that a core keeps when the job has n of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decay {
    /// f(n) = 1 - alpha (n - 1).
    Linear {
        /// Loss per further core.
        alpha: f64,
    },
    /// f(1), f(2), ...; what comes after is as the last.
    Table(Vec<f64>),
    /// f(n) = 1 / (1 + beta (n - 1)).
    Amdahl {
        /// Part of the work that cannot be shared, relative to the rest.
        beta: f64,
    },
}

impl Decay {
    /// f(n); not positive where so many cores make no sense.
    pub(super) fn factor(&self, n: usize) -> f64 {
        let further = (n.max(1) - 1) as f64;
        match self {
            Self::Linear { alpha } => 1.0 - alpha * further,
            Self::Table(values) => {
                values.get(n.max(1) - 1).or(values.last()).copied().unwrap_or(1.0)
            }
            Self::Amdahl { beta } => 1.0 / (1.0 + beta * further),
        }
    }

    /// A job's own value, else that of all jobs.
    pub(super) fn of(given: Option<&Attenuation>, alpha: f64) -> Self {
        match given {
            None => Self::Linear { alpha },
            Some(Attenuation::Linear(alpha)) => Self::Linear { alpha: *alpha },
            Some(Attenuation::Table(values)) => Self::Table(values.clone()),
            Some(Attenuation::Amdahl(beta)) => Self::Amdahl { beta: *beta },
        }
    }

    /// Largest n <= `limit` with f(n) > 0.
    pub(super) fn positive_up_to(&self, limit: usize) -> usize {
        // f falls: the positive values are the first ones.
        let (mut low, mut high) = (1, limit.max(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.factor(middle) > 1e-9 {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

/// One block.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Megabytes.
    pub(super) size: f64,
    /// Hosts, ascending.
    pub(super) replicas: Vec<usize>,
}

/// One job.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// MB/s.
    pub(super) speed: f64,
    /// f(n).
    pub(super) decay: Decay,
    /// The input.
    pub(super) blocks: Vec<Block>,
    /// Megabytes of all blocks.
    pub(super) total: f64,
    /// Blocks, largest first, equal ones in the order given.
    pub(super) falling: Vec<usize>,
    /// (host, megabytes that it holds), hosts ascending.
    pub(super) held: Vec<(usize, f64)>,
    /// Largest number of cores that the source's method gives it (formula 9).
    pub(super) cap: usize,
    /// Largest number of cores that can do any good.
    pub(super) cores_max: usize,
}

/// One host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Index of its first core.
    pub(super) first: usize,
    /// Number of its cores.
    pub(super) cores: usize,
}

/// The whole problem. Cores are numbered through, host by host.
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
    /// Start of a job's cores.
    pub(super) start: Start,
    /// Moment of migration.
    pub(super) moment: u8,
    /// Jobs with blocks, longest estimated time first (formula 2).
    pub(super) queue: Vec<usize>,
}

impl Instance {
    /// Indexes a valid problem.
    pub(super) fn new(problem: &Problem<'_>) -> Self {
        let mut hosts = Vec::with_capacity(problem.hosts.len());
        let (mut host_of, mut available) = (Vec::new(), Vec::new());
        for (k, host) in problem.hosts.iter().enumerate() {
            hosts.push(Host { first: host_of.len(), cores: host.cores });
            host_of.resize(host_of.len() + host.cores, k);
            match &host.available_ms {
                Some(waits) => available.extend_from_slice(waits),
                None => available.resize(host_of.len(), 0.0),
            }
        }
        let names = problem.hosts.iter().map(|host| host.name.0.as_ref());
        let known: HashMap<&str, usize> = names.enumerate().map(|(k, name)| (name, k)).collect();
        let cores = host_of.len();
        let jobs: Vec<Job> =
            problem.jobs.iter().map(|job| index(job, &known, problem.alpha, cores)).collect();
        let mut queue: Vec<usize> =
            (0..jobs.len()).filter(|&i| !jobs[i].blocks.is_empty()).collect();
        let estimate = |i: usize| jobs[i].total / jobs[i].speed;
        queue.sort_by(|&a, &b| estimate(b).total_cmp(&estimate(a)));
        let (start, moment) = (problem.start, problem.moment);
        let transfer = problem.transfer_mb_per_s;
        Self { hosts, host_of, available, jobs, transfer, start, moment, queue }
    }

    /// Milliseconds of a block on a core of `host` when the job has `n` cores (formula 3).
    pub(super) fn block_ms(&self, job: &Job, block: usize, host: usize, n: usize) -> f64 {
        let block = &job.blocks[block];
        let compute = block.size / (job.speed * job.decay.factor(n));
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
    let decay = Decay::of(job.attenuation.as_ref(), alpha);
    Job::new(job.speed_mb_per_s, decay, blocks, cores)
}

impl Job {
    /// A job with what follows from its blocks, on a cluster of so many cores.
    pub(super) fn new(speed: f64, decay: Decay, blocks: Vec<Block>, cores: usize) -> Self {
        let mut held: Vec<(usize, f64)> = Vec::new();
        for block in &blocks {
            held.extend(block.replicas.iter().map(|&host| (host, block.size)));
        }
        held.sort_by_key(|&(host, _)| host);
        held.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                sum.1 += next.1;
            }
            same
        });
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
        Self { speed, decay, blocks, total, falling, held, cap, cores_max }
    }
}
