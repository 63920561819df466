// SPDX-License-Identifier: GPL-3.0-or-later
//! Mode `best`: improves the source's schedule by other weights, orders and a local search. The
//! best schedule that was ever seen is the answer.

use super::anneal;
use super::bound::JobBound;
use super::budget::Budget;
use super::construct::{Constructor, best_assignment, offsets};
use super::exact;
use super::instance::{Instance, whole_ms};
use super::options::{Found, Options};
use super::problem::Start;
use super::schedule::{Placed, Schedule, one_core_each};
use super::seed::{self, Probe, Probed};
use phalanx_core::limits::{
    BISECT_ANNEAL_CELLS_MAX, BISECT_ANNEAL_UNITS, BISECT_BEST_UNITS, BISECT_ORDERS,
    BISECT_SEED_STEPS_MAX,
};
use phalanx_core::random::Stream;

/// Amount added to beta, so that hosts without data are used as well.
const SMOOTH: [f64; 2] = [0.2, 1.0];
/// A gap to the lower bound that is not worth more work.
const CLOSE_ENOUGH: f64 = 1e-9;

/// Gap that ends the search for other orders of large problems, where each probe is expensive.
const GAP_OF_ORDERS: f64 = 0.002;

/// The best schedule so far and the way in which it was found.
struct Best<'a> {
    instance: &'a Instance,
    schedule: Option<Schedule>,
    found_by: &'static str,
    lower: f64,
}

impl Best<'_> {
    fn offer(&mut self, found: Option<Schedule>, by: &'static str) {
        let Some(mut found) = found else { return };
        found.recompute(self.instance);
        if Schedule::improve(&mut self.schedule, found) {
            self.found_by = by;
        }
    }

    fn end(&self) -> f64 {
        self.schedule.as_ref().map_or(f64::INFINITY, |schedule| schedule.end)
    }

    fn is_optimal(&self) -> bool {
        self.end() <= self.lower * (1.0 + CLOSE_ENOUGH)
    }
}

/// The whole mode.
pub(super) fn run(
    instance: &Instance,
    bounds: &[JobBound],
    lower: f64,
    options: &Options<'_>,
) -> Found {
    let mut budget = Budget::new(BISECT_SEED_STEPS_MAX, options.expired);
    let mut best = Best { instance, schedule: None, found_by: "", lower };
    let mut probes = Vec::new();
    best.offer(seed::run(instance, &mut probes, &mut budget), "seed");
    best.offer(Some(one_core_each(instance)), "one core each");
    let mut optimal = false;
    if !best.is_optimal() && exact::is_small(instance).is_ok() {
        budget.refill(phalanx_core::limits::BISECT_EXACT_UNITS);
        let found = best.schedule.as_ref();
        if let Some((schedule, complete)) = exact::search(instance, bounds, found, &mut budget) {
            best.offer(Some(schedule), "exact search");
            optimal = complete;
        }
    }
    if !optimal {
        probe_all(&mut best, bounds, &mut probes, options, &mut budget);
    }
    let stopped = budget.deadline.then(|| budget.reason());
    let found_by = best.found_by;
    let schedule = best.schedule.unwrap_or_else(|| one_core_each(instance));
    Found { schedule, probes, found_by, optimal, stopped }
}

/// Probes other weights, choice by end, other orders, and annealing.
fn probe_all(
    best: &mut Best<'_>,
    bounds: &[JobBound],
    probes: &mut Vec<Probed>,
    options: &Options<'_>,
    budget: &mut Budget<'_>,
) {
    let instance = best.instance;
    budget.refill(BISECT_BEST_UNITS);
    let mut constructor = Constructor::new(instance, bounds);
    let up = best.end();
    let mut by_end = |makespan: f64, budget: &mut Budget<'_>| {
        constructor.probe(&instance.queue, makespan, budget)
    };
    best.offer(seed::bisect(instance, (up, best.lower), true, &mut by_end, probes, budget), "ends");
    for smooth in SMOOTH {
        if best.end() <= best.lower * (1.0 + GAP_OF_ORDERS) || budget.is_over() {
            break;
        }
        let mut weighed = |makespan: f64, budget: &mut Budget<'_>| {
            seed::probe(instance, smooth, makespan, budget)
        };
        let range = (best.end(), best.lower);
        best.offer(
            seed::bisect(instance, range, true, &mut weighed, probes, budget),
            "smoothed weights",
        );
    }
    let mut random = Stream::new(options.seed);
    let cells = instance.hosts.len().saturating_mul(instance.queue.len());
    if cells <= BISECT_ANNEAL_CELLS_MAX && !best.is_optimal() {
        budget.refill(BISECT_ANNEAL_UNITS);
        let found = best.schedule.as_ref();
        let found = found
            .and_then(|found| anneal::improve(instance, found, best.lower, &mut random, budget));
        best.offer(found, "annealing");
    } else {
        other_orders(best, &mut constructor, probes, &mut random, budget);
    }
    if instance.start == Start::Async {
        let reassigned = best.schedule.as_ref().map(|found| assign_again(instance, found));
        best.offer(reassigned, "dealt again");
    }
}

/// Perturbed orders, each probed a little below the best so far.
fn other_orders(
    best: &mut Best<'_>,
    constructor: &mut Constructor<'_>,
    probes: &mut Vec<Probed>,
    random: &mut Stream,
    budget: &mut Budget<'_>,
) {
    let instance = best.instance;
    let estimate = |i: usize| instance.jobs[i].total / instance.jobs[i].speed;
    for _ in 0..BISECT_ORDERS {
        if best.end() <= best.lower * (1.0 + GAP_OF_ORDERS) {
            break;
        }
        let mut keyed: Vec<(f64, usize)> = instance
            .queue
            .iter()
            .map(|&i| (estimate(i) * (0.7 + 0.6 * random.unit()), i))
            .collect();
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let order: Vec<usize> = keyed.into_iter().map(|(_, i)| i).collect();
        for part in [0.5, 0.9] {
            let makespan = whole_ms(best.lower + part * (best.end() - best.lower));
            if makespan >= best.end() {
                continue;
            }
            let found = match constructor.probe(&order, makespan, budget) {
                Probe::Feasible(schedule) => Some(schedule),
                Probe::Infeasible => None,
                Probe::OutOfBudget => return,
            };
            probes.push(Probed { makespan, feasible: found.is_some() });
            best.offer(found, "other order");
        }
    }
}

/// Keeps cores and order, with blocks assigned for when each core really begins.
fn assign_again(instance: &Instance, schedule: &Schedule) -> Schedule {
    let mut available = instance.available.clone();
    let mut again = Schedule::default();
    for placed in &schedule.placed {
        let hosts = instance.hosts_of(&placed.cores);
        let waits = offsets(instance, &placed.cores, &available);
        let job = &instance.jobs[placed.job];
        let mut assignment = best_assignment(instance, job, &hosts, &waits);
        let end = |assignment| Placed::end_of(instance, job, &placed.cores, assignment, &available);
        if end(&placed.assignment) < end(&assignment) {
            assignment = placed.assignment.clone();
        }
        let cores = placed.cores.clone();
        again.placed.push(Placed::new(instance, placed.job, cores, assignment, &mut available));
    }
    again.recompute(instance);
    again
}
