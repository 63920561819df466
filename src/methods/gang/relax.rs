// SPDX-License-Identifier: GPL-3.0-or-later
//! What the kinds of one server are worth to the items offered: the linear relaxation of a pattern.
//!
//! ```text
//! max sum_i profit_i x_i   with   sum_i part_ik x_i <= 1 for every kind k,  0 <= x_i <= most_i
//! ```
//!
//! by the primal simplex method for bounded variables; the basis has as many rows as there are
//! kinds. Its multipliers are prices. Whatever prices are not negative bound a search, so one that
//! ends early costs time there and no truth.

/// Steps after which the multipliers are taken as they are.
const STEPS_MAX: usize = 100;
/// Reduced profit, as a part of the largest profit, below which nothing enters the basis.
const GAIN_LEAST: f64 = 1e-9;
/// Rates below this do not limit a step.
const RATE_LEAST: f64 = 1e-11;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Basic,
    Lower,
    Upper,
}

/// Variables (items, then one slack by kind) and scratch space; reused from server to server.
#[derive(Debug, Default)]
pub(super) struct Relaxation {
    kinds: usize,
    /// Parts of the capacity by (variable, kind).
    parts: Vec<f64>,
    profit: Vec<f64>,
    most: Vec<f64>,
    place: Vec<Place>,
    /// Variable and value by row of the basis.
    basis: Vec<usize>,
    value: Vec<f64>,
    inverse: Vec<f64>,
    column: Vec<f64>,
    price: Vec<f64>,
}

impl Relaxation {
    /// Starts anew, without items.
    pub(super) fn clear(&mut self, kinds: usize) {
        self.kinds = kinds;
        self.parts.clear();
        self.profit.clear();
        self.most.clear();
    }

    /// Adds an item: its parts of the capacity of every kind, its profit, how often it is there.
    pub(super) fn push(&mut self, parts: impl Iterator<Item = f64>, profit: f64, most: u32) {
        self.parts.extend(parts);
        self.profit.push(profit);
        self.most.push(f64::from(most));
    }

    /// What all of each kind is worth, at least 0.
    pub(super) fn prices(&mut self) -> &[f64] {
        let least = GAIN_LEAST * self.profit.iter().fold(0.0, |m: f64, p| m.max(*p));
        self.set_slacks();
        self.set_prices();
        for _ in 0..STEPS_MAX {
            let Some(entering) = self.best_entering(least) else { break };
            self.enter(entering);
            self.set_prices();
        }
        self.price.iter_mut().for_each(|price| *price = price.max(0.0));
        &self.price
    }

    fn set_slacks(&mut self) {
        let (kinds, items) = (self.kinds, self.profit.len());
        self.place.clear();
        self.place.resize(items, Place::Lower);
        self.basis.clear();
        for k in 0..kinds {
            self.parts.extend((0..kinds).map(|other| if other == k { 1.0 } else { 0.0 }));
            self.profit.push(0.0);
            self.most.push(f64::INFINITY);
            self.place.push(Place::Basic);
            self.basis.push(items + k);
        }
        self.value.clear();
        self.value.resize(kinds, 1.0);
        self.inverse.clear();
        self.inverse.extend_from_slice(&self.parts[items * kinds..]);
    }

    fn set_prices(&mut self) {
        self.price.clear();
        self.price.resize(self.kinds, 0.0);
        for (variable, row) in self.basis.iter().zip(self.inverse.chunks_exact(self.kinds)) {
            let profit = self.profit[*variable];
            self.price.iter_mut().zip(row).for_each(|(price, b)| *price += profit * b);
        }
    }

    /// The variable outside of the basis that gains most by leaving its bound.
    fn best_entering(&self, least: f64) -> Option<usize> {
        let (mut best, mut found) = (least, None);
        for (v, row) in self.parts.chunks_exact(self.kinds).enumerate() {
            let paid: f64 = self.price.iter().zip(row).map(|(price, part)| price * part).sum();
            let gain = match self.place[v] {
                Place::Basic => continue,
                Place::Lower => self.profit[v] - paid,
                Place::Upper => paid - self.profit[v],
            };
            if gain > best {
                (best, found) = (gain, Some(v));
            }
        }
        found
    }

    /// Moves a variable away from its bound until it, or one of the basis, meets another.
    fn enter(&mut self, v: usize) {
        let kinds = self.kinds;
        let sign = if self.place[v] == Place::Upper { -1.0 } else { 1.0 };
        let parts = &self.parts[v * kinds..(v + 1) * kinds];
        self.column.clear();
        self.column.extend(
            self.inverse
                .chunks_exact(kinds)
                .map(|row| sign * row.iter().zip(parts).map(|(b, part)| b * part).sum::<f64>()),
        );
        let (mut step, mut leaving) = (self.most[v], None);
        for (at, rate) in self.column.iter().enumerate() {
            let (room, place) = if *rate > RATE_LEAST {
                (self.value[at] / rate, Place::Lower)
            } else if *rate < -RATE_LEAST {
                ((self.value[at] - self.most[self.basis[at]]) / rate, Place::Upper)
            } else {
                continue;
            };
            if room < step {
                (step, leaving) = (room.max(0.0), Some((at, place)));
            }
        }
        self.value.iter_mut().zip(&self.column).for_each(|(value, rate)| *value -= step * rate);
        match leaving {
            None if sign > 0.0 => self.place[v] = Place::Upper,
            None => self.place[v] = Place::Lower,
            Some((at, place)) => {
                let value = if sign > 0.0 { step } else { self.most[v] - step };
                self.place[self.basis[at]] = place;
                self.place[v] = Place::Basic;
                (self.basis[at], self.value[at]) = (v, value);
                self.pivot(at, sign);
            }
        }
    }

    /// Brings the inverse of the basis up to date; `column` is `sign` times that of the new one.
    fn pivot(&mut self, at: usize, sign: f64) {
        let kinds = self.kinds;
        let pivot = sign * self.column[at];
        self.inverse[at * kinds..(at + 1) * kinds].iter_mut().for_each(|b| *b /= pivot);
        for row in (0..kinds).filter(|row| *row != at) {
            let factor = sign * self.column[row];
            for k in 0..kinds {
                self.inverse[row * kinds + k] -= factor * self.inverse[at * kinds + k];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::rng::Stream;

    /// What the basis and the items at their upper bounds bring, and how much of each kind they use.
    fn primal(relaxation: &Relaxation) -> (f64, Vec<f64>) {
        let kinds = relaxation.kinds;
        let mut amount: Vec<f64> = (0..relaxation.profit.len())
            .map(|v| if relaxation.place[v] == Place::Upper { relaxation.most[v] } else { 0.0 })
            .collect();
        for (v, value) in relaxation.basis.iter().zip(&relaxation.value) {
            assert!(*value > -1e-7 && *value < relaxation.most[*v] + 1e-7);
            amount[*v] = *value;
        }
        let mut used = vec![0.0; kinds];
        for (amount, row) in amount.iter().zip(relaxation.parts.chunks_exact(kinds)) {
            used.iter_mut().zip(row).for_each(|(u, part)| *u += amount * part);
        }
        (amount.iter().zip(&relaxation.profit).map(|(a, p)| a * p).sum(), used)
    }

    #[test]
    fn prices_prove_what_the_basis_reaches() {
        let mut rng = Stream::new(11, 0);
        let mut relaxation = Relaxation::default();
        for case in 0..500 {
            let kinds = 1 + rng.below(6);
            let items: Vec<(f64, u32, Vec<f64>)> = (0..rng.below(40))
                .map(|_| {
                    let row = (0..kinds).map(|_| rng.below(8) as f64 / 10.0).collect();
                    (rng.unit(), 1 + u32::try_from(rng.below(5)).unwrap(), row)
                })
                .collect();
            relaxation.clear(kinds);
            for (profit, most, row) in &items {
                relaxation.push(row.iter().copied(), *profit, *most);
            }
            let prices = relaxation.prices().to_vec();
            assert!(prices.iter().all(|price| *price >= 0.0));
            let paid = |row: &[f64]| row.iter().zip(&prices).map(|(a, p)| a * p).sum::<f64>();
            let above =
                items.iter().map(|(p, most, row)| f64::from(*most) * (p - paid(row)).max(0.0));
            let dual = prices.iter().sum::<f64>() + above.sum::<f64>();
            let (primal, used) = primal(&relaxation);
            assert!((dual - primal).abs() < 1e-6 * (1.0 + dual), "case {case}: {dual} {primal}");
            assert!(used.iter().all(|used| (used - 1.0).abs() < 1e-7), "case {case}: {used:?}");
        }
    }
}
