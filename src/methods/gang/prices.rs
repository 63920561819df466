// SPDX-License-Identifier: GPL-3.0-or-later
//! Resource prices by Lagrangian duality: a certified upper bound, and guidance for the search.
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
//! the best ones still certifies.

use super::instance::{Instance, narrow};
use super::market::Market;
use super::rng::Stream;
use rayon::prelude::*;

/// Steps without a better bound before the step length is halved.
const PATIENCE: u32 = 8;
/// Evaluations of the first search for a scale of all prices, and then of a kind's price; how often
/// each kind has its turn.
const SCALE_STEPS: usize = 10;
const BALANCE_STEPS: u32 = 8;
const SCAN_ROUNDS: usize = 2;
/// Steps with one price for all zones of a shape, the length at which they end, and that of the
/// first step with a price for each zone.
const COARSE_STEPS_MAX: u64 = 300;
const COARSE_STEP_LAST: f64 = 0.01;
const REFINE_STEP: f64 = 0.2;
/// Sweeps at least and at most, the choices that they look at, the steps of the first and the last as
/// parts of what a zone's kind earns, how often prices fall in one, and the sweeps between two looks at
/// what prices prove.
const SWEEPS: (usize, usize) = (6, 24);
const SWEEPS_CHOICES: usize = 6_000_000;
const SWEEP_STEPS: (f64, f64) = (0.5, 0.02);
const SWEEP_PARTS: usize = 16;
const SWEEPS_LOOK: usize = 4;
/// Share of the sweeps' time for a bound from one price for all zones of a shape before them.
const SWEEPS_COARSE_SHARE: f64 = 0.15;
/// Types that one thread asks about in a row.
const SELL_TOGETHER: usize = 32;
/// Choices that one thread looks at in a row.
const THREAD_CHOICES: usize = 10_000;
/// First price of a kind that was free: all of it costs this part of a known assignment.
const CHEAP: f64 = 0.01;
/// Longest way of one step: where the bound would fall by this part of it.
const REACH: f64 = 0.1;
/// Relative slack added to a bound for rounding.
const ROUNDING: f64 = 1e-9;

/// Prices and what they prove.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    /// By (zone, kind), per unit of `kind_scale`.
    pub(crate) lambda: Vec<f64>,
    pub(crate) theta: f64,
    /// Upper bound of [`super::state::Score::scalar`].
    pub(crate) bound: f64,
}

/// Subgradient descent on the bound.
#[derive(Debug)]
pub(crate) struct Dual<'a> {
    instance: &'a Instance,
    market: Market,
    pub(crate) best: Prices,
    /// What prices by shape proved before sweeps began without them.
    proved: f64,
    lambda: Vec<f64>,
    theta: f64,
    step: f64,
    stale: u32,
    /// Smoothed variance of the relaxed solutions.
    s2_mean: f64,
    has_s2: bool,
    direction: Vec<f64>,
    usage: Vec<f64>,
    type_best: Vec<f64>,
    /// Index of its choice.
    type_choice: Vec<u32>,
    type_count: Vec<f64>,
    pub(crate) steps: u64,
}

impl<'a> Dual<'a> {
    pub(crate) fn new(instance: &'a Instance) -> Dual<'a> {
        let most = |ty| {
            let opts = &instance.opts[instance.type_opts(ty)];
            opts.iter().map(|o| o.s2).fold(0.0, f64::max)
        };
        let most: Vec<f64> = (0..instance.types).map(most).collect();
        let counts = &instance.counts;
        let s2_mean = (0..counts.len()).map(|gang| counts.sum(gang, &most)).sum::<f64>();
        let market = Market::new(instance, tangent_at(s2_mean));
        let mut dual = Dual::of(instance, market);
        (dual.s2_mean, dual.has_s2) = (s2_mean, s2_mean > 0.0);
        dual.set_theta();
        dual
    }

    fn of(instance: &'a Instance, market: Market) -> Dual<'a> {
        let size = market.capacity.len();
        Dual {
            instance,
            market,
            best: Prices { lambda: vec![0.0; size], theta: 0.0, bound: f64::INFINITY },
            proved: f64::INFINITY,
            lambda: vec![0.0; size],
            theta: 0.0,
            step: 1.0,
            stale: 0,
            s2_mean: 0.0,
            has_s2: false,
            direction: vec![0.0; size],
            usage: vec![0.0; size],
            type_best: vec![0.0; instance.types],
            type_choice: vec![0; instance.types],
            type_count: vec![0.0; instance.types],
            steps: 0,
        }
    }

    /// The current tangent.
    pub(crate) fn theta(&self) -> f64 {
        self.theta
    }

    /// The best bound of all prices so far, also of those that do not guide.
    pub(crate) fn proved(&self) -> f64 {
        self.best.bound.min(self.proved)
    }

    /// Restarts the step length, for instance after a better target is known.
    pub(crate) fn rewind(&mut self, step: f64) {
        self.lambda.copy_from_slice(&self.best.lambda);
        self.theta = self.best.theta;
        self.direction.fill(0.0);
        self.step = step;
        self.stale = 0;
    }

    /// Step length has become too small to matter.
    pub(crate) fn is_done(&self) -> bool {
        self.step < 1e-4
    }

    fn set_theta(&mut self) {
        self.theta = if self.has_s2 { tangent_at(self.s2_mean.max(1e-300)) } else { 0.0 };
    }

    /// Finds prices by zone gang by gang, where most zones are one server: what each takes makes its
    /// zone dearer at once, and time makes all cheaper. One step of all prices together takes as
    /// long as a sweep, of which some twenty are enough. `spent` is the share of the time for this.
    ///
    /// Where there are few shapes, prices by shape prove something first: often more than sweeps
    /// that time cuts short, whose prices guide a search better all the same.
    pub(crate) fn sweep(&mut self, target: f64, rng: &mut Stream, spent: &dyn Fn() -> f64) {
        if let Some(coarse) = self.market.coarser() {
            self.scan_coarse(coarse, target, &|| spent() > SWEEPS_COARSE_SHARE);
            self.proved = std::mem::replace(&mut self.best.bound, f64::INFINITY);
        }
        let rent = target.max(0.0) / self.market.capacity.len().max(1) as f64;
        let per_unit = |c: &f64| if *c > 0.0 { rent / c } else { 0.0 };
        self.lambda = self.market.capacity.iter().map(per_unit).collect();
        let mut order: Vec<u32> = (0..narrow(self.instance.counts.len())).collect();
        let sweeps = SWEEPS_CHOICES / self.market.choices.len().max(1);
        let sweeps = sweeps.clamp(SWEEPS.0, SWEEPS.1);
        let mut progress = 0.0;
        for sweep in 1..=sweeps {
            rng.shuffle(&mut order);
            let step = rent * SWEEP_STEPS.0 * (SWEEP_STEPS.1 / SWEEP_STEPS.0).powf(progress);
            for part in order.chunks(order.len().div_ceil(SWEEP_PARTS).max(1)) {
                self.sell(part, step);
                let past = step * part.len() as f64 / order.len() as f64;
                for (l, c) in self.lambda.iter_mut().zip(&self.market.capacity) {
                    *l = if *c > 0.0 { (*l - past / c).max(0.0) } else { 0.0 };
                }
            }
            progress = f64::max(sweep as f64 / sweeps as f64, spent());
            if progress >= 1.0 || sweep % SWEEPS_LOOK == 0 {
                self.look();
            }
            if progress >= 1.0 {
                break;
            }
        }
        self.rewind(REFINE_STEP);
    }

    /// Keeps the current prices if they prove more, and moves the tangent.
    fn look(&mut self) {
        self.steps += 1;
        let (bound, s2) = self.evaluate();
        if bound < self.best.bound {
            self.adopt(bound);
        }
        if self.has_s2 {
            self.s2_mean += 0.5 * (s2 - self.s2_mean);
            self.set_theta();
        }
    }

    /// Makes what gangs choose dearer, if they pay.
    fn sell(&mut self, gangs: &[u32], step: f64) {
        let (counts, kinds) = (&self.instance.counts, self.instance.kinds);
        let types = gangs.iter().flat_map(|gang| counts.gang(*gang as usize));
        let types: Vec<u32> = types.map(|(ty, _)| *ty).collect();
        self.market.set_cheapest(&self.lambda);
        let (market, prices) = (&self.market, (self.lambda.as_slice(), self.theta));
        let choose = |ty: &u32| {
            let request = &self.instance.request_f[*ty as usize * kinds..][..kinds];
            let (value, at) = market.best(*ty as usize, request, prices);
            (value, market.choices[at].zone)
        };
        let chosen: Vec<(f64, u32)> =
            types.par_iter().with_min_len(SELL_TOGETHER).map(choose).collect();
        let mut first = 0;
        for gang in gangs {
            let types = counts.gang(*gang as usize);
            let chosen = &chosen[first..first + types.len()];
            first += types.len();
            let profit: f64 = types.iter().zip(chosen).map(|((_, n), (value, _))| n * value).sum();
            if profit <= 0.0 {
                continue;
            }
            for ((ty, n), (_, zone)) in types.iter().zip(chosen) {
                let request = &self.instance.request_f[*ty as usize * kinds..][..kinds];
                let at = *zone as usize * kinds;
                let row = self.lambda[at..at + kinds].iter_mut().zip(&self.market.capacity[at..]);
                for ((l, c), a) in row.zip(request).filter(|((_, c), _)| **c > 0.0) {
                    *l += step * n * a / (c * c);
                }
            }
        }
    }

    /// Finds a price for each kind, the same in all zones, at which what is asked balances what
    /// there is; `target` is the scalar of a known assignment.
    ///
    /// Prices by zone start from there. Each moves by what its own zone lacks, so that it would
    /// take them hundreds of steps to learn that a kind is scarce everywhere.
    pub(crate) fn scan(&mut self, target: f64, until: &dyn Fn() -> bool) {
        match self.market.coarser() {
            Some(coarse) => {
                self.scan_coarse(coarse, target, until);
                self.rewind(REFINE_STEP);
            }
            None => {
                self.scan_kinds(target, until);
                self.rewind(1.0);
            }
        }
    }

    /// Begins with one price for all zones of a shape.
    fn scan_coarse(&mut self, market: Market, target: f64, until: &dyn Fn() -> bool) {
        let mut coarse = Dual::of(self.instance, market);
        (coarse.s2_mean, coarse.has_s2) = (self.s2_mean, self.has_s2);
        coarse.set_theta();
        coarse.scan_kinds(target, until);
        coarse.rewind(1.0);
        let end = coarse.steps + COARSE_STEPS_MAX;
        while coarse.steps < end && coarse.step > COARSE_STEP_LAST && !until() {
            coarse.step(target);
        }
        let kinds = self.market.kinds;
        let shapes = self.market.shape_of.iter();
        for (row, shape) in self.lambda.chunks_exact_mut(kinds).zip(shapes) {
            row.copy_from_slice(&coarse.best.lambda[*shape as usize * kinds..][..kinds]);
        }
        (self.theta, self.s2_mean) = (coarse.best.theta, coarse.s2_mean);
        self.steps += coarse.steps;
        let (bound, _) = self.evaluate();
        self.adopt(bound);
    }

    /// Begins with one price for each kind.
    fn scan_kinds(&mut self, target: f64, until: &dyn Fn() -> bool) {
        let kinds = self.instance.kinds;
        let mut total = vec![0.0; kinds];
        for (i, c) in self.market.capacity.iter().enumerate() {
            total[i % kinds] += c;
        }
        let mut common = self.scale(&total, target);
        let scarce = (0..kinds).filter(|k| total[*k] > 0.0);
        for k in scarce.cycle().take(kinds * SCAN_ROUNDS) {
            if until() {
                break;
            }
            let cheap = CHEAP * target.max(0.0) / total[k];
            self.balance(&mut common, (k, cheap), total[k]);
        }
    }

    /// Finds the scale at which equal prices for equal shares of the cluster balance all kinds
    /// together.
    fn scale(&mut self, total: &[f64], target: f64) -> Vec<f64> {
        let (mut lo, mut hi) = (0.0, f64::INFINITY);
        let mut scale = target.max(0.0) / total.len() as f64;
        let wanted = total.iter().filter(|t| **t > 0.0).count() as f64;
        let mut common = vec![0.0; total.len()];
        for _ in 0..SCALE_STEPS {
            for (c, t) in common.iter_mut().zip(total) {
                *c = if *t > 0.0 { scale / t } else { 0.0 };
            }
            self.probe(&common);
            let all = total.iter().cycle().map(|t| t.max(1e-300));
            let asked: f64 = self.usage.iter().zip(all).map(|(u, t)| u / t).sum();
            if asked > wanted {
                lo = scale;
            } else {
                hi = scale;
            }
            scale = if hi.is_finite() { 0.5 * (lo + hi) } else { 2.0 * scale.max(1e-9) };
        }
        common
    }

    /// Evaluates the same prices in all zones.
    fn probe(&mut self, common: &[f64]) {
        self.lambda.iter_mut().zip(common.iter().cycle()).for_each(|(l, c)| *l = *c);
        self.steps += 1;
        let (bound, _) = self.evaluate();
        if bound < self.best.bound {
            self.adopt(bound);
        }
    }

    /// Bisects the common price of one kind, from the known one on, or from `cheap` where what was
    /// free has become scarce.
    pub(super) fn balance(&mut self, common: &mut [f64], (k, cheap): (usize, f64), total: f64) {
        let (mut lo, mut hi) = (0.0, f64::INFINITY);
        for _ in 0..BALANCE_STEPS {
            self.probe(common);
            let asked: f64 = self.usage.iter().skip(k).step_by(common.len()).sum();
            if asked > total {
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
                (false, _) => f64::max(2.0 * lo, cheap),
            };
        }
        if lo <= 0.0 {
            common[k] = 0.0;
        }
    }

    /// Begins at these prices.
    pub(super) fn start_from(&mut self, prices: &Prices) {
        self.lambda.copy_from_slice(&prices.lambda);
        self.theta = prices.theta;
        self.s2_mean = if self.has_s2 { 0.25 / (prices.theta * prices.theta) } else { 0.0 };
    }

    /// Best reduced value of each type at the current prices, and what the bound has beside jobs.
    pub(super) fn worth(&mut self) -> (&[f64], f64) {
        self.evaluate();
        let paid: f64 = self.lambda.iter().zip(&self.market.capacity).map(|(l, c)| l * c).sum();
        let tangent = if self.theta > 0.0 { 0.25 / self.theta } else { 0.0 };
        (&self.type_best, paid + tangent)
    }

    fn adopt(&mut self, bound: f64) {
        self.best.bound = bound;
        self.best.theta = self.theta;
        self.best.lambda.copy_from_slice(&self.lambda);
    }

    /// One step; `target` is the scalar of a known assignment.
    pub(crate) fn step(&mut self, target: f64) {
        self.steps += 1;
        let (bound, s2) = self.evaluate();
        if bound < self.best.bound {
            // Progress that is too small to matter counts as none.
            let slack = (self.best.bound - target).abs().max(1e-12);
            let real = self.best.bound.is_infinite() || self.best.bound - bound > 2e-3 * slack;
            self.stale = if real { 0 } else { self.stale + 1 };
            self.adopt(bound);
        } else {
            self.stale += 1;
        }
        if self.stale >= PATIENCE {
            self.stale = 0;
            self.step *= 0.6;
            self.lambda.copy_from_slice(&self.best.lambda);
            self.direction.fill(0.0);
        }
        self.move_prices(bound - target);
        if self.has_s2 {
            self.s2_mean += 0.2 * (s2 - self.s2_mean);
            self.set_theta();
        }
    }

    /// Moves against the subgradient `capacity - usage`, scaled by what each zone holds.
    fn move_prices(&mut self, distance: f64) {
        let mut norm = 0.0;
        for (i, c) in self.market.capacity.iter().enumerate() {
            if *c <= 0.0 {
                continue;
            }
            let gradient = c - self.usage[i];
            let held = self.lambda[i] <= 0.0 && gradient > 0.0;
            self.direction[i] = if held { 0.0 } else { gradient + 0.6 * self.direction[i] };
            norm += self.direction[i] * self.direction[i] / c;
        }
        if norm <= 0.0 {
            self.stale = PATIENCE;
            return;
        }
        // Far from the best prices, what the best plan known lacks says little about the way.
        let distance = distance.clamp(0.0, REACH * self.best.bound.max(0.0));
        let length = self.step * distance / norm;
        for (i, c) in self.market.capacity.iter().enumerate() {
            if *c > 0.0 {
                self.lambda[i] = (self.lambda[i] - length * self.direction[i] / c).max(0.0);
            }
        }
    }

    /// The bound at the current prices, and the variance of the relaxed solution.
    fn evaluate(&mut self) -> (f64, f64) {
        let instance = self.instance;
        let kinds = instance.kinds;
        self.market.set_cheapest(&self.lambda);
        let prices = (self.lambda.as_slice(), self.theta);
        let market = &self.market;
        let least = (instance.types * THREAD_CHOICES / market.choices.len().max(1)).max(1);
        let bests = self.type_best.par_iter_mut().zip(&mut self.type_choice);
        bests.enumerate().with_min_len(least).for_each(|(ty, (best, choice))| {
            let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
            let found = market.best(ty, request, prices);
            (*best, *choice) = (found.0, narrow(found.1));
        });
        self.type_count.fill(0.0);
        let mut bound: f64 =
            self.lambda.iter().zip(&self.market.capacity).map(|(l, c)| l * c).sum();
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
        (bound + ROUNDING * bound.abs(), self.sum_usage())
    }

    fn sum_usage(&mut self) -> f64 {
        let kinds = self.instance.kinds;
        let mut s2 = 0.0;
        self.usage.fill(0.0);
        for ty in (0..self.instance.types).filter(|ty| self.type_count[*ty] > 0.0) {
            let choice = &self.market.choices[self.type_choice[ty] as usize];
            let count = self.type_count[ty];
            s2 += count * choice.s2;
            let zone = choice.zone as usize * kinds;
            let request = &self.instance.request_f[ty * kinds..(ty + 1) * kinds];
            for (u, a) in self.usage[zone..zone + kinds].iter_mut().zip(request) {
                *u += count * a;
            }
        }
        s2
    }
}

/// Slope of the root there; 0 at 0, where there is none.
fn tangent_at(variance: f64) -> f64 {
    if variance > 0.0 { 0.5 / variance.sqrt() } else { 0.0 }
}
