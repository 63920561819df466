// SPDX-License-Identifier: GPL-3.0-or-later
//! The latest asks and starts, in memory, for `phalanx explain`.
//!
//! The history has the same and more, but may be switched off, behind, or on
//! a full disk; what happened just now must be explainable all the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use phalanx_config::Mode;
use phalanx_core::limits::{RECENT_ASKS_MAX, RECENT_BYTES_MAX, RECENT_JOBS_MAX};
use phalanx_messages::rest::{AskReport, DecisionReport};

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
    pub mode: Mode,
    pub partition: String,
    pub report: AskReport,
    /// Scores of the ask, a `DecisionReport` as JSON: a fifth of what it takes otherwise.
    pub scores: Option<Arc<str>>,
    /// Whether the overlay said what became of the answer.
    pub reported: bool,
}

impl Ask {
    /// Returns the scores of the ask, if they are kept.
    pub fn scores(&self) -> Option<DecisionReport> {
        serde_json::from_str(self.scores.as_ref()?).ok()
    }

    /// Whether it put a job on these nodes. Nobody refused it then, even where its report is lost.
    pub fn put_on(&self, nodes: &str) -> bool {
        self.mode == Mode::Enforce && self.report.reason.is_none() && self.report.nodes == nodes
    }

    fn bytes(&self) -> usize {
        ASK_BYTES + self.report.nodes.len() + self.scores.as_ref().map_or(0, |text| text.len())
    }
}

#[derive(Debug, Clone)]
pub struct Start {
    pub job_id: u32,
    pub nodes: String,
    pub start_ms: u64,
    /// Ask behind the start, if one came before.
    pub ask: Option<Box<Ask>>,
}

/// Approximate bytes of an ask beside its nodes and scores, and of a job beside its asks.
const ASK_BYTES: usize = 600;

/// One job's asks and its start.
#[derive(Debug, Clone, Default)]
pub struct JobMemory {
    pub user: u32,
    /// Asks, the newest last; in boxes, as most jobs have one ask and the queue has room for four.
    pub asks: VecDeque<Box<Ask>>,
    pub start: Option<Start>,
}

impl JobMemory {
    fn bytes(&self) -> usize {
        let start = self
            .start
            .as_ref()
            .map_or(0, |start| start.nodes.len() + start.ask.as_ref().map_or(0, |ask| ask.bytes()));
        ASK_BYTES + start + self.asks.iter().map(|ask| ask.bytes()).sum::<usize>()
    }
}

/// A job, when it was last heard of, and what it takes.
#[derive(Debug, Default)]
struct Remembered {
    age: u64,
    bytes: usize,
    memory: JobMemory,
}

/// Bounded memory of jobs. Of the user with the most of them the one not heard of for longest is
/// forgotten first: nobody's flood of jobs pushes out what others want explained.
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

    /// Counts what a job takes now, and makes room where all take too much.
    fn weigh(&mut self, key: Key) {
        let Some(known) = self.jobs.get_mut(&key) else { return };
        let bytes = known.memory.bytes();
        self.bytes = self.bytes + bytes - known.bytes;
        known.bytes = bytes;
        while self.bytes > RECENT_BYTES_MAX && self.jobs.len() > 1 {
            self.make_room();
        }
    }

    /// Takes an ask. Only the latest RUN_NOW can be the one behind a start: no other keeps scores.
    pub fn asked(&mut self, key: Key, user: u32, mut ask: Ask) {
        let known = self.touch(key, user);
        if known.asks.len() >= RECENT_ASKS_MAX {
            known.asks.pop_front();
        }
        if ask.report.mode == "run_now" {
            known.asks.iter_mut().for_each(|earlier| earlier.scores = None);
        } else {
            ask.scores = None;
        }
        known.asks.push_back(Box::new(ask));
        self.weigh(key);
    }

    /// Takes the plugin's outcome of an answer; `None` means that the job got these nodes.
    pub fn outcome(&mut self, key: Key, decision: u64, reason: Option<String>) {
        let Some(known) = self.jobs.get_mut(&key) else { return };
        let Some(ask) = known.memory.asks.iter_mut().rev().find(|a| a.decision == decision) else {
            return;
        };
        ask.reported = true;
        if reason.is_some() {
            ask.report.reason = reason;
        }
    }

    /// Takes the begin of a job: the latest RUN_NOW ask is the one behind it.
    pub fn began(&mut self, key: Key, user: u32, mut start: Start) -> Option<Ask> {
        self.task_of.insert(start.job_id, key);
        let known = self.touch(key, user);
        let ask = known.asks.iter().rev().find(|ask| ask.report.mode == "run_now").cloned();
        known.asks.iter_mut().for_each(|earlier| earlier.scores = None);
        start.ask.clone_from(&ask);
        known.start = Some(start);
        self.weigh(key);
        ask.map(|ask| *ask)
    }

    /// Returns a job by the key of its asks, or by the id that a started task got.
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

    fn ask(decision: u64, mode: &str) -> Ask {
        let report = AskReport { mode: mode.to_owned(), ..AskReport::default() };
        Ask {
            decision,
            mode: Mode::Enforce,
            partition: String::new(),
            report,
            scores: None,
            reported: false,
        }
    }

    fn start(job_id: u32) -> Start {
        Start { job_id, nodes: "n1".to_owned(), start_ms: 1, ask: None }
    }

    #[test]
    fn a_task_is_found_by_both_names() {
        let mut memory = DecisionMemory::default();
        let key = Key::of(100, Some((100, 7)));
        memory.asked(key, 7, ask(1, "run_now"));
        memory.asked(key, 7, ask(2, "will_run"));
        memory.outcome(key, 1, None);
        let behind = memory.began(key, 7, start(107)).unwrap();
        assert_eq!((behind.decision, behind.reported), (1, true));
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
            memory.asked(Key::Job(id), 7, ask(1, "run_now"));
        }
        memory.asked(Key::Job(0), 7, ask(2, "run_now"));
        memory.asked(Key::Job(jobs), 7, ask(3, "run_now"));
        assert!(memory.get(Key::Job(0)).is_some());
        assert!(memory.get(Key::Job(1)).is_none());
        assert_eq!(memory.jobs.len(), RECENT_JOBS_MAX);
        assert_eq!(memory.by_age[&7].len(), RECENT_JOBS_MAX);
        for n in 0..20 {
            memory.asked(Key::Job(5), 7, ask(n, "run_now"));
        }
        assert_eq!(memory.get(Key::Job(5)).unwrap().asks.len(), RECENT_ASKS_MAX);
    }

    #[test]
    fn a_flood_of_one_users_jobs_forgets_only_that_users() {
        let mut memory = DecisionMemory::default();
        for id in 0..100 {
            memory.asked(Key::Job(id), 1 + id % 3, ask(1, "run_now"));
            memory.began(Key::Job(id), 1 + id % 3, start(id));
        }
        for id in 1000..101_000_u32 {
            memory.asked(Key::Job(id), 99, ask(1, "run_now"));
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
        let scores: Arc<str> = "x".repeat(16 << 10).into();
        let with = |mode| Ask { scores: Some(Arc::clone(&scores)), ..ask(1, mode) };
        for id in 0..10_000 {
            for mode in ["run_now", "will_run", "run_now"] {
                memory.asked(Key::Job(id), 7, with(mode));
            }
            let kept = memory.jobs[&Key::Job(id)].memory.asks.iter().filter(|a| a.scores.is_some());
            assert_eq!(kept.count(), 1);
            assert!(memory.began(Key::Job(id), 7, start(id)).unwrap().scores.is_some());
        }
        assert!(memory.bytes <= RECENT_BYTES_MAX, "{} bytes", memory.bytes);
        let counted: usize = memory.jobs.values().map(|known| known.memory.bytes()).sum();
        assert_eq!(memory.bytes, counted);
        assert!((2_000..3_000).contains(&memory.jobs.len()), "{} jobs", memory.jobs.len());
        assert!(memory.get(Key::Job(9_999)).unwrap().start.as_ref().unwrap().ask.is_some());
    }
}
