// SPDX-License-Identifier: GPL-3.0-or-later
//! The best filling of one server: an integer knapsack in all kinds, by branch and bound.
//!
//! Prices of the kinds order the items and bound the search. Items are taken greedily by profit per
//! price, and then fewer and fewer of the last one, so that a search that is cut short has a good
//! filling too; its bound stays valid, because what was not searched counts with its own bound.

use super::instance::narrow;
use super::problem::KINDS_MAX;
use phalanx_core::number::nearest_usize;

/// Amounts of two kinds, 31 bits each. Bits 31 and 63 are guards, set in the free amounts: a guard
/// that `free - request` clears says that the request does not fit.
type Pair = u64;
const GUARDS: Pair = (1 << 63) | (1 << 31);
/// Pairs of the widest row, which has all kinds of a problem.
const PAIRS_MAX: usize = KINDS_MAX.div_ceil(2);
/// Items that do not fit and take about as long to pass over as one evaluation takes.
const SKIPPED_PER_EVALUATION: usize = 16;
/// Copies of an item that are counted one by one before a division counts the rest.
const COUNTED_MAX: u32 = 4;
/// Tasks of one server: type and number of each.
pub type Filling = Vec<(u32, u32)>;

/// Something that can be put on the server up to `most` times.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Item {
    id: u32,
    most: u32,
    profit: f64,
    /// Amounts of the item times prices.
    size: f64,
    /// Profit per size: the order of the search.
    ratio: f64,
}

/// Scratch space and result of one search, reused so that nothing is allocated per server.
#[derive(Debug, Default)]
pub struct Pattern {
    items: Vec<Item>,
    candidates: Vec<Candidate>,
    /// Requests of `items`, and the least request of this and all later items.
    rows: Vec<Pair>,
    least: Vec<Pair>,
    capacity: Vec<i32>,
    price: Vec<f64>,
    chosen: Vec<Chosen>,
    best_chosen: Vec<Chosen>,
    /// Items that need no device: always taken.
    costless: Filling,
    base: f64,
    known: Filling,
    known_value: f64,
    /// Best filling found.
    pub best: Filling,
    /// Profit of `best`, or the value that [`Self::require`] was given.
    pub value: f64,
    /// Upper bound of the profit of any filling.
    pub bound: f64,
    /// Evaluations that the search had left when it ended.
    pub evaluations_left: u32,
}

impl Pattern {
    /// Starts a new server with `free` units; `price` per unit orders and bounds the search.
    pub fn clear(&mut self, free: &[i32], price: &[f64]) {
        self.items.clear();
        self.costless.clear();
        self.base = 0.0;
        self.known.clear();
        self.known_value = 0.0;
        self.capacity.clear();
        self.capacity.extend_from_slice(free);
        self.price.clear();
        self.price.extend_from_slice(price);
    }

    /// Whether one item with this request fits.
    pub fn admits(&self, request: &[i32]) -> bool {
        request.iter().zip(&self.capacity).all(|(a, f)| a <= f)
    }

    /// Adds an item that fits at least once; items without profit are left out.
    pub fn add(&mut self, id: u32, profit: f64, most: u32, request: &[i32]) {
        if profit <= 0.0 || most == 0 {
            return;
        }
        if request.iter().all(|a| *a == 0) {
            self.costless.push((id, most));
            self.base += profit * f64::from(most);
            return;
        }
        let mut item = Item { id, most, profit, size: 0.0, ratio: 0.0 };
        item.set_size(request, &self.price);
        self.items.push(item);
    }

    /// Begins with a filling that fits, so that a search that is cut short finds nothing worse.
    /// Only added items count, whose ids must have been ascending.
    pub fn begin_with(&mut self, filling: &[(u32, u32)]) {
        for (id, count) in filling {
            if let Ok(at) = self.items.binary_search_by_key(id, |item| item.id) {
                self.known.push((*id, *count));
                self.known_value += self.items[at].profit * f64::from(*count);
            }
        }
    }

    /// Requires more than this value: a search that finds less finds nothing (`best` is empty but
    /// for costless items, and [`Self::value`] is the requirement).
    pub fn require(&mut self, value: f64) {
        self.known_value = self.known_value.max(value - self.base);
    }

    fn room(&self) -> f64 {
        self.capacity.iter().zip(&self.price).map(|(f, p)| f64::from(*f) * p).sum()
    }

    /// Evaluates about `evaluations` items to find a filling that no other exceeds by more than the
    /// part `tolerance`; `request` gives the row of an id.
    pub fn search<'r>(
        &mut self,
        evaluations: u32,
        tolerance: f64,
        request: impl Fn(u32) -> &'r [i32],
    ) {
        self.items.sort_unstable_by(Item::order);
        self.best_chosen.clear();
        (self.value, self.bound, self.evaluations_left) = (self.known_value, 0.0, evaluations);
        let stretch = 1.0 + tolerance;
        match self.capacity.len().div_ceil(2) {
            0 | 1 => self.run::<1>(stretch, request),
            2 => self.run::<2>(stretch, request),
            3 => self.run::<3>(stretch, request),
            4..=8 => self.run::<8>(stretch, request),
            _ => self.run::<PAIRS_MAX>(stretch, request),
        }
        self.finish();
    }

    /// The search, for rows of `PAIRS` pairs.
    fn run<'r, const PAIRS: usize>(&mut self, stretch: f64, request: impl Fn(u32) -> &'r [i32]) {
        self.rows.clear();
        for item in &self.items {
            self.rows.extend(pairs::<PAIRS>(request(item.id)));
        }
        self.set_candidates(PAIRS);
        self.chosen.clear();
        let room = self.room();
        let mut tree = Tree::<PAIRS> {
            candidates: &self.candidates,
            rows: self.rows.as_chunks().0,
            least: self.least.as_chunks().0,
            free: pairs(&self.capacity).map(|pair| pair | GUARDS),
            chosen: &mut self.chosen,
            profit: 0.0,
            room,
            best: &mut self.best_chosen,
            value: self.value,
            improved: false,
            bound: 0.0,
            stretch,
            evaluations: self.evaluations_left,
        };
        tree.search();
        (self.value, self.bound, self.evaluations_left) =
            (tree.value, tree.bound, tree.evaluations);
    }

    /// Sums up, for each item, the least need and the possible profit of it and all later items.
    fn set_candidates(&mut self, pairs: usize) {
        self.least.clone_from(&self.rows);
        for at in (0..self.rows.len().saturating_sub(pairs)).rev() {
            self.least[at] = least(self.least[at], self.least[at + pairs]);
        }
        self.candidates.clear();
        let mut excess = 0.0;
        for item in self.items.iter().rev() {
            excess += item.excess();
            let Item { most, profit, size, ratio, .. } = *item;
            self.candidates.push(Candidate { most, profit, size, ratio, excess });
        }
        self.candidates.reverse();
    }

    fn finish(&mut self) {
        self.best.clear();
        if self.best_chosen.is_empty() {
            self.best.extend_from_slice(&self.known);
        }
        let taken = self.best_chosen.iter();
        self.best.extend(taken.map(|chosen| (self.items[chosen.at as usize].id, chosen.count)));
        self.best.extend_from_slice(&self.costless);
        self.value += self.base;
        self.bound = (self.bound + self.base).max(self.value);
    }
}

/// An item, in the form that the search works on.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    most: u32,
    profit: f64,
    size: f64,
    ratio: f64,
    /// Profit above size of an item and all later ones.
    excess: f64,
}

/// Number taken of an item, and the profit and the room before it was taken.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    at: u32,
    count: u32,
    profit: f64,
    room: f64,
}

/// The search of one pattern, whose node is the list of chosen items in order. It has no recursion,
/// because a server may have room for any number of tasks.
struct Tree<'a, const PAIRS: usize> {
    candidates: &'a [Candidate],
    rows: &'a [[Pair; PAIRS]],
    least: &'a [[Pair; PAIRS]],
    free: [Pair; PAIRS],
    chosen: &'a mut Vec<Chosen>,
    profit: f64,
    room: f64,
    best: &'a mut Vec<Chosen>,
    value: f64,
    /// Whether what is chosen is worth more than `best`.
    improved: bool,
    bound: f64,
    stretch: f64,
    evaluations: u32,
}

/// Packs a row into pairs, filled up with zeros.
fn pairs<const PAIRS: usize>(row: &[i32]) -> [Pair; PAIRS] {
    let mut all = [0; PAIRS];
    for (at, amount) in row.iter().enumerate() {
        all[at / 2] |= Pair::from(amount.cast_unsigned()) << (32 * (at % 2));
    }
    all
}

fn halves(pair: Pair) -> [Pair; 2] {
    [pair & Pair::from(u32::MAX), pair >> 32]
}

fn least(a: Pair, b: Pair) -> Pair {
    let ([a, c], [b, d]) = (halves(a), halves(b));
    a.min(b) | c.min(d) << 32
}

fn fits<const PAIRS: usize>(row: &[Pair; PAIRS], free: &[Pair; PAIRS]) -> bool {
    let kept = row.iter().zip(free).fold(GUARDS, |kept, (r, f)| kept & (f - r));
    kept & GUARDS == GUARDS
}

/// Returns how often a row fits, at most `most` times, counted one by one at first.
fn times<const PAIRS: usize>(row: &[Pair; PAIRS], mut free: [Pair; PAIRS], most: u32) -> u32 {
    let mut count = 0;
    while count < most && fits(row, &free) {
        if count == COUNTED_MAX {
            return count + many(row, &free, most - count);
        }
        free.iter_mut().zip(row).for_each(|(f, r)| *f -= r);
        count += 1;
    }
    count
}

/// Returns how often a row fits, at most `most` times, by one division for each kind.
fn many<const PAIRS: usize>(row: &[Pair; PAIRS], free: &[Pair; PAIRS], most: u32) -> u32 {
    let kinds =
        row.iter().zip(free).flat_map(|(r, f)| halves(*r).into_iter().zip(halves(f & !GUARDS)));
    let count = kinds.filter_map(|(r, f)| f.checked_div(r)).fold(Pair::from(most), Pair::min);
    narrow(nearest_usize(count))
}

impl<const PAIRS: usize> Tree<'_, PAIRS> {
    /// Takes as many of every item as fit, then fewer and fewer, from the last item on.
    fn search(&mut self) {
        let mut next = 0;
        loop {
            while let Some((at, count)) = self.find(next) {
                self.take(at, count);
                next = at + 1;
            }
            // The last one taken is the best of those on the way to it.
            if std::mem::take(&mut self.improved) {
                self.best.clear();
                self.best.extend_from_slice(self.chosen);
            }
            let Some(last) = self.chosen.last_mut() else { return };
            last.count -= 1;
            let (at, count) = (last.at as usize, f64::from(last.count));
            self.profit = last.profit + count * self.candidates[at].profit;
            self.room = last.room - count * self.candidates[at].size;
            if last.count == 0 {
                self.chosen.pop();
            }
            self.free.iter_mut().zip(&self.rows[at]).for_each(|(f, r)| *f += r);
            next = at + 1;
        }
    }

    /// Finds the first item from `next` on that fits, and how often, unless the chosen items cannot
    /// become worth enough with it and later ones.
    fn find(&mut self, next: usize) -> Option<(usize, u32)> {
        let at = self.first_fit(next);
        let found = at.filter(|at| self.pays(*at));
        // Items skipped take time too, on empty servers of large clusters most of it.
        let skipped = at.unwrap_or(self.candidates.len()) - next.min(self.candidates.len());
        let evaluations = u32::from(found.is_some()) + narrow(skipped / SKIPPED_PER_EVALUATION);
        self.evaluations = self.evaluations.saturating_sub(evaluations);
        found.map(|at| (at, times(&self.rows[at], self.free, self.candidates[at].most)))
    }

    fn first_fit(&self, next: usize) -> Option<usize> {
        for (at, (row, least)) in self.rows.iter().zip(self.least).enumerate().skip(next) {
            if fits(row, &self.free) {
                return Some(at);
            }
            if !fits(least, &self.free) {
                return None;
            }
        }
        None
    }

    /// Whether more than the best profit can still be reached, and evaluations are left.
    ///
    /// What can be gained is at most the room at the best ratio, and at most the room and what the
    /// profits of the items left are above their sizes.
    fn pays(&mut self, at: usize) -> bool {
        let candidate = &self.candidates[at];
        let by_ratio = self.profit + candidate.ratio * self.room;
        let by_room = self.profit + self.room + candidate.excess;
        let limit = if by_ratio < by_room { by_ratio } else { by_room };
        let pays = limit > self.value * self.stretch && self.evaluations > 0;
        if !pays {
            self.bound = self.bound.max(limit);
        }
        pays
    }

    fn take(&mut self, at: usize, count: u32) {
        let (candidate, n) = (&self.candidates[at], f64::from(count));
        let (profit, room) = (self.profit, self.room);
        self.chosen.push(Chosen { at: narrow(at), count, profit, room });
        self.profit = profit + n * candidate.profit;
        self.room = room - n * candidate.size;
        let count = Pair::from(count);
        self.free.iter_mut().zip(&self.rows[at]).for_each(|(f, r)| *f -= count * r);
        self.improved |= self.profit > self.value;
        self.value = self.value.max(self.profit);
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

    /// Sum of the items' profits above their size.
    fn excess(&self) -> f64 {
        f64::from(self.most) * (self.profit - self.size).max(0.0)
    }
}
