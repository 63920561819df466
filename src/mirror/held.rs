// SPDX-License-Identifier: GPL-3.0-or-later
//! The holds under way: who holds a job, by which rule, and until when.
//!
//! Slurm does not ask about a held job again while nothing happens. So each hold has its end here,
//! at which the daemon has slurmctld look at the job.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::settings::Settings;
use phalanx_core::limits::{FIRST_PLAN_WAIT_MS, HELD_JOBS_MAX};
use phalanx_planner::place::Wait;
use phalanx_planner::preference::{Method, PreferenceUse, Question};

/// The rule that holds a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldRule {
    /// The input of a data job is looked up.
    Input,
    /// The first plan with the job is made.
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
    pub until: Instant,
    since: Instant,
    is_over: bool,
}

impl Hold {
    /// The hold of an answer to `question`, which was first held at `first`; `spent`: time for
    /// which tasks of its array were held before.
    fn of(
        wait: Wait,
        question: &Question<'_>,
        used: Option<&PreferenceUse>,
        settings: &Settings,
        (first, spent, now): (Instant, Duration, Instant),
    ) -> Self {
        let tuning = &settings.tuning;
        let of_method = used.filter(|used| used.preference.required && used.set.is_none());
        let method = of_method.map(|used| used.preference.method);
        let brief = tuning.brief_hold_ms.map(|ms| Duration::from_millis(ms).saturating_sub(spent));
        let balance = tuning.params.hold_max_ms.unwrap_or(0);
        let (rule, ms) = match (wait, method) {
            (Wait::FirstPlan, _) if question.input => (HoldRule::Input, settings.input_wait_ms),
            (Wait::FirstPlan, _) => (HoldRule::FirstPlan, FIRST_PLAN_WAIT_MS),
            (Wait::Gain, Some(Method::DataJobs)) => (HoldRule::Locality, settings.require_wait_ms),
            (Wait::Gain, Some(Method::Gang)) => {
                (HoldRule::Gang, tuning.gang_hold.map_or(0, |hold| hold.gang_ms))
            }
            (Wait::Gain, Some(Method::Bag)) => match (tuning.preference_hold_ms, brief) {
                (None, Some(left)) => {
                    let (rule, until) = (HoldRule::Bag, now + left);
                    return Self { rule, until, since: now, is_over: false };
                }
                (ms, _) => (HoldRule::Bag, ms.unwrap_or(0)),
            },
            (Wait::Gain, _) => (HoldRule::Balance, balance),
        };
        let until = first + Duration::from_millis(ms);
        Self { rule, until, since: now, is_over: false }
    }
}

/// Holds by job, an array's by its record.
#[derive(Debug, Default)]
pub struct Holds {
    now: BTreeMap<u32, Hold>,
    /// Time for which the tasks of an array were held, by ended holds.
    spent: BTreeMap<u32, Duration>,
}

impl Holds {
    /// Notes whether the answer to a question of RUN_NOW holds its job.
    pub(crate) fn answered(
        &mut self,
        question: &Question<'_>,
        wait: Option<Wait>,
        used: Option<&PreferenceUse>,
        settings: &Settings,
        (first, now): (Option<Instant>, Instant),
    ) {
        let key = question.array_job_id.unwrap_or(question.job_id);
        let spent = self.spent.get(&key).copied().unwrap_or_default();
        let times = (first.unwrap_or(now), spent, now);
        match wait.map(|wait| Hold::of(wait, question, used, settings, times)) {
            Some(hold) if self.now.get(&key).is_none_or(|old| old.rule != hold.rule) => {
                self.stop(key, now);
                if self.now.len() < HELD_JOBS_MAX {
                    self.now.insert(key, hold);
                }
            }
            Some(_) => {}
            None => self.stop(key, now),
        }
    }

    /// A hold ends; that of an array's task counts for the array.
    fn stop(&mut self, key: u32, now: Instant) {
        let Some(hold) = self.now.remove(&key) else { return };
        if hold.rule == HoldRule::Bag {
            let took = now.min(hold.until).saturating_duration_since(hold.since);
            *self.spent.entry(key).or_default() += took;
        }
    }

    /// Time for which the tasks of an array were held until now. Of more arrays than can be
    /// remembered none is held.
    pub fn spent(&self, array: u32, now: Instant) -> Duration {
        if self.spent.len() >= HELD_JOBS_MAX && !self.spent.contains_key(&array) {
            return Duration::MAX;
        }
        let under_way = self.now.get(&array).filter(|hold| hold.rule == HoldRule::Bag);
        let of_hold = |hold: &Hold| now.min(hold.until).saturating_duration_since(hold.since);
        let spent = self.spent.get(&array).copied().unwrap_or_default();
        spent + under_way.map(of_hold).unwrap_or_default()
    }

    /// The hold of a job, or of its array's record.
    pub fn of(&self, job: u32) -> Option<Hold> {
        self.now.get(&job).copied()
    }

    /// The jobs whose holds have ended since the last call.
    pub fn ended(&mut self, now: Instant) -> Vec<u32> {
        let over = self.now.iter_mut().filter(|(_, hold)| !hold.is_over && hold.until <= now);
        over.map(|(job, hold)| {
            hold.is_over = true;
            *job
        })
        .collect()
    }

    /// The job has begun, ended or left the queue.
    pub(crate) fn forget(&mut self, job: u32, is_gone: bool) {
        self.now.remove(&job);
        if is_gone {
            self.spent.remove(&job);
        }
    }

    /// Jobs that are remembered, after this one.
    pub(crate) fn remembered(&self, after: u32, count: usize) -> impl Iterator<Item = u32> {
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let spent = self.spent.range(range).map(|(id, _)| *id).take(count);
        self.now.range(range).map(|(id, _)| *id).take(count).chain(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_config::Config;
    use phalanx_planner::preference::{JobKey, Note, Preference};

    fn task() -> Question<'static> {
        Question {
            job_id: 7,
            array_job_id: Some(7),
            partition: "main".into(),
            ..Question::default()
        }
    }

    fn of_bag() -> PreferenceUse {
        let preference = Preference {
            key: JobKey::Array(7),
            method: Method::Bag,
            sets: Vec::new(),
            worth: Vec::new(),
            required: true,
            made_ms: 0,
            note: Note::None,
        };
        PreferenceUse { preference: preference.into(), set: None, unused: None }
    }

    /// Goal: the tasks of an array wait ten seconds together, not each, and the end of each hold
    /// is due once.
    #[test]
    fn an_array_waits_ten_seconds_in_all() {
        let mut config = Config::default();
        config.bag.watts.insert("node".to_owned(), 100.0);
        let settings = Settings::of(&config, 1);
        let (born, used) = (Instant::now(), of_bag());
        let at = |s| born + Duration::from_secs(s);
        let mut holds = Holds::default();
        let ask = |holds: &mut Holds, s, is_held: bool| {
            let wait = is_held.then_some(Wait::Gain);
            holds.answered(&task(), wait, Some(&used), &settings, (Some(at(s)), at(s)));
        };
        ask(&mut holds, 0, true);
        assert_eq!(holds.of(7).map(|hold| (hold.rule, hold.until)), Some((HoldRule::Bag, at(10))));
        ask(&mut holds, 4, true);
        // A task starts after six seconds; the next one has four left.
        ask(&mut holds, 6, false);
        assert_eq!(holds.of(7), None);
        assert_eq!(holds.spent(7, at(100)), Duration::from_secs(6));
        ask(&mut holds, 100, true);
        assert_eq!(holds.of(7).map(|hold| hold.until), Some(at(104)));
        assert!(holds.ended(at(103)).is_empty());
        assert_eq!(holds.ended(at(104)), [7]);
        assert!(holds.ended(at(105)).is_empty(), "once");
        assert_eq!(holds.spent(7, at(200)), Duration::from_secs(10));
        ask(&mut holds, 200, false);
        assert_eq!(holds.spent(7, at(300)), Duration::from_secs(10));
        assert_eq!(holds.remembered(0, 9).collect::<Vec<_>>(), [7]);
        holds.forget(7, true);
        assert_eq!(holds.spent(7, at(300)), Duration::ZERO);
    }

    /// Goal: a job that waits for its input does so within `data_jobs.wait_ms` of its first hold.
    #[test]
    fn an_input_is_waited_for_by_one_clock() {
        let settings = Settings { input_wait_ms: 10_000, ..Settings::of(&Config::default(), 1) };
        let born = Instant::now();
        let at = |s| born + Duration::from_secs(s);
        let question = Question { job_id: 8, input: true, ..Question::default() };
        let mut holds = Holds::default();
        for s in [0, 7] {
            let times = (Some(at(0)), at(s));
            holds.answered(&question, Some(Wait::FirstPlan), None, &settings, times);
        }
        let hold = holds.of(8).map(|hold| (hold.rule, hold.until));
        assert_eq!(hold, Some((HoldRule::Input, at(10))));
        assert_eq!(holds.ended(at(10)), [8]);
    }
}
