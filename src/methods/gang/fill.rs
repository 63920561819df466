// SPDX-License-Identifier: GPL-3.0-or-later
//! Filling servers one by one with the best pattern of the tasks of open gangs.
//!
//! Inserting gang by gang leaves on every server a remainder that nothing fits. Here a server is
//! filled at once, by branch and bound (`pattern.rs`), from the tasks of many gangs; gangs open by
//! density, and at the end those that lack most are dropped until the others are complete. Passes
//! over all servers correct the prices of task types, by how early a type was gone or how much of
//! it was left, as in sequential value correction for cutting stock (Mukhacheva and others 2000;
//! Belov and Scheithauer 2007). `rework.rs` mends what a pass leaves.

use super::clock::{Clock, READ_EVERY};
use super::instance::{Instance, NONE, narrow};
use super::pattern::Pattern;
use super::state::{Fit, State};
use super::values::Values;
use phalanx_core::random::Stream;

/// Evaluations of the search for one server's pattern; a search that ends early has a good filling
/// too.
const EVALUATIONS: u32 = 1_000;
/// Relative difference of fillings of a server below which they are equally good.
const TOLERANCE: f64 = 0.004;
/// Task types kept open at once: enough to fill any remainder; more only make passes longer.
const OPEN_TYPES_MAX: usize = 400;
/// Share of the cluster's free amounts that open gangs may need.
const OPEN_SHARE: f64 = 0.9;
/// Growth of a task's profit over a whole pass after its gang opened.
const URGENCY: f64 = 3.0;
/// Pending gangs up to which a repair tries to insert all; of more it tries a tenth of that number,
/// so that it takes no longer than the reworks before it.
const INSERTS_MAX: usize = 1_000;

/// Aim of the search for the filling of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goal {
    /// The filling with the highest reduced values at the task prices, raised for tasks that have
    /// been open for long at this part of the pass.
    Reduced { now: f64 },
    /// The filling with the highest reduced values and sizes of tasks, whatever fits.
    Size,
    /// The gangs' worth, shared among their tasks; a filling worth less than `least` is as bad as
    /// none.
    Worth { least: f64 },
}

/// Task lists, prices and scratch space.
#[derive(Debug)]
pub struct Filler<'a> {
    pub instance: &'a Instance,
    values: &'a Values,
    /// Price by type: what a task must be worth beyond the resources that it takes.
    price: Vec<f64>,
    /// Base by type, from which a task's worth is counted when only worth matters.
    base: Vec<f64>,
    /// Resource price of a task on its best server, by type, and the mean over all tasks.
    size: Vec<f64>,
    mean_size: f64,
    /// Tasks of possible gangs, by type.
    total: Vec<f64>,
    pub state: State,
    /// Open tasks by type, oldest gang first.
    pub open: Vec<Vec<u32>>,
    /// Types with open tasks.
    open_types: Vec<u32>,
    /// Size of all open tasks.
    pub open_size: f64,
    /// Share of the servers filled when a type was opened, and when it was used up.
    since: Vec<f64>,
    gone: Vec<f64>,
    /// Types of gangs whose tasks must be on different servers.
    spread: Vec<bool>,
    /// Possible gangs by density.
    pub order: Vec<u32>,
    /// Whether a complete plan is mended, so that only worth counts.
    mends: bool,
    pattern: Pattern,
    pub rng: Stream,
}

impl<'a> Filler<'a> {
    /// Makes a filler whose corrections begin at `price`, by type.
    pub fn new(instance: &'a Instance, values: &'a Values, price: &[f64], rng: Stream) -> Self {
        let types = instance.types;
        let mut filler = Self {
            instance,
            values,
            price: price.to_vec(),
            base: vec![f64::INFINITY; types],
            size: vec![0.0; types],
            mean_size: 0.0,
            total: instance.counts.by_type(types),
            state: State::new(instance),
            open: vec![Vec::new(); types],
            open_types: Vec::new(),
            open_size: 0.0,
            since: vec![0.0; types],
            gone: vec![0.0; types],
            spread: vec![false; types],
            order: Vec::new(),
            mends: false,
            pattern: Pattern::default(),
            rng,
        };
        filler.set_sizes();
        filler.set_bases();
        filler.set_order();
        filler
    }

    fn set_sizes(&mut self) {
        let instance = self.instance;
        for ty in (0..instance.types).filter(|ty| self.total[*ty] > 0.0) {
            let best = self.values.best_option(instance, ty);
            self.size[ty] = self.values.priced(instance.row(ty), instance.opts[best].zone);
        }
        let sum: f64 = self.size.iter().zip(&self.total).map(|(s, n)| s * n).sum();
        self.mean_size = sum / self.total.iter().sum::<f64>().max(1.0);
    }

    /// Shares the worth of every gang among its tasks by size; a type in several gangs counts with
    /// the gang that is worth most by size.
    fn set_bases(&mut self) {
        let instance = self.instance;
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let types = &instance.task_type[instance.job_tasks(job)];
            let worth = |ty: usize| {
                self.values.reduced[self.values.best_option(instance, ty)] + self.size[ty]
            };
            let all: f64 = types.iter().map(|ty| worth(*ty as usize)).sum();
            let size: f64 = types.iter().map(|ty| self.size[*ty as usize]).sum();
            for ty in types.iter().map(|ty| *ty as usize) {
                let share = self.size[ty] * all / size.max(1e-300);
                self.base[ty] = self.base[ty].min(worth(ty) - share);
            }
            for ty in types {
                self.spread[*ty as usize] |= instance.spread[job];
            }
        }
    }

    /// Orders possible gangs by worth, less task prices, per size.
    fn set_order(&mut self) {
        let instance = self.instance;
        let density = |job: usize| {
            let (mut value, mut rest) = (0.0, 0.0);
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                value += self.values.best_worth[ty];
                rest += (self.values.best_worth[ty] - self.price[ty]).max(1e-9);
            }
            value / rest
        };
        let possible = (0..instance.jobs()).filter(|j| instance.possible[*j]);
        let mut order: Vec<(f64, u32)> = possible.map(|j| (density(j), narrow(j))).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.order = order.into_iter().map(|(_, job)| job).collect();
    }

    /// Price of an empty server.
    pub fn server_size(&self, server: usize) -> f64 {
        let kinds = self.instance.kinds;
        let row = &self.instance.capacity[server * kinds..(server + 1) * kinds];
        self.values.priced(row, self.instance.zone_of[server])
    }

    /// Price of what is free on a server.
    pub fn unused(&self, server: usize) -> f64 {
        let kinds = self.instance.kinds;
        let row = &self.state.free[server * kinds..(server + 1) * kinds];
        self.values.priced(row, self.instance.zone_of[server])
    }

    /// Fills all servers from nothing; false when there was no time for it.
    pub fn pass(&mut self, clock: Clock<'_>) -> bool {
        let instance = self.instance;
        self.state = State::new(instance);
        self.forget_open();
        self.gone.fill(0.0);
        self.set_order();
        let mut servers: Vec<u32> = (0..narrow(instance.servers)).collect();
        self.rng.shuffle(&mut servers);
        let mut left: f64 = (0..instance.servers).map(|s| self.server_size(s)).sum();
        let mut next = 0;
        for (at, server) in servers.iter().enumerate() {
            if at % READ_EVERY == 0 && clock.expired() {
                return false;
            }
            let now = at as f64 / servers.len() as f64;
            while next < self.order.len()
                && self.open_size < OPEN_SHARE * left
                && self.open_types.len() < OPEN_TYPES_MAX
            {
                self.open_job(self.order[next] as usize, now);
                next += 1;
            }
            self.fill_server(*server, Goal::Reduced { now });
            left -= self.server_size(*server as usize);
        }
        for (at, server) in servers.iter().enumerate() {
            if at % READ_EVERY == 0 && clock.expired() {
                return false;
            }
            self.fill_server(*server, Goal::Size);
        }
        true
    }

    /// Makes a gang's tasks available.
    pub fn open_job(&mut self, job: usize, now: f64) {
        for task in self.instance.job_tasks(job) {
            self.open_task(narrow(task), now);
        }
    }

    pub fn open_task(&mut self, task: u32, now: f64) {
        let ty = self.instance.task_type[task as usize] as usize;
        if self.open[ty].is_empty() {
            self.open_types.push(narrow(ty));
            self.since[ty] = now;
        }
        self.open[ty].push(task);
        self.open_size += self.size[ty];
    }

    /// Takes a task out of the open ones, if it is there.
    pub fn close_task(&mut self, task: u32) {
        let ty = self.instance.task_type[task as usize] as usize;
        if let Some(at) = self.open[ty].iter().position(|t| *t == task) {
            self.open[ty].remove(at);
            self.open_size -= self.size[ty];
        }
    }

    /// Drops types without open tasks from the list.
    pub fn drop_closed_types(&mut self) {
        let open = &self.open;
        self.open_types.retain(|ty| !open[*ty as usize].is_empty());
    }

    pub fn forget_open(&mut self) {
        self.open.iter_mut().for_each(Vec::clear);
        self.open_types.clear();
        self.open_size = 0.0;
    }

    /// Starts from a complete plan, so that from then on only worth counts.
    pub fn mend_from(&mut self, plan: &State) {
        self.mends = true;
        self.state.copy_from(plan);
        self.forget_open();
    }

    /// Fills a server for the most worth, or not at all for less than `least`; returns the worth
    /// placed, counted as by [`Self::gain`].
    pub fn fill_for_worth(&mut self, server: u32, least: f64) -> f64 {
        self.fill_server(server, Goal::Worth { least })
    }

    /// A task's share of its gang's worth, less what the task loses on the server.
    pub fn gain(&self, ty: usize, option: usize) -> f64 {
        self.values.worth[option] - self.base[ty]
    }

    /// Fills what is free on a server; returns the gain.
    fn fill_server(&mut self, server: u32, goal: Goal) -> f64 {
        self.set_items(server, goal);
        let tolerance = if let Goal::Worth { least } = goal {
            self.pattern.require(least);
            0.0
        } else {
            TOLERANCE
        };
        let instance = self.instance;
        self.pattern.search(EVALUATIONS, tolerance, |ty| instance.row(ty as usize));
        let best = std::mem::take(&mut self.pattern.best);
        let mut gain = 0.0;
        let mut emptied = false;
        for (ty, count) in &best {
            let ty = *ty as usize;
            for _ in 0..*count {
                gain += self.place(ty, server);
            }
            if self.open[ty].is_empty() {
                self.gone[ty] = if let Goal::Reduced { now } = goal { now } else { 1.0 };
                emptied = true;
            }
        }
        self.pattern.best = best;
        if emptied {
            self.drop_closed_types();
        }
        gain
    }

    /// Gives the open tasks that fit to the search for a pattern.
    fn set_items(&mut self, server: u32, goal: Goal) {
        let instance = self.instance;
        let (kinds, s) = (instance.kinds, server as usize);
        let zone = instance.zone_of[s];
        let price = &self.values.price[zone as usize * kinds..(zone as usize + 1) * kinds];
        self.pattern.clear(&self.state.free[s * kinds..(s + 1) * kinds], price);
        for at in 0..self.open_types.len() {
            let ty = self.open_types[at] as usize;
            let row = instance.row(ty);
            if !self.pattern.admits(row) {
                continue;
            }
            let Some(option) = instance.option_on(ty, server) else { continue };
            let reduced = self.values.worth[option] - self.price[ty];
            let size = self.values.priced(row, zone);
            let profit = match goal {
                Goal::Worth { .. } => self.gain(ty, option),
                Goal::Size => reduced + size,
                Goal::Reduced { now } => reduced * (1.0 + URGENCY * (now - self.since[ty])),
            };
            let most = if self.spread[ty] { 1 } else { narrow(self.open[ty].len()) };
            self.pattern.add(narrow(ty), profit, most, row);
        }
    }

    /// Puts the oldest open task of a type on a server; returns its gain.
    fn place(&mut self, ty: usize, server: u32) -> f64 {
        let instance = self.instance;
        let taken = |task: u32| {
            let job = instance.job_of[task as usize] as usize;
            instance.spread[job] && self.state.server[instance.job_tasks(job)].contains(&server)
        };
        let Some(at) = self.open[ty].iter().position(|task| !taken(*task)) else { return 0.0 };
        let Some(option) = instance.option_on(ty, server) else { return 0.0 };
        let task = self.open[ty].remove(at);
        self.open_size -= self.size[ty];
        self.state.put(instance, task as usize, server, option);
        self.gain(ty, option)
    }

    /// Corrects the task prices: up where a type was gone early, down where tasks are left.
    pub fn correct_prices(&mut self, step: f64) {
        let step = step * self.mean_size;
        for ty in (0..self.instance.types).filter(|ty| self.total[*ty] > 0.0) {
            let left = self.open[ty].len() as f64 / self.total[ty];
            if left > 0.0 {
                self.price[ty] -= step * left;
            } else if self.gone[ty] > 0.0 {
                self.price[ty] += step * (1.0 - self.gone[ty]);
            }
        }
    }

    /// Drops gangs that lack most tasks until all remaining ones are complete, each time filling
    /// the room that this frees, and then inserts what still fits.
    pub fn complete(&mut self) {
        let instance = self.instance;
        let mut lacking = self.begun();
        let goal = if self.mends { Goal::Worth { least: 0.0 } } else { Goal::Size };
        while let Some(worst) = self.worst(&lacking) {
            let job = lacking.swap_remove(worst) as usize;
            instance.job_tasks(job).for_each(|task| self.close_task(narrow(task)));
            self.drop_closed_types();
            for task in instance.job_tasks(job) {
                let server = self.state.server[task];
                if server != NONE {
                    self.state.take(instance, task);
                    self.fill_server(server, goal);
                }
            }
            let placed = &self.state.server;
            lacking.retain(|job| placed[instance.job_tasks(*job as usize)].contains(&NONE));
        }
        for job in 0..instance.jobs() {
            let complete = !self.state.server[instance.job_tasks(job)].contains(&NONE);
            if complete && !self.state.is_placed(job) {
                self.state.mark(instance, job, true);
            }
        }
        self.forget_open();
        self.insert_rest();
        self.state.rescore(instance);
    }

    /// Gangs with some tasks placed and some not; closes gangs that have none placed.
    fn begun(&mut self) -> Vec<u32> {
        let instance = self.instance;
        let mut begun = Vec::new();
        for job in (0..instance.jobs()).filter(|job| instance.possible[*job]) {
            if self.state.is_placed(job) {
                continue;
            }
            let servers = &self.state.server[instance.job_tasks(job)];
            let missing = servers.iter().filter(|s| **s == NONE).count();
            if missing == servers.len() && self.open_size > 0.0 {
                instance.job_tasks(job).for_each(|task| self.close_task(narrow(task)));
            } else if missing > 0 && missing < servers.len() {
                begun.push(narrow(job));
            }
        }
        self.drop_closed_types();
        begun
    }

    /// Position of the gang in `lacking` that lacks the largest part of its size.
    fn worst(&self, lacking: &[u32]) -> Option<usize> {
        let lack = |job: u32| {
            let (mut missing, mut all) = (0.0, 1e-300);
            for task in self.instance.job_tasks(job as usize) {
                let size = self.size[self.instance.task_type[task] as usize];
                all += size;
                missing += if self.state.server[task] == NONE { size } else { 0.0 };
            }
            missing / all
        };
        let parts = lacking.iter().enumerate().map(|(at, job)| (lack(*job), at));
        parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, at)| at)
    }

    /// Inserts pending gangs by density; where there are very many, some from a random one on.
    fn insert_rest(&mut self) {
        let instance = self.instance;
        let pending = instance.jobs() - self.state.placed;
        let some = self.mends && pending > INSERTS_MAX;
        let first = if some { self.rng.below(self.order.len()) } else { 0 };
        let most = if some { INSERTS_MAX / 10 } else { self.order.len() };
        for at in 0..most.min(self.order.len()) {
            let job = self.order[(first + at) % self.order.len()] as usize;
            if !self.state.is_placed(job) {
                self.state.insert_if_better(instance, self.values, job, Fit::default());
            }
        }
    }
}
