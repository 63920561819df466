// SPDX-License-Identifier: GPL-3.0-or-later
//! Budget of the time for which the jobs of one user may keep a partition's queue waiting.
//!
//! Slurm passes over the jobs behind one that is held back, in that partition and pass. Whoever
//! submits such jobs without end would stop the queue for everybody behind them, so the time is
//! counted for each user and partition together: it is forgotten slowly, and who has used it up
//! is placed without waiting.

use std::collections::{BTreeMap, HashMap};

/// Time in which one held millisecond is forgotten: a user in one partition holds it for a
/// twentieth of the time in the long run.
const FORGOTTEN_IN: u64 = 20;
/// Held time assumed before a second ask about a job: a hold lasts at least one pass.
const FIRST_MS: u64 = 1000;
/// Longest time between two questions about a job during which it counts as held.
const GAP_MS: u64 = 30_000;
/// Most users, and most jobs, that are remembered; those without held time are dropped first.
const ENTRIES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    /// Held time that is not forgotten yet, in milliseconds, as of `at_ms`.
    ms: u64,
    at_ms: u64,
    /// Time up to which `ms` was counted.
    until_ms: u64,
}

impl Spent {
    fn now(self, now_ms: u64) -> u64 {
        self.ms.saturating_sub(now_ms.saturating_sub(self.at_ms) / FORGOTTEN_IN)
    }
}

/// Held time by user and partition. Times are milliseconds of any monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldBudget {
    spent: HashMap<u32, BTreeMap<Box<str>, Spent>>,
    /// Time at which each job was last held.
    jobs: HashMap<u32, u64>,
    /// Times that a job was not held because its user's budget was used up.
    pub refused: u64,
}

impl HoldBudget {
    /// Whether a job of the user may be held for longer.
    pub fn allows(&self, user: u32, partition: &str, now_ms: u64, budget_ms: u64) -> bool {
        let spent = self.spent.get(&user).and_then(|of| of.get(partition));
        spent.map_or(0, |spent| spent.now(now_ms)) < budget_ms
    }

    /// Counts that a job is held at a time.
    pub fn held(&mut self, job: u32, user: u32, partition: &str, now_ms: u64) {
        self.make_room(now_ms);
        let before = self.jobs.insert(job, now_ms);
        let of = self.spent.entry(user).or_default();
        if !of.contains_key(partition) {
            of.insert(partition.into(), Spent::default());
        }
        let Some(spent) = of.get_mut(partition) else { return };
        let since = match before.map(|before| now_ms.saturating_sub(before)) {
            Some(gap) if gap <= GAP_MS => gap,
            _ => FIRST_MS,
        };
        // Of jobs that are held at one time the queue waits but once.
        let added = since.min(now_ms.saturating_sub(spent.until_ms));
        let known = spent.now(now_ms);
        // What is less than a step of forgetting is kept for the next time.
        if known == 0 || known != spent.ms {
            (spent.ms, spent.at_ms) = (known, now_ms);
        }
        spent.ms += added;
        spent.until_ms = now_ms;
    }

    fn make_room(&mut self, now_ms: u64) {
        if self.jobs.len() >= ENTRIES_MAX {
            self.jobs.retain(|_, last| now_ms.saturating_sub(*last) <= GAP_MS);
            if self.jobs.len() >= ENTRIES_MAX / 2 {
                self.jobs.clear();
            }
        }
        if self.spent.len() >= ENTRIES_MAX {
            self.spent.retain(|_, of| {
                of.retain(|_, spent| spent.now(now_ms) > 0);
                !of.is_empty()
            });
            // So many users at once do not happen; nobody is to look through them each time.
            if self.spent.len() >= ENTRIES_MAX / 2 {
                self.spent.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET_MS: u64 = 10_000;

    /// Held time in `total_ms` if a new job is submitted each `every_ms` and held as long as it may
    /// be, at most `each_ms`; slurmctld asks each `pass_ms`.
    fn flood(budget: &mut HoldBudget, total_ms: u64, every_ms: u64, each_ms: u64) -> u64 {
        let pass_ms = 500;
        let (mut held, mut now) = (0, 1_000_000);
        let end = now + total_ms;
        while now < end {
            let newest = now / every_ms;
            let age = |job: u64| now - job * every_ms;
            let jobs = (0..=newest).rev().take_while(|&job| age(job) < each_ms);
            let mut any = false;
            for job in jobs {
                if budget.allows(7, "main", now, BUDGET_MS) {
                    budget.held(u32::try_from(job).unwrap(), 7, "main", now);
                    any = true;
                }
            }
            held += u64::from(any) * pass_ms;
            now += pass_ms;
        }
        held
    }

    #[test]
    fn one_job_waits_as_long_as_it_may() {
        let mut budget = HoldBudget::default();
        let held = flood(&mut budget, 10_000, u64::MAX, u64::MAX);
        assert!((9_000..=10_500).contains(&held), "{held}");
    }

    #[test]
    fn a_stream_of_jobs_holds_a_twentieth() {
        for (every_ms, each_ms) in [(500, 1_000), (1_000, 10_000), (100, 600_000)] {
            let mut budget = HoldBudget::default();
            flood(&mut budget, 60_000, every_ms, each_ms);
            let later = flood(&mut budget, 3_600_000, every_ms, each_ms);
            let share = u32::try_from(later).unwrap();
            assert!(f64::from(share) <= 0.075 * 3_600_000.0, "{every_ms}: {later}");
        }
    }

    #[test]
    fn jobs_held_at_one_time_count_once_and_for_as_long_as_they_are_held() {
        let mut budget = HoldBudget::default();
        for pass in 0..8 {
            for job in 0..10 {
                budget.held(job, 7, "main", 1_000_000 + 1000 * pass);
            }
        }
        let spent = |budget: &HoldBudget, now| budget.spent[&7]["main"].now(now);
        // A second at first, then what went by, less the twentieth that is forgotten.
        assert_eq!(spent(&budget, 1_007_000), 1000 + 7 * 950);
        // Held again after an hour: nobody waited for it meanwhile.
        budget.held(0, 7, "main", 5_000_000);
        assert_eq!(spent(&budget, 5_000_000), FIRST_MS);
    }

    #[test]
    fn others_have_budgets_of_their_own() {
        let mut budget = HoldBudget::default();
        flood(&mut budget, 60_000, 1_000, 60_000);
        let now = 1_060_000;
        assert!(!budget.allows(7, "main", now, BUDGET_MS));
        assert!(budget.allows(8, "main", now, BUDGET_MS));
        assert!(budget.allows(7, "gpu", now, BUDGET_MS));
        assert!(budget.allows(7, "main", now + 20 * BUDGET_MS, BUDGET_MS));
        assert!(!budget.allows(8, "main", now, 0), "without a budget nobody waits");
        assert!(budget.spent[&7].contains_key("main"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut budget = HoldBudget::default();
        for job in 0..100_000 {
            budget.held(job, job, "main", u64::from(job) * 100);
        }
        assert!(budget.jobs.len() <= ENTRIES_MAX && budget.spent.len() <= ENTRIES_MAX + 1);
    }
}
