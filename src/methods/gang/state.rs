// SPDX-License-Identifier: GPL-3.0-or-later
//! An assignment under construction: who runs where, what is free, and its exact score.

use super::instance::{Instance, NONE, narrow};
use super::tree::FreeTree;
use super::values::Values;
use crate::learn::confidence_index;

/// Servers of one option that are compared: a window that begins at the first server that fits.
const WINDOW_SERVERS: usize = 64;
/// Servers that are compared because they lost a task last: as many as a ruin and its recreation
/// free.
const FREED_SERVERS_MAX: usize = 24;
/// Amount that closes a server: more than any server has free, yet small enough for sums in an
/// `i32`.
const SHUT: i32 = 1 << 30;

/// Exact value of an assignment; `untried` is compared first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    pub untried: u64,
    pub lin: f64,
    pub s2: f64,
}

impl Score {
    /// Formula 13 without the infinite part.
    pub fn index(&self, instance: &Instance) -> f64 {
        confidence_index(instance.delta, self.lin, self.s2)
    }

    /// Returns a number that orders scores, up to rounding.
    pub fn scalar(&self, instance: &Instance) -> f64 {
        self.untried as f64 * instance.untried_weight + self.lin + self.s2.max(0.0).sqrt()
    }

    /// Whether the score is better than `other` by more than rounding.
    pub fn beats(&self, other: &Score, instance: &Instance) -> bool {
        if self.untried != other.untried {
            return self.untried > other.untried;
        }
        let (a, b) = (self.index(instance), other.index(instance));
        a > b + 1e-12 * b.abs().max(1.0)
    }
}

/// A gang-complete assignment within capacity, with indexes for fast moves.
#[derive(Debug, Clone)]
pub struct State {
    /// Server of each task, or `NONE`.
    pub server: Vec<u32>,
    /// Option by which each placed task runs.
    pub option: Vec<u32>,
    pub free: Vec<i32>,
    /// Rest of the cluster's capacity when jobs placed have theirs, by kind.
    total_free: Vec<i64>,
    /// Jobs, the placed ones first.
    pub queue: Vec<u32>,
    queue_at: Vec<u32>,
    pub placed: usize,
    head: Vec<u32>,
    next: Vec<u32>,
    prev: Vec<u32>,
    tree: FreeTree,
    /// Servers that lost a task lately, the last one last.
    freed: Vec<u32>,
    untried: u64,
    lin: f64,
    s2: f64,
    /// Servers evaluated: a measure of work that does not depend on the machine.
    pub work: u64,
}

/// Rule by which a server is chosen among those that fit.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    /// Weight of the price of what the task leaves free on its server: 0 is first fit, 1 best fit.
    pub tight: f32,
    /// Begin of the search in a long range, modulo its length.
    pub start: u32,
}

impl Default for Fit {
    /// Fits for greedy insertion: prices tell where a task belongs, and what stays free breaks
    /// ties.
    fn default() -> Self {
        Self { tight: 0.1, start: 0 }
    }
}

/// A server and the option by which a task runs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub server: u32,
    pub option: usize,
}

/// A placed task, so that a move can be taken back.
#[derive(Debug, Clone, Copy)]
pub struct Saved {
    pub task: u32,
    pub server: u32,
    pub option: u32,
}

impl State {
    pub fn new(instance: &Instance) -> State {
        let (servers, tasks, jobs) = (instance.servers, instance.tasks(), instance.jobs());
        let kinds = instance.kinds;
        let mut total_free = vec![0_i64; kinds];
        for row in instance.capacity.chunks_exact(kinds.max(1)) {
            total_free.iter_mut().zip(row).for_each(|(t, c)| *t += i64::from(*c));
        }
        State {
            server: vec![NONE; tasks],
            option: vec![NONE; tasks],
            free: instance.capacity.clone(),
            total_free,
            queue: (0..narrow(jobs)).collect(),
            queue_at: (0..narrow(jobs)).collect(),
            placed: 0,
            head: vec![NONE; servers],
            next: vec![NONE; tasks],
            prev: vec![NONE; tasks],
            tree: FreeTree::new(instance, servers > WINDOW_SERVERS),
            freed: Vec::with_capacity(FREED_SERVERS_MAX),
            untried: 0,
            lin: 0.0,
            s2: 0.0,
            work: 0,
        }
    }

    /// Makes this state equal to `other` without allocating.
    pub fn copy_from(&mut self, other: &State) {
        self.server.copy_from_slice(&other.server);
        self.option.copy_from_slice(&other.option);
        self.free.copy_from_slice(&other.free);
        self.total_free.copy_from_slice(&other.total_free);
        self.queue.copy_from_slice(&other.queue);
        self.queue_at.copy_from_slice(&other.queue_at);
        self.placed = other.placed;
        self.head.copy_from_slice(&other.head);
        self.next.copy_from_slice(&other.next);
        self.prev.copy_from_slice(&other.prev);
        self.tree.copy_from(&other.tree);
        self.freed.clear();
        (self.untried, self.lin, self.s2) = (other.untried, other.lin, other.s2);
    }

    /// Score by the running sums.
    pub fn score(&self) -> Score {
        Score { untried: self.untried, lin: self.lin, s2: self.s2 }
    }

    /// Sums the score again in task order, so that rounding does not pile up.
    pub fn rescore(&mut self, instance: &Instance) -> Score {
        let (mut untried, mut lin, mut s2) = (0, 0.0, 0.0);
        for option in self.option.iter().filter(|o| **o != NONE) {
            let opt = &instance.opts[*option as usize];
            untried += u64::from(opt.untried);
            lin += opt.lin;
            s2 += opt.s2;
        }
        (self.untried, self.lin, self.s2) = (untried, lin, s2);
        self.score()
    }

    pub fn is_placed(&self, job: usize) -> bool {
        (self.queue_at[job] as usize) < self.placed
    }

    /// First task on `server`; follow with [`State::task_after`].
    pub fn first_task(&self, server: usize) -> u32 {
        self.head[server]
    }

    pub fn task_after(&self, task: u32) -> u32 {
        self.next[task as usize]
    }

    /// True when one more task of type `ty` fits on `server` now.
    pub fn fits(&self, instance: &Instance, ty: usize, server: usize) -> bool {
        let free = &self.free[server * instance.kinds..(server + 1) * instance.kinds];
        instance.row(ty).iter().zip(free).all(|(a, f)| a <= f)
    }

    /// First server from `lo` to before `hi` with room for one more task of type `ty`.
    pub fn first_fit(&self, instance: &Instance, ty: usize, lo: u32, hi: u32) -> Option<u32> {
        let (lo, hi) = (lo as usize, hi as usize);
        let found = match self.tree.is_used() {
            true => self.tree.first_fit(lo, hi, instance.row(ty)),
            false => (lo..hi).find(|server| self.fits(instance, ty, *server)),
        };
        found.map(narrow)
    }

    /// True when a task of type `ty` fits once one of type `other` has left `server`.
    pub fn fits_without(
        &self,
        instance: &Instance,
        ty: usize,
        server: usize,
        other: usize,
    ) -> bool {
        let free = &self.free[server * instance.kinds..(server + 1) * instance.kinds];
        let rows = instance.row(ty).iter().zip(instance.row(other));
        rows.zip(free).all(|((a, leaving), f)| *a <= f + leaving)
    }

    /// Puts a task on a server where it fits, by option `option`.
    pub fn put(&mut self, instance: &Instance, task: usize, server: u32, option: usize) {
        debug_assert!(self.server[task] == NONE);
        self.work += 1;
        let opt = &instance.opts[option];
        self.server[task] = server;
        self.option[task] = narrow(option);
        self.untried += u64::from(opt.untried);
        self.lin += opt.lin;
        self.s2 += opt.s2;
        let s = server as usize;
        let head = self.head[s];
        (self.next[task], self.prev[task]) = (head, NONE);
        if head != NONE {
            self.prev[head as usize] = narrow(task);
        }
        self.head[s] = narrow(task);
        self.shift_free::<true>(instance, instance.task_type[task] as usize, s);
    }

    /// Takes a task off the server that it is on.
    pub fn take(&mut self, instance: &Instance, task: usize) {
        let server = self.server[task] as usize;
        let opt = &instance.opts[self.option[task] as usize];
        self.untried -= u64::from(opt.untried);
        self.lin -= opt.lin;
        self.s2 -= opt.s2;
        let (next, prev) = (self.next[task], self.prev[task]);
        if prev == NONE {
            self.head[server] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
        (self.server[task], self.option[task]) = (NONE, NONE);
        self.shift_free::<false>(instance, instance.task_type[task] as usize, server);
        self.note_freed(server);
    }

    /// Takes what a type requests from a server (`PUT`), or gives it back.
    fn shift_free<const PUT: bool>(&mut self, instance: &Instance, ty: usize, server: usize) {
        let kinds = instance.kinds;
        let free = &mut self.free[server * kinds..(server + 1) * kinds];
        for (f, a) in free.iter_mut().zip(instance.row(ty)) {
            *f += if PUT { -a } else { *a };
        }
        self.note_free(server);
    }

    fn note_free(&mut self, server: usize) {
        let kinds = self.total_free.len();
        if self.tree.is_used() {
            self.tree.update(server, &self.free[server * kinds..(server + 1) * kinds]);
        }
    }

    fn note_freed(&mut self, server: usize) {
        let server = narrow(server);
        if self.tree.is_used() && !self.freed.contains(&server) {
            if self.freed.len() == FREED_SERVERS_MAX {
                self.freed.remove(0);
            }
            self.freed.push(server);
        }
    }

    /// Whether a job is possible, and its whole request fits beside the jobs placed.
    pub fn may_fit(&self, instance: &Instance, job: usize) -> bool {
        let need = instance.job_row(job).iter();
        instance.possible[job] && need.zip(&self.total_free).all(|(a, f)| a <= f)
    }

    /// Moves a job, whose tasks are all placed or all not, to its part of the queue.
    pub fn mark(&mut self, instance: &Instance, job: usize, placed: bool) {
        debug_assert!(self.is_placed(job) != placed);
        let to = if placed { self.placed } else { self.placed - 1 };
        let from = self.queue_at[job] as usize;
        let other = self.queue[to];
        self.queue.swap(from, to);
        self.queue_at[job] = narrow(to);
        self.queue_at[other as usize] = narrow(from);
        let sign = if placed { -1 } else { 1 };
        self.placed = if placed { self.placed + 1 } else { self.placed - 1 };
        for (t, a) in self.total_free.iter_mut().zip(instance.job_row(job)) {
            *t += sign * a;
        }
    }

    /// Takes all tasks of a placed job off their servers.
    pub fn remove_job(&mut self, instance: &Instance, job: usize) {
        for task in instance.job_tasks(job) {
            self.take(instance, task);
        }
        self.mark(instance, job, false);
    }

    /// Places all tasks of a pending job where they are worth most at the prices in `values`, or
    /// changes nothing.
    pub fn insert_job(
        &mut self,
        instance: &Instance,
        values: &Values,
        job: usize,
        fit: Fit,
    ) -> bool {
        self.work += 1;
        if !self.may_fit(instance, job) {
            return false;
        }
        let range = instance.job_tasks(job);
        let spread = instance.spread[job];
        let mut done = range.start;
        let mut before: Option<(usize, Place)> = None;
        for at in range.clone() {
            let task = instance.insert_order[at] as usize;
            let ty = instance.task_type[task] as usize;
            // Filling a server only makes it a better choice for the next task of its type.
            let again = before.filter(|(last, place)| {
                *last == ty && !spread && self.fits(instance, ty, place.server as usize)
            });
            let place = again.map(|(_, place)| place);
            let Some(place) = place.or_else(|| self.choose(instance, values, ty, fit)) else {
                break;
            };
            before = Some((ty, place));
            self.put(instance, task, place.server, place.option);
            if spread {
                self.shut(place.server as usize);
            }
            done = at + 1;
        }
        let placed = &instance.insert_order[range.start..done];
        if spread {
            self.open(placed);
        }
        if done < range.end {
            placed.iter().for_each(|task| self.take(instance, *task as usize));
            return false;
        }
        self.mark(instance, job, true);
        true
    }

    /// Inserts a pending job if that raises the score.
    pub fn insert_if_better(
        &mut self,
        instance: &Instance,
        values: &Values,
        job: usize,
        fit: Fit,
    ) -> bool {
        let before = self.score().scalar(instance);
        let inserted = self.insert_job(instance, values, job, fit);
        if inserted && self.score().scalar(instance) <= before {
            self.remove_job(instance, job);
            return false;
        }
        inserted
    }

    /// Makes a server look full while the rest of a spread job is placed.
    pub fn shut(&mut self, server: usize) {
        self.change_first_kind(server, -SHUT);
    }

    /// Opens the servers of tasks again that were shut.
    pub fn open(&mut self, tasks: &[u32]) {
        for task in tasks {
            self.change_first_kind(self.server[*task as usize] as usize, SHUT);
        }
    }

    fn change_first_kind(&mut self, server: usize, by: i32) {
        self.free[server * self.total_free.len()] += by;
        self.note_free(server);
    }

    /// Best server for one task of type `ty`: largest reduced value minus the dual price of the
    /// capacity that is left idle there.
    pub fn choose(
        &mut self,
        instance: &Instance,
        values: &Values,
        ty: usize,
        fit: Fit,
    ) -> Option<Place> {
        let (mut best, mut found) = (f64::NEG_INFINITY, None);
        for at in instance.type_opts(ty) {
            let option = values.by_reduced[at] as usize;
            self.work += 1;
            if values.reduced[option] <= best {
                break;
            }
            let Some((server, left)) = self.choose_in(instance, values, (ty, option), fit) else {
                continue;
            };
            let value = values.reduced[option] - f64::from(fit.tight * left);
            if value > best {
                best = value;
                found = Some(Place { server: narrow(server), option });
            }
        }
        let place = found?;
        if !instance.merged {
            return Some(place);
        }
        // In a merged zone the server may have an edge of its own.
        let option = instance.option_on(ty, place.server).unwrap_or(place.option);
        Some(Place { option, ..place })
    }

    /// A server of one option, with the price of its leftover: the best of a window that begins at
    /// the first that fits, and of the servers freed lately.
    fn choose_in(
        &mut self,
        instance: &Instance,
        values: &Values,
        (ty, option): (usize, usize),
        fit: Fit,
    ) -> Option<(usize, f32)> {
        let request = instance.row(ty);
        let opt = &instance.opts[option];
        let (lo, hi) = (opt.lo as usize, opt.hi as usize);
        let mut first = lo;
        if hi - lo > WINDOW_SERVERS {
            self.work += 12;
            let start = lo + fit.start as usize % (hi - lo);
            let found = self.tree.first_fit(start, hi, request);
            first = found.or_else(|| self.tree.first_fit(lo, start, request))?;
        } else if self.tree.is_used() {
            first = self.tree.first_fit(lo, hi, request)?;
        }
        let window = first..(first + WINDOW_SERVERS).min(hi);
        self.work += (window.len() / 16) as u64;
        let freed = self.freed.iter().map(|s| *s as usize);
        let freed = freed.filter(|s| (lo..hi).contains(s) && !window.contains(s));
        let mut best: Option<(usize, f32)> = None;
        for server in window.clone().chain(freed) {
            if let Some(left) = self.leftover(request, server, &values.free_price)
                && best.is_none_or(|(_, least)| left < least)
            {
                best = Some((server, left));
            }
        }
        best
    }

    /// Price of what stays free on a server after a request, if the request fits.
    fn leftover(&self, request: &[i32], server: usize, price: &[f32]) -> Option<f32> {
        let free = &self.free[server * request.len()..(server + 1) * request.len()];
        let mut left = 0.0;
        for ((a, f), p) in request.iter().zip(free).zip(price) {
            if a > f {
                return None;
            }
            left += p * (f - a) as f32;
        }
        Some(left)
    }

    /// Makes a plan of servers given by task; jobs that do not fit there stay pending.
    pub fn with(instance: &Instance, server: &[u32]) -> State {
        let mut state = State::new(instance);
        for job in 0..instance.jobs() {
            state.place_as(instance, job, &server[instance.job_tasks(job)]);
        }
        state
    }

    /// Places a pending job on `servers`, if the job may run there and all of it fits.
    pub fn place_as(&mut self, instance: &Instance, job: usize, servers: &[u32]) {
        let range = instance.job_tasks(job);
        if !instance.possible[job] {
            return;
        }
        for (at, task) in range.clone().enumerate() {
            let (ty, server) = (instance.task_type[task] as usize, servers[at]);
            let option = if server == NONE { None } else { instance.option_on(ty, server) };
            let twice = instance.spread[job] && servers[..at].contains(&server);
            match option {
                Some(option) if !twice && self.fits(instance, ty, server as usize) => {
                    self.put(instance, task, server, option);
                }
                _ => {
                    (range.start..task).for_each(|task| self.take(instance, task));
                    return;
                }
            }
        }
        self.mark(instance, job, true);
    }
}
