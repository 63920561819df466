// SPDX-License-Identifier: GPL-3.0-or-later
//! Worth of options, types and gangs at dual prices: the tables that the search reads.

use super::dual::Prices;
use super::instance::{Instance, narrow};
use rayon::prelude::*;

/// Price of every kind as a part of the mean price, so that gangs compare by size where nothing is
/// scarce.
const FLOOR_SHARE: f64 = 0.02;

/// Values at some prices in tables, which the search reads.
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
    /// Worth of a gang at the best options of its tasks, and the ratio of that worth to the price.
    pub job_worth: Vec<f64>,
    pub density: Vec<f64>,
}

/// Values of one type.
struct TypeValues {
    worth: Vec<f64>,
    reduced: Vec<f64>,
    order: Vec<u32>,
    best_worth: f64,
    choosy: bool,
    /// Worth and price of the option with the largest reduced value.
    value: f64,
    price: f64,
}

impl Values {
    pub fn new(instance: &Instance, prices: &Prices) -> Self {
        let floor = floor_price(instance, prices);
        let types: Vec<TypeValues> = (0..instance.types)
            .into_par_iter()
            .map(|ty| TypeValues::new(instance, prices, floor, ty))
            .collect();
        let (job_worth, density) = (0..instance.jobs())
            .map(|job| {
                let tasks = instance.task_type[instance.job_tasks(job)].iter();
                let (value, price) = tasks.fold((0.0, 0.0), |(value, price), ty| {
                    let best = &types[*ty as usize];
                    (value + best.value, price + best.price)
                });
                (value, value / f64::max(price, 1e-300))
            })
            .unzip();
        let kinds = instance.kinds;
        let per_unit = |(at, l): (usize, &f64)| (l + floor) / instance.kind_scale[at % kinds];
        let price: Vec<f64> = prices.lambda.iter().enumerate().map(per_unit).collect();
        let zones = instance.zones.max(1) as f64;
        let mean = |k| to_f32(price.iter().skip(k).step_by(kinds).sum::<f64>() / zones);
        Self {
            worth: types.iter().flat_map(|t| &t.worth).copied().collect(),
            reduced: types.iter().flat_map(|t| &t.reduced).copied().collect(),
            by_reduced: types.iter().flat_map(|t| &t.order).copied().collect(),
            best_worth: types.iter().map(|t| t.best_worth).collect(),
            choosy: types.iter().map(|t| t.choosy).collect(),
            free_price: (0..kinds).map(mean).collect(),
            price,
            job_worth,
            density,
        }
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

impl TypeValues {
    fn new(instance: &Instance, prices: &Prices, floor: f64, ty: usize) -> Self {
        let kinds = instance.kinds;
        let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
        let opts = &instance.opts[instance.type_opts(ty)];
        let price = |zone: u32| -> f64 {
            let row = &prices.lambda[zone as usize * kinds..][..kinds];
            row.iter().zip(request).map(|(l, a)| l * a).sum()
        };
        let worth: Vec<f64> = opts.iter().map(|o| instance.worth(o, prices.theta)).collect();
        let reduced: Vec<f64> = opts.iter().zip(&worth).map(|(o, w)| w - price(o.zone)).collect();
        let first = narrow(instance.type_opts(ty).start);
        let mut order: Vec<u32> = (0..narrow(opts.len())).collect();
        order.sort_unstable_by(|a, b| {
            reduced[*b as usize].total_cmp(&reduced[*a as usize]).then(a.cmp(b))
        });
        let best = order.first().map(|at| *at as usize);
        Self {
            best_worth: worth.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            choosy: worth.iter().any(|w| *w != worth[0]),
            value: best.map_or(0.0, |at| worth[at]),
            price: best.map_or(0.0, |at| price(opts[at].zone))
                + floor * request.iter().sum::<f64>(),
            order: order.into_iter().map(|at| first + at).collect(),
            worth,
            reduced,
        }
    }
}

/// A small price for every kind, per unit of `kind_scale`.
fn floor_price(instance: &Instance, prices: &Prices) -> f64 {
    let mean = prices.lambda.iter().sum::<f64>() / prices.lambda.len().max(1) as f64;
    let worth = instance.opts.iter().map(|o| o.lin.abs() + prices.theta * o.s2);
    let scale = worth.fold(0.0, f64::max).max(1e-9);
    (FLOOR_SHARE * mean).max(1e-6 * scale / instance.kinds as f64)
}

/// Narrows a price: guidance needs single precision only, which fills vector registers better.
fn to_f32(x: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = x as f32;
    rounded
}
