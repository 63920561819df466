// SPDX-License-Identifier: GPL-3.0-or-later
//! Tables that the search reads: worth of options, types and gangs at dual prices.

use super::dual::Prices;
use super::instance::{Instance, narrow};
use rayon::prelude::*;

/// Price of every kind as a part of the mean price, so that gangs compare by size where nothing is
/// scarce.
const FLOOR_SHARE: f64 = 0.02;

/// Values at some prices.
#[derive(Debug, Clone)]
pub struct Values {
    /// Worth of each option before prices.
    pub worth: Vec<f64>,
    /// Worth of each option less the price of the request.
    pub reduced: Vec<f64>,
    /// Options of each type by descending reduced value, in the ranges of `opt_start`.
    pub by_reduced: Vec<u32>,
    /// Largest worth of each type.
    pub best_worth: Vec<f64>,
    /// Types that are worth more on some servers than on others.
    pub choosy: Vec<bool>,
    /// Price per unit by (zone, kind), with the floor.
    pub price: Vec<f64>,
    /// Price of a unit left free, by kind: the mean of all zones.
    pub free_price: Vec<f32>,
    /// Worth of a gang at the best options of its tasks.
    pub job_worth: Vec<f64>,
    /// Worth of a gang per price.
    pub density: Vec<f64>,
}

impl Values {
    pub fn new(instance: &Instance, prices: &Prices) -> Self {
        let kinds = instance.kinds;
        let floor = floor_price(instance, prices);
        let worth: Vec<f64> =
            instance.opts.iter().map(|o| instance.worth(o, prices.theta)).collect();
        let by_type = |ty: usize| {
            let range = instance.type_opts(ty);
            let cost = |at: usize| instance.priced(ty, &prices.lambda, instance.opts[at].zone);
            let reduced: Vec<f64> = range.clone().map(|at| worth[at] - cost(at)).collect();
            let of = |option: &u32| reduced[*option as usize - range.start];
            let mut order: Vec<u32> = (narrow(range.start)..narrow(range.end)).collect();
            order.sort_unstable_by(|a, b| of(b).total_cmp(&of(a)).then(a.cmp(b)));
            (reduced, order)
        };
        let types: Vec<(Vec<f64>, Vec<u32>)> =
            (0..instance.types).into_par_iter().map(by_type).collect();
        let per_unit = |(at, l): (usize, &f64)| (l + floor) / instance.kind_scale[at % kinds];
        let price: Vec<f64> = prices.lambda.iter().enumerate().map(per_unit).collect();
        let zones = instance.zones.max(1) as f64;
        let mean = |k| to_f32(price.iter().skip(k).step_by(kinds).sum::<f64>() / zones);
        let worths = |ty| &worth[instance.type_opts(ty)];
        let largest = |ty| worths(ty).iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let differ = |ty| worths(ty).windows(2).any(|pair| pair[0] != pair[1]);
        let mut values = Self {
            best_worth: (0..instance.types).map(largest).collect(),
            choosy: (0..instance.types).map(differ).collect(),
            reduced: types.iter().flat_map(|(reduced, _)| reduced).copied().collect(),
            by_reduced: types.iter().flat_map(|(_, order)| order).copied().collect(),
            free_price: (0..kinds).map(mean).collect(),
            worth,
            price,
            job_worth: vec![0.0; instance.jobs()],
            density: vec![0.0; instance.jobs()],
        };
        for job in (0..instance.jobs()).filter(|job| instance.possible[*job]) {
            let mut price = 1e-300;
            for ty in instance.task_type[instance.job_tasks(job)].iter().map(|ty| *ty as usize) {
                let best = values.best_option(instance, ty);
                values.job_worth[job] += values.worth[best];
                price += values.priced(instance.row(ty), instance.opts[best].zone);
            }
            values.density[job] = values.job_worth[job] / price;
        }
        values
    }

    /// The option of a type with the largest reduced value.
    pub fn best_option(&self, instance: &Instance, ty: usize) -> usize {
        self.by_reduced[instance.type_opts(ty).start] as usize
    }

    /// Price of a row of amounts in a zone.
    pub fn priced(&self, row: &[i32], zone: u32) -> f64 {
        let price = &self.price[zone as usize * row.len()..][..row.len()];
        row.iter().zip(price).map(|(a, p)| f64::from(*a) * p).sum()
    }
}

/// A small price for every kind, per unit of `kind_scale`.
fn floor_price(instance: &Instance, prices: &Prices) -> f64 {
    let mean = prices.lambda.iter().sum::<f64>() / prices.lambda.len().max(1) as f64;
    let worth = instance.opts.iter().map(|o| o.lin.abs() + prices.theta * o.s2);
    let scale = worth.fold(0.0, f64::max).max(1e-9);
    (FLOOR_SHARE * mean).max(1e-6 * scale / instance.kinds as f64)
}

/// Guidance needs no more than single precision, which fills vector registers twice as well.
fn to_f32(x: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = x as f32;
    rounded
}
