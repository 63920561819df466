// SPDX-License-Identifier: GPL-3.0-or-later
//! The fair schedules of a cluster's pools, fed by the daemon's view of the cluster.
//!
//! Each pool is scheduled in its scarcest dimension. A job comes into the fair schedule when it
//! first waits for resources, not for a limit or another job; an array with all its tasks, which
//! are then told apart by number alone. A start of the daemon, another layout of partitions and
//! too many jobs begin all schedules anew; the longest waits are remembered.

use std::collections::{BTreeMap, VecDeque};

use super::easy::Request;
use super::{Rank, Scarcity, StarvationLimit, Waiting};
use phalanx_core::NodeSet;
use phalanx_core::number::{nearest_usize, whole};
use phalanx_core::reason::is_for_nodes;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_methods::learn::runtime::NO_LIMIT_S;

/// Most jobs and tasks that the fair schedules remember.
const JOBS_MAX: usize = 200_000;

/// A pool's fair schedule, and the dimension in which the schedule is made.
#[derive(Debug)]
struct Pool {
    dimension: usize,
    limit: StarvationLimit,
}

/// A job of Slurm's.
#[derive(Debug, Default)]
struct Known {
    pool: u32,
    /// Time at which the job first waited for resources, unix seconds.
    since_s: i64,
    /// Tasks in the fair schedule that have not really started.
    waiting: VecDeque<u32>,
    /// Id of the job or task that runs, and since when.
    running: Option<(u32, i64)>,
}

/// Settings of the guard.
#[derive(Debug, Clone, Copy)]
pub struct GuardRule {
    /// Share of the longest fair wait after which no job passes a waiting one, percent.
    pub share_percent: u32,
    /// Priority points by which Slurm lets a waiting job rise in a day.
    pub points_a_day: f64,
}

/// The cluster as the guard sees it at one moment.
struct Seen<'a> {
    now_s: i64,
    rule: GuardRule,
    snapshot: &'a Snapshot,
    scarcity: Scarcity<'a>,
    expected_s: &'a dyn Fn(&Job) -> f64,
}

/// The fair schedules.
#[derive(Debug, Default)]
pub struct Guard {
    layout: Vec<NodeSet>,
    pools: BTreeMap<u32, Pool>,
    jobs: BTreeMap<u32, Known>,
    last_id: u32,
    longest_s: BTreeMap<String, i64>,
}

impl Guard {
    /// Makes a guard that remembers the longest fair waits by pool, seconds.
    pub fn remembering(longest_s: BTreeMap<String, i64>) -> Self {
        Self { longest_s, ..Self::default() }
    }

    /// The longest fair waits by pool, named by its first partition, seconds.
    pub fn longest_s(&self) -> &BTreeMap<String, i64> {
        &self.longest_s
    }

    /// Takes the present cluster: a snapshot, the report of the queue, and expected runtimes.
    pub fn observe(
        &mut self,
        now_s: i64,
        rule: GuardRule,
        snapshot: &Snapshot,
        waiting: &[Waiting],
        expected_s: &dyn Fn(&Job) -> f64,
    ) {
        let layout = snapshot.partitions.iter().map(|partition| &partition.nodes);
        let kept: usize = self.pools.values().map(|pool| pool.limit.len()).sum();
        if !layout.clone().eq(&self.layout) || kept > JOBS_MAX {
            let longest_s = std::mem::take(&mut self.longest_s);
            *self = Self { layout: layout.cloned().collect(), ..Self::remembering(longest_s) };
        }
        let is_asking = |job: &&Job| has_started(job) || competes(job);
        let scarcity = Scarcity::of(snapshot, snapshot.all_jobs().filter(is_asking));
        let seen = Seen { now_s, rule, snapshot, scarcity, expected_s };
        self.adapt(&seen);
        snapshot.all_jobs().filter(|job| has_started(job)).for_each(|job| self.run(&seen, job));
        for waiting in waiting {
            let job = snapshot.job(waiting.job_id).filter(|job| job.state == JobState::Pending);
            job.into_iter().for_each(|job| self.wait(&seen, job, waiting));
        }
        self.forget(&seen);
        for (number, pool) in &mut self.pools {
            pool.limit.advance(now_s);
            let (name, longest_s) = (name_of(snapshot, *number), pool.limit.longest_s());
            if self.longest_s.get(name).copied().unwrap_or(0) < longest_s {
                self.longest_s.insert(name.to_owned(), longest_s);
            }
        }
    }

    /// Time from which on no job passes `job`, Unix seconds; `None` if it has not competed yet.
    pub fn due_s(&self, job_id: u32) -> Option<i64> {
        let known = self.jobs.get(&job_id)?;
        Some(known.since_s.saturating_add(self.pools.get(&known.pool)?.limit.limit_s()))
    }

    /// The longest wait, over the pools, from which on no job passes a waiting one, seconds.
    pub fn limit_s(&self) -> i64 {
        self.pools.values().map(|pool| pool.limit.limit_s()).max().unwrap_or(0)
    }

    /// Adapts the pools' sizes to the cluster: to its amounts, or to what runs, where Slurm gives
    /// more than nodes have. The dimension of a pool is chosen while the pool has no job.
    fn adapt(&mut self, seen: &Seen<'_>) {
        let scarcity = &seen.scarcity;
        for (number, dimension) in scarcity.scarcest() {
            let longest_s = self.longest_s.get(name_of(seen.snapshot, number)).copied();
            let pool = self.pools.entry(number).or_insert_with(|| {
                let mut limit = StarvationLimit::new(0, seen.rule.share_percent);
                limit.recall(longest_s.unwrap_or(0));
                Pool { dimension, limit }
            });
            if pool.limit.is_empty() {
                pool.dimension = dimension;
            }
        }
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for job in seen.snapshot.all_jobs().filter(|job| has_started(job)) {
            let number = scarcity.pool_of(job);
            if let Some(pool) = self.pools.get(&number) {
                *held.entry(number).or_default() += scarcity.size(job, pool.dimension);
            }
        }
        for (number, pool) in &mut self.pools {
            let total = scarcity.total(*number, pool.dimension);
            let total = total.max(held.get(number).copied().unwrap_or(0));
            pool.limit.adapt(total, seen.rule.share_percent);
        }
    }

    fn run(&mut self, seen: &Seen<'_>, job: &Job) {
        let known = self.jobs.get(&job.id);
        if known.is_some_and(|known| known.running.is_some_and(|(_, at_s)| at_s == job.start_s)) {
            return;
        }
        self.stop(job.id, seen.now_s);
        let of_array = job.array_job_id.unwrap_or(job.id);
        let twin = [job.id, of_array]
            .iter()
            .find_map(|id| self.jobs.get_mut(id).and_then(|known| known.waiting.pop_front()));
        let request = self.request(seen, job, Rank::ARRIVAL);
        let known = self.jobs.entry(job.id).or_default();
        known.pool = seen.scarcity.pool_of(job);
        let Some(pool) = self.pools.get_mut(&known.pool) else { return };
        let id = twin.unwrap_or(request.id);
        match twin {
            Some(id) => pool.limit.started(id, job.start_s),
            None => pool.limit.found(request, job.start_s, whole((seen.expected_s)(job))),
        }
        known.running = Some((id, job.start_s));
    }

    fn wait(&mut self, seen: &Seen<'_>, job: &Job, waiting: &Waiting) {
        if !self.jobs.contains_key(&job.id) {
            if !competes(job) {
                return;
            }
            // A task that was split off its array has waited as long as that.
            let array = job.array_job_id.and_then(|id| self.jobs.get(&id));
            let since_s = array.map_or(seen.now_s, |known| known.since_s);
            let pool = seen.scarcity.pool_of(job);
            self.jobs.insert(job.id, Known { pool, since_s, ..Known::default() });
        }
        self.stop(job.id, seen.now_s);
        let Some(known) = self.jobs.get_mut(&job.id) else { return };
        let Some(pool) = self.pools.get_mut(&known.pool) else { return };
        let tasks = nearest_usize(job.task_count.max(1));
        while known.waiting.len() > tasks {
            known.waiting.pop_back().iter().for_each(|id| pool.limit.cancelled(*id));
        }
        let more = tasks - known.waiting.len();
        if more == 0 {
            return;
        }
        let rank = waiting.rank(seen.rule.points_a_day, seen.now_s);
        let request = self.request(seen, job, rank);
        let Some(known) = self.jobs.get_mut(&job.id) else { return };
        let Some(pool) = self.pools.get_mut(&known.pool) else { return };
        for _ in 0..more.min(JOBS_MAX.saturating_sub(pool.limit.len())) {
            self.last_id += 1;
            let expected_s = whole((seen.expected_s)(job));
            pool.limit.arrived(Request { id: self.last_id, ..request }, known.since_s, expected_s);
            known.waiting.push_back(self.last_id);
        }
    }

    /// Makes a job's request under the next free number.
    fn request(&mut self, seen: &Seen<'_>, job: &Job, rank: Rank) -> Request {
        self.last_id += 1;
        let pool = self.pools.get(&seen.scarcity.pool_of(job));
        let size = pool.map_or(0, |pool| seen.scarcity.size(job, pool.dimension));
        let limit_s = job.time_limit_min.map_or(NO_LIMIT_S, |min| u64::from(min.max(1)) * 60);
        Request { id: self.last_id, size, limit_s, rank }
    }

    /// Notes that a running job ended.
    fn stop(&mut self, job_id: u32, now_s: i64) {
        let Some(known) = self.jobs.get_mut(&job_id) else { return };
        let pool = self.pools.get_mut(&known.pool);
        if let (Some((id, start_s)), Some(pool)) = (known.running.take(), pool) {
            pool.limit.ended(id, now_s.saturating_sub(start_s), now_s);
        }
    }

    /// Drops jobs that neither run nor wait, and tasks that an array no longer has.
    fn forget(&mut self, seen: &Seen<'_>) {
        let mut gone = Vec::new();
        for (job_id, known) in &mut self.jobs {
            let job = seen.snapshot.job(*job_id);
            let waits = |job: &Job| job.state == JobState::Pending && job.priority > 0;
            if job.is_some_and(waits) {
                continue;
            }
            let mut pool = self.pools.get_mut(&known.pool);
            for id in known.waiting.drain(..) {
                pool.as_mut().into_iter().for_each(|pool| pool.limit.cancelled(id));
            }
            if !job.is_some_and(has_started) {
                gone.push(*job_id);
            }
        }
        for job_id in gone {
            let end_s = seen.snapshot.job(job_id).map(|job| job.end_s - job.suspended_s);
            self.stop(
                job_id,
                end_s.filter(|at| (1..seen.now_s).contains(at)).unwrap_or(seen.now_s),
            );
            self.jobs.remove(&job_id);
        }
    }
}

/// The name of a pool, which is that of its first partition.
fn name_of(snapshot: &Snapshot, pool: u32) -> &str {
    let first = usize::try_from(pool).ok().and_then(|number| number.checked_sub(1));
    let partition = first.and_then(|at| snapshot.partitions.get(at));
    partition.map_or("", |partition| &*partition.name)
}

/// Whether a job waits for resources that other jobs have.
pub fn competes(job: &Job) -> bool {
    job.state == JobState::Pending && job.priority > 0 && is_for_nodes(job)
}

fn has_started(job: &Job) -> bool {
    matches!(job.state, JobState::Running | JobState::Suspended)
}

#[cfg(test)]
mod tests {
    use phalanx_core::GresIdx;
    use phalanx_core::shape::{GresWant, Shape};
    use phalanx_core::snapshot::{Builder, Node, NodeGres, Partition, shared};

    use super::*;

    /// A snapshot of two nodes of 4 CPUs and 2 GPUs.
    fn snapshot(jobs: Vec<Job>) -> Snapshot {
        let gres = NodeGres { kind: "gpu".into(), total: 2, ..NodeGres::default() };
        let node = |name: &str| Node {
            name: name.into(),
            available: true,
            cpus: 4,
            memory_mb: 1000,
            gres: vec![gres.clone()],
            ..Node::default()
        };
        let nodes = NodeSet::full(2);
        let mut builder = Builder::default();
        builder.nodes(vec![node("a"), node("b")]).unwrap();
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions = vec![main];
        builder.draft.jobs = shared(jobs);
        builder.build(1, 1).unwrap()
    }

    fn job(id: u32, cpus: u32) -> Job {
        Job {
            id,
            priority: 5,
            task_count: 1,
            reason: "Resources".into(),
            partitions: "main".into(),
            time_limit_min: Some(10),
            shape: Shape { min_cpus: cpus, max_nodes: 2, req_nodes: 1, ..Shape::default() },
            ..Job::default()
        }
    }

    fn runs(job: Job, start_s: i64) -> Job {
        Job { state: JobState::Running, start_s, ..job }
    }

    fn observe(guard: &mut Guard, now_s: i64, jobs: Vec<Job>) {
        let rule = GuardRule { share_percent: 50, points_a_day: 10.0 };
        let waiting = jobs.iter().filter(|job| job.state == JobState::Pending && job.priority > 0);
        let waiting: Vec<Waiting> = waiting
            .map(|job| Waiting { job_id: job.id, priority_max: job.priority, ..Waiting::default() })
            .collect();
        guard.observe(now_s, rule, &snapshot(jobs), &waiting, &|_| 60.0);
    }

    #[test]
    fn a_share_of_the_longest_fair_wait_is_the_limit() {
        let mut guard = Guard::default();
        observe(&mut guard, 1000, vec![runs(job(1, 8), 990), job(2, 8), job(3, 8)]);
        assert_eq!((guard.due_s(2), guard.limit_s()), (Some(1000), 0), "nobody had to wait yet");
        // The first ends after 110 s; the second starts, as it does in the fair schedule.
        observe(&mut guard, 1100, vec![runs(job(2, 8), 1100), job(3, 8)]);
        assert_eq!((guard.due_s(3), guard.limit_s()), (Some(1050), 50));
        // The third is passed by one that comes later; in the fair schedule it is the next.
        observe(&mut guard, 1150, vec![runs(job(2, 8), 1100), job(3, 8), job(4, 8)]);
        observe(&mut guard, 1200, vec![runs(job(4, 8), 1200), job(3, 8)]);
        assert_eq!(guard.due_s(3), Some(1100), "of 200 s");
        let held = Job { priority: 0, ..job(3, 8) };
        observe(&mut guard, 1210, vec![runs(job(4, 8), 1200), held]);
        assert_eq!(guard.due_s(3), None);
        observe(&mut guard, 1290, vec![]);
        observe(&mut guard, 1400, vec![]);
        assert!(guard.pools.values().all(|pool| pool.limit.is_empty()), "{guard:?}");
    }

    /// Goal: a job that waits for a limit or another job does not compete until it waits for
    /// resources.
    #[test]
    fn a_wait_for_a_limit_is_none() {
        let mut guard = Guard::default();
        let limited = Job { reason: "QOSMaxCpuPerUserLimit".into(), ..job(2, 8) };
        observe(&mut guard, 0, vec![runs(job(1, 8), 0), limited]);
        assert_eq!(guard.due_s(2), None);
        observe(&mut guard, 500, vec![runs(job(1, 8), 0), job(2, 8)]);
        observe(&mut guard, 520, vec![runs(job(2, 8), 520)]);
        assert_eq!((guard.due_s(2), guard.limit_s()), (Some(510), 10));
    }

    #[test]
    fn tasks_of_an_array_start_one_by_one() {
        let mut guard = Guard::default();
        let array = |tasks| Job { array_job_id: Some(2), task_count: tasks, ..job(2, 8) };
        let task = |id| Job { array_job_id: Some(2), array_task_id: Some(id), ..job(id, 8) };
        observe(&mut guard, 0, vec![runs(job(1, 8), 0), array(3)]);
        let limit = |guard: &Guard| guard.pools[&1].limit.len();
        assert_eq!(limit(&guard), 4);
        observe(&mut guard, 40, vec![runs(task(7), 40), array(2)]);
        assert_eq!((guard.limit_s(), limit(&guard)), (20, 3), "the first task waited for 40 s");
        observe(&mut guard, 41, vec![runs(task(7), 40), task(8), array(1)]);
        assert_eq!((guard.due_s(8), limit(&guard)), (Some(20), 3), "as long as its array");
        observe(&mut guard, 50, vec![]);
        observe(&mut guard, 200, vec![]);
        assert_eq!(limit(&guard), 0);
    }

    /// Goal: a pool is scheduled in what is scarce there. Method: jobs of one CPU and a GPU each,
    /// of which four run at once.
    #[test]
    fn the_scarcest_dimension_counts() {
        let gpu = |id| {
            let want = GresWant { kind: GresIdx::new(0), per_node: 1, ..GresWant::default() };
            let shape = Shape { gres: vec![want], ..job(id, 1).shape };
            Job { shape, ..job(id, 1) }
        };
        let mut guard = Guard::default();
        let running = |ids: std::ops::Range<u32>| ids.map(move |id| runs(gpu(id), 0));
        observe(&mut guard, 0, running(1..5).chain([gpu(9)]).collect());
        assert_eq!(guard.pools[&1].dimension, 2);
        observe(&mut guard, 30, running(2..5).chain([runs(gpu(9), 30)]).collect());
        assert_eq!(guard.limit_s(), 15);
    }

    #[test]
    fn other_partitions_begin_anew() {
        let mut guard = Guard::default();
        observe(&mut guard, 0, vec![runs(job(1, 8), 0), job(2, 8)]);
        observe(&mut guard, 30, vec![runs(job(2, 8), 30)]);
        assert_eq!(guard.limit_s(), 15);
        let rule = GuardRule { share_percent: 50, points_a_day: 10.0 };
        guard.observe(31, rule, &Snapshot::default(), &[], &|_| 60.0);
        assert_eq!((guard.limit_s(), guard.jobs.len()), (0, 0));
        let mut guard = Guard::remembering(guard.longest_s().clone());
        observe(&mut guard, 40, vec![job(3, 8)]);
        assert_eq!(guard.due_s(3), Some(55), "the longest wait was 30 s");
    }
}
