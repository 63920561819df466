// SPDX-License-Identifier: GPL-3.0-or-later
//! The waiting jobs in Slurm's order, with what the daemon adds to their priorities.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Rules;
use super::parameters::{Parameters, Priority};
use phalanx_core::number::{nearest_i64, nearest_u64, whole};
use phalanx_methods::learn::runtime::{JobClass, Prediction, Runtimes};
use phalanx_planner::order::{Request, StarvationLimit, Waiting, by_learned_runtime, decide};
use phalanx_planner::preference::StartRank;

/// Criterion of the order of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderBy {
    /// The order that the gang planner asks for.
    Plan,
    /// The shortest learned runtime first, among short jobs.
    Learned,
}

/// `[order]` of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderRule {
    /// Criterion.
    pub by: OrderBy,
    /// Learned runtime up to which a job is short, seconds.
    pub short_s: u64,
    /// Share of the longest fair wait after which no job passes a waiting one, percent.
    pub fair_share_percent: u32,
    /// Largest number added to a priority.
    pub max_delta: u32,
}

/// Partitions of a job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// Number of the set of partitions.
    pub(crate) number: u32,
    /// Number of the pool of all partitions that share nodes with the set.
    pub(crate) pool: u32,
    /// `PriorityTier`.
    pub(crate) tier: u32,
    /// Number of the pool whose fair schedule the job is in.
    pub(crate) fair: u32,
    /// Amount that the job takes of the resource its fair pool has least of.
    pub(crate) size: u64,
}

/// A waiting job.
#[derive(Debug, Clone)]
struct Job {
    submit_s: i64,
    class: JobClass,
    /// Known from elsewhere.
    expected_s: Option<f64>,
    /// The latest prediction, and the number of ends of the user's jobs that it was made from.
    prediction: Option<(u64, Prediction)>,
    place: Place,
    /// Priority without the part of age.
    base: u32,
    delta: i32,
}

/// The queue of slurmctld, and the daemon that orders it.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    parameters: Parameters,
    rule: Option<OrderRule>,
    jobs: BTreeMap<u32, Job>,
    runtimes: Runtimes,
    /// Ends by user.
    ends_of: BTreeMap<u64, u64>,
    /// The guard of the daemon's order, by pool.
    fair: BTreeMap<u32, StarvationLimit>,
    /// The first start that was planned for each job when it came to the front.
    promised: BTreeMap<u32, i64>,
    /// Longest time from a job's first planned start to its start, seconds.
    pub(crate) slip_s: Option<i64>,
}

impl Queue {
    /// Makes an empty queue; `pools` gives the total of the scarce resource by pool.
    pub(crate) fn new(rules: &Rules, pools: impl Iterator<Item = (u32, u64)>) -> Self {
        let parameters = &rules.parameters;
        let rule = rules.order.filter(|_| parameters.takes_order());
        let fair = |rule: OrderRule| {
            let limit = |total| StarvationLimit::new(total, rule.fair_share_percent);
            pools.map(|(number, total)| (number, limit(total))).collect()
        };
        Self {
            parameters: parameters.clone(),
            fair: rule.map(fair).unwrap_or_default(),
            rule,
            jobs: BTreeMap::new(),
            runtimes: Runtimes::new(),
            ends_of: BTreeMap::new(),
            promised: BTreeMap::new(),
            slip_s: None,
        }
    }

    /// Whether the daemon orders the queue.
    pub(crate) fn is_ordered(&self) -> bool {
        self.rule.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Adds a submitted job. Ids ascend with submission. `started`: its priority when it really
    /// started, and after how many seconds that was.
    pub(crate) fn push(
        &mut self,
        id: u32,
        submit_s: i64,
        class: JobClass,
        expected_s: Option<f64>,
        place: Place,
        started: Option<(u32, i64)>,
    ) {
        let base = started.map_or(0, |(all, age_s)| all.saturating_sub(self.points(age_s)));
        let mut job = Job { submit_s, class, expected_s, prediction: None, place, base, delta: 0 };
        let rank = self.waiting(id, &job, submit_s).rank(self.parameters.points_a_day(), submit_s);
        let mean_s = predicted(&self.runtimes, &self.ends_of, &mut job).mean_s;
        if let Some(limit) = self.fair.get_mut(&place.fair) {
            let request = Request { id, size: place.size, limit_s: class.limit_s, rank };
            limit.advance(submit_s);
            limit.arrived(request, submit_s, whole(mean_s.round()));
            limit.advance(submit_s);
        }
        self.jobs.insert(id, job);
    }

    /// A job starts.
    pub(crate) fn remove(&mut self, id: u32, now_s: i64) {
        let place = self.jobs.remove(&id).map(|job| job.place.fair);
        let limit = place.and_then(|pool| self.fair.get_mut(&pool));
        limit.into_iter().for_each(|limit| limit.started(id, now_s));
        let slip_s = self.promised.remove(&id).map(|at_s| now_s.saturating_sub(at_s).max(0));
        self.slip_s = self.slip_s.max(slip_s);
    }

    /// Notes the start planned for the job in front; only the first one counts.
    pub(crate) fn promise(&mut self, id: u32, start_s: i64) {
        self.promised.entry(id).or_insert(start_s);
    }

    /// Whether the front job of `waiting` has no start planned yet.
    pub(crate) fn is_new(&self, waiting: &[u32]) -> bool {
        waiting.first().is_some_and(|id| !self.promised.contains_key(id))
    }

    /// Learns the runtime of a job that ended.
    pub(crate) fn ended(&mut self, id: u32, class: &JobClass, run_s: u64, now_s: i64) {
        if self.is_ordered() {
            self.runtimes.observe(class, run_s);
            *self.ends_of.entry(class.user).or_default() += 1;
        }
        self.fair.values_mut().for_each(|limit| limit.ended(id, nearest_i64(run_s), now_s));
    }

    /// Whether the job has the highest priority on its nodes; Slurm tries it as it comes.
    pub(crate) fn is_top(&self, id: u32, now_s: i64) -> bool {
        let Some(own) = self.jobs.get(&id) else { return false };
        let key = (own.place.tier, self.priority_of(own, now_s));
        self.jobs.iter().filter(|(_, job)| job.place.pool == own.place.pool).all(|(other, job)| {
            match self.parameters.priority {
                Priority::Basic => *other >= id || job.place.tier < own.place.tier,
                Priority::Multifactor { .. } => {
                    (job.place.tier, self.priority_of(job, now_s)) <= key
                }
            }
        })
    }

    /// Ids as Slurm goes through them: by tier, by priority, then by submission.
    pub(crate) fn order(&self, now_s: i64) -> Vec<u32> {
        let key = |job: &Job| Reverse((job.place.tier, self.priority_of(job, now_s)));
        let jobs = self.jobs.iter();
        let mut order: Vec<_> = jobs.map(|(id, job)| (key(job), job.submit_s, *id)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Whether a job that does not fit keeps nodes from others: not one of low priority or age.
    pub(crate) fn holds_back(&self, id: u32, now_s: i64) -> bool {
        let Parameters { bf_min_age_reserve_s, bf_min_prio_reserve, .. } = self.parameters;
        self.jobs.get(&id).is_some_and(|job| {
            let is_old = now_s.saturating_sub(job.submit_s) >= bf_min_age_reserve_s;
            let is_basic = self.parameters.priority == Priority::Basic;
            is_old && (is_basic || self.priority_of(job, now_s) >= bf_min_prio_reserve)
        })
    }

    /// The number of reservations `made` for jobs of a job's partitions, if backfill may make one
    /// for it.
    pub(crate) fn may_reserve<'m>(
        &self,
        id: u32,
        now_s: i64,
        made: &'m mut BTreeMap<u32, usize>,
    ) -> Option<&'m mut usize> {
        let job = self.jobs.get(&id).filter(|_| self.holds_back(id, now_s))?;
        let count = made.entry(job.place.number).or_default();
        let most = self.parameters.bf_job_part_count_reserve;
        (most == 0 || *count < most).then_some(count)
    }

    /// Returns the priority without the daemon's part, as Slurm computes it every period.
    fn natural(&self, job: &Job, now_s: i64) -> u32 {
        let Priority::Multifactor { period_s, .. } = self.parameters.priority else { return 1 };
        let at_s = now_s.div_euclid(period_s) * period_s;
        let age = self.points(at_s.saturating_sub(job.submit_s));
        job.base.saturating_add(age).max(1)
    }

    /// The points of priority for an age.
    fn points(&self, age_s: i64) -> u32 {
        let Priority::Multifactor { weight_age, max_age_s, .. } = self.parameters.priority else {
            return 0;
        };
        let age_s = age_s.clamp(0, max_age_s);
        let points = i128::from(weight_age) * i128::from(age_s) / i128::from(max_age_s.max(1));
        u32::try_from(points).unwrap_or(u32::MAX)
    }

    fn priority_of(&self, job: &Job, now_s: i64) -> u32 {
        self.natural(job, now_s).saturating_add_signed(job.delta)
    }

    /// Lets the daemon decide on a report of the queue; `planned`: what its methods ask for.
    /// Returns whether anything changed, and when time alone will change something.
    pub(crate) fn decide(&mut self, now_s: i64, planned: &[StartRank]) -> (bool, Option<i64>) {
        let Some(rule) = self.rule else { return (false, None) };
        let ranks = match rule.by {
            OrderBy::Plan => planned.to_vec(),
            OrderBy::Learned => self.learned(rule.short_s),
        };
        self.fair.values_mut().for_each(|limit| limit.advance(now_s));
        let jobs = self.jobs.iter();
        let waiting: Vec<Waiting> = jobs.map(|(id, job)| self.waiting(*id, job, now_s)).collect();
        let decision = decide(&waiting, &ranks, rule.max_delta);
        let deltas: BTreeMap<u32, i32> = decision.deltas.into_iter().collect();
        let mut changed = false;
        for (id, job) in &mut self.jobs {
            let delta = deltas.get(id).copied().unwrap_or(0);
            changed |= delta != job.delta;
            job.delta = delta;
        }
        (changed, self.next_s(now_s))
    }

    /// A waiting job as the daemon sees it.
    fn waiting(&self, id: u32, job: &Job, now_s: i64) -> Waiting {
        let priority = self.priority_of(job, now_s);
        Waiting {
            job_id: id,
            priority,
            priority_max: priority,
            delta: job.delta,
            tier: job.place.tier,
            tier_max: job.place.tier,
            partition: job.place.number,
            pool: job.place.pool,
            submit_s: nearest_u64(job.submit_s),
            enforced: true,
            due: self.due_s(job) <= now_s,
            ..Waiting::default()
        }
    }

    /// The time from which on no job passes `id`.
    fn due_s(&self, job: &Job) -> i64 {
        let limit = self.fair.get(&job.place.fair);
        limit.map_or(i64::MAX, |limit| job.submit_s.saturating_add(limit.limit_s()))
    }

    /// The next time that a job is due, or that the fair schedules change.
    fn next_s(&self, now_s: i64) -> Option<i64> {
        let due = self.jobs.values().map(|job| self.due_s(job));
        let ends = self.fair.values().filter_map(StarvationLimit::next_s);
        due.chain(ends).filter(|at_s| *at_s > now_s).min()
    }

    fn learned(&mut self, short_s: u64) -> Vec<StartRank> {
        let (runtimes, ends_of) = (&self.runtimes, &self.ends_of);
        let jobs = self.jobs.iter_mut();
        let predicted =
            jobs.map(|(id, job)| (*id, job.submit_s, predicted(runtimes, ends_of, job)));
        by_learned_runtime(predicted, short_s)
    }
}

fn predicted(runtimes: &Runtimes, ends_of: &BTreeMap<u64, u64>, job: &mut Job) -> Prediction {
    if let Some(mean_s) = job.expected_s {
        return Prediction { mean_s, urgency: 1.0 / mean_s.max(1.0) };
    }
    // Without an end of its user little changes; the common streams hardly move.
    let ends = ends_of.get(&job.class.user).copied().unwrap_or(0);
    let prediction = match job.prediction {
        Some((seen, prediction)) if seen == ends && ends > 0 => prediction,
        _ => runtimes.predict(&job.class),
    };
    job.prediction = Some((ends, prediction));
    prediction
}
