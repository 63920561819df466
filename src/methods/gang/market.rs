// SPDX-License-Identifier: GPL-3.0-or-later
//! What prices are asked about: zones with capacity, and what every type may choose among them.
//!
//! Zones of servers of one shape have much the same prices. The choices of a type are kept by
//! shape, so that a look at the shape's cheapest prices tells where the rest cannot be best; and
//! one price for all zones of a shape is a coarser market, of which a type keeps few choices.

use std::collections::HashMap;

use super::instance::{Instance, Opt, narrow};
use rayon::prelude::*;

/// An option as the bound looks at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Value without the price, but for `theta s2`.
    pub(super) base: f64,
    pub(super) s2: f64,
    pub(super) zone: u32,
}

impl Choice {
    fn value(&self, theta: f64) -> f64 {
        self.base + theta * self.s2
    }
}

/// Choices in a run, in the mean, from which on runs are left at the first that cannot be best.
const RUN_LEAST: usize = 4;

/// Choices of one type in zones of one shape, by descending value at the market's theta.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Index of the choice behind the last.
    end: u32,
    shape: u32,
    s2_most: f64,
}

/// Zones and choices.
#[derive(Debug)]
pub(super) struct Market {
    pub(super) kinds: usize,
    pub(super) zones: usize,
    /// Zone capacities in units of `kind_scale`.
    pub(super) capacity: Vec<f64>,
    pub(super) choices: Vec<Choice>,
    /// What choices are sorted by; that of questions is mostly near.
    theta: f64,
    runs: Vec<Run>,
    /// First run of each type, and the number of runs at the end.
    run_start: Vec<u32>,
    /// By zone.
    pub(super) shape_of: Vec<u32>,
    shapes: usize,
    /// Least price by (shape, kind).
    cheapest: Vec<f64>,
}

impl Market {
    pub(super) fn new(instance: &Instance, theta: f64) -> Market {
        let kinds = instance.kinds;
        let mut capacity = vec![0.0; instance.zones * kinds];
        for (server, row) in instance.capacity.chunks_exact(kinds).enumerate() {
            let zone = instance.zone_of[server] as usize;
            for k in 0..kinds {
                capacity[zone * kinds + k] += f64::from(row[k]) / instance.kind_scale[k];
            }
        }
        let (shape_of, shapes) = shapes(instance);
        let mut market = Market::empty(kinds, capacity, theta, (shape_of, shapes));
        let rows: Vec<Vec<(u32, f64, Choice)>> = (0..instance.types)
            .into_par_iter()
            .map(|ty| sorted_choices(instance, ty, &market.shape_of, theta))
            .collect();
        market.choices.reserve(instance.opts.len());
        for row in rows {
            for run in row.chunk_by(|a, b| a.0 == b.0) {
                market.add_run(run[0].0, run.iter().map(|(_, _, choice)| *choice));
            }
            market.run_start.push(narrow(market.runs.len()));
        }
        market
    }

    fn empty(
        kinds: usize,
        capacity: Vec<f64>,
        theta: f64,
        (shape_of, shapes): (Vec<u32>, usize),
    ) -> Market {
        Market {
            kinds,
            zones: shape_of.len(),
            capacity,
            choices: Vec::new(),
            theta,
            runs: Vec::new(),
            run_start: vec![0],
            shape_of,
            shapes,
            cheapest: vec![0.0; shapes * kinds],
        }
    }

    fn add_run(&mut self, shape: u32, choices: impl Iterator<Item = Choice>) {
        let first = self.choices.len();
        self.choices.extend(choices);
        let s2_most = self.choices[first..].iter().map(|c| c.s2).fold(0.0, f64::max);
        self.runs.push(Run { end: narrow(self.choices.len()), shape, s2_most });
    }

    /// The market with one zone for all of a shape, where that has far fewer; a bound there is one
    /// here, at the same prices.
    pub(super) fn coarser(&self) -> Option<Market> {
        if self.shapes * 2 > self.zones {
            return None;
        }
        let kinds = self.kinds;
        let mut capacity = vec![0.0; self.shapes * kinds];
        for (row, shape) in self.capacity.chunks_exact(kinds).zip(&self.shape_of) {
            let sums = capacity[*shape as usize * kinds..].iter_mut();
            sums.zip(row).for_each(|(sum, c)| *sum += c);
        }
        let shapes = ((0..narrow(self.shapes)).collect(), self.shapes);
        let mut coarse = Market::empty(kinds, capacity, self.theta, shapes);
        for ty in 0..self.types() {
            let mut first = self.first_choice(ty);
            for run in self.runs_of(ty) {
                // At one price, those that have less than the first of both are never best.
                let best = self.choices[first];
                let others = self.choices[first + 1..run.end as usize].iter();
                let better = others.filter(|c| c.base > best.base || c.s2 > best.s2);
                let kept = std::iter::once(&best).chain(better);
                coarse.add_run(run.shape, kept.map(|c| Choice { zone: run.shape, ..*c }));
                first = run.end as usize;
            }
            coarse.run_start.push(narrow(coarse.runs.len()));
        }
        Some(coarse)
    }

    pub(super) fn types(&self) -> usize {
        self.run_start.len() - 1
    }

    fn runs_of(&self, ty: usize) -> &[Run] {
        &self.runs[self.run_start[ty] as usize..self.run_start[ty + 1] as usize]
    }

    fn first_choice(&self, ty: usize) -> usize {
        match self.run_start[ty] as usize {
            0 => 0,
            run => self.runs[run - 1].end as usize,
        }
    }

    /// Gets ready for questions about these prices.
    pub(super) fn set_cheapest(&mut self, lambda: &[f64]) {
        self.cheapest.fill(f64::INFINITY);
        for (row, shape) in lambda.chunks_exact(self.kinds).zip(&self.shape_of) {
            let least = self.cheapest[*shape as usize * self.kinds..].iter_mut();
            least.zip(row).for_each(|(least, l)| *least = least.min(*l));
        }
    }

    /// The best choice of a type that requests `request`, and its value less its price; the prices
    /// are those of [`Self::set_cheapest`].
    pub(super) fn best(
        &self,
        ty: usize,
        request: &[f64],
        (lambda, theta): (&[f64], f64),
    ) -> (f64, usize) {
        let kinds = self.kinds;
        let price = |row: &[f64]| row.iter().zip(request).map(|(l, a)| l * a).sum::<f64>();
        let (mut best, mut found) = (f64::NEG_INFINITY, 0);
        let mut first = self.first_choice(ty);
        let runs = self.runs_of(ty);
        let end = runs.last().map_or(first, |run| run.end as usize);
        if end - first < runs.len() * RUN_LEAST {
            // Too few in a run to gain by looking at its cheapest first.
            for (at, choice) in self.choices[first..end].iter().enumerate() {
                let zone = choice.zone as usize * kinds;
                let value = choice.value(theta) - price(&lambda[zone..zone + kinds]);
                if value > best {
                    (best, found) = (value, first + at);
                }
            }
            return (best, found);
        }
        for run in runs {
            let shape = run.shape as usize * kinds;
            let more = (theta - self.theta).max(0.0) * run.s2_most;
            let most = more - price(&self.cheapest[shape..shape + kinds]);
            for at in first..run.end as usize {
                let choice = &self.choices[at];
                if choice.value(self.theta) + most <= best {
                    break;
                }
                let zone = choice.zone as usize * kinds;
                let value = choice.value(theta) - price(&lambda[zone..zone + kinds]);
                if value > best {
                    (best, found) = (value, at);
                }
            }
            first = run.end as usize;
        }
        (best, found)
    }
}

/// Choices of a type with their shape and value, by shape and descending value.
fn sorted_choices(
    instance: &Instance,
    ty: usize,
    shape_of: &[u32],
    theta: f64,
) -> Vec<(u32, f64, Choice)> {
    let choice = |opt: &Opt| {
        let base = opt.lin + f64::from(opt.untried) * instance.untried_weight;
        let choice = Choice { base, s2: opt.s2, zone: opt.zone };
        (shape_of[opt.zone as usize], choice.value(theta), choice)
    };
    let mut row: Vec<_> = instance.opts[instance.type_opts(ty)].iter().map(choice).collect();
    // A stable sort: of equal choices the first server's.
    row.sort_by(|(s, x, _), (t, y, _)| s.cmp(t).then(y.total_cmp(x)));
    row
}

/// The shape of each zone, that of its first server, and how many there are.
fn shapes(instance: &Instance) -> (Vec<u32>, usize) {
    let kinds = instance.kinds;
    let mut known: HashMap<&[i32], u32> = HashMap::new();
    let first = instance.zone_start[..instance.zones].iter().map(|s| *s as usize);
    let of_zone = first.map(|server| {
        let next = narrow(known.len());
        *known.entry(&instance.capacity[server * kinds..(server + 1) * kinds]).or_insert(next)
    });
    let of_zone = of_zone.collect();
    (of_zone, known.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Market;
    use crate::gang::instance::{Instance, Opt};
    use crate::gang::rng::Stream;
    use serde_json::json;

    /// Servers of three shapes, most of them a class of their own.
    fn instance(rng: &mut Stream) -> Instance {
        let server = |s: usize| json!({"name": format!("s{s}"), "capacity": [8 << (s % 3), 4]});
        let servers: Vec<_> = (0..30).map(server).collect();
        let mut task = || {
            let mut edges = Vec::new();
            for s in 0..30 {
                if rng.below(3) == 0 {
                    continue;
                }
                // Some are equal, so that ties are met too.
                let (mean, count) = (0.5 + rng.below(5) as f64 / 10.0, 1 + rng.below(3));
                edges.push(json!({"server": format!("s{s}"), "mean": mean, "count": count}));
            }
            json!({"request": [1 + rng.below(6), rng.below(3)], "edges": edges})
        };
        let jobs: Vec<_> =
            (0..20).map(|j| json!({"id": format!("j{j}"), "tasks": [task()]})).collect();
        let problem = json!({"kinds": ["cpu", "gpu"], "slot": 9, "servers": servers, "jobs": jobs});
        Instance::compile(&serde_json::from_value(problem).unwrap()).unwrap()
    }

    #[test]
    fn the_best_choice_is_that_of_a_look_at_all() {
        let mut rng = Stream::new(3, 0);
        for case in 0..100 {
            let instance = instance(&mut rng);
            let mut market = Market::new(&instance, 0.3);
            let mut coarse = market.coarser().unwrap();
            assert_eq!((market.choices.len(), coarse.zones), (instance.opts.len(), 3));
            let theta = 0.6 * rng.unit();
            // Prices by shape, and then by zone.
            let by_shape: Vec<f64> = (0..6).map(|_| 0.3 * rng.unit()).collect();
            let of_zone = |shape: &u32| &by_shape[*shape as usize * 2..][..2];
            let mut lambda: Vec<f64> = market.shape_of.iter().flat_map(of_zone).copied().collect();
            coarse.set_cheapest(&by_shape);
            for by_zone in [false, true] {
                if by_zone {
                    lambda.iter_mut().for_each(|l| *l *= 0.5 + rng.unit());
                }
                market.set_cheapest(&lambda);
                for ty in 0..instance.types {
                    let request = &instance.request_f[ty * 2..][..2];
                    let price = |zone: u32| {
                        let row = &lambda[zone as usize * 2..][..2];
                        row.iter().zip(request).map(|(l, a)| l * a).sum::<f64>()
                    };
                    let value = |opt: &Opt| opt.lin + theta * opt.s2 - price(opt.zone);
                    let all = instance.opts[instance.type_opts(ty)].iter().map(value);
                    let expected = all.fold(f64::NEG_INFINITY, f64::max);
                    let (best, at) = market.best(ty, request, (&lambda, theta));
                    assert!((best - expected).abs() < 1e-12, "case {case}: {best} {expected}");
                    let choice = &market.choices[at];
                    assert_eq!(best, choice.value(theta) - price(choice.zone));
                    if !by_zone {
                        let (best, _) = coarse.best(ty, request, (&by_shape, theta));
                        assert!((best - expected).abs() < 1e-12, "case {case}: {best} {expected}");
                    }
                }
            }
        }
    }
}
