// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm on a machine whose CPUs are all alike: each counts as a node of one CPU.

use std::collections::{BTreeMap, BTreeSet};

use super::cpus::Cpus;
use super::slots::{Group, Search};
use super::{Clock, Place, Planned, Queue, Rules, Slots, Windows};
use crate::job::{SimJob, Workload};
use crate::schedule::{Schedule, Scheduler, schedule};

/// Runs all jobs; calls `progress` with the number of jobs ended so far.
pub fn run(load: &Workload, rules: &Rules, progress: &dyn Fn(usize)) -> Schedule {
    schedule(load, load.turnaround_s, &mut State::new(load, rules), progress)
}

/// Search for the start of a job.
struct OfJob<'s, 'a> {
    state: &'s State<'a>,
    size: u64,
    now_s: i64,
}

impl Search<Cpus> for OfJob<'_, '_> {
    fn class(&self) -> u64 {
        self.size
    }

    fn may_run(&mut self, cpus: &Cpus, _: i64) -> bool {
        cpus.count() >= self.size
    }

    fn will_run(&mut self, cpus: &Cpus, _: i64) -> Option<(i64, Cpus)> {
        self.state.start_of(self.size, cpus, self.now_s).filter(|_| self.may_run(cpus, 0))
    }
}

/// Slurmctld on a pool.
#[derive(Debug)]
pub struct State<'a> {
    jobs: &'a [SimJob],
    rules: &'a Rules,
    all: Cpus,
    free: Cpus,
    /// CPUs of running jobs, and when the jobs reach their limits.
    held: BTreeMap<u32, (Cpus, i64)>,
    /// Running jobs by the times at which they reach their limits: Slurm expects no earlier ends.
    limits: BTreeSet<(i64, u32)>,
    queue: Queue,
    clock: Clock,
}

impl Scheduler for State<'_> {
    fn next_s(&self) -> Option<i64> {
        self.clock.next_s().filter(|_| !self.queue.is_empty())
    }

    fn slip_s(&self) -> Option<i64> {
        self.queue.slip_s
    }

    fn arrived(&mut self, id: u32, job: &SimJob, now_s: i64, started: &mut Vec<u32>) {
        let place = Place { size: job.size, ..Place::default() };
        self.queue.push(id, job.submit_s, job.class(), None, place, None);
        let tried = !self.rules.parameters.defer && self.queue.is_top(id, now_s);
        if tried && job.size <= self.free.count() {
            self.start(id, job, &self.free.lowest(job.size), now_s);
            started.push(id);
        } else {
            self.clock.submitted(now_s);
        }
    }

    fn ended(&mut self, id: u32, job: &SimJob, now_s: i64) {
        if let Some((cpus, limit_s)) = self.held.remove(&id) {
            self.free.add(&cpus);
            self.limits.remove(&(limit_s, id));
        }
        self.queue.ended(id, &job.class(), job.run_s, now_s);
        self.clock.ended(now_s);
    }

    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        let due = self.clock.take(now_s);
        if self.queue.is_empty() {
            return;
        }
        if due.order {
            self.clock.decided(self.queue.decide(now_s, &[]), now_s);
        }
        let waiting = self.queue.order(now_s);
        let looked_at = waiting.get(..due.main).unwrap_or(&waiting);
        self.main_pass(looked_at, now_s, started);
        if looked_at.len() < waiting.len() && due.main > 0 {
            self.clock.left(now_s);
        }
        if due.backfill {
            self.backfill(&waiting, now_s, started);
        }
    }
}

impl<'a> State<'a> {
    /// State at the beginning of a log, in which nothing waits or runs.
    pub fn new(load: &'a Workload, rules: &'a Rules) -> Self {
        let pool = std::iter::once((0, load.cpus));
        let queue = Queue::new(rules, pool);
        Self {
            jobs: &load.jobs,
            rules,
            all: Cpus::all(load.cpus),
            free: Cpus::all(load.cpus),
            held: BTreeMap::new(),
            limits: BTreeSet::new(),
            clock: Clock::new(&rules.parameters, queue.is_ordered()),
            queue,
        }
    }

    fn job(&self, id: u32) -> Option<&'a SimJob> {
        self.jobs.get(id as usize)
    }

    fn start(&mut self, id: u32, job: &SimJob, cpus: &Cpus, now_s: i64) {
        self.queue.remove(id, now_s);
        self.free.drop_all(cpus);
        let limit_s = now_s.saturating_add_unsigned(job.limit_s);
        self.held.insert(id, (cpus.clone(), limit_s));
        self.limits.insert((limit_s, id));
        self.clock.reorder_at(now_s + 1);
    }

    /// Starts jobs by priority until one does not fit.
    fn main_pass(&mut self, waiting: &[u32], now_s: i64, started: &mut Vec<u32>) {
        for &id in waiting {
            let Some(job) = self.job(id) else { continue };
            if job.size <= self.free.count() {
                self.start(id, job, &self.free.lowest(job.size), now_s);
                started.push(id);
            } else if self.queue.holds_back(id, now_s) {
                return;
            }
        }
    }

    /// Makes a backfill pass, which plans anew; jobs behind the last possible start need none.
    fn backfill(&mut self, waiting: &[u32], now_s: i64, started: &mut Vec<u32>) {
        let parameters = &self.rules.parameters;
        let left = waiting.iter().copied().filter(|id| !self.held.contains_key(id));
        let mut left: Vec<u32> = left.take(parameters.bf_max_job_test).collect();
        let mut slots =
            Slots::new(self.all.clone(), now_s, parameters.bf_window_s, parameters.bf_resolution_s);
        // Who comes to the front is told when it starts.
        let last = self.until_last(&left, &slots);
        left.truncate(last.max(usize::from(self.queue.is_new(&left))));
        let (mut at, mut made) = (0, BTreeMap::new());
        while let Some(&id) = left.get(at) {
            at += 1;
            let Some(job) = self.job(id) else { continue };
            let mut search = OfJob { state: self, size: job.size, now_s };
            let count = self.queue.may_reserve(id, now_s, &mut made);
            match slots.plan(&self.all, job.limit_s, (now_s, count.is_some()), &mut search) {
                Planned::Now(cpus) => {
                    self.start(id, job, &cpus.both(&self.free).lowest(job.size), now_s);
                    started.push(id);
                }
                Planned::Later(start_s) => {
                    count.into_iter().for_each(|count| *count += 1);
                    if at == 1 {
                        self.queue.promise(id, start_s);
                    }
                }
                Planned::Never => continue,
            }
            let behind = left.get(at..).unwrap_or_default();
            left.truncate(at + self.until_last(behind, &slots));
        }
    }

    /// The jobs that wait, in Slurm's order.
    pub fn waiting(&self, now_s: i64) -> Vec<u32> {
        self.queue.order(now_s)
    }

    /// The starts that backfill plans for all waiting jobs, as Slurm shows them.
    pub fn planned(&self, now_s: i64) -> BTreeMap<u32, i64> {
        let parameters = &self.rules.parameters;
        let (waiting, mut made) = (self.waiting(now_s), BTreeMap::new());
        let mut slots =
            Slots::new(self.all.clone(), now_s, parameters.bf_window_s, parameters.bf_resolution_s);
        let mut found = BTreeMap::new();
        for &id in waiting.iter().take(parameters.bf_max_job_test) {
            let Some(job) = self.job(id) else { continue };
            let mut search = OfJob { state: self, size: job.size, now_s };
            let count = self.queue.may_reserve(id, now_s, &mut made);
            let planned = slots.plan(&self.all, job.limit_s, (now_s, count.is_some()), &mut search);
            if let Planned::Later(start_s) = planned {
                count.into_iter().for_each(|count| *count += 1);
                found.insert(id, start_s);
            }
        }
        found
    }

    /// The number of `waiting` jobs up to the last one that free CPUs hold which are not reserved.
    fn until_last(&self, waiting: &[u32], slots: &Slots<Cpus>) -> usize {
        let last = waiting.iter().rposition(|id| {
            self.job(*id)
                .filter(|job| job.size <= self.free.count())
                .is_some_and(|job| job.size <= slots.free(&self.free, job.limit_s).count())
        });
        last.map_or(0, |last| last + 1)
    }

    /// The earliest start of `size` CPUs on `cpus`, and the CPUs, by the limits of what runs.
    fn start_of(&self, size: u64, cpus: &Cpus, now_s: i64) -> Option<(i64, Cpus)> {
        let mut room = cpus.both(&self.free);
        if room.count() >= size {
            return Some((now_s, room.lowest(size)));
        }
        let mut windows = Windows::new();
        let (mut count, mut last_s) = (room.count(), None);
        let mut gone: Vec<Cpus> = Vec::new();
        let mut ends = self.limits.iter().peekable();
        while let Some(&(end_s, id)) = ends.next() {
            let own = self.held.get(&id).map(|(held, _)| held.both(cpus)).unwrap_or_default();
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
