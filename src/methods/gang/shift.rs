// SPDX-License-Identifier: GPL-3.0-or-later
//! Ejection chains: a task takes the place of another, which goes elsewhere, and so on.
//!
//! Removing whole jobs is too coarse where a job has many tasks: a chain moves single tasks, to a
//! server where they are worth more or to make room for a job that waits.

use super::guide::Guide;
use super::instance::{Instance, NONE, narrow};
use super::rng::Stream;
use super::state::{State, Taste};

/// Tasks that one chain moves, beyond the one that it starts from.
const DEPTH_MAX: u32 = 2;
/// Options looked at for one task, by descending reduced value.
const OPTIONS_MAX: usize = super::guide::ORDERED;
/// Servers of one option looked at.
const SERVERS_MAX: usize = 6;
/// Weight of what stays free where a task is put.
const TIGHT: f32 = 0.1;
/// Servers and tasks looked at in one chain.
const LOOKS_MAX: u32 = 400;

/// A task and where it was.
#[derive(Debug, Clone, Copy)]
struct Moved {
    task: u32,
    server: u32,
    option: u32,
}

/// The moves of one chain, so that it can be taken back.
#[derive(Debug)]
pub(crate) struct Chain {
    moved: Vec<Moved>,
    looks: u32,
}

impl Chain {
    pub(crate) fn new() -> Chain {
        Chain { moved: Vec::with_capacity(256), looks: 0 }
    }

    /// Forgets the moves: they stay.
    pub(crate) fn clear(&mut self) {
        self.moved.clear();
    }

    /// Takes all moves back.
    pub(crate) fn undo(&mut self, instance: &Instance, state: &mut State) {
        while let Some(Moved { task, server, option }) = self.moved.pop() {
            if state.server[task as usize] != NONE {
                state.take(instance, task as usize);
            }
            if server != NONE {
                state.put(instance, task as usize, server, option as usize);
            }
        }
    }

    fn take(&mut self, instance: &Instance, state: &mut State, task: usize) {
        let (server, option) = (state.server[task], state.option[task]);
        self.moved.push(Moved { task: narrow(task), server, option });
        state.take(instance, task);
    }

    /// Moves a placed task to where it, and what it displaces, is worth at least `-slack` more.
    pub(crate) fn shift(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        state: &mut State,
        rng: &mut Stream,
        task: usize,
        slack: f64,
    ) -> bool {
        let worth = guide.worth[state.option[task] as usize];
        let from = state.server[task];
        self.take(instance, state, task);
        self.looks = 0;
        let mut walk = Walk { instance, guide, rng };
        if self.settle(&mut walk, state, task, slack - worth, (from, DEPTH_MAX)) {
            return true;
        }
        self.undo(instance, state);
        false
    }

    /// Places all tasks of a pending job, displacing others where they can go elsewhere for less
    /// than the job is worth.
    pub(crate) fn squeeze_in(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        state: &mut State,
        rng: &mut Stream,
        job: usize,
    ) -> bool {
        if !state.may_fit(instance, job) {
            return false;
        }
        let before = state.score().scalar(instance);
        let best = |task: usize| guide.best_worth[instance.task_type[task] as usize];
        // What the tasks that are still to be placed can bring.
        let mut rest: f64 = instance.job_tasks(job).map(best).sum();
        let mut walk = Walk { instance, guide, rng };
        for at in instance.job_tasks(job) {
            let task = instance.insert_order[at] as usize;
            rest -= best(task);
            self.looks = 0;
            self.moved.push(Moved { task: narrow(task), server: NONE, option: NONE });
            let sum = state.score().scalar(instance) - before + rest;
            if !walk.put_free(state, task, (f64::NEG_INFINITY, NONE))
                && !self.settle(&mut walk, state, task, sum, (NONE, DEPTH_MAX))
            {
                self.undo(instance, state);
                return false;
            }
        }
        if state.score().scalar(instance) <= before {
            self.undo(instance, state);
            return false;
        }
        state.mark(instance, job, true);
        true
    }

    /// Places a task that is off its server; `sum` is what the chain has gained so far.
    fn settle(
        &mut self,
        walk: &mut Walk<'_>,
        state: &mut State,
        task: usize,
        sum: f64,
        (from, depth): (u32, u32),
    ) -> bool {
        let Walk { instance, guide, .. } = *walk;
        let ty = instance.task_type[task] as usize;
        let range = instance.type_opts(ty);
        if depth < DEPTH_MAX && walk.put_free(state, task, (-sum, from)) {
            return true;
        }
        let end = range.end.min(range.start + OPTIONS_MAX);
        for at in range.start..end {
            let option = guide.option_order[at] as usize;
            let total = sum + guide.worth[option];
            if total <= 0.0 {
                continue;
            }
            let opt = &instance.opts[option];
            let span = (opt.hi - opt.lo) as usize;
            let offset = if span > SERVERS_MAX { walk.rng.below(span) } else { 0 };
            for step in 0..span.min(SERVERS_MAX) {
                let server = opt.lo + narrow((offset + step) % span);
                self.looks += 1;
                state.work += 1;
                if self.looks > LOOKS_MAX {
                    return false;
                }
                if server == from || is_second(instance, state, task, server) {
                    continue;
                }
                // In a merged zone the server may have an edge of its own.
                let own = if instance.merged { instance.option_on(ty, server) } else { None };
                let option = own.unwrap_or(option);
                if state.fits(instance, ty, server as usize) {
                    state.put(instance, task, server, option);
                    return true;
                }
                if depth > 0 && self.displace(walk, state, (task, server, option), total, depth) {
                    return true;
                }
            }
        }
        false
    }

    /// Puts a task where another must leave.
    fn displace(
        &mut self,
        walk: &mut Walk<'_>,
        state: &mut State,
        (task, server, option): (usize, u32, usize),
        total: f64,
        depth: u32,
    ) -> bool {
        let Walk { instance, guide, .. } = *walk;
        let ty = instance.task_type[task] as usize;
        let mut other = state.first_task(server as usize);
        while other != NONE && self.looks <= LOOKS_MAX {
            let next = state.task_after(other);
            self.looks += 1;
            let (victim, left) =
                (other as usize, total - guide.worth[state.option[other as usize] as usize]);
            let victim_type = instance.task_type[victim] as usize;
            let best = guide.best_worth[victim_type];
            if left + best > 0.0
                && victim_type != ty
                && !self.has_moved(other)
                && state.fits_without(instance, ty, server as usize, victim_type)
            {
                let was = state.option[victim] as usize;
                self.take(instance, state, victim);
                state.put(instance, task, server, option);
                if self.settle(walk, state, victim, left, (server, depth - 1)) {
                    return true;
                }
                state.take(instance, task);
                self.moved.pop();
                state.put(instance, victim, server, was);
            }
            other = next;
        }
        false
    }

    fn has_moved(&self, task: u32) -> bool {
        self.moved.iter().rev().take(4).any(|m| m.task == task)
    }
}

struct Walk<'a> {
    instance: &'a Instance,
    guide: &'a Guide,
    rng: &'a mut Stream,
}

impl Walk<'_> {
    /// Puts a task on the best server with room, if it is worth more than `least` there.
    fn put_free(&mut self, state: &mut State, task: usize, (least, from): (f64, u32)) -> bool {
        let Walk { instance, guide, .. } = *self;
        let window = Some(narrow(self.rng.below(instance.servers)));
        let ty = instance.task_type[task] as usize;
        let Some((server, option)) =
            state.choose(instance, guide, ty, Taste { tight: TIGHT, window })
        else {
            return false;
        };
        let bad = guide.worth[option] <= least || server == from;
        if bad || is_second(instance, state, task, server) {
            return false;
        }
        state.put(instance, task, server, option);
        true
    }
}

/// Another task of the same spread job is on this server.
fn is_second(instance: &Instance, state: &State, task: usize, server: u32) -> bool {
    let job = instance.job_of[task] as usize;
    let range = instance.job_tasks(job);
    instance.spread[job] && state.server[range].contains(&server)
}
