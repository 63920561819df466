// SPDX-License-Identifier: GPL-3.0-or-later
//! The holds: who may hold a job back, by which rule, and until when.
//!
//! The daemon and the simulator ask the same clocks and budgets. Slurm does not ask about a held
//! job again while nothing happens. So each hold has its end here, at which slurmctld is to look
//! at the job. Times are milliseconds of any monotonic clock.

use std::collections::BTreeMap;

use super::hold_budget::HoldBudget;
use super::model::{Method, PreferenceUse};
use super::question::{Question, Waits};
use crate::place::{Holding, Tuning, Wait};
use phalanx_core::limits::{FIRST_PLAN_WAIT_MS, HELD_JOBS_MAX};

/// The rule that holds a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldRule {
    /// The input of a data job is being looked up.
    Input,
    /// The first plan with the job is being made.
    FirstPlan,
    /// `locality=require`.
    Locality,
    /// `gang.admission`.
    Gang,
    /// `bag.hold`.
    Bag,
    /// `balance.no_improvement`.
    Balance,
}

impl HoldRule {
    /// Text for users: the wait's object, and the setting behind it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Input => "until its input is looked up (data_jobs.wait_ms)",
            Self::FirstPlan => "until its first plan is made",
            Self::Locality => "for the nodes of its input (locality=require in its comment)",
            Self::Gang => "as a gang worth less than its cost (gang.admission)",
            Self::Bag => "for nodes of its array's plan (bag.hold)",
            Self::Balance => "for a node that it improves (balance.no_improvement)",
        }
    }
}

/// A hold under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Rule that holds the job.
    pub rule: HoldRule,
    /// Latest end of the hold.
    pub until_ms: u64,
    since_ms: u64,
    is_over: bool,
}

/// Limits of all holds.
#[derive(Debug, Clone, Copy)]
pub struct HoldLimits<'a> {
    /// Limits by method.
    pub tuning: &'a Tuning,
    /// Longest time until the input of a job was looked up; 0: no wait.
    pub input_ms: u64,
    /// Longest time for the nodes of an input, where the job requires them.
    pub require_ms: u64,
    /// Longest time for which the jobs of one user hold one partition; see [`HoldBudget`].
    pub budget_ms: u64,
}

impl HoldLimits<'_> {
    /// Rule and end of the hold of a job that was first held at `first_ms`, and of whose array
    /// other tasks were held for `spent_ms`.
    fn hold(
        &self,
        (wait, question): (Wait, &Question<'_>),
        used: Option<&PreferenceUse>,
        (first_ms, spent_ms, now_ms): (u64, u64, u64),
    ) -> Hold {
        let of_method = used.filter(|used| used.preference.required && used.set.is_none());
        let method = of_method.map(|used| used.preference.method);
        let (tuning, after) = (self.tuning, |ms| first_ms.saturating_add(ms));
        let (rule, until_ms) = match (wait, method) {
            (Wait::FirstPlan, _) if question.input => (HoldRule::Input, after(self.input_ms)),
            (Wait::FirstPlan, _) => (HoldRule::FirstPlan, after(FIRST_PLAN_WAIT_MS)),
            (Wait::Gain, Some(Method::DataJobs)) => (HoldRule::Locality, after(self.require_ms)),
            (Wait::Gain, Some(Method::Gang)) => {
                (HoldRule::Gang, after(tuning.gang_hold.map_or(0, |hold| hold.gang_ms)))
            }
            (Wait::Gain, Some(Method::Bag)) => {
                let of_bag = match (tuning.preference_hold_ms, tuning.brief_hold_ms) {
                    (None, Some(ms)) => now_ms.saturating_add(ms.saturating_sub(spent_ms)),
                    (ms, _) => after(ms.unwrap_or(0)),
                };
                (HoldRule::Bag, of_bag)
            }
            (Wait::Gain, _) => (HoldRule::Balance, after(tuning.params.hold_max_ms.unwrap_or(0))),
        };
        Hold { rule, until_ms, since_ms: now_ms, is_over: false }
    }
}

/// Tasks of an array that are or were held.
#[derive(Debug, Default)]
struct OfArray {
    hold: Option<Hold>,
    /// Time of the array's holds that have ended.
    spent_ms: u64,
}

impl OfArray {
    /// Ends a hold; the time of a hold for the array's plan is counted.
    fn stop(&mut self, now_ms: u64) {
        self.spent_ms = self.spent_ms(now_ms);
        self.hold = None;
    }

    fn spent_ms(&self, now_ms: u64) -> u64 {
        let under_way = self.hold.filter(|hold| hold.rule == HoldRule::Bag);
        let took = |hold: Hold| now_ms.min(hold.until_ms).saturating_sub(hold.since_ms);
        self.spent_ms.saturating_add(under_way.map_or(0, took))
    }
}

/// Holds by job, of an array by its record, and the budgets of all holds.
#[derive(Debug, Default)]
pub struct Holds {
    /// Time at which each waiting job was first held.
    first: BTreeMap<u32, u64>,
    jobs: BTreeMap<u32, Hold>,
    arrays: BTreeMap<u32, OfArray>,
    /// Time for which users' jobs were held, other than gangs.
    budget: HoldBudget,
    /// Time for which users' gangs that are worth less than their cost were held.
    of_gangs: HoldBudget,
}

impl Holds {
    /// Whether the budgets of the job's array and user allow a hold for its input, as a gang or as
    /// a task of an array.
    pub fn allows(&mut self, asked: &Question<'_>, limits: &HoldLimits<'_>, now_ms: u64) -> bool {
        let (user, partition) = (asked.origin.user_id, &*asked.partition);
        let is_task = !asked.input && asked.shape.wanted_nodes() <= 1;
        let array = asked.array_job_id.filter(|_| is_task);
        if let Some((array, most_ms)) = array.zip(limits.tuning.brief_hold_ms)
            && self.spent_ms(array, now_ms) >= most_ms
        {
            return false;
        }
        if let (false, Some(hold)) = (asked.input, limits.tuning.gang_hold) {
            let may = self.of_gangs.allows(user, partition, now_ms, hold.user_ms);
            if !may || array.is_none() {
                return may;
            }
        }
        let may = self.budget.allows(user, partition, now_ms, limits.budget_ms);
        self.budget.refused += u64::from(!may && asked.input && !asked.will_run);
        may
    }

    /// How long the job has waited, and how long it may wait.
    pub fn waits(&self, asked: &Question<'_>, limits: &HoldLimits<'_>, now_ms: u64) -> Waits {
        let held_ms = match self.first.get(&asked.job_id) {
            Some(first_ms) => now_ms.saturating_sub(*first_ms),
            // Its wait could not be measured, and so would not end.
            None if self.first.len() >= HELD_JOBS_MAX => return Waits::OVER,
            None => 0,
        };
        let wait = |ms| if asked.no_wait { 0 } else { ms };
        Waits {
            holding: Holding::After(held_ms),
            input_ms: if asked.input { wait(limits.input_ms) } else { 0 },
            require_ms: wait(limits.require_ms),
        }
    }

    /// Notes an answer: `wait`, where it holds the job; returns whether the hold is in force.
    /// Planning calls hold no job.
    pub fn answered(
        &mut self,
        asked: &Question<'_>,
        (wait, in_force): (Option<Wait>, bool),
        used: Option<&PreferenceUse>,
        limits: &HoldLimits<'_>,
        now_ms: u64,
    ) {
        let id = asked.job_id;
        let first_ms = match wait {
            Some(_) => *self.first.entry(id).or_insert(now_ms),
            None => now_ms,
        };
        if !in_force || asked.will_run {
            return;
        }
        if wait.is_some() {
            self.count(asked, used, limits.tuning, now_ms);
        }
        let of_array = asked.array_job_id.and_then(|array| self.arrays.get(&array));
        let spent_ms = of_array.map_or(0, |of| of.spent_ms);
        let times = (first_ms, spent_ms, now_ms);
        let hold = wait.map(|wait| limits.hold((wait, asked), used, times));
        let old = asked.array_job_id.map_or(self.jobs.get(&id), |_| of_array?.hold.as_ref());
        let Some(hold) = hold else { return self.stop(asked, now_ms) };
        if old.is_some_and(|old| old.rule == hold.rule) {
            return;
        }
        self.stop(asked, now_ms);
        match asked.array_job_id {
            Some(array) if self.has_room(array) => {
                self.arrays.entry(array).or_default().hold = Some(hold);
            }
            None if self.jobs.len() < HELD_JOBS_MAX => _ = self.jobs.insert(id, hold),
            _ => {}
        }
    }

    /// Counts a hold, which keeps a partition's queue: for an input, as a gang, or as a task of an
    /// array for seconds.
    fn count(
        &mut self,
        asked: &Question<'_>,
        used: Option<&PreferenceUse>,
        tuning: &Tuning,
        now_ms: u64,
    ) {
        let several = asked.shape.left_to_slurm.is_some() || asked.shape.wanted_nodes() > 1;
        let method = used.map(|used| used.preference.method);
        let is_brief = tuning.brief_hold_ms.is_some_and(|ms| ms > 0);
        let budget = match method {
            _ if asked.input => &mut self.budget,
            Some(Method::Bag) if is_brief => &mut self.budget,
            Some(Method::Gang) => &mut self.of_gangs,
            None if several => &mut self.of_gangs,
            _ => return,
        };
        budget.held(asked.job_id, asked.origin.user_id, &asked.partition, now_ms);
    }

    fn stop(&mut self, asked: &Question<'_>, now_ms: u64) {
        match asked.array_job_id {
            Some(array) => {
                if let Some(of) = self.arrays.get_mut(&array) {
                    of.stop(now_ms);
                }
            }
            None => _ = self.jobs.remove(&asked.job_id),
        }
    }

    fn has_room(&self, array: u32) -> bool {
        self.arrays.len() < HELD_JOBS_MAX || self.arrays.contains_key(&array)
    }

    /// Time for which the tasks of an array were held for its plan so far. Of arrays beyond those
    /// that can be remembered none is held.
    pub fn spent_ms(&self, array: u32, now_ms: u64) -> u64 {
        match self.arrays.get(&array) {
            Some(of) => of.spent_ms(now_ms),
            None if self.has_room(array) => 0,
            None => u64::MAX,
        }
    }

    /// The hold of a job, or of its array.
    pub fn of(&self, job: u32, array: Option<u32>) -> Option<Hold> {
        match array {
            Some(array) => self.arrays.get(&array)?.hold,
            None => self.jobs.get(&job).copied(),
        }
    }

    /// Number of times that a data job was not held because its user's budget was used up.
    pub fn refused(&self) -> u64 {
        self.budget.refused
    }

    /// The jobs whose holds have ended since the last call.
    pub fn ended(&mut self, now_ms: u64) -> Vec<u32> {
        let arrays = self.arrays.iter_mut().map(|(id, of)| (id, of.hold.as_mut()));
        let jobs = self.jobs.iter_mut().map(|(id, hold)| (id, Some(hold)));
        let holds = arrays.chain(jobs).filter_map(|(id, hold)| Some((*id, hold?)));
        let over = holds.filter(|(_, hold)| !hold.is_over && hold.until_ms <= now_ms);
        over.map(|(id, hold)| {
            hold.is_over = true;
            id
        })
        .collect()
    }

    /// Notes that a job has begun. Of an array its record waits on, from this start on.
    pub fn began(&mut self, job: u32, array: Option<u32>) {
        self.jobs.remove(&job);
        for id in array.into_iter().chain([job]) {
            self.first.remove(&id);
        }
    }

    /// Forgets a job, or an array, that has left the queue.
    pub fn forget(&mut self, job: u32) {
        self.first.remove(&job);
        self.jobs.remove(&job);
        self.arrays.remove(&job);
    }

    /// Jobs that are remembered: at most `count` of each kind, from the first id after `after`.
    pub fn remembered(&self, after: u32, count: usize) -> impl Iterator<Item = u32> {
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let first = self.first.range(range).map(|(id, _)| *id).take(count);
        let jobs = self.jobs.range(range).map(|(id, _)| *id).take(count);
        first.chain(jobs).chain(self.arrays.range(range).map(|(id, _)| *id).take(count))
    }

    /// Time at which each waiting job was first held.
    pub fn first(&self) -> impl Iterator<Item = (u32, u64)> {
        self.first.iter().map(|(job, at_ms)| (*job, *at_ms))
    }

    /// Takes over the times at which waiting jobs were first held, from a recording.
    pub fn set_first(&mut self, first: impl Iterator<Item = (u32, u64)>) {
        self.first = first.collect();
    }
}

#[cfg(test)]
#[path = "holds_tests.rs"]
mod tests;
