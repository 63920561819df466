// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs while the agent waits for the data service: programs in run slots on
//! one thread, built-ins on short-lived threads of their own, since a file of
//! a broken driver may block even them.

use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::builtin::{self, Builtin, Context, Memory, Tool};
use crate::slot::{Finished, Refused, Run, RunError, Slots};
use phalanx_core::limits::AGENT_RUNS_MAX;
use phalanx_ffi::locks::lock;
use phalanx_messages::collect::Row;

/// Work of a run.
#[derive(Debug)]
pub(super) enum Task {
    /// A program, and the parser of its output if the output is not a plain value.
    Program(Run, Option<Tool>),
    Builtin {
        builtin: &'static Builtin,
        args: Vec<String>,
        node: String,
        inputs: Vec<(String, Vec<Row>)>,
        root: PathBuf,
        memory: Arc<Mutex<Memory>>,
    },
}

/// A run to start.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) task: Task,
    pub(super) timeout: Duration,
}

#[derive(Debug)]
enum Order {
    Start(Job),
    Stop(u64),
}

/// Messages between the threads. There is at most one run of each
/// registration, which bounds both lists.
#[derive(Debug, Default)]
struct Board {
    orders: Mutex<Vec<Order>>,
    results: Mutex<Vec<Finished>>,
    news: Condvar,
}

impl Board {
    fn report(&self, run: Finished) {
        lock(&self.results).push(run);
        self.news.notify_all();
    }

    fn not_started(&self, id: u64, why: String) {
        self.report(Finished::failed(id, RunError::Start(why), Duration::ZERO));
    }
}

#[derive(Debug)]
pub(super) struct Worker {
    board: Arc<Board>,
    wake: PipeWriter,
}

#[derive(Debug)]
pub(super) struct SlotThread {
    board: Arc<Board>,
    wake: PipeReader,
}

impl Worker {
    pub(super) fn new() -> std::io::Result<(Self, SlotThread)> {
        let (reader, writer) = std::io::pipe()?;
        for end in [writer.as_fd(), reader.as_fd()] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let board = Arc::new(Board::default());
        let thread = SlotThread { board: Arc::clone(&board), wake: reader };
        Ok((Self { board, wake: writer }, thread))
    }

    pub(super) fn start(&mut self, job: Job) {
        if let Task::Builtin { .. } = job.task {
            start_builtin(job, &self.board);
        } else {
            self.order(Order::Start(job));
        }
    }

    /// Kills a run, if it has not ended.
    pub(super) fn stop(&mut self, id: u64) {
        self.order(Order::Stop(id));
    }

    /// Reports that a run could not be started.
    pub(super) fn fail(&mut self, id: u64, why: String) {
        self.board.not_started(id, why);
    }

    /// Reports that a run took so long that it counts as lost.
    pub(super) fn lose(&mut self, id: u64, timeout: Duration) {
        let why = RunError::Timeout(timeout.as_millis());
        self.board.report(Finished::failed(id, why, timeout));
    }

    fn order(&mut self, order: Order) {
        lock(&self.board.orders).push(order);
        // A full pipe wakes as well.
        let _ = self.wake.write(&[1]);
    }

    /// Returns the runs that ended since the last call.
    pub(super) fn results(&self) -> Vec<Finished> {
        std::mem::take(&mut *lock(&self.board.results))
    }

    /// Waits for `time`, or until `ends` runs have ended.
    pub(super) fn sleep(&self, time: Duration, ends: usize) {
        let results = lock(&self.board.results);
        let few = |results: &mut Vec<Finished>| results.len() < ends;
        drop(self.board.news.wait_timeout_while(results, time, few));
    }
}

fn start_builtin(job: Job, board: &Arc<Board>) {
    let Job { id, task, timeout } = job;
    let Task::Builtin { builtin, args, node, inputs, root, memory } = task else { return };
    let started = Instant::now();
    let run = move || {
        let mut memory = match memory.try_lock() {
            Ok(memory) => memory,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Its last run still hangs.
            Err(TryLockError::WouldBlock) => return Err(Refused::Busy.to_string()),
        };
        let deadline = started + timeout;
        let context = Context { root: &root, args: &args, node: &node, inputs: &inputs, deadline };
        builtin::run(builtin, &context, &mut memory)
    };
    let to = Arc::clone(board);
    let report = move || {
        let output = run().map(|number| number.to_string()).map_err(RunError::Start);
        let (stderr, took) = (String::new(), started.elapsed());
        to.report(Finished { id, output, stderr, took, at: Instant::now() });
    };
    let thread = std::thread::Builder::new().name("builtin".to_owned()).stack_size(512 << 10);
    if let Err(error) = thread.spawn(report) {
        board.not_started(id, error.to_string());
    }
}

impl SlotThread {
    /// Runs programs until `stop`, then kills what runs.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        const CHECK: Duration = Duration::from_millis(250);
        let mut slots = Slots::new(AGENT_RUNS_MAX);
        let mut waiting: Vec<Job> = Vec::new();
        let mut tools: BTreeMap<u64, Tool> = BTreeMap::new();
        while !stop.load(Ordering::Relaxed) {
            let finished = slots.wait(Instant::now() + CHECK, Some(self.wake.as_fd()));
            // An empty pipe is no error.
            let _ = self.wake.read(&mut [0; 64]);
            for mut end in finished {
                if let (Some(tool), Ok(text)) = (tools.remove(&end.id), &end.output) {
                    let number = tool.parse(text).map_err(RunError::Start);
                    end.output = number.map(|number| number.to_string());
                }
                self.board.report(end);
            }
            for order in std::mem::take(&mut *lock(&self.board.orders)) {
                match order {
                    Order::Start(job) => waiting.push(job),
                    Order::Stop(id) => {
                        waiting.retain(|job| job.id != id);
                        slots.stop(id, Instant::now());
                    }
                }
            }
            waiting = self.start(&mut slots, &mut tools, waiting);
        }
        slots.stop_all(Instant::now());
    }

    /// Starts jobs while slots are free; returns the jobs that are left.
    fn start(
        &self,
        slots: &mut Slots,
        tools: &mut BTreeMap<u64, Tool>,
        waiting: Vec<Job>,
    ) -> Vec<Job> {
        let mut rest = Vec::new();
        for job in waiting {
            let Task::Program(run, tool) = &job.task else { continue };
            if slots.is_full() {
                rest.push(job);
            } else if let Err(refused) = slots.start(job.id, run.clone(), Instant::now()) {
                self.board.not_started(job.id, refused.to_string());
            } else {
                tools.extend(tool.map(|tool| (job.id, tool)));
            }
        }
        rest
    }
}
