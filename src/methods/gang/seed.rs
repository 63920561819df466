// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode `seed`: the document's genetic algorithm on binary chromosomes over edges x tasks.
//!
//! A chromosome says on which servers each task has a copy; a task may have several or none.
//! Capacity holds in every chromosome, as in the document; the gang rule is restored by `repair`
//! before a chromosome is valued. Every re-draw of the document is bounded.

use super::clock::Clock;
use super::ga::Found;
use super::instance::{Instance, NONE, narrow};
use super::problem::{Options, Stopped};
use super::state::{Score, State};
use phalanx_core::random::Stream;

/// Chromosomes, P in the document.
const POPULATION: usize = 20;
/// Iterations, NI in the document.
const GENERATIONS: u64 = 400;
/// Draws of one chromosome before the capacity is restored by dropping copies, and of one mutation
/// before the chromosome stays as it is.
const DRAWS_MAX: u32 = 16;
/// Task copies looked at without a deadline; some seconds.
const WORK_MAX: u64 = 400_000_000;
/// Expected copies per chromosome above which the first draw is thinner than one half.
const COPIES_MAX: usize = 1 << 20;

/// Copies by task: internal servers, ascending, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chromosome {
    pub copies: Vec<Vec<u32>>,
    free: Vec<i32>,
}

impl Chromosome {
    pub fn empty(instance: &Instance) -> Chromosome {
        Chromosome { copies: vec![Vec::new(); instance.tasks()], free: instance.capacity.clone() }
    }

    fn room(&self, instance: &Instance, ty: usize, server: usize) -> bool {
        let k = instance.kinds;
        let free = &self.free[server * k..(server + 1) * k];
        instance.request[ty * k..(ty + 1) * k].iter().zip(free).all(|(a, f)| a <= f)
    }

    fn shift(&mut self, instance: &Instance, ty: usize, server: usize, sign: i32) {
        let k = instance.kinds;
        let free = &mut self.free[server * k..(server + 1) * k];
        let request = &instance.request[ty * k..(ty + 1) * k];
        free.iter_mut().zip(request).for_each(|(f, a)| *f += sign * a);
    }

    /// Adds a copy, whatever the capacity; true when it was not there.
    pub fn add(&mut self, instance: &Instance, task: usize, server: u32) -> bool {
        let Err(at) = self.copies[task].binary_search(&server) else { return false };
        self.copies[task].insert(at, server);
        self.shift(instance, instance.task_type[task] as usize, server as usize, -1);
        true
    }

    fn drop_copy(&mut self, instance: &Instance, task: usize, server: u32) {
        if let Ok(at) = self.copies[task].binary_search(&server) {
            self.copies[task].remove(at);
            self.shift(instance, instance.task_type[task] as usize, server as usize, 1);
        }
    }

    fn drop_copies(&mut self, instance: &Instance, task: usize) {
        while let Some(old) = self.copies[task].last().copied() {
            self.drop_copy(instance, task, old);
        }
    }

    /// Whether one of these tasks has a copy on the server.
    fn uses(&self, tasks: std::ops::Range<usize>, server: u32) -> bool {
        self.copies[tasks].iter().any(|copies| copies.binary_search(&server).is_ok())
    }

    /// Constraint (1): no server gives more than it has.
    pub fn within_capacity(&self) -> bool {
        self.free.iter().all(|f| *f >= 0)
    }
}

/// Servers that a task of type `ty` may use (R_l in the document), counted and by number.
fn reachable(instance: &Instance, ty: usize) -> usize {
    let opts = &instance.opts[instance.type_opts(ty)];
    opts.iter().map(|o| (o.hi - o.lo) as usize).sum()
}

fn nth_reachable(instance: &Instance, ty: usize, mut n: usize) -> u32 {
    for opt in &instance.opts[instance.type_opts(ty)] {
        let len = (opt.hi - opt.lo) as usize;
        if n < len {
            return opt.lo + narrow(n);
        }
        n -= len;
    }
    NONE
}

/// Independent bits, re-drawn while (1) is violated; each draw is thinner than the one before.
fn draw(instance: &Instance, reach: &[usize], rng: &mut Stream, work: &mut u64) -> Chromosome {
    let expected: usize =
        instance.task_type.iter().map(|ty| reach[*ty as usize]).sum::<usize>() / 2;
    let mut probability = 0.5 * (COPIES_MAX as f64 / expected.max(1) as f64).min(1.0);
    for attempt in 0..DRAWS_MAX {
        let mut drawn = Chromosome::empty(instance);
        for task in 0..instance.tasks() {
            let ty = instance.task_type[task] as usize;
            draw_task(instance, &mut drawn, (task, ty, reach[ty]), probability, rng);
            *work += 1 + drawn.copies[task].len() as u64;
        }
        if drawn.within_capacity() {
            return drawn;
        }
        if attempt + 1 == DRAWS_MAX {
            thin(instance, &mut drawn);
            return drawn;
        }
        probability *= 0.7;
    }
    Chromosome::empty(instance)
}

/// Sets each of a task's bits with `probability`, by jumping from one set bit to the next.
fn draw_task(
    instance: &Instance,
    drawn: &mut Chromosome,
    (task, ty, reach): (usize, usize, usize),
    probability: f64,
    rng: &mut Stream,
) {
    let log = (1.0 - probability).ln();
    let mut at = 0_usize;
    loop {
        let skip = (rng.unit().max(1e-300).ln() / log).floor().min(1e12);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let skip = skip as usize;
        at = at.saturating_add(skip);
        if at >= reach {
            return;
        }
        drawn.add(instance, task, nth_reachable(instance, ty, at));
        at += 1;
    }
}

/// Drops copies from overfull servers until (1) holds.
fn thin(instance: &Instance, chromosome: &mut Chromosome) {
    let k = instance.kinds;
    for task in 0..instance.tasks() {
        for at in (0..chromosome.copies[task].len()).rev() {
            let server = chromosome.copies[task][at];
            let row = server as usize * k;
            if chromosome.free[row..row + k].iter().any(|f| *f < 0) {
                chromosome.drop_copy(instance, task, server);
            }
        }
    }
}

/// Mutation: every task of a random job moves to a random connected server.
fn mutate(instance: &Instance, chromosome: &mut Chromosome, reach: &[usize], rng: &mut Stream) {
    if instance.jobs() == 0 {
        return;
    }
    for _ in 0..DRAWS_MAX {
        let job = rng.below(instance.jobs());
        let range = instance.job_tasks(job);
        let kept: Vec<Vec<u32>> = chromosome.copies[range.clone()].to_vec();
        for task in range.clone() {
            let ty = instance.task_type[task] as usize;
            if reach[ty] == 0 {
                continue;
            }
            let server = nth_reachable(instance, ty, rng.below(reach[ty]));
            chromosome.drop_copies(instance, task);
            chromosome.add(instance, task, server);
        }
        if chromosome.within_capacity() {
            return;
        }
        for (task, kept) in range.zip(kept) {
            chromosome.drop_copies(instance, task);
            for server in kept {
                chromosome.add(instance, task, server);
            }
        }
    }
}

/// Crossover: the parents swap everything that they have on one server.
pub fn swap_server(instance: &Instance, a: &mut Chromosome, b: &mut Chromosome, server: u32) {
    for task in 0..instance.tasks() {
        let (in_a, in_b) = (a.copies[task].contains(&server), b.copies[task].contains(&server));
        if in_a && !in_b {
            a.drop_copy(instance, task, server);
            b.add(instance, task, server);
        } else if in_b && !in_a {
            b.drop_copy(instance, task, server);
            a.add(instance, task, server);
        }
    }
}

/// Restores the gang rule: one copy per task, missing tasks of started jobs placed, else the job
/// is dropped.
///
/// Of several copies the one with the highest value stays (ties: lowest server in input order);
/// a missing task goes to the feasible server of the highest value, by the same ties.
pub fn repair(instance: &Instance, chromosome: &Chromosome) -> State {
    let mut fixed = chromosome.clone();
    for job in 0..instance.jobs() {
        keep_best_copies(instance, &mut fixed, job);
    }
    for job in 0..instance.jobs() {
        let range = instance.job_tasks(job);
        let started = range.clone().any(|task| !fixed.copies[task].is_empty());
        let mut complete = started;
        for task in range.clone() {
            if !complete || !fixed.copies[task].is_empty() {
                continue;
            }
            let ty = instance.task_type[task] as usize;
            let servers = instance.opts[instance.type_opts(ty)].iter().flat_map(|o| o.lo..o.hi);
            let taken = |s: u32| instance.spread[job] && fixed.uses(range.clone(), s);
            let feasible = servers.filter(|s| fixed.room(instance, ty, *s as usize) && !taken(*s));
            match best_of(instance, ty, feasible) {
                Some(server) => {
                    fixed.add(instance, task, server);
                }
                None => complete = false,
            }
        }
        if started && !complete {
            for task in range {
                while let Some(server) = fixed.copies[task].last().copied() {
                    fixed.drop_copy(instance, task, server);
                }
            }
        }
    }
    let server: Vec<u32> =
        fixed.copies.iter().map(|copies| copies.first().copied().unwrap_or(NONE)).collect();
    let mut state = State::new(instance);
    state.adopt(instance, &server);
    state.rescore(instance);
    state
}

/// Leaves each task of a job one copy, and a spread job one task on each server.
fn keep_best_copies(instance: &Instance, fixed: &mut Chromosome, job: usize) {
    let range = instance.job_tasks(job);
    for task in range.clone() {
        let ty = instance.task_type[task] as usize;
        let copies = fixed.copies[task].clone();
        let before = range.start..task;
        let open = |s: &u32| !instance.spread[job] || !fixed.uses(before.clone(), *s);
        let keep = best_of(instance, ty, copies.iter().copied().filter(open));
        for server in copies.into_iter().filter(|s| Some(*s) != keep) {
            fixed.drop_copy(instance, task, server);
        }
    }
}

/// The server of the highest mean - cost (untried edges first); ties: lowest input index.
fn best_of(instance: &Instance, ty: usize, servers: impl Iterator<Item = u32>) -> Option<u32> {
    let mut best: Option<(u32, f64, u32, u32)> = None;
    for server in servers {
        let Some(option) = instance.option_on(ty, server) else { continue };
        let opt = &instance.opts[option];
        let input = instance.input_of[server as usize];
        let better = best.is_none_or(|(untried, lin, at, _)| {
            let order = opt.untried.cmp(&untried).then(opt.lin.total_cmp(&lin));
            order.then(at.cmp(&input)).is_gt()
        });
        if better {
            best = Some((opt.untried, opt.lin, input, server));
        }
    }
    best.map(|(.., server)| server)
}

/// Fitness-proportional choice (formula 15); shifted when a fitness is not positive.
fn select(fitness: &[f64], rng: &mut Stream) -> usize {
    let min = fitness.iter().copied().fold(f64::INFINITY, f64::min);
    let shift = if min > 0.0 { 0.0 } else { 1e-9 - min };
    let sum: f64 = fitness.iter().map(|f| f + shift).sum();
    let mut at = rng.unit() * sum;
    for (i, f) in fitness.iter().enumerate() {
        at -= f + shift;
        if at < 0.0 {
            return i;
        }
    }
    fitness.len().saturating_sub(1)
}

pub fn solve(instance: &Instance, options: &Options<'_>, clock: Clock<'_>) -> Found {
    let mut rng = Stream::new(options.seed);
    let reach: Vec<usize> = (0..instance.types).map(|ty| reachable(instance, ty)).collect();
    let mut work = 0;
    let mut best = State::new(instance);
    let mut best_score = best.score();
    let mut population = Vec::with_capacity(POPULATION);
    let mut fitness = Vec::with_capacity(POPULATION);
    let mut stopped = Stopped::Limit;
    let keep = |chromosome: &Chromosome, best: &mut State, best_score: &mut Score| {
        let state = repair(instance, chromosome);
        let score = state.score();
        if score.beats(best_score, instance) {
            *best = state;
            *best_score = score;
        }
        instance.delta + score.scalar(instance)
    };
    for _ in 0..POPULATION {
        if clock.expired() {
            break;
        }
        let drawn = draw(instance, &reach, &mut rng, &mut work);
        fitness.push(keep(&drawn, &mut best, &mut best_score));
        population.push(drawn);
    }
    let mut generation = 0;
    let cost = (instance.tasks() + instance.jobs() + instance.servers) as u64;
    while generation < GENERATIONS && work < WORK_MAX && population.len() >= 2 {
        generation += 1;
        for i in 0..population.len() {
            if clock.expired() {
                break;
            }
            mutate(instance, &mut population[i], &reach, &mut rng);
            fitness[i] = keep(&population[i], &mut best, &mut best_score);
            work += cost;
        }
        if clock.expired() {
            break;
        }
        let (a, b) = (select(&fitness, &mut rng), select(&fitness, &mut rng));
        if a != b && instance.servers > 0 {
            let server = narrow(rng.below(instance.servers));
            let (low, high) = population.split_at_mut(a.max(b));
            swap_server(instance, &mut low[a.min(b)], &mut high[0], server);
            for i in [a, b] {
                fitness[i] = keep(&population[i], &mut best, &mut best_score);
            }
        }
    }
    if clock.expired() {
        stopped = Stopped::Deadline;
    }
    Found {
        server: best.server,
        bound: f64::INFINITY,
        proven: false,
        generations: generation,
        stopped,
    }
}
