// SPDX-License-Identifier: GPL-3.0-or-later
//! A schedule: jobs in queue order with their cores, blocks and times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::assignment::Assignment;
use super::instance::{Instance, Job, SLACK_MS};
use super::problem::Start;

/// A job of a schedule.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// Index of the job.
    pub(super) job: usize,
    /// Cores of the job in the order of choice.
    pub(super) cores: Vec<usize>,
    /// Blocks of each core; loads without offsets.
    pub(super) assignment: Assignment,
    /// Start of each core, ms.
    pub(super) starts: Vec<f64>,
    /// Start of the job's first core, ms.
    pub(super) start: f64,
    /// Time at which all cores of the job are released, ms.
    pub(super) end: f64,
}

/// Jobs in queue order.
#[derive(Debug, Clone, Default)]
pub(super) struct Schedule {
    /// The jobs that have blocks.
    pub(super) placed: Vec<Placed>,
    /// The latest end, ms.
    pub(super) end: f64,
}

impl Placed {
    /// Puts a job on cores that are free at `available`, and occupies them.
    pub(super) fn new(
        instance: &Instance,
        job: usize,
        cores: Vec<usize>,
        assignment: Assignment,
        available: &mut [f64],
    ) -> Self {
        let mut placed = Self { job, cores, assignment, starts: Vec::new(), start: 0.0, end: 0.0 };
        placed.shift_left(instance, available);
        placed
    }

    /// Starts the job as early as its cores allow.
    fn shift_left(&mut self, instance: &Instance, available: &mut [f64]) {
        let job = &instance.jobs[self.job];
        let from = |core: usize| job.earliest_on(instance.host_of[core]);
        let free = self.cores.iter().map(|&core| available[core].max(from(core)));
        match instance.start {
            Start::Gang => {
                self.start = free.fold(0.0, f64::max);
                self.starts = vec![self.start; self.cores.len()];
                self.end = self.start + self.assignment.longest();
            }
            Start::Async => {
                self.starts = free.collect();
                self.start = self.starts.iter().copied().fold(f64::INFINITY, f64::min);
                let ends = self.starts.iter().zip(&self.assignment.loads).map(|(s, load)| s + load);
                self.end = ends.fold(0.0, f64::max);
            }
        }
        for &core in &self.cores {
            available[core] = self.end;
        }
    }

    /// End of a job on cores that are free at `available`.
    pub(super) fn end_of(
        instance: &Instance,
        job: &Job,
        cores: &[usize],
        assignment: &Assignment,
        available: &[f64],
    ) -> f64 {
        let from = |core: usize| job.earliest_on(instance.host_of[core]);
        let free = cores.iter().map(|&core| available[core].max(from(core)));
        match instance.start {
            Start::Gang => free.fold(0.0, f64::max) + assignment.longest(),
            Start::Async => {
                free.zip(&assignment.loads).map(|(s, load)| s + load).fold(0.0, f64::max)
            }
        }
    }
}

impl Schedule {
    /// Computes all times again, in queue order.
    pub(super) fn shift_left(&mut self, instance: &Instance) {
        let mut available = instance.available.clone();
        self.end = 0.0;
        for placed in &mut self.placed {
            placed.shift_left(instance, &mut available);
            self.end = self.end.max(placed.end);
        }
    }

    /// Computes loads and times again from the blocks alone.
    pub(super) fn recompute(&mut self, instance: &Instance) {
        for placed in &mut self.placed {
            let hosts = instance.hosts_of(&placed.cores);
            placed.assignment.recompute(instance, &instance.jobs[placed.job], &hosts);
        }
        self.shift_left(instance);
    }

    /// Replaces `best` by `other` when `other` ends earlier.
    pub(super) fn improve(best: &mut Option<Self>, other: Self) -> bool {
        let better = best.as_ref().is_none_or(|best| other.end < best.end - SLACK_MS);
        if better {
            *best = Some(other);
        }
        better
    }
}

/// Places every job whole on the core that is free first, longest first: always possible, and the
/// result when time runs out before anything better was found.
pub(super) fn one_core_each(instance: &Instance) -> Schedule {
    let mut available = instance.available.clone();
    let mut schedule = Schedule::default();
    let free = available.iter().enumerate();
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        free.map(|(core, &at)| Reverse((key(at), core))).collect();
    for &i in &instance.queue {
        let Some(Reverse((_, core))) = heap.pop() else { break };
        let job = &instance.jobs[i];
        let hosts = [instance.host_of[core]];
        let assignment = super::assignment::local_first(instance, job, &hosts);
        let placed = Placed::new(instance, i, vec![core], assignment, &mut available);
        schedule.end = schedule.end.max(placed.end);
        heap.push(Reverse((key(placed.end), core)));
        schedule.placed.push(placed);
    }
    schedule
}

/// Maps non-negative finite doubles to integers of the same order.
fn key(at: f64) -> u64 {
    // Minus zero would sort last.
    (at + 0.0).to_bits()
}
