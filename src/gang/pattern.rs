// SPDX-License-Identifier: GPL-3.0-or-later
//! The best filling of one server: an integer knapsack in all kinds, by branch and bound.
//!
//! Prices order the items and bound the search: those given, or those of the linear relaxation.

use super::relax::Relaxation;

/// Kinds compared at a time.
const LANES: usize = 4;
/// Items, the best by the prices given, that make up the relaxation.
const RELAXED: usize = 64;
/// Least price of all of a kind, as a part of the largest profit: items are compared by size where
/// nothing is scarce.
const PRICE_LEAST: f64 = 1e-6;

/// What is put on a server: (id, how often).
pub(crate) type Filling = Vec<(u32, u32)>;

/// Something that can be put on the server up to `most` times.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Item {
    id: u32,
    most: u32,
    profit: f64,
    /// Amounts times prices.
    size: f64,
    /// Profit per size: the order of the search.
    ratio: f64,
}

/// Scratch space and result of one search; reused, so that nothing is allocated per server.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    items: Vec<Item>,
    relaxation: Relaxation,
    /// Requests of `items`, `chunks` each, and the least request of this and all later items.
    rows: Vec<[i32; LANES]>,
    least: Vec<[i32; LANES]>,
    /// Profit above size of this and all later items.
    excess: Vec<f64>,
    free: Vec<[i32; LANES]>,
    chunks: usize,
    capacity: Vec<i32>,
    price: Vec<f64>,
    given: Vec<f64>,
    chosen: Vec<u32>,
    best_chosen: Vec<u32>,
    /// Items that need nothing: always taken.
    gratis: Filling,
    base: f64,
    known: Filling,
    known_value: f64,
    /// Best filling found.
    pub(crate) best: Filling,
    /// Its profit.
    pub(crate) value: f64,
    /// No filling has more profit.
    pub(crate) bound: f64,
    looks: u32,
    stretch: f64,
}

fn fits(row: &[[i32; LANES]], free: &[[i32; LANES]]) -> bool {
    let mut lack = 0;
    for (r, f) in row.iter().zip(free) {
        for lane in 0..LANES {
            lack |= f[lane] - r[lane];
        }
    }
    lack >= 0
}

fn push_chunks(rows: &mut Vec<[i32; LANES]>, row: &[i32]) {
    for part in row.chunks(LANES) {
        let mut chunk = [0; LANES];
        chunk[..part.len()].copy_from_slice(part);
        rows.push(chunk);
    }
}

impl Pattern {
    /// Starts a new server with `free` units; `price` per unit orders and bounds the search.
    pub(crate) fn clear(&mut self, free: &[i32], price: &[f64]) {
        self.items.clear();
        self.gratis.clear();
        self.base = 0.0;
        self.known.clear();
        self.known_value = 0.0;
        self.capacity.clear();
        self.capacity.extend_from_slice(free);
        self.price.clear();
        self.price.extend_from_slice(price);
    }

    /// One item with this request fits.
    pub(crate) fn admits(&self, request: &[i32]) -> bool {
        request.iter().zip(&self.capacity).all(|(a, f)| a <= f)
    }

    /// Offers an item that fits once; those that bring nothing are left out.
    pub(crate) fn offer(&mut self, id: u32, profit: f64, most: u32, request: &[i32]) {
        if profit <= 0.0 || most == 0 {
            return;
        }
        if request.iter().all(|a| *a == 0) {
            self.gratis.push((id, most));
            self.base += profit * f64::from(most);
            return;
        }
        let mut item = Item { id, most, profit, size: 0.0, ratio: 0.0 };
        item.set_size(request, &self.price);
        self.items.push(item);
    }

    /// Begins with a filling that fits, of which what is offered still counts: a search that is
    /// cut short finds nothing worse. Comes right after offers with ascending ids.
    pub(crate) fn begin_with(&mut self, filling: &[(u32, u32)]) {
        for (id, count) in filling {
            if let Ok(at) = self.items.binary_search_by_key(id, |item| item.id) {
                self.known.push((*id, *count));
                self.known_value += self.items[at].profit * f64::from(*count);
            }
        }
    }

    /// Takes the prices of the relaxation for those given where they prove more before the search:
    /// more work, and far less of it to prove that nothing is better. `request` gives the row of an
    /// id.
    pub(crate) fn relax<'r>(&mut self, request: impl Fn(u32) -> &'r [i32]) {
        if self.items.len() > RELAXED {
            self.items.select_nth_unstable_by(RELAXED, Item::order);
        }
        self.relaxation.clear(self.capacity.len());
        let mut scale = 0.0_f64;
        for item in self.items.iter().take(RELAXED) {
            let part = |(a, c): (&i32, &i32)| f64::from(*a) / f64::from((*c).max(1));
            let parts = request(item.id).iter().zip(&self.capacity).map(part);
            self.relaxation.push(parts, item.profit, item.most);
            scale = scale.max(item.profit);
        }
        let given = self.limit();
        self.given.clone_from(&self.price);
        let prices = self.relaxation.prices();
        for ((unit, all), c) in self.price.iter_mut().zip(prices).zip(&self.capacity) {
            *unit = all.max(PRICE_LEAST * scale) / f64::from((*c).max(1));
        }
        self.set_sizes(&request);
        // Items outside of the relaxation may be worth more than its prices.
        if self.limit() > given {
            self.price.clone_from(&self.given);
            self.set_sizes(&request);
        }
    }

    fn set_sizes<'r>(&mut self, request: impl Fn(u32) -> &'r [i32]) {
        for item in &mut self.items {
            item.set_size(request(item.id), &self.price);
        }
    }

    /// Price of the server, and what the profits of all items are above their sizes.
    fn limit(&self) -> f64 {
        self.room() + self.items.iter().map(|item| item.excess(item.most)).sum::<f64>()
    }

    fn room(&self) -> f64 {
        self.capacity.iter().zip(&self.price).map(|(f, p)| f64::from(*f) * p).sum()
    }

    /// Looks at about `looks` items for a filling that none beats by more than the part
    /// `tolerance`; `request` gives the row of an id.
    pub(crate) fn search<'r>(
        &mut self,
        looks: u32,
        tolerance: f64,
        request: impl Fn(u32) -> &'r [i32],
    ) {
        self.items.sort_unstable_by(Item::order);
        self.chunks = self.capacity.len().div_ceil(LANES);
        self.free.clear();
        push_chunks(&mut self.free, &self.capacity);
        self.rows.clear();
        for item in &self.items {
            push_chunks(&mut self.rows, request(item.id));
        }
        self.set_suffixes();
        self.chosen.clear();
        self.best_chosen.clear();
        (self.value, self.bound) = (self.known_value, 0.0);
        (self.looks, self.stretch) = (looks, 1.0 + tolerance);
        let room = self.room();
        let most = self.items.first().map_or(0, |item| item.most);
        self.visit((0, most), 0.0, room);
        self.finish();
    }

    /// What this and all later items need and bring.
    fn set_suffixes(&mut self) {
        let chunks = self.chunks;
        self.least.clone_from(&self.rows);
        for at in (0..self.rows.len().saturating_sub(chunks)).rev() {
            for lane in 0..LANES {
                self.least[at][lane] = self.least[at][lane].min(self.least[at + chunks][lane]);
            }
        }
        self.excess.clear();
        self.excess.resize(self.items.len() + 1, 0.0);
        for (at, item) in self.items.iter().enumerate().rev() {
            self.excess[at] = self.excess[at + 1] + item.excess(item.most);
        }
    }

    fn finish(&mut self) {
        self.best.clear();
        if self.best_chosen.is_empty() {
            self.best.extend_from_slice(&self.known);
        }
        for run in self.best_chosen.chunk_by(|a, b| a == b) {
            let count = u32::try_from(run.len()).unwrap_or(u32::MAX);
            self.best.push((self.items[run[0] as usize].id, count));
        }
        self.best.extend_from_slice(&self.gratis);
        self.value += self.base;
        self.bound = (self.bound + self.base).max(self.value);
    }

    /// Adds to what is chosen from item `first` on, of which `most` are left.
    ///
    /// What can still be gained is at most the room at the best ratio, and at most the room and
    /// what the profits of the items left are above their sizes.
    fn visit(&mut self, (first, most): (usize, u32), profit: f64, room: f64) {
        if profit > self.value {
            self.value = profit;
            self.best_chosen.clear();
            self.best_chosen.extend_from_slice(&self.chosen);
        }
        let chunks = self.chunks;
        for at in first..self.items.len() {
            let item = self.items[at];
            let left = if at == first { most } else { item.most };
            let above = item.excess(left) + self.excess[at + 1];
            let limit = profit + (item.ratio * room).min(room + above);
            if limit <= self.value * self.stretch || self.looks == 0 {
                self.bound = self.bound.max(limit);
                return;
            }
            let row = at * chunks..(at + 1) * chunks;
            if !fits(&self.least[row.clone()], &self.free) {
                return;
            }
            self.looks -= 1;
            if left == 0 || !fits(&self.rows[row.clone()], &self.free) {
                continue;
            }
            self.shift(row.clone(), -1);
            self.chosen.push(u32::try_from(at).unwrap_or(0));
            self.visit((at, left - 1), profit + item.profit, room - item.size);
            self.chosen.pop();
            self.shift(row, 1);
        }
    }

    fn shift(&mut self, row: std::ops::Range<usize>, sign: i32) {
        for (f, r) in self.free.iter_mut().zip(&self.rows[row]) {
            for lane in 0..LANES {
                f[lane] += sign * r[lane];
            }
        }
    }
}

impl Item {
    fn order(a: &Item, b: &Item) -> std::cmp::Ordering {
        b.ratio.total_cmp(&a.ratio).then(a.id.cmp(&b.id))
    }

    fn set_size(&mut self, request: &[i32], price: &[f64]) {
        let size: f64 = request.iter().zip(price).map(|(a, p)| f64::from(*a) * p).sum();
        self.size = size.max(1e-300);
        self.ratio = self.profit / self.size;
    }

    /// Profit above size of so many.
    fn excess(&self, count: u32) -> f64 {
        f64::from(count) * (self.profit - self.size).max(0.0)
    }
}
