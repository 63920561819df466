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
use super::scores::LANES;

/// Steps without a better bound before the step length is halved.
const PATIENCE: u32 = 8;
/// Evaluations of the first search for a scale of all prices, and then of a kind's price; how often
/// each kind has its turn.
const SCALE_STEPS: usize = 10;
const BALANCE_STEPS: u32 = 8;
const SCAN_ROUNDS: usize = 2;
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

/// An option as the bound looks at it.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Value without the price, but for `theta s2`.
    base: f64,
    s2: f64,
    zone: u32,
    option: u32,
}

/// Subgradient descent on the bound.
#[derive(Debug)]
pub(crate) struct Dual<'a> {
    instance: &'a Instance,
    /// Zone capacities in units of `kind_scale`.
    capacity: Vec<f64>,
    pub(crate) best: Prices,
    lambda: Vec<f64>,
    theta: f64,
    step: f64,
    stale: u32,
    /// Smoothed variance of the relaxed solutions.
    s2_mean: f64,
    has_s2: bool,
    direction: Vec<f64>,
    /// Options of each type by descending `base`, and the largest `s2` of each type.
    choices: Vec<Choice>,
    s2_most: Vec<f64>,
    usage: Vec<f64>,
    type_best: Vec<f64>,
    type_option: Vec<u32>,
    type_count: Vec<f64>,
    pub(crate) steps: u64,
}

impl<'a> Dual<'a> {
    pub(crate) fn new(instance: &'a Instance) -> Dual<'a> {
        let kinds = instance.kinds;
        let size = instance.zones * kinds;
        let mut capacity = vec![0.0; size];
        for (server, row) in instance.capacity.chunks_exact(kinds).enumerate() {
            let zone = instance.zone_of[server] as usize;
            for k in 0..kinds {
                capacity[zone * kinds + k] += f64::from(row[k]) / instance.kind_scale[k];
            }
        }
        let s2_mean: f64 = (0..instance.jobs())
            .filter(|j| instance.possible[*j])
            .flat_map(|j| instance.job_tasks(j))
            .map(|t| {
                let opts = instance.type_opts(instance.task_type[t] as usize);
                instance.opts[opts].iter().map(|o| o.s2).fold(0.0, f64::max)
            })
            .sum();
        let s2_most = (0..instance.types).map(|ty| {
            instance.opts[instance.type_opts(ty)].iter().map(|o| o.s2).fold(0.0, f64::max)
        });
        let mut dual = Dual {
            instance,
            capacity,
            best: Prices { lambda: vec![0.0; size], theta: 0.0, bound: f64::INFINITY },
            lambda: vec![0.0; size],
            theta: 0.0,
            step: 1.0,
            stale: 0,
            s2_mean,
            has_s2: s2_mean > 0.0,
            direction: vec![0.0; size],
            choices: choices(instance),
            s2_most: s2_most.collect(),
            usage: vec![0.0; size],
            type_best: vec![0.0; instance.types],
            type_option: vec![0; instance.types],
            type_count: vec![0.0; instance.types],
            steps: 0,
        };
        dual.set_theta();
        dual
    }

    /// The current tangent.
    pub(crate) fn theta(&self) -> f64 {
        self.theta
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
        self.theta = if self.has_s2 { 0.5 / self.s2_mean.max(1e-300).sqrt() } else { 0.0 };
    }

    /// Finds a price for each kind, the same in all zones, at which what is asked balances what
    /// there is; `target` is the scalar of a known assignment.
    ///
    /// Prices by zone start from there. Each moves by what its own zone lacks, so that it would
    /// take them hundreds of steps to learn that a kind is scarce everywhere.
    pub(crate) fn scan(&mut self, target: f64, until: &dyn Fn() -> bool) {
        let kinds = self.instance.kinds;
        let mut total = vec![0.0; kinds];
        for (i, c) in self.capacity.iter().enumerate() {
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
        self.rewind(1.0);
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
        let paid: f64 = self.lambda.iter().zip(&self.capacity).map(|(l, c)| l * c).sum();
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
        for (i, c) in self.capacity.iter().enumerate() {
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
        for (i, c) in self.capacity.iter().enumerate() {
            if *c > 0.0 {
                self.lambda[i] = (self.lambda[i] - length * self.direction[i] / c).max(0.0);
            }
        }
    }

    /// The bound at the current prices, and the variance of the relaxed solution.
    fn evaluate(&mut self) -> (f64, f64) {
        let instance = self.instance;
        let kinds = instance.kinds;
        for ty in 0..instance.types {
            let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
            let (mut best, mut option) = (f64::NEG_INFINITY, 0_u32);
            let most = self.theta * self.s2_most[ty];
            for choice in &self.choices[instance.type_opts(ty)] {
                if choice.base + most <= best {
                    break;
                }
                let zone = choice.zone as usize * kinds;
                let price: f64 =
                    self.lambda[zone..zone + kinds].iter().zip(request).map(|(l, a)| l * a).sum();
                let reduced = choice.base + self.theta * choice.s2 - price;
                if reduced > best {
                    (best, option) = (reduced, choice.option);
                }
            }
            self.type_best[ty] = best;
            self.type_option[ty] = option;
        }
        self.type_count.fill(0.0);
        let mut bound: f64 = self.lambda.iter().zip(&self.capacity).map(|(l, c)| l * c).sum();
        for job in (0..instance.jobs()).filter(|j| instance.possible[*j]) {
            let types = &instance.task_type[instance.job_tasks(job)];
            let profit: f64 = types.iter().map(|ty| self.type_best[*ty as usize]).sum();
            if profit > 0.0 {
                bound += profit;
                types.iter().for_each(|ty| self.type_count[*ty as usize] += 1.0);
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
            let opt = &self.instance.opts[self.type_option[ty] as usize];
            let count = self.type_count[ty];
            s2 += count * opt.s2;
            let zone = opt.zone as usize * kinds;
            let request = &self.instance.request_f[ty * kinds..(ty + 1) * kinds];
            for (u, a) in self.usage[zone..zone + kinds].iter_mut().zip(request) {
                *u += count * a;
            }
        }
        s2
    }
}

/// All options, those of a type by descending value: once prices, which are not negative, leave
/// one with more than the next is worth before its price, the rest cannot be best.
fn choices(instance: &Instance) -> Vec<Choice> {
    let mut choices = Vec::with_capacity(instance.opts.len());
    for ty in 0..instance.types {
        let range = instance.type_opts(ty);
        for at in range.clone() {
            let opt = &instance.opts[at];
            let base = opt.lin + f64::from(opt.untried) * instance.untried_weight;
            choices.push(Choice { base, s2: opt.s2, zone: opt.zone, option: narrow(at) });
        }
        choices[range]
            .sort_unstable_by(|a, b| b.base.total_cmp(&a.base).then(a.option.cmp(&b.option)));
    }
    choices
}

/// Prices turned into tables that the search reads.
#[derive(Debug, Clone)]
pub(crate) struct Guide {
    /// Reduced value of each option: lin + theta s2 + untried - price.
    pub(crate) reduced: Vec<f64>,
    /// The same without the price.
    pub(crate) worth: Vec<f64>,
    /// Largest worth of each type.
    pub(crate) best_worth: Vec<f64>,
    /// Types that are worth more on some servers than on others.
    pub(crate) choosy: Vec<bool>,
    /// Options of each type by descending reduced value, in the ranges of `opt_start`.
    pub(crate) option_order: Vec<u32>,
    /// Reduced value by (type, server), -inf where there is no edge; empty on large instances.
    pub(crate) dense: Vec<f32>,
    /// Price of a unit left free, by kind.
    rest: Vec<f64>,
    pub(crate) rest_f32: Vec<f32>,
    /// Worth of a job at its best options.
    pub(crate) job_worth: Vec<f64>,
    /// The same per price: the order of greedy insertion.
    pub(crate) density: Vec<f64>,
}

impl Guide {
    pub(crate) fn new(instance: &Instance, prices: &Prices) -> Guide {
        let (kinds, types) = (instance.kinds, instance.types);
        let mut reduced = vec![0.0; instance.opts.len()];
        let mut worth = reduced.clone();
        let mut best_worth = vec![f64::NEG_INFINITY; types];
        let mut option_order: Vec<u32> = (0..narrow(instance.opts.len())).collect();
        let mut choosy = vec![false; types];
        let floor = floor_prices(instance, prices);
        let mut type_value = vec![0.0; types];
        let mut type_price = vec![0.0; types];
        for ty in 0..types {
            let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
            let range = instance.type_opts(ty);
            let mut best = f64::NEG_INFINITY;
            for at in range.clone() {
                let opt = &instance.opts[at];
                let zone = opt.zone as usize * kinds;
                let row = &prices.lambda[zone..zone + kinds];
                let price: f64 = row.iter().zip(request).map(|(l, a)| l * a).sum();
                let value = opt.lin
                    + prices.theta * opt.s2
                    + f64::from(opt.untried) * instance.untried_weight;
                reduced[at] = value - price;
                worth[at] = value;
                choosy[ty] |= at > range.start && value != worth[range.start];
                best_worth[ty] = best_worth[ty].max(value);
                if reduced[at] > best {
                    best = reduced[at];
                    let base: f64 = floor.iter().zip(request).map(|(l, a)| l * a).sum();
                    (type_value[ty], type_price[ty]) = (value, price + base);
                }
            }
            option_order[range].sort_by(|a, b| {
                reduced[*b as usize].total_cmp(&reduced[*a as usize]).then(a.cmp(b))
            });
        }
        let (job_worth, density) = (0..instance.jobs())
            .map(|job| {
                let types = instance.task_type[instance.job_tasks(job)].iter();
                let (value, price) = types.fold((0.0, 0.0), |(v, p), ty| {
                    (v + type_value[*ty as usize], p + type_price[*ty as usize])
                });
                (value, value / f64::max(price, 1e-300))
            })
            .unzip();
        let mut guide = Guide {
            reduced,
            worth,
            best_worth,
            choosy,
            option_order,
            dense: Vec::new(),
            rest: Vec::new(),
            rest_f32: Vec::new(),
            job_worth,
            density,
        };
        guide.set_rest(instance, prices, &floor);
        guide.set_dense(instance);
        guide
    }

    /// Price per unit by (zone, kind), with a little for every kind.
    pub(crate) fn unit_prices(&self, instance: &Instance, prices: &Prices) -> Vec<f64> {
        let floor = floor_prices(instance, prices);
        let kinds = instance.kinds;
        let cell =
            |(at, l): (usize, &f64)| (l + floor[at % kinds]) / instance.kind_scale[at % kinds];
        prices.lambda.iter().enumerate().map(cell).collect()
    }

    fn set_rest(&mut self, instance: &Instance, prices: &Prices, floor: &[f64]) {
        let zones = instance.zones.max(1) as f64;
        self.rest = (0..instance.kinds)
            .map(|k| {
                let sum: f64 = prices.lambda.iter().skip(k).step_by(instance.kinds).sum();
                (sum / zones + floor[k]) / instance.kind_scale[k]
            })
            .collect();
        self.rest_f32 = self.rest.iter().map(|p| to_f32(*p)).collect();
    }

    fn set_dense(&mut self, instance: &Instance) {
        let look = |option: &u32| match self.reduced.get(*option as usize) {
            Some(reduced) => to_f32(*reduced),
            None => f32::NEG_INFINITY,
        };
        let padded = instance.servers.next_multiple_of(LANES);
        for row in instance.dense_option.chunks_exact(instance.servers.max(1)) {
            self.dense.extend(row.iter().map(look));
            self.dense.resize(self.dense.len().next_multiple_of(padded), f32::NEG_INFINITY);
        }
    }
}

/// A small price for every kind, so that jobs compare by size where nothing is scarce.
fn floor_prices(instance: &Instance, prices: &Prices) -> Vec<f64> {
    let kinds = instance.kinds as f64;
    let cells = prices.lambda.len().max(1) as f64;
    let mean = prices.lambda.iter().sum::<f64>() / cells;
    let best = instance.opts.iter().map(|o| o.lin.abs() + prices.theta * o.s2);
    let scale = best.fold(0.0, f64::max).max(1e-9);
    vec![(0.02 * mean).max(1e-6 * scale / kinds); instance.kinds]
}

/// Guidance needs no more than single precision, which fills vector registers twice as well.
fn to_f32(x: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = x as f32;
    rounded
}
