// SPDX-License-Identifier: GPL-3.0-or-later
//! Prices turned into tables that the search reads.

use super::edges::Ranks;
use super::instance::{Instance, narrow};
use super::prices::Prices;
use super::scores::LANES;
use rayon::prelude::*;

/// Options of a type that are in order where all servers are looked at.
pub(super) const ORDERED: usize = 12;

/// What options are worth at some prices.
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
    /// Options of each type by descending reduced value, in the ranges of `opt_start`; where all
    /// servers are looked at, only the first [`ORDERED`].
    pub(crate) option_order: Vec<u32>,
    /// Reduced value by (type, server), -inf where there is no edge; empty on large instances.
    pub(crate) dense: Vec<f32>,
    /// Edges by reduced value, where the instance lists them.
    pub(crate) ranks: Ranks,
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
        let mut reduced = vec![0.0; instance.opts.len()];
        let mut worth = reduced.clone();
        let mut option_order: Vec<u32> = (0..narrow(instance.opts.len())).collect();
        let floor = floor_prices(instance, prices);
        let (mut left, mut types) =
            ((&mut reduced[..], &mut worth[..], &mut option_order[..]), vec![]);
        for ty in 0..instance.types {
            let count = instance.type_opts(ty).len();
            let (a, b, c) = (
                left.0.split_at_mut(count),
                left.1.split_at_mut(count),
                left.2.split_at_mut(count),
            );
            types.push((ty, (a.0, b.0, c.0)));
            left = (a.1, b.1, c.1);
        }
        let bests: Vec<BestOption> = types
            .into_par_iter()
            .map(|(ty, rows)| BestOption::find(instance, (prices, &floor), ty, rows))
            .collect();
        let (job_worth, density) = (0..instance.jobs())
            .map(|job| {
                let types = instance.task_type[instance.job_tasks(job)].iter();
                let (value, price) = types.fold((0.0, 0.0), |(v, p), ty| {
                    let best = &bests[*ty as usize];
                    (v + best.value, p + best.price)
                });
                (value, value / f64::max(price, 1e-300))
            })
            .unzip();
        let mut guide = Guide {
            reduced,
            worth,
            best_worth: bests.iter().map(|best| best.worth).collect(),
            choosy: bests.iter().map(|best| best.choosy).collect(),
            option_order,
            dense: Vec::new(),
            ranks: Ranks::default(),
            rest: Vec::new(),
            rest_f32: Vec::new(),
            job_worth,
            density,
        };
        guide.set_rest(instance, prices, &floor);
        guide.ranks = Ranks::new(instance, &guide.reduced);
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
        if instance.dense_option.is_empty() || instance.edges.are_listed() {
            return;
        }
        let padded = instance.servers.next_multiple_of(LANES);
        self.dense = vec![f32::NEG_INFINITY; instance.types * padded];
        let reduced = &self.reduced;
        let options = instance.dense_option.par_chunks_exact(instance.servers);
        self.dense.par_chunks_exact_mut(padded).zip(options).for_each(|(row, options)| {
            for (value, option) in row.iter_mut().zip(options) {
                if let Some(reduced) = reduced.get(*option as usize) {
                    *value = to_f32(*reduced);
                }
            }
        });
    }
}

/// What a type's options are worth, and the best one with its price.
struct BestOption {
    /// Largest worth of any.
    worth: f64,
    choosy: bool,
    value: f64,
    price: f64,
}

impl BestOption {
    /// Sets a type's rows of a guide: reduced values, worth and order.
    fn find(
        instance: &Instance,
        (prices, floor): (&Prices, &[f64]),
        ty: usize,
        (reduced, worth, order): (&mut [f64], &mut [f64], &mut [u32]),
    ) -> BestOption {
        let kinds = instance.kinds;
        let request = &instance.request_f[ty * kinds..(ty + 1) * kinds];
        let priced = |row: &[f64]| row.iter().zip(request).map(|(l, a)| l * a).sum::<f64>();
        let mut found =
            BestOption { worth: f64::NEG_INFINITY, choosy: false, value: 0.0, price: 0.0 };
        let mut best = f64::NEG_INFINITY;
        let first = instance.type_opts(ty).start;
        for (at, opt) in instance.opts[instance.type_opts(ty)].iter().enumerate() {
            let zone = opt.zone as usize * kinds;
            let price = priced(&prices.lambda[zone..zone + kinds]);
            let value =
                opt.lin + prices.theta * opt.s2 + f64::from(opt.untried) * instance.untried_weight;
            (reduced[at], worth[at]) = (value - price, value);
            found.choosy |= value != worth[0];
            found.worth = found.worth.max(value);
            if reduced[at] > best {
                best = reduced[at];
                (found.value, found.price) = (value, price + priced(floor));
            }
        }
        let compare = |a: &u32, b: &u32| {
            let (x, y) = (reduced[*a as usize - first], reduced[*b as usize - first]);
            y.total_cmp(&x).then(a.cmp(b))
        };
        // Where all servers are looked at, only the best options are asked for by order.
        let mut sorted = order.len();
        if !instance.dense_option.is_empty() && sorted > ORDERED {
            order.select_nth_unstable_by(ORDERED - 1, compare);
            sorted = ORDERED;
        }
        order[..sorted].sort_unstable_by(compare);
        found
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
pub(super) fn to_f32(x: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = x as f32;
    rounded
}
