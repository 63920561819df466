// SPDX-License-Identifier: GPL-3.0-or-later
//! Claims: the power of a job that waits is reserved as Slurm's backfill reserves nodes.
//!
//! A simulated queue is compared, question by question, with a plan that is written second by
//! second: a job starts exactly if there is room for it and no job in front of it gets its power
//! later by that.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::*;
use crate::cluster::{Cluster, Held, RunningJob, Table, TableNode};

const CAP: u64 = 16;
const W: u64 = 1000;

/// CPUs of 1 W each on one node, at most 16 W in all.
struct World {
    cluster: Cluster,
    ledger: PowerLedger,
    now_s: u64,
}

impl World {
    fn new() -> Self {
        let node = TableNode { name: "n".into(), cpus: 100, threads: 1, ..TableNode::default() };
        let cluster = Cluster::new(Table { nodes: vec![node], ..Table::default() });
        let power = NodePower { busy_mw: 100 * W, ..NodePower::default() };
        let table = PowerTable {
            caps: vec![PowerCap { partition: "".into(), cap_mw: CAP * W }],
            rows: vec![PowerRow { power, caps: 1, nodes: vec![0.into()] }],
            ..PowerTable::default()
        };
        let ledger = PowerLedger::new(table, PowerMemory::default(), &cluster);
        Self { cluster, ledger, now_s: 1000 }
    }

    fn ask(&mut self, job: &Job) -> Option<PowerHold> {
        let ask = PowerAsk {
            job_id: job.id,
            user_id: job.id,
            order: (1, job.priority),
            limit_s: job.limit_s,
            extra_mw: vec![job.watts * W],
            ..PowerAsk::default()
        };
        let at = PowerMoment { now_ms: self.now_s * 1000, now_s: self.now_s, counts: true };
        self.ledger.judge(&ask, at)
    }

    /// Slurm tells of a start.
    fn start(&mut self, job: &Job) {
        let held = vec![Held { node: 0.into(), cpus: job.watts, ..Held::default() }];
        let end_s = self.now_s + job.limit_s;
        let run = RunningJob { id: job.id, end_s, held, ..RunningJob::default() };
        self.ledger.ends(None, Some(&run));
        self.cluster.set_job(run, |_| {});
        self.follow(job.id);
    }

    fn end(&mut self, id: u32) {
        let run = self.cluster.jobs()[&id].clone();
        self.ledger.ends(Some(&run), None);
        self.cluster.end_job(id, |_| {});
        self.follow(id);
    }

    fn follow(&mut self, id: u32) {
        self.ledger.settled(id, None);
        self.ledger.changed(self.cluster.usages(), 0.into());
    }
}

#[derive(Debug, Clone, Copy)]
struct Job {
    id: u32,
    submit_s: u64,
    watts: u64,
    limit_s: u64,
    runs_s: u64,
    priority: u32,
}

/// Ways to break the claims from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Broken {
    Not,
    /// Nothing is reserved.
    Claims,
    /// No end of a running job is known.
    Ends,
    /// Every job may run for ever.
    Limits,
    /// All jobs have one priority, the newest first.
    Order,
}

/// Watts in each second from now on, by the limits of what runs.
fn drawn(running: &[(u64, Job)], now_s: u64) -> Vec<u64> {
    let mut out = vec![0; 4000];
    for (end_s, job) in running {
        let left = end_s.saturating_sub(now_s).max(1);
        out.iter_mut().take(left.try_into().unwrap()).for_each(|watts| *watts += job.watts);
    }
    out
}

/// Starts of the waiting jobs, each as early as those before it let it.
fn starts(waiting: &[Job], running: &[(u64, Job)], now_s: u64) -> Vec<usize> {
    let mut watts = drawn(running, now_s);
    let plan = |job: &Job| {
        let long = usize::try_from(job.limit_s).unwrap();
        let fits = |at: &usize| watts[*at..at + long].iter().all(|w| w + job.watts <= CAP);
        let at = (0..).find(fits).unwrap();
        watts[at..at + long].iter_mut().for_each(|w| *w += job.watts);
        at
    };
    waiting.iter().map(plan).collect()
}

/// Runs a list; the first answer that differs from the plan, and how often one was held by a claim.
fn run(jobs: &[Job], broken: Broken) -> Result<u64, String> {
    let mut world = World::new();
    let (mut running, mut waiting): (Vec<(u64, Job)>, Vec<Job>) = Default::default();
    let (mut coming, mut kept) = (jobs.to_vec(), 0);
    // Time by which the first in the queue has to start.
    let mut due: Option<(u32, u64)> = None;
    while !(coming.is_empty() && waiting.is_empty()) {
        world.now_s += 1;
        let now_s = world.now_s;
        let ended = |(end_s, job): &(u64, Job)| end_s + job.runs_s <= now_s + job.limit_s;
        running.extract_if(.., |job| ended(job)).for_each(|(_, job)| world.end(job.id));
        waiting.extend(coming.extract_if(.., |job| job.submit_s + 1000 <= now_s));
        waiting.sort_by_key(|job| (Reverse(job.priority), job.id));
        let mut at = 0;
        while at < waiting.len() {
            let (job, front) = (waiting[at], waiting[..at].to_vec());
            let mut with = running.clone();
            with.push((now_s + job.limit_s, job));
            let room = drawn(&running, now_s)[0] + job.watts <= CAP;
            let harms = starts(&front, &with, now_s) != starts(&front, &running, now_s);
            let asked = match broken {
                Broken::Order => Job { priority: job.id, ..job },
                Broken::Limits => Job { limit_s: 1 << 40, ..job },
                _ => job,
            };
            if broken == Broken::Claims {
                front.iter().for_each(|front| world.ledger.settled(front.id, None));
            }
            let hold = world.ask(&asked);
            kept += u64::from(hold.is_some_and(|hold| hold.claim.is_some()));
            if hold.is_none() != (room && !harms) {
                return Err(format!("{now_s}: {job:?}: {room} {harms} {hold:?}"));
            }
            if hold.is_some() {
                if at == 0 && due.is_none_or(|(id, _)| id != job.id) {
                    let start = starts(&[job], &running, now_s)[0];
                    due = Some((job.id, now_s + u64::try_from(start).unwrap()));
                }
                at += 1;
                continue;
            }
            // Whoever came before it since then may be later than it.
            if let Some((id, by_s)) = due.take_if(|_| at == 0)
                && id == job.id
                && now_s > by_s
            {
                return Err(format!("{job:?} starts at {now_s}, not by {by_s}"));
            }
            let told = if broken == Broken::Ends { Job { limit_s: 1 << 40, ..job } } else { job };
            world.start(&told);
            running.push((now_s + job.limit_s, waiting.remove(at)));
        }
    }
    Ok(kept)
}

type Raw = (u64, u64, u64, u64, u32);

fn listed(raw: &[Raw]) -> Vec<Job> {
    let job = |(id, &(submit_s, watts, limit_s, part, priority)): (u32, &Raw)| Job {
        id,
        submit_s,
        watts,
        limit_s,
        runs_s: (limit_s * part / 4).max(1),
        priority,
    };
    (1..).zip(raw).map(job).collect()
}

fn raw() -> impl Strategy<Value = Vec<Raw>> {
    proptest::collection::vec((0_u64..40, 1..=CAP, 1_u64..30, 1_u64..=4, 1_u32..4), 1..15)
}

proptest! {
    /// Goal: the big job starts when it would with an honest reservation, and nobody waits for it
    /// but by that.
    #[test]
    fn a_job_starts_exactly_if_nobody_in_front_is_later_by_it(raw in raw()) {
        prop_assert_eq!(run(&listed(&raw), Broken::Not).err(), None);
    }
}

/// Goal: the property sees each part of a claim that is missing.
#[test]
fn a_claim_without_time_order_or_effect_is_seen() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let lists: Vec<Vec<Job>> =
        (0..100).map(|_| listed(&raw().new_tree(&mut runner).unwrap().current())).collect();
    let kept: u64 = lists.iter().map(|jobs| run(jobs, Broken::Not).unwrap()).sum();
    assert!(kept > 100, "claims held jobs back {kept} times");
    for broken in [Broken::Claims, Broken::Ends, Broken::Limits, Broken::Order] {
        let seen = lists.iter().filter(|jobs| run(jobs, broken).is_err()).count();
        assert!(seen > 3, "{broken:?} was seen {seen} times");
    }
}

fn job(id: u32, watts: u64, limit_s: u64, priority: u32) -> Job {
    Job { id, submit_s: 0, watts, limit_s, runs_s: limit_s, priority }
}

/// Goal: one job of a neighbour that waits for a week stops nobody who is done by then, and it
/// keeps its turn although nobody asks about it while jobs of higher priority come.
#[test]
fn a_claim_waits_without_being_asked_about() {
    let mut world = World::new();
    let week = 7 * 24 * 3600;
    let long = job(1, 10, week, 1);
    assert_eq!(world.ask(&long), None);
    world.start(&long);
    let big = job(2, 14, 60, 1);
    assert!(world.ask(&big).is_some());
    // Higher jobs for an hour, without a question about the big one.
    for id in 100..160 {
        let small = job(id, 3, 100 * week, 5);
        assert_eq!(world.ask(&small), None, "of higher priority");
        world.start(&small);
        world.now_s += 60;
        world.end(id);
    }
    assert_eq!(world.ask(&job(3, 3, 3600, 1)), None, "it ends before");
    world.now_s += 3;
    assert_eq!(world.ask(&job(4, 2, 100 * week, 1)), None, "it fits beside");
    world.now_s += 3;
    let held = world.ask(&job(5, 3, 100 * week, 1)).unwrap();
    let claim = KeptFor { job: 2, user_id: 2, from_s: 1000 + week };
    assert_eq!((held.claim, held.with_job_mw), (Some(claim), 13 * W));
    world.ledger.settled(2, None);
    assert_eq!(world.ask(&job(5, 3, 100 * week, 1)), None, "it has left the queue");
}

/// Goal: a job whose power is there but that does not start holds others for an hour.
#[test]
fn a_claim_that_is_not_used_ends_after_an_hour() {
    let mut world = World::new();
    let long = job(1, 10, 60, 1);
    assert_eq!(world.ask(&long), None);
    world.start(&long);
    assert!(world.ask(&job(2, 16, 60, 1)).is_some());
    world.now_s += 60;
    world.end(1);
    let mut held_s = 0;
    for _ in 0..7200 {
        world.now_s += 1;
        held_s += u64::from(world.ask(&job(3, 1, 60, 1)).is_some());
        world.ledger.settled(3, None);
    }
    assert!((3600..4000).contains(&held_s), "{held_s} s");
}
