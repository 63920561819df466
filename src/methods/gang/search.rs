// SPDX-License-Identifier: GPL-3.0-or-later
//! One island: ruin and recreate under a falling temperature, and crossover of server columns.
//!
//! Every buffer is made when the island is; the loops do not allocate.

use super::guide::Guide;
use super::instance::{Instance, NONE, narrow};
use super::oust::Way;
use super::rng::Stream;
use super::shift::Chain;
use super::state::{Score, State, Taste};

/// Pending jobs tried again after one ruin.
const CANDIDATES_MAX: usize = 4;
/// Each of them is the densest of so many.
const CANDIDATES_OF: usize = 4;
/// Jobs removed by one ruin.
const RUIN_JOBS_MAX: usize = 12;
/// The same where edges are listed: gangs that share no servers make no room for each other.
const RUIN_JOBS_LISTED: usize = 6;
/// Steps in a hundred that begin with a chain to make room for a job, or to move a task; the
/// others, and those whose chain found nothing, remove whole jobs.
const SQUEEZE_PERCENT: usize = 5;
const SHIFT_PERCENT: usize = 40;
const SHIFT_PERCENT_LISTED: usize = 70;
/// Ruins in a hundred that are what a pending job needs to take its place.
const OUST_PERCENT: usize = 30;
/// Temperature of the move of one task, as a share of a job's.
const SHIFT_HEAT: f64 = 0.1;
/// Accepted steps between two exact sums of the score.
const RESCORE_STEPS: u32 = 512;

/// A job taken off, with where its tasks were.
#[derive(Debug, Clone, Copy)]
struct Saved {
    task: u32,
    server: u32,
    option: u32,
}

/// Current assignment, best assignment and scratch space of one island.
#[derive(Debug)]
pub(crate) struct Island {
    pub(crate) state: State,
    pub(crate) best: Vec<u32>,
    pub(crate) best_score: Score,
    pub(super) rng: Stream,
    pub(super) removed: Vec<u32>,
    saved: Vec<Saved>,
    pub(super) inserted: Vec<u32>,
    candidates: Vec<(f64, u32)>,
    steps: u32,
    chain: Chain,
    pub(super) way: Way,
    /// Mean scalar value of a placed job: the unit of the temperature.
    job_value: f64,
}

/// What one step may do; changes with the progress of the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    /// Temperature as a share of the mean value of a placed job.
    pub(crate) heat: f64,
}

impl Island {
    pub(crate) fn new(instance: &Instance, rng: Stream, start: &State) -> Island {
        let mut state = start.clone();
        let best_score = state.rescore(instance);
        let jobs = instance.jobs();
        let job_value = best_score.scalar(instance).abs() / (state.placed.max(1) as f64);
        Island {
            best: state.server.clone(),
            state,
            best_score,
            rng,
            removed: Vec::with_capacity(jobs.min(RUIN_JOBS_MAX * 4)),
            saved: Vec::with_capacity(instance.tasks()),
            inserted: Vec::with_capacity(jobs),
            candidates: Vec::with_capacity(jobs.max(CANDIDATES_MAX * 2)),
            steps: 0,
            chain: Chain::new(),
            way: Way::default(),
            job_value,
        }
    }

    /// Starts again from the best assignment known.
    pub(crate) fn restart_from(&mut self, instance: &Instance, other: &State, score: Score) {
        self.state.copy_from(other);
        if score.beats(&self.best_score, instance) {
            self.best.copy_from_slice(&self.state.server);
            self.best_score = score;
        }
    }

    /// One ruin, one recreate, and the decision to keep or undo.
    pub(crate) fn step(&mut self, instance: &Instance, guide: &Guide, mood: Mood) {
        let before = self.state.score();
        self.state.work += 4;
        self.removed.clear();
        self.saved.clear();
        self.inserted.clear();
        let shifts = match instance.edges.are_listed() {
            true => SHIFT_PERCENT_LISTED,
            false => SHIFT_PERCENT,
        };
        let chained = match self.rng.below(100) {
            dice if dice < SQUEEZE_PERCENT => self.squeeze(instance, guide),
            dice if dice < SQUEEZE_PERCENT + shifts => self.shift(instance, guide, mood),
            _ => false,
        };
        if !chained {
            let first = self.ruin(instance, guide);
            self.recreate(instance, guide, first);
        }
        let after = self.state.score();
        if !self.accept(instance, &before, &after, mood) {
            if chained {
                self.take_back(instance);
            } else {
                self.undo(instance);
            }
            return;
        }
        self.steps += 1;
        if self.steps.is_multiple_of(RESCORE_STEPS) {
            self.state.rescore(instance);
        }
        if self.state.score().beats(&self.best_score, instance) {
            self.best_score = self.state.rescore(instance);
            self.best.copy_from_slice(&self.state.server);
        }
    }

    /// Moves one task by an ejection chain; false when nothing changed.
    fn shift(&mut self, instance: &Instance, guide: &Guide, mood: Mood) -> bool {
        self.chain.clear();
        if self.state.placed == 0 {
            return false;
        }
        let job = self.state.queue[self.rng.below(self.state.placed)] as usize;
        let range = instance.job_tasks(job);
        let task = range.start + self.rng.below(range.len());
        let slack = -self.rng.unit().max(1e-300).ln() * mood.heat * self.job_value * SHIFT_HEAT;
        guide.choosy[instance.task_type[task] as usize]
            && self.chain.shift(instance, guide, &mut self.state, &mut self.rng, task, slack)
    }

    /// Makes room for a pending job; false when nothing changed.
    fn squeeze(&mut self, instance: &Instance, guide: &Guide) -> bool {
        self.chain.clear();
        if self.state.placed == self.state.queue.len() {
            return false;
        }
        let job = self.promising(guide, 3) as usize;
        let done = self.chain.squeeze_in(instance, guide, &mut self.state, &mut self.rng, job);
        if done {
            self.inserted.push(narrow(job));
        }
        done
    }

    fn take_back(&mut self, instance: &Instance) {
        for at in 0..self.inserted.len() {
            self.state.mark(instance, self.inserted[at] as usize, false);
        }
        self.chain.undo(instance, &mut self.state);
    }

    fn accept(&mut self, instance: &Instance, before: &Score, after: &Score, mood: Mood) -> bool {
        if after.untried != before.untried && mood.heat <= 0.0 {
            return after.untried > before.untried;
        }
        let loss = before.scalar(instance) - after.scalar(instance);
        loss <= 0.0 || loss < -self.rng.unit().max(1e-300).ln() * mood.heat * self.job_value
    }

    /// Takes some jobs off; returns a pending job that should be tried first.
    fn ruin(&mut self, instance: &Instance, guide: &Guide) -> u32 {
        let pending = self.state.queue.len() - self.state.placed;
        let most = match instance.edges.are_listed() {
            true => RUIN_JOBS_LISTED,
            false => RUIN_JOBS_MAX,
        };
        let count = 1 + self.rng.below(most).min(self.rng.below(most));
        if self.state.placed == 0 {
            return NONE;
        }
        if pending > 0 && self.rng.below(100) < OUST_PERCENT {
            let job = self.promising(guide, 1) as usize;
            if instance.possible[job] {
                self.oust(instance, guide, job);
            }
            return NONE;
        }
        let first =
            if pending > 0 && self.rng.below(3) > 0 { self.promising(guide, 3) } else { NONE };
        if self.rng.below(3) > 0 {
            for _ in 0..count {
                if self.state.placed > 0 {
                    let job = self.state.queue[self.rng.below(self.state.placed)];
                    self.remove(instance, job as usize);
                }
            }
            return first;
        }
        // Jobs that share servers: what one frees, another can use.
        let seed = self.state.queue[self.rng.below(self.state.placed)] as usize;
        let range = instance.job_tasks(seed);
        let task = range.start + self.rng.below(range.len());
        let server = self.state.server[task] as usize;
        self.ruin_server(instance, server, count);
        if self.removed.len() < count && instance.servers > 1 {
            let other = self.other_server(instance, guide, (task, server));
            self.ruin_server(instance, other, count - self.removed.len());
        }
        first
    }

    /// A server whose tasks may change places with one that is on `server`.
    fn other_server(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        (task, server): (usize, usize),
    ) -> usize {
        if guide.ranks.are_listed() {
            let ty = instance.task_type[task] as usize;
            return guide.ranks.draw(ty, &mut self.rng).map_or(server, |edge| edge.server as usize);
        }
        let zone = instance.zone_of[server] as usize;
        let (lo, hi) = (instance.zone_start[zone], instance.zone_start[zone + 1]);
        let near = lo as usize + self.rng.below((hi - lo) as usize);
        if hi - lo < 2 || self.rng.below(3) == 0 {
            return self.rng.below(instance.servers);
        }
        near
    }

    /// Removes up to `count` jobs that have a task on `server`.
    fn ruin_server(&mut self, instance: &Instance, server: usize, count: usize) {
        for _ in 0..count {
            let mut tasks = 0;
            let mut task = self.state.first_task(server);
            while task != NONE {
                tasks += 1;
                task = self.state.task_after(task);
            }
            if tasks == 0 {
                return;
            }
            let mut task = self.state.first_task(server);
            for _ in 0..self.rng.below(tasks) {
                task = self.state.task_after(task);
            }
            let job = instance.job_start.partition_point(|start| *start <= task) - 1;
            self.remove(instance, job);
        }
    }

    /// The best of `few` random pending jobs by density.
    fn promising(&mut self, guide: &Guide, few: usize) -> u32 {
        let placed = self.state.placed;
        let pending = self.state.queue.len() - placed;
        let mut best = NONE;
        for _ in 0..few {
            let job = self.state.queue[placed + self.rng.below(pending)];
            let better = best == NONE || guide.density[job as usize] > guide.density[best as usize];
            if better {
                best = job;
            }
        }
        best
    }

    pub(super) fn remove(&mut self, instance: &Instance, job: usize) {
        for task in instance.job_tasks(job) {
            let (server, option) = (self.state.server[task], self.state.option[task]);
            self.saved.push(Saved { task: narrow(task), server, option });
        }
        self.removed.push(narrow(job));
        self.state.remove_job(instance, job);
    }

    /// Tries `first`, then the removed and some pending jobs by noisy density.
    fn recreate(&mut self, instance: &Instance, guide: &Guide, first: u32) {
        let taste = self.taste(instance);
        let noise = 0.4 * self.rng.unit();
        self.candidates.clear();
        for at in 0..self.removed.len() {
            let job = self.removed[at];
            let key = self.key(guide, job, noise);
            self.candidates.push((key, job));
        }
        let placed = self.state.placed;
        let pending = self.state.queue.len() - placed;
        let tried = pending.min(CANDIDATES_MAX);
        for i in 0..tried {
            let job = match pending == tried {
                true => self.state.queue[placed + i],
                false => self.promising(guide, CANDIDATES_OF),
            };
            if !self.removed.contains(&job) {
                let key = self.key(guide, job, noise);
                self.candidates.push((key, job));
            }
        }
        self.candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if first != NONE {
            self.insert(instance, guide, first as usize, taste);
        }
        for at in 0..self.candidates.len() {
            let job = self.candidates[at].1 as usize;
            if !self.state.is_placed(job) {
                self.insert(instance, guide, job, taste);
            }
        }
    }

    pub(super) fn taste(&mut self, instance: &Instance) -> Taste {
        const TIGHT: [f32; 4] = [0.02, 0.1, 0.3, 1.0];
        let tight = TIGHT[self.rng.below(TIGHT.len())];
        Taste { tight, window: Some(narrow(self.rng.below(instance.servers))) }
    }

    fn key(&mut self, guide: &Guide, job: u32, noise: f64) -> f64 {
        guide.density[job as usize] * (1.0 + noise * (self.rng.unit() - 0.5))
    }

    fn insert(&mut self, instance: &Instance, guide: &Guide, job: usize, taste: Taste) {
        let before = self.state.score().scalar(instance);
        if !self.state.insert_job(instance, guide, job, taste) {
            return;
        }
        if self.state.score().scalar(instance) > before {
            self.inserted.push(narrow(job));
        } else {
            self.state.remove_job(instance, job);
        }
    }

    pub(super) fn undo(&mut self, instance: &Instance) {
        for at in (0..self.inserted.len()).rev() {
            self.state.remove_job(instance, self.inserted[at] as usize);
        }
        for at in 0..self.saved.len() {
            let Saved { task, server, option } = self.saved[at];
            self.state.put(instance, task as usize, server, option as usize);
        }
        for at in 0..self.removed.len() {
            self.state.mark(instance, self.removed[at] as usize, true);
        }
    }

    /// Fills the current state with pending jobs by density.
    pub(crate) fn refill(&mut self, instance: &Instance, guide: &Guide, taste: Taste) {
        self.inserted.clear();
        self.candidates.clear();
        for at in self.state.placed..self.state.queue.len() {
            let job = self.state.queue[at];
            self.candidates.push((guide.density[job as usize], job));
        }
        self.candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for at in 0..self.candidates.len() {
            self.insert(instance, guide, self.candidates[at].1 as usize, taste);
        }
        let score = self.state.rescore(instance);
        if score.beats(&self.best_score, instance) {
            self.best_score = score;
            self.best.copy_from_slice(&self.state.server);
        }
    }

    /// Crossover: on a random run of servers the current state takes over the jobs of `other`.
    ///
    /// A job comes over whole when it fits after the jobs of the run are taken off; the gang
    /// rule is repaired by dropping what lost a task, and the rest is filled by density.
    pub(crate) fn cross(&mut self, instance: &Instance, guide: &Guide, other: &[u32]) {
        if instance.servers < 2 {
            return;
        }
        let width = 1 + self.rng.below(instance.servers.div_ceil(3));
        let start = self.rng.below(instance.servers);
        self.removed.clear();
        self.saved.clear();
        let inside = |s: u32| {
            let s = s as usize;
            (s + instance.servers - start) % instance.servers < width
        };
        for job in 0..instance.jobs() {
            let range = instance.job_tasks(job);
            if self.state.is_placed(job) && self.state.server[range].iter().any(|s| inside(*s)) {
                self.state.remove_job(instance, job);
            }
        }
        for job in 0..instance.jobs() {
            let range = instance.job_tasks(job);
            let theirs = &other[range];
            if !self.state.is_placed(job) && theirs.iter().any(|s| *s != NONE && inside(*s)) {
                self.place_as(instance, job, other);
            }
        }
        self.refill(instance, guide, Taste { tight: 0.1, window: None });
    }

    /// Places a job where `other` has it, if all its tasks still fit there.
    fn place_as(&mut self, instance: &Instance, job: usize, other: &[u32]) {
        let range = instance.job_tasks(job);
        for task in range.clone() {
            let ty = instance.task_type[task] as usize;
            let server = other[task];
            let option = instance.option_on(ty, server);
            let fits = self.state.fits(instance, ty, server as usize);
            match option {
                Some(option) if fits => self.state.put(instance, task, server, option),
                _ => {
                    (range.start..task).for_each(|task| self.state.take(instance, task));
                    return;
                }
            }
        }
        self.state.mark(instance, job, true);
    }
}
