// SPDX-License-Identifier: GPL-3.0-or-later
//! Prediction of a job's runtime, learned from jobs that have ended.
//!
//! Requests say little about it: limits are generous, and many jobs fail in
//! their first seconds. [`Runtimes`] keeps, for every user and class of job,
//! fading sums of the runtimes seen and of their reciprocals. A prediction goes
//! down from all jobs with a like limit over the user to the user's class, and
//! each level draws the one above towards itself by how much it has seen. A
//! second opinion is the share of their limits that the user's jobs used; the
//! one that erred less for this user lately is believed.
//!
//! A job's own runtime is never seen before [`Runtimes::observe`] is told that
//! it ended, and predictions never touch the kill time.

use std::collections::BTreeMap;

use super::class::{JobTraits, program_name};
use phalanx_core::hash::fnv64;
use phalanx_core::limits::{RUNTIME_STREAMS_MAX, RUNTIME_USER_STREAMS_MAX};
use phalanx_core::number::as_f64;

/// Shortest runtime, seconds: shorter ones count as this, the tau of the bounded slowdown.
pub const SHORTEST_S: f64 = 10.0;
/// Weight of an older observation after each new one.
const FADE: f64 = 0.9;
/// Weight of an older observation of all users after each new one.
const FADE_COMMON: f64 = 0.999;
/// Observations that the level above counts as.
const PRIOR: f64 = 1.0;

/// Facts about a job that are known when it arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobClass {
    /// User id.
    pub user: u64,
    /// Number of the user's program (executable, job name); 0: unknown.
    pub class: u64,
    /// The user's limit, seconds.
    pub limit_s: u64,
    /// CPUs.
    pub size: u64,
}

impl JobClass {
    /// Makes the class of the user, and of the job name without its numbers or the class that the
    /// comment declares. Without limit: [`NO_LIMIT_S`].
    pub fn of(traits: &JobTraits<'_>, limit_min: Option<u32>) -> Self {
        let program = match traits.declared {
            Some(declared) => format!("={declared}"),
            None => program_name(traits.name),
        };
        let cpus = traits.tres.split(',').find_map(|part| part.strip_prefix("cpu="));
        Self {
            user: name_id(traits.user),
            class: name_id(&program),
            limit_s: limit_min.map_or(NO_LIMIT_S, |minutes| u64::from(minutes.max(1)) * 60),
            size: cpus.and_then(|count| count.parse().ok()).unwrap_or(1),
        }
    }
}

/// Limit that a job without one counts as having, seconds.
pub const NO_LIMIT_S: u64 = 30 * 86_400;

/// A number for a name, the same on every machine (FNV-1a); 0 for none.
pub fn name_id(name: &str) -> u64 {
    if name.is_empty() { 0 } else { fnv64(name.bytes()) }
}

/// Whether a run that ended in `state` says how long such jobs run: it ended by itself, by its
/// limit or by its user, not by the machine.
pub fn tells_runtime(state: &str) -> bool {
    let word = state.split_whitespace().next().unwrap_or_default();
    !matches!(word, "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" | "REQUEUED" | "REVOKED" | "")
}

/// Expectation of a job's runtime.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Expected runtime, seconds; at most the limit.
    pub mean_s: f64,
    /// Expected reciprocal of the runtime (of at least [`SHORTEST_S`]), 1/s:
    /// what one second of waiting adds to the job's bounded slowdown.
    pub urgency: f64,
}

impl Prediction {
    /// Returns a figure to rank by: the geometric mean of the expected runtime and of the runtime
    /// that the expected urgency stands for. A job that may well fail at once counts as shorter
    /// than its mean.
    pub fn typical_s(&self) -> f64 {
        (self.mean_s / self.urgency).sqrt()
    }
}

/// Fading sums of one stream of jobs.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: f64,
    sum: f64,
    reciprocals: f64,
}

impl Tally {
    fn add(&mut self, value: f64, reciprocal: f64, fade: f64) {
        self.count = self.count * fade + 1.0;
        self.sum = self.sum * fade + value;
        self.reciprocals = self.reciprocals * fade + reciprocal;
    }

    /// Means of a class, drawn towards those of the level above.
    fn below(&self, (mean, reciprocal): (f64, f64)) -> (f64, f64) {
        let weight = self.count + PRIOR;
        ((self.sum + PRIOR * mean) / weight, (self.reciprocals + PRIOR * reciprocal) / weight)
    }
}

/// Sums of one user that are not of any stream.
#[derive(Debug, Clone, Copy, Default)]
struct User {
    /// Shares of the limit used.
    shares: Tally,
    /// Fading errors (of logarithms) by runtimes and by shares.
    errors: [f64; 2],
    /// Streams that the user began.
    streams: u32,
}

/// Level of a stream, and what tells the stream from others of that level.
type Stream = (u8, u64, u64, u64, u64);

/// Runtimes by user and class.
#[derive(Debug, Clone, Default)]
pub struct Runtimes {
    streams: BTreeMap<Stream, Tally>,
    users: BTreeMap<u64, User>,
    shares: Tally,
}

impl Runtimes {
    /// Nothing learned yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Jobs of this user that have ended, faded: 0 if nothing is known.
    pub fn seen(&self, job: &JobClass) -> f64 {
        self.streams.get(&(1, job.user, 0, 0, 0)).map_or(0.0, |tally| tally.count)
    }

    /// Predicts the runtime of a job of class `job`.
    pub fn predict(&self, job: &JobClass) -> Prediction {
        let user = self.users.get(&job.user).copied().unwrap_or_default();
        let by_share = user.errors[1] < user.errors[0];
        let (mean, urgency) =
            if by_share { self.by_share(job, &user) } else { self.by_runtime(job) };
        let limit = as_f64(job.limit_s.max(1));
        Prediction {
            mean_s: mean.clamp(1.0, limit),
            urgency: urgency.clamp(1.0 / limit.max(SHORTEST_S), 1.0 / SHORTEST_S),
        }
    }

    /// Learns that a job ended after `run_s` seconds.
    pub fn observe(&mut self, job: &JobClass, run_s: u64) {
        let run = as_f64(run_s);
        let (urgency, limit) = (1.0 / run.max(SHORTEST_S), as_f64(job.limit_s.max(1)));
        let user = self.users.get(&job.user).copied().unwrap_or_default();
        let guesses = [self.by_runtime(job).1, self.by_share(job, &user).1];
        let room =
            self.streams.len() < RUNTIME_STREAMS_MAX && user.streams < RUNTIME_USER_STREAMS_MAX;
        let mut new = 0;
        for key in streams_of(job).into_iter().flatten() {
            let fade = if key.0 == 0 { FADE_COMMON } else { FADE };
            if let Some(tally) = self.streams.get_mut(&key) {
                tally.add(run, urgency, fade);
            } else if room {
                new += u32::from(key.0 > 0);
                self.streams.entry(key).or_default().add(run, urgency, fade);
            }
        }
        let (share, inverse) = (run / limit, limit.max(SHORTEST_S) / run.max(SHORTEST_S));
        self.shares.add(share, inverse, FADE_COMMON);
        if !self.users.contains_key(&job.user) && self.users.len() >= RUNTIME_STREAMS_MAX {
            return;
        }
        let user = self.users.entry(job.user).or_default();
        user.streams += new;
        user.shares.add(share, inverse, FADE);
        for (error, guess) in user.errors.iter_mut().zip(guesses) {
            let guessed = (1.0 / guess).max(SHORTEST_S);
            *error = *error * FADE + (guessed / run.max(SHORTEST_S)).ln().abs();
        }
    }

    fn by_runtime(&self, job: &JobClass) -> (f64, f64) {
        let limit = as_f64(job.limit_s.max(1));
        let mut guess = (limit * 0.5, 2.0 / limit.max(SHORTEST_S));
        for key in streams_of(job).into_iter().flatten() {
            if let Some(tally) = self.streams.get(&key) {
                guess = tally.below(guess);
            }
        }
        guess
    }

    fn by_share(&self, job: &JobClass, user: &User) -> (f64, f64) {
        let limit = as_f64(job.limit_s.max(1));
        let (share, inverse) = user.shares.below(self.shares.below((0.5, 2.0)));
        (share * limit, inverse / limit.max(SHORTEST_S))
    }
}

/// The streams of a job, from the common one to the most special.
fn streams_of(job: &JobClass) -> [Option<Stream>; 5] {
    let step = half_octave(job.limit_s);
    let class = (job.class > 0).then_some((4, job.user, job.class, job.limit_s, job.size));
    [
        Some((0, step, 0, 0, 0)),
        Some((1, job.user, 0, 0, 0)),
        Some((2, job.user, step, 0, 0)),
        Some((3, job.user, job.limit_s, job.size, 0)),
        class,
    ]
}

/// Rounds to two steps for each doubling, in whole numbers.
fn half_octave(value: u64) -> u64 {
    let octave = value.max(1).ilog2();
    let square = u128::from(value.max(1)).pow(2);
    u64::from(2 * octave) + u64::from(square >= 1 << (2 * octave + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_slurm_are_classed_by_user_and_program() {
        let of = |name, tres| {
            JobClass::of(&JobTraits { user: "ann", name, tres, ..JobTraits::default() }, Some(5))
        };
        let class = of("train_007", "cpu=16,mem=4G,node=1");
        assert_eq!((class.limit_s, class.size), (300, 16));
        assert_eq!(class, of("train_12", "cpu=16,node=1"));
        assert_ne!(class, of("test_12", "cpu=16,node=1"));
        assert_eq!(name_id("a"), 0xaf63_dc4c_8601_ec8c, "the published value of FNV-1a");
        assert!(tells_runtime("CANCELLED by 7") && !tells_runtime("NODE_FAIL"));
    }

    fn job(user: u64, limit_s: u64) -> JobClass {
        JobClass { user, class: 0, limit_s, size: 4 }
    }

    #[test]
    fn a_users_habit_is_learned_and_others_keep_their_own() {
        let mut runtimes = Runtimes::new();
        let before = runtimes.predict(&job(1, 36_000)).mean_s;
        for _ in 0..20 {
            runtimes.observe(&job(1, 36_000), 60);
            runtimes.observe(&job(2, 36_000), 30_000);
        }
        let short = runtimes.predict(&job(1, 36_000));
        let long = runtimes.predict(&job(2, 36_000));
        assert!(before > 10_000.0);
        assert!(short.mean_s < 1_000.0 && short.typical_s() < 100.0, "{short:?}");
        assert!(long.mean_s > 20_000.0 && long.typical_s() > 10_000.0, "{long:?}");
    }

    #[test]
    fn exact_limits_are_believed() {
        let mut runtimes = Runtimes::new();
        for run in [100u64, 5_000, 30, 80_000, 700, 12_000, 60, 3_000] {
            runtimes.observe(&job(1, run), run);
        }
        let found = runtimes.predict(&job(1, 40_000)).mean_s;
        assert!((30_000.0..=40_000.0).contains(&found), "{found}");
    }

    #[test]
    fn predictions_stay_within_limit() {
        let mut runtimes = Runtimes::new();
        runtimes.observe(&job(1, 9_000), 8_000);
        runtimes.observe(&job(1, 9_000), 100);
        let short = runtimes.predict(&job(1, 60));
        assert!(short.mean_s <= 60.0 && short.urgency <= 0.1);
        assert_eq!([1, 2, 3, 4, 6].map(half_octave), [0, 2, 3, 4, 5]);
    }
}
