// SPDX-License-Identifier: GPL-3.0-or-later
//! The worth of a piece of a GPU to a mix of requests for parts of GPUs.
//!
//! Packing a stream of parts into the fewest GPUs is the cutting stock problem
//! (Gilmore and Gomory, 1961). The dual prices of its linear relaxation say how
//! much of a GPU a part of each size takes up in the best packing, what lies
//! idle beside it included: two of 470 share one, so that each is worth half; one
//! of 810 is worth a whole one. A piece is worth what the best filling of it is.
//! A placement is free of regret when the piece loses just the part's price.

use phalanx_methods::balance::fragment::WHOLE;

/// Sizes of parts that are told apart.
const SIZES_MAX: usize = 96;

/// Most simplex steps, far more than ever seen. The prices reached by then are still valid, if not
/// the best ones.
const STEPS_MAX: usize = 2_000;
/// Difference below which values are equal.
const SLACK: f64 = 1e-9;
/// Gain below which no further pattern is looked for.
const GAIN: f64 = 1e-7;

/// Worth of a piece by its size in thousandths, in GPUs: 0 for size 0, 1 for a whole one. `parts`:
/// sizes below [`WHOLE`], each once, with how often they come.
pub(super) fn worths(parts: &[(u16, f64)]) -> Vec<f64> {
    let mut parts: Vec<(u16, f64)> =
        parts.iter().copied().filter(|(size, often)| *size > 0 && *often > 0.0).collect();
    // The rarest of very many decide nothing.
    parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    parts.truncate(SIZES_MAX);
    let sizes: Vec<u16> = parts.iter().map(|(size, _)| *size).collect();
    let (worth, _) = fill(&sizes, &prices(&parts));
    // A price list that stopped early may make a pattern worth more than its GPU.
    let most = worth.last().copied().unwrap_or(0.0).max(1.0);
    let mut worth: Vec<f64> = worth.iter().map(|own| own / most).collect();
    if let Some(whole) = worth.last_mut() {
        *whole = 1.0;
    }
    worth
}

/// Dual prices by part: Gilmore and Gomory's column generation on a revised
/// simplex with an explicit inverse, which starts from GPUs with parts of one
/// size only.
fn prices(parts: &[(u16, f64)]) -> Vec<f64> {
    let sizes: Vec<u16> = parts.iter().map(|(size, _)| *size).collect();
    let mut basis = Basis::of(parts);
    for _ in 0..STEPS_MAX {
        let prices = basis.prices();
        // A negative price: more of this size is packed than comes.
        let negative = prices.iter().position(|price| *price < -SLACK);
        let column = match negative {
            Some(at) => {
                let mut column = vec![0.0; parts.len()];
                if let Some(slot) = column.get_mut(at) {
                    *slot = -1.0;
                }
                column
            }
            None => {
                let (worth, last) = fill(&sizes, &prices);
                if worth.last().is_none_or(|worth| *worth <= 1.0 + GAIN) {
                    break;
                }
                pattern(&sizes, &last)
            }
        };
        if !basis.enter(&column, if negative.is_some() { 0.0 } else { 1.0 }) {
            break;
        }
    }
    basis.prices().into_iter().map(|price| price.max(0.0)).collect()
}

/// The worth of each piece at `prices`, and which part fills it last.
fn fill(sizes: &[u16], prices: &[f64]) -> (Vec<f64>, Vec<Option<usize>>) {
    let pieces = usize::from(WHOLE) + 1;
    let (mut worth, mut last) = (vec![0.0; pieces], vec![None; pieces]);
    for piece in 1..pieces {
        let mut best = (worth.get(piece - 1).copied().unwrap_or(0.0), None);
        for (part, (size, price)) in sizes.iter().zip(prices).enumerate() {
            let Some(rest) = piece.checked_sub(usize::from(*size)) else { continue };
            let with = worth.get(rest).copied().unwrap_or(0.0) + price;
            if with > best.0 + SLACK {
                best = (with, Some(part));
            }
        }
        if let (Some(worth), Some(last)) = (worth.get_mut(piece), last.get_mut(piece)) {
            (*worth, *last) = best;
        }
    }
    (worth, last)
}

/// Number of times that each part is in the best filling of a GPU.
fn pattern(sizes: &[u16], last: &[Option<usize>]) -> Vec<f64> {
    let mut counts = vec![0.0; sizes.len()];
    let mut piece = usize::from(WHOLE);
    while piece > 0 {
        match last.get(piece).copied().flatten() {
            None => piece -= 1,
            Some(part) => {
                let size = sizes.get(part).copied().unwrap_or(WHOLE);
                piece = piece.saturating_sub(usize::from(size).max(1));
                if let Some(count) = counts.get_mut(part) {
                    *count += 1.0;
                }
            }
        }
    }
    counts
}

/// A basis of patterns: its inverse by rows, cost and level of each column.
struct Basis {
    inverse: Vec<Vec<f64>>,
    costs: Vec<f64>,
    levels: Vec<f64>,
}

impl Basis {
    fn of(parts: &[(u16, f64)]) -> Self {
        let own = |(size, often): &(u16, f64)| (f64::from(WHOLE / (*size).max(1)), *often);
        let row = |(at, part): (usize, &(u16, f64))| {
            let mut row = vec![0.0; parts.len()];
            if let Some(slot) = row.get_mut(at) {
                *slot = 1.0 / own(part).0;
            }
            row
        };
        Self {
            inverse: parts.iter().enumerate().map(row).collect(),
            costs: vec![1.0; parts.len()],
            levels: parts.iter().map(|part| own(part).1 / own(part).0).collect(),
        }
    }

    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.costs.len()];
        for (row, cost) in self.inverse.iter().zip(&self.costs) {
            for (price, entry) in prices.iter_mut().zip(row) {
                *price += cost * entry;
            }
        }
        prices
    }

    /// Takes a column into the basis in place of the one that is used up first; returns false if
    /// none is.
    fn enter(&mut self, column: &[f64], cost: f64) -> bool {
        let dot = |row: &Vec<f64>| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
        let direction: Vec<f64> = self.inverse.iter().map(dot).collect();
        let steps = direction.iter().zip(&self.levels).enumerate();
        let falling = steps.filter(|(_, (slope, _))| **slope > SLACK);
        let ratio = falling.map(|(at, (slope, level))| (level.max(0.0) / slope, at));
        let Some((step, leaves)) = ratio.min_by(|a, b| a.0.total_cmp(&b.0)) else { return false };
        let pivot = direction.get(leaves).copied().unwrap_or(1.0);
        let Some(row) = self.inverse.get_mut(leaves) else { return false };
        row.iter_mut().for_each(|entry| *entry /= pivot);
        let row = row.clone();
        for (at, slope) in direction.iter().enumerate() {
            let (Some(own), Some(level)) = (self.inverse.get_mut(at), self.levels.get_mut(at))
            else {
                continue;
            };
            if at == leaves {
                *level = step;
                continue;
            }
            own.iter_mut().zip(&row).for_each(|(entry, top)| *entry -= slope * top);
            *level -= slope * step;
        }
        if let Some(slot) = self.costs.get_mut(leaves) {
            *slot = cost;
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use microlp::{ComparisonOp, OptimizationDirection, Problem};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worths_follow_from_the_best_packing() {
        // Two of 470 share a GPU; nothing fits beside 810; 160 fits into what
        // is left there, and comes too seldom to need a GPU of its own.
        let worth = worths(&[(470, 3.0), (810, 2.0), (160, 1.0)]);
        let near =
            |at: usize, is: f64| assert!((worth[at] - is).abs() < 1e-6, "{at}: {}", worth[at]);
        near(470, 0.5);
        near(530, 0.5);
        near(810, 1.0);
        near(190, 0.0);
        near(469, 0.0);
        near(1000, 1.0);
        assert_eq!(worths(&[])[1000], 1.0);
    }

    fn patterns(sizes: &[u16], left: u16, so_far: Vec<f64>, all: &mut Vec<Vec<f64>>) {
        let Some(size) = sizes.get(so_far.len()) else { return all.push(so_far) };
        for count in 0..=left / size {
            let mut longer = so_far.clone();
            longer.push(f64::from(count));
            patterns(sizes, left - count * size, longer, all);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        /// Goal: the prices are the duals of the packing, by strong duality against another solver,
        /// on all patterns.
        #[test]
        fn prices_are_the_duals_of_the_packing(
            parts in proptest::collection::btree_map(120u16..1000, 1u32..500, 1..6)
        ) {
            let parts: Vec<(u16, f64)> =
                parts.into_iter().map(|(size, often)| (size, f64::from(often))).collect();
            let sizes: Vec<u16> = parts.iter().map(|part| part.0).collect();
            let mut all = Vec::new();
            patterns(&sizes, WHOLE, Vec::new(), &mut all);
            let mut lp = Problem::new(OptimizationDirection::Minimize);
            let used: Vec<_> = all.iter().map(|_| lp.add_var(1.0, (0.0, f64::INFINITY))).collect();
            for (at, part) in parts.iter().enumerate() {
                let row: Vec<_> =
                    used.iter().zip(&all).map(|(var, counts)| (*var, counts[at])).collect();
                lp.add_constraint(row.as_slice(), ComparisonOp::Ge, part.1);
            }
            let least = lp.solve().unwrap().into_solution().unwrap().objective();
            let prices = prices(&parts);
            let value: f64 = prices.iter().zip(&parts).map(|(price, part)| price * part.1).sum();
            prop_assert!((value - least).abs() < 1e-5 * least.max(1.0), "{value} {least}");
            let worth = worths(&parts);
            prop_assert!(worth.iter().zip(worth.iter().skip(1)).all(|(a, b)| a <= b));
            prop_assert!((worth[1000] - 1.0).abs() < 1e-9);
        }
    }
}
