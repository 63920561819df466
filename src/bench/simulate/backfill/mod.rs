// SPDX-License-Identifier: GPL-3.0-or-later
//! Backfill on a pool of CPUs: which waiting jobs start beside a reservation.
//!
//! The job at the head of the line that does not fit gets a reservation: the
//! earliest time when enough CPUs are free if all running jobs last as long as
//! is expected of them. Others may start before it if they are expected to end
//! by then, or take no more than the CPUs that are left beside it (EASY;
//! Lifka 1995, Mu'alem and Feitelson 2001).
//!
//! The head is the oldest job, if it may be passed no more, else the first one by [`Rank`]; all
//! others follow by rank.

mod list;

use std::collections::BTreeMap;

use phalanx_core::number::nearest_i64;
use phalanx_planner::order::Rank;

use list::{Blocks, Entry, Summary};

/// A job that may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Id, unique among all jobs ever submitted; grows with arrival.
    pub id: u32,
    /// CPUs, at least 1.
    pub size: u64,
    /// Expected runtime, seconds, at least 1.
    pub window_s: u64,
    /// Place in the line.
    pub rank: Rank,
}

impl Entry for Request {
    type Key = (Rank, u32);
    fn key(&self) -> Self::Key {
        (self.rank, self.id)
    }
}

/// Size classes of a block's summary: one for each doubling.
const CLASSES: usize = 24;

/// Shortest window by size class.
#[derive(Debug, Clone)]
struct Shortest([u64; CLASSES]);

impl Default for Shortest {
    fn default() -> Self {
        Self([u64::MAX; CLASSES])
    }
}

impl Summary<Request> for Shortest {
    fn add(&mut self, job: &Request) {
        let class = (job.size.max(1).ilog2() as usize).min(CLASSES - 1);
        if let Some(shortest) = self.0.get_mut(class) {
            *shortest = job.window_s.min(*shortest);
        }
    }
}

impl Shortest {
    fn may_start(&self, gap: &Gap) -> bool {
        let sizes = (0..CLASSES).map(|class| 1u64 << class).take_while(|size| *size <= gap.free);
        sizes.zip(&self.0).any(|(size, window)| {
            *window < u64::MAX && (size <= gap.extra || *window <= gap.window_s)
        })
    }
}

/// Resources that jobs may use beside the head's reservation.
#[derive(Debug, Clone, Copy)]
struct Gap {
    free: u64,
    /// CPUs left beside the first waiting job when it starts.
    extra: u64,
    /// Time until the head starts.
    window_s: u64,
}

impl Gap {
    fn admits(&self, job: &Request) -> bool {
        job.size <= self.free && (job.size <= self.extra || job.window_s <= self.window_s)
    }
}

/// A running job by its expected end.
#[derive(Debug, Clone, Copy)]
struct End {
    end_s: i64,
    id: u32,
    size: u64,
}

impl Entry for End {
    type Key = (i64, u32);
    fn key(&self) -> Self::Key {
        (self.end_s, self.id)
    }
}

/// CPUs that a block of ends gives back.
#[derive(Debug, Clone, Default)]
struct Size(u64);

impl Summary<End> for Size {
    fn add(&mut self, end: &End) {
        self.0 += end.size;
    }
}

/// The pool, its running and its waiting jobs.
#[derive(Debug, Clone)]
pub struct Backfill {
    free: u64,
    backfills: bool,
    running: BTreeMap<u32, End>,
    ends: Blocks<End, Size>,
    waiting: BTreeMap<u32, Request>,
    line: Blocks<Request, Shortest>,
}

impl Backfill {
    /// Makes an idle pool of a number of CPUs; without `backfills` the head blocks all other jobs.
    pub fn new(cpus: u64, backfills: bool) -> Self {
        Self {
            free: cpus,
            backfills,
            running: BTreeMap::new(),
            ends: Blocks::new(),
            waiting: BTreeMap::new(),
            line: Blocks::new(),
        }
    }

    /// CPUs that no job holds.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Jobs that wait, by arrival.
    pub fn waiting(&self) -> &BTreeMap<u32, Request> {
        &self.waiting
    }

    /// A job arrives.
    pub fn submit(&mut self, job: Request) {
        self.waiting.insert(job.id, job);
        self.line.insert(job);
    }

    /// Changes the expected runtime or rank of a waiting job.
    pub fn revise(&mut self, id: u32, window_s: u64, rank: Rank) {
        let Some(job) = self.waiting.get_mut(&id) else { return };
        self.line.remove(&job.key());
        (job.window_s, job.rank) = (window_s, rank);
        self.line.insert(*job);
    }

    /// Changes the expected end of a running job.
    pub fn expect(&mut self, id: u32, end_s: i64) {
        let Some(end) = self.running.get_mut(&id) else { return };
        self.ends.remove(&end.key());
        end.end_s = end_s;
        self.ends.insert(*end);
    }

    /// Ends a running job, which gives its CPUs back.
    pub fn finish(&mut self, id: u32) {
        if let Some(end) = self.running.remove(&id) {
            self.ends.remove(&end.key());
            self.free += end.size;
        }
    }

    /// Starts what may start at `now_s`; adds their ids in the order of start.
    /// Jobs with ids below `passed_no_more` come first as heads, by arrival.
    pub fn pass(&mut self, now_s: i64, passed_no_more: u32, started: &mut Vec<u32>) {
        if self.free == 0 {
            return;
        }
        let Some(head) = self.start_heads(now_s, passed_no_more, started) else { return };
        if !self.backfills || self.free == 0 {
            return;
        }
        let mut gap = self.gap_before(&head, now_s);
        let mut after = None;
        while gap.free > 0 {
            let next = self.line.next(
                after.as_ref(),
                |block| block.may_start(&gap),
                |job| gap.admits(job) && job.id != head.id,
            );
            let Some(job) = next else { return };
            after = Some(job.key());
            if job.window_s > gap.window_s {
                gap.extra -= job.size;
            }
            gap.free -= job.size;
            self.start(&job, now_s);
            started.push(job.id);
        }
    }

    /// The job that starts next; see [`Backfill::pass`].
    pub fn head(&self, passed_no_more: u32) -> Option<Request> {
        let oldest = self.waiting.first_key_value().map(|(_, job)| job);
        oldest.filter(|job| job.id < passed_no_more).or_else(|| self.line.first()).copied()
    }

    /// Starts the line's jobs until one does not fit, and returns that job.
    fn start_heads(
        &mut self,
        now_s: i64,
        passed_no_more: u32,
        started: &mut Vec<u32>,
    ) -> Option<Request> {
        loop {
            let head = self.head(passed_no_more)?;
            if head.size > self.free {
                return Some(head);
            }
            self.start(&head, now_s);
            started.push(head.id);
        }
    }

    /// Starts a waiting job on CPUs that are free.
    pub fn start(&mut self, job: &Request, now_s: i64) {
        self.waiting.remove(&job.id);
        self.line.remove(&job.key());
        self.free -= job.size;
        let end_s = now_s.saturating_add(nearest_i64(job.window_s));
        let end = End { end_s, id: job.id, size: job.size };
        self.running.insert(job.id, end);
        self.ends.insert(end);
    }

    /// Seconds until `head` fits, if running jobs last as long as is expected.
    pub fn wait_s(&self, head: &Request, now_s: i64) -> u64 {
        if head.size <= self.free { 0 } else { self.gap_before(head, now_s).window_s }
    }

    /// The resources that jobs may use before `head` can start.
    fn gap_before(&self, head: &Request, now_s: i64) -> Gap {
        let mut free = self.free;
        let mut start_s = None;
        'search: for block in self.ends.blocks() {
            if start_s.is_none() && free + block.summary.0 < head.size {
                free += block.summary.0;
                continue;
            }
            for end in &block.entries {
                if start_s.is_some_and(|start_s| end.end_s > start_s) {
                    break 'search;
                }
                free += end.size;
                if start_s.is_none() && free >= head.size {
                    start_s = Some(end.end_s);
                }
            }
        }
        let Some(start_s) = start_s else {
            // It never fits: nothing has to be kept for it.
            return Gap { free: self.free, extra: self.free, window_s: u64::MAX };
        };
        let window_s = u64::try_from(start_s.saturating_sub(now_s)).unwrap_or(0);
        Gap { free: self.free, extra: free - head.size, window_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, size: u64, window_s: u64) -> Request {
        Request { id, size, window_s, rank: Rank::ARRIVAL }
    }

    fn pass(pool: &mut Backfill, now_s: i64, passed_no_more: u32) -> Vec<u32> {
        let mut started = Vec::new();
        pool.pass(now_s, passed_no_more, &mut started);
        started
    }

    #[test]
    fn what_ends_in_time_or_leaves_enough_passes_the_head() {
        let mut pool = Backfill::new(10, true);
        pool.submit(job(0, 6, 100));
        assert_eq!(pass(&mut pool, 0, u32::MAX), [0]);
        pool.submit(job(1, 8, 50)); // the head: starts at 100, 2 CPUs beside it
        pool.submit(job(2, 3, 101)); // too long, too large
        pool.submit(job(3, 2, 500)); // fits beside
        pool.submit(job(4, 2, 90)); // ends in time
        assert_eq!(pass(&mut pool, 5, u32::MAX), [3, 4]);
        assert_eq!((pool.free(), pool.waiting().len()), (0, 2));
        pool.finish(4);
        assert_eq!(pass(&mut pool, 95, u32::MAX), [] as [u32; 0]);
        pool.finish(0);
        assert_eq!(pass(&mut pool, 100, u32::MAX), [1]);
    }

    #[test]
    fn without_backfill_the_head_blocks() {
        let mut pool = Backfill::new(10, false);
        pool.submit(job(0, 6, 100));
        pool.submit(job(1, 8, 50));
        pool.submit(job(2, 1, 1));
        assert_eq!(pass(&mut pool, 2, u32::MAX), [0]);
    }

    #[test]
    fn ranked_jobs_pass_until_the_guard() {
        let mut pool = Backfill::new(4, true);
        let ranked = |id, run| Request { rank: Rank::shortest(run), ..job(id, 4, run) };
        pool.submit(ranked(0, 90));
        pool.submit(ranked(1, 50));
        pool.submit(ranked(2, 10));
        assert_eq!(pass(&mut pool, 2, 0), [2]);
        pool.finish(2);
        assert_eq!(pass(&mut pool, 100, 1), [0], "it waited long enough");
        pool.revise(1, 70, Rank::shortest(70));
        pool.expect(0, 95);
        pool.finish(0);
        assert_eq!(pass(&mut pool, 101, 1), [1]);
        assert_eq!(pool.free(), 0);
    }
}
