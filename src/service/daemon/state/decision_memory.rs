// SPDX-License-Identifier: GPL-3.0-or-later
//! The latest asks and starts, in memory, for `phalanx explain`.
//!
//! The history has the same and more, but may be switched off, behind, or on
//! a full disk; what happened just now must be explainable all the same.

use std::collections::{BTreeMap, VecDeque};

use crate::api::types::{AskReport, DecisionReport};
use phalanx_core::limits::{RECENT_ASKS_MAX, RECENT_JOBS_MAX};

/// A job as asks name it: the tasks of an array share the id of its record
/// until they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A job that is not of an array.
    Job(u32),
    /// Array job and task.
    Task(u32, u32),
}

impl Key {
    pub fn of(job_id: u32, array: Option<(u32, u32)>) -> Self {
        array.map_or(Self::Job(job_id), |(array, task)| Self::Task(array, task))
    }
}

/// One ask with what became of it.
#[derive(Debug, Clone)]
pub struct Ask {
    pub decision: u64,
    pub partition: String,
    pub report: AskReport,
    pub scores: Option<DecisionReport>,
    /// Placed on the answered nodes.
    pub kept: bool,
}

/// A start.
#[derive(Debug, Clone)]
pub struct Start {
    pub job_id: u32,
    pub nodes: String,
    pub start_ms: u64,
    /// The ask behind it, if one came before.
    pub ask: Option<Ask>,
}

/// One job's asks and its start.
#[derive(Debug, Clone, Default)]
pub struct JobMemory {
    /// Newest last.
    pub asks: VecDeque<Ask>,
    pub start: Option<Start>,
}

/// Bounded memory of jobs, the ones not heard of for longest forgotten first.
#[derive(Debug, Default)]
pub struct DecisionMemory {
    jobs: BTreeMap<Key, (u64, JobMemory)>,
    by_age: BTreeMap<u64, Key>,
    task_of: BTreeMap<u32, Key>,
    clock: u64,
}

impl DecisionMemory {
    fn touch(&mut self, key: Key) -> &mut JobMemory {
        self.clock += 1;
        let clock = self.clock;
        if self.jobs.len() >= RECENT_JOBS_MAX
            && !self.jobs.contains_key(&key)
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.forget(oldest);
        }
        let (age, known) = self.jobs.entry(key).or_default();
        self.by_age.remove(age);
        *age = clock;
        self.by_age.insert(clock, key);
        known
    }

    fn forget(&mut self, key: Key) {
        let known = self.jobs.remove(&key);
        if let Some(start) = known.and_then(|(_, known)| known.start) {
            self.task_of.remove(&start.job_id);
        }
    }

    pub fn asked(&mut self, key: Key, ask: Ask) {
        let known = self.touch(key);
        if known.asks.len() >= RECENT_ASKS_MAX {
            known.asks.pop_front();
        }
        known.asks.push_back(ask);
    }

    /// Takes the plugin's outcome of an answer; `None` means that the job got these nodes.
    pub fn outcome(&mut self, key: Key, decision: u64, reason: Option<String>) {
        let Some((_, known)) = self.jobs.get_mut(&key) else { return };
        let Some(ask) = known.asks.iter_mut().rev().find(|a| a.decision == decision) else {
            return;
        };
        ask.kept = reason.is_none();
        if reason.is_some() {
            ask.report.reason = reason;
        }
    }

    /// A job began: the latest RUN_NOW ask is the one behind it.
    pub fn began(&mut self, key: Key, mut start: Start) -> Option<Ask> {
        self.task_of.insert(start.job_id, key);
        let known = self.touch(key);
        let ask = known.asks.iter().rev().find(|ask| ask.report.mode == "run_now").cloned();
        start.ask.clone_from(&ask);
        known.start = Some(start);
        ask
    }

    /// By the key of its asks, or by the id that a started task got.
    pub fn get(&self, key: Key) -> Option<&JobMemory> {
        let renamed = match key {
            Key::Job(id) => self.task_of.get(&id).copied(),
            Key::Task(..) => None,
        };
        self.jobs.get(&renamed.unwrap_or(key)).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(decision: u64, mode: &str) -> Ask {
        let report = AskReport { mode: mode.to_owned(), ..AskReport::default() };
        Ask { decision, partition: String::new(), report, scores: None, kept: false }
    }

    fn start(job_id: u32) -> Start {
        Start { job_id, nodes: "n1".to_owned(), start_ms: 1, ask: None }
    }

    #[test]
    fn a_task_is_found_by_both_names() {
        let mut memory = DecisionMemory::default();
        let key = Key::of(100, Some((100, 7)));
        memory.asked(key, ask(1, "run_now"));
        memory.asked(key, ask(2, "will_run"));
        memory.outcome(key, 1, None);
        let behind = memory.began(key, start(107)).unwrap();
        assert_eq!((behind.decision, behind.kept), (1, true));
        let by_id = memory.get(Key::Job(107)).unwrap();
        assert_eq!(by_id.start.as_ref().unwrap().ask.as_ref().unwrap().decision, 1);
        assert!(memory.get(Key::Task(100, 7)).is_some());
        assert!(memory.get(Key::Job(100)).is_none());
    }

    #[test]
    fn memory_is_bounded_and_forgets_the_oldest() {
        let mut memory = DecisionMemory::default();
        let jobs = u32::try_from(RECENT_JOBS_MAX).unwrap();
        for id in 0..jobs {
            memory.asked(Key::Job(id), ask(1, "run_now"));
        }
        memory.asked(Key::Job(0), ask(2, "run_now"));
        memory.asked(Key::Job(jobs), ask(3, "run_now"));
        assert!(memory.get(Key::Job(0)).is_some());
        assert!(memory.get(Key::Job(1)).is_none());
        assert_eq!(memory.jobs.len(), RECENT_JOBS_MAX);
        assert_eq!(memory.by_age.len(), RECENT_JOBS_MAX);
        for n in 0..20 {
            memory.asked(Key::Job(5), ask(n, "run_now"));
        }
        assert_eq!(memory.get(Key::Job(5)).unwrap().asks.len(), RECENT_ASKS_MAX);
    }
}
