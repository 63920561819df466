// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm on a machine whose CPUs are all alike: each counts as a node of one CPU.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Instant;

use super::cpus::Cpus;
use super::slots::Group;
use super::{Clock, Planned, Queue, Rules, Slots, Windows};
use crate::job::{SimJob, Workload};
use crate::pool::Schedule;

/// Runs all jobs; calls `progress` with the number of jobs ended so far.
pub fn run(load: &Workload, rules: &Rules, progress: &dyn Fn(usize)) -> Schedule {
    let began = Instant::now();
    let mut state = State::new(load, rules);
    while let Some(now_s) = state.next_s() {
        state.step(now_s);
        if state.ended.is_multiple_of(1 << 10) {
            progress(state.ended);
        }
    }
    let State { starts_s, pass_us, .. } = state;
    Schedule { starts_s, pass_us, wall: began.elapsed() }
}

struct State<'a> {
    jobs: &'a [SimJob],
    rules: &'a Rules,
    turnaround_s: u64,
    all: Cpus,
    free: Cpus,
    held: BTreeMap<u32, Cpus>,
    /// By limit, as Slurm expects them.
    limits: BTreeSet<(i64, u32)>,
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    queue: Queue,
    clock: Clock,
    arrived: usize,
    ended: usize,
    starts_s: Vec<i64>,
    pass_us: Vec<f32>,
}

impl<'a> State<'a> {
    fn new(load: &'a Workload, rules: &'a Rules) -> Self {
        let queue = Queue::new(&rules.parameters, rules.order);
        Self {
            jobs: &load.jobs,
            rules,
            turnaround_s: load.turnaround_s,
            all: Cpus::all(load.cpus),
            free: Cpus::all(load.cpus),
            held: BTreeMap::new(),
            limits: BTreeSet::new(),
            ends: BinaryHeap::new(),
            clock: Clock::new(&rules.parameters, queue.is_ordered()),
            queue,
            arrived: 0,
            ended: 0,
            starts_s: vec![0; load.jobs.len()],
            pass_us: Vec::new(),
        }
    }

    fn job(&self, id: u32) -> Option<&'a SimJob> {
        self.jobs.get(id as usize)
    }

    fn next_s(&self) -> Option<i64> {
        if self.ended == self.jobs.len() {
            return None;
        }
        let arrival = self.jobs.get(self.arrived).map(|job| job.submit_s);
        let end = self.ends.peek().map(|Reverse((end_s, _))| *end_s);
        let pass = self.clock.next_s().filter(|_| !self.queue.is_empty());
        [arrival, end, pass].into_iter().flatten().min()
    }

    fn step(&mut self, now_s: i64) {
        self.end_jobs(now_s);
        while let Some(job) = self.jobs.get(self.arrived).filter(|job| job.submit_s <= now_s) {
            let id = u32::try_from(self.arrived).unwrap_or(u32::MAX);
            self.arrived += 1;
            self.arrive(id, job, now_s);
        }
        let due = self.clock.take(now_s);
        if self.queue.is_empty() {
            return;
        }
        if due.order {
            let (changed, next_s) = self.queue.decide(now_s, &[]);
            if changed {
                self.clock.reordered(now_s);
            }
            next_s.into_iter().for_each(|at_s| self.clock.reorder_at(at_s));
        }
        let (began, waiting) = (Instant::now(), self.queue.order(now_s));
        let before = self.held.len();
        if due.main {
            self.main_pass(&waiting, now_s);
        }
        if due.backfill {
            self.backfill(&waiting, now_s);
        }
        if self.held.len() > before {
            self.pass_us.push(began.elapsed().as_secs_f32() * 1e6);
        }
    }

    fn arrive(&mut self, id: u32, job: &SimJob, now_s: i64) {
        self.queue.push(id, job.submit_s, job.class(), None, (0, 0));
        let tried = !self.rules.parameters.defer && self.queue.is_top(id, now_s);
        if tried && job.size <= self.free.count() {
            self.start(id, job, &self.free.lowest(job.size), now_s);
        } else {
            self.clock.submitted(now_s);
        }
    }

    fn end_jobs(&mut self, now_s: i64) {
        while let Some(&Reverse((end_s, id))) = self.ends.peek() {
            if end_s > now_s {
                return;
            }
            self.ends.pop();
            self.ended += 1;
            let Some(job) = self.job(id) else { continue };
            if let Some(cpus) = self.held.remove(&id) {
                self.free.add(&cpus);
            }
            self.limits.remove(&(self.limit_s(id, job), id));
            self.queue.observe(&job.class(), job.run_s);
            self.clock.ended(now_s);
        }
    }

    /// When a running job reaches its limit.
    fn limit_s(&self, id: u32, job: &SimJob) -> i64 {
        let start_s = self.starts_s.get(id as usize).copied().unwrap_or(0);
        start_s.saturating_add_unsigned(job.limit_s)
    }

    fn start(&mut self, id: u32, job: &SimJob, cpus: &Cpus, now_s: i64) {
        if let Some(start_s) = self.starts_s.get_mut(id as usize) {
            *start_s = now_s;
        }
        self.queue.remove(id);
        self.free.drop_all(cpus);
        self.held.insert(id, cpus.clone());
        self.limits.insert((self.limit_s(id, job), id));
        let held_s = job.run_s.saturating_add(self.turnaround_s);
        self.ends.push(Reverse((now_s.saturating_add_unsigned(held_s), id)));
        self.clock.reorder_at(now_s + 1);
    }

    /// By priority until one does not fit.
    fn main_pass(&mut self, waiting: &[u32], now_s: i64) {
        for &id in waiting {
            let Some(job) = self.job(id) else { continue };
            if job.size > self.free.count() {
                return;
            }
            self.start(id, job, &self.free.lowest(job.size), now_s);
        }
    }

    /// Plans are made anew in each pass, so those behind the last job that fits need none.
    fn backfill(&mut self, waiting: &[u32], now_s: i64) {
        let parameters = &self.rules.parameters;
        let left: Vec<u32> =
            waiting.iter().copied().filter(|id| !self.held.contains_key(id)).collect();
        let looked_at = left.get(..parameters.bf_max_job_test.min(left.len())).unwrap_or_default();
        let fits = |state: &Self, id: &u32| {
            state.job(*id).is_some_and(|job| job.size <= state.free.count())
        };
        let mut slots =
            Slots::new(self.all.clone(), now_s, parameters.bf_window_s, parameters.bf_resolution_s);
        let mut last = looked_at.iter().rposition(|id| fits(self, id));
        let mut at = 0;
        while let Some(&id) = last.filter(|last| at <= *last).and_then(|_| looked_at.get(at)) {
            at += 1;
            let Some(job) = self.job(id) else { continue };
            let limit_s = i64::try_from(job.limit_s).unwrap_or(i64::MAX);
            let mut will_run = |cpus: &Cpus| self.will_run(job.size, cpus, now_s);
            if let Planned::Now(cpus) = slots.plan(&self.all, limit_s, &mut will_run) {
                self.start(id, job, &cpus.both(&self.free).lowest(job.size), now_s);
                last = looked_at.iter().rposition(|id| fits(self, id));
            }
        }
    }

    /// The earliest start on these CPUs, and the CPUs, by the limits of what runs.
    fn will_run(&self, size: u64, cpus: &Cpus, now_s: i64) -> Option<(i64, Cpus)> {
        if cpus.count() < size {
            return None;
        }
        let mut room = cpus.both(&self.free);
        if room.count() >= size {
            return Some((now_s, room.lowest(size)));
        }
        let mut windows = Windows::new();
        let (mut count, mut last_s) = (room.count(), None);
        let mut gone: Vec<Cpus> = Vec::new();
        let mut ends = self.limits.iter().peekable();
        while let Some(&(end_s, id)) = ends.next() {
            let own = self.held.get(&id).map(|held| held.both(cpus)).unwrap_or_default();
            let next_s = ends.peek().map(|(end_s, _)| *end_s);
            if own.count() > 0 {
                count += own.count();
                gone.push(own);
                last_s = Some(end_s);
            } else if next_s.is_some() {
                continue;
            }
            let last_s = last_s?;
            if windows.is_full(last_s, next_s) && count >= size {
                gone.iter().for_each(|cpus| room.add(cpus));
                return Some((last_s.max(now_s + 1), room.lowest(size)));
            }
        }
        None
    }
}
