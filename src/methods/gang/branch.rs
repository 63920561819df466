// SPDX-License-Identifier: GPL-3.0-or-later
//! Branch and bound in input order, pruned by the Lagrangian bound.
//!
//! Jobs, tasks and servers are tried in input order and "pending" last, and only a strictly better
//! leaf replaces the incumbent, so among equal assignments the lexicographically first one wins.

use super::dual::Prices;
use super::instance::{Instance, NONE, narrow};
use super::state::{Score, State};

/// Most tasks of a problem that `exact` accepts.
pub const EXACT_TASKS_MAX: usize = 256;
/// Most servers of a problem that `exact` accepts.
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
    /// The best assignment found, if one is as good as the start.
    pub server: Option<Vec<u32>>,
    /// Whether the whole tree was searched or pruned.
    pub complete: bool,
    pub nodes: u64,
}

struct Search<'a> {
    instance: &'a Instance,
    state: State,
    /// Reduced value that a type loses on a server against its best, by (type, server).
    loss: Vec<f64>,
    /// Best reduced value of a type.
    type_best: Vec<f64>,
    /// Job with the same task types right before, or `NONE`.
    twin: Vec<u32>,
    incumbent: Score,
    best: Option<Vec<u32>>,
    nodes: u64,
    nodes_max: u64,
    stop: &'a dyn Fn() -> bool,
    stopped: bool,
}

/// Searches for an assignment at least as good as `start`.
pub fn search(
    instance: &Instance,
    prices: &Prices,
    start: &Score,
    nodes_max: u64,
    stop: &dyn Fn() -> bool,
) -> Tree {
    let n = instance.servers;
    let kinds = instance.kinds;
    let mut loss = vec![f64::INFINITY; instance.types * n];
    let mut type_best = vec![f64::NEG_INFINITY; instance.types];
    for ty in 0..instance.types {
        let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
        let reduced = |s: usize| {
            let option = instance.option_table[ty * n + s];
            let opt = instance.opts.get(option as usize)?;
            let row = &prices.lambda[opt.zone as usize * kinds..][..kinds];
            let price: f64 = row.iter().zip(request).map(|(l, a)| l * a).sum();
            let untried = f64::from(opt.untried) * instance.untried_weight;
            Some(opt.lin + prices.theta * opt.s2 + untried - price)
        };
        type_best[ty] = (0..n).filter_map(reduced).fold(f64::NEG_INFINITY, f64::max);
        for s in 0..n {
            if let Some(reduced) = reduced(s) {
                loss[ty * n + s] = type_best[ty] - reduced;
            }
        }
    }
    let mut search = Search {
        instance,
        state: State::new(instance),
        loss,
        type_best,
        twin: twins(instance),
        incumbent: *start,
        best: None,
        nodes: 0,
        nodes_max,
        stop,
        stopped: false,
    };
    search.visit_job(0, prices.bound);
    Tree { server: search.best, complete: !search.stopped, nodes: search.nodes }
}

fn job_value(instance: &Instance, type_best: &[f64], job: usize) -> f64 {
    if !instance.possible[job] {
        return f64::NEG_INFINITY;
    }
    let types = &instance.task_type[instance.job_tasks(job)];
    types.iter().map(|ty| type_best[*ty as usize]).sum()
}

fn twins(instance: &Instance) -> Vec<u32> {
    let types = |job: usize| (instance.spread[job], &instance.task_type[instance.job_tasks(job)]);
    let mut last = std::collections::HashMap::new();
    let jobs = 0..instance.jobs();
    jobs.map(|job| last.insert(types(job), narrow(job)).unwrap_or(NONE)).collect()
}

impl Search<'_> {
    /// Whether nothing below a tree node with this bound can replace the incumbent.
    fn prune(&mut self, bound: f64) -> bool {
        self.nodes += 1;
        if self.nodes >= self.nodes_max || (self.nodes.is_multiple_of(256) && (self.stop)()) {
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
        let value = job_value(self.instance, &self.type_best, job);
        let twin = self.twin[job];
        let twin_waits = twin != NONE && !self.state.is_placed(twin as usize);
        if self.instance.possible[job] && !twin_waits {
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
            self.visit_task(job, task + 1, bound - self.loss[ty * n + server]);
            self.state.take(instance, task);
            if self.stopped {
                return;
            }
        }
    }

    /// Whether an earlier task of a spread job is on the server.
    fn is_second(&self, job: usize, task: usize, server: u32) -> bool {
        let first = self.instance.job_start[job] as usize;
        self.instance.spread[job] && self.state.server[first..task].contains(&server)
    }

    /// Whether an earlier server of the class is as empty as the given one, so that placing there
    /// is the same.
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
