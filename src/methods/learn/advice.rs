// SPDX-License-Identifier: GPL-3.0-or-later
//! Advice on time limits, from the runs of like jobs that ended.
//!
//! The advice is the longest of the latest runs with a margin, in the steps that people write. What
//! it is worth is told by the runs themselves: each is compared with the advice from those before
//! it.

use phalanx_core::number::nearest_u32;

use std::collections::VecDeque;

/// Runs before which there is no advice: with 10, a run like the others is longer than all of them
/// once in 11 times, and the margin makes that rarer.
pub const RUNS_MIN: usize = 10;
/// The latest runs that count.
pub const RUNS_MAX: usize = 100;
/// Room above the longest run, percent.
const MARGIN_PCT: u64 = 20;

/// A run that ended by itself, or at its time limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Past {
    /// Seconds that the run took.
    pub run_s: u64,
    /// Minutes that the run asked for.
    pub limit_min: u32,
    /// Whether the run was ended by its time limit, without which it would have run longer.
    pub cut: bool,
}

/// Advice on the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Too few runs.
    None,
    /// Minutes that would do instead of those of the latest run.
    Shorter(u32),
    /// The last run's limit is about right.
    Keep,
    /// Number of the latest runs that ended at their time limits.
    Longer(usize),
}

/// Advice from past runs, and how it would have fared on these runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advised {
    /// Advice for the next run.
    pub advice: Advice,
    /// Number of runs to which earlier runs advised a shorter limit.
    pub tried: usize,
    /// Number of runs that the advised limit would have ended early.
    pub too_short: usize,
}

/// The advice after `runs`, the oldest first.
#[must_use]
pub fn advise(runs: &[Past]) -> Advised {
    let mut latest = VecDeque::with_capacity(RUNS_MAX);
    let (mut tried, mut too_short) = (0, 0);
    for run in runs {
        if let Advice::Shorter(minutes) = after(&latest, run.limit_min) {
            tried += 1;
            too_short += usize::from(run.run_s > u64::from(minutes) * 60);
        }
        if latest.len() == RUNS_MAX {
            latest.pop_front();
        }
        latest.push_back(*run);
    }
    let asked = runs.last().map_or(0, |run| run.limit_min);
    Advised { advice: after(&latest, asked), tried, too_short }
}

/// Returns the advice for a job that would ask for `asked` minutes.
fn after(latest: &VecDeque<Past>, asked: u32) -> Advice {
    let cut = latest.iter().filter(|run| run.cut && run.limit_min >= asked).count();
    if latest.len() < RUNS_MIN {
        return Advice::None;
    }
    if cut > 0 {
        return Advice::Longer(cut);
    }
    let longest_s = latest.iter().map(|run| run.run_s).max().unwrap_or(0);
    match round_up(longest_s.saturating_mul(100 + MARGIN_PCT).div_ceil(100)) {
        minutes if minutes < asked => Advice::Shorter(minutes),
        _ => Advice::Keep,
    }
}

/// Rounds seconds up to minutes, at least 1, in steps of at most a quarter.
fn round_up(seconds: u64) -> u32 {
    let minutes = seconds.div_ceil(60).max(1);
    let step = match minutes {
        0..=10 => 1,
        11..=60 => 5,
        61..=360 => 15,
        361..=1440 => 60,
        _ => 360,
    };
    nearest_u32(minutes.div_ceil(step).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(seconds: &[u64], limit_min: u32) -> Vec<Past> {
        seconds.iter().map(|&run_s| Past { run_s, limit_min, cut: false }).collect()
    }

    #[test]
    fn the_longest_run_with_a_margin() {
        assert_eq!(advise(&runs(&[600; 9], 240)).advice, Advice::None);
        let after_ten = advise(&runs(&[600; 10], 240));
        assert_eq!(after_ten, Advised { advice: Advice::Shorter(15), tried: 0, too_short: 0 });
        // The eleventh ran for 16 minutes, the advice was 15.
        let mut seconds = vec![600; 10];
        seconds.push(960);
        let later = advise(&runs(&seconds, 240));
        assert_eq!(later, Advised { advice: Advice::Shorter(20), tried: 1, too_short: 1 });
        assert_eq!(advise(&runs(&[600; 12], 15)).advice, Advice::Keep);
    }

    #[test]
    fn runs_that_were_cut_say_longer_unless_more_is_asked_for_now() {
        let mut some = runs(&[3600; 12], 60);
        some[5].cut = true;
        assert_eq!(advise(&some).advice, Advice::Longer(1));
        // The user has asked for four hours since.
        some.extend(runs(&[4000; 3], 240));
        assert_eq!(advise(&some).advice, Advice::Shorter(90));
    }

    #[test]
    fn minutes_are_those_that_people_write() {
        let told: Vec<u32> = [0, 61, 601, 3601, 6 * 3600 + 1, 25 * 3600].map(round_up).to_vec();
        assert_eq!(told, [1, 2, 15, 75, 420, 1800]);
    }

    proptest! {
        /// Goal: a shorter limit covers each of the latest runs, and is less than was asked for.
        #[test]
        fn a_shorter_limit_covers_what_ran(
            seconds in prop::collection::vec(0_u64..200_000, 0..150),
            limit_min in 1_u32..5000,
        ) {
            let seconds: Vec<u64> =
                seconds.into_iter().map(|s| s.min(u64::from(limit_min) * 60)).collect();
            let advised = advise(&runs(&seconds, limit_min));
            if let Advice::Shorter(minutes) = advised.advice {
                prop_assert!(minutes < limit_min);
                let latest = seconds.iter().rev().take(RUNS_MAX);
                prop_assert!(latest.into_iter().all(|s| *s <= u64::from(minutes) * 60));
            }
            prop_assert!(advised.too_short <= advised.tried);
            prop_assert!(advised.tried <= seconds.len().saturating_sub(RUNS_MIN));
        }
    }
}
