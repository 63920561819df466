// SPDX-License-Identifier: GPL-3.0-or-later
//! The latest asks and starts, in memory, for `phalanx explain`.
//!
//! The history has the same and more, but may be switched off, behind, or on
//! a full disk; what happened just now must be explainable all the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::history::{DecisionRecord, DecisionRow, OutcomeRecord};
use phalanx_core::limits::{RECENT_ASKS_MAX, RECENT_BYTES_MAX, RECENT_JOBS_MAX};
use phalanx_messages::rest::{DecisionReport, ScoredNode};

/// A job in the form in which asks name it: the tasks of an array share the id of its record until
/// they start.
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

#[derive(Debug, Clone)]
pub struct Start {
    pub job_id: u32,
    pub nodes: String,
    pub start_ms: u64,
    /// Decision behind the start, if one came before it.
    pub row: Option<Box<DecisionRow>>,
}

/// Approximate bytes of a decision without nodes and scores, and of a job without decisions.
const ROW_BYTES: usize = 600;
/// Approximate bytes of a node preference with its reasons.
const PREFERENCE_BYTES: usize = 2000;
/// Approximate bytes that the lists of scores take elsewhere, besides those of nodes and leaves.
const LISTS_BYTES: usize = 400;
/// Bytes of the one block that a node's terms take, however few they are.
const TERMS_BYTES: usize = 400;

fn bytes_of(row: &DecisionRow) -> usize {
    let DecisionRecord { ask, explain, .. } = &row.decision;
    let preference = ask.preference.as_ref().map_or(0, |_| PREFERENCE_BYTES);
    let scores = explain.as_deref().map_or(0, bytes_of_scores);
    ROW_BYTES + ask.nodes.len() + preference + scores
}

fn bytes_of_scores(made: &DecisionReport) -> usize {
    let leaves = made.topology.iter().flat_map(|on| &on.leaves);
    let leaves: usize = leaves.map(|leaf| size_of_val(leaf) + leaf.name.len()).sum();
    let terms = |node: &ScoredNode| if node.terms.is_empty() { 0 } else { TERMS_BYTES };
    let nodes = made.chosen.iter().chain(&made.runner_up);
    let nodes: usize = nodes.map(|node| size_of_val(node) + node.node.len() + terms(node)).sum();
    size_of_val(made) + LISTS_BYTES + made.nodes.len() + leaves + nodes
}

/// One job's decisions and its start.
#[derive(Debug, Clone, Default)]
pub struct JobMemory {
    pub user: u32,
    /// Decisions, the newest last; boxed, as most jobs have one and the queue has room for four.
    pub rows: VecDeque<Box<DecisionRow>>,
    pub start: Option<Start>,
}

impl JobMemory {
    fn bytes(&self) -> usize {
        let of_start = |start: &Start| start.nodes.len() + start.row.as_deref().map_or(0, bytes_of);
        let start = self.start.as_ref().map_or(0, of_start);
        ROW_BYTES + start + self.rows.iter().map(|row| bytes_of(row)).sum::<usize>()
    }
}

/// A job, the time at which it was last heard of, and the memory that it takes.
#[derive(Debug, Default)]
struct Remembered {
    age: u64,
    bytes: usize,
    memory: JobMemory,
}

/// Bounded memory of jobs. Of the user with the most of them the job not heard of for longest is
/// forgotten first: nobody's flood of jobs pushes out what other users want explained.
#[derive(Debug, Default)]
pub struct DecisionMemory {
    jobs: BTreeMap<Key, Remembered>,
    by_age: BTreeMap<u32, BTreeMap<u64, Key>>,
    by_count: BTreeSet<(usize, u32)>,
    task_of: BTreeMap<u32, Key>,
    bytes: usize,
    clock: u64,
}

impl DecisionMemory {
    fn touch(&mut self, key: Key, user: u32) -> &mut JobMemory {
        self.clock += 1;
        let clock = self.clock;
        if let Some(known) = self.jobs.get(&key) {
            let (of, age) = (known.memory.user, known.age);
            self.change(of, |jobs| jobs.remove(&age));
        } else if self.jobs.len() >= RECENT_JOBS_MAX {
            self.make_room();
        }
        self.change(user, |jobs| jobs.insert(clock, key));
        let known = self.jobs.entry(key).or_default();
        (known.memory.user, known.age) = (user, clock);
        &mut known.memory
    }

    fn change<T>(&mut self, user: u32, change: impl FnOnce(&mut BTreeMap<u64, Key>) -> T) -> T {
        let jobs = self.by_age.entry(user).or_default();
        self.by_count.remove(&(jobs.len(), user));
        let changed = change(jobs);
        match jobs.len() {
            0 => drop(self.by_age.remove(&user)),
            count => drop(self.by_count.insert((count, user))),
        }
        changed
    }

    fn make_room(&mut self) {
        let Some((_, user)) = self.by_count.last().copied() else { return };
        let Some((_, key)) = self.change(user, BTreeMap::pop_first) else { return };
        let Some(known) = self.jobs.remove(&key) else { return };
        self.bytes -= known.bytes;
        if let Some(start) = known.memory.start {
            self.task_of.remove(&start.job_id);
        }
    }

    /// Counts the memory of a job, and makes room where all take too much.
    fn weigh(&mut self, key: Key) {
        let Some(known) = self.jobs.get_mut(&key) else { return };
        let bytes = known.memory.bytes();
        self.bytes = self.bytes + bytes - known.bytes;
        known.bytes = bytes;
        while self.bytes > RECENT_BYTES_MAX && self.jobs.len() > 1 {
            self.make_room();
        }
    }

    /// Takes a decision. Only the latest RUN_NOW decision can be the one behind a start, so no
    /// other keeps scores.
    pub fn asked(&mut self, key: Key, mut decision: DecisionRecord) {
        let known = self.touch(key, decision.job.user_id);
        if known.rows.len() >= RECENT_ASKS_MAX {
            known.rows.pop_front();
        }
        if decision.ask.ask == "run_now" {
            known.rows.iter_mut().for_each(|earlier| earlier.decision.explain = None);
        } else {
            decision.explain = None;
        }
        known.rows.push_back(Box::new(DecisionRow { decision, outcome: None }));
        self.weigh(key);
    }

    /// Takes the plugin's report on the outcome of an answer.
    pub fn outcome(&mut self, key: Key, outcome: OutcomeRecord) {
        let Some(known) = self.jobs.get_mut(&key) else { return };
        let mut rows = known.memory.rows.iter_mut().rev();
        if let Some(row) = rows.find(|row| row.decision.decision == outcome.decision) {
            row.outcome = Some(outcome);
        }
    }

    /// Takes the start of a job, behind which is the latest RUN_NOW decision.
    pub fn began(&mut self, key: Key, user: u32, mut start: Start) -> Option<DecisionRow> {
        self.task_of.insert(start.job_id, key);
        let known = self.touch(key, user);
        let row = known.rows.iter().rev().find(|row| row.decision.ask.ask == "run_now").cloned();
        known.rows.iter_mut().for_each(|earlier| earlier.decision.explain = None);
        start.row.clone_from(&row);
        known.start = Some(start);
        self.weigh(key);
        row.map(|row| *row)
    }

    /// Returns a job by the key of its asks, or by the id that a task got when it started.
    pub fn get(&self, key: Key) -> Option<&JobMemory> {
        let renamed = match key {
            Key::Job(id) => self.task_of.get(&id).copied(),
            Key::Task(..) => None,
        };
        self.jobs.get(&renamed.unwrap_or(key)).map(|known| &known.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::JobRef;
    use phalanx_messages::rest::AskReport;
    use std::sync::Arc;

    fn made(user_id: u32, decision: u64, ask: &str) -> DecisionRecord {
        let ask = AskReport { ask: ask.to_owned(), ..AskReport::default() };
        let job = JobRef { user_id, ..JobRef::default() };
        DecisionRecord { decision, job, ask, ..DecisionRecord::default() }
    }

    fn start(job_id: u32) -> Start {
        Start { job_id, nodes: "n1".to_owned(), start_ms: 1, row: None }
    }

    #[test]
    fn a_task_is_found_by_both_names() {
        let mut memory = DecisionMemory::default();
        let key = Key::of(100, Some((100, 7)));
        memory.asked(key, made(7, 1, "run_now"));
        memory.asked(key, made(7, 2, "will_run"));
        memory.outcome(key, OutcomeRecord { decision: 1, ..OutcomeRecord::default() });
        let behind = memory.began(key, 7, start(107)).unwrap();
        assert_eq!((behind.decision.decision, behind.outcome.is_some()), (1, true));
        let by_id = memory.get(Key::Job(107)).unwrap();
        assert_eq!(by_id.start.as_ref().unwrap().row.as_ref().unwrap().decision.decision, 1);
        assert!(memory.get(Key::Task(100, 7)).is_some());
        assert!(memory.get(Key::Job(100)).is_none());
    }

    #[test]
    fn memory_is_bounded_and_forgets_the_oldest() {
        let mut memory = DecisionMemory::default();
        let jobs = u32::try_from(RECENT_JOBS_MAX).unwrap();
        for id in 0..jobs {
            memory.asked(Key::Job(id), made(7, 1, "run_now"));
        }
        memory.asked(Key::Job(0), made(7, 2, "run_now"));
        memory.asked(Key::Job(jobs), made(7, 3, "run_now"));
        assert!(memory.get(Key::Job(0)).is_some());
        assert!(memory.get(Key::Job(1)).is_none());
        assert_eq!(memory.jobs.len(), RECENT_JOBS_MAX);
        assert_eq!(memory.by_age[&7].len(), RECENT_JOBS_MAX);
        for n in 0..20 {
            memory.asked(Key::Job(5), made(7, n, "run_now"));
        }
        assert_eq!(memory.get(Key::Job(5)).unwrap().rows.len(), RECENT_ASKS_MAX);
    }

    #[test]
    fn a_flood_of_one_users_jobs_forgets_only_that_users() {
        let mut memory = DecisionMemory::default();
        for id in 0..100 {
            memory.asked(Key::Job(id), made(1 + id % 3, 1, "run_now"));
            memory.began(Key::Job(id), 1 + id % 3, start(id));
        }
        for id in 1000..101_000_u32 {
            memory.asked(Key::Job(id), made(99, 1, "run_now"));
        }
        for id in 0..100 {
            assert!(memory.get(Key::Job(id)).is_some_and(|job| job.start.is_some()), "job {id}");
        }
        assert!(memory.get(Key::Job(100_999)).is_some());
        assert_eq!(memory.jobs.len(), RECENT_JOBS_MAX);
        assert_eq!(memory.by_count.iter().map(|(count, _)| count).sum::<usize>(), RECENT_JOBS_MAX);
        assert_eq!(memory.task_of.len(), 100);
    }

    #[test]
    fn scores_take_little_and_no_more_than_the_bound() {
        let mut memory = DecisionMemory::default();
        let node = ScoredNode { terms: [("imbalance".into(), 0.5)].into(), ..<_>::default() };
        let scores = DecisionReport { chosen: vec![node; 32], ..DecisionReport::default() };
        let scores = Arc::new(scores);
        let with = |ask| DecisionRecord { explain: Some(scores.clone()), ..made(7, 1, ask) };
        for id in 0..10_000 {
            for ask in ["run_now", "will_run", "run_now"] {
                memory.asked(Key::Job(id), with(ask));
            }
            let rows = &memory.jobs[&Key::Job(id)].memory.rows;
            assert_eq!(rows.iter().filter(|row| row.decision.explain.is_some()).count(), 1);
            assert!(memory.began(Key::Job(id), 7, start(id)).unwrap().decision.explain.is_some());
        }
        assert!(memory.bytes <= RECENT_BYTES_MAX, "{} bytes", memory.bytes);
        let counted: usize = memory.jobs.values().map(|known| known.memory.bytes()).sum();
        assert_eq!(memory.bytes, counted);
        assert!((2_000..3_000).contains(&memory.jobs.len()), "{} jobs", memory.jobs.len());
        assert!(memory.get(Key::Job(9_999)).unwrap().start.as_ref().unwrap().row.is_some());
    }
}
