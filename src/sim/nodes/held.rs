// SPDX-License-Identifier: GPL-3.0-or-later
//! Holds within the budgets of the daemon, in simulated time.

use std::collections::BTreeMap;

use super::Setup;
use phalanx_core::snapshot::Job;
use phalanx_planner::place::Holding;
use phalanx_planner::preference::HoldBudget;

/// Jobs that are held, and what of their budgets is spent.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Time at which each waiting job was first held, Unix seconds.
    pub(super) first_s: BTreeMap<u32, i64>,
    /// Seconds for which tasks of an array were held before, and since when one is.
    arrays: BTreeMap<u32, (u64, Option<i64>)>,
    budget: HoldBudget,
}

impl Held {
    /// Time for which a job was held.
    pub(super) fn holding(&self, id: u32, now_s: i64) -> Holding {
        let first = self.first_s.get(&id).copied().unwrap_or(now_s);
        Holding::After(seconds(first, now_s).saturating_mul(1000))
    }

    /// Seconds for which tasks of an array were held until now.
    pub(super) fn spent_s(&self, array: u32, now_s: i64) -> u64 {
        let of = |&(before, since): &(u64, Option<i64>)| {
            before + since.map_or(0, |since| seconds(since, now_s))
        };
        self.arrays.get(&array).map_or(0, of)
    }

    /// Whether the budgets of the job's array and user allow a hold.
    pub(super) fn may_hold(&self, job: &Job, setup: &Setup, now_s: i64) -> bool {
        let brief = job.array_job_id.zip(setup.tuning.brief_hold_ms);
        let has_left =
            |(array, ms): (u32, u64)| self.spent_s(array, now_s).saturating_mul(1000) < ms;
        brief.is_none_or(has_left)
            && self.budget.allows(job.user_id, &job.partitions, ms(now_s), setup.hold_budget_ms)
    }

    /// Notes whether a job is held now.
    pub(super) fn answered(&mut self, id: u32, job: &Job, is_held: bool, now_s: i64) {
        if is_held {
            self.first_s.entry(id).or_insert(now_s);
            self.budget.held(id, job.user_id, &job.partitions, ms(now_s));
        } else {
            self.first_s.remove(&id);
        }
        let Some(array) = job.array_job_id else { return };
        if is_held || self.arrays.contains_key(&array) {
            let spent = self.spent_s(array, now_s);
            self.arrays.insert(array, (spent, is_held.then_some(now_s)));
        }
    }
}

fn seconds(from_s: i64, to_s: i64) -> u64 {
    u64::try_from(to_s.saturating_sub(from_s)).unwrap_or(0)
}

fn ms(now_s: i64) -> u64 {
    u64::try_from(now_s).unwrap_or(0).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the tasks of an array wait so long together, not each.
    #[test]
    fn an_array_has_one_clock() {
        let job = Job { array_job_id: Some(3), ..Job::default() };
        let mut held = Held::default();
        held.answered(1, &job, true, 100);
        held.answered(1, &job, true, 104);
        held.answered(1, &job, false, 106);
        held.answered(2, &job, true, 200);
        assert_eq!((held.spent_s(3, 150), held.spent_s(3, 203)), (6, 9));
    }
}
