// SPDX-License-Identifier: GPL-3.0-or-later
//! Branch and bound in input order, pruned by the Lagrangian bound.
//!
//! Jobs, tasks and servers are tried in input order and "pending" last, and only a strictly better
//! leaf replaces the incumbent, so among equal assignments the lexicographically first one wins.

use super::clock::Clock;
use super::instance::{Instance, NONE, narrow};
use super::start::Start;
use super::state::{Score, State};
use super::values::Values;

/// Tasks of one problem that `exact` accepts.
pub const EXACT_TASKS_MAX: usize = 256;
/// Servers of one problem that `exact` accepts.
pub const EXACT_SERVERS_MAX: usize = 64;

/// True when the tree search accepts a problem of this size.
pub fn fits(instance: &Instance) -> bool {
    instance.tasks() <= EXACT_TASKS_MAX
        && instance.servers <= EXACT_SERVERS_MAX
        && !instance.option_table.is_empty()
}

/// Result of a tree search.
#[derive(Debug)]
pub struct Tree {
    /// The best assignment found that is as good as the start, if any.
    pub server: Option<Vec<u32>>,
    /// The whole tree was searched or pruned.
    pub complete: bool,
    pub nodes: u64,
}

struct Search<'a> {
    instance: &'a Instance,
    values: &'a Values,
    state: State,
    /// Job with the same task types right before, or `NONE`.
    twin: Vec<u32>,
    incumbent: Score,
    best: Option<Vec<u32>>,
    nodes: u64,
    nodes_max: u64,
    clock: Clock<'a>,
    stopped: bool,
}

/// Searches for an assignment at least as good as that of `start`.
pub fn search(instance: &Instance, start: &Start, nodes_max: u64, clock: Clock<'_>) -> Tree {
    let mut search = Search {
        instance,
        values: &start.values,
        state: State::new(instance),
        twin: twins(instance),
        incumbent: start.state.score(),
        best: None,
        nodes: 0,
        nodes_max,
        clock,
        stopped: false,
    };
    search.visit_job(0, start.prices.bound);
    Tree { server: search.best, complete: !search.stopped, nodes: search.nodes }
}

fn twins(instance: &Instance) -> Vec<u32> {
    let types = |job: usize| (instance.spread[job], &instance.task_type[instance.job_tasks(job)]);
    let mut last = std::collections::HashMap::new();
    let jobs = 0..instance.jobs();
    jobs.map(|job| last.insert(types(job), narrow(job)).unwrap_or(NONE)).collect()
}

impl Search<'_> {
    /// True when nothing below a node with this bound can replace the incumbent.
    fn prune(&mut self, bound: f64) -> bool {
        self.nodes += 1;
        if self.nodes >= self.nodes_max || (self.nodes.is_multiple_of(256) && self.clock.expired())
        {
            self.stopped = true;
        }
        let value = self.incumbent.scalar(self.instance);
        // Until a leaf is found the start is only a value: one as good must be reached.
        let slack = 1e-10 * value.abs().max(1e-3);
        self.stopped || if self.best.is_none() { bound < value - slack } else { bound <= value }
    }

    fn visit_job(&mut self, job: usize, bound: f64) {
        if self.prune(bound) {
            return;
        }
        if job == self.instance.jobs() {
            self.leaf();
            return;
        }
        if !self.instance.possible[job] {
            self.visit_job(job + 1, bound);
            return;
        }
        let types = &self.instance.task_type[self.instance.job_tasks(job)];
        let value: f64 = types.iter().map(|ty| self.best_reduced(*ty as usize)).sum();
        let twin = self.twin[job];
        if twin == NONE || self.state.is_placed(twin as usize) {
            // Placing a job that the bound counted as pending changes the bound by its value.
            let first = self.instance.job_start[job] as usize;
            self.visit_task(job, first, bound - value.max(0.0) + value);
        }
        self.visit_job(job + 1, bound - value.max(0.0));
    }

    fn visit_task(&mut self, job: usize, task: usize, bound: f64) {
        if self.prune(bound) {
            return;
        }
        let instance = self.instance;
        if task == instance.job_start[job + 1] as usize {
            self.state.mark(instance, job, true);
            self.visit_job(job + 1, bound);
            self.state.mark(instance, job, false);
            return;
        }
        let (n, ty) = (instance.servers, instance.task_type[task] as usize);
        // Equal tasks of one job go to ascending servers: the others are permutations.
        let before = (instance.job_start[job] as usize..task)
            .rev()
            .find(|t| instance.task_type[*t] as usize == ty);
        let from = before.map_or(0, |t| instance.input_of[self.state.server[t] as usize] as usize);
        for input in from..n {
            let server = instance.internal_of[input] as usize;
            let option = instance.option_table[ty * n + server];
            if option == NONE || !self.state.fits(instance, ty, server) {
                continue;
            }
            if self.has_double(server, input) || self.is_second(job, task, narrow(server)) {
                continue;
            }
            self.state.put(instance, task, narrow(server), option as usize);
            let loss = self.best_reduced(ty) - self.values.reduced[option as usize];
            self.visit_task(job, task + 1, bound - loss);
            self.state.take(instance, task);
            if self.stopped {
                return;
            }
        }
    }

    fn best_reduced(&self, ty: usize) -> f64 {
        self.values.reduced[self.values.best_option(self.instance, ty)]
    }

    /// An earlier task of a spread job is on this server.
    fn is_second(&self, job: usize, task: usize, server: u32) -> bool {
        let first = self.instance.job_start[job] as usize;
        self.instance.spread[job] && self.state.server[first..task].contains(&server)
    }

    /// An earlier server of the same class is as empty as this one: placing there is the same.
    fn has_double(&self, server: usize, input: usize) -> bool {
        let instance = self.instance;
        if self.state.first_task(server) != NONE {
            return false;
        }
        let class = instance.class_of[server];
        let zone = instance.zone_of[server] as usize;
        let range = instance.zone_start[zone] as usize..instance.zone_start[zone + 1] as usize;
        let mut others = range.filter(|s| instance.class_of[*s] == class);
        others.any(|s| (instance.input_of[s] as usize) < input && self.state.first_task(s) == NONE)
    }

    fn leaf(&mut self) {
        let score = self.state.rescore(self.instance);
        let enough = match self.best {
            Some(_) => score.beats(&self.incumbent, self.instance),
            None => !self.incumbent.beats(&score, self.instance),
        };
        if enough {
            self.incumbent = score;
            self.best = Some(self.state.server.clone());
        }
    }
}
