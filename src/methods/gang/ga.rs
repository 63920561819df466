// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode `ga`: a genetic algorithm on plans, with a certified gap.
//!
//! A chromosome is a plan: whole gangs with the server of each task; a gang is placed whole or
//! waits, and no server gives more than it has. Every chromosome of every generation is valid.
//! Seeds, crossover, mutation and selection stand in `docs/methods.md`, section 1 (c).
//!
//! Lines have random streams and budgets of their own, so that answers are the same bytes for any
//! number of threads; only a deadline cuts generations at other points.

use super::branch;
use super::bred::Warm;
use super::clock::Clock;
use super::crossover::Parent;
use super::dual::Prices;
use super::fill::Filler;
use super::instance::Instance;
use super::moves::Line;
use super::problem::{Bred, GaParams, Options, Problem, Stopped};
use super::rework::PASSES_MAX;
use super::start::{Start, closes};
use super::state::Score;
use foldhash::fast::FixedState;
use phalanx_core::random::Stream;
use rayon::prelude::*;
use std::hash::BuildHasher;

/// Servers up to which every line of the population is a seed of its own. In larger clusters time
/// is enough to fill them twice.
const FEW_SERVERS: usize = 256;
const LINES_MANY: usize = 2;
/// Share of the time that the start left for seeds, the same where only patterns gain much, and the
/// part of it for fillings from nothing; the rest is for reworks.
const SEEDS_SHARE: f64 = 0.45;
const SEEDS_SHARE_EQUAL: f64 = 0.93;
const FILL_SHARE: f64 = 0.7;
/// Work (servers evaluated) of all generations without a deadline; some seconds.
const WORK_MAX: u64 = 120_000_000;
/// Temperatures of the first and the last generation, in mean values of a placed gang.
const TEMPERATURE_FIRST: f64 = 0.4;
const TEMPERATURE_LAST: f64 = 0.008;
/// Number of gangs up to which the first temperature is `TEMPERATURE_FIRST`; with more it is lower,
/// as too few steps remain for each gang to make good what a warm start would lose.
const WARM_JOBS: f64 = 200.0;
/// Share of the generations, at the end and without a better plan, that counts as converged.
const STALE_PART: u64 = 4;
/// Search nodes, and share of the time, of the exact attempt on small problems.
const EXACT_NODES: u64 = 10_000;
const EXACT_SHARE: f64 = 0.3;
/// Result of a mode: an assignment, a bound, and why the search ended.
#[derive(Debug)]
pub struct Found {
    /// Internal server of each task, or `NONE`.
    pub server: Vec<u32>,
    /// Plans of the population's other lines.
    pub others: Vec<Vec<u32>>,
    pub prices: Option<Prices>,
    /// Upper bound of [`Score::scalar`].
    pub bound: f64,
    pub proven: bool,
    pub generations: u64,
    pub stopped: Stopped,
}

impl Found {
    /// Returns the population from which the next search may go on.
    pub fn bred(&self, problem: &Problem, instance: &Instance) -> Bred {
        let plans = std::iter::once(&self.server).chain(&self.others);
        let plans: Vec<&[u32]> = plans.map(Vec::as_slice).collect();
        let prices = self.prices.as_ref();
        prices.map(|prices| Bred::of(problem, instance, &plans, prices)).unwrap_or_default()
    }
}

pub fn solve(instance: &Instance, options: &Options<'_>, warm: &Warm, clock: Clock<'_>) -> Found {
    let start = Start::new(instance, options, warm, clock);
    let mut found = Found {
        server: start.state.server.clone(),
        others: Vec::new(),
        prices: Some(start.prices.clone()),
        bound: start.bound(),
        proven: closes(instance, start.bound(), &start.state.score()),
        generations: 0,
        stopped: Stopped::Converged,
    };
    if found.proven || solve_small(instance, &start, clock, &mut found) {
        return found;
    }
    let mut population = Population::seed(instance, &start, options, clock.until(1.0));
    let clock = clock.until(1.0);
    let generations = u64::from(options.ga.generations);
    for generation in 0..generations {
        population.breed(generation, clock);
        population.select(clock);
        found.generations += population.lines.len() as u64;
        found.proven = closes(instance, found.bound, &population.best_score);
        if found.proven || clock.expired() {
            break;
        }
    }
    found.stopped = match (found.proven, clock.expired()) {
        (true, _) => Stopped::Converged,
        (false, true) => Stopped::Deadline,
        (false, false) if population.stale * STALE_PART < generations => Stopped::Limit,
        (false, false) => Stopped::Converged,
    };
    let lines = population.lines.into_iter().map(|line| line.best);
    found.others = lines.filter(|plan| *plan != population.best).collect();
    found.server = population.best;
    found
}

/// Tries to search a small problem to its end.
fn solve_small(instance: &Instance, start: &Start, clock: Clock<'_>, found: &mut Found) -> bool {
    if !branch::fits(instance) {
        return false;
    }
    let clock = clock.until(EXACT_SHARE);
    let score = start.state.score();
    let tree = branch::search(instance, &start.prices, &score, EXACT_NODES, &|| clock.expired());
    if tree.complete {
        found.proven = true;
        found.generations = tree.nodes;
        if let Some(server) = tree.server {
            found.server = server;
        }
    }
    tree.complete
}

/// Share of the time for seeds: patterns gain more than moves in large clusters where no task cares
/// where it runs.
fn seeding_share(instance: &Instance, start: &Start) -> f64 {
    let equal = !start.values.choosy.contains(&true);
    if equal && instance.servers > FEW_SERVERS { SEEDS_SHARE_EQUAL } else { SEEDS_SHARE }
}

/// Lines of plans, and the best plan of all.
struct Population<'a> {
    instance: &'a Instance,
    params: &'a GaParams,
    lines: Vec<Line<'a>>,
    best: Vec<u32>,
    best_score: Score,
    /// Generations since the best plan was found.
    stale: u64,
    /// Work of one line in one generation.
    work: u64,
    threads: usize,
}

impl<'a> Population<'a> {
    /// Makes the first generation: the start, improved by patterns that differ from line to line.
    fn seed(
        instance: &'a Instance,
        start: &'a Start,
        options: &'a Options<'_>,
        clock: Clock<'_>,
    ) -> Self {
        let params = &options.ga;
        let wanted = (params.population as usize).max(1);
        let few = instance.servers <= FEW_SERVERS;
        let count = if few { wanted } else { wanted.min(LINES_MANY) };
        let threads = options.threads.max(1);
        let type_prices = start.type_prices(instance);
        let mut lines = Vec::with_capacity(count);
        let numbers: Vec<usize> = (0..count).collect();
        let clock = clock.until(seeding_share(instance, start));
        let batches = count.div_ceil(threads);
        for (batch, numbers) in numbers.chunks(threads).enumerate() {
            // What is left is shared among the batches that are left.
            let clock = clock.until(1.0).until(1.0 / (batches - batch) as f64);
            let made: Vec<Line<'_>> = numbers
                .par_iter()
                .map(|number| {
                    let stream = |at| Stream::numbered(options.seed, at);
                    let fill = stream(count + number);
                    let mut filler = Filler::new(instance, &start.values, &type_prices, fill);
                    let from = start.plans.get(*number).filter(|_| *number > 0);
                    // A plan that was bred has had its passes.
                    let passes = if start.plans.is_empty() { PASSES_MAX } else { 0 };
                    let from = (from.unwrap_or(&start.state), passes);
                    let plan = filler.improve(from, clock, FILL_SHARE);
                    Line::new(instance, &start.values, stream(*number), params.oust, &plan)
                })
                .collect();
            lines.extend(made);
        }
        let generations = u64::from(params.generations).max(1) * count as u64;
        let own = 200_000 + 4_000 * (instance.tasks() * instance.servers.min(64)) as u64;
        let work = options.work_max.unwrap_or(WORK_MAX.min(own * generations)) / generations + 1;
        let mut population = Self {
            instance,
            params,
            lines,
            best: start.state.server.clone(),
            best_score: start.state.score(),
            stale: 0,
            work,
            threads,
        };
        population.keep_best();
        population
    }

    /// Makes every line's child. Lines take turns where threads are fewer.
    fn breed(&mut self, generation: u64, clock: Clock<'_>) {
        let generations = f64::from(self.params.generations);
        let crowd = (WARM_JOBS / self.instance.jobs().max(1) as f64).min(1.0);
        let plans: Vec<Parent> = self.lines.iter().map(Parent::of).collect();
        let batches = self.lines.len().div_ceil(self.threads) as f64;
        let (params, work) = (self.params, self.work);
        let mut number = 0;
        for (batch, lines) in self.lines.chunks_mut(self.threads).enumerate() {
            let end = (generation as f64 + (batch + 1) as f64 / batches) / generations;
            let used = clock.used().unwrap_or(0.0);
            let progress = used.max(generation as f64 / generations);
            let cooled = (TEMPERATURE_LAST / TEMPERATURE_FIRST).powf(progress);
            let temperature = crowd * TEMPERATURE_FIRST * cooled;
            let clock = clock.until(end);
            lines.par_iter_mut().enumerate().for_each(|(at, line)| {
                line.cross(params, &plans, number + at, (temperature, clock));
                line.anneal(temperature, work, clock);
            });
            number += lines.len();
        }
    }

    /// Keeps the best plan, and lines apart: of equal ones the later is shaken.
    fn select(&mut self, clock: Clock<'_>) {
        self.stale = if self.keep_best() { 0 } else { self.stale + 1 };
        let hashes = FixedState::default();
        let mut seen: Vec<(u64, u64)> = Vec::with_capacity(self.lines.len());
        for line in &mut self.lines {
            let value = line.best_score.scalar(self.instance).to_bits();
            let key = (value, hashes.hash_one(&line.best));
            if seen.contains(&key) {
                line.shake(clock);
            } else {
                seen.push(key);
            }
        }
    }

    fn keep_best(&mut self) -> bool {
        let mut better = false;
        for line in &self.lines {
            if line.best_score.beats(&self.best_score, self.instance) {
                self.best_score = line.best_score;
                self.best.copy_from_slice(&line.best);
                better = true;
            }
        }
        better
    }
}
