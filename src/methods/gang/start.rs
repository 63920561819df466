// SPDX-License-Identifier: GPL-3.0-or-later
//! Start of the search: greedy plans, dual prices with their bound, and the population bred before.

use super::bred::Warm;
use super::clock::Clock;
use super::dual::{Dual, Prices};
use super::instance::Instance;
use super::problem::Options;
use super::state::{Fit, Score, State};
use super::task_prices::{self, TaskPrices};
use super::values::Values;

/// Shares of all time for resource prices and for task prices; the rest is for the search.
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
    /// Plans of the previous search, reduced to what still fits.
    pub plans: Vec<State>,
}

impl Start {
    pub fn new(instance: &Instance, options: &Options<'_>, warm: &Warm, clock: Clock<'_>) -> Self {
        let mut dual = Dual::new(instance);
        let mut values = Values::new(instance, &share_prices(instance, dual.theta()));
        let mut state = greedy(instance, &values, State::new(instance));
        if let Some(prices) = &warm.prices {
            dual.resume(prices, NEW_TARGET_STEP);
            values = Values::new(instance, &dual.best);
        }
        let adopted = warm.plans.iter().map(|plan| State::with(instance, plan));
        let plans: Vec<State> = adopted.collect();
        if let Some(first) = plans.first() {
            let best = plans.iter().fold(first.clone(), |a, b| better(instance, a, b.clone()));
            // What has become free goes to the densest gangs.
            state = better(instance, state, greedy(instance, &values, best));
        }
        // A share of the time that greedy left: in a large cluster that alone takes long.
        let first = clock.for_share(PRICES_SHARE / 2.0);
        let target = state.score().scalar(instance);
        match warm.prices {
            Some(_) => dual.descend(target, STEPS_MAX, &|| first.expired()),
            None => find_prices(&mut dual, target, first),
        }
        values = Values::new(instance, &dual.best);
        state = better(instance, state, greedy(instance, &values, State::new(instance)));
        if !first.expired() {
            dual.rewind(NEW_TARGET_STEP);
            let second = clock.for_share(PRICES_SHARE / 2.0);
            let target = state.score().scalar(instance);
            dual.descend(target, STEPS_MAX / 2, &|| second.expired());
            values = Values::new(instance, &dual.best);
            state = better(instance, state, greedy(instance, &values, State::new(instance)));
        }
        let prices = dual.best;
        let mut start = Self { values, prices, task_prices: None, state, plans };
        if clock.seconds().is_none_or(|all| all >= TASK_PRICES_LEAST_S) {
            let rest = clock.for_share(TASK_PRICES_SHARE);
            start.task_prices =
                task_prices::descend(instance, &start.values, &start.prices, options.seed, rest);
        }
        start
    }

    /// Bound by task prices, or by resource prices where there are no task prices.
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

/// Inserts jobs that `state` lacks, in the order of density, where they raise the score.
pub fn greedy(instance: &Instance, values: &Values, mut state: State) -> State {
    let mut order: Vec<usize> = (0..instance.jobs()).filter(|job| !state.is_placed(*job)).collect();
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

/// Whether no assignment can be better than `score`, up to rounding.
pub fn closes(instance: &Instance, bound: f64, score: &Score) -> bool {
    let value = score.scalar(instance);
    bound - value <= 4e-9 * value.abs().max(1e-3)
}
