// SPDX-License-Identifier: GPL-3.0-or-later
//! Dual prices of task types: a bound that uses that tasks are whole and servers separate.
//!
//! The bound and why it holds stand in `docs/methods.md`, section 1 (c).
//! The best reduced values at resource prices (`dual.rs`) are such prices and prove at least as
//! much. From there the descent is incremental (Nedic and Bertsekas 2001): a few servers and jobs
//! at a time, each with a step of its own.

use super::clock::Clock;
use super::dual::{Prices, ROUNDING};
use super::instance::{Instance, narrow};
use super::pattern::{Filling, Pattern};
use super::values::Values;
use phalanx_core::random::Stream;
use rayon::prelude::*;

/// Evaluations of the pattern search by server of a zone, in a step and for a bound, and most for
/// one zone: where zones are few their patterns decide, and there is time for them.
const EVALUATIONS_STEP: usize = 125;
const EVALUATIONS_BOUND: usize = 25_000;
const EVALUATIONS_MAX: usize = 250_000;
/// Most passes: with few zones a pass is short, and later passes change nothing.
const PASSES_MAX: u32 = 64;
/// Steps of the first and of the last pass, as parts of what a task leaves to its server.
const STEP_FIRST: f64 = 0.1;
const STEP_LAST: f64 = 0.004;
/// Share of the descent's time for passes; the rest is for the last bound.
const PASSES_SHARE: f64 = 0.8;
/// Number of servers that a pass visits, about, and at least four of every zone: the patterns of a
/// zone's servers differ little.
const VISITS: usize = 256;
/// Random stream of the descent; the lines use other streams.
const DESCENT_STREAM: usize = 1 << 7;
/// Most zones whose patterns are searched at the same prices, so that threads share the work.
const TOGETHER_MAX: usize = 32;
/// Options beyond which a pass takes longer than plans have.
const OPTIONS_MAX: usize = 3_000_000;

/// A type that a server of some zone may run.
#[derive(Debug, Clone, Copy)]
struct Item {
    ty: u32,
    /// Tasks of the type in all possible jobs.
    most: u32,
    worth: f64,
}

/// Prices of task types, and the bound that they prove.
#[derive(Debug, Clone)]
pub struct TaskPrices {
    pub price: Vec<f64>,
    /// Upper bound of [`super::state::Score::scalar`].
    pub bound: f64,
}

#[derive(Debug)]
struct Descent<'a> {
    instance: &'a Instance,
    values: &'a Values,
    theta: f64,
    /// Items by zone, and the first of each.
    items: Vec<Item>,
    item_start: Vec<usize>,
    /// Tasks of each type in possible jobs.
    total: Vec<f64>,
    price: Vec<f64>,
    /// Zone, and the number of the zone's servers for which one visit stands.
    visits: Vec<(u32, f64)>,
    /// Last best pattern by zone.
    known: Vec<Filling>,
    rng: Stream,
}

/// Finds the best task prices of some passes; none where they cannot help.
pub fn descend(
    instance: &Instance,
    values: &Values,
    prices: &Prices,
    seed: u64,
    clock: Clock<'_>,
) -> Option<TaskPrices> {
    if instance.merged || instance.has_untried || instance.opts.len() > OPTIONS_MAX {
        return None;
    }
    let mut descent = Descent::new(instance, values, prices, seed);
    let mut best = TaskPrices { price: descent.price.clone(), bound: f64::INFINITY };
    let unit = descent.mean_size();
    let passes = clock.until(PASSES_SHARE);
    for pass in 0..PASSES_MAX {
        // Where steps are too long for a problem its first prices prove most.
        if pass.is_power_of_two() || pass == 0 {
            descent.keep(&mut best, EVALUATIONS_STEP, clock);
        }
        let progress = passes.used().unwrap_or(0.0).max(f64::from(pass) / f64::from(PASSES_MAX));
        if progress >= 1.0 {
            break;
        }
        descent.pass(unit * STEP_FIRST * (STEP_LAST / STEP_FIRST).powf(progress), passes);
    }
    descent.keep(&mut best, EVALUATIONS_BOUND, clock);
    (best.bound < prices.bound).then_some(best)
}

impl<'a> Descent<'a> {
    fn new(instance: &'a Instance, values: &'a Values, prices: &Prices, seed: u64) -> Self {
        let total = instance.counts.by_type(instance.types);
        let mut by_zone: Vec<Vec<Item>> = vec![Vec::new(); instance.zones];
        let mut price = vec![0.0; instance.types];
        for ty in (0..instance.types).filter(|ty| total[*ty] > 0.0) {
            price[ty] = values.reduced[values.best_option(instance, ty)];
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let most = total[ty] as u32;
            for at in instance.type_opts(ty) {
                let item = Item { ty: narrow(ty), most, worth: values.worth[at] };
                by_zone[instance.opts[at].zone as usize].push(item);
            }
        }
        let mut item_start = vec![0];
        item_start.extend(by_zone.iter().scan(0, |sum, row| {
            *sum += row.len();
            Some(*sum)
        }));
        let mut visits = Vec::new();
        let most = narrow(VISITS / instance.zones.max(1)).max(4);
        for (zone, ends) in instance.zone_start.windows(2).enumerate() {
            let servers = ends[1] - ends[0];
            let count = servers.min(most);
            let each = f64::from(servers) / f64::from(count);
            visits.extend((0..count).map(|_| (narrow(zone), each)));
        }
        Self {
            instance,
            values,
            theta: prices.theta,
            items: by_zone.into_iter().flatten().collect(),
            item_start,
            total,
            price,
            visits,
            known: vec![Vec::new(); instance.zones],
            rng: Stream::numbered(seed, DESCENT_STREAM),
        }
    }

    fn servers(&self, zone: usize) -> f64 {
        f64::from(self.instance.zone_start[zone + 1] - self.instance.zone_start[zone])
    }

    /// Mean of what tasks leave to their servers; where nothing is scarce yet, a tenth of the
    /// largest worth.
    fn mean_size(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for (ty, total) in self.total.iter().enumerate().filter(|(_, total)| **total > 0.0) {
            sum += total * (self.values.best_worth[ty] - self.price[ty]).max(0.0);
            count += total;
        }
        let worth = self.values.best_worth.iter().filter(|w| w.is_finite());
        f64::max(sum / f64::max(count, 1.0), 0.1 * worth.fold(0.0_f64, |m, w| m.max(*w)))
    }

    /// Makes every visit and every job's step once, in random order, until time is up.
    fn pass(&mut self, step: f64, clock: Clock<'_>) {
        let visits = self.visits.len();
        let mut order: Vec<u32> = (0..narrow(visits + self.instance.counts.len())).collect();
        self.rng.shuffle(&mut order);
        let together = (self.instance.zones / 4).clamp(1, TOGETHER_MAX);
        for group in order.chunks((together * order.len() / visits.max(1)).max(1)) {
            if clock.expired() {
                return;
            }
            self.step(group, step);
        }
    }

    /// Raises the prices of types in the best patterns, and lowers those of types in jobs that pay.
    fn step(&mut self, group: &[u32], step: f64) {
        let visit = |at: &u32| self.visits.get(*at as usize).copied();
        let visited: Vec<(u32, f64)> = group.iter().filter_map(visit).collect();
        let zones: Vec<u32> = visited.iter().map(|(zone, _)| *zone).collect();
        self.fill(&zones, EVALUATIONS_STEP);
        for (zone, servers) in visited {
            for (ty, n) in &self.known[zone as usize] {
                let ty = *ty as usize;
                self.price[ty] += step * servers * f64::from(*n) / self.total[ty];
            }
        }
        let visits = narrow(self.visits.len());
        for job in group.iter().filter_map(|at| at.checked_sub(visits)) {
            self.step_job(job as usize, step);
        }
    }

    /// Lowers the prices of a job's task types until the job would no longer pay.
    fn step_job(&mut self, job: usize, step: f64) {
        let counts = &self.instance.counts;
        let profit = counts.sum(job, &self.price);
        if profit <= 0.0 {
            return;
        }
        let types = counts.gang(job);
        let norm: f64 = types.iter().map(|(ty, n)| n * n / self.total[*ty as usize]).sum();
        let step = step.min(profit / norm);
        for (ty, n) in types {
            self.price[*ty as usize] -= step * n / self.total[*ty as usize];
        }
    }

    /// Finds the best patterns of the servers of `zones` and keeps them in `known`; returns bounds
    /// of the patterns' profits.
    fn fill(&mut self, zones: &[u32], evaluations: usize) -> Vec<f64> {
        let each = evaluations * self.instance.servers / self.instance.zones.max(1);
        let evaluations = narrow(each.min(EVALUATIONS_MAX));
        let descent = &*self;
        let found: Vec<(f64, Filling)> = zones
            .par_iter()
            .map_init(Pattern::default, |pattern, zone| {
                descent.fill_zone(pattern, *zone as usize, evaluations)
            })
            .collect();
        let mut bounds = Vec::with_capacity(zones.len());
        for (zone, (bound, best)) in zones.iter().zip(found) {
            self.known[*zone as usize] = best;
            bounds.push(bound);
        }
        bounds
    }

    fn fill_zone(&self, pattern: &mut Pattern, zone: usize, evaluations: u32) -> (f64, Filling) {
        let instance = self.instance;
        let kinds = instance.kinds;
        let first = instance.zone_start[zone] as usize * kinds;
        let price = &self.values.price[zone * kinds..(zone + 1) * kinds];
        pattern.clear(&instance.capacity[first..first + kinds], price);
        for item in &self.items[self.item_start[zone]..self.item_start[zone + 1]] {
            let profit = item.worth - self.price[item.ty as usize];
            pattern.add(item.ty, profit, item.most, instance.row(item.ty as usize));
        }
        pattern.begin_with(&self.known[zone]);
        pattern.search(evaluations, 0.0, |ty| instance.row(ty as usize));
        (pattern.bound, pattern.best.clone())
    }

    /// Keeps the current prices if they prove more; out of time with the least evaluations.
    fn keep(&mut self, best: &mut TaskPrices, evaluations: usize, clock: Clock<'_>) {
        let instance = self.instance;
        let zones: Vec<u32> = (0..narrow(instance.zones)).collect();
        let mut bound = if self.theta > 0.0 { 0.25 / self.theta } else { 0.0 };
        for zones in zones.chunks(TOGETHER_MAX) {
            let evaluations = if clock.expired() { EVALUATIONS_STEP } else { evaluations };
            let bounds = self.fill(zones, evaluations);
            let servers = zones.iter().map(|zone| self.servers(*zone as usize));
            bound += servers.zip(bounds).map(|(servers, most)| servers * most).sum::<f64>();
        }
        let counts = &instance.counts;
        bound += (0..counts.len()).map(|gang| counts.sum(gang, &self.price).max(0.0)).sum::<f64>();
        bound += ROUNDING * bound.abs();
        if bound < best.bound {
            best.bound = bound;
            best.price.copy_from_slice(&self.price);
        }
    }
}
