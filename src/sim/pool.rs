// SPDX-License-Identifier: GPL-3.0-or-later
//! Batch jobs on a machine whose CPUs are all alike, event by event.
//!
//! At one time come first the ends, then corrections of expected ends, then
//! arrivals, then one pass of the planner over all that waits.

use phalanx_core::number::whole;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::{Duration, Instant};

use super::job::{SimJob, Workload};
use super::policy::Policy;
use phalanx_methods::learn::runtime::Runtimes;
use phalanx_planner::backfill::{
    Backfill, EXPRESS_S, LEAD_PERCENT, Rank, Request, StarvationLimit,
};

/// Order of the waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Fcfs,
    Easy,
    EasyPlus,
    Learned,
}

/// On CPUs that are all alike, a policy that only places is EASY's order.
fn order_of(policy: Policy) -> Order {
    match policy {
        Policy::Fcfs => Order::Fcfs,
        Policy::EasyPlus => Order::EasyPlus,
        Policy::Research => Order::Learned,
        _ => Order::Easy,
    }
}

/// Result of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Start of each job of the workload, seconds.
    pub starts_s: Vec<i64>,
    /// Real time of each pass that started jobs, microseconds.
    pub pass_us: Vec<f32>,
    /// Real time of everything.
    pub wall: Duration,
}

/// Runs all jobs; calls `progress` with the number of jobs ended so far.
pub fn run(load: &Workload, policy: Policy, progress: &dyn Fn(usize)) -> Schedule {
    let began = Instant::now();
    let mut state = State::new(load, order_of(policy));
    while let Some(now_s) = state.next_s() {
        state.step(now_s);
        if state.ended.is_multiple_of(1 << 12) {
            progress(state.ended);
        }
    }
    let State { starts_s, pass_us, .. } = state;
    Schedule { starts_s, pass_us, wall: began.elapsed() }
}

/// By how much an expected end is moved each time it passes, seconds
/// (Tsafrir, Etsion, Feitelson 2007).
const CORRECTIONS_S: [i64; 11] =
    [60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000];

struct State<'a> {
    jobs: &'a [SimJob],
    order: Order,
    pool: Backfill,
    runtimes: Runtimes,
    guard: Option<StarvationLimit>,
    arrived: usize,
    ended: usize,
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    overdue: Overdue,
    starts_s: Vec<i64>,
    pass_us: Vec<f32>,
    started: Vec<u32>,
}

/// Expected ends of running jobs under [`Order::EasyPlus`], and who waits.
#[derive(Default)]
struct Overdue {
    times: BTreeSet<(i64, u32)>,
    of_job: BTreeMap<u32, (i64, usize)>,
    waiting_of: BTreeMap<u64, BTreeSet<u32>>,
}

impl<'a> State<'a> {
    fn new(load: &'a Workload, order: Order) -> Self {
        Self {
            jobs: &load.jobs,
            order,
            pool: pool_of(load.cpus, order),
            runtimes: Runtimes::new(),
            guard: (order == Order::Learned).then(|| StarvationLimit::new(load.cpus)),
            arrived: 0,
            ended: 0,
            ends: BinaryHeap::new(),
            overdue: Overdue::default(),
            starts_s: vec![0; load.jobs.len()],
            pass_us: Vec::new(),
            started: Vec::new(),
        }
    }

    fn next_s(&self) -> Option<i64> {
        if self.ended == self.jobs.len() {
            return None;
        }
        let arrival = self.jobs.get(self.arrived).map(|job| job.submit_s);
        let end = self.ends.peek().map(|Reverse((end_s, _))| *end_s);
        let overdue = self.overdue.times.first().map(|(end_s, _)| *end_s);
        let fair = self.guard.as_ref().and_then(StarvationLimit::next_s);
        [arrival, end, overdue, fair].into_iter().flatten().min()
    }

    fn step(&mut self, now_s: i64) {
        self.end_jobs(now_s);
        self.correct(now_s);
        while let Some(job) = self.jobs.get(self.arrived).filter(|job| job.submit_s <= now_s) {
            self.arrive(index(self.arrived), job);
            self.arrived += 1;
        }
        let mut guard_s = 0;
        if let Some(guard) = &mut self.guard {
            guard.advance(now_s);
            guard_s = guard.limit_s();
        }
        self.pass(now_s, guard_s);
    }

    fn pass(&mut self, now_s: i64, guard_s: i64) {
        let began = Instant::now();
        let mut started = std::mem::take(&mut self.started);
        self.pool.pass(now_s, guard_s, &mut started);
        if !started.is_empty() {
            self.pass_us.push(began.elapsed().as_secs_f32() * 1e6);
        }
        for id in started.drain(..) {
            self.start(id, now_s);
        }
        self.started = started;
    }

    fn start(&mut self, id: u32, now_s: i64) {
        let Some(job) = self.jobs.get(id as usize) else { return };
        if let Some(start_s) = self.starts_s.get_mut(id as usize) {
            *start_s = now_s;
        }
        self.ends.push(Reverse((now_s.saturating_add(seconds(job.run_s)), id)));
        if let Some(guard) = &mut self.guard {
            guard.started(id, now_s);
        }
        if self.order == Order::EasyPlus {
            let end_s = now_s.saturating_add(seconds(self.runtimes.mean_of_two(&job.class())));
            self.overdue.times.insert((end_s, id));
            self.overdue.of_job.insert(id, (end_s, 0));
            if let Some(waiting) = self.overdue.waiting_of.get_mut(&job.user) {
                waiting.remove(&id);
            }
        }
    }

    fn end_jobs(&mut self, now_s: i64) {
        while let Some(&Reverse((end_s, id))) = self.ends.peek() {
            if end_s > now_s {
                return;
            }
            self.ends.pop();
            self.ended += 1;
            self.pool.finish(id);
            let Some(job) = self.jobs.get(id as usize) else { continue };
            if matches!(self.order, Order::EasyPlus | Order::Learned) {
                self.runtimes.observe(&job.class(), job.run_s);
            }
            if let Some(guard) = &mut self.guard {
                guard.ended(id, seconds(job.run_s), now_s);
            }
            if self.order == Order::EasyPlus {
                self.end_expected(id, job);
            }
        }
    }

    /// EASY++: the user's waiting jobs are expected anew.
    fn end_expected(&mut self, id: u32, job: &SimJob) {
        if let Some((end_s, _)) = self.overdue.of_job.remove(&id) {
            self.overdue.times.remove(&(end_s, id));
        }
        let Some(waiting) = self.overdue.waiting_of.get(&job.user) else { return };
        for &other in waiting {
            let Some(job) = self.jobs.get(other as usize) else { continue };
            let window_s = self.runtimes.mean_of_two(&job.class());
            self.pool.revise(other, window_s, Rank::shortest(window_s));
        }
    }

    fn correct(&mut self, now_s: i64) {
        while let Some(&(end_s, id)) = self.overdue.times.first() {
            if end_s > now_s {
                return;
            }
            self.overdue.times.pop_first();
            let job = self.jobs.get(id as usize);
            let (Some(job), Some((end, times))) = (job, self.overdue.of_job.get_mut(&id)) else {
                continue;
            };
            let started_s = self.starts_s.get(id as usize).copied().unwrap_or(now_s);
            let last_s = started_s.saturating_add(seconds(job.limit_s)).max(now_s + 1);
            let more = CORRECTIONS_S.get(*times).or(CORRECTIONS_S.last()).copied().unwrap_or(60);
            *times += 1;
            *end = last_s.min(now_s + more);
            self.overdue.times.insert((*end, id));
            self.pool.expect(id, *end);
        }
    }

    fn arrive(&mut self, id: u32, job: &SimJob) {
        let mut request = Request {
            id,
            size: job.size,
            window_s: job.limit_s,
            submit_s: job.submit_s,
            rank: Rank::ARRIVAL,
        };
        match self.order {
            Order::Fcfs | Order::Easy => {}
            Order::EasyPlus => {
                request.window_s = self.runtimes.mean_of_two(&job.class());
                request.rank = Rank::shortest(request.window_s);
                self.overdue.waiting_of.entry(job.user).or_default().insert(id);
            }
            Order::Learned => {
                let prediction = self.runtimes.predict(&job.class());
                request.rank = Rank::learned(&prediction, job.submit_s);
                if let Some(guard) = &mut self.guard {
                    guard.arrived(request, whole(prediction.mean_s.round()));
                }
            }
        }
        self.pool.submit(request);
    }
}

fn pool_of(cpus: u64, order: Order) -> Backfill {
    let pool = Backfill::new(cpus, order != Order::Fcfs);
    match order {
        Order::Learned => pool.with_lead(LEAD_PERCENT).with_express(EXPRESS_S),
        _ => pool,
    }
}

fn seconds(s: u64) -> i64 {
    i64::try_from(s).unwrap_or(i64::MAX)
}

/// Positions fit: [`TRACE_JOBS_MAX`](phalanx_core::limits::TRACE_JOBS_MAX).
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
