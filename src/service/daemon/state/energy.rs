// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs whose energy Slurm's accounting is asked for, and its answers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use phalanx_core::limits::ENERGY_RUNS_MAX;
use phalanx_ffi::locks::lock;

/// Looks at the accounting after which a run without energy is given up.
const LOOKS_MAX: u8 = 3;
/// Time for which runs are kept after an agent asked for them; the agent asks every minute.
const ASKED_WITHIN: Duration = Duration::from_secs(300);

/// A run: job as users write it, and start in unix seconds.
pub type RunKey = (String, i64);

/// Energy in joules by run, of the runs that the accounting has.
pub type Joules = BTreeMap<RunKey, f64>;

/// Requests of the learn thread for energy, and the answers of the agent of the daemon's host.
#[derive(Debug, Default)]
pub struct EnergyRequests(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<RunKey, Waiting>,
    answers: Vec<(RunKey, Option<f64>)>,
    /// Time at which an agent last asked which runs there are.
    asked: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    end_s: i64,
    looks: u8,
}

impl EnergyRequests {
    /// Asks for the energy of a run; returns false if too many are asked for already, or no agent
    /// asks.
    pub fn ask(&self, key: RunKey, end_s: i64) -> bool {
        let State { waiting, asked, .. } = &mut *lock(&self.0);
        let heard = asked.is_some_and(|at| at.elapsed() < ASKED_WITHIN);
        if !heard || waiting.len() >= ENERGY_RUNS_MAX {
            return false;
        }
        waiting.insert(key, Waiting { end_s, looks: 0 });
        true
    }

    /// Takes the answers since the last call; `None` for runs that are given up.
    pub fn take(&self) -> Vec<(RunKey, Option<f64>)> {
        std::mem::take(&mut lock(&self.0).answers)
    }

    /// First and last end of the runs that are asked for, unix seconds.
    pub fn span(&self) -> Option<(i64, i64)> {
        let state = &mut *lock(&self.0);
        state.asked = Some(Instant::now());
        let ends = || state.waiting.values().map(|run| run.end_s);
        ends().min().zip(ends().max())
    }

    /// Answers with the energy that one look at the accounting found.
    pub fn found(&self, found: &Joules) {
        let mut state = lock(&self.0);
        let State { waiting, answers, .. } = &mut *state;
        waiting.retain(|key, run| {
            run.looks += 1;
            let joules = found.get(key).copied();
            let over = joules.is_some() || run.looks >= LOOKS_MAX;
            if over {
                answers.push((key.clone(), joules));
            }
            !over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_asked_for_until_found_or_given_up() {
        let requests = EnergyRequests::default();
        let key = |job: &str| (job.to_owned(), 50);
        assert!(!requests.ask(key("0"), 100), "nobody would answer");
        assert_eq!(requests.span(), None);
        assert!(requests.ask(key("1"), 100) && requests.ask(key("2"), 160));
        assert_eq!(requests.span(), Some((100, 160)));
        requests.found(&[(key("1"), 9.0)].into());
        assert_eq!(requests.take(), [(key("1"), Some(9.0))]);
        assert_eq!(requests.span(), Some((160, 160)));
        requests.found(&Joules::new());
        assert_eq!(requests.take(), []);
        requests.found(&Joules::new());
        assert_eq!((requests.take(), requests.span()), (vec![(key("2"), None)], None));
    }
}
