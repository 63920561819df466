// SPDX-License-Identifier: GPL-3.0-or-later
//! Filling servers one by one with the best pattern of the tasks of open gangs.
//!
//! Inserting gang by gang leaves on every server a remainder that nothing fits. Here a server is
//! filled at once, by branch and bound, from the tasks of many gangs; gangs open by density, and
//! at the end those that lack most are dropped until the others are complete. Passes over all
//! servers learn wages of task types, by how early a type was gone or how much of it was left, as
//! in sequential value correction for cutting stock (Mukhacheva and others 2000; Belov and
//! Scheithauer 2007). What a pass leaves is mended by `rework.rs`.

use super::guide::Guide;
use super::instance::{Instance, NONE, narrow};
use super::pattern::Pattern;
use super::prices::Prices;
use super::rng::Stream;
use super::state::{State, Taste};

/// Items that the search for a server's pattern looks at; where servers are many, on a rework and
/// where no task cares on which it runs.
const LOOKS: u32 = 1_000;
const LOOKS_MANY: u32 = 300;
/// Fillings of a server that differ by this part are as good as each other.
const TOLERANCE: f64 = 0.004;
/// Task types kept open at once; fewer where there are many servers.
const LIVE_MIN: usize = 200;
const LIVE_MAX: usize = 1_000;
const LIVE_SERVERS: usize = 2_000_000;
/// Part of what is left of the cluster that open gangs may need.
const YIELD: f64 = 0.9;
/// Growth of a task's profit while a whole pass goes by after its gang opened.
const URGENCY: f64 = 3.0;
/// Weight of a task's price where only its rank matters, and where it should go anywhere.
const RANKED: f64 = 1e-3;
const ANYWHERE: f64 = 1.0;
/// Servers between two looks at the clock.
const CLOCK_SERVERS: usize = 16;
/// Gangs that one repair tries to insert.
const INSERTS_MAX: usize = 1_000;

/// What a task is worth to a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Aim {
    /// What is left of its worth after its wage, and a part of its price; more if it waits long.
    Rank { rent: f64, urgency: f64 },
    /// Its share of its gang's worth; a filling of less than `least` is as bad as none.
    Worth { least: f64 },
}

/// Task lists, wages and scratch space of one island.
#[derive(Debug)]
pub(crate) struct Filler<'a> {
    pub(super) instance: &'a Instance,
    guide: &'a Guide,
    /// Price per unit by (zone, kind).
    price: Vec<f64>,
    /// What a task must bring beyond its place, by type.
    wage: Vec<f64>,
    /// What a type's worth is counted from when only worth matters.
    level: Vec<f64>,
    /// Multiplies what a type gains: above 1 where its gangs are nearly complete.
    pull: Vec<f64>,
    /// Price of a task on its best server, by type.
    size: Vec<f64>,
    /// Tasks of possible gangs, by type.
    total: Vec<f64>,
    mean_size: f64,
    pub(super) state: State,
    /// Open tasks by type, oldest gang first.
    pub(super) open: Vec<Vec<u32>>,
    /// Types with open tasks.
    live: Vec<u32>,
    /// Price of all open tasks.
    pub(super) pool: f64,
    /// Part of the servers filled when a type was opened, and when it was used up.
    since: Vec<f64>,
    gone: Vec<f64>,
    /// Types of gangs whose tasks must be on different servers.
    spread: Vec<bool>,
    /// Possible gangs by density.
    pub(super) order: Vec<u32>,
    mends: bool,
    looks: u32,
    pattern: Pattern,
    pub(super) rng: Stream,
}

impl<'a> Filler<'a> {
    pub(super) fn new(
        instance: &'a Instance,
        (guide, prices): (&'a Guide, &Prices),
        wage: Option<&[f64]>,
        rng: Stream,
    ) -> Filler<'a> {
        let types = instance.types;
        let many = !instance.few;
        let mut filler = Filler {
            instance,
            guide,
            price: guide.unit_prices(instance, prices),
            wage: vec![0.0; types],
            level: vec![0.0; types],
            pull: vec![1.0; types],
            size: vec![0.0; types],
            total: vec![0.0; types],
            mean_size: 0.0,
            state: State::new(instance),
            open: vec![Vec::new(); types],
            live: Vec::new(),
            pool: 0.0,
            since: vec![0.0; types],
            gone: vec![0.0; types],
            spread: vec![false; types],
            order: Vec::new(),
            mends: false,
            looks: if many && !guide.choosy.contains(&true) { LOOKS_MANY } else { LOOKS },
            pattern: Pattern::default(),
            rng,
        };
        filler.set_types();
        filler.set_levels();
        if let Some(wage) = wage {
            filler.wage.copy_from_slice(wage);
        }
        filler
    }

    fn set_types(&mut self) {
        let instance = self.instance;
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                self.total[ty] += 1.0;
                self.spread[ty] |= instance.spread[job];
            }
        }
        for ty in (0..instance.types).filter(|ty| self.total[*ty] > 0.0) {
            let best = self.guide.option_order[instance.type_opts(ty).start] as usize;
            self.wage[ty] = self.guide.reduced[best];
            self.size[ty] = priced(instance.row(ty), self.zone_price(instance.opts[best].zone));
        }
        let sum: f64 = self.size.iter().zip(&self.total).map(|(s, n)| s * n).sum();
        self.mean_size = sum / self.total.iter().sum::<f64>().max(1.0);
    }

    /// Shares every gang's worth among its tasks by price; the dearest gang counts for a type.
    fn set_levels(&mut self) {
        let instance = self.instance;
        self.level.fill(f64::INFINITY);
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let (mut worth, mut price) = (0.0, 1e-300);
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                worth += self.wage[ty] + self.size[ty];
                price += self.size[ty];
            }
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                let share = self.size[ty] * worth / price;
                self.level[ty] = self.level[ty].min(self.wage[ty] + self.size[ty] - share);
            }
        }
    }

    fn zone_price(&self, zone: u32) -> &[f64] {
        let kinds = self.instance.kinds;
        &self.price[zone as usize * kinds..(zone as usize + 1) * kinds]
    }

    /// Possible gangs by worth per price, where a type's price is what its wage leaves.
    fn set_order(&mut self) {
        let instance = self.instance;
        let density = |job: usize| {
            let (mut value, mut price) = (0.0, 0.0);
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                value += self.guide.best_worth[ty];
                price += (self.guide.best_worth[ty] - self.wage[ty]).max(1e-9);
            }
            value / price
        };
        let possible = (0..instance.jobs()).filter(|j| instance.possible[*j]);
        let mut order: Vec<(f64, u32)> = possible.map(|j| (density(j), narrow(j))).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.order = order.into_iter().map(|(_, job)| job).collect();
    }

    /// Price of an empty server.
    pub(super) fn room(&self, server: usize) -> f64 {
        let kinds = self.instance.kinds;
        let row = &self.instance.capacity[server * kinds..(server + 1) * kinds];
        priced(row, self.zone_price(self.instance.zone_of[server]))
    }

    /// Price of what is free on a server.
    pub(super) fn unused(&self, server: usize) -> f64 {
        let kinds = self.instance.kinds;
        let row = &self.state.free[server * kinds..(server + 1) * kinds];
        priced(row, self.zone_price(self.instance.zone_of[server]))
    }

    /// Fills all servers from nothing; false when there was no time for it.
    pub(super) fn pass(&mut self, expired: &dyn Fn() -> bool) -> bool {
        let instance = self.instance;
        self.state = State::new(instance);
        self.forget_open();
        self.gone.fill(0.0);
        self.set_order();
        let live_max = (LIVE_SERVERS / instance.servers.max(1)).clamp(LIVE_MIN, LIVE_MAX);
        let mut servers: Vec<u32> = (0..narrow(instance.servers)).collect();
        self.rng.shuffle(&mut servers);
        let mut left: f64 = (0..instance.servers).map(|s| self.room(s)).sum();
        let mut next = 0;
        for (at, server) in servers.iter().enumerate() {
            if at % CLOCK_SERVERS == 0 && expired() {
                return false;
            }
            let now = at as f64 / servers.len() as f64;
            while next < self.order.len() && self.pool < YIELD * left && self.live.len() < live_max
            {
                self.open_job(self.order[next] as usize, now);
                next += 1;
            }
            self.fill_server(*server, now, Aim::Rank { rent: RANKED, urgency: URGENCY });
            left -= self.room(*server as usize);
        }
        // What is still open goes where it fits.
        for (at, server) in servers.iter().enumerate() {
            if at % CLOCK_SERVERS == 0 && expired() {
                return false;
            }
            self.fill_server(*server, 1.0, Aim::Rank { rent: ANYWHERE, urgency: 0.0 });
        }
        true
    }

    /// Makes a gang's tasks available.
    pub(super) fn open_job(&mut self, job: usize, now: f64) {
        for task in self.instance.job_tasks(job) {
            self.open_task(narrow(task), now);
        }
    }

    pub(super) fn open_task(&mut self, task: u32, now: f64) {
        let ty = self.instance.task_type[task as usize] as usize;
        if self.open[ty].is_empty() {
            self.live.push(narrow(ty));
            self.since[ty] = now;
        }
        self.open[ty].push(task);
        self.pool += self.size[ty];
    }

    /// Takes a task out of the open ones, if it is there.
    pub(super) fn close_task(&mut self, task: u32) {
        let ty = self.instance.task_type[task as usize] as usize;
        if let Some(at) = self.open[ty].iter().position(|t| *t == task) {
            self.open[ty].remove(at);
            self.pool -= self.size[ty];
        }
    }

    /// Drops types without open tasks.
    pub(super) fn tidy(&mut self) {
        let open = &self.open;
        self.live.retain(|ty| !open[*ty as usize].is_empty());
    }

    pub(super) fn forget_open(&mut self) {
        self.open.iter_mut().for_each(Vec::clear);
        self.live.clear();
        self.pool = 0.0;
    }

    /// Sets how gangs pull at their tasks: with `press` 1 those of a complete gang count double and
    /// those of a gang that lacks everything nothing, with 0 all the same.
    ///
    /// Rising from repair to repair it decides early which gangs will be dropped.
    pub(super) fn set_pull(&mut self, press: f64) {
        let instance = self.instance;
        if press <= 0.0 {
            self.pull.fill(1.0);
            return;
        }
        // Gangs begun, and the parts that they lack, by type.
        let mut sums = vec![(0.0, 0.0); instance.types];
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let range = instance.job_tasks(job);
            let first = instance.task_type[range.start] as usize;
            let lacks = self.lacks(job);
            if lacks < 1.0 || self.open[first].contains(&narrow(range.start)) {
                for ty in &instance.task_type[range] {
                    let sum = &mut sums[*ty as usize];
                    *sum = (sum.0 + 1.0, sum.1 + lacks);
                }
            }
        }
        for (pull, (begun, lacking)) in self.pull.iter_mut().zip(sums) {
            let lacks = if begun > 0.0 { lacking / begun } else { 1.0 };
            *pull = 1.0 + press * (1.0 - 2.0 * lacks);
        }
    }

    /// Part of its price that a gang lacks: 1 where no task is placed.
    fn lacks(&self, job: usize) -> f64 {
        let (mut missing, mut all) = (0.0, 1e-300);
        for task in self.instance.job_tasks(job) {
            let size = self.size[self.instance.task_type[task] as usize];
            all += size;
            missing += if self.state.server[task] == NONE { size } else { 0.0 };
        }
        missing / all
    }

    /// From now on only worth counts.
    pub(super) fn aim_at_worth(&mut self) {
        self.mends = true;
        self.looks = if !self.instance.few { LOOKS_MANY } else { LOOKS };
    }

    /// Fills a server for the most worth, or not at all for less than `least`; returns what was
    /// placed, counted as by [`Self::gain`].
    pub(super) fn fill_for_worth(&mut self, server: u32, least: f64) -> f64 {
        self.fill_server(server, 1.0, Aim::Worth { least })
    }

    /// A task's share of its gang's worth, less what it loses on this server; more or less as its
    /// gang pulls.
    pub(super) fn gain(&self, ty: usize, option: usize) -> f64 {
        (self.guide.worth[option] - self.level[ty]) * self.pull[ty]
    }

    /// Fills what is free on a server; returns the gain.
    fn fill_server(&mut self, server: u32, now: f64, aim: Aim) -> f64 {
        self.offer(server, now, aim);
        let instance = self.instance;
        let tolerance = match aim {
            Aim::Worth { least } => {
                self.pattern.ask_for(least);
                0.0
            }
            Aim::Rank { .. } => TOLERANCE,
        };
        self.pattern.search(self.looks, tolerance, |ty| instance.row(ty as usize));
        let best = std::mem::take(&mut self.pattern.best);
        let mut gain = 0.0;
        let mut emptied = false;
        for (ty, count) in &best {
            let ty = *ty as usize;
            for _ in 0..*count {
                gain += self.place(ty, server);
            }
            if self.open[ty].is_empty() {
                self.gone[ty] = now;
                emptied = true;
            }
        }
        self.pattern.best = best;
        if emptied {
            self.tidy();
        }
        gain
    }

    /// Offers the open tasks that fit to the search for a pattern.
    fn offer(&mut self, server: u32, now: f64, aim: Aim) {
        let instance = self.instance;
        let (kinds, s) = (instance.kinds, server as usize);
        let zone = instance.zone_of[s];
        let price = &self.price[zone as usize * kinds..(zone as usize + 1) * kinds];
        self.pattern.clear(&self.state.free[s * kinds..(s + 1) * kinds], price);
        if let Some(edges) = instance.edges.of(s) {
            for (ty, option) in edges.iter().map(|(ty, option)| (*ty as usize, *option as usize)) {
                if !self.open[ty].is_empty() && self.pattern.admits(instance.row(ty)) {
                    self.offer_type((ty, option), zone, now, aim);
                }
            }
            return;
        }
        for at in 0..self.live.len() {
            let ty = self.live[at] as usize;
            if self.pattern.admits(instance.row(ty))
                && let Some(option) = instance.option_on(ty, server)
            {
                self.offer_type((ty, option), zone, now, aim);
            }
        }
    }

    /// Offers the open tasks of a type by one of its options, in a server's zone.
    fn offer_type(&mut self, (ty, option): (usize, usize), zone: u32, now: f64, aim: Aim) {
        let row = self.instance.row(ty);
        let profit = match aim {
            Aim::Worth { .. } => self.gain(ty, option),
            Aim::Rank { rent, urgency } => {
                let price = rent * priced(row, self.zone_price(zone));
                let rest = self.guide.worth[option] - self.wage[ty] + price;
                rest * (1.0 + urgency * (now - self.since[ty]))
            }
        };
        let most = if self.spread[ty] { 1 } else { narrow(self.open[ty].len()) };
        self.pattern.offer(narrow(ty), profit, most, row);
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
        self.pool -= self.size[ty];
        self.state.put(instance, task as usize, server, option);
        self.gain(ty, option)
    }

    /// Moves the wages: up where a type was gone early, down where tasks are left.
    pub(super) fn learn(&mut self, step: f64) {
        let step = step * self.mean_size;
        for ty in (0..self.instance.types).filter(|ty| self.total[*ty] > 0.0) {
            let left = self.open[ty].len() as f64 / self.total[ty];
            if left > 0.0 {
                self.wage[ty] -= step * left;
            } else if self.gone[ty] > 0.0 {
                self.wage[ty] += step * (1.0 - self.gone[ty]);
            }
        }
    }

    /// Drops gangs that lack most until the others are complete, each time filling what it frees,
    /// and then inserts what still fits.
    pub(super) fn close(&mut self) {
        let instance = self.instance;
        let mut lacking = Vec::new();
        for job in 0..instance.jobs() {
            if self.state.is_placed(job) {
                continue;
            }
            let servers = &self.state.server[instance.job_tasks(job)];
            let missing = servers.iter().filter(|s| **s == NONE).count();
            if missing > 0 && missing < servers.len() {
                lacking.push(narrow(job));
            } else if missing > 0 && self.pool > 0.0 {
                instance.job_tasks(job).for_each(|task| self.close_task(narrow(task)));
            }
        }
        self.tidy();
        let aim = match self.mends {
            true => Aim::Worth { least: 0.0 },
            false => Aim::Rank { rent: ANYWHERE, urgency: 0.0 },
        };
        while let Some(worst) = self.worst(&lacking) {
            let job = lacking.swap_remove(worst) as usize;
            instance.job_tasks(job).for_each(|task| self.close_task(narrow(task)));
            self.tidy();
            for task in instance.job_tasks(job) {
                let server = self.state.server[task];
                if server != NONE {
                    self.state.take(instance, task);
                    self.fill_server(server, 1.0, aim);
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

    /// Which of these gangs lacks the largest part of its price.
    fn worst(&self, lacking: &[u32]) -> Option<usize> {
        let parts = lacking.iter().enumerate().map(|(at, job)| (self.lacks(*job as usize), at));
        parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, at)| at)
    }

    /// Inserts pending gangs by density, from a random one on where there are very many.
    fn insert_rest(&mut self) {
        let instance = self.instance;
        let taste = Taste { tight: 0.1, window: None };
        let pending = instance.jobs() - self.state.placed;
        let many = self.mends && pending > INSERTS_MAX;
        let first = if many { self.rng.below(self.order.len()) } else { 0 };
        let most = if many { INSERTS_MAX / 10 } else { self.order.len() };
        for at in 0..most.min(self.order.len()) {
            let job = self.order[(first + at) % self.order.len()] as usize;
            if self.state.is_placed(job) {
                continue;
            }
            let before = self.state.score().scalar(instance);
            if self.state.insert_job(instance, self.guide, job, taste)
                && self.state.score().scalar(instance) <= before
            {
                self.state.remove_job(instance, job);
            }
        }
    }

    /// Keeps the state in `best` if it is better, else goes back to it.
    pub(super) fn keep(&mut self, best: &mut State) {
        self.keep_near(best, 0.0);
    }

    /// Keeps the state in `best` if it is better; goes back to it if worse by more than a part.
    pub(super) fn keep_near(&mut self, best: &mut State, near: f64) {
        let (score, known) = (self.state.score(), best.score());
        let value = known.scalar(self.instance);
        if score.beats(&known, self.instance) {
            best.copy_from(&self.state);
        } else if near <= 0.0 || score.scalar(self.instance) < value - near * value.abs() {
            self.state.copy_from(best);
        }
    }
}

/// Sum of amounts times prices.
fn priced(row: &[i32], price: &[f64]) -> f64 {
    row.iter().zip(price).map(|(a, p)| f64::from(*a) * p).sum()
}
