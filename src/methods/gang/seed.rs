// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode `seed`: the document's genetic algorithm on binary chromosomes over edges x tasks.
//!
//! A chromosome says on which servers each task has a copy; a task may have several or none.
//! Capacity holds in every chromosome, as in the document; the gang rule is restored in a plan
//! beside it, which is what counts. A change repairs the gangs that it touched, no others. Every
//! re-draw of the document is bounded.

use super::clock::Clock;
use super::ga::Found;
use super::instance::{Instance, NONE, narrow};
use super::problem::{Mutation, Options, Stopped};
use super::state::State;
use phalanx_core::random::Stream;
use std::cmp::Ordering;

/// Draws of one chromosome before the capacity is restored by dropping copies, and of one mutation
/// before the chromosome stays as it is.
const DRAWS_MAX: u32 = 16;

/// Copies by task: internal servers, ascending, without duplicates.
#[derive(Debug, Clone)]
pub struct Chromosome {
    pub copies: Vec<Vec<u32>>,
    free: Vec<i32>,
    /// Whole gangs, as `repair` makes them of the chromosome's copies.
    pub plan: State,
}

impl Chromosome {
    pub fn empty(instance: &Instance) -> Chromosome {
        let copies = vec![Vec::new(); instance.tasks()];
        Chromosome { copies, free: instance.capacity.clone(), plan: State::new(instance) }
    }

    fn shift(&mut self, instance: &Instance, ty: usize, server: usize, sign: i32) {
        let k = instance.kinds;
        let free = &mut self.free[server * k..(server + 1) * k];
        let request = &instance.request[ty * k..(ty + 1) * k];
        free.iter_mut().zip(request).for_each(|(f, a)| *f += sign * a);
    }

    /// Adds a copy of a task, whatever the capacity; returns true when the task had none there.
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

    /// Whether constraint (1) holds on the servers of a task's copies: none gives more than it has.
    pub fn holds(&self, instance: &Instance, task: usize) -> bool {
        let row = |s: u32| &self.free[s as usize * instance.kinds..][..instance.kinds];
        self.copies[task].iter().all(|s| row(*s).iter().all(|f| *f >= 0))
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

/// Draws independent bits, again while (1) is violated; each draw is thinner than the one before.
fn draw(instance: &Instance, reach: &[usize], rng: &mut Stream) -> Chromosome {
    let mut probability = 0.5;
    for _ in 1..DRAWS_MAX {
        let mut drawn = Chromosome::empty(instance);
        if (0..instance.tasks()).all(|task| {
            draw_task(instance, &mut drawn, (task, reach), probability, rng);
            drawn.holds(instance, task)
        }) {
            return drawn;
        }
        probability *= 0.7;
    }
    let mut drawn = Chromosome::empty(instance);
    for task in 0..instance.tasks() {
        draw_task(instance, &mut drawn, (task, reach), probability, rng);
    }
    thin(instance, &mut drawn);
    drawn
}

/// Sets each of a task's bits with `probability`, by jumping from one set bit to the next.
fn draw_task(
    instance: &Instance,
    drawn: &mut Chromosome,
    (task, reach): (usize, &[usize]),
    probability: f64,
    rng: &mut Stream,
) {
    let ty = instance.task_type[task] as usize;
    let log = (1.0 - probability).ln();
    let mut at = 0_usize;
    loop {
        let skip = (rng.unit().max(1e-300).ln() / log).floor().min(1e12);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let skip = skip as usize;
        at = at.saturating_add(skip);
        if at >= reach[ty] {
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

/// Mutation: every task of a random job moves to a random connected server; returns the job.
fn mutate(
    instance: &Instance,
    chromosome: &mut Chromosome,
    (reach, mutation): (&[usize], Mutation),
    rng: &mut Stream,
) -> Option<usize> {
    for _ in 0..DRAWS_MAX.min(narrow(instance.jobs())) {
        let job = rng.below(instance.jobs());
        let range = instance.job_tasks(job);
        let kept: Vec<Vec<u32>> = chromosome.copies[range.clone()].to_vec();
        for task in range.clone() {
            let ty = instance.task_type[task] as usize;
            if reach[ty] == 0 {
                continue;
            }
            let server = nth_reachable(instance, ty, rng.below(reach[ty]));
            if mutation == Mutation::Move {
                chromosome.drop_copies(instance, task);
            }
            chromosome.add(instance, task, server);
        }
        if range.clone().all(|task| chromosome.holds(instance, task)) {
            return Some(job);
        }
        for (task, kept) in range.zip(kept) {
            chromosome.drop_copies(instance, task);
            for server in kept {
                chromosome.add(instance, task, server);
            }
        }
    }
    None
}

/// Crossover: the parents swap all their tasks on one server; returns the jobs that this changes.
pub fn swap_server(
    instance: &Instance,
    a: &mut Chromosome,
    b: &mut Chromosome,
    server: u32,
) -> Vec<usize> {
    let mut changed = Vec::new();
    for task in 0..instance.tasks() {
        let (in_a, in_b) = (a.copies[task].contains(&server), b.copies[task].contains(&server));
        if in_a == in_b {
            continue;
        }
        let (from, to) = if in_a { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        from.drop_copy(instance, task, server);
        to.add(instance, task, server);
        changed.push(instance.job_of[task] as usize);
    }
    changed.dedup();
    changed
}

/// Restores the gang rule for these jobs in the plan: one copy per task, missing tasks of started
/// jobs placed, else the job is dropped.
///
/// Of several copies the one with the highest value stays (ties: lowest server in input order);
/// a missing task goes to the feasible server of the highest value, by the same ties.
pub fn repair(instance: &Instance, chromosome: &mut Chromosome, jobs: &[usize]) {
    let Chromosome { copies, plan, .. } = chromosome;
    for job in jobs {
        if plan.is_placed(*job) {
            plan.remove_job(instance, *job);
        }
    }
    for task in jobs.iter().flat_map(|job| instance.job_tasks(*job)) {
        let ty = instance.task_type[task] as usize;
        let copy = |s: &u32| Some((*s, *s + 1, instance.option_on(ty, *s)?));
        put_best(instance, plan, task, copies[task].iter().filter_map(copy));
    }
    for job in jobs {
        let tasks = instance.job_tasks(*job);
        let missing: Vec<usize> = tasks.clone().filter(|task| plan.server[*task] == NONE).collect();
        let started = tasks.clone().any(|task| !copies[task].is_empty());
        let complete = started
            && missing.iter().all(|task| {
                let options = instance.type_opts(instance.task_type[*task] as usize);
                let range = |at: usize| (instance.opts[at].lo, instance.opts[at].hi, at);
                put_best(instance, plan, *task, options.map(range))
            });
        if complete {
            plan.mark(instance, *job, true);
        } else {
            let placed = tasks.filter(|task| plan.server[*task] != NONE).collect::<Vec<_>>();
            placed.into_iter().for_each(|task| plan.take(instance, task));
        }
    }
}

/// Puts a task on the server with room that has the highest mean - cost (untried edges first; ties:
/// lowest input index), of ranges of servers with their options; false where none has room.
fn put_best(
    instance: &Instance,
    plan: &mut State,
    task: usize,
    ranges: impl Iterator<Item = (u32, u32, usize)>,
) -> bool {
    let job = instance.job_of[task] as usize;
    let twins = if instance.spread[job] { instance.job_tasks(job) } else { 0..0 };
    let ty = instance.task_type[task] as usize;
    let mut best: Option<(usize, u32, u32)> = None;
    for (lo, hi, option) in ranges {
        let terms = |at: usize| (instance.opts[at].untried, instance.opts[at].lin);
        let ((untried, lin), than) = (terms(option), best.map(|(at, ..)| terms(at)));
        let order = than.map(|than| untried.cmp(&than.0).then(lin.total_cmp(&than.1)));
        if order.is_some_and(Ordering::is_lt) {
            continue;
        }
        let first = |from| plan.first_fit(instance, ty, from, hi);
        let mut fitting = std::iter::successors(first(lo), |server| first(server + 1));
        let Some(server) = fitting.find(|s| !plan.server[twins.clone()].contains(s)) else {
            continue;
        };
        let input = instance.input_of[server as usize];
        let order = order.unwrap_or(Ordering::Greater);
        if order.then(best.map_or(0, |(.., at)| at).cmp(&input)).is_gt() {
            best = Some((option, server, input));
        }
    }
    let Some((option, server, _)) = best else { return false };
    plan.put(instance, task, server, option);
    true
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
    let params = &options.document;
    let mut rng = Stream::new(options.seed);
    let reach: Vec<usize> = (0..instance.types).map(|ty| reachable(instance, ty)).collect();
    let mut best = State::new(instance).server;
    let mut best_score = State::new(instance).score();
    let mut keep = |chromosome: &mut Chromosome, jobs: &[usize]| {
        repair(instance, chromosome, jobs);
        let score = chromosome.plan.score();
        if score.beats(&best_score, instance) {
            best.copy_from_slice(&chromosome.plan.server);
            best_score = score;
        }
        instance.delta + score.scalar(instance)
    };
    let all: Vec<usize> = (0..instance.jobs()).collect();
    let (mut population, mut fitness) = (Vec::new(), Vec::new());
    while population.len() < params.population as usize && !clock.expired() {
        let mut drawn = draw(instance, &reach, &mut rng);
        fitness.push(keep(&mut drawn, &all));
        population.push(drawn);
    }
    let mut generation = 0;
    while generation < u64::from(params.generations) && !clock.expired() {
        generation += 1;
        for (chromosome, fitness) in population.iter_mut().zip(&mut fitness) {
            if clock.expired() {
                break;
            }
            let job = mutate(instance, chromosome, (&reach, params.mutation), &mut rng);
            *fitness = job.map_or(*fitness, |job| keep(chromosome, &[job]));
        }
        let (a, b) = (select(&fitness, &mut rng), select(&fitness, &mut rng));
        if a != b && instance.servers > 0 {
            let server = narrow(rng.below(instance.servers));
            let (low, high) = population.split_at_mut(a.max(b));
            let changed = swap_server(instance, &mut low[a.min(b)], &mut high[0], server);
            for i in [a, b] {
                fitness[i] = keep(&mut population[i], &changed);
            }
        }
    }
    Found {
        server: best,
        others: Vec::new(),
        prices: None,
        bound: f64::INFINITY,
        proven: false,
        generations: generation,
        stopped: if clock.expired() { Stopped::Deadline } else { Stopped::Limit },
    }
}
