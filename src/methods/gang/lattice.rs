// SPDX-License-Identifier: GPL-3.0-or-later
//! Fillings of a server as a table: all that fits into all parts of its capacity.
//!
//! Where tasks are large beside a server, as whole numbers of a common unit, its capacity is a
//! lattice of few cells. The best filling of every cell comes from those of smaller ones, size by
//! size (Gilmore and Gomory 1966); sums in the place of maxima weigh all fillings at once.

use std::array;

/// Kinds of a lattice at most.
const AXES_MAX: usize = 4;
/// Cells of one kind at most.
const LENGTH_MAX: i32 = 512;

/// A place in a lattice, by axis; those of fewer kinds are the last.
pub(super) type Place = [usize; AXES_MAX];

/// One kind of a lattice.
#[derive(Debug, Clone, Copy)]
struct Axis {
    kind: usize,
    /// Amount of a cell.
    unit: i32,
    /// Cells of the capacity.
    cells: i32,
}

impl Axis {
    /// Cells of a request: those of what does not fit are more than the capacity's.
    fn cell(self, row: &[i32]) -> usize {
        usize::try_from(row[self.kind] / self.unit).unwrap_or(0)
    }

    /// Number of cells, that of nothing included.
    fn len(self) -> usize {
        usize::try_from(self.cells).unwrap_or(0) + 1
    }
}

/// Amounts of some kinds in whole units.
#[derive(Debug)]
pub(super) struct Lattice {
    axes: Vec<Axis>,
    lens: Place,
}

impl Lattice {
    /// Over these kinds of a capacity, in the common units of the requests; none where a kind has
    /// too many.
    pub(super) fn new(kinds: &[usize], capacity: &[i32], requests: &[&[i32]]) -> Option<Lattice> {
        let axis = |kind: &usize| {
            let unit = requests.iter().map(|row| row[*kind]).fold(0, gcd);
            Axis { kind: *kind, unit: unit.max(1), cells: capacity[*kind] / unit.max(1) }
        };
        let mut axes: Vec<Axis> = kinds.iter().map(axis).collect();
        if axes.len() > AXES_MAX || axes.iter().any(|axis| axis.cells > LENGTH_MAX) {
            return None;
        }
        // Long rows are filled fast.
        axes.sort_by_key(|axis| axis.cells);
        let missing = AXES_MAX - axes.len();
        let len = |at: usize| at.checked_sub(missing).map_or(1, |at| axes[at].len());
        let lens = array::from_fn(len);
        Some(Lattice { axes, lens })
    }

    pub(super) fn place(&self, row: &[i32]) -> Place {
        let missing = AXES_MAX - self.axes.len();
        array::from_fn(|at| at.checked_sub(missing).map_or(0, |at| self.axes[at].cell(row)))
    }

    /// Place of the whole capacity.
    fn whole(&self) -> Place {
        self.lens.map(|len| len - 1)
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> usize {
        self.lens.iter().product()
    }

    fn cell(&self, place: Place) -> usize {
        place.iter().zip(&self.lens).fold(0, |cell, (at, len)| cell * len + at)
    }

    /// Parts of the capacity, by axis.
    pub(super) fn parts(&self, place: Place) -> [f64; AXES_MAX] {
        array::from_fn(|at| place[at] as f64 / (self.lens[at] - 1).max(1) as f64)
    }

    /// Calls `row(first, end, rest)` for each row of cells that has room for `size`: the cells from
    /// `first` to `end` leave, after it, those from `rest` on.
    fn rows(&self, size: Place, mut row: impl FnMut(usize, usize, usize)) {
        let [blocks, rows, columns, len] = self.lens;
        let back = self.cell(size);
        for block in size[0]..blocks {
            for line in size[1]..rows {
                for column in size[2]..columns {
                    let start = ((block * rows + line) * columns + column) * len;
                    let first = start + size[3];
                    row(first, start + len, first - back);
                }
            }
        }
    }

    /// Lets `mix` each cell that has room for `size` with what is left after it, from small to large.
    fn mix(&self, values: &mut [f64], size: Place, mix: impl Fn(&mut f64, f64)) {
        self.rows(size, |first, end, rest| {
            if first - rest < self.lens[3] {
                // The row itself: of several of a size each comes on top of the one before.
                (first..end).for_each(|cell| {
                    let before = values[cell - (first - rest)];
                    mix(&mut values[cell], before);
                });
            } else {
                let (before, row) = values.split_at_mut(first);
                let row = row[..end - first].iter_mut();
                row.zip(&before[rest..]).for_each(|(value, before)| mix(value, *before));
            }
        });
    }

    /// Profits of the best fillings of all cells with these sizes, of which none is nothing, from
    /// small to large.
    pub(super) fn best(&self, sizes: &[Place], profit: &[f64]) -> Vec<f64> {
        let mut values = vec![0.0; self.cells()];
        for (size, profit) in sizes.iter().zip(profit) {
            // What others fill better already is in no filling that is better than theirs.
            if less(self.whole(), *size).is_some() && *profit > values[self.cell(*size)] {
                self.mix(&mut values, *size, |value, rest| {
                    let more = rest + profit;
                    *value = if more > *value { more } else { *value };
                });
            }
        }
        values
    }

    /// Calls `take` for each size in the filling of the whole capacity that [`Self::best`] found.
    pub(super) fn trace(
        &self,
        sizes: &[Place],
        profit: &[f64],
        values: &[f64],
        mut take: impl FnMut(usize),
    ) {
        let mut place = self.whole();
        while values[self.cell(place)] > 0.0 {
            let worth = |at: usize| {
                let rest = less(place, sizes[at])?;
                Some((values[self.cell(rest)] + profit[at], at, rest))
            };
            let offered = (0..sizes.len()).filter(|at| profit[*at] > 0.0);
            let Some((_, at, rest)) = offered.filter_map(worth).max_by(|a, b| a.0.total_cmp(&b.0))
            else {
                return;
            };
            take(at);
            place = rest;
        }
    }

    /// Mean numbers of each size in a filling of the whole capacity that is drawn with weight
    /// `exp(profit / heat)`; `price` of all of each axis is near to what fillings bring. None where
    /// the numbers do not fit into floats.
    pub(super) fn mean(
        &self,
        (sizes, profit): (&[Place], &[f64]),
        (price, heat): ([f64; AXES_MAX], f64),
        values: &mut Vec<f64>,
        mean: &mut [f64],
    ) -> Option<()> {
        self.set_nothing((price, heat), values);
        let weight = |(size, profit): (&Place, &f64)| {
            let priced: f64 = self.parts(*size).iter().zip(&price).map(|(part, p)| part * p).sum();
            ((profit - priced) / heat).exp()
        };
        for (size, profit) in sizes.iter().zip(profit) {
            let weight = weight((size, profit));
            self.mix(values, *size, |value, rest| *value += weight * rest);
        }
        let all = values[self.cell(self.whole())];
        if !all.is_normal() {
            return None;
        }
        for ((size, profit), mean) in sizes.iter().zip(profit).zip(mean) {
            // There are at least so many in as many fillings as there are of what they leave.
            let (each, mut weight_all) = (weight((size, profit)), 1.0 / all);
            let mut place = self.whole();
            *mean = 0.0;
            while let Some(rest) = less(place, *size) {
                place = rest;
                weight_all *= each;
                *mean += weight_all * values[self.cell(place)];
            }
        }
        Some(())
    }

    /// The weight of nothing in each cell, whose price it leaves.
    fn set_nothing(&self, (price, heat): ([f64; AXES_MAX], f64), values: &mut Vec<f64>) {
        let along = |at: usize| -> Vec<f64> {
            let part = |cell: usize| cell as f64 / (self.lens[at] - 1).max(1) as f64;
            (0..self.lens[at]).map(|cell| (-part(cell) * price[at] / heat).exp()).collect()
        };
        let [blocks, rows, columns, cells] = array::from_fn(along);
        values.clear();
        for block in &blocks {
            for row in &rows {
                for column in &columns {
                    let before = block * row * column;
                    values.extend(cells.iter().map(|cell| before * cell));
                }
            }
        }
    }
}

/// What a size leaves of a place, if it fits.
fn less(place: Place, size: Place) -> Option<Place> {
    let fits = size.iter().zip(&place).all(|(a, c)| a <= c);
    fits.then(|| array::from_fn(|at| place[at] - size[at]))
}

fn gcd(mut a: i32, mut b: i32) -> i32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Lattice, Place};
    use crate::gang::rng::Stream;

    /// Weights of all fillings, and the same times their numbers of each size.
    fn sum(free: [i32; 2], items: &[(f64, [i32; 2])], heat: f64) -> (f64, Vec<f64>) {
        let Some(((profit, row), rest)) = items.split_first() else { return (1.0, Vec::new()) };
        let (mut all, mut counts) = (0.0, vec![0.0; items.len()]);
        let (mut left, mut count) = (free, 0.0);
        while left.iter().all(|free| *free >= 0) {
            let (weights, others) = sum(left, rest, heat);
            let weight = (count * profit / heat).exp();
            all += weight * weights;
            counts[0] += count * weight * weights;
            counts[1..].iter_mut().zip(others).for_each(|(sum, n)| *sum += weight * n);
            left = [left[0] - row[0], left[1] - row[1]];
            count += 1.0;
        }
        (all, counts)
    }

    #[test]
    fn the_mean_of_all_fillings_is_that_of_one_by_one() {
        let mut rng = Stream::new(5, 0);
        for heat in [0.3, 0.05] {
            for _ in 0..100 {
                let mut amount = |most: usize| i32::try_from(rng.below(most)).unwrap();
                let capacity = [2 * amount(5) + 2, amount(6)];
                let mut rows: Vec<[i32; 2]> = (0..4).map(|_| [2 * amount(4), amount(3)]).collect();
                rows.retain(|r| *r != [0, 0] && r[0] <= capacity[0] && r[1] <= capacity[1]);
                let requests: Vec<&[i32]> = rows.iter().map(|row| row.as_slice()).collect();
                let lattice = Lattice::new(&[0, 1], &capacity, &requests).unwrap();
                let sizes: Vec<Place> = requests.iter().map(|row| lattice.place(row)).collect();
                let profit: Vec<f64> = sizes.iter().map(|_| rng.unit()).collect();
                let mut mean = vec![0.0; sizes.len()];
                let near = [0.0, 0.0, 0.7, 0.4];
                let what = (sizes.as_slice(), profit.as_slice());
                lattice.mean(what, (near, heat), &mut Vec::new(), &mut mean).unwrap();
                let items: Vec<_> = profit.iter().copied().zip(rows).collect();
                let (all, counts) = sum(capacity, &items, heat);
                for (mean, count) in mean.iter().zip(counts) {
                    assert!((mean - count / all).abs() < 1e-9, "{mean} {}", count / all);
                }
            }
        }
    }

    #[test]
    fn what_floats_cannot_weigh_is_none() {
        let lattice = Lattice::new(&[0], &[4], &[&[1]]).unwrap();
        let size = [lattice.place(&[1])];
        let mean = |profit: f64, near: [f64; 4]| {
            let mut mean = [0.0];
            let what = (size.as_slice(), [profit].as_slice().to_vec());
            lattice.mean((what.0, &what.1), (near, 1e-3), &mut Vec::new(), &mut mean)?;
            Some(mean[0])
        };
        assert_eq!(mean(1.0, [0.0; 4]), None);
        let known = mean(1.0, [0.0, 0.0, 0.0, 4.0]).unwrap();
        assert!((known - 4.0).abs() < 1e-9, "{known}");
    }
}
