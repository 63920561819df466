// SPDX-License-Identifier: GPL-3.0-or-later
//! Costs of the holds of arrays, for each of their tasks.
//!
//! A hold delays what list scheduling does from then on. Compared with that alone, a wait that a
//! plan has begun looks as if it had been for nothing, and each of many brief ones as if it were
//! the first. So the times by list scheduling are kept from plan to plan: a hold between two plans
//! has cost a task by how much later these have it, at most the time held. Where nobody was held in
//! between, it is the cluster that has changed.

use std::collections::BTreeMap;

use phalanx_methods::bag::slots::{Listed, Times};

/// An array, and whether CPUs that others give back are counted: each has a list of its own.
pub(super) type Key = (u32, bool);

/// Costs of holds by array.
#[derive(Debug, Clone, Default)]
pub struct Unheld(BTreeMap<Key, Kept>);

#[derive(Debug, Clone, Default)]
struct Kept {
    starts: Vec<Tasks>,
    ends: Vec<Tasks>,
    spent_us: u64,
}

/// Tasks that list scheduling starts, or ends, at one time.
#[derive(Debug, Clone, Copy)]
struct Tasks {
    /// Unix microseconds.
    at_us: u64,
    count: u64,
    cost_us: u64,
}

/// An array's waits, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// Most microseconds that the array's tasks may wait in sum.
    pub(super) most_us: u64,
    /// Sum until now.
    pub(super) spent_us: u64,
}

impl Unheld {
    /// Latest times of an array's tasks, from now, given their present times by list scheduling.
    pub(super) fn due(&mut self, key: Key, list: &Listed, waits: Waits, now_us: u64) -> Listed {
        let kept = self.0.entry(key).or_default();
        let held_us = waits.spent_us.saturating_sub(kept.spent_us);
        let next = |before: &[Tasks], list| after(before, list, (held_us, waits.spent_us), now_us);
        kept.starts = next(&kept.starts, &list.starts);
        kept.ends = next(&kept.ends, &list.ends);
        kept.spent_us = waits.spent_us;
        let due = |of: &[Tasks]| latest(of, waits.most_us, now_us);
        Listed { starts: due(&kept.starts), ends: due(&kept.ends) }
    }

    /// Forgets all arrays but `arrays`.
    pub(super) fn keep(&mut self, arrays: &[u32]) {
        self.0.retain(|(array, _), _| arrays.contains(array));
    }
}

/// The tasks of a list, with what a hold has cost the n-th last of them.
fn after(
    before: &[Tasks],
    list: &Times,
    (held_us, spent_us): (u64, u64),
    now_us: u64,
) -> Vec<Tasks> {
    let mut known = before.iter().rev().copied();
    let (mut was, mut found) = (known.next(), Vec::new());
    for (at_us, tasks) in list.iter().rev().map(|(at, tasks)| (at + now_us, *tasks)) {
        let mut left = tasks;
        while left > 0 {
            let (cost_us, count) = match &mut was {
                Some(was) => {
                    let count = left.min(was.count);
                    was.count -= count;
                    (was.cost_us + held_us.min(at_us.saturating_sub(was.at_us)), count)
                }
                // A task that was not there: nobody knows.
                None => (spent_us, left),
            };
            left -= count;
            found.push(Tasks { at_us, count, cost_us });
            if was.is_some_and(|was| was.count == 0) {
                was = known.next();
            }
        }
    }
    found.reverse();
    found
}

/// Latest times of tasks, each later by what remains of its holds. None is due after one behind it.
fn latest(tasks: &[Tasks], most_us: u64, now_us: u64) -> Times {
    let (mut by, mut found) = (u64::MAX, Times::new());
    for of in tasks.iter().rev() {
        by = by.min(of.at_us - now_us + most_us.saturating_sub(of.cost_us));
        found.push((by, of.count));
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;
    const NOW: u64 = 1_700_000_000 * S;

    fn listed(times: &[(u64, u64)]) -> Listed {
        let times: Times = times.iter().map(|(at, n)| (at * S, *n)).collect();
        Listed { starts: times.clone(), ends: times }
    }

    /// Latest times in seconds after `at_s`, of an array whose tasks were held for `spent_s`.
    fn due(unheld: &mut Unheld, list: &[(u64, u64)], spent_s: u64, at_s: u64) -> Vec<(u64, u64)> {
        let waits = Waits { most_us: 10 * S, spent_us: spent_s * S };
        let due = unheld.due((1, false), &listed(list), waits, NOW + at_s * S);
        assert_eq!(due.starts, due.ends);
        due.ends.iter().map(|(at, n)| (at / S, *n)).collect()
    }

    /// Goal: what holds have cost a task is taken from its 10 s, whatever they cost other tasks and
    /// however often it is planned.
    #[test]
    fn each_task_is_late_by_its_seconds_in_sum() {
        let unheld = &mut Unheld::default();
        assert_eq!(due(unheld, &[(20, 6), (40, 4)], 0, 0), [(30, 6), (50, 4)]);
        // A hold of 5 s costs the first 4 s, the last ones nothing.
        for _ in 0..3 {
            assert_eq!(due(unheld, &[(18, 6), (34, 4)], 5, 6), [(24, 6), (44, 4)]);
        }
        // Without a hold in between nodes have come and gone: the cost stays what it was.
        assert_eq!(due(unheld, &[(2, 6), (4, 4)], 5, 8), [(8, 6), (14, 4)]);
        assert_eq!(due(unheld, &[(80, 6), (90, 4)], 5, 9), [(86, 6), (100, 4)]);
        // Four have ended. A hold of 3 s costs no more than these.
        assert_eq!(due(unheld, &[(85, 2), (95, 4)], 8, 15), [(88, 2), (102, 4)]);
        // Tasks that come back were not there.
        assert_eq!(due(unheld, &[(70, 3), (85, 2), (95, 4)], 8, 15), [(72, 3), (88, 2), (102, 4)]);
    }

    #[test]
    fn what_is_due_ascends_and_gone_arrays_are_forgotten() {
        let unheld = &mut Unheld::default();
        assert_eq!(due(unheld, &[(9, 1), (10, 1)], 0, 0), [(19, 1), (20, 1)]);
        assert_eq!(due(unheld, &[(9, 1), (19, 1)], 9, 0), [(19, 1), (20, 1)]);
        assert_eq!(due(unheld, &[(17, 1), (18, 1)], 9, 0), [(19, 1), (19, 1)]);
        unheld.keep(&[2]);
        assert!(unheld.0.is_empty());
    }
}
