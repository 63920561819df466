// SPDX-License-Identifier: GPL-3.0-or-later
//! Batch jobs on a machine whose CPUs are all alike, event by event.
//!
//! At one time come first the ends, then the arrivals, then one pass of the scheduler over all
//! that waits.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use super::events::{Events, seconds};
use super::job::{SimJob, Workload};
use super::policy::{Order, Policy};
use super::slurm::{self, Rules};

/// Decides which jobs start on a pool of CPUs; [`run`] has the clock.
pub trait Scheduler {
    /// Time of its own next event; `None` if it acts on ends and arrivals alone.
    fn next_s(&self) -> Option<i64> {
        None
    }

    /// Longest time from the first start promised to a job in front to its start, seconds.
    fn slip_s(&self) -> Option<i64> {
        None
    }

    /// A job arrives; adds those that start at once to `started`.
    fn arrived(&mut self, id: u32, job: &SimJob, now_s: i64, started: &mut Vec<u32>);

    /// A job ended.
    fn ended(&mut self, id: u32, job: &SimJob, now_s: i64);

    /// Adds the jobs that start now to `started`.
    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>);
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
    /// Longest time from the first start that backfill planned for the job in front to its start,
    /// seconds.
    pub slip_s: Option<i64>,
}

/// Runs all jobs under a policy; calls `progress` with the number of jobs ended so far. Only
/// Slurm's own rules know the turnaround of a workload.
pub fn run(load: &Workload, policy: &Policy, rules: &Rules, progress: &dyn Fn(usize)) -> Schedule {
    match policy.order {
        Order::Fcfs => schedule(load, 0, &mut Easy::new(load.cpus, false), progress),
        Order::Easy => schedule(load, 0, &mut Easy::new(load.cpus, true), progress),
        Order::Slurm { .. } => slurm::pool::run(load, &rules.of(policy.order), progress),
        Order::Other { pool, .. } => schedule(load, 0, &mut *pool(load), progress),
    }
}

/// Runs all jobs; their CPUs take the next ones `turnaround_s` after their ends.
pub(crate) fn schedule(
    load: &Workload,
    turnaround_s: u64,
    scheduler: &mut dyn Scheduler,
    progress: &dyn Fn(usize),
) -> Schedule {
    let began = Instant::now();
    let jobs = &load.jobs;
    let job = |id: u32| jobs.get(id as usize);
    let mut events = Events::default();
    let mut schedule = Schedule { starts_s: vec![0; jobs.len()], ..Schedule::default() };
    let mut started = Vec::new();
    while events.ended() < jobs.len() {
        let arrival_s = job(events.arriving()).map(|job| job.submit_s);
        let next_s = events.next_s(arrival_s).into_iter().chain(scheduler.next_s()).min();
        let Some(now_s) = next_s else { break };
        while let Some(id) = events.end(now_s) {
            job(id).into_iter().for_each(|job| scheduler.ended(id, job, now_s));
        }
        while let Some(job) = job(events.arriving()).filter(|job| job.submit_s <= now_s) {
            scheduler.arrived(events.arrive(), job, now_s, &mut started);
        }
        let (passed, at_once) = (Instant::now(), started.len());
        scheduler.pass(now_s, &mut started);
        if started.len() > at_once {
            schedule.pass_us.push(passed.elapsed().as_secs_f32() * 1e6);
        }
        for id in started.drain(..) {
            let (Some(job), Some(start_s)) = (job(id), schedule.starts_s.get_mut(id as usize))
            else {
                continue;
            };
            *start_s = now_s;
            let held_s = job.run_s.saturating_add(turnaround_s);
            events.end_at(id, now_s.saturating_add(seconds(held_s)));
        }
        if events.ended().is_multiple_of(1 << 10) {
            progress(events.ended());
        }
    }
    Schedule { wall: began.elapsed(), slip_s: scheduler.slip_s(), ..schedule }
}

/// A job that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    size: u64,
    limit_s: u64,
}

/// Resources that jobs may use beside the reservation of the first one.
#[derive(Debug)]
struct Gap {
    free: u64,
    /// CPUs left beside the first job when it starts.
    extra: u64,
    /// Time until the first job starts.
    window_s: u64,
}

impl Gap {
    fn admits(&self, job: Waiting) -> bool {
        job.size <= self.free && (job.size <= self.extra || job.limit_s <= self.window_s)
    }
}

/// Jobs by arrival, with backfill by the users' limits or without.
///
/// The first job that does not fit gets a reservation: the earliest time when enough CPUs are free
/// if all running jobs last as long as their limits. Others may start before it if they end by
/// then, or take no more than the CPUs that are left beside it (EASY; Lifka 1995, Mu'alem and
/// Feitelson 2001).
struct Easy {
    free: u64,
    backfills: bool,
    /// Jobs that wait, by arrival.
    waiting: BTreeMap<u32, Waiting>,
    /// Running jobs with the times of their limits.
    running: BTreeMap<u32, i64>,
    /// CPUs of running jobs by the times of their limits.
    ends: BTreeMap<(i64, u32), u64>,
}

impl Easy {
    fn new(cpus: u64, backfills: bool) -> Self {
        let (waiting, running, ends) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { free: cpus, backfills, waiting, running, ends }
    }

    fn start(&mut self, id: u32, job: Waiting, now_s: i64) {
        let end_s = now_s.saturating_add(seconds(job.limit_s));
        self.waiting.remove(&id);
        self.free -= job.size;
        self.running.insert(id, end_s);
        self.ends.insert((end_s, id), job.size);
    }

    /// The resources that jobs may use before one of this size can start.
    fn gap_before(&self, size: u64, now_s: i64) -> Gap {
        let (mut free, mut start_s) = (self.free, None);
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
            return Gap { free: self.free, extra: self.free, window_s: u64::MAX };
        };
        let window_s = u64::try_from(start_s.saturating_sub(now_s)).unwrap_or(0);
        Gap { free: self.free, extra: free - size, window_s }
    }
}

impl Scheduler for Easy {
    fn arrived(&mut self, id: u32, job: &SimJob, _: i64, _: &mut Vec<u32>) {
        self.waiting.insert(id, Waiting { size: job.size, limit_s: job.limit_s });
    }

    fn ended(&mut self, id: u32, job: &SimJob, _: i64) {
        let end = self.running.remove(&id).and_then(|end_s| self.ends.remove(&(end_s, id)));
        self.free += end.map_or(0, |_| job.size);
    }

    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        let head = loop {
            let Some((&id, &job)) = self.waiting.first_key_value() else { return };
            if job.size > self.free {
                break (id, job);
            }
            self.start(id, job, now_s);
            started.push(id);
        };
        if !self.backfills || self.free == 0 {
            return;
        }
        let (mut last, head) = head;
        let mut gap = self.gap_before(head.size, now_s);
        while gap.free > 0 {
            let mut behind = self.waiting.range((Excluded(last), Unbounded));
            let Some((&id, &job)) = behind.find(|(_, job)| gap.admits(**job)) else { return };
            if job.limit_s > gap.window_s {
                gap.extra -= job.size;
            }
            gap.free -= job.size;
            self.start(id, job, now_s);
            started.push(id);
            last = id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(size: u64, limit_s: u64) -> SimJob {
        SimJob { number: 0, submit_s: 0, run_s: limit_s, limit_s, size, user: 0, class: 0 }
    }

    fn arrive(pool: &mut Easy, id: u32, size: u64, limit_s: u64) {
        pool.arrived(id, &job(size, limit_s), 0, &mut Vec::new());
    }

    fn end(pool: &mut Easy, id: u32, size: u64) {
        pool.ended(id, &job(size, 1), 0);
    }

    fn pass(pool: &mut Easy, now_s: i64) -> Vec<u32> {
        let mut started = Vec::new();
        pool.pass(now_s, &mut started);
        started
    }

    #[test]
    fn what_ends_in_time_or_leaves_enough_passes_the_head() {
        let mut pool = Easy::new(10, true);
        arrive(&mut pool, 0, 6, 100);
        assert_eq!(pass(&mut pool, 0), [0]);
        arrive(&mut pool, 1, 8, 50); // the head: starts at 100, 2 CPUs beside it
        arrive(&mut pool, 2, 3, 101); // too long, too large
        arrive(&mut pool, 3, 2, 500); // fits beside
        arrive(&mut pool, 4, 2, 90); // ends in time
        assert_eq!(pass(&mut pool, 5), [3, 4]);
        assert_eq!((pool.free, pool.waiting.len()), (0, 2));
        end(&mut pool, 4, 2);
        assert_eq!(pass(&mut pool, 95), [] as [u32; 0]);
        end(&mut pool, 0, 6);
        assert_eq!(pass(&mut pool, 100), [1]);
    }

    #[test]
    fn without_backfill_the_head_blocks() {
        let mut pool = Easy::new(10, false);
        arrive(&mut pool, 0, 6, 100);
        arrive(&mut pool, 1, 8, 50);
        arrive(&mut pool, 2, 1, 1);
        assert_eq!(pass(&mut pool, 2), [0]);
    }
}
