// SPDX-License-Identifier: GPL-3.0-or-later
//! A makespan that no schedule can beat: from each job alone, and from all jobs' work on
//! all cores together.

use super::instance::{Instance, Job};
use super::problem::Start;

/// Lower bounds over all choices of cores and blocks, for each number of cores n of one job.
#[derive(Debug, Clone)]
pub(super) struct JobBound {
    /// `[n - 1]`: ms from start to end.
    pub(super) duration: Vec<f64>,
    /// `[n - 1]`: earliest end with n cores on the cluster in its present state, ms.
    pub(super) end: Vec<f64>,
    /// `[n - 1]`: core milliseconds.
    pub(super) area: Vec<f64>,
}

/// Bounds of every job; empty for jobs without blocks.
pub(super) fn of_jobs(instance: &Instance) -> Vec<JobBound> {
    let mut free = instance.available.clone();
    free.sort_by(f64::total_cmp);
    let mut sums = Vec::with_capacity(free.len());
    let mut sum = 0.0;
    for &at in &free {
        sum += at;
        sums.push(sum);
    }
    instance.jobs.iter().map(|job| of_job(instance, job, &free, &sums)).collect()
}

fn of_job(instance: &Instance, job: &Job, free: &[f64], sums: &[f64]) -> JobBound {
    let mut bound = JobBound { duration: Vec::new(), end: Vec::new(), area: Vec::new() };
    if job.blocks.is_empty() {
        return bound;
    }
    // With n cores, hence at most n hosts, at least the rest must be read remotely.
    let mut held: Vec<f64> = Vec::new();
    for &(host, amount) in &job.held {
        held.extend((instance.hosts[host].cores > 0).then_some(amount));
    }
    held.sort_by(|a, b| b.total_cmp(a));
    let mut local = 0.0;
    for n in 1..=job.cores_max {
        local += held.get(n - 1).copied().unwrap_or(0.0);
        let remote = (job.total - local).max(0.0) / instance.transfer;
        let per_mb = 1000.0 / (job.speed * job.decay.factor(n));
        let work = job.total * per_mb + 1000.0 * remote;
        let duration = (work / n as f64).max(pigeonhole(job, n) * per_mb);
        let (end, area) = match instance.start {
            Start::Gang => (free[n - 1] + duration, duration * n as f64),
            Start::Async => ((free[0] + duration).max((sums[n - 1] + work) / n as f64), work),
        };
        bound.duration.push(duration);
        bound.end.push(end);
        bound.area.push(area);
    }
    bound
}

/// Megabytes that some core must have at least: of the k n + 1 largest blocks, k + 1 share a core.
fn pigeonhole(job: &Job, n: usize) -> f64 {
    let size = |rank: usize| job.blocks[job.falling[rank]].size;
    let (mut most, mut k) = (size(0), 1);
    // The gain of large k is small; a few keep the cost per n constant.
    while k <= 8 && k * n < job.blocks.len() {
        let together: f64 = (0..=k).map(|back| size(k * n - back)).sum();
        most = most.max(together);
        k += 1;
    }
    most
}

/// Least milliseconds of every schedule.
pub(super) fn of_all(instance: &Instance, jobs: &[JobBound]) -> f64 {
    let longest = |bound: &JobBound| bound.end.iter().copied().fold(f64::INFINITY, f64::min);
    let busy = jobs.iter().filter(|bound| !bound.end.is_empty());
    let mut low = busy.map(longest).fold(0.0, f64::max);
    if fits(instance, jobs, low) {
        return low;
    }
    let mut high = low.max(1.0);
    while !fits(instance, jobs, high) && high.is_finite() {
        low = high;
        high *= 2.0;
    }
    // Only the lower end is ever returned: everything below it does not fit.
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if fits(instance, jobs, middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// Whether the cores have room for the least work of all jobs until `makespan`, each with
/// a number of cores that lets it end by then.
fn fits(instance: &Instance, jobs: &[JobBound], makespan: f64) -> bool {
    // Rounding of sums must not make the bound too high.
    let within = makespan * (1.0 + 1e-12);
    let room: f64 = instance.available.iter().map(|at| (within - at).max(0.0)).sum();
    let mut need = 0.0;
    for bound in jobs.iter().filter(|bound| !bound.end.is_empty()) {
        let pairs = bound.end.iter().zip(&bound.area);
        let least = pairs.filter(|(end, _)| **end <= within).map(|(_, area)| *area);
        need += least.fold(f64::INFINITY, f64::min);
    }
    need <= room * (1.0 + 1e-12)
}
