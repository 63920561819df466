// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs that wait to be looked up.
//!
//! A listing may take as long as `hdfs.job_ms`, and a user may have any number of them. The next
//! one is that of the user whose inputs have taken the least time; a new user begins with the least
//! of the others. No user has all threads at once.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use phalanx_core::limits::{DATA_INPUTS_MAX, DATA_INPUTS_USER_MAX, DATA_LOOKUPS_USER};
use phalanx_methods::data_jobs::blockmap::Declaration;

/// A declaration and its user: one user must not see what another may read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InputKey {
    pub user: String,
    pub declaration: Declaration,
}

#[derive(Debug, Default)]
struct Of {
    wanted: VecDeque<(InputKey, u32)>,
    /// Number of inputs that are being looked up.
    running: usize,
    /// Time that the user's inputs took, comparable with that of other users.
    spent: Duration,
}

/// The queue of inputs, by user.
#[derive(Debug, Default)]
pub(super) struct LookupQueue {
    users: BTreeMap<String, Of>,
    /// Inputs that wait or are being looked up.
    queued: HashSet<InputKey>,
}

impl LookupQueue {
    /// Adds an input, unless it is queued already or its user has too many.
    pub(super) fn want(&mut self, key: InputKey, job_id: u32) {
        if self.queued.len() >= DATA_INPUTS_MAX || self.queued.contains(&key) {
            return;
        }
        if !self.users.contains_key(&key.user) {
            let least = self.users.values().map(|of| of.spent).min().unwrap_or_default();
            self.users.insert(key.user.clone(), Of { spent: least, ..Of::default() });
        }
        let Some(of) = self.users.get_mut(&key.user) else { return };
        if of.wanted.len() < DATA_INPUTS_USER_MAX {
            self.queued.insert(key.clone());
            of.wanted.push_back((key, job_id));
        }
    }

    /// Returns the next input, which then counts as being looked up.
    pub(super) fn next(&mut self) -> Option<(InputKey, u32)> {
        let may = |of: &&mut Of| !of.wanted.is_empty() && of.running < DATA_LOOKUPS_USER;
        let of = self.users.values_mut().filter(may).min_by_key(|of| (of.running, of.spent))?;
        of.running += 1;
        of.wanted.pop_front()
    }

    /// Records that an input was looked up, and the time that this took.
    pub(super) fn done(&mut self, key: &InputKey, took: Duration) {
        self.queued.remove(key);
        if let Some(of) = self.users.get_mut(&key.user) {
            of.running = of.running.saturating_sub(1);
            of.spent += took;
        }
        // Who has nothing left is forgotten, once the others have had as much.
        let least = self.users.values().filter(|of| !of.wanted.is_empty()).map(|of| of.spent).min();
        self.users.retain(|_, of| {
            !of.wanted.is_empty() || of.running > 0 || least.is_some_and(|least| of.spent > least)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_methods::data_jobs::blockmap::of_job;

    fn key(user: &str, at: usize) -> InputKey {
        let declaration = of_job(&format!("hdfs-input=/d/{at}"), "").unwrap().unwrap();
        InputKey { user: user.to_owned(), declaration }
    }

    #[test]
    fn one_user_does_not_keep_another_waiting() {
        let mut queue = LookupQueue::default();
        let slow = Duration::from_secs(20);
        for at in 0..2 * DATA_INPUTS_USER_MAX {
            queue.want(key("a", at), 1);
        }
        assert_eq!(queue.queued.len(), DATA_INPUTS_USER_MAX);
        let first: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(first.len(), DATA_LOOKUPS_USER, "the other threads are left to others");
        queue.want(key("b", 0), 2);
        queue.want(key("b", 0), 3);
        let (next, job) = queue.next().unwrap();
        assert_eq!((next.user.as_str(), job), ("b", 2));
        assert!(queue.next().is_none());
        queue.done(&next, Duration::from_millis(5));
        for (one, _) in &first {
            queue.done(one, slow);
        }
        // From now on both have inputs: by time, not by number.
        for at in 1..40 {
            queue.want(key("b", at), 2);
        }
        let mut of_b = 0;
        for _ in 0..40 {
            let (next, _) = queue.next().unwrap();
            let quick = next.user == "b";
            of_b += u32::from(quick);
            queue.done(&next, if quick { Duration::from_millis(5) } else { slow });
        }
        assert_eq!(of_b, 39);
    }

    #[test]
    fn who_has_nothing_left_is_forgotten() {
        let mut queue = LookupQueue::default();
        for at in 0..100 {
            queue.want(key(&format!("u{at}"), at), 1);
        }
        while let Some((next, _)) = queue.next() {
            queue.done(&next, Duration::from_secs(1));
        }
        assert!(queue.users.is_empty() && queue.queued.is_empty());
    }
}
