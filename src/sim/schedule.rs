// SPDX-License-Identifier: GPL-3.0-or-later
//! Starts of batch jobs on a machine whose CPUs are all alike, event by event.
//!
//! At one time come first the ends, then the arrivals, then one pass of the scheduler over all
//! that waits.

use std::time::{Duration, Instant};

use super::events::Events;
use super::job::{SimJob, Workload};
use super::window::Window;
use phalanx_core::number::nearest_i64;

/// Decides which jobs start on a pool of CPUs; [`schedule`] has the clock.
pub trait Scheduler {
    /// Time of the policy's next own event; `None` if it acts on ends and arrivals alone.
    fn next_s(&self) -> Option<i64> {
        None
    }

    /// Longest time from the first start promised to a job in front to its start, seconds.
    fn slip_s(&self) -> Option<i64> {
        None
    }

    /// Takes an arriving job; adds jobs that start at once to `started`.
    fn arrived(&mut self, id: u32, job: &SimJob, now_s: i64, started: &mut Vec<u32>);

    /// A job ended.
    fn ended(&mut self, id: u32, job: &SimJob, now_s: i64);

    /// Adds the jobs that start at a pass to `started`.
    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>);
}

/// Result of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Start of each job of the workload, seconds.
    pub starts_s: Vec<i64>,
    /// End of each job, which may differ from the log where nodes are slower or faster.
    pub ends_s: Vec<i64>,
    /// Real time of each pass that started jobs, microseconds.
    pub pass_us: Vec<f32>,
    /// Real time that the simulation took.
    pub wall: Duration,
    /// Longest time from the first start that backfill planned for the job in front to its start,
    /// seconds.
    pub slip_s: Option<i64>,
}

impl Schedule {
    /// Jobs that start at `starts_s`, and run as long as the log says.
    pub fn of(load: &Workload, starts_s: &[i64]) -> Self {
        let end = |(start_s, job): (&i64, &SimJob)| start_s.saturating_add(nearest_i64(job.run_s));
        let ends_s = starts_s.iter().zip(&load.jobs).map(end).collect();
        Self { starts_s: starts_s.to_vec(), ends_s, ..Self::default() }
    }

    /// Start and end of each job.
    pub fn spans(&self) -> impl Iterator<Item = (i64, i64)> {
        self.starts_s.iter().copied().zip(self.ends_s.iter().copied())
    }
}

impl Workload {
    /// The period over which shares of time are taken.
    pub fn period(&self, schedule: &Schedule) -> Window {
        let begin_s = self.first_s();
        let last = || schedule.ends_s.iter().max().map_or(begin_s, |end_s| *end_s);
        self.window.unwrap_or_else(|| Window { begin_s, end_s: last().max(begin_s) })
    }
}

/// Runs all jobs; freed CPUs take the next job `turnaround_s` after an end.
pub fn schedule(
    load: &Workload,
    turnaround_s: u64,
    scheduler: &mut dyn Scheduler,
    progress: &dyn Fn(usize),
) -> Schedule {
    let began = Instant::now();
    let jobs = &load.jobs;
    let job = |id: u32| jobs.get(id as usize);
    let mut events = Events::default();
    let mut schedule = Schedule::of(load, &vec![0; jobs.len()]);
    let mut started = Vec::new();
    while events.ended() < jobs.len() {
        let arrival_s = job(events.arriving()).map(|job| load.arrival_s(job));
        let next_s = events.next_s(arrival_s).into_iter().chain(scheduler.next_s()).min();
        let Some(now_s) = next_s else { break };
        while let Some(id) = events.end(now_s) {
            job(id).into_iter().for_each(|job| scheduler.ended(id, job, now_s));
        }
        while let Some(job) = job(events.arriving()).filter(|job| load.arrival_s(job) <= now_s) {
            scheduler.arrived(events.arrive(), job, now_s, &mut started);
        }
        let (passed, at_once) = (Instant::now(), started.len());
        scheduler.pass(now_s, &mut started);
        if started.len() > at_once {
            schedule.pass_us.push(passed.elapsed().as_secs_f32() * 1e6);
        }
        for id in started.drain(..) {
            let at = id as usize;
            let (Some(job), Some(start_s), Some(end_s)) =
                (job(id), schedule.starts_s.get_mut(at), schedule.ends_s.get_mut(at))
            else {
                continue;
            };
            (*start_s, *end_s) = (now_s, now_s.saturating_add(nearest_i64(job.run_s)));
            events.end_at(id, end_s.saturating_add(nearest_i64(turnaround_s)));
        }
        if events.ended().is_multiple_of(1 << 10) {
            progress(events.ended());
        }
    }
    Schedule { wall: began.elapsed(), slip_s: scheduler.slip_s(), ..schedule }
}
