// SPDX-License-Identifier: GPL-3.0-or-later
//! Mutation: ruin and recreate (Schrimpf and others 2000) of whole gangs at a temperature.
//!
//! A step removes some gangs, tries them and some pending ones again in a noisy order of density,
//! and keeps the outcome by the rule of Metropolis, or takes it back. Every buffer is made once;
//! steps do not allocate.

use super::clock::{Clock, READ_EVERY};
use super::instance::{Instance, NONE, narrow};
use super::problem::KINDS_MAX;
use super::state::{Fit, Place, Saved, Score, State};
use super::values::Values;
use phalanx_core::random::Stream;

/// Gangs removed by one ruin; the smaller of two draws, so that most ruins are small.
const RUIN_JOBS_MAX: usize = 12;
/// Pending gangs tried again after a ruin, each the densest of as many drawn.
const CANDIDATES: usize = 4;
/// Largest change of a density by noise in the order of recreation.
pub const NOISE: f64 = 0.4;
/// Weights of the price of unused room, one of which a recreation draws.
const TIGHT: [f32; 4] = [0.02, 0.1, 0.3, 1.0];
/// Part of the steps that move one task to a better server, and their temperature as a part of that
/// of whole gangs.
const RELOCATIONS: f64 = 0.4;
const RELOCATION_HEAT: f64 = 0.1;
/// Options of a task that are tried, the best ones, and servers of each.
const RELOCATION_OPTIONS: usize = 12;
const RELOCATION_SERVERS: u32 = 6;
/// Servers tried for a task that takes another's place, and the most that the ousted gangs may be
/// worth, as a multiple of the placed one.
const OUST_SERVERS: usize = 8;
const OUST_LOSS_MAX: f64 = 2.0;
/// Accepted steps between two exact sums of the score, so that rounding does not pile up.
const RESCORE_STEPS: u32 = 512;

/// A line of plans: the current one, the best one, and scratch space.
#[derive(Debug)]
pub struct Line<'a> {
    pub instance: &'a Instance,
    values: &'a Values,
    pub state: State,
    pub best: Vec<u32>,
    pub best_score: Score,
    pub rng: Stream,
    /// Share of the ruins in which a pending gang takes the place of others.
    oust: f64,
    /// Gangs removed and inserted by the current step, and where the removed tasks were.
    removed: Vec<u32>,
    inserted: Vec<u32>,
    saved: Vec<Saved>,
    candidates: Vec<(f64, u32)>,
    /// Tasks on one server, the gangs that would have to go, and those of the cheapest server.
    standing: Vec<(f64, u32)>,
    going: Vec<u32>,
    cheapest: Vec<u32>,
    accepted: u32,
    /// Mean value of a placed gang: the unit of the temperature.
    job_value: f64,
}

impl<'a> Line<'a> {
    pub fn new(
        instance: &'a Instance,
        values: &'a Values,
        rng: Stream,
        oust: f64,
        start: &State,
    ) -> Self {
        let mut state = start.clone();
        let best_score = state.rescore(instance);
        let job_value = best_score.scalar(instance).abs() / state.placed.max(1) as f64;
        Self {
            instance,
            values,
            best: state.server.clone(),
            state,
            best_score,
            rng,
            oust,
            removed: Vec::new(),
            inserted: Vec::new(),
            saved: Vec::new(),
            candidates: Vec::new(),
            standing: Vec::new(),
            going: Vec::new(),
            cheapest: Vec::new(),
            accepted: 0,
            job_value,
        }
    }

    /// Anneals at a temperature until `work` is done or the clock expires.
    pub fn anneal(&mut self, temperature: f64, work: u64, clock: Clock<'_>) {
        let end = self.state.work + work;
        let mut steps = 0_usize;
        while self.state.work < end {
            if steps.is_multiple_of(READ_EVERY) && clock.expired() {
                return;
            }
            steps += 1;
            self.step(temperature);
        }
    }

    fn step(&mut self, temperature: f64) {
        let before = self.state.score();
        self.state.work += 4;
        self.removed.clear();
        self.saved.clear();
        self.inserted.clear();
        let cool = temperature * RELOCATION_HEAT;
        let slack = self.slack(cool);
        let relocated = self.rng.unit() < RELOCATIONS && self.relocate(slack);
        if !relocated {
            let first = self.ruin();
            self.recreate(first);
        }
        let loss = before.scalar(self.instance) - self.state.score().scalar(self.instance);
        if !self.accepts(loss, if relocated { cool } else { temperature }) {
            if relocated {
                self.put_back();
            } else {
                self.undo();
            }
            return;
        }
        self.accepted += 1;
        if self.accepted.is_multiple_of(RESCORE_STEPS) {
            self.state.rescore(self.instance);
        }
        self.keep_best();
    }

    /// Decides by the rule of Metropolis: the larger a loss is, the less often it is accepted.
    pub fn accepts(&mut self, loss: f64, temperature: f64) -> bool {
        loss <= 0.0 || loss < self.slack(temperature)
    }

    fn slack(&mut self, temperature: f64) -> f64 {
        -self.rng.unit().max(1e-300).ln() * temperature * self.job_value
    }

    pub fn keep_best(&mut self) {
        if self.state.score().beats(&self.best_score, self.instance) {
            self.best_score = self.state.rescore(self.instance);
            self.best.copy_from_slice(&self.state.server);
        }
    }

    /// Moves one task to a server where it is worth more, if need be in exchange with another task;
    /// returns false when nothing changed. Reduced values may fall by `slack`.
    fn relocate(&mut self, slack: f64) -> bool {
        if self.state.placed == 0 {
            return false;
        }
        let job = self.state.queue[self.rng.below(self.state.placed)] as usize;
        let tasks = self.instance.job_tasks(job);
        let task = tasks.start + self.rng.below(tasks.len());
        let ty = self.instance.task_type[task] as usize;
        if !self.values.choosy[ty] {
            return false;
        }
        let options = self.instance.type_opts(ty);
        for at in options.take(RELOCATION_OPTIONS) {
            let option = self.values.by_reduced[at];
            if option == self.state.option[task] {
                return false;
            }
            let opt = &self.instance.opts[option as usize];
            for _ in 0..(opt.hi - opt.lo).min(RELOCATION_SERVERS) {
                let server = opt.lo + narrow(self.rng.below((opt.hi - opt.lo) as usize));
                if self.move_to(Saved { task: narrow(task), server, option }, slack) {
                    return true;
                }
            }
        }
        false
    }

    /// Moves a task to the place `to`; returns false when it fits there in no exchange either.
    fn move_to(&mut self, to: Saved, slack: f64) -> bool {
        let (instance, server) = (self.instance, to.server as usize);
        let ty = instance.task_type[to.task as usize] as usize;
        self.state.work += 2;
        if self.has_twin_on(to.task, to.server) {
            return false;
        }
        if self.state.fits(instance, ty, server) {
            self.lift(to.task);
            self.state.put(instance, to.task as usize, to.server, to.option as usize);
            return true;
        }
        self.going.clear();
        let mut other = self.state.first_task(server);
        while other != NONE {
            let leaving = instance.task_type[other as usize] as usize;
            if self.state.fits_without(instance, ty, server, leaving) {
                self.going.push(other);
            }
            other = self.state.task_after(other);
        }
        (0..self.going.len()).any(|at| self.exchange(to, self.going[at], slack))
    }

    /// Moves a task to the place `to`, and the task `other` from there to its next best place.
    fn exchange(&mut self, to: Saved, other: u32, slack: f64) -> bool {
        let instance = self.instance;
        let before = self.state.score().scalar(instance);
        self.lift(to.task);
        self.lift(other);
        self.state.put(instance, to.task as usize, to.server, to.option as usize);
        let ty = instance.task_type[other as usize] as usize;
        let fit = Fit { start: narrow(self.rng.below(instance.servers)), ..Fit::default() };
        let place = self.state.choose(instance, self.values, ty, fit);
        let place = place.filter(|place| !self.has_twin_on(other, place.server));
        if let Some(Place { server, option }) = place {
            self.state.put(instance, other as usize, server, option);
            if self.state.score().scalar(instance) > before - slack {
                return true;
            }
        }
        self.put_back();
        false
    }

    /// Whether another task of a spread gang is on the server.
    fn has_twin_on(&self, task: u32, server: u32) -> bool {
        let job = self.instance.job_of[task as usize] as usize;
        let servers = &self.state.server[self.instance.job_tasks(job)];
        self.instance.spread[job] && servers.contains(&server)
    }

    /// Takes a task off its server and remembers the server.
    fn lift(&mut self, task: u32) {
        let (server, option) = (self.state.server[task as usize], self.state.option[task as usize]);
        self.saved.push(Saved { task, server, option });
        self.state.take(self.instance, task as usize);
    }

    /// Puts lifted tasks back.
    fn put_back(&mut self) {
        for Saved { task, .. } in &self.saved {
            if self.state.server[*task as usize] != NONE {
                self.state.take(self.instance, *task as usize);
            }
        }
        for Saved { task, server, option } in self.saved.drain(..) {
            self.state.put(self.instance, task as usize, server, option as usize);
        }
    }

    /// Removes some gangs; returns a pending gang that should be tried first.
    fn ruin(&mut self) -> Option<usize> {
        let pending = self.state.queue.len() - self.state.placed;
        let count = 1 + self.rng.below(RUIN_JOBS_MAX).min(self.rng.below(RUIN_JOBS_MAX));
        if self.state.placed == 0 {
            return None;
        }
        if pending > 0 && self.rng.unit() < self.oust {
            let job = self.promising(1) as usize;
            if self.instance.possible[job] {
                self.take_place(job);
            }
            return None;
        }
        let first = pending > 0 && self.rng.below(3) > 0;
        let first = first.then(|| self.promising(CANDIDATES) as usize);
        if self.rng.below(3) > 0 {
            for _ in 0..count.min(self.state.placed) {
                let job = self.state.queue[self.rng.below(self.state.placed)];
                self.remove(job as usize);
            }
            return first;
        }
        // Gangs that share servers: what one frees, another can use.
        let job = self.state.queue[self.rng.below(self.state.placed)] as usize;
        let tasks = self.instance.job_tasks(job);
        let server = self.state.server[tasks.start + self.rng.below(tasks.len())] as usize;
        self.ruin_server(server, count);
        if self.removed.len() < count {
            let other = self.near(server);
            self.ruin_server(other, count - self.removed.len());
        }
        first
    }

    /// Draws a server, mostly of the zone of `server`.
    fn near(&mut self, server: usize) -> usize {
        let zone = self.instance.zone_of[server] as usize;
        let (lo, hi) = (self.instance.zone_start[zone], self.instance.zone_start[zone + 1]);
        if hi - lo < 2 || self.rng.below(3) == 0 {
            return self.rng.below(self.instance.servers);
        }
        lo as usize + self.rng.below((hi - lo) as usize)
    }

    /// Removes up to `count` gangs that have a task on a server.
    fn ruin_server(&mut self, server: usize, count: usize) {
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
            self.remove(self.instance.job_of[task as usize] as usize);
        }
    }

    /// The densest of some random pending gangs.
    fn promising(&mut self, draws: usize) -> u32 {
        let placed = self.state.placed;
        let pending = self.state.queue.len() - placed;
        let mut best = NONE;
        for _ in 0..draws {
            let job = self.state.queue[placed + self.rng.below(pending)];
            let density = &self.values.density;
            if best == NONE || density[job as usize] > density[best as usize] {
                best = job;
            }
        }
        best
    }

    fn remove(&mut self, job: usize) {
        for task in self.instance.job_tasks(job) {
            let (server, option) = (self.state.server[task], self.state.option[task]);
            self.saved.push(Saved { task: narrow(task), server, option });
        }
        self.removed.push(narrow(job));
        self.state.remove_job(self.instance, job);
    }

    /// Tries `first`, then the removed and some pending gangs by noisy density.
    fn recreate(&mut self, first: Option<usize>) {
        let fit = self.draw_fit();
        let noise = NOISE * self.rng.unit();
        self.candidates.clear();
        for at in 0..self.removed.len() {
            self.push_candidate(self.removed[at], noise);
        }
        let placed = self.state.placed;
        let pending = self.state.queue.len() - placed;
        for i in 0..pending.min(CANDIDATES) {
            let job = match pending <= CANDIDATES {
                true => self.state.queue[placed + i],
                false => self.promising(CANDIDATES),
            };
            if !self.removed.contains(&job) {
                self.push_candidate(job, noise);
            }
        }
        if let Some(job) = first {
            self.insert(job, fit);
        }
        self.insert_candidates(fit, &|_| false);
    }

    fn draw_fit(&mut self) -> Fit {
        let tight = TIGHT[self.rng.below(TIGHT.len())];
        Fit { tight, start: narrow(self.rng.below(self.instance.servers)) }
    }

    fn push_candidate(&mut self, job: u32, noise: f64) {
        let key = self.values.density[job as usize] * (1.0 + noise * (self.rng.unit() - 0.5));
        self.candidates.push((key, job));
    }

    fn insert_candidates(&mut self, fit: Fit, stop: &dyn Fn(usize) -> bool) {
        self.candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for at in 0..self.candidates.len() {
            if stop(at) {
                return;
            }
            self.insert(self.candidates[at].1 as usize, fit);
        }
    }

    fn insert(&mut self, job: usize, fit: Fit) {
        if !self.state.is_placed(job)
            && self.state.insert_if_better(self.instance, self.values, job, fit)
        {
            self.inserted.push(narrow(job));
        }
    }

    fn undo(&mut self) {
        for at in (0..self.inserted.len()).rev() {
            self.state.remove_job(self.instance, self.inserted[at] as usize);
        }
        for Saved { task, server, option } in &self.saved {
            self.state.put(self.instance, *task as usize, *server, *option as usize);
        }
        for job in &self.removed {
            self.state.mark(self.instance, *job as usize, true);
        }
    }

    /// Tries all pending gangs by density, to which relative noise `noise` is added.
    pub fn refill(&mut self, noise: f64, clock: Clock<'_>) {
        self.inserted.clear();
        self.candidates.clear();
        for at in self.state.placed..self.state.queue.len() {
            self.push_candidate(self.state.queue[at], noise);
        }
        let fit = self.draw_fit();
        self.insert_candidates(fit, &|at| at % READ_EVERY == 0 && clock.expired());
        self.state.rescore(self.instance);
    }

    /// Places a pending gang on full servers; whole gangs that stand in its way go, server by
    /// server, where they are worth least. When too much would have to go the gang stays pending,
    /// and the recreation places what has gone by then.
    ///
    /// A large gang hardly ever finds all that it needs where gangs were removed by chance.
    fn take_place(&mut self, job: usize) {
        let fit = self.draw_fit();
        let (range, spread) = (self.instance.job_tasks(job), self.instance.spread[job]);
        let mut budget = OUST_LOSS_MAX * self.values.job_worth[job];
        let mut done = range.start;
        while done < range.end {
            let task = self.instance.insert_order[done] as usize;
            let ty = self.instance.task_type[task] as usize;
            let free = self.state.choose(self.instance, self.values, ty, fit);
            let place = free.or_else(|| self.clear_for(job, ty, &mut budget));
            let Some(Place { server, option }) = place else { break };
            self.state.put(self.instance, task, server, option);
            if spread {
                self.state.shut(server as usize);
            }
            done += 1;
        }
        let placed = &self.instance.insert_order[range.start..done];
        if spread {
            self.state.open(placed);
        }
        if done < range.end {
            placed.iter().for_each(|task| self.state.take(self.instance, *task as usize));
            return;
        }
        self.state.mark(self.instance, job, true);
        self.inserted.push(narrow(job));
    }

    /// Removes the gangs in the way of one task of `job` on that of some servers where they are
    /// worth least; none when that is more than `budget`, from which it is taken.
    fn clear_for(&mut self, job: usize, ty: usize, budget: &mut f64) -> Option<Place> {
        let (mut least, mut found) = (f64::INFINITY, None);
        for _ in 0..OUST_SERVERS {
            let server = narrow(self.rng.below(self.instance.servers));
            let Some(option) = self.instance.option_on(ty, server) else { continue };
            self.state.work += 4;
            let cost = self.cost_of_clearing(job, ty, server as usize);
            if cost < least {
                (least, found) = (cost, Some(Place { server, option }));
                std::mem::swap(&mut self.going, &mut self.cheapest);
            }
        }
        if least > *budget {
            return None;
        }
        *budget -= least;
        for at in 0..self.cheapest.len() {
            self.remove(self.cheapest[at] as usize);
        }
        found
    }

    /// Worth of the gangs that have to go for one task of type `ty` of `job`, the least dense
    /// first; infinite when the task does not fit without them either.
    fn cost_of_clearing(&mut self, job: usize, ty: usize, server: usize) -> f64 {
        let instance = self.instance;
        self.standing.clear();
        self.going.clear();
        let mut task = self.state.first_task(server);
        while task != NONE {
            let other = instance.job_of[task as usize] as usize;
            if other != job {
                self.standing.push((self.values.density[other], task));
            }
            task = self.state.task_after(task);
        }
        self.standing.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let kinds = instance.kinds;
        let lack = &mut [0; KINDS_MAX][..kinds];
        let free = &self.state.free[server * kinds..(server + 1) * kinds];
        for ((lack, a), f) in lack.iter_mut().zip(instance.row(ty)).zip(free) {
            *lack = a - f;
        }
        let mut cost = 0.0;
        for (_, task) in &self.standing {
            if lack.iter().all(|lack| *lack <= 0) {
                return cost;
            }
            let row = instance.row(instance.task_type[*task as usize] as usize);
            let other = instance.job_of[*task as usize];
            if !self.going.contains(&other) {
                if !row.iter().zip(&*lack).any(|(a, lack)| *a > 0 && *lack > 0) {
                    continue;
                }
                self.going.push(other);
                cost += self.values.job_worth[other as usize];
            }
            lack.iter_mut().zip(row).for_each(|(lack, a)| *lack -= a);
        }
        if lack.iter().all(|lack| *lack <= 0) { cost } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::start::share_prices;
    use super::*;
    use serde_json::{Value, json};

    /// Instance of a gang of two tasks that need a server each, and four small ones that fill both.
    fn full(value: f64, spread: bool) -> (Instance, Values) {
        let task = |cpus: u32, mean: f64| {
            let edge = |server| json!({"server": server, "mean": mean, "count": 1});
            json!({"request": [cpus], "edges": [edge("a"), edge("b")]})
        };
        let mut jobs: Vec<Value> =
            (0..4).map(|at| json!({"id": format!("small{at}"), "tasks": [task(2, 1.0)]})).collect();
        let (cpus, mean) = if spread { (2, value / 2.0) } else { (4, value / 2.0) };
        jobs.push(json!({"id": "big", "tasks": vec![task(cpus, mean); 2], "spread": spread}));
        let problem = json!({
            "kinds": ["cpu"], "slot": 1, "g": "none",
            "servers": [{"name": "a", "capacity": [4]}, {"name": "b", "capacity": [4]}],
            "jobs": jobs,
        });
        let instance = Instance::compile(&serde_json::from_value(problem).unwrap()).unwrap();
        let values = Values::new(&instance, &share_prices(&instance, 0.0));
        (instance, values)
    }

    /// Places all small gangs, and then the big one in place of what stands in its way.
    fn after_taking<'a>(instance: &'a Instance, values: &'a Values) -> Line<'a> {
        let mut state = State::new(instance);
        for job in 0..4 {
            assert!(state.insert_job(instance, values, job, Fit { tight: 0.1, start: 0 }));
        }
        let mut line = Line::new(instance, values, Stream::new(7), 1.0, &state);
        line.take_place(4);
        line
    }

    #[test]
    fn a_gang_takes_its_place_and_what_stood_there_goes() {
        let (instance, values) = full(10.0, false);
        let line = after_taking(&instance, &values);
        let mut servers = line.state.server[4..].to_vec();
        servers.sort_unstable();
        assert_eq!(servers, [0, 1]);
        assert!((0..4).all(|job| !line.state.is_placed(job) && line.state.server[job] == NONE));
        assert_eq!((line.state.placed, &line.state.free), (1, &vec![0, 0]));
    }

    #[test]
    fn no_more_goes_than_the_gang_is_worth_twice() {
        let (instance, values) = full(1.0, false);
        let line = after_taking(&instance, &values);
        assert!(!line.state.is_placed(4) && line.state.server[4..] == [NONE, NONE]);
        // What has gone by then has given its room back.
        let used: i32 = instance.capacity.iter().zip(&line.state.free).map(|(c, f)| c - f).sum();
        assert_eq!(used, instance.row(0)[0] * i32::try_from(line.state.placed).unwrap());
        assert!(line.state.placed >= 2);
    }

    #[test]
    fn tasks_of_a_spread_gang_take_different_servers() {
        let (instance, values) = full(10.0, true);
        let line = after_taking(&instance, &values);
        let mut servers = line.state.server[4..].to_vec();
        servers.sort_unstable();
        assert_eq!(servers, [0, 1]);
        assert_eq!((line.state.placed, &line.state.free), (3, &vec![0, 0]));
    }

    #[test]
    fn an_undone_step_leaves_nothing_behind() {
        let (instance, values) = full(10.0, false);
        let mut line = after_taking(&instance, &values);
        line.undo();
        assert!((0..4).all(|job| line.state.is_placed(job)) && !line.state.is_placed(4));
        assert_eq!(line.state.free, [0, 0]);
    }
}
