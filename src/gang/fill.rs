// SPDX-License-Identifier: GPL-3.0-or-later
//! Filling servers one by one with the best pattern of the tasks of open gangs.
//!
//! Inserting gang by gang leaves on every server a remainder that nothing fits. Here a server is
//! filled at once, by branch and bound, from the tasks of many gangs; gangs open by density, and
//! at the end those that lack most are dropped until the others are complete. Passes over all
//! servers learn wages of task types, by how early a type was gone or how much of it was left, as
//! in sequential value correction for cutting stock (Mukhacheva and others 2000; Belov and
//! Scheithauer 2007).

use super::best::Clock;
use super::instance::{Instance, NONE, narrow};
use super::pattern::Pattern;
use super::prices::{Guide, Prices};
use super::rng::Stream;
use super::state::{Score, State, Taste};

/// Passes of one island without a deadline, and servers of all of them.
const PASSES_MAX: usize = 12;
const SERVERS_MAX: usize = 40_000;
/// Search nodes per server.
const NODES_MAX: u32 = 5_000;
/// Fillings of a server that differ by this part are as good as each other.
const TOLERANCE: f64 = 0.004;
/// Task types kept open at once.
const LIVE_MAX: usize = 1_000;
/// Share of what is left of the cluster that open gangs may need.
const YIELD: f64 = 0.9;
/// Growth of a task's profit while a whole pass goes by after its gang opened.
const URGENCY: f64 = 3.0;
/// Step of the wages, as a part of a task's mean price, and its decay from pass to pass.
const STEP: f64 = 0.05;
const STEP_DECAY: f64 = 0.9;
/// Weight of a task's price where only its rank matters, and where it should go anywhere.
const RANKED: f64 = 1e-3;
const ANYWHERE: f64 = 1.0;
/// Servers between two looks at the clock.
const CLOCK_SERVERS: usize = 16;

/// The passes of one island.
pub(crate) struct Filler<'a> {
    instance: &'a Instance,
    guide: &'a Guide,
    /// Price per unit by (zone, kind).
    price: Vec<f64>,
    /// What a task must bring beyond its place, by type.
    wage: Vec<f64>,
    /// Price of a task on its best server, by type.
    size: Vec<f64>,
    /// Tasks of possible gangs, by type.
    total: Vec<f64>,
    mean_size: f64,
    state: State,
    /// Open tasks by type, oldest gang first.
    open: Vec<Vec<u32>>,
    /// Types with open tasks.
    live: Vec<u32>,
    /// Servers filled when a type was opened, and when its last open task was placed.
    since: Vec<f64>,
    gone: Vec<f64>,
    pattern: Pattern,
    rng: Stream,
    chosen: Vec<u32>,
    saved: Vec<(u32, u32, u32)>,
    pool: f64,
    opens: Vec<u32>,
    next: usize,
    nodes: u32,
    tol: f64,
    by_value: bool,
    dp: f64,
    level: Vec<f64>,
    density: Vec<f64>,
}

/// Best of some passes, if it beats `start`.
pub(crate) fn improve(
    instance: &Instance,
    (guide, prices): (&Guide, &Prices),
    wage: Option<&[f64]>,
    start: &State,
    rng: Stream,
    (clock, share, work_max): (Clock<'_>, f64, Option<u64>),
) -> State {
    let mut best = start.clone();
    let per_pass = u64::from(NODES_MAX) * instance.servers.max(1) as u64;
    let affordable = work_max.map_or(PASSES_MAX, |work| usize::try_from(work / per_pass).unwrap_or(PASSES_MAX));
    let passes = PASSES_MAX.min(SERVERS_MAX / instance.servers.max(1)).min(affordable);
    if passes == 0 || clock.past(share) {
        return best;
    }
    let mut filler = Filler::new(instance, guide, prices, wage, rng);
    let dbg = std::env::var_os("DBG").is_some();
    let envf = |k: &str, d: f64| std::env::var(k).ok().and_then(|s| s.parse().ok()).unwrap_or(d);
    let mut step = STEP;
    let passes = passes.min(envf("PASSES", 4.0) as usize);
    let expired = || clock.past(share);
    filler.nodes = envf("PN", 5000.0) as u32;
    filler.tol = TOLERANCE;
    let un = |f: &Filler| (0..instance.servers).map(|s| f.unused(s)).sum::<f64>();
    let mut kept: Option<State> = None;
    let closing = envf("CLOSING", 1.0) > 0.0;
    for pass in 0..passes {
        if clock.past(share * envf("SHAREA", 0.4)) || !filler.pass(&expired) {
            break;
        }
        filler.learn(step);
        step *= STEP_DECAY;
        if closing {
            let order = filler.order();
            filler.close(&order);
            if filler.state.score().beats(&best.score(), instance) {
                best.copy_from(&filler.state);
            }
        }
        if dbg { eprintln!("pass {pass} unused {:.2} best {:.2} used {:?}", un(&filler), best.score().scalar(instance), clock.used()); }
    }
    if closing { filler.state.copy_from(&best); filler.open.iter_mut().for_each(Vec::clear); filler.live.clear(); filler.pool = 0.0; }
    let _ = &mut kept;
    let room: f64 = (0..instance.servers).map(|s| filler.room(s)).sum();
    let width = envf("W", 6.0) as usize;
    let keep = envf("KEEP", 0.05);
    let tries = envf("TRIES", 500.0) as usize;
    filler.by_value = true;
    filler.nodes = envf("NODES", 3000.0) as u32;
    filler.tol = envf("TOL", 0.0);
    let order = filler.order();
    for round in 0..envf("ROUNDS", 1000.0) as usize {
        let mut won = 0;
        for n in 0..tries {
            if n % 64 == 0 {
                filler.top_up(keep * room, &order);
                if expired() { break; }
            }
            won += usize::from(filler.rework(width));
        }
        let u = un(&filler);
        filler.close(&order);
        if dbg { eprintln!("round {round} unused {u:.2} won {won} closed {:.2} best {:.2} used {:?}", filler.state.score().scalar(instance), best.score().scalar(instance), clock.used()); }
        if filler.state.score().beats(&best.score(), instance) {
            best.copy_from(&filler.state);
        } else {
            filler.state.copy_from(&best);
        }
        if expired() { break; }
    }
    best
}

impl<'a> Filler<'a> {
    fn new(
        instance: &'a Instance,
        guide: &'a Guide,
        prices: &Prices,
        wage: Option<&[f64]>,
        rng: Stream,
    ) -> Filler<'a> {
        let (kinds, types) = (instance.kinds, instance.types);
        let price = guide.unit_prices(instance, prices);
        let mut total = vec![0.0; types];
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            for task in instance.job_tasks(job) {
                total[instance.task_type[task] as usize] += 1.0;
            }
        }
        let mut best_wage = vec![0.0; types];
        let mut size = vec![0.0; types];
        for ty in (0..types).filter(|ty| !instance.type_opts(*ty).is_empty()) {
            let best = guide.option_order[instance.type_opts(ty).start] as usize;
            best_wage[ty] = guide.reduced[best];
            let zone = instance.opts[best].zone as usize;
            size[ty] = priced(instance.row(ty), &price[zone * kinds..(zone + 1) * kinds]);
        }
        let mut level = vec![f64::INFINITY; types];
        let mut density = vec![0.0; instance.jobs()];
        let beta = std::env::var("BETA").ok().and_then(|s| s.parse().ok()).unwrap_or(1.0);
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let (mut worth, mut all) = (0.0, 0.0);
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                worth += best_wage[ty] + size[ty];
                all += size[ty];
            }
            density[job] = worth / f64::max(all, 1e-300);
            for task in instance.job_tasks(job) {
                let ty = instance.task_type[task] as usize;
                level[ty] = level[ty].min(best_wage[ty] + beta * size[ty] * (1.0 - density[job]));
            }
        }
        let tasks: f64 = total.iter().sum();
        let sum: f64 = size.iter().zip(&total).map(|(s, n)| s * n).sum();
        Filler {
            instance,
            guide,
            price,
            wage: wage.map_or(best_wage, <[f64]>::to_vec),
            size,
            total,
            mean_size: sum / tasks.max(1.0),
            state: State::new(instance),
            open: vec![Vec::new(); types],
            live: Vec::new(),
            since: vec![0.0; types],
            gone: vec![0.0; types],
            pattern: Pattern::default(),
            rng,
            chosen: Vec::new(),
            saved: Vec::new(),
            pool: 0.0,
            opens: Vec::new(),
            next: 0,
            nodes: NODES_MAX,
            tol: TOLERANCE,
            by_value: false,
            dp: std::env::var("DP").ok().and_then(|s| s.parse().ok()).unwrap_or(2.0),
            level,
            density,
        }
    }

    /// Possible gangs by worth per price, where a type's price is what its wage leaves.
    fn order(&self) -> Vec<u32> {
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
        order.into_iter().map(|(_, job)| job).collect()
    }

    fn room(&self, server: usize) -> f64 {
        let kinds = self.instance.kinds;
        let zone = self.instance.zone_of[server] as usize;
        let row = &self.instance.capacity[server * kinds..(server + 1) * kinds];
        priced(row, &self.price[zone * kinds..(zone + 1) * kinds])
    }

    /// Fills all servers; false when there was no time for it.
    fn pass(&mut self, expired: &dyn Fn() -> bool) -> bool {
        let instance = self.instance;
        self.state = State::new(instance);
        self.open.iter_mut().for_each(Vec::clear);
        self.live.clear();
        self.gone.fill(0.0);
        let order = self.order();
        let mut servers: Vec<u32> = (0..narrow(instance.servers)).collect();
        for i in (1..servers.len()).rev() {
            servers.swap(i, self.rng.below(i + 1));
        }
        let mut left: f64 = (0..instance.servers).map(|s| self.room(s)).sum();
        self.pool = 0.0;
        self.next = 0;
        for (at, server) in servers.iter().enumerate() {
            if at % CLOCK_SERVERS == 0 && expired() {
                return false;
            }
            let now = at as f64 / servers.len() as f64;
            while self.next < order.len() && self.pool < YIELD * left && self.live.len() < LIVE_MAX {
                self.open_job(order[self.next] as usize, now);
                self.next += 1;
            }
            self.fill_server(*server, now, (RANKED, URGENCY));
            left -= self.room(*server as usize);
        }
        self.opens = order;
        let next = self.next;
        if std::env::var_os("DBG2").is_some() {
            let n = servers.len() / 10;
            let dec: Vec<String> = servers.chunks(n).map(|c| format!("{:.2}", c.iter().map(|s| self.unused(*s as usize)).sum::<f64>())).collect();
            let opensize: f64 = (0..instance.types).map(|t| self.open[t].len() as f64 * self.size[t]).sum();
            eprintln!("unused {dec:?} opened {next} left open {opensize:.2} live {}", self.live.len());
        }
        // What is still open goes where it fits.
        for (at, server) in servers.iter().enumerate() {
            if at % CLOCK_SERVERS == 0 && expired() {
                return false;
            }
            self.fill_server(*server, 1.0, (ANYWHERE, 0.0));
        }
        true
    }

    /// Opens pending gangs, dense ones more often, until tasks of this price are open.
    fn top_up(&mut self, wanted: f64, order: &[u32]) {
        for _ in 0..64 {
            if self.pool >= wanted || order.is_empty() {
                return;
            }
            let draw = self.rng.unit();
            let at = (draw * draw * order.len() as f64) as usize;
            let job = order[at.min(order.len() - 1)] as usize;
            let mut tasks = self.instance.job_tasks(job);
            let known = tasks.any(|task| {
                let ty = self.instance.task_type[task] as usize;
                self.state.server[task] != NONE || self.open[ty].contains(&narrow(task))
            });
            if !known {
                self.open_job(job, 0.0);
            }
        }
    }

    /// Empties a few servers, badly filled ones more often, and fills them again from their tasks
    /// and the open ones; keeps what is not worse.
    fn rework(&mut self, width: usize) -> bool {
        let instance = self.instance;
        let count = (2 + self.rng.below(width)).min(instance.servers);
        self.chosen.clear();
        for at in 0..count {
            let draws = if at < count.div_ceil(2) { 4 } else { 1 };
            let mut best = (f64::NEG_INFINITY, 0);
            for _ in 0..draws {
                let s = self.rng.below(instance.servers);
                let unused = self.unused(s);
                if unused > best.0 {
                    best = (unused, s);
                }
            }
            let s = narrow(best.1);
            if !self.chosen.contains(&s) {
                self.chosen.push(s);
            }
        }
        for i in (1..self.chosen.len()).rev() {
            let j = self.rng.below(i + 1);
            self.chosen.swap(i, j);
        }
        self.saved.clear();
        let mut before = 0.0;
        for at in 0..self.chosen.len() {
            before += self.empty_server(self.chosen[at] as usize, true);
        }
        let mut after = 0.0;
        for at in 0..self.chosen.len() {
            after += self.fill_server(self.chosen[at], 0.0, (RANKED, 0.0));
        }
        if after >= before - 1e-12 {
            return after > before + 1e-9;
        }
        for at in 0..self.chosen.len() {
            self.empty_server(self.chosen[at] as usize, false);
        }
        for at in 0..self.saved.len() {
            let (task, server, option) = self.saved[at];
            let ty = instance.task_type[task as usize] as usize;
            if let Some(place) = self.open[ty].iter().position(|t| *t == task) {
                self.open[ty].remove(place);
                self.pool -= self.size[ty];
            }
            self.state.put(instance, task as usize, server, option as usize);
        }
        let open = &self.open;
        self.live.retain(|ty| !open[*ty as usize].is_empty());
        false
    }

    fn unused(&self, server: usize) -> f64 {
        let kinds = self.instance.kinds;
        let zone = self.instance.zone_of[server] as usize;
        let row = &self.state.free[server * kinds..(server + 1) * kinds];
        priced(row, &self.price[zone * kinds..(zone + 1) * kinds])
    }

    fn gain(&self, ty: usize, option: usize) -> f64 {
        self.guide.worth[option] - self.level[ty]
    }

    fn empty_server(&mut self, server: usize, save: bool) -> f64 {
        let instance = self.instance;
        let mut size = 0.0;
        loop {
            let task = self.state.first_task(server);
            if task == NONE {
                return size;
            }
            let ty = instance.task_type[task as usize] as usize;
            let option = self.state.option[task as usize];
            let job = instance.job_of[task as usize] as usize;
            if self.state.is_placed(job) {
                self.state.mark(job, false);
            }
            if save {
                self.saved.push((task, narrow(server), option));
            }
            size += self.gain(ty, option as usize);
            self.pool += self.size[ty];
            self.state.take(instance, task as usize);
            if self.open[ty].is_empty() {
                self.live.push(narrow(ty));
                self.since[ty] = 0.0;
            }
            self.open[ty].push(task);
        }
    }

    /// Makes a gang's tasks available; returns their price.
    fn open_job(&mut self, job: usize, now: f64) {
        for task in self.instance.job_tasks(job) {
            let ty = self.instance.task_type[task] as usize;
            if self.open[ty].is_empty() {
                self.live.push(narrow(ty));
                self.since[ty] = now;
            }
            self.open[ty].push(narrow(task));
            self.pool += self.size[ty];
        }
    }

    /// Fills what is free on a server; returns the price of what it took.
    fn fill_server(&mut self, server: u32, now: f64, (rent, urgency): (f64, f64)) -> f64 {
        let instance = self.instance;
        let (kinds, s) = (instance.kinds, server as usize);
        let zone = instance.zone_of[s] as usize;
        let price = &self.price[zone * kinds..(zone + 1) * kinds];
        self.pattern.clear(&self.state.free[s * kinds..(s + 1) * kinds], price);
        for ty in &self.live {
            let at = *ty as usize;
            let row = instance.row(at);
            if !self.pattern.admits(row) {
                continue;
            }
            let Some(option) = instance.option_on(at, server) else { continue };
            let profit = if self.by_value {
                self.guide.worth[option] - self.level[at]
            } else {
                self.guide.worth[option] - self.wage[at] + rent * priced(row, price)
            };
            let urgent = 1.0 + urgency * (now - self.since[at]);
            self.pattern.offer(*ty, profit * urgent, narrow(self.open[at].len()), row);
        }
        self.pattern.search(self.nodes, self.tol, |ty| instance.row(ty as usize));
        let best = std::mem::take(&mut self.pattern.best);
        let mut used = 0.0;
        let mut emptied = false;
        for (ty, count) in &best {
            let ty = *ty as usize;
            for _ in 0..*count {
                used += self.place(ty, server);
            }
            if self.open[ty].is_empty() {
                self.gone[ty] = now;
                emptied = true;
            }
        }
        self.pattern.best = best;
        if emptied {
            let open = &self.open;
            self.live.retain(|ty| !open[*ty as usize].is_empty());
        }
        used
    }

    /// Puts the oldest open task of a type on a server; returns its price.
    fn place(&mut self, ty: usize, server: u32) -> f64 {
        let instance = self.instance;
        let taken = |task: u32| {
            let job = instance.job_of[task as usize] as usize;
            instance.spread[job] && self.state.server[instance.job_tasks(job)].contains(&server)
        };
        let Some(at) = self.open[ty].iter().position(|task| !taken(*task)) else { return 0.0 };
        let Some(option) = instance.option_on(ty, server) else { return 0.0 };
        let task = self.open[ty].remove(at);
        self.state.put(instance, task as usize, server, option);
        self.pool -= self.size[ty];
        self.gain(ty, option)
    }

    /// Moves the wages: up where a type was gone early, down where tasks are left.
    fn learn(&mut self, step: f64) {
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
    fn close(&mut self, order: &[u32]) {
        let instance = self.instance;
        let mut lacking = Vec::new();
        for job in 0..instance.jobs() {
            let servers = &self.state.server[instance.job_tasks(job)];
            match servers.iter().filter(|s| **s == NONE).count() {
                0 => {}
                missing if missing == servers.len() => self.withdraw(job),
                _ => lacking.push(narrow(job)),
            }
        }
        while let Some(worst) = self.worst(&lacking) {
            let job = lacking.swap_remove(worst) as usize;
            self.withdraw(job);
            for task in instance.job_tasks(job) {
                let server = self.state.server[task];
                if server != NONE {
                    self.state.take(instance, task);
                    self.fill_server(server, 1.0, (ANYWHERE, 0.0));
                }
            }
            let placed = &self.state.server;
            lacking.retain(|job| placed[instance.job_tasks(*job as usize)].contains(&NONE));
        }
        for job in 0..instance.jobs() {
            if !self.state.is_placed(job)
                && self.state.server[instance.job_tasks(job)].iter().all(|s| *s != NONE)
            {
                self.state.mark(job, true);
            }
        }
        self.open.iter_mut().for_each(Vec::clear);
        self.live.clear();
        self.pool = 0.0;
        self.insert_rest(order);
    }

    /// Which of these gangs lacks the largest part of its price.
    fn worst(&self, lacking: &[u32]) -> Option<usize> {
        let part = |job: u32| {
            let (mut missing, mut all) = (0.0, 1e-300);
            for task in self.instance.job_tasks(job as usize) {
                let size = self.size[self.instance.task_type[task] as usize];
                all += size;
                missing += if self.state.server[task] == NONE { size } else { 0.0 };
            }
            missing / all / self.density[job as usize].max(1e-9).powf(self.dp)
        };
        let parts = lacking.iter().enumerate().map(|(at, job)| (part(*job), at));
        parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, at)| at)
    }

    /// Takes a gang's tasks out of the open ones.
    fn withdraw(&mut self, job: usize) {
        for task in self.instance.job_tasks(job) {
            let ty = self.instance.task_type[task];
            let open = &mut self.open[ty as usize];
            let Some(at) = open.iter().position(|t| *t as usize == task) else { continue };
            open.remove(at);
            if open.is_empty() {
                self.live.retain(|t| *t != ty);
            }
        }
    }

    fn insert_rest(&mut self, order: &[u32]) {
        let instance = self.instance;
        let taste = Taste { tight: 0.1, window: None };
        for job in order {
            let job = *job as usize;
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
        let _: Score = self.state.rescore(instance);
    }
}

/// Sum of amounts times prices.
fn priced(row: &[i32], price: &[f64]) -> f64 {
    row.iter().zip(price).map(|(a, p)| f64::from(*a) * p).sum()
}
