// SPDX-License-Identifier: GPL-3.0-or-later
//! Best patterns of an empty server by a table of all its fillings.

use super::instance::{NONE, narrow};
use super::lattice::{Lattice, Place};
use super::pattern::Filling;

/// Which sizes of tasks a server has room for, in some of its kinds.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) lattice: Lattice,
    /// From small to large; none is nothing.
    pub(super) sizes: Vec<Place>,
    /// By item; `NONE` of those that need nothing of these kinds.
    pub(super) size_of: Vec<u32>,
    /// By kind: it is in the table.
    pub(super) has: Vec<bool>,
    /// All kinds that items need are in the table.
    pub(super) whole: bool,
}

/// What a table says about an empty server.
pub(super) struct Best {
    /// No pattern has more profit.
    pub(super) profit: f64,
    /// Items of the best one: (index, how often).
    pub(super) items: Filling,
}

impl Table {
    /// Of a server with this capacity and items with these requests, in as many of the kinds, from
    /// the first one on, as cells times sizes are at most `work`.
    pub(super) fn widest(
        capacity: &[i32],
        requests: &[&[i32]],
        order: &[usize],
        work: usize,
    ) -> Option<Table> {
        let of = |count: usize| Table::new(capacity, requests, &order[..count], work);
        (1..=order.len()).rev().find_map(of)
    }

    /// The same with these kinds and no others.
    pub(super) fn new(
        capacity: &[i32],
        requests: &[&[i32]],
        kinds: &[usize],
        work: usize,
    ) -> Option<Table> {
        let lattice = Lattice::new(kinds, capacity, requests)?;
        if lattice.cells() > work {
            return None;
        }
        let places: Vec<Place> = requests.iter().map(|row| lattice.place(row)).collect();
        let mut sizes = places.clone();
        sizes.sort_unstable_by_key(key);
        sizes.dedup();
        sizes.retain(|size| *size != Place::default());
        if sizes.is_empty() || sizes.len() * lattice.cells() > work {
            return None;
        }
        let find = |place: &Place| sizes.binary_search_by_key(&key(place), key);
        let size_of = places.iter().map(|place| find(place).map_or(NONE, narrow)).collect();
        let mut has = vec![false; capacity.len()];
        kinds.iter().for_each(|kind| has[*kind] = true);
        let kept = |row: &&[i32]| row.iter().zip(&has).all(|(a, has)| *has || *a == 0);
        let whole = requests.iter().all(kept);
        Some(Table { lattice, sizes, size_of, has, whole })
    }

    /// The best pattern of items with these profits. There are any number of each, but for those that
    /// need nothing of the table's kinds: `most` of these.
    pub(super) fn best(
        &self,
        profit_of: impl Fn(usize) -> f64,
        most: impl Fn(usize) -> u32,
    ) -> Best {
        let mut profit = vec![0.0_f64; self.sizes.len()];
        let mut item_of = vec![0; self.sizes.len()];
        let mut best = Best { profit: 0.0, items: Vec::new() };
        for (at, size) in self.size_of.iter().enumerate() {
            let (own, size) = (profit_of(at), *size as usize);
            match profit.get_mut(size) {
                Some(profit) if *profit < own => (*profit, item_of[size]) = (own, narrow(at)),
                None if own > 0.0 => {
                    best.profit += own * f64::from(most(at));
                    best.items.push((narrow(at), most(at)));
                }
                _ => {}
            }
        }
        let values = self.lattice.best(&self.sizes, &profit);
        best.profit += values.last().copied().unwrap_or(0.0);
        let mut last = NONE;
        self.lattice.trace(&self.sizes, &profit, &values, |size| {
            let item = item_of[size];
            match best.items.last_mut() {
                Some((_, count)) if last == item => *count += 1,
                _ => best.items.push((item, 1)),
            }
            last = item;
        });
        best
    }
}

/// From small to large.
fn key(place: &Place) -> (usize, Place) {
    (place.iter().sum(), *place)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Table;
    use crate::gang::rng::Stream;

    /// Profit of the best pattern of any number of items, by trying all.
    fn brute(free: [i32; 3], items: &[(f64, [i32; 3])]) -> f64 {
        let Some(((profit, row), rest)) = items.split_first() else { return 0.0 };
        let mut best = brute(free, rest);
        let (mut left, mut own) = (free, 0.0);
        while row.iter().zip(&left).all(|(a, f)| a <= f) {
            left = std::array::from_fn(|k| left[k] - row[k]);
            own += profit;
            best = best.max(own + brute(left, rest));
        }
        best
    }

    #[test]
    fn a_table_finds_the_best_pattern() {
        let mut rng = Stream::new(11, 0);
        let mut several = 0;
        for _ in 0..400 {
            let unit = [1, 3, 8][rng.below(3)];
            let mut amount = |most: usize| unit * i32::try_from(rng.below(most)).unwrap();
            let capacity = [amount(7) + 2, amount(5), amount(4) + 1];
            let rows: Vec<[i32; 3]> = (0..5).map(|_| [amount(4), amount(4), amount(3)]).collect();
            let fits = |row: &&[i32; 3]| row.iter().zip(&capacity).all(|(a, c)| a <= c);
            let rows: Vec<[i32; 3]> =
                rows.iter().filter(fits).filter(|row| **row != [0; 3]).copied().collect();
            let items: Vec<(f64, [i32; 3])> =
                rows.iter().map(|row| (rng.unit() - 0.2, *row)).collect();
            let requests: Vec<&[i32]> = rows.iter().map(|row| row.as_slice()).collect();
            let Some(table) = Table::new(&capacity, &requests, &[0, 1, 2], 1 << 20) else {
                assert!(rows.is_empty(), "{capacity:?} {rows:?}");
                continue;
            };
            assert!(table.whole);
            let best = table.best(|at| items[at].0, |_| 1);
            let known = brute(capacity, &items);
            assert!((best.profit - known).abs() < 1e-9, "{} {known}", best.profit);
            // What it says the pattern is fits, and has that profit.
            let (mut left, mut profit) = (capacity, 0.0);
            for (at, n) in &best.items {
                let n = i32::try_from(*n).unwrap();
                let (own, row) = items[*at as usize];
                profit += own * f64::from(n);
                left = std::array::from_fn(|k| left[k] - n * row[k]);
            }
            assert!(left.iter().all(|free| *free >= 0), "{left:?}");
            assert!((profit - known).abs() < 1e-9, "{profit} {known}");
            several += usize::from(best.items.len() > 1);
        }
        assert!(several > 50, "{several}");
    }

    #[test]
    fn a_table_of_some_kinds_leaves_the_others_to_their_price() {
        let requests: [&[i32]; 3] = [&[2, 1], &[3, 0], &[0, 2]];
        let table = Table::widest(&[6, 4], &requests, &[0, 1], 20).unwrap();
        assert_eq!((table.has.as_slice(), table.whole), ([true, false].as_slice(), false));
        // Three of the first, and two of the third, which need nothing of the first kind.
        let best = table.best(|at| [1.0, 1.2, 0.5][at], |_| 2);
        assert!((best.profit - 4.0).abs() < 1e-12, "{}", best.profit);
        assert_eq!(best.items, [(2, 2), (0, 3)]);
        assert!(Table::widest(&[6, 4], &requests, &[0, 1], 5).is_none());
        assert!(Table::widest(&[6, 4], &requests, &[0, 1], 1 << 10).unwrap().whole);
    }
}
