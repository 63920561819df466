// SPDX-License-Identifier: GPL-3.0-or-later
//! Mutation: ruin and recreate (Schrimpf and others 2000) of whole gangs at a temperature.
//!
//! A step removes some gangs, tries them and some pending ones again in a noisy order of density,
//! and keeps the outcome by the rule of Metropolis, or takes it back. Every buffer is made once;
//! steps do not allocate.

use super::clock::{Clock, READ_EVERY};
use super::instance::{Instance, NONE, narrow};
use super::problem::KINDS_MAX;
use super::state::{Place, Saved, Score, State};
use super::values::Values;
use phalanx_core::random::Stream;

/// Largest number of gangs that one ruin removes.
const RUIN_JOBS_MAX: usize = 6;
/// Pending gangs tried again after a ruin, each the densest of as many drawn.
const CANDIDATES: usize = 4;
/// Largest change of a density by noise in the order of recreation, as a share of it.
pub const NOISE: f64 = 0.4;
/// Share of the steps that move one task to a better server.
const RELOCATIONS: f64 = 0.4;
/// Servers drawn for one task that moves or takes a place.
const SERVERS_DRAWN: usize = 8;
/// Largest worth of the gangs that go for one that comes, as a multiple of its own.
const OUST_LOSS_MAX: f64 = 2.0;

/// One line of plans: the current one, the best one, and scratch space.
#[derive(Debug)]
pub struct Line<'a> {
    pub instance: &'a Instance,
    values: &'a Values,
    pub state: State,
    pub best: Vec<u32>,
    pub best_score: Score,
    pub rng: Stream,
    /// Part of the ruins in which a pending gang takes its place.
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
            job_value,
        }
    }

    /// Steps at a temperature until so much work is done or the clock expires.
    pub fn anneal(&mut self, temperature: f64, work: u64, clock: Clock<'_>) {
        // Rounding of the running sums must not pile up.
        self.state.rescore(self.instance);
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

    /// Relocates a task where that loses nothing, or else ruins and recreates.
    fn step(&mut self, temperature: f64) {
        let before = self.state.score().scalar(self.instance);
        self.state.work += 4;
        self.removed.clear();
        self.saved.clear();
        self.inserted.clear();
        let relocated = self.rng.unit() < RELOCATIONS && self.relocate();
        if !relocated {
            self.ruin();
            self.recreate();
        }
        let loss = before - self.state.score().scalar(self.instance);
        if self.accepts(loss, if relocated { 0.0 } else { temperature }) {
            self.keep_best();
        } else {
            self.undo();
        }
    }

    /// The rule of Metropolis: the larger a loss is, the less often it is accepted.
    pub fn accepts(&mut self, loss: f64, temperature: f64) -> bool {
        let mut slack = || -self.rng.unit().max(1e-300).ln() * temperature * self.job_value;
        loss <= 0.0 || loss < slack()
    }

    pub fn keep_best(&mut self) {
        if self.state.score().beats(&self.best_score, self.instance) {
            self.best_score = self.state.rescore(self.instance);
            self.best.copy_from_slice(&self.state.server);
        }
    }

    /// Moves one task to a server where it is worth more, at need in exchange with another task,
    /// which goes elsewhere; false when nothing changed.
    fn relocate(&mut self) -> bool {
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
        for at in self.instance.type_opts(ty).take(SERVERS_DRAWN) {
            let option = self.values.by_reduced[at];
            if option == self.state.option[task] {
                return false;
            }
            let opt = &self.instance.opts[option as usize];
            let servers = (opt.hi - opt.lo) as usize;
            for _ in 0..servers.min(SERVERS_DRAWN) {
                let server = opt.lo + narrow(self.rng.below(servers));
                if self.move_to(Saved { task: narrow(task), server, option }) {
                    return true;
                }
            }
        }
        false
    }

    /// Moves a task to this place; false when it does not fit there in exchange for any other
    /// either.
    fn move_to(&mut self, to: Saved) -> bool {
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
        (0..self.going.len()).any(|at| self.exchange(to, self.going[at]))
    }

    /// Moves a task to this place and the other one there to its next best.
    fn exchange(&mut self, to: Saved, other: u32) -> bool {
        let instance = self.instance;
        let before = self.state.score().scalar(instance);
        self.lift(to.task);
        self.lift(other);
        self.state.put(instance, to.task as usize, to.server, to.option as usize);
        let ty = instance.task_type[other as usize] as usize;
        let start = self.draw_start();
        let place = self.state.choose(instance, self.values, ty, start);
        let place = place.filter(|place| !self.has_twin_on(other, place.server));
        if let Some(Place { server, option }) = place {
            self.state.put(instance, other as usize, server, option);
            if self.state.score().scalar(instance) > before {
                return true;
            }
        }
        self.undo();
        false
    }

    /// Whether another task of a spread gang is on this server.
    fn has_twin_on(&self, task: u32, server: u32) -> bool {
        let job = self.instance.job_of[task as usize] as usize;
        let servers = &self.state.server[self.instance.job_tasks(job)];
        self.instance.spread[job] && servers.contains(&server)
    }

    /// Takes a task off and remembers where it was.
    fn lift(&mut self, task: u32) {
        let (server, option) = (self.state.server[task as usize], self.state.option[task as usize]);
        self.saved.push(Saved { task, server, option });
        self.state.take(self.instance, task as usize);
    }

    /// Removes some gangs, or lets a pending one take its place.
    fn ruin(&mut self) {
        let pending = self.state.queue.len() - self.state.placed;
        if self.state.placed == 0 {
            return;
        }
        if pending > 0 && self.rng.unit() < self.oust {
            let job = self.promising(1) as usize;
            if self.instance.possible[job] {
                self.take_place(job);
            }
            return;
        }
        for _ in 0..(1 + self.rng.below(RUIN_JOBS_MAX)).min(self.state.placed) {
            let job = self.state.queue[self.rng.below(self.state.placed)];
            self.remove(job as usize);
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
        self.saved.extend(self.state.saved(self.instance, job));
        self.removed.push(narrow(job));
        self.state.remove_job(self.instance, job);
    }

    /// Tries the removed and some pending gangs again, by noisy density.
    fn recreate(&mut self) {
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
        self.insert_candidates(|_| false);
    }

    /// Draws the server at which the search of a long range begins.
    fn draw_start(&mut self) -> u32 {
        narrow(self.rng.below(self.instance.servers))
    }

    fn push_candidate(&mut self, job: u32, noise: f64) {
        let key = self.values.density[job as usize] * (1.0 + noise * (self.rng.unit() - 0.5));
        self.candidates.push((key, job));
    }

    fn insert_candidates(&mut self, stop: impl Fn(usize) -> bool) {
        let start = self.draw_start();
        self.candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for at in 0..self.candidates.len() {
            if stop(at) {
                return;
            }
            let job = self.candidates[at].1 as usize;
            if !self.state.is_placed(job)
                && self.state.insert_if_better(self.instance, self.values, job, start)
            {
                self.inserted.push(narrow(job));
            }
        }
    }

    /// Takes the current step back.
    fn undo(&mut self) {
        for at in (0..self.inserted.len()).rev() {
            self.state.remove_job(self.instance, self.inserted[at] as usize);
        }
        for Saved { task, .. } in &self.saved {
            if self.state.server[*task as usize] != NONE {
                self.state.take(self.instance, *task as usize);
            }
        }
        for Saved { task, server, option } in self.saved.drain(..) {
            self.state.put(self.instance, task as usize, server, option as usize);
        }
        for job in &self.removed {
            self.state.mark(self.instance, *job as usize, true);
        }
    }

    /// Tries all pending gangs, in the order of their density changed by so much noise.
    pub fn refill(&mut self, noise: f64, clock: Clock<'_>) {
        self.inserted.clear();
        self.candidates.clear();
        for at in self.state.placed..self.state.queue.len() {
            self.push_candidate(self.state.queue[at], noise);
        }
        self.insert_candidates(|at| at % READ_EVERY == 0 && clock.expired());
        self.state.rescore(self.instance);
    }

    /// Places a pending gang on full servers; whole gangs that stand in its way go, server by
    /// server, where they are worth least. When too much would have to go the gang stays pending,
    /// and what has gone by then is left to the recreation.
    ///
    /// A large gang hardly ever finds all that it needs where gangs were removed by chance.
    fn take_place(&mut self, job: usize) {
        let start = self.draw_start();
        let mut budget = OUST_LOSS_MAX * self.values.job_worth[job];
        let mut state = std::mem::take(&mut self.state);
        let placed = state.place_job(self.instance, job, |state, ty| {
            let free = state.choose(self.instance, self.values, ty, start);
            free.or_else(|| self.clear_for(state, (job, ty), &mut budget))
        });
        self.state = state;
        if placed {
            self.inserted.push(narrow(job));
        }
    }

    /// Removes the gangs in the way of one task of `job` on the server, of some, where they are
    /// worth least; none when that is more than `budget`, from which it is taken.
    fn clear_for(
        &mut self,
        state: &mut State,
        (job, ty): (usize, usize),
        budget: &mut f64,
    ) -> Option<Place> {
        let (mut least, mut found) = (f64::INFINITY, None);
        for _ in 0..SERVERS_DRAWN {
            let server = self.draw_start();
            let Some(option) = self.instance.option_on(ty, server) else { continue };
            state.work += 4;
            let cost = self.cost_of_clearing(state, (job, ty), server as usize);
            if cost < least {
                (least, found) = (cost, Some(Place { server, option }));
                std::mem::swap(&mut self.going, &mut self.cheapest);
            }
        }
        if least > *budget {
            return None;
        }
        *budget -= least;
        for other in &self.cheapest {
            self.saved.extend(state.saved(self.instance, *other as usize));
            self.removed.push(*other);
            state.remove_job(self.instance, *other as usize);
        }
        found
    }

    /// Worth of the gangs that have to go for one task of type `ty` of `job`, those of the
    /// least density first; infinite when it does not fit without them either.
    fn cost_of_clearing(&mut self, state: &State, (job, ty): (usize, usize), server: usize) -> f64 {
        let instance = self.instance;
        self.standing.clear();
        self.going.clear();
        let mut task = state.first_task(server);
        while task != NONE {
            let other = instance.job_of[task as usize] as usize;
            if other != job {
                self.standing.push((self.values.density[other], task));
            }
            task = state.task_after(task);
        }
        self.standing.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let kinds = instance.kinds;
        let lack = &mut [0; KINDS_MAX][..kinds];
        let free = &state.free[server * kinds..(server + 1) * kinds];
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

    /// One gang of two tasks that need a whole server each, and four small ones that fill the two.
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
        let instance = Instance::compile(&serde_json::from_value(problem).unwrap());
        let values = Values::new(&instance, &share_prices(&instance, 0.0));
        (instance, values)
    }

    /// Places all small gangs, and then the big one in place of what stands in its way.
    fn after_taking<'a>(instance: &'a Instance, values: &'a Values) -> Line<'a> {
        let mut state = State::new(instance);
        for job in 0..4 {
            assert!(state.insert_job(instance, values, job, 0));
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
