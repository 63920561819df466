// SPDX-License-Identifier: GPL-3.0-or-later
//! Refusals of answers by stock, counted by the options of the request.
//!
//! The mirror has counts, not the cores of each job, so an answer may be refused; stock then
//! decides on all candidates, and only time is lost. Options whose answers are refused too often
//! are left to Slurm for a while, to each user in each partition by the refusals there: a request
//! that one of them repeats must not end placement for others. Pure: times are arguments.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use phalanx_core::shape::{Shape, Sharing};
use phalanx_planner::preference::Question;

/// Number of latest outcomes of an option, of a user in a partition, that count.
const WINDOW: usize = 200;
/// Least number of refusals in the window at which an option is left to Slurm.
const LEAST_REFUSED: usize = 20;
/// Number of outcomes per refusal below which an option is left to Slurm.
const SHARE: usize = 20;
/// Time for which an option is left to Slurm, in milliseconds.
const LEFT_MS: u64 = 3_600_000;
/// Time for which a job with GRES bound to cores is left to Slurm after a refusal, milliseconds.
const BOUND_MS: u64 = 60_000;
/// Maximum number of answers whose outcome is awaited.
const OPEN_MAX: usize = 4096;
/// Maximum number of users in partitions that are told apart.
const WHO_MAX: usize = 4096;
/// Maximum number of jobs with GRES bound to cores that are left to Slurm at a time.
const BOUND_MAX: usize = 4096;

/// Word for the option of a request without any counted option.
pub(crate) const PLAIN: &str = "none";
/// Option `--gres-flags=enforce-binding`.
const BINDING: &str = "--gres-flags=enforce-binding";
/// Word for cores that reservations keep from the job.
const RESERVED: &str = "cores reserved";

/// Returns the options of a request that may cause a refusal.
pub(crate) fn options(shape: &Shape, has_excluded: bool) -> Vec<&'static str> {
    let mut options: Vec<&'static str> = shape.layout.options().collect();
    let others = [
        (shape.layout.whole_sockets, "CR_Socket"),
        (shape.enforce_binding, BINDING),
        (has_excluded, RESERVED),
        (!shape.gres.is_empty() && !shape.enforce_binding, "--gres"),
        (shape.sharing == Sharing::Whole, "--exclusive"),
        (shape.sharing == Sharing::Owner, "--exclusive=user"),
    ];
    options.extend(others.into_iter().filter(|(given, _)| *given).map(|(_, option)| option));
    options
}

/// Returns the user and the partition of a request.
pub(crate) fn who(question: &Question<'_>) -> String {
    format!("user {} in partition {}", question.origin.user_id, question.partition)
}

/// Outcomes of one option.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptionCount {
    /// Answers with known outcome.
    pub answered: u64,
    /// Answers that stock refused.
    pub refused: u64,
    /// Times that the option was left to Slurm.
    pub left: u64,
    /// Time until which somebody's option is left to Slurm, in milliseconds; 0: never was.
    pub left_until_ms: u64,
}

/// Latest outcomes of one option, of one user in one partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Latest {
    left_until_ms: u64,
    /// Whether each of the latest answers was refused.
    last: VecDeque<bool>,
}

/// An answer whose outcome is awaited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Open {
    job_id: u32,
    who: String,
    options: Vec<String>,
}

/// Outcomes by option.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusals {
    counts: BTreeMap<String, OptionCount>,
    /// Latest outcomes by user and partition, then option.
    latest: BTreeMap<String, BTreeMap<String, Latest>>,
    /// Awaited answers by decision id.
    open: BTreeMap<u64, Open>,
    /// Jobs with GRES bound to cores, and the times until which they are left to Slurm.
    bound: BTreeMap<u32, u64>,
}

impl Refusals {
    /// Returns whether there are no counts, so that recordings leave them out.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the counts by option.
    pub fn counts(&self) -> &BTreeMap<String, OptionCount> {
        &self.counts
    }

    /// Returns the first of a request's options that is left to Slurm at present.
    pub(crate) fn left(
        &self,
        job_id: u32,
        who: &str,
        options: &[&'static str],
        now_ms: u64,
    ) -> Option<&'static str> {
        let is_bound = || self.bound.get(&job_id).is_some_and(|until| now_ms < *until);
        let latest = self.latest.get(who);
        options.iter().copied().find(|option| {
            let latest = latest.and_then(|latest| latest.get(*option));
            latest.is_some_and(|latest| now_ms < latest.left_until_ms)
                || (*option == BINDING && is_bound())
        })
    }

    /// Records that an answer with nodes was given.
    pub(crate) fn answered(
        &mut self,
        decision: u64,
        job_id: u32,
        who: String,
        options: &[&'static str],
    ) {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        self.open.insert(decision, Open { job_id, who, options });
        if self.open.len() > OPEN_MAX {
            self.open.pop_first();
        }
    }

    /// Records whether stock took the answer; returns options that are left to Slurm from then on,
    /// each with its user and partition.
    pub(crate) fn outcome(&mut self, decision: u64, refused: bool, now_ms: u64) -> Vec<String> {
        let Some(Open { job_id, who, mut options }) = self.open.remove(&decision) else {
            return Vec::new();
        };
        if refused && options.iter().any(|option| option == BINDING) {
            self.bound.retain(|_, until| now_ms < *until);
            if self.bound.len() < BOUND_MAX {
                self.bound.insert(job_id, now_ms.saturating_add(BOUND_MS));
            }
        }
        if options.is_empty() {
            options.push(PLAIN.to_owned());
        }
        if self.latest.len() >= WHO_MAX && !self.latest.contains_key(&who) {
            self.latest.pop_first();
        }
        let mut left = Vec::new();
        let latest = self.latest.entry(who.clone()).or_default();
        for option in options {
            let count = self.counts.entry(option.clone()).or_default();
            count.answered += 1;
            count.refused += u64::from(refused);
            // Nothing would be decided without: that is for an administrator.
            if option == PLAIN {
                continue;
            }
            let latest = latest.entry(option.clone()).or_default();
            if latest.add(refused) {
                count.left += 1;
                count.left_until_ms = now_ms.saturating_add(LEFT_MS);
                latest.left_until_ms = count.left_until_ms;
                left.push(format!("{option} of {who}"));
            }
        }
        left
    }

    /// Forgets a job that began or ended.
    pub(crate) fn forget(&mut self, job_id: u32) {
        self.bound.remove(&job_id);
    }
}

impl Latest {
    /// Adds an outcome; returns whether there are too many refusals, after which counting restarts.
    fn add(&mut self, refused: bool) -> bool {
        self.last.push_back(refused);
        if self.last.len() > WINDOW {
            self.last.pop_front();
        }
        let refused = self.last.iter().filter(|refused| **refused).count();
        let too_many = refused >= LEAST_REFUSED && refused * SHARE > self.last.len();
        if too_many {
            self.last.clear();
        }
        too_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "user 7 in partition a";

    /// Records `count` outcomes; returns the options that are left to Slurm after the last.
    fn outcomes(state: &mut Refusals, id: &mut u64, refused: bool, count: u64) -> Vec<String> {
        let mut left = Vec::new();
        for _ in 0..count {
            *id += 1;
            state.answered(*id, 7, WHO.into(), &["--core-spec"]);
            left = state.outcome(*id, refused, *id);
        }
        left
    }

    #[test]
    fn an_option_that_is_refused_too_often_is_left_for_an_hour() {
        let (mut state, mut id) = (Refusals::default(), 0);
        outcomes(&mut state, &mut id, false, 180);
        assert!(outcomes(&mut state, &mut id, true, 19).is_empty(), "19 are too few");
        assert_eq!(state.left(1, WHO, &["--core-spec"], id), None);
        let left = outcomes(&mut state, &mut id, true, 1);
        assert_eq!(left, ["--core-spec of user 7 in partition a"]);
        let options = ["--exclusive", "--core-spec"];
        assert_eq!(state.left(1, WHO, &options, id), Some("--core-spec"));
        assert_eq!(state.left(1, WHO, &["--exclusive"], id), None);
        assert_eq!(state.left(1, WHO, &options, id + LEFT_MS), None);
        let count = &state.counts()["--core-spec"];
        assert_eq!((count.answered, count.refused, count.left), (200, 20, 1));
        assert!(outcomes(&mut state, &mut id, true, 19).is_empty(), "it is judged anew");
    }

    #[test]
    fn what_one_user_repeats_in_a_partition_ends_nothing_for_others() {
        let (mut state, mut id) = (Refusals::default(), 0);
        outcomes(&mut state, &mut id, true, 1000);
        let left = |who| state.left(1, who, &["--core-spec"], id);
        assert_eq!(left(WHO), Some("--core-spec"));
        assert_eq!((left("user 8 in partition a"), left("user 7 in partition b")), (None, None));
        for user in 0..2 * WHO_MAX {
            state.answered(id, 7, format!("user {user} in partition b"), &["--gres"]);
            state.outcome(id, true, id);
        }
        assert_eq!(state.latest.len(), WHO_MAX, "in bounded memory");
    }

    #[test]
    fn old_outcomes_do_not_count() {
        let (mut state, mut id) = (Refusals::default(), 0);
        outcomes(&mut state, &mut id, true, 19);
        outcomes(&mut state, &mut id, false, 200);
        assert!(outcomes(&mut state, &mut id, true, 19).is_empty());
        assert_eq!(state.counts()["--core-spec"].refused, 38);
    }

    #[test]
    fn requests_without_options_are_counted_and_never_left() {
        let mut state = Refusals::default();
        for id in 0..300 {
            state.answered(id, 7, WHO.into(), &[]);
            assert!(state.outcome(id, true, id).is_empty());
        }
        assert_eq!((state.counts()[PLAIN].refused, state.left(7, WHO, &[], 300)), (300, None));
        assert!(state.outcome(1, true, 300).is_empty(), "an outcome counts once");
        assert_eq!(state.counts()[PLAIN].answered, 300);
    }

    #[test]
    fn a_job_with_bound_gres_is_left_for_a_minute() {
        let mut state = Refusals::default();
        state.answered(1, 7, WHO.into(), &[BINDING]);
        state.outcome(1, true, 1000);
        assert_eq!(state.left(7, WHO, &[BINDING], 60_999), Some(BINDING));
        assert_eq!(state.left(8, WHO, &[BINDING], 60_999), None);
        assert_eq!(state.left(7, WHO, &[BINDING], 61_000), None);
        state.forget(7);
        assert_eq!(state.left(7, WHO, &[BINDING], 2000), None);
    }

    #[test]
    fn answers_without_outcome_are_forgotten() {
        let mut state = Refusals::default();
        (0..=OPEN_MAX as u64).for_each(|id| state.answered(id, 7, WHO.into(), &[]));
        state.outcome(0, true, 1);
        assert!(state.counts().is_empty());
        state.outcome(1, true, 1);
        assert_eq!(state.counts()[PLAIN].refused, 1);
    }

    #[test]
    fn options_are_named_as_users_write_them() {
        let mut shape = Shape { sharing: Sharing::Whole, ..Shape::default() };
        shape.layout.core_spec = 1;
        assert_eq!(options(&shape, true), ["--core-spec", RESERVED, "--exclusive"]);
        assert!(options(&Shape::default(), false).is_empty());
    }
}
