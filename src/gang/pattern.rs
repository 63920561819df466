// SPDX-License-Identifier: GPL-3.0-or-later
//! The best filling of one empty server: an integer knapsack in all kinds, by branch and bound.

/// Something that can be put on the server, any number of times up to `most`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Item {
    pub(crate) id: u32,
    pub(crate) profit: f64,
    pub(crate) most: u32,
    /// Profit per priced size; the order of the search.
    ratio: f64,
}

/// Scratch space and result of one search; reused, so that nothing is allocated per server.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    items: Vec<Item>,
    /// Requests of `items`, `kinds` each, and their priced sizes.
    rows: Vec<i32>,
    /// Least request of this and all later items by kind.
    least: Vec<i32>,
    free: Vec<i32>,
    price: Vec<f64>,
    chosen: Vec<(u32, u32)>,
    /// Items that need nothing: always taken.
    gratis: Vec<(u32, u32)>,
    base: f64,
    /// Best filling found: (id, how often).
    pub(crate) best: Vec<(u32, u32)>,
    /// Its profit.
    pub(crate) value: f64,
    /// No filling has more profit.
    pub(crate) bound: f64,
    pub(crate) nodes: u32,
    nodes_max: u32,
    stretch: f64,
}

impl Pattern {
    /// Starts a new server with `free` units; `price` orders and bounds the search.
    pub(crate) fn clear(&mut self, free: &[i32], price: &[f64]) {
        self.items.clear();
        self.gratis.clear();
        self.base = 0.0;
        self.free.clear();
        self.free.extend_from_slice(free);
        self.price.clear();
        self.price.extend_from_slice(price);
    }

    /// One item with this request fits.
    pub(crate) fn admits(&self, request: &[i32]) -> bool {
        request.iter().zip(&self.free).all(|(a, f)| a <= f)
    }

    /// Offers an item; those that bring nothing or do not fit are left out.
    pub(crate) fn offer(&mut self, id: u32, profit: f64, most: u32, request: &[i32]) {
        if profit <= 0.0 || most == 0 || !self.admits(request) {
            return;
        }
        if request.iter().all(|a| *a == 0) {
            self.gratis.push((id, most));
            self.base += profit * f64::from(most);
            return;
        }
        let size: f64 = request.iter().zip(&self.price).map(|(a, p)| f64::from(*a) * p).sum();
        self.items.push(Item { id, profit, most, ratio: profit / size.max(1e-300) });
    }

    /// Searches at most `nodes_max` nodes for a filling that none beats by more than the part
    /// `tolerance`; `request` gives the row of an id.
    pub(crate) fn search<'r>(&mut self, nodes_max: u32, tolerance: f64, request: impl Fn(u32) -> &'r [i32]) {
        self.items
            .sort_unstable_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.id.cmp(&b.id)));
        let kinds = self.free.len();
        self.rows.clear();
        for item in &self.items {
            self.rows.extend_from_slice(request(item.id));
        }
        self.least.clear();
        self.least.resize((self.items.len() + 1) * kinds, i32::MAX);
        for at in (0..self.items.len()).rev() {
            for k in 0..kinds {
                self.least[at * kinds + k] =
                    self.rows[at * kinds + k].min(self.least[(at + 1) * kinds + k]);
            }
        }
        self.best.clear();
        self.chosen.clear();
        (self.value, self.bound) = (0.0, 0.0);
        (self.nodes, self.nodes_max) = (0, nodes_max);
        self.stretch = 1.0 + tolerance;
        self.visit(0, 0.0);
        self.best.extend_from_slice(&self.gratis);
        self.value += self.base;
        self.bound = (self.bound + self.base).max(self.value);
    }

    fn room(&self) -> f64 {
        self.free.iter().zip(&self.price).map(|(f, p)| f64::from(*f) * p).sum()
    }

    fn visit(&mut self, from: usize, profit: f64) {
        let kinds = self.free.len();
        if profit > self.value {
            self.value = profit;
            self.best.clear();
            self.best.extend_from_slice(&self.chosen);
        }
        let room = self.room();
        for at in from..self.items.len() {
            let Item { id, profit: gain, most, ratio } = self.items[at];
            let most_here = profit + ratio * room;
            if most_here <= self.value * self.stretch {
                self.bound = self.bound.max(most_here);
                return;
            }
            if self.nodes >= self.nodes_max {
                self.bound = self.bound.max(most_here);
                return;
            }
            if self.least[at * kinds..(at + 1) * kinds].iter().zip(&self.free).any(|(l, f)| l > f)
            {
                return;
            }
            let row = at * kinds..(at + 1) * kinds;
            let fit = (0..kinds)
                .filter(|k| self.rows[row.start + k] > 0)
                .map(|k| self.free[k] / self.rows[row.start + k])
                .min();
            let fit = fit.map_or(most, |n| most.min(n.max(0).unsigned_abs()));
            self.nodes += 1;
            for copies in (1..=fit).rev() {
                let by = i32::try_from(copies).unwrap_or(0);
                for k in 0..kinds {
                    self.free[k] -= by * self.rows[row.start + k];
                }
                self.chosen.push((id, copies));
                self.visit(at + 1, profit + f64::from(copies) * gain);
                self.chosen.pop();
                for k in 0..kinds {
                    self.free[k] += by * self.rows[row.start + k];
                }
            }
        }
    }
}
