// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs on a pool of one resource in the order of their ranks, with backfill by the users' limits
//! or without.
//!
//! The first job that does not fit gets a reservation: the earliest time when enough is free if
//! all running jobs last as long as their limits. Others may start before it if they end by then,
//! or take no more than what is left beside it (EASY; Lifka 1995, Mu'alem and Feitelson 2001).

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::Rank;
use phalanx_core::number::nearest_u64;

/// A job that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Id, unique among all jobs of a pool; grows with arrival.
    pub id: u32,
    /// Amount of the resource, such as CPUs.
    pub size: u64,
    /// The user's time limit, seconds.
    pub limit_s: u64,
    /// Place in the order; ties by id.
    pub rank: Rank,
}

/// Amounts that jobs may use beside the reservation of the first waiting job.
#[derive(Debug)]
struct Gap {
    free: u64,
    /// Amount left beside the first waiting job when that one starts.
    extra: u64,
    /// Time until the first waiting job starts.
    window_s: u64,
}

impl Gap {
    fn admits(&self, job: &Request) -> bool {
        job.size <= self.free && (job.size <= self.extra || job.limit_s <= self.window_s)
    }
}

/// A pool of a resource, with its running and its waiting jobs.
#[derive(Debug, Clone)]
pub struct Easy {
    total: u64,
    taken: u64,
    depth: usize,
    waiting: BTreeMap<(Rank, u32), Request>,
    /// Running jobs, each with the time at which it reaches its limit.
    running: BTreeMap<u32, i64>,
    /// Amounts of running jobs, by the times at which they reach their limits.
    ends: BTreeMap<(i64, u32), u64>,
}

impl Easy {
    /// Makes an idle pool of `total` units, in which backfill looks at `depth` jobs; at 0 the first
    /// job blocks all.
    pub fn new(total: u64, depth: usize) -> Self {
        let (waiting, running, ends) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { total, taken: 0, depth, waiting, running, ends }
    }

    /// Changes the number of units of the pool; running jobs keep theirs.
    pub fn resize(&mut self, total: u64) {
        self.total = total;
    }

    fn free(&self) -> u64 {
        self.total.saturating_sub(self.taken)
    }

    /// A job arrives.
    pub fn submit(&mut self, job: Request) {
        self.waiting.insert((job.rank, job.id), job);
    }

    /// Removes a job that no longer waits.
    pub fn withdraw(&mut self, job: &Request) {
        self.waiting.remove(&(job.rank, job.id));
    }

    /// Ends a running job, which gives back what it holds.
    pub fn finish(&mut self, id: u32) {
        let end = self.running.remove(&id).and_then(|end_s| self.ends.remove(&(end_s, id)));
        self.taken -= end.unwrap_or(0);
    }

    /// Starts a job, or notes one that runs already, whether it fits or not.
    pub fn start(&mut self, job: &Request, now_s: i64) {
        let end_s = now_s.saturating_add_unsigned(job.limit_s);
        self.withdraw(job);
        self.taken += job.size;
        self.running.insert(job.id, end_s);
        self.ends.insert((end_s, job.id), job.size);
    }

    /// Starts the jobs that may start at `now_s`; adds their ids to `started` in that order.
    pub fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        let head = loop {
            let Some((_, &job)) = self.waiting.first_key_value() else { return };
            if job.size > self.free() {
                break job;
            }
            self.start(&job, now_s);
            started.push(job.id);
        };
        if self.depth == 0 || self.free() == 0 {
            return;
        }
        let mut gap = self.gap_before(head.size, now_s);
        let (mut last, mut left) = ((head.rank, head.id), self.depth);
        while gap.free > 0 {
            let mut behind = self.waiting.range((Excluded(last), Unbounded)).take(left).enumerate();
            let Some((passed, (&key, &job))) = behind.find(|(_, (_, job))| gap.admits(job)) else {
                return;
            };
            left -= passed + 1;
            if job.limit_s > gap.window_s {
                gap.extra -= job.size;
            }
            gap.free -= job.size;
            self.start(&job, now_s);
            started.push(job.id);
            last = key;
        }
    }

    /// The amounts that jobs may use before a job of `size` can start.
    fn gap_before(&self, size: u64, now_s: i64) -> Gap {
        let now_free = self.free();
        let (mut free, mut start_s) = (now_free, None);
        for (&(end_s, _), own) in &self.ends {
            if start_s.is_some_and(|start_s| end_s > start_s) {
                break;
            }
            free += own;
            if start_s.is_none() && free >= size {
                start_s = Some(end_s);
            }
        }
        let Some(start_s) = start_s else {
            // It never fits: nothing has to be kept for it.
            return Gap { free: now_free, extra: now_free, window_s: u64::MAX };
        };
        let window_s = nearest_u64(start_s.saturating_sub(now_s));
        Gap { free: now_free, extra: free - size, window_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(depth: usize) -> Easy {
        let mut pool = Easy::new(10, depth);
        arrive(&mut pool, 0, 6, 100);
        assert_eq!(pass(&mut pool, 0), [0]);
        arrive(&mut pool, 1, 8, 50); // the head: starts at 100, 2 CPUs beside it
        pool
    }

    fn arrive(pool: &mut Easy, id: u32, size: u64, limit_s: u64) {
        pool.submit(Request { id, size, limit_s, rank: Rank::ARRIVAL });
    }

    fn pass(pool: &mut Easy, now_s: i64) -> Vec<u32> {
        let mut started = Vec::new();
        pool.pass(now_s, &mut started);
        started
    }

    #[test]
    fn what_ends_in_time_or_leaves_enough_passes_the_head() {
        let mut pool = pool(9);
        arrive(&mut pool, 2, 3, 101); // too long, too large
        arrive(&mut pool, 3, 2, 500); // fits beside
        arrive(&mut pool, 4, 2, 90); // ends in time
        assert_eq!(pass(&mut pool, 5), [3, 4]);
        assert_eq!((pool.free(), pool.waiting.len()), (0, 2));
        pool.finish(4);
        assert_eq!(pass(&mut pool, 95), [] as [u32; 0]);
        pool.finish(0);
        assert_eq!(pass(&mut pool, 100), [1]);
    }

    #[test]
    fn without_backfill_the_head_blocks() {
        let mut pool = pool(0);
        arrive(&mut pool, 2, 1, 1);
        assert_eq!(pass(&mut pool, 2), [] as [u32; 0]);
    }

    #[test]
    fn a_pool_that_shrinks_below_what_runs_starts_nothing() {
        let mut pool = pool(9);
        pool.resize(5);
        arrive(&mut pool, 2, 1, 1);
        assert_eq!(pass(&mut pool, 2), [] as [u32; 0]);
        pool.finish(0);
        assert_eq!(pass(&mut pool, 3), [2], "the head never fits");
        pool.resize(9);
        assert_eq!(pass(&mut pool, 4), [1]);
    }
}
