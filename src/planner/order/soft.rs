// SPDX-License-Identifier: GPL-3.0-or-later
//! Soft limits: which pending jobs backfill may plan by their predicted runtimes.
//!
//! A job that is planned so may hold its nodes longer, up to its limit. So it is only where by its
//! limit it ends soon enough after the start that was first promised to the job in front of its
//! pool: the earliest by the limits of those that run, in what the pool has least of.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scarcity, Waiting, competes};
use phalanx_core::number::whole;
use phalanx_core::snapshot::{Job, JobState, Snapshot};

/// Jobs of a pool that are looked at, the first ones: as many as backfill tests by default.
const LOOKED_AT: usize = 500;

/// The jobs in front, the starts promised to them, and the minutes by which jobs are planned.
#[derive(Debug, Default)]
pub struct SoftLimits {
    /// The job in front of each pool and its promised start, Unix seconds.
    promised: BTreeMap<u32, (u32, i64)>,
    /// Minutes by job.
    pub minutes: BTreeMap<u32, u32>,
}

impl SoftLimits {
    /// Decides by which minutes which jobs are planned now. `expected_s`: the predicted runtime of
    /// a job that has one.
    pub fn decide(
        &mut self,
        now_s: i64,
        max_slip_s: u64,
        (snapshot, waiting): (&Snapshot, &[Waiting]),
        expected_s: &dyn Fn(&Job) -> Option<f64>,
    ) {
        let running = || snapshot.jobs.iter().filter(|job| job.state == JobState::Running);
        let line = in_order(snapshot, waiting);
        let scarcity = Scarcity::of(snapshot, running().chain(line.iter().copied()));
        let mut before = std::mem::take(&mut self.minutes);
        let mut fronts = BTreeSet::new();
        for (pool, dimension) in scarcity.scarcest() {
            let of_pool = |job: &&Job| scarcity.pool_of(job) == pool;
            let mut own = line.iter().copied().filter(of_pool).take(LOOKED_AT).peekable();
            let Some(front) = own.peek() else { continue };
            fronts.insert(pool);
            let size = |job: &Job| scarcity.size(job, dimension);
            let held = running().filter(of_pool).map(|job| (end_s(job), size(job))).collect();
            let start_s = earliest_s(size(front), scarcity.total(pool, dimension), held, now_s);
            let promised = self.promised.entry(pool).or_insert((front.id, start_s));
            if promised.0 != front.id {
                *promised = (front.id, start_s);
            }
            let until_s = promised.1.saturating_add_unsigned(max_slip_s);
            for job in own {
                let Some(limit_min) = job.time_limit_min else { continue };
                if now_s.saturating_add(i64::from(limit_min) * 60) > until_s {
                    continue;
                }
                let fresh = || expected_s(job).map(|seconds| whole((seconds / 60.0).ceil()).max(1));
                let minutes = before.remove(&job.id);
                let minutes = minutes.or_else(|| u32::try_from(fresh()?).ok());
                if let Some(minutes) = minutes.filter(|minutes| *minutes < limit_min) {
                    self.minutes.insert(job.id, minutes);
                }
            }
        }
        self.promised.retain(|pool, _| fronts.contains(pool));
    }
}

/// The jobs that wait for resources, as Slurm goes through them.
fn in_order<'a>(snapshot: &'a Snapshot, waiting: &[Waiting]) -> Vec<&'a Job> {
    let key = |of: &Waiting| (std::cmp::Reverse((of.tier_max, of.priority_max)), of.submit_s);
    let known = |of: &Waiting| Some((key(of), of.job_id, snapshot.job(of.job_id)?));
    let mut line: Vec<_> = waiting.iter().filter_map(known).collect();
    line.sort_unstable_by_key(|(key, id, _)| (*key, *id));
    line.into_iter().map(|(_, _, job)| job).filter(|job| competes(job)).collect()
}

/// The time at which a running job reaches its limit.
fn end_s(job: &Job) -> i64 {
    job.time_limit_min.map_or(i64::MAX, |min| job.start_s.saturating_add(i64::from(min) * 60))
}

/// The earliest time at which so much is free, if what runs lasts as long as its limits.
fn earliest_s(size: u64, total: u64, mut held: Vec<(i64, u64)>, now_s: i64) -> i64 {
    held.sort_unstable();
    let taken: u64 = held.iter().map(|(_, size)| size).sum();
    let mut free = total.saturating_sub(taken);
    let mut at_s = now_s;
    for (end_s, given) in held {
        if free >= size {
            break;
        }
        free = free.saturating_add(given);
        at_s = at_s.max(end_s);
    }
    at_s
}

#[cfg(test)]
mod tests {
    use fixedbitset::FixedBitSet;
    use phalanx_core::shape::Shape;
    use phalanx_core::snapshot::{Builder, Node, Partition};

    use super::*;

    fn job(id: u32, cpus: u32, limit_min: u32) -> Job {
        Job {
            id,
            priority: 10 - id,
            task_count: 1,
            reason: "Resources".into(),
            partitions: "main".into(),
            time_limit_min: Some(limit_min),
            shape: Shape { min_cpus: cpus, max_nodes: 1, req_nodes: 1, ..Shape::default() },
            ..Job::default()
        }
    }

    fn decide(soft: &mut SoftLimits, now_s: i64, jobs: Vec<Job>) -> BTreeMap<u32, u32> {
        let node = Node { name: "a".into(), available: true, cpus: 8, ..Node::default() };
        let nodes = FixedBitSet::from_iter([0]);
        let mut builder = Builder::default();
        builder.nodes(vec![node]).unwrap();
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions = vec![main];
        builder.draft.jobs = jobs;
        let snapshot = builder.build(1, 1).unwrap();
        let waiting = snapshot.jobs.iter().filter(|job| job.state == JobState::Pending);
        let waiting: Vec<Waiting> = waiting
            .map(|job| Waiting { job_id: job.id, priority_max: job.priority, ..Waiting::default() })
            .collect();
        // Half a minute more than the number; of job 5 nothing is known.
        let expected_s = |job: &Job| (job.id != 5).then(|| f64::from(job.id) * 60.0 + 30.0);
        soft.decide(now_s, 600, (&snapshot, &waiting), &expected_s);
        soft.minutes.clone()
    }

    /// Goal: minutes are given while the limit ends in time, and the promise stands. Method: the
    /// job in front is promised the end of the one that runs, at 1,200 s; 600 s more are allowed.
    #[test]
    fn a_limit_ends_soon_after_the_promised_start() {
        let mut soft = SoftLimits::default();
        let running = Job { state: JobState::Running, ..job(9, 6, 20) };
        let waiting = [job(1, 8, 60), job(2, 2, 30), job(3, 2, 29), job(4, 2, 3), job(5, 2, 5)];
        let jobs = |running: &Job| [std::slice::from_ref(running), &waiting[..]].concat();
        let at = |soft: &mut SoftLimits, now_s, running: &Job| decide(soft, now_s, jobs(running));
        assert_eq!(at(&mut soft, 0, &running), BTreeMap::from([(2, 3), (3, 4)]));
        assert_eq!(at(&mut soft, 61, &running), BTreeMap::new(), "both would end too late");
        let longer = Job { time_limit_min: Some(99), ..running };
        assert_eq!(at(&mut soft, 0, &longer).len(), 2, "the first promise counts");
        let mut rest = jobs(&longer);
        rest.remove(1);
        assert_eq!(decide(&mut soft, 0, rest), BTreeMap::new(), "another in front has its own");
        let mut anew = SoftLimits::default();
        assert_eq!(at(&mut anew, 61, &longer), BTreeMap::from([(1, 2), (2, 3), (3, 4)]));
        assert_eq!(decide(&mut soft, 0, vec![longer]), BTreeMap::new());
        assert!(soft.promised.is_empty());
    }
}
