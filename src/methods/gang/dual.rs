// SPDX-License-Identifier: GPL-3.0-or-later
//! Dual prices of resources by Lagrangian relaxation: a certified bound, and guidance for the
//! search.
//!
//! The bound and why it holds stand in `docs/methods.md`, section 1 (c). It is valid for all
//! prices, so an unfinished search for the best ones still certifies. `task_prices.rs` goes on from
//! here with a price per task type.
//!
//! The descent begins with one price per kind, found by bisection; then each zone's prices move by
//! what the zone lacks or has left.

use super::instance::{Instance, Opt, narrow};
use rayon::prelude::*;

/// Evaluations of the search for a common scale of all prices, and for the price of one kind: each
/// halves the interval, and the descent corrects what is left.
const BALANCE_STEPS: u32 = 8;
/// Rounds over the kinds; the second corrects how kinds changed each other in the first.
const BALANCE_ROUNDS: usize = 2;
/// Number of steps without a better bound after which the step is shortened, and the factor.
const PATIENCE: u32 = 8;
const SHORTENED: f64 = 0.6;
/// The step length at which the descent ends.
const STEP_LEAST: f64 = 1e-4;
/// Part of the last direction that the next one keeps, which damps zigzags.
const MOMENTUM: f64 = 0.6;
/// Share of the bound by which one step may lower it at most: far from the best prices, the gap to
/// a known assignment says little about the distance.
const STEP_BOUND_SHARE: f64 = 0.1;
/// Weight of the newest variance, so that the tangent does not jump with every relaxed solution.
const S2_SMOOTHING: f64 = 0.2;
/// First price of a kind that was free, as the part of a known assignment that all of the kind
/// costs.
const FIRST_PRICE_SHARE: f64 = 0.01;
/// Relative slack added to every bound for rounding.
pub const ROUNDING: f64 = 1e-9;

/// Prices and the bound that they prove.
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
    /// Variance of the last relaxed solution, and its smoothed value.
    s2: f64,
    s2_mean: f64,
    has_s2: bool,
    /// Capacity less usage by (zone, kind), and the direction of the last step.
    gradient: Vec<f64>,
    direction: Vec<f64>,
    /// Best reduced value of each type, its option, and the tasks started in the relaxation.
    type_best: Vec<f64>,
    /// Largest worth by type before prices, at the first tangent.
    type_worth: Vec<f64>,
    type_option: Vec<u32>,
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
        let s2_mean = (0..counts.len()).map(|gang| counts.sum(gang, &largest)).sum::<f64>();
        let mut dual = Self {
            instance,
            capacity,
            best: Prices { lambda: vec![0.0; size], theta: 0.0, bound: f64::INFINITY },
            lambda: vec![0.0; size],
            theta: 0.0,
            step: 1.0,
            stale: 0,
            s2: s2_mean,
            s2_mean,
            has_s2: s2_mean > 0.0,
            gradient: vec![0.0; size],
            direction: vec![0.0; size],
            type_best: vec![0.0; instance.types],
            type_worth: vec![0.0; instance.types],
            type_option: vec![0; instance.types],
            type_count: vec![0.0; instance.types],
        };
        dual.set_theta();
        let theta = dual.theta;
        dual.type_worth.par_iter_mut().enumerate().for_each(|(ty, worth)| {
            let opts = instance.opts[instance.type_opts(ty)].iter();
            *worth = opts.map(|opt| instance.worth(opt, theta)).fold(f64::NEG_INFINITY, f64::max);
        });
        dual
    }

    /// Slope of the current tangent to the root.
    pub fn theta(&self) -> f64 {
        self.theta
    }

    /// Descends until the step is too short to matter, `steps` are done or time is up.
    pub fn descend(&mut self, target: f64, steps: u32, expired: &dyn Fn() -> bool) {
        for step in 0..steps {
            self.step(target);
            if self.step < STEP_LEAST || (step > 0 && expired()) {
                break;
            }
        }
    }

    /// Continues from earlier prices, where these prove anything, with a step length.
    pub fn resume(&mut self, prices: &Prices, step: f64) {
        self.lambda.copy_from_slice(&prices.lambda);
        if self.has_s2 && prices.theta > 0.0 {
            self.theta = prices.theta;
        }
        let bound = self.evaluate();
        self.keep(bound);
        self.rewind(step);
    }

    /// Goes back to the best prices with a new step length.
    pub fn rewind(&mut self, step: f64) {
        self.lambda.copy_from_slice(&self.best.lambda);
        self.theta = self.best.theta;
        self.direction.fill(0.0);
        self.step = step;
        self.stale = 0;
    }

    fn set_theta(&mut self) {
        self.theta = if self.has_s2 { 0.5 / self.s2_mean.max(1e-300).sqrt() } else { 0.0 };
    }

    /// Finds a price for each kind, the same in all zones, at which requested and available amounts
    /// balance; `target` is the scalar of a known assignment.
    ///
    /// Prices by zone start from there: each moves by what its own zone lacks, and would take
    /// hundreds of steps to learn that a kind is scarce everywhere.
    pub fn find(&mut self, target: f64, expired: &dyn Fn() -> bool) {
        let kinds = self.instance.kinds;
        let mut total = vec![0.0; kinds];
        for (i, c) in self.capacity.iter().enumerate() {
            total[i % kinds] += c;
        }
        let mut common = self.balance_scale(&total, target);
        let scarce = (0..kinds).filter(|k| total[*k] > 0.0);
        for (at, k) in scarce.cycle().take(kinds * BALANCE_ROUNDS).enumerate() {
            // Once each takes a moment; without it the bound says nothing.
            if at >= kinds && expired() {
                break;
            }
            let first = FIRST_PRICE_SHARE * target.max(0.0) / total[k];
            self.balance(&mut common, k, first, total[k]);
        }
        self.rewind(1.0);
    }

    /// Finds the scale at which equal prices for equal shares of the cluster balance all kinds
    /// together.
    fn balance_scale(&mut self, total: &[f64], target: f64) -> Vec<f64> {
        let (mut lo, mut hi) = (0.0, f64::INFINITY);
        let mut scale = target.max(0.0) / total.len() as f64;
        let wanted = total.iter().filter(|t| **t > 0.0).count() as f64;
        let mut common = vec![0.0; total.len()];
        for _ in 0..BALANCE_STEPS {
            for (c, t) in common.iter_mut().zip(total) {
                *c = if *t > 0.0 { scale / t } else { 0.0 };
            }
            self.try_common(&common);
            let asked: f64 = (0..total.len())
                .filter(|k| total[*k] > 0.0)
                .map(|k| self.asked(k) / total[k])
                .sum();
            if asked > wanted {
                lo = scale;
            } else {
                hi = scale;
            }
            scale = if hi.is_finite() { 0.5 * (lo + hi) } else { 2.0 * scale.max(1e-9) };
        }
        common
    }

    /// Bisects the common price of one kind, from the known price on, or from `first` where the
    /// kind was free and has become scarce.
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

    /// Evaluates the same prices in all zones, so that each type takes its option of most worth.
    fn try_common(&mut self, common: &[f64]) {
        self.lambda.iter_mut().zip(common.iter().cycle()).for_each(|(l, c)| *l = *c);
        let requests = self.instance.request_f.chunks_exact(self.instance.kinds);
        for ((best, worth), request) in
            self.type_best.iter_mut().zip(&self.type_worth).zip(requests)
        {
            *best = worth - common.iter().zip(request).map(|(c, a)| c * a).sum::<f64>();
        }
        let bound = self.relax();
        if bound < self.best.bound {
            self.keep(bound);
        }
    }

    /// The amount of a kind that the last relaxed solution asks for.
    fn asked(&self, k: usize) -> f64 {
        let requests = self.instance.request_f.iter().skip(k).step_by(self.instance.kinds);
        requests.zip(&self.type_count).map(|(a, count)| a * count).sum()
    }

    fn keep(&mut self, bound: f64) {
        self.best.bound = bound;
        self.best.theta = self.theta;
        self.best.lambda.copy_from_slice(&self.lambda);
    }

    fn step(&mut self, target: f64) {
        let bound = self.evaluate();
        if bound < self.best.bound {
            // Progress that is too small to matter counts as none.
            let slack = (self.best.bound - target).abs().max(1e-12);
            let real = self.best.bound.is_infinite() || self.best.bound - bound > 2e-3 * slack;
            self.stale = if real { 0 } else { self.stale + 1 };
            self.keep(bound);
        } else {
            self.stale += 1;
        }
        if self.stale >= PATIENCE {
            self.stale = 0;
            self.step *= SHORTENED;
            self.lambda.copy_from_slice(&self.best.lambda);
            self.direction.fill(0.0);
        }
        self.move_prices(bound - target);
        self.s2_mean += S2_SMOOTHING * (self.s2 - self.s2_mean);
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
        let distance = distance.clamp(0.0, STEP_BOUND_SHARE * self.best.bound.max(0.0));
        let length = self.step * distance / norm;
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
        let bound = self.relax();
        self.s2 = self.set_gradient();
        bound
    }

    /// The bound at the types' best reduced values; sets the tasks that the relaxation starts.
    fn relax(&mut self) -> f64 {
        let instance = self.instance;
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

/// The largest reduced value of a type and the option with it; of equal options the first.
fn best_option(instance: &Instance, lambda: &[f64], theta: f64, ty: usize) -> (f64, u32) {
    let kinds = instance.kinds;
    let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
    let reduced = |opt: &Opt| {
        let row = &lambda[opt.zone as usize * kinds..][..kinds];
        let price: f64 = row.iter().zip(request).map(|(l, a)| l * a).sum();
        instance.worth(opt, theta) - price
    };
    let mut best = (f64::NEG_INFINITY, 0);
    for option in instance.type_opts(ty) {
        let value = reduced(&instance.opts[option]);
        if value > best.0 {
            best = (value, narrow(option));
        }
    }
    best
}
