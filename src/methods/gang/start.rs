// SPDX-License-Identifier: GPL-3.0-or-later
//! Start of the search: greedy plans, dual prices with their bound, and the last plan.

use super::clock::Clock;
use super::dual::{Dual, Prices};
use super::instance::{Instance, NONE};
use super::problem::Options;
use super::state::{Fit, Score, State};
use super::task_prices::{self, TaskPrices};
use super::values::Values;

/// Shares of all time for resource prices and for task prices; the search has the rest.
const PRICES_SHARE: f64 = 0.1;
const TASK_PRICES_SHARE: f64 = 0.2;
/// Shortest deadline in seconds that leaves time for task prices: they need some passes to prove
/// more than resource prices do.
const TASK_PRICES_LEAST_S: f64 = 0.3;
/// Most steps of the descent.
const STEPS_MAX: u32 = 600;
/// Step length after a better plan is known.
const NEW_TARGET_STEP: f64 = 0.1;

/// Prices, bound and the best plan found on the way.
#[derive(Debug)]
pub struct Start {
    pub values: Values,
    pub prices: Prices,
    /// Prices of task types, where they prove more than `prices`.
    pub task_prices: Option<TaskPrices>,
    pub state: State,
}

impl Start {
    pub fn new(instance: &Instance, options: &Options<'_>, clock: Clock<'_>) -> Self {
        let mut dual = Dual::new(instance);
        let by_share = Values::new(instance, &share_prices(instance, dual.theta()));
        let mut state = greedy(instance, &by_share);
        if !options.warm_start.is_empty() {
            state = better(instance, state, last_plan(instance, options.warm_start));
        }
        // A share of the time that greedy left: in a large cluster that alone takes long.
        let first = clock.for_share(PRICES_SHARE / 2.0);
        find_prices(&mut dual, state.score().scalar(instance), first);
        let mut values = Values::new(instance, &dual.best);
        state = better(instance, state, greedy(instance, &values));
        if !first.expired() {
            dual.rewind(NEW_TARGET_STEP);
            let second = clock.for_share(PRICES_SHARE / 2.0);
            let target = state.score().scalar(instance);
            dual.descend(target, STEPS_MAX / 2, &|| second.expired());
            values = Values::new(instance, &dual.best);
            state = better(instance, state, greedy(instance, &values));
        }
        let prices = dual.best;
        let mut start = Self { values, prices, task_prices: None, state };
        if clock.seconds().is_none_or(|all| all >= TASK_PRICES_LEAST_S) {
            let rest = clock.for_share(TASK_PRICES_SHARE);
            start.task_prices =
                task_prices::descend(instance, &start.values, &start.prices, options.seed, rest);
        }
        start
    }

    /// Bound that task prices prove, or resource prices where there are no task prices.
    pub fn bound(&self) -> f64 {
        self.task_prices.as_ref().map_or(self.prices.bound, |found| found.bound)
    }

    /// Prices of task types.
    pub fn type_prices(&self, instance: &Instance) -> Vec<f64> {
        let best = |ty: usize| match instance.type_opts(ty).is_empty() {
            true => 0.0,
            false => self.values.reduced[self.values.best_option(instance, ty)],
        };
        match &self.task_prices {
            Some(found) => found.price.clone(),
            None => (0..instance.types).map(best).collect(),
        }
    }
}

/// Finds resource prices from nothing.
pub fn find_prices(dual: &mut Dual<'_>, target: f64, clock: Clock<'_>) {
    dual.find(target, &|| clock.expired());
    dual.descend(target, STEPS_MAX, &|| clock.expired());
}

/// Inserts all jobs by density, those that raise the score.
pub fn greedy(instance: &Instance, values: &Values) -> State {
    let mut state = State::new(instance);
    let mut order: Vec<usize> = (0..instance.jobs()).collect();
    order.sort_by(|a, b| values.density[*b].total_cmp(&values.density[*a]).then(a.cmp(b)));
    for job in order {
        state.insert_if_better(instance, values, job, Fit::default());
    }
    state.rescore(instance);
    state
}

/// Prices by which the classical density greedy sorts: requests as shares of the cluster.
pub fn share_prices(instance: &Instance, theta: f64) -> Prices {
    let kinds = instance.kinds;
    let mut total = vec![0.0; kinds];
    for row in instance.capacity.chunks_exact(kinds) {
        for k in 0..kinds {
            total[k] += f64::from(row[k]) / instance.kind_scale[k];
        }
    }
    let share: Vec<f64> = total.iter().map(|t| if *t > 0.0 { 1.0 / t } else { 0.0 }).collect();
    let lambda = share.iter().copied().cycle().take(instance.zones * kinds).collect();
    Prices { lambda, theta, bound: f64::INFINITY }
}

fn better(instance: &Instance, a: State, b: State) -> State {
    if b.score().beats(&a.score(), instance) { b } else { a }
}

/// The plan given by the caller, in which servers have their numbers of the problem.
fn last_plan(instance: &Instance, jobs: &[Vec<u32>]) -> State {
    let mut server = vec![NONE; instance.tasks()];
    for (job, given) in jobs.iter().enumerate().take(instance.jobs()) {
        let range = instance.job_tasks(job);
        if given.len() == range.len() {
            for (task, input) in range.zip(given) {
                let found = instance.internal_of.get(*input as usize);
                server[task] = found.copied().unwrap_or(NONE);
            }
        }
    }
    let mut state = State::new(instance);
    state.adopt(instance, &server);
    state
}

/// Whether no assignment can be better than `score`, up to rounding.
pub fn closes(instance: &Instance, bound: f64, score: &Score) -> bool {
    let value = score.scalar(instance);
    bound - value <= 4e-9 * value.abs().max(1e-3)
}
