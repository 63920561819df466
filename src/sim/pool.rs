// SPDX-License-Identifier: GPL-3.0-or-later
//! Batch jobs under a policy, on a machine whose CPUs are all alike.

use super::job::{SimJob, Workload};
use super::policy::{Order, Policy};
use super::schedule::{Schedule, Scheduler, schedule};
use super::slurm::{self, Rules};
use phalanx_planner::order::{Easy, Rank, Request};

/// Runs all jobs under a policy; calls `progress` with the number of jobs ended so far. Only
/// Slurm's own rules know the turnaround of a workload.
pub fn run(load: &Workload, policy: &Policy, rules: &Rules, progress: &dyn Fn(usize)) -> Schedule {
    match policy.order {
        Order::Fcfs => schedule(load, 0, &mut Easy::new(load.cpus, 0), progress),
        Order::Easy => schedule(load, 0, &mut Easy::new(load.cpus, usize::MAX), progress),
        Order::Slurm { .. } => slurm::pool::run(load, &rules.of(policy.order), progress),
        Order::Other { pool, .. } => schedule(load, 0, &mut *pool(load), progress),
    }
}

impl Scheduler for Easy {
    fn arrived(&mut self, id: u32, job: &SimJob, _: i64, _: &mut Vec<u32>) {
        let rank = Rank::ARRIVAL;
        self.submit(Request { id, size: job.size, limit_s: job.limit_s, rank });
    }

    fn ended(&mut self, id: u32, _: &SimJob, _: i64) {
        self.finish(id);
    }

    fn pass(&mut self, now_s: i64, started: &mut Vec<u32>) {
        Easy::pass(self, now_s, started);
    }
}
