// SPDX-License-Identifier: GPL-3.0-or-later
//! Orders of starts that the product does not have: EASY++, and the order of the research, each on
//! a pool of CPUs and on nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use phalanx_core::number::{nearest_i64, whole};
use phalanx_methods::learn::runtime::{JobClass, Prediction, Runtimes};
use phalanx_planner::order::{self, Rank, StarvationLimit};
use phalanx_sim::job::{SimJob, Workload};
use phalanx_sim::nodes::NodeJob;
use phalanx_sim::nodes::line::Line;
use phalanx_sim::schedule::Scheduler;

use super::backfill::{Backfill, Request};
use super::line::Ranked;

/// Share of the longest fair wait after which a job is passed no more, percent. The rest is left
/// for its start to become possible.
const SHARE_PERCENT: u32 = 40;

/// Predicted runtime up to which a job passes others, seconds.
const SHORT_S: u64 = 3600;

/// Limit of jobs that need not wait for a reservation, seconds.
const EXPRESS_S: u64 = 24;

/// Share of the starvation limit after which a job also backfills before all others, percent.
const LEAD_PERCENT: i64 = 135;

/// Seconds by which an expected end is moved each time it passes
/// (Tsafrir, Etsion, Feitelson 2007).
const CORRECTIONS_S: [i64; 11] =
    [60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000];

/// A running job under EASY++.
#[derive(Debug)]
struct Running {
    /// End that is expected at present, seconds.
    end_s: i64,
    /// End of the job at its limit, seconds.
    last_s: i64,
    /// Corrections of the expected end so far.
    corrections: usize,
}

/// The two latest runtimes of each user, the newest first.
#[derive(Debug, Default)]
struct Latest(BTreeMap<u64, [Option<u64>; 2]>);

impl Latest {
    /// The mean of the user's two latest runtimes, at most the limit: the prediction of EASY++
    /// (Tsafrir, Etsion, Feitelson 2007). The limit for a user without any.
    fn mean_of_two(&self, job: &JobClass) -> u64 {
        let mean = match self.0.get(&job.user) {
            Some([Some(new), Some(old)]) => new.midpoint(*old),
            Some([Some(only), None]) => *only,
            _ => job.limit_s,
        };
        mean.clamp(1, job.limit_s.max(1))
    }

    fn observe(&mut self, job: &JobClass, run_s: u64) {
        let latest = self.0.entry(job.user).or_default();
        *latest = [Some(run_s), latest[0]];
    }
}

/// EASY with the mean of the user's two latest runtimes, shortest first.
#[derive(Debug)]
pub(super) struct EasyPlus<'a> {
    jobs: &'a [SimJob],
    pool: Backfill,
    latest: Latest,
    /// Running jobs by expected end.
    ends: BTreeSet<(i64, u32)>,
    running: BTreeMap<u32, Running>,
    waiting_of: BTreeMap<u64, BTreeSet<u32>>,
}

impl<'a> EasyPlus<'a> {
    pub(super) fn new(load: &'a Workload) -> Self {
        Self {
            jobs: &load.jobs,
            pool: Backfill::new(load.cpus, true),
            latest: Latest::default(),
            ends: BTreeSet::new(),
            running: BTreeMap::new(),
            waiting_of: BTreeMap::new(),
        }
    }

    fn correct(&mut self, now_s: i64) {
        while let Some(&(end_s, id)) = self.ends.first() {
            if end_s > now_s {
                return;
            }
            self.ends.pop_first();
            let Some(job) = self.running.get_mut(&id) else { continue };
            let more = CORRECTIONS_S.get(job.corrections).or(CORRECTIONS_S.last());
            job.corrections += 1;
            let more = more.copied().unwrap_or(60);
            job.end_s = job.last_s.max(now_s + 1).min(now_s + more);
            self.ends.insert((job.end_s, id));
            self.pool.expect(id, job.end_s);
        }
    }
}

impl Scheduler for EasyPlus<'_> {
    fn next_s(&self) -> Option<i64> {
        self.ends.first().map(|(end_s, _)| *end_s)
    }

    fn arrived(&mut self, id: u32, job: &SimJob, _: i64, _: &mut Vec<u32>) {
        let window_s = self.latest.mean_of_two(&job.class());
        self.waiting_of.entry(job.user).or_default().insert(id);
        self.pool.submit(Request { id, size: job.size, window_s, rank: Rank::shortest(window_s) });
    }

    /// Computes again what is expected of the waiting jobs of the ended job's user.
    fn ended(&mut self, id: u32, job: &SimJob, _: i64) {
        self.pool.finish(id);
        self.latest.observe(&job.class(), job.run_s);
        if let Some(Running { end_s, .. }) = self.running.remove(&id) {
            self.ends.remove(&(end_s, id));
        }
        for &other in self.waiting_of.get(&job.user).into_iter().flatten() {
            let Some(job) = self.jobs.get(other as usize) else { continue };
            let window_s = self.latest.mean_of_two(&job.class());
            self.pool.revise(other, window_s, Rank::shortest(window_s));
        }
    }

    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        self.correct(now_s);
        let before = started.len();
        self.pool.pass(now_s, u32::MAX, started);
        for &id in started.iter().skip(before) {
            let Some(job) = self.jobs.get(id as usize) else { continue };
            let end_s = now_s.saturating_add(nearest_i64(self.latest.mean_of_two(&job.class())));
            let last_s = now_s.saturating_add(nearest_i64(job.limit_s));
            self.ends.insert((end_s, id));
            self.running.insert(id, Running { end_s, last_s, corrections: 0 });
            if let Some(waiting) = self.waiting_of.get_mut(&job.user) {
                waiting.remove(&id);
            }
        }
    }
}

/// The research: learned runtimes, a limit on starvation, and express jobs.
///
/// Jobs whose limit is a few seconds do not wait until CPUs have been drained for the head: they
/// may start whenever they fit, as long as the head starts no later than was first promised to it
/// plus their limit.
#[derive(Debug)]
pub(super) struct Research {
    pool: Backfill,
    runtimes: Runtimes,
    guard: StarvationLimit,
    /// Arrivals of jobs that have not waited for the starvation limit: time and id.
    young: VecDeque<(i64, u32)>,
    /// Jobs with ids below this number have waited for the limit.
    passed_no_more: u32,
    /// Jobs beyond the limit that do not backfill before all others yet.
    led: VecDeque<(i64, u32)>,
    /// Waiting express jobs.
    express: BTreeSet<u32>,
    /// The last head that did not fit, and the start first found for it.
    promised: Option<(u32, i64)>,
}

impl Research {
    pub(super) fn new(load: &Workload) -> Self {
        Self {
            pool: Backfill::new(load.cpus, true),
            runtimes: Runtimes::new(),
            guard: StarvationLimit::new(load.cpus, SHARE_PERCENT),
            young: VecDeque::new(),
            passed_no_more: 0,
            led: VecDeque::new(),
            express: BTreeSet::new(),
            promised: None,
        }
    }

    fn submit(&mut self, request: Request, submit_s: i64) {
        self.young.push_back((submit_s, request.id));
        if request.window_s <= EXPRESS_S {
            self.express.insert(request.id);
        }
        self.pool.submit(request);
    }

    fn start(&mut self, now_s: i64, limit_s: i64, started: &mut Vec<u32>) {
        self.age(now_s, limit_s);
        if self.pool.free() == 0 {
            return;
        }
        let before = started.len();
        self.start_express(now_s, started);
        self.pool.pass(now_s, self.passed_no_more, started);
        for id in started.iter().skip(before) {
            self.express.remove(id);
        }
    }

    /// Lets no other job pass one that has waited for the limit, and lets one that has waited for
    /// [`LEAD_PERCENT`] of it backfill before all others.
    fn age(&mut self, now_s: i64, limit_s: i64) {
        let waited = |front: Option<&(i64, u32)>, limit_s: i64| {
            front.filter(|(submit_s, _)| now_s.saturating_sub(*submit_s) >= limit_s).copied()
        };
        while let Some((submit_s, id)) = waited(self.young.front(), limit_s) {
            self.young.pop_front();
            self.passed_no_more = id + 1;
            self.led.push_back((submit_s, id));
        }
        let lead_s = limit_s.saturating_mul(LEAD_PERCENT) / 100;
        while let Some((_, id)) = waited(self.led.front(), lead_s) {
            self.led.pop_front();
            if let Some(window_s) = self.pool.waiting().get(&id).map(|job| job.window_s) {
                self.pool.revise(id, window_s, Rank::ARRIVAL);
            }
        }
    }

    fn start_express(&mut self, now_s: i64, started: &mut Vec<u32>) {
        if self.express.is_empty() {
            return;
        }
        let Some(head) = self.pool.head(self.passed_no_more) else { return };
        let last_s = self.promise(&head, now_s);
        let waiting = self.express.iter().filter_map(|id| self.pool.waiting().get(id));
        let ends_s = |job: &Request| now_s.saturating_add_unsigned(job.window_s);
        let may: Vec<Request> = waiting.filter(|job| ends_s(job) <= last_s).copied().collect();
        for job in may {
            if job.size <= self.pool.free() {
                self.pool.start(&job, now_s);
                started.push(job.id);
            }
        }
    }

    /// Time until which express jobs may hold CPUs that `head` waits for.
    fn promise(&mut self, head: &Request, now_s: i64) -> i64 {
        let start_s = now_s.saturating_add_unsigned(self.pool.wait_s(head, now_s));
        let first_s = match self.promised {
            Some((id, first_s)) if id == head.id => first_s,
            _ => start_s,
        };
        self.promised = Some((head.id, first_s));
        start_s.max(first_s.saturating_add_unsigned(EXPRESS_S))
    }
}

impl Scheduler for Research {
    fn next_s(&self) -> Option<i64> {
        self.guard.next_s()
    }

    fn arrived(&mut self, id: u32, job: &SimJob, _: i64, _: &mut Vec<u32>) {
        let prediction = self.runtimes.predict(&job.class());
        let rank = Rank::learned(&prediction, job.submit_s, SHORT_S);
        let request = Request { id, size: job.size, window_s: job.limit_s, rank };
        let twin = by_arrival(id, job.size, job.limit_s);
        self.guard.arrived(twin, job.submit_s, whole(prediction.mean_s.round()));
        self.submit(request, job.submit_s);
    }

    fn ended(&mut self, id: u32, job: &SimJob, now_s: i64) {
        self.pool.finish(id);
        self.runtimes.observe(&job.class(), job.run_s);
        self.guard.ended(id, nearest_i64(job.run_s), now_s);
    }

    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        self.guard.advance(now_s);
        self.start(now_s, self.guard.limit_s(), started);
        for &id in &*started {
            self.guard.started(id, now_s);
        }
    }
}

/// EASY++ on nodes: the mean of the user's two latest runtimes, shortest first.
#[derive(Debug, Default)]
pub(super) struct Shortest {
    line: Ranked,
    latest: Latest,
    waiting: BTreeMap<u32, JobClass>,
}

impl Line for Shortest {
    fn arrived(&mut self, id: u32, job: &NodeJob, submit_s: i64) {
        if job.held.is_none() {
            self.line.push(id, Rank::shortest(self.latest.mean_of_two(&job.class)), submit_s);
            self.waiting.insert(id, job.class);
        }
    }

    fn started(&mut self, id: u32, _: i64) {
        self.line.remove(id);
        self.waiting.remove(&id);
    }

    /// Computes again what is expected of the waiting jobs of the ended job's user.
    fn ended(&mut self, _: u32, job: &NodeJob, _: i64) {
        self.latest.observe(&job.class, job.run_s);
        for (id, class) in self.waiting.iter().filter(|(_, class)| class.user == job.class.user) {
            self.line.revise(*id, Rank::shortest(self.latest.mean_of_two(class)));
        }
    }

    fn window_s(&self, job: &NodeJob) -> u64 {
        self.latest.mean_of_two(&job.class)
    }

    fn order(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        Box::new(self.line.order())
    }

    fn is_empty(&self) -> bool {
        self.line.is_empty()
    }
}

/// The order of the research on nodes: learned runtimes and the limit on starvation.
#[derive(Debug)]
pub(super) struct Learned {
    line: Ranked,
    runtimes: Runtimes,
    guard: StarvationLimit,
}

impl Learned {
    pub(super) fn new(cpus: u64) -> Self {
        let (line, runtimes) = (Ranked::default(), Runtimes::new());
        Self { line, runtimes, guard: StarvationLimit::new(cpus, SHARE_PERCENT) }
    }
}

impl Line for Learned {
    fn arrived(&mut self, id: u32, job: &NodeJob, submit_s: i64) {
        let prediction = match job.expected_s {
            Some(mean_s) => Prediction { mean_s, urgency: 1.0 / mean_s.max(1.0) },
            None => self.runtimes.predict(&job.class),
        };
        let twin = by_arrival(id, job.class.size.max(1), job.limit_s);
        self.guard.arrived(twin, submit_s, whole(prediction.mean_s));
        if job.held.is_none() {
            self.line.push(id, Rank::learned(&prediction, submit_s, SHORT_S), submit_s);
        }
    }

    fn started(&mut self, id: u32, now_s: i64) {
        self.line.remove(id);
        self.guard.started(id, now_s);
    }

    fn ended(&mut self, id: u32, job: &NodeJob, now_s: i64) {
        self.runtimes.observe(&job.class, job.run_s);
        self.guard.ended(id, nearest_i64(job.run_s), now_s);
    }

    fn advance(&mut self, now_s: i64) {
        self.guard.advance(now_s);
        self.line.age(now_s, self.guard.limit_s());
    }

    fn next_s(&self) -> Option<i64> {
        self.guard.next_s()
    }

    fn order(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        Box::new(self.line.order())
    }

    fn is_empty(&self) -> bool {
        self.line.is_empty()
    }
}

/// Makes a job of the fair schedule.
fn by_arrival(id: u32, size: u64, limit_s: u64) -> order::Request {
    order::Request { id, size, limit_s, rank: Rank::ARRIVAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, size: u64, window_s: u64) -> Request {
        Request { id, size, window_s, rank: Rank::ARRIVAL }
    }

    fn pass(research: &mut Research, now_s: i64) -> Vec<u32> {
        let mut started = Vec::new();
        research.start(now_s, 0, &mut started);
        started
    }

    #[test]
    fn express_jobs_delay_the_head_by_no_more_than_their_limit() {
        let mut research = Research::new(&Workload { cpus: 10, ..Workload::default() });
        research.submit(job(0, 6, 100), 0);
        assert_eq!(pass(&mut research, 0), [0]);
        research.submit(job(1, 10, 50), 1); // may start at 100
        research.submit(job(2, 4, 24), 2);
        assert_eq!(pass(&mut research, 95), [2], "ends at 119, 124 is allowed");
        research.pool.finish(0);
        research.submit(job(3, 4, 24), 3);
        assert_eq!(pass(&mut research, 101), [] as [u32; 0], "would end at 125");
        research.pool.finish(2);
        assert_eq!(pass(&mut research, 119), [1]);
    }
    #[test]
    fn two_runtimes_make_a_mean() {
        let mut latest = Latest::default();
        let job = |limit_s| JobClass { user: 1, class: 0, limit_s, size: 1 };
        assert_eq!(latest.mean_of_two(&job(500)), 500);
        latest.observe(&job(9_000), 8_000);
        assert_eq!(latest.mean_of_two(&job(500)), 500);
        latest.observe(&job(9_000), 100);
        assert_eq!(latest.mean_of_two(&job(9_000)), 4_050);
    }
}
