// SPDX-License-Identifier: GPL-3.0-or-later
//! Waits of jobs, alone and against their runtimes, and the middle of many numbers.

use super::job::SimJob;

/// Tau of the bounded slowdown, seconds.
pub const TAU_S: u64 = 10;

/// Wait of a job, seconds.
pub fn wait_s(job: &SimJob, start_s: i64) -> i64 {
    start_s.saturating_sub(job.submit_s).max(0)
}

/// Bounded slowdown of a job, by its runtime in the log.
pub fn bounded_slowdown(job: &SimJob, end_s: i64) -> f64 {
    let turnaround = end_s.saturating_sub(job.submit_s) as f64;
    (turnaround / job.run_s.max(TAU_S) as f64).max(1.0)
}

/// Value at a share of an ascending list (nearest rank); the default if empty.
pub fn percentile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
