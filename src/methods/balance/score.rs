// SPDX-License-Identifier: GPL-3.0-or-later
//! The score of a node for a request, for one node and for 16 at a time.
//!
//! The score is found as a *key* first: in mode `seed` the square of the
//! dispersion after placement, in mode `best` the score itself. Both forms do
//! the same operations in the same order, so that they agree to the last bit;
//! the indexed search relies on it.

use super::index::{Bounds, LANES, Lane, Section};
use super::nodes::Nodes;
use super::params::Mode;
use super::terms::{BestParams, line};
use phalanx_core::Amount;

/// A request as one kind of node sees it: its dimensions only, weights
/// renormalised.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Requested ticks by dimension of the kind.
    pub(super) amounts: Vec<f64>,
    /// Weights, sum 1; all 0 when the dimensions of the view have no weight.
    pub(super) weights: Vec<f64>,
    /// Mode best: the [line](line) of each dimension, before weighting.
    slope: Vec<f64>,
    constant: Vec<f64>,
    /// Whether the request needs a dimension that the kind does not have.
    pub(super) misfit: bool,
}

/// The part of a key that depends on the totals only, not on usage.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// Mode seed: request minus mean request, in usage; mode best: factor of
    /// the usage.
    pub(super) shift: Vec<f64>,
    /// Mode best: the part without usage.
    pub(super) constant: f64,
}

impl View {
    /// Fills the view, whose former contents are dropped.
    pub(super) fn fill(
        &mut self,
        nodes: &Nodes,
        best: &BestParams,
        dims: &[usize],
        amounts: &[Amount],
        weights: &[f64],
    ) {
        for list in [&mut self.amounts, &mut self.weights, &mut self.slope, &mut self.constant] {
            list.clear();
        }
        let share: f64 = dims.iter().map(|&dim| weights[dim]).sum();
        let mut asked = 0;
        for &dim in dims {
            let amount = amounts[dim].as_f64();
            asked += usize::from(amount > 0.0);
            let line = line(best, amount);
            self.amounts.push(amount);
            self.weights.push(if share > 0.0 { weights[dim] / share } else { 0.0 });
            self.slope.push(line.slope);
            self.constant.push(line.constant);
        }
        let wanted = (0..nodes.dims)
            .filter(|&dim| !nodes.is_cluster(dim) && amounts[dim] > Amount::ZERO)
            .count();
        self.misfit = asked < wanted;
    }

    /// The part of the key that follows from the totals (as reciprocals).
    pub(super) fn terms(&self, mode: Mode, reciprocal: &[f64], terms: &mut Terms) {
        let requests = || self.amounts.iter().zip(reciprocal).map(|(a, r)| a * r);
        terms.shift.clear();
        terms.constant = 0.0;
        match mode {
            Mode::Seed => {
                let sum = requests().fold(0.0, |sum, request| sum + request);
                let mean = sum / self.amounts.len() as f64;
                terms.shift.extend(requests().map(|request| request - mean));
            }
            Mode::Best => {
                let weighted = requests().zip(&self.weights);
                let mean = weighted.fold(0.0, |sum, (request, weight)| sum + weight * request);
                for (slot, request) in requests().enumerate() {
                    let (weight, over) = (self.weights[slot], request - mean);
                    terms.constant += weight * (over * over + self.constant[slot]);
                    terms.shift.push(weight * (2.0 * over + self.slope[slot]));
                }
            }
        }
    }

    /// Key of one node in mode seed: its squared dispersion after placement.
    pub(super) fn dispersion_key(&self, contrast: &[f64], reciprocal: &[f64]) -> f64 {
        let requests = || self.amounts.iter().zip(reciprocal).map(|(a, r)| a * r);
        let mean = requests().fold(0.0, |sum, request| sum + request) / self.amounts.len() as f64;
        let values = contrast.iter().zip(&self.weights);
        values.zip(requests()).fold(0.0, |key, ((value, weight), request)| {
            let new = value + (request - mean);
            key + weight * (new * new)
        })
    }

    /// Mode best's key of one node.
    pub(super) fn score_key(&self, usage: &[f64], reciprocal: &[f64]) -> f64 {
        let requests = || self.amounts.iter().zip(reciprocal).map(|(a, r)| a * r);
        let weighted = requests().zip(&self.weights);
        let mean = weighted.fold(0.0, |sum, (request, weight)| sum + weight * request);
        let mut key = 0.0;
        for ((request, weight), constant) in requests().zip(&self.weights).zip(&self.constant) {
            let over = request - mean;
            key += weight * (over * over + constant);
        }
        for (slot, request) in requests().enumerate() {
            let over = request - mean;
            key += usage[slot] * (self.weights[slot] * (2.0 * over + self.slope[slot]));
        }
        key
    }
}

/// The score that belongs to a key.
pub(super) fn score_of(mode: Mode, key: f64) -> f64 {
    match mode {
        Mode::Seed => key.sqrt(),
        Mode::Best => key,
    }
}

/// Keys of the 16 nodes of `block`; infinite where the request does not fit.
#[inline(always)]
fn block_keys<const BEST: bool>(
    section: &Section,
    view: &View,
    terms: &Terms,
    block: usize,
    width: usize,
) -> Lane {
    let base = block * width;
    let values = &section.value[base..base + width];
    let free = &section.free[base..base + width];
    let (amounts, weights) = (&view.amounts[..width], &view.weights[..width]);
    let mut keys = [if BEST { terms.constant } else { 0.0 }; LANES];
    let mut short = [0.0; LANES];
    for slot in 0..width {
        let (shift, weight, amount) = (terms.shift[slot], weights[slot], amounts[slot]);
        for lane in 0..LANES {
            if BEST {
                keys[lane] += values[slot][lane] * shift;
            } else {
                let new = values[slot][lane] + shift;
                keys[lane] += weight * (new * new);
            }
            short[lane] += if free[slot][lane] < amount { f64::INFINITY } else { 0.0 };
        }
    }
    for lane in 0..LANES {
        keys[lane] += short[lane];
    }
    keys
}

/// Computes [`block_keys`] where totals differ from node to node.
#[inline(always)]
fn varied_keys<const BEST: bool>(
    section: &Section,
    view: &View,
    block: usize,
    width: usize,
) -> Lane {
    let base = block * width;
    let values = &section.value[base..base + width];
    let free = &section.free[base..base + width];
    let reciprocal = &section.reciprocal[base..base + width];
    let (amounts, weights) = (&view.amounts[..width], &view.weights[..width]);
    let mut mean = [0.0; LANES];
    for slot in 0..width {
        for lane in 0..LANES {
            let request = amounts[slot] * reciprocal[slot][lane];
            mean[lane] += if BEST { weights[slot] * request } else { request };
        }
    }
    if !BEST {
        mean.iter_mut().for_each(|mean| *mean /= width as f64);
    }
    let mut constant = [0.0; LANES];
    if BEST {
        for slot in 0..width {
            for lane in 0..LANES {
                let over = amounts[slot] * reciprocal[slot][lane] - mean[lane];
                constant[lane] += weights[slot] * (over * over + view.constant[slot]);
            }
        }
    }
    let mut keys = constant;
    let mut short = [0.0; LANES];
    for slot in 0..width {
        for lane in 0..LANES {
            let over = amounts[slot] * reciprocal[slot][lane] - mean[lane];
            if BEST {
                let shift = weights[slot] * (2.0 * over + view.slope[slot]);
                keys[lane] += values[slot][lane] * shift;
            } else {
                let new = values[slot][lane] + over;
                keys[lane] += weights[slot] * (new * new);
            }
            let fits = free[slot][lane] >= amounts[slot];
            short[lane] += if fits { 0.0 } else { f64::INFINITY };
        }
    }
    for lane in 0..LANES {
        keys[lane] += short[lane];
    }
    keys
}

/// Calls a kernel with the width as a constant for the usual widths.
macro_rules! by_width {
    ($width:expr, $call:ident, $($argument:expr),*) => {
        match $width {
            1 => $call($($argument),*, 1),
            2 => $call($($argument),*, 2),
            3 => $call($($argument),*, 3),
            4 => $call($($argument),*, 4),
            width => $call($($argument),*, width),
        }
    };
}

/// Keys of the nodes of a block; infinite where the request does not fit.
#[inline(never)]
pub(super) fn keys(
    section: &Section,
    mode: Mode,
    view: &View,
    terms: &Terms,
    block: usize,
) -> Lane {
    let (seed, best) = (block_keys::<false>, block_keys::<true>);
    let (varied_seed, varied_best) = (varied_keys::<false>, varied_keys::<true>);
    let width = section.dims.len();
    match (mode, section.uniform.is_some()) {
        (Mode::Seed, true) => by_width!(width, seed, section, view, terms, block),
        (Mode::Best, true) => by_width!(width, best, section, view, terms, block),
        (Mode::Seed, false) => by_width!(width, varied_seed, section, view, block),
        (Mode::Best, false) => by_width!(width, varied_best, section, view, block),
    }
}

/// Bounds below the keys of all nodes of each of 16 children; infinite where
/// no node of the child fits.
#[inline(always)]
fn child_bounds<const BEST: bool>(
    bounds: &Bounds,
    view: &View,
    terms: &Terms,
    parent: usize,
    width: usize,
) -> Lane {
    let base = parent * width;
    let low = &bounds.value_min[base..base + width];
    let high = &bounds.value_max[base..base + width];
    let free = &bounds.free_max[base..base + width];
    let mut keys = [if BEST { terms.constant } else { 0.0 }; LANES];
    for slot in 0..width {
        let (shift, weight, amount) = (terms.shift[slot], view.weights[slot], view.amounts[slot]);
        for lane in 0..LANES {
            if BEST {
                let value = if shift > 0.0 { low[slot][lane] } else { high[slot][lane] };
                keys[lane] += value * shift;
            } else {
                let (least, most) = (low[slot][lane] + shift, high[slot][lane] + shift);
                let new = nearest_zero(least, most);
                keys[lane] += weight * (new * new);
            }
            keys[lane] += if free[slot][lane] < amount { f64::INFINITY } else { 0.0 };
        }
    }
    keys
}

/// Per dimension the range of `request - mean` over a child whose totals vary.
#[inline(always)]
fn over_range<const BEST: bool>(
    bounds: &Bounds,
    view: &View,
    parent: usize,
    slot: usize,
    width: usize,
    sums: &(Lane, Lane),
) -> (Lane, Lane) {
    let at = parent * width + slot;
    let (small, large) = (&bounds.reciprocal_min[at], &bounds.reciprocal_max[at]);
    let amount = view.amounts[slot];
    // The mean has this dimension's own request in it, with this factor.
    let factor = if BEST { view.weights[slot] } else { 1.0 / width as f64 };
    let (mut least, mut most) = ([0.0; LANES], [0.0; LANES]);
    for lane in 0..LANES {
        let (low, high) = (amount * small[lane], amount * large[lane]);
        least[lane] = low - (factor * low + (sums.1[lane] - factor * high));
        most[lane] = high - (factor * high + (sums.0[lane] - factor * low));
    }
    (least, most)
}

/// Range of the mean request over the nodes of each child.
#[inline(always)]
fn mean_range<const BEST: bool>(
    bounds: &Bounds,
    view: &View,
    parent: usize,
    width: usize,
) -> (Lane, Lane) {
    let (mut small, mut large) = ([0.0; LANES], [0.0; LANES]);
    for slot in 0..width {
        let at = parent * width + slot;
        let factor = if BEST { view.weights[slot] } else { 1.0 / width as f64 };
        let amount = factor * view.amounts[slot];
        for lane in 0..LANES {
            small[lane] += amount * bounds.reciprocal_min[at][lane];
            large[lane] += amount * bounds.reciprocal_max[at][lane];
        }
    }
    (small, large)
}

/// Computes [`child_bounds`] where totals differ from node to node.
#[inline(always)]
fn varied_bounds<const BEST: bool>(
    bounds: &Bounds,
    view: &View,
    parent: usize,
    width: usize,
) -> Lane {
    let sums = mean_range::<BEST>(bounds, view, parent, width);
    let mut keys = [0.0; LANES];
    for slot in 0..width {
        let at = parent * width + slot;
        let (least, most) = over_range::<BEST>(bounds, view, parent, slot, width, &sums);
        let (low, high) = (&bounds.value_min[at], &bounds.value_max[at]);
        let (weight, amount) = (view.weights[slot], view.amounts[slot]);
        for lane in 0..LANES {
            if BEST {
                let over = nearest_zero(least[lane], most[lane]);
                let slope = view.slope[slot];
                let shift = (2.0 * least[lane] + slope, 2.0 * most[lane] + slope);
                let value = least_product(shift, (low[lane], high[lane]));
                keys[lane] += weight * (over * over + view.constant[slot] + value);
            } else {
                let new = nearest_zero(low[lane] + least[lane], high[lane] + most[lane]);
                keys[lane] += weight * (new * new);
            }
            let free = bounds.free_max[at][lane];
            keys[lane] += if free < amount { f64::INFINITY } else { 0.0 };
        }
    }
    keys
}

#[inline(always)]
fn nearest_zero(least: f64, most: f64) -> f64 {
    if least > 0.0 {
        least
    } else if most < 0.0 {
        most
    } else {
        0.0
    }
}

/// Least product of two numbers, each in its range.
#[inline(always)]
fn least_product(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (p, q, r, s) = (a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1);
    smaller(smaller(p, q), smaller(r, s))
}

/// Least growth `(x + s)^2 - x^2 = s (s + 2 x)` of a square with `x` and `s`
/// in their ranges. Where `s` is positive the least `x` is best, where it is
/// negative the largest, and then the `s` nearest to `-x`.
#[inline(always)]
fn least_growth(x: (f64, f64), s: (f64, f64)) -> f64 {
    let up = clamp(-x.0, larger(s.0, 0.0), s.1);
    let down = clamp(-x.1, s.0, smaller(s.1, 0.0));
    let rising = if s.1 >= 0.0 { up * (up + 2.0 * x.0) } else { f64::INFINITY };
    let falling = if s.0 <= 0.0 { down * (down + 2.0 * x.1) } else { f64::INFINITY };
    smaller(rising, falling)
}

// Not f64::min, max and clamp: their rules for NaN cost time in these loops.
#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[inline(always)]
fn clamp(value: f64, low: f64, high: f64) -> f64 {
    smaller(larger(value, low), high)
}

/// Lower bounds of the keys in each child; infinite where no node fits.
#[inline(never)]
pub(super) fn key_bounds(
    bounds: &Bounds,
    section: &Section,
    mode: Mode,
    view: &View,
    terms: &Terms,
    parent: usize,
) -> Lane {
    let (seed, best) = (child_bounds::<false>, child_bounds::<true>);
    let (varied_seed, varied_best) = (varied_bounds::<false>, varied_bounds::<true>);
    let width = section.dims.len();
    match (mode, section.uniform.is_some()) {
        (Mode::Seed, true) => by_width!(width, seed, bounds, view, terms, parent),
        (Mode::Best, true) => by_width!(width, best, bounds, view, terms, parent),
        (Mode::Seed, false) => by_width!(width, varied_seed, bounds, view, parent),
        (Mode::Best, false) => by_width!(width, varied_best, bounds, view, parent),
    }
}

/// Mode seed: lower bounds of the change of the squared dispersion on any node of each child; above
/// 0, no node of the child improves. Infinite where no node fits.
#[inline(always)]
fn change_lanes(
    bounds: &Bounds,
    section: &Section,
    view: &View,
    terms: &Terms,
    parent: usize,
    width: usize,
) -> Lane {
    let varied = section.uniform.is_none();
    let sums = if varied {
        mean_range::<false>(bounds, view, parent, width)
    } else {
        ([0.0; LANES], [0.0; LANES])
    };
    let mut change = [0.0; LANES];
    for slot in 0..width {
        let at = parent * width + slot;
        let (low, high) = (&bounds.value_min[at], &bounds.value_max[at]);
        let (weight, amount) = (view.weights[slot], view.amounts[slot]);
        let (least, most) = if varied {
            over_range::<false>(bounds, view, parent, slot, width, &sums)
        } else {
            ([terms.shift[slot]; LANES], [terms.shift[slot]; LANES])
        };
        for lane in 0..LANES {
            let value = least_growth((low[lane], high[lane]), (least[lane], most[lane]));
            change[lane] += weight * value;
            change[lane] += if bounds.free_max[at][lane] < amount { f64::INFINITY } else { 0.0 };
        }
    }
    change
}

/// Calls [`change_lanes`] with the width as a constant for the usual widths.
#[inline(never)]
pub(super) fn change_bounds(
    bounds: &Bounds,
    section: &Section,
    view: &View,
    terms: &Terms,
    parent: usize,
) -> Lane {
    let width = section.dims.len();
    by_width!(width, change_lanes, bounds, section, view, terms, parent)
}
