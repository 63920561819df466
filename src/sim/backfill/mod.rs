// SPDX-License-Identifier: GPL-3.0-or-later
//! Backfill on a pool of CPUs: which waiting jobs start now beside a reservation.
//!
//! The job at the head of the line that does not fit gets a reservation: the
//! earliest time when enough CPUs are free if all running jobs last as long as
//! is expected of them. Others may start before it if they are expected to end
//! by then, or take no more than the CPUs that are left beside it (EASY;
//! Lifka 1995, Mu'alem and Feitelson 2001).
//!
//! Jobs whose limit is a few seconds ([`Backfill::with_express`]) do not wait
//! until CPUs have been drained for the head: they may start whenever they fit,
//! as long as the head starts no later than was first promised to it plus their
//! limit.
//!
//! The line: jobs that have waited for the starvation limit or longer by arrival, then
//! all others by [`Rank`]. With a limit of 0 that is EASY's order of arrival.

mod list;
mod rank;
mod starvation;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use list::{Blocks, Entry, Summary};
pub use rank::{EXPRESS_S, LEAD_PERCENT, Rank};
pub use starvation::StarvationLimit;

/// A job that may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Unique among all jobs ever submitted.
    pub id: u32,
    /// CPUs, at least 1.
    pub size: u64,
    /// Expected runtime, seconds, at least 1.
    pub window_s: u64,
    /// Time of arrival, seconds; not before those submitted earlier.
    pub submit_s: i64,
    /// Its place in the line.
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
    /// CPUs left beside the head when it starts.
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
    /// By arrival: beyond the starvation limit, and not yet. Started ones drop out late.
    old: VecDeque<u32>,
    young: VecDeque<(i64, u32)>,
    /// Jobs that have waited this share of the limit, percent, also backfill
    /// before all others; 0: none do.
    lead_percent: i64,
    /// Those beyond the limit that do not yet.
    led: VecDeque<(i64, u32)>,
    /// Limit of express jobs, seconds; 0: there are none.
    express_s: u64,
    /// Those that wait.
    express: BTreeSet<u32>,
    /// The last head that did not fit, and the start first found for it.
    promised: Option<(u32, i64)>,
}

impl Backfill {
    /// An idle pool of so many CPUs; without `backfills` the head blocks all.
    pub fn new(cpus: u64, backfills: bool) -> Self {
        Self {
            free: cpus,
            backfills,
            running: BTreeMap::new(),
            ends: Blocks::new(),
            waiting: BTreeMap::new(),
            line: Blocks::new(),
            old: VecDeque::new(),
            young: VecDeque::new(),
            lead_percent: 0,
            led: VecDeque::new(),
            express_s: 0,
            express: BTreeSet::new(),
            promised: None,
        }
    }

    /// Jobs that have waited so many percent of the limit, at least 100, come
    /// first not only as head but in backfill too.
    pub fn with_lead(mut self, percent: i64) -> Self {
        self.lead_percent = percent;
        self
    }

    /// Lets jobs of at most this limit, seconds, pass a reservation by as much.
    pub fn with_express(mut self, limit_s: u64) -> Self {
        self.express_s = limit_s;
        self
    }

    /// CPUs that no job holds.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Jobs that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A job arrives.
    pub fn submit(&mut self, job: Request) {
        self.young.push_back((job.submit_s, job.id));
        if job.window_s <= self.express_s {
            self.express.insert(job.id);
        }
        self.waiting.insert(job.id, job);
        self.line.insert(job);
    }

    /// A waiting job is seen in another light.
    pub fn revise(&mut self, id: u32, window_s: u64, rank: Rank) {
        let Some(job) = self.waiting.get_mut(&id) else { return };
        self.line.remove(&job.key());
        (job.window_s, job.rank) = (window_s, rank);
        self.line.insert(*job);
    }

    /// A running job is expected to end at another time.
    pub fn expect(&mut self, id: u32, end_s: i64) {
        let Some(end) = self.running.get_mut(&id) else { return };
        self.ends.remove(&end.key());
        end.end_s = end_s;
        self.ends.insert(*end);
    }

    /// A running job gave its CPUs back.
    pub fn finish(&mut self, id: u32) {
        if let Some(end) = self.running.remove(&id) {
            self.ends.remove(&end.key());
            self.free += end.size;
        }
    }

    /// Starts what may start at `now_s`; adds their ids in the order of start.
    /// A job that has waited `starvation_s` seconds is passed no more.
    pub fn pass(&mut self, now_s: i64, starvation_s: i64, started: &mut Vec<u32>) {
        self.age(now_s, starvation_s);
        if self.free == 0 {
            return;
        }
        self.start_express(now_s, started);
        let Some(head) = self.start_heads(now_s, started) else { return };
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
            self.start(&job, now_s, started);
        }
    }

    fn start_express(&mut self, now_s: i64, started: &mut Vec<u32>) {
        if self.express.is_empty() {
            return;
        }
        let Some(head) = self.head() else { return };
        let last_s = self.promise(&head, now_s);
        let waiting = self.express.iter().filter_map(|id| self.waiting.get(id));
        let ends_s = |job: &Request| now_s.saturating_add_unsigned(job.window_s);
        let may: Vec<Request> = waiting.filter(|job| ends_s(job) <= last_s).copied().collect();
        for job in may {
            if job.size <= self.free {
                self.start(&job, now_s, started);
            }
        }
    }

    /// Until when express jobs may hold CPUs that `head` waits for.
    fn promise(&mut self, head: &Request, now_s: i64) -> i64 {
        let fits = head.size <= self.free;
        let wait_s = if fits { 0 } else { self.gap_before(head, now_s).window_s };
        let start_s = now_s.saturating_add_unsigned(wait_s);
        let first_s = match self.promised {
            Some((id, first_s)) if id == head.id => first_s,
            _ => start_s,
        };
        self.promised = Some((head.id, first_s));
        start_s.max(first_s.saturating_add_unsigned(self.express_s))
    }

    fn age(&mut self, now_s: i64, starvation_s: i64) {
        while let Some(&(submit_s, id)) = self.young.front() {
            if now_s.saturating_sub(submit_s) < starvation_s {
                break;
            }
            self.young.pop_front();
            self.old.push_back(id);
            if self.lead_percent > 0 {
                self.led.push_back((submit_s, id));
            }
        }
        let lead_s = starvation_s.saturating_mul(self.lead_percent) / 100;
        while let Some(&(submit_s, id)) = self.led.front() {
            if now_s.saturating_sub(submit_s) < lead_s {
                return;
            }
            self.led.pop_front();
            if let Some(window_s) = self.waiting.get(&id).map(|job| job.window_s) {
                self.revise(id, window_s, Rank::ARRIVAL);
            }
        }
    }

    fn head(&mut self) -> Option<Request> {
        while let Some(id) = self.old.front() {
            match self.waiting.get(id) {
                Some(job) => return Some(*job),
                None => self.old.pop_front(),
            };
        }
        self.line.first().copied()
    }

    /// Starts the line's jobs until one does not fit, and returns it.
    fn start_heads(&mut self, now_s: i64, started: &mut Vec<u32>) -> Option<Request> {
        loop {
            let head = self.head()?;
            if head.size > self.free {
                return Some(head);
            }
            self.start(&head, now_s, started);
        }
    }

    fn start(&mut self, job: &Request, now_s: i64, started: &mut Vec<u32>) {
        self.waiting.remove(&job.id);
        self.line.remove(&job.key());
        self.express.remove(&job.id);
        self.free -= job.size;
        let window_s = i64::try_from(job.window_s).unwrap_or(i64::MAX);
        let end = End { end_s: now_s.saturating_add(window_s), id: job.id, size: job.size };
        self.running.insert(job.id, end);
        self.ends.insert(end);
        started.push(job.id);
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
        Request { id, size, window_s, submit_s: i64::from(id), rank: Rank::ARRIVAL }
    }

    fn pass(pool: &mut Backfill, now_s: i64, starvation_s: i64) -> Vec<u32> {
        let mut started = Vec::new();
        pool.pass(now_s, starvation_s, &mut started);
        started
    }

    #[test]
    fn what_ends_in_time_or_leaves_enough_passes_the_head() {
        let mut pool = Backfill::new(10, true);
        pool.submit(job(0, 6, 100));
        assert_eq!(pass(&mut pool, 0, 0), [0]);
        pool.submit(job(1, 8, 50)); // the head: starts at 100, 2 CPUs beside it
        pool.submit(job(2, 3, 101)); // too long, too large
        pool.submit(job(3, 2, 500)); // fits beside
        pool.submit(job(4, 2, 90)); // ends in time
        assert_eq!(pass(&mut pool, 5, 0), [3, 4]);
        assert_eq!((pool.free(), pool.waiting()), (0, 2));
        pool.finish(4);
        assert_eq!(pass(&mut pool, 95, 0), [] as [u32; 0]);
        pool.finish(0);
        assert_eq!(pass(&mut pool, 100, 0), [1]);
    }

    #[test]
    fn without_backfill_the_head_blocks() {
        let mut pool = Backfill::new(10, false);
        pool.submit(job(0, 6, 100));
        pool.submit(job(1, 8, 50));
        pool.submit(job(2, 1, 1));
        assert_eq!(pass(&mut pool, 2, 0), [0]);
    }

    #[test]
    fn express_jobs_delay_the_head_by_no_more_than_their_limit() {
        let mut pool = Backfill::new(10, true).with_express(30);
        pool.submit(job(0, 6, 100));
        assert_eq!(pass(&mut pool, 0, 0), [0]);
        pool.submit(job(1, 10, 50)); // may start at 100
        pool.submit(job(2, 4, 30));
        assert_eq!(pass(&mut pool, 95, 0), [2], "ends at 125, 130 is allowed");
        pool.finish(0);
        pool.submit(job(3, 4, 30));
        assert_eq!(pass(&mut pool, 101, 0), [] as [u32; 0], "would end at 131");
        pool.finish(2);
        assert_eq!(pass(&mut pool, 125, 0), [1]);
    }

    #[test]
    fn ranked_jobs_pass_until_the_guard() {
        let mut pool = Backfill::new(4, true);
        let ranked = |id, run| Request { rank: Rank::shortest(run), ..job(id, 4, run) };
        pool.submit(ranked(0, 90));
        pool.submit(ranked(1, 50));
        pool.submit(ranked(2, 10));
        assert_eq!(pass(&mut pool, 2, 100), [2]);
        pool.finish(2);
        assert_eq!(pass(&mut pool, 100, 100), [0], "waited for 100 s");
        pool.revise(1, 70, Rank::shortest(70));
        pool.expect(0, 95);
        pool.finish(0);
        assert_eq!(pass(&mut pool, 101, 100), [1]);
        assert_eq!(pool.free(), 0);
    }
}
