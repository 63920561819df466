// SPDX-License-Identifier: GPL-3.0-or-later
//! Dual prices of resources by Lagrangian relaxation: a certified bound, and guidance for the
//! search.
//!
//! With prices `lambda >= 0` per zone and kind, and `theta > 0` from the tangent
//! `sqrt(u) <= theta u + 1 / (4 theta)`, every assignment's index is at most
//!
//! ```text
//! delta + 1/(4 theta) + sum_z lambda_z . C_z
//!       + sum_jobs max(0, sum_tasks max_options(lin + theta s2 - lambda_zone . request))
//! ```
//!
//! because dropping the capacities in exchange for their price only adds assignments, and the
//! tangent lies above the root. The bound is valid for all prices, so an unfinished search for
//! the best ones still certifies. `task_prices.rs` goes on from here with a price per task type.
//!
//! The descent begins with one price per kind, found by bisection; then each zone's prices move by
//! what the zone lacks or has left.

use super::clock::Clock;
use super::instance::{Instance, narrow};
use rayon::prelude::*;

/// Evaluations of one search for the price of one kind: each halves the interval.
const BALANCE_STEPS: u32 = 8;
/// Rounds over the kinds: later ones correct what the earlier did to each other.
const BALANCE_ROUNDS: usize = 3;
/// Largest number of steps of the descent.
const STEPS_MAX: u32 = 600;
/// Steps without a better bound before the step is halved.
const PATIENCE: u32 = 8;
/// Step length at which the descent ends, as a share of the first.
const STEP_LEAST: f64 = 1e-4;
/// Share of the last direction that the next keeps, which damps zigzags.
const MOMENTUM: f64 = 0.6;
/// Relative slack added to every bound for rounding.
pub const ROUNDING: f64 = 1e-9;

/// Prices and what they prove.
#[derive(Debug, Clone)]
pub struct Prices {
    /// Price by (zone, kind), per unit of `kind_scale`.
    pub lambda: Vec<f64>,
    /// Slope of the tangent to the root.
    pub theta: f64,
    /// Upper bound of [`super::state::Score::scalar`].
    pub bound: f64,
}

/// Subgradient descent on the bound.
#[derive(Debug)]
pub struct Dual<'a> {
    instance: &'a Instance,
    /// Zone capacities in units of `kind_scale`.
    capacity: Vec<f64>,
    pub best: Prices,
    lambda: Vec<f64>,
    theta: f64,
    step: f64,
    stale: u32,
    /// Variance of the last relaxed solution; at first the largest that there may be.
    s2: f64,
    /// Capacity less usage, by (zone, kind).
    gradient: Vec<f64>,
    /// Direction of the last step, by (zone, kind).
    direction: Vec<f64>,
    /// Best reduced value by type.
    type_best: Vec<f64>,
    /// Option of the best reduced value by type.
    type_option: Vec<u32>,
    /// Tasks that the relaxed solution starts, by type.
    type_count: Vec<f64>,
}

impl<'a> Dual<'a> {
    pub fn new(instance: &'a Instance) -> Self {
        let kinds = instance.kinds;
        let size = instance.zones * kinds;
        let mut capacity = vec![0.0; size];
        for (server, row) in instance.capacity.chunks_exact(kinds).enumerate() {
            let zone = instance.zone_of[server] as usize;
            for k in 0..kinds {
                capacity[zone * kinds + k] += f64::from(row[k]) / instance.kind_scale[k];
            }
        }
        let largest = |ty| {
            let opts = &instance.opts[instance.type_opts(ty)];
            opts.iter().map(|o| o.s2).fold(0.0, f64::max)
        };
        let largest: Vec<f64> = (0..instance.types).map(largest).collect();
        let counts = &instance.counts;
        let s2 = (0..counts.len()).map(|gang| counts.sum(gang, &largest)).sum::<f64>();
        let mut dual = Self {
            instance,
            capacity,
            best: Prices { lambda: vec![0.0; size], theta: 0.0, bound: f64::INFINITY },
            lambda: vec![0.0; size],
            theta: 0.0,
            step: 1.0,
            stale: 0,
            s2,
            gradient: vec![0.0; size],
            direction: vec![0.0; size],
            type_best: vec![0.0; instance.types],
            type_option: vec![0; instance.types],
            type_count: vec![0.0; instance.types],
        };
        dual.set_theta();
        dual
    }

    /// The current tangent.
    pub fn theta(&self) -> f64 {
        self.theta
    }

    /// Finds prices from nothing; `target` is the scalar of a known assignment.
    pub fn solve(&mut self, target: f64, clock: Clock<'_>) {
        self.find(target, clock);
        self.descend(target, STEPS_MAX, clock);
    }

    /// Descends until the step is too short to matter, for so many steps or until time is up.
    pub fn descend(&mut self, target: f64, steps: u32, clock: Clock<'_>) {
        for step in 0..steps {
            self.step(target);
            if self.step < STEP_LEAST || (step > 0 && clock.expired()) {
                break;
            }
        }
    }

    /// Sets the tangent at the last variance; where there is none it stays.
    fn set_theta(&mut self) {
        if self.s2 > 0.0 {
            self.theta = 0.5 / self.s2.sqrt();
        }
    }

    /// Finds a price for each kind, the same in all zones, at which what is asked for balances what
    /// there is.
    ///
    /// Prices by zone start from there: each moves by what its own zone lacks, and would take
    /// hundreds of steps to learn that a kind is scarce everywhere.
    pub fn find(&mut self, target: f64, clock: Clock<'_>) {
        let kinds = self.instance.kinds;
        let mut total = vec![0.0; kinds];
        for (i, c) in self.capacity.iter().enumerate() {
            total[i % kinds] += c;
        }
        let mut common = vec![0.0; kinds];
        let scarce = (0..kinds).filter(|k| total[*k] > 0.0);
        for k in scarce.cycle().take(kinds * BALANCE_ROUNDS) {
            if clock.expired() {
                break;
            }
            // All of a kind that becomes scarce costs at first a hundredth of what is known.
            let first = 0.01 * target.max(0.0) / total[k];
            self.balance(&mut common, k, first, total[k]);
        }
        self.lambda.copy_from_slice(&self.best.lambda);
        self.theta = self.best.theta;
    }

    /// Bisects the common price of one kind, from the known one on, or from `first` where the kind
    /// was free and has become scarce.
    pub fn balance(&mut self, common: &mut [f64], k: usize, first: f64, total: f64) {
        let (mut lo, mut hi) = (0.0, f64::INFINITY);
        for _ in 0..BALANCE_STEPS {
            self.try_common(common);
            if self.asked(k) > total {
                lo = common[k];
            } else {
                hi = common[k];
            }
            if hi <= 0.0 {
                return;
            }
            common[k] = match (hi.is_finite(), lo > 0.0) {
                (true, true) => 0.5 * (lo + hi),
                (true, false) => 0.25 * hi,
                (false, _) => f64::max(2.0 * lo, first),
            };
        }
        if lo <= 0.0 {
            common[k] = 0.0;
        }
    }

    /// Evaluates the same prices in all zones.
    fn try_common(&mut self, common: &[f64]) {
        self.lambda.iter_mut().zip(common.iter().cycle()).for_each(|(l, c)| *l = *c);
        let bound = self.evaluate();
        if bound < self.best.bound {
            self.keep(bound);
        }
    }

    /// The amount of a kind that the last relaxed solution asks for.
    fn asked(&self, k: usize) -> f64 {
        let kinds = self.instance.kinds;
        let unused: f64 = self.gradient.iter().skip(k).step_by(kinds).sum();
        let all: f64 = self.capacity.iter().skip(k).step_by(kinds).sum();
        all - unused
    }

    fn keep(&mut self, bound: f64) {
        self.best.bound = bound;
        self.best.theta = self.theta;
        self.best.lambda.copy_from_slice(&self.lambda);
    }

    fn step(&mut self, target: f64) {
        let bound = self.evaluate();
        if bound < self.best.bound {
            self.stale = 0;
            self.keep(bound);
        } else {
            self.stale += 1;
        }
        if self.stale >= PATIENCE {
            self.stale = 0;
            self.step *= 0.5;
            self.lambda.copy_from_slice(&self.best.lambda);
            self.direction.fill(0.0);
        }
        self.move_prices(bound - target);
        self.set_theta();
    }

    /// Moves against the subgradient `capacity - usage`, scaled by what each zone holds.
    fn move_prices(&mut self, distance: f64) {
        let mut norm = 0.0;
        for (i, c) in self.capacity.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            let gradient = self.gradient[i];
            let at_zero = self.lambda[i] <= 0.0 && gradient > 0.0;
            self.direction[i] = if at_zero { 0.0 } else { gradient + MOMENTUM * self.direction[i] };
            norm += self.direction[i] * self.direction[i] / c;
        }
        if norm <= 0.0 {
            self.stale = PATIENCE;
            return;
        }
        let length = self.step * distance.max(0.0) / norm;
        for (i, c) in self.capacity.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            self.lambda[i] = (self.lambda[i] - length * self.direction[i] / c).max(0.0);
        }
    }

    /// The bound at the current prices; sets the gradient and the variance.
    fn evaluate(&mut self) -> f64 {
        let instance = self.instance;
        let (lambda, theta) = (&self.lambda, self.theta);
        let bests = self.type_best.par_iter_mut().zip(&mut self.type_option).enumerate();
        bests.for_each(|(ty, (best, option))| {
            (*best, *option) = best_option(instance, lambda, theta, ty);
        });
        self.type_count.fill(0.0);
        let mut bound: f64 = self.lambda.iter().zip(&self.capacity).map(|(l, c)| l * c).sum();
        let counts = &instance.counts;
        for gang in 0..counts.len() {
            let profit = counts.sum(gang, &self.type_best);
            if profit > 0.0 {
                bound += profit;
                counts.gang(gang).iter().for_each(|(ty, n)| self.type_count[*ty as usize] += n);
            }
        }
        if self.theta > 0.0 {
            bound += 0.25 / self.theta;
        }
        self.s2 = self.set_gradient();
        bound + ROUNDING * bound.abs()
    }

    /// Sets the gradient from the relaxed solution; returns that solution's variance.
    fn set_gradient(&mut self) -> f64 {
        let kinds = self.instance.kinds;
        let mut s2 = 0.0;
        self.gradient.copy_from_slice(&self.capacity);
        for ty in (0..self.instance.types).filter(|ty| self.type_count[*ty] > 0.0) {
            let opt = &self.instance.opts[self.type_option[ty] as usize];
            let count = self.type_count[ty];
            s2 += count * opt.s2;
            let zone = opt.zone as usize * kinds;
            let request = &self.instance.request_f[ty * kinds..(ty + 1) * kinds];
            for (left, a) in self.gradient[zone..zone + kinds].iter_mut().zip(request) {
                *left -= count * a;
            }
        }
        s2
    }
}

/// The largest reduced value of a type and its option; of equal ones the first.
fn best_option(instance: &Instance, lambda: &[f64], theta: f64, ty: usize) -> (f64, u32) {
    let mut best = (f64::NEG_INFINITY, 0);
    for option in instance.type_opts(ty) {
        let opt = &instance.opts[option];
        let value = instance.worth(opt, theta) - instance.priced(ty, lambda, opt.zone);
        if value > best.0 {
            best = (value, narrow(option));
        }
    }
    best
}
