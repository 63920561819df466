// SPDX-License-Identifier: GPL-3.0-or-later
//! The limit on how long a job may be passed by others: a share of what jobs would have to wait
//! anyway.
//!
//! A [`StarvationLimit`] carries a second schedule along in which nobody is preferred: EASY in
//! Slurm's own order, with the runtimes of the jobs that ended and the predictions for those that
//! did not. The longest wait it has seen there is what users of this cluster are used to; a job
//! that has waited for a share of it is passed no more. As long as nobody would have to wait,
//! nobody is passed.

use std::collections::{BTreeMap, BTreeSet};

use super::easy::{Easy, Request};
use phalanx_core::number::nearest_i64;

/// A job in both the real and the fair schedule.
#[derive(Debug, Clone, Copy)]
struct Twin {
    job: Request,
    expected_s: i64,
    /// Real start.
    started_s: Option<i64>,
    /// Real runtime.
    run_s: Option<i64>,
    /// Start and expected end of the job in the fair schedule.
    fair: Option<(i64, i64)>,
    submit_s: i64,
    gone: bool,
}

/// The fair schedule that runs beside the real one, and the limit that follows from it.
#[derive(Debug, Clone)]
pub struct StarvationLimit {
    share_percent: u32,
    fair: Easy,
    jobs: BTreeMap<u32, Twin>,
    ends: BTreeSet<(i64, u32)>,
    longest_s: i64,
    starts: Vec<u32>,
}

impl StarvationLimit {
    /// Makes the limit for a pool of `total` units, at `share_percent` of the longest fair wait.
    pub fn new(total: u64, share_percent: u32) -> Self {
        Self {
            share_percent,
            fair: Easy::new(total, usize::MAX),
            jobs: BTreeMap::new(),
            ends: BTreeSet::new(),
            longest_s: 0,
            starts: Vec::new(),
        }
    }

    /// Adapts the pool's size and the share of the longest wait.
    pub fn adapt(&mut self, total: u64, share_percent: u32) {
        self.fair.resize(total);
        self.share_percent = share_percent;
    }

    /// The longest wait in the fair schedule, seconds.
    pub fn longest_s(&self) -> i64 {
        self.longest_s
    }

    /// Restores the longest wait of an earlier fair schedule.
    pub fn recall(&mut self, longest_s: i64) {
        self.longest_s = self.longest_s.max(longest_s);
    }

    /// Waiting time from which on no job passes a waiting one, seconds.
    pub fn limit_s(&self) -> i64 {
        self.longest_s.saturating_mul(i64::from(self.share_percent)) / 100
    }

    /// The time of the next end in the fair schedule.
    pub fn next_s(&self) -> Option<i64> {
        self.ends.first().map(|(end_s, _)| *end_s)
    }

    /// Number of jobs that are remembered.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether no job is remembered.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Adds a job that arrives at `submit_s`.
    pub fn arrived(&mut self, job: Request, submit_s: i64, expected_s: u64) {
        let twin = Twin {
            job,
            expected_s: nearest_i64(expected_s),
            started_s: None,
            run_s: None,
            fair: None,
            submit_s,
            gone: false,
        };
        self.jobs.insert(job.id, twin);
        self.fair.submit(job);
    }

    /// Notes a job that is first seen while it runs: it runs in both schedules.
    pub fn found(&mut self, job: Request, started_s: i64, expected_s: u64) {
        self.arrived(job, started_s, expected_s);
        self.started(job.id, started_s);
        self.fair.start(&job, started_s);
        self.start(job.id, started_s);
    }

    /// Records that a job started in the real schedule.
    pub fn started(&mut self, id: u32, now_s: i64) {
        if let Some(twin) = self.jobs.get_mut(&id) {
            twin.started_s = Some(now_s);
        }
    }

    /// Records that a job ended in the real schedule, after `run_s` seconds.
    pub fn ended(&mut self, id: u32, run_s: i64, now_s: i64) {
        let Some(twin) = self.jobs.get_mut(&id) else { return };
        twin.run_s = Some(run_s);
        match twin.fair {
            Some((start_s, end_s)) if !twin.gone => {
                let end = now_s.max(start_s.saturating_add(run_s));
                twin.fair = Some((start_s, end));
                self.ends.remove(&(end_s, id));
                self.ends.insert((end, id));
            }
            Some(_) => {
                self.jobs.remove(&id);
            }
            None => {}
        }
    }

    /// Records that a job will never start.
    pub fn cancelled(&mut self, id: u32) {
        let Some(twin) = self.jobs.remove(&id) else { return };
        self.fair.withdraw(&twin.job);
        self.fair.finish(id);
        twin.fair.iter().for_each(|(_, end_s)| _ = self.ends.remove(&(*end_s, id)));
    }

    /// Brings the fair schedule up to `now_s`; call after arrivals and ends.
    pub fn advance(&mut self, now_s: i64) {
        while let Some(end_s) = self.next_s().filter(|end_s| *end_s < now_s) {
            self.pass(end_s);
        }
        self.pass(now_s);
    }

    fn pass(&mut self, now_s: i64) {
        while let Some(&(end_s, id)) = self.ends.first() {
            if end_s > now_s {
                break;
            }
            self.ends.pop_first();
            self.end_or_extend(id, now_s);
        }
        let mut starts = std::mem::take(&mut self.starts);
        self.fair.pass(now_s, &mut starts);
        for id in starts.drain(..) {
            self.start(id, now_s);
        }
        self.starts = starts;
    }

    /// Ends a job whose time is up in the fair schedule, unless it began in the real one no later
    /// and still runs.
    fn end_or_extend(&mut self, id: u32, now_s: i64) {
        let Some(twin) = self.jobs.get_mut(&id) else { return };
        let Some((start_s, _)) = twin.fair else { return };
        let runs = twin.run_s.is_none() && twin.started_s.is_some_and(|real| real <= start_s);
        let last_s = start_s.saturating_add_unsigned(twin.job.limit_s);
        if runs && last_s > now_s {
            let longer = (now_s - start_s) / 4;
            let end_s = last_s.min(now_s + longer.max(60));
            twin.fair = Some((start_s, end_s));
            self.ends.insert((end_s, id));
            return;
        }
        twin.gone = true;
        if twin.run_s.is_some() {
            self.jobs.remove(&id);
        }
        self.fair.finish(id);
    }

    fn start(&mut self, id: u32, now_s: i64) {
        let Some(twin) = self.jobs.get_mut(&id) else { return };
        self.longest_s = self.longest_s.max(now_s - twin.submit_s);
        let lasts_s = twin.run_s.unwrap_or(twin.expected_s).max(1);
        let end_s = now_s.saturating_add(lasts_s);
        twin.fair = Some((now_s, end_s));
        self.ends.insert((end_s, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Rank;

    fn job(id: u32) -> Request {
        Request { id, size: 4, limit_s: 100, rank: Rank::ARRIVAL }
    }

    #[test]
    fn the_limit_follows_the_longest_fair_wait() {
        let mut limit = StarvationLimit::new(4, 40);
        limit.arrived(job(0), 0, 50);
        limit.arrived(job(1), 0, 50);
        limit.advance(0);
        assert_eq!((limit.limit_s(), limit.next_s()), (0, Some(50)), "nobody waited yet");
        limit.started(0, 0);
        limit.advance(50);
        assert_eq!(limit.next_s(), Some(100), "it runs longer than expected, until its limit");
        limit.ended(0, 80, 80);
        limit.advance(80);
        assert_eq!(limit.limit_s(), 32, "the second would have waited for 80 s");
        limit.started(1, 80);
        limit.ended(1, 10, 90);
        limit.advance(200);
        assert!(limit.is_empty(), "nothing is kept of jobs that ended");
    }

    /// Goal: a late look sees what earlier looks would have seen. Method: the first of two jobs is
    /// over long before the look.
    #[test]
    fn ends_count_when_they_were() {
        let mut limit = StarvationLimit::new(4, 100);
        limit.arrived(job(0), 0, 50);
        limit.arrived(job(1), 0, 50);
        limit.advance(0);
        limit.advance(1000);
        assert_eq!((limit.limit_s(), limit.next_s()), (50, None));
        limit.cancelled(0);
        limit.cancelled(1);
        assert!(limit.is_empty());
    }

    #[test]
    fn who_is_cancelled_no_longer_holds_or_waits() {
        let mut limit = StarvationLimit::new(4, 100);
        limit.found(job(0), -20, 50);
        limit.arrived(job(1), 0, 50);
        limit.arrived(job(2), 0, 50);
        limit.advance(5);
        limit.cancelled(1);
        limit.cancelled(0);
        limit.advance(6);
        assert_eq!((limit.limit_s(), limit.next_s()), (6, Some(56)), "the third runs");
    }
}
