// SPDX-License-Identifier: GPL-3.0-or-later
//! The limit on how long a job may be passed by others: as long as jobs would
//! have to wait anyway.
//!
//! A [`StarvationLimit`] carries a second schedule along in which nobody is preferred:
//! EASY by order of arrival, with the runtimes of the jobs that ended and the
//! predictions for those that did not. The longest wait it has seen there is
//! what users of this cluster are used to; a job that has waited for a share of
//! it is passed no more. As long as nobody would have to wait, nobody is passed.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_planner::order::Rank;

use super::backfill::{Backfill, Request};

/// Share of the longest fair wait after which a job is passed no more, percent.
/// The rest is left for its start to become possible.
const SHARE_PERCENT: i64 = 40;

/// A job in both schedules.
#[derive(Debug, Clone, Copy)]
struct Twin {
    limit_s: i64,
    expected_s: i64,
    /// Real start.
    started_s: Option<i64>,
    /// Real runtime.
    run_s: Option<i64>,
    /// Start and expected end in the fair schedule.
    fair: Option<(i64, i64)>,
    submit_s: i64,
    gone: bool,
}

/// The fair schedule beside the real one.
#[derive(Debug, Clone)]
pub struct StarvationLimit {
    fair: Backfill,
    jobs: BTreeMap<u32, Twin>,
    ends: BTreeSet<(i64, u32)>,
    longest_s: i64,
    starts: Vec<u32>,
}

impl StarvationLimit {
    /// Makes the limit for a pool of so many CPUs.
    pub fn new(cpus: u64) -> Self {
        let fair = Backfill::new(cpus, true);
        Self {
            fair,
            jobs: BTreeMap::new(),
            ends: BTreeSet::new(),
            longest_s: 0,
            starts: Vec::new(),
        }
    }

    /// Waiting time from which on a job is passed no more, seconds.
    pub fn limit_s(&self) -> i64 {
        self.longest_s.saturating_mul(SHARE_PERCENT) / 100
    }

    /// The time of the next end in the fair schedule.
    pub fn next_s(&self) -> Option<i64> {
        self.ends.first().map(|(end_s, _)| *end_s)
    }

    /// A job arrives at `submit_s`; `job.window_s` is the user's limit.
    pub fn arrived(&mut self, job: Request, submit_s: i64, expected_s: u64) {
        let seconds = |s: u64| i64::try_from(s).unwrap_or(i64::MAX);
        let twin = Twin {
            limit_s: seconds(job.window_s),
            expected_s: seconds(expected_s),
            started_s: None,
            run_s: None,
            fair: None,
            submit_s,
            gone: false,
        };
        self.jobs.insert(job.id, twin);
        self.fair.submit(Request { rank: Rank::ARRIVAL, ..job });
    }

    /// A job really started.
    pub fn started(&mut self, id: u32, now_s: i64) {
        if let Some(twin) = self.jobs.get_mut(&id) {
            twin.started_s = Some(now_s);
        }
    }

    /// A job really ended, after `run_s` seconds.
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

    /// Brings the fair schedule up to `now_s`; call after arrivals and ends.
    pub fn advance(&mut self, now_s: i64) {
        while let Some(&(end_s, id)) = self.ends.first() {
            if end_s > now_s {
                break;
            }
            self.ends.pop_first();
            self.end_or_extend(id, now_s);
        }
        let mut starts = std::mem::take(&mut self.starts);
        self.fair.pass(now_s, u32::MAX, &mut starts);
        for id in starts.drain(..) {
            self.start(id, now_s);
        }
        self.starts = starts;
    }

    /// Ends a job whose time is up in the fair schedule, unless it really began
    /// no later than there and runs still.
    fn end_or_extend(&mut self, id: u32, now_s: i64) {
        let Some(twin) = self.jobs.get_mut(&id) else { return };
        let Some((start_s, _)) = twin.fair else { return };
        let runs = twin.run_s.is_none() && twin.started_s.is_some_and(|real| real <= start_s);
        let last_s = start_s.saturating_add(twin.limit_s);
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

    fn job(id: u32) -> Request {
        Request { id, size: 4, window_s: 100, rank: Rank::ARRIVAL }
    }

    #[test]
    fn the_limit_follows_the_longest_fair_wait() {
        let mut limit = StarvationLimit::new(4);
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
        assert_eq!(limit.jobs.len(), 0, "nothing is kept of jobs that ended");
    }
}
