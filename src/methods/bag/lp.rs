// SPDX-License-Identifier: GPL-3.0-or-later
//! The offline fractional optimum: all tasks known, splittable, highest profit
//! per second (`docs/methods.md`, section Bags, (b) 13, without idle power).
//!
//! # The programme
//! With r = 1 / makespan and w[i][j] the share of task type i on machine j,
//! times r:
//! ```text
//! maximise  R r - sum C[i][j] w[i][j]
//!     sum_j w[i][j] = r                       for every task type i
//!     sum_i P[i][j] w[i][j] + L[j] r <= 1     for every machine j
//! ```
//! P = seconds and C = money of all tasks of the type, L = seconds there before.
//!
//! # Why an own simplex
//! Every task type adds a row with nothing but its own variables. The simplex
//! method with generalised upper bounds (Dantzig and Van Slyke, 1967) keeps one
//! *key* variable per such row outside the linear algebra; what is left is one
//! small dense system over the machines that are full. 30 types on 9 machines
//! take well under a millisecond, where a general solver needs tens.

use phalanx_core::limits::BAG_LP_STEPS_MAX;

/// Reduced costs below this, relative to the costs compared, are zero.
const PRICE_SLACK: f64 = 1e-11;
/// Entries of a direction below this cannot limit a step.
const PIVOT_SLACK: f64 = 1e-12;
/// Steps without progress after which the smallest index enters and leaves
/// (Bland), which cannot cycle.
const STALL_MAX: usize = 40;

/// The programme, row by row.
#[derive(Debug, Clone)]
pub(super) struct Programme {
    /// Number of machines, at least 1.
    pub machines: usize,
    /// Seconds of makespan of all tasks of type i on machine j, > 0:
    /// `work[i * machines + j]`.
    pub work: Vec<f64>,
    /// Money of all tasks of type i on machine j; shape of `work`.
    pub cost: Vec<f64>,
    /// Seconds of work on each machine before the tasks come.
    pub load: Vec<f64>,
    /// Revenue of all tasks.
    pub revenue: f64,
}

/// Solution of the programme.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Optimum {
    /// Upper bound of the profit per second of any plan of these tasks; 0, the value of a plan that
    /// takes for ever, if all lose money.
    pub bound: f64,
    /// Share of each type on each machine; shape of `work`.
    pub share: Vec<f64>,
    /// Whether `bound` is the optimum itself, not only a bound above it.
    pub optimal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    /// r
    Rate,
    /// w[i][j], as the index into `work`.
    Share(usize),
    /// Share of the makespan for which a machine is idle.
    Idle(usize),
}

impl Programme {
    /// Solves the programme.
    ///
    /// `None` when the makespan of the best plan is 0: no tasks and no loads.
    pub fn solve(&self) -> Option<Optimum> {
        let types = self.work.len() / self.machines;
        let cheapest: Vec<usize> = (0..types).map(|i| self.cheapest(i)).collect();
        let makespan = self.makespan(&cheapest);
        if makespan <= 0.0 {
            return None;
        }
        let least: f64 = cheapest.iter().map(|&at| self.cost[at]).sum();
        if self.revenue <= least {
            let mut share = vec![0.0; self.work.len()];
            cheapest.iter().for_each(|&at| share[at] = 1.0);
            return Some(Optimum { bound: 0.0, share, optimal: true });
        }
        Some(Simplex::new(self, cheapest, makespan).run())
    }

    /// The machine with the lowest cost for type i, then the least work.
    fn cheapest(&self, i: usize) -> usize {
        let row = i * self.machines..(i + 1) * self.machines;
        let key = |at: usize| (self.cost[at], self.work[at]);
        let better = |a: usize, b: usize| if key(b) < key(a) { b } else { a };
        row.reduce(better).unwrap_or(0)
    }

    fn makespan(&self, keys: &[usize]) -> f64 {
        let mut load = self.load.clone();
        for &at in keys {
            load[at % self.machines] += self.work[at];
        }
        load.into_iter().fold(0.0, f64::max)
    }
}

/// A basis and its scratch space. Seconds are divided by `scale_s` and money by
/// `scale_money`, so that r and the objective are near 1.
#[derive(Debug)]
struct Simplex<'a> {
    given: &'a Programme,
    machines: usize,
    scale_s: f64,
    scale_money: f64,
    work: Vec<f64>,
    cost: Vec<f64>,
    load: Vec<f64>,
    revenue: f64,
    /// Basic variable outside the dense system, by task type.
    key: Vec<usize>,
    /// The basic shares other than r.
    other: Vec<usize>,
    /// Machines without idle time, as many as r and `other` together.
    full: Vec<usize>,
    /// Price of a second on each machine.
    price: Vec<f64>,
    dense: Dense,
    stalled: usize,
}

impl<'a> Simplex<'a> {
    fn new(given: &'a Programme, cheapest: Vec<usize>, makespan: f64) -> Self {
        let machines = given.machines;
        let scale_money = given.revenue.abs().max(f64::MIN_POSITIVE);
        let mut simplex = Self {
            given,
            machines,
            scale_s: makespan,
            scale_money,
            work: given.work.iter().map(|work| work / makespan).collect(),
            cost: given.cost.iter().map(|cost| cost / scale_money).collect(),
            load: given.load.iter().map(|load| load / makespan).collect(),
            revenue: given.revenue / scale_money,
            key: cheapest,
            other: Vec::new(),
            full: Vec::new(),
            price: vec![0.0; machines],
            dense: Dense::default(),
            stalled: 0,
        };
        let column = simplex.column(Variable::Rate);
        let busiest = (0..machines).reduce(|a, b| if column[b] > column[a] { b } else { a });
        simplex.full.extend(busiest);
        simplex
    }

    fn run(mut self) -> Optimum {
        let mut steps = 0_usize;
        loop {
            let size = self.full.len();
            steps = steps.saturating_add(self.work.len() + size * size * size + size * size);
            let solved = self.factor();
            if !solved || steps > BAG_LP_STEPS_MAX {
                return self.finish(false);
            }
            self.find_prices();
            let Some(entering) = self.entering() else { return self.finish(true) };
            if !self.pivot(entering) {
                return self.finish(false);
            }
        }
    }

    /// Machine rows of a variable's column once the keys are eliminated.
    fn column(&self, variable: Variable) -> Vec<f64> {
        let mut column = vec![0.0; self.machines];
        match variable {
            Variable::Rate => {
                column.clone_from(&self.load);
                for &key in &self.key {
                    column[key % self.machines] += self.work[key];
                }
            }
            Variable::Share(at) => {
                let key = self.key[at / self.machines];
                column[at % self.machines] += self.work[at];
                column[key % self.machines] -= self.work[key];
            }
            Variable::Idle(machine) => column[machine] = 1.0,
        }
        column
    }

    /// The variables of the dense system, in the order of its columns.
    fn basics(&self) -> impl Iterator<Item = Variable> + '_ {
        let others = self.other.iter().map(|&at| Variable::Share(at));
        std::iter::once(Variable::Rate).chain(others)
    }

    fn factor(&mut self) -> bool {
        let size = self.full.len();
        let mut matrix = vec![0.0; size * size];
        for (place, variable) in self.basics().enumerate() {
            let column = self.column(variable);
            for (row, &machine) in self.full.iter().enumerate() {
                matrix[row * size + place] = column[machine];
            }
        }
        self.dense.factor(matrix, size)
    }

    fn find_prices(&mut self) {
        let key_cost = |at: usize| self.cost[self.key[at / self.machines]];
        let all: f64 = self.key.iter().map(|&key| self.cost[key]).sum();
        let mut gain = vec![self.revenue - all];
        gain.extend(self.other.iter().map(|&at| key_cost(at) - self.cost[at]));
        self.dense.solve_transposed(&mut gain);
        self.price.fill(0.0);
        for (&machine, price) in self.full.iter().zip(gain) {
            self.price[machine] = price;
        }
    }

    /// The variable whose growth raises the profit the most per unit of cost.
    fn entering(&self) -> Option<Variable> {
        let bland = self.stalled > STALL_MAX;
        let mut best: Option<(f64, Variable)> = None;
        let mut offer = |gain: f64, variable: Variable| -> bool {
            if best.is_none_or(|(largest, _)| gain > largest) {
                best = Some((gain, variable));
            }
            bland
        };
        for &machine in &self.full {
            let gain = -self.price[machine];
            if gain > PRICE_SLACK && offer(gain, Variable::Idle(machine)) {
                return Some(Variable::Idle(machine));
            }
        }
        for (i, &key) in self.key.iter().enumerate() {
            let now = self.cost[key] + self.work[key] * self.price[key % self.machines];
            let slack = PRICE_SLACK * now.abs().max(self.cost[key]);
            for machine in 0..self.machines {
                let at = i * self.machines + machine;
                let gain = now - (self.cost[at] + self.work[at] * self.price[machine]);
                if gain > slack && offer(gain, Variable::Share(at)) {
                    return Some(Variable::Share(at));
                }
            }
        }
        best.map(|(_, variable)| variable)
    }

    /// Lets `entering` grow until a basic variable reaches zero and replaces it.
    fn pivot(&mut self, entering: Variable) -> bool {
        let column = self.column(entering);
        let mut step: Vec<f64> = self.full.iter().map(|&machine| column[machine]).collect();
        self.dense.solve(&mut step);
        let value = self.values();
        let mut leaving: Option<(f64, Variable)> = None;
        let bland = self.stalled > STALL_MAX;
        let mut offer = |value: f64, fall: f64, variable: Variable| {
            if fall <= PIVOT_SLACK {
                return;
            }
            let limit = value.max(0.0) / fall;
            let order = |variable: Variable| match variable {
                Variable::Rate => (0, 0),
                Variable::Idle(machine) => (1, machine),
                Variable::Share(at) => (2, at),
            };
            let better = |&(least, other): &(f64, Variable)| {
                limit < least || (bland && limit == least && order(variable) < order(other))
            };
            if leaving.as_ref().is_none_or(better) {
                leaving = Some((limit, variable));
            }
        };
        for (place, variable) in self.basics().enumerate() {
            offer(value[place], step[place], variable);
        }
        self.offer_keys(entering, &value, &step, &mut offer);
        self.offer_idle(&column, &value, &step, &mut offer);
        let Some((limit, leaving)) = leaving else { return false };
        self.stalled = if limit > 1e-12 { 0 } else { self.stalled + 1 };
        self.exchange(entering, leaving, &value)
    }

    /// Values of the variables of the dense system.
    fn values(&self) -> Vec<f64> {
        let mut value = vec![1.0; self.full.len()];
        self.dense.solve(&mut value);
        value
    }

    /// Offers the keys, where a key is r less the other basic shares of its task type.
    fn offer_keys(
        &self,
        entering: Variable,
        value: &[f64],
        step: &[f64],
        offer: &mut impl FnMut(f64, f64, Variable),
    ) {
        let mut held = vec![value[0]; self.key.len()];
        let mut fall = vec![step[0]; self.key.len()];
        for (place, &at) in self.other.iter().enumerate() {
            held[at / self.machines] -= value[place + 1];
            fall[at / self.machines] -= step[place + 1];
        }
        if let Variable::Share(at) = entering {
            fall[at / self.machines] += 1.0;
        }
        for (i, &key) in self.key.iter().enumerate() {
            offer(held[i], fall[i], Variable::Share(key));
        }
    }

    /// Offers the idle time of machines that are not full.
    fn offer_idle(
        &self,
        entering: &[f64],
        value: &[f64],
        step: &[f64],
        offer: &mut impl FnMut(f64, f64, Variable),
    ) {
        let mut idle = vec![1.0; self.machines];
        let mut fall = entering.to_vec();
        for (place, variable) in self.basics().enumerate() {
            for (machine, &entry) in self.column(variable).iter().enumerate() {
                idle[machine] -= entry * value[place];
                fall[machine] -= entry * step[place];
            }
        }
        for machine in 0..self.machines {
            if !self.full.contains(&machine) {
                offer(idle[machine], fall[machine], Variable::Idle(machine));
            }
        }
    }

    fn exchange(&mut self, entering: Variable, leaving: Variable, value: &[f64]) -> bool {
        match entering {
            Variable::Share(at) => self.other.push(at),
            Variable::Idle(machine) => self.full.retain(|&full| full != machine),
            Variable::Rate => return false,
        }
        match leaving {
            Variable::Idle(machine) => self.full.push(machine),
            Variable::Rate => return false,
            Variable::Share(at) => {
                let i = at / self.machines;
                if self.key[i] == at {
                    // Another basic share of the type becomes its key: the one
                    // that holds the most, so that the next step is not empty.
                    let places = (0..self.other.len())
                        .filter(|&place| self.other[place] / self.machines == i);
                    let held = |place: usize| value.get(place + 1).copied().unwrap_or(0.0);
                    let Some(place) = places.reduce(|a, b| if held(b) > held(a) { b } else { a })
                    else {
                        return false;
                    };
                    self.key[i] = self.other.remove(place);
                } else {
                    self.other.retain(|&other| other != at);
                }
            }
        }
        true
    }

    fn finish(mut self, optimal: bool) -> Optimum {
        let factored = self.factor();
        let value = if factored { self.values() } else { Vec::new() };
        let rate = value.first().copied().unwrap_or(0.0);
        let mut share = vec![0.0; self.work.len()];
        for &key in &self.key {
            share[key] = 1.0;
        }
        if rate > 0.0 {
            for (&at, &held) in self.other.iter().zip(&value[1..]) {
                let part = (held / rate).clamp(0.0, 1.0);
                share[at] = part;
                let key = self.key[at / self.machines];
                share[key] = (share[key] - part).max(0.0);
            }
        }
        let bound = if optimal {
            self.price.iter().sum::<f64>() * (self.scale_money / self.scale_s)
        } else {
            self.given.dual_bound(&self.price_guess())
        };
        Optimum { bound, share, optimal }
    }

    /// The last prices in the given units.
    fn price_guess(&self) -> Vec<f64> {
        let unit = self.scale_money / self.scale_s;
        self.price.iter().map(|price| price.max(0.0) * unit).collect()
    }
}

impl Programme {
    /// A bound from any prices: they are raised until the dual programme
    /// `sum_i min_j (C + P price) + sum_j L price >= R` holds, which makes their
    /// sum an upper bound of the profit per second.
    fn dual_bound(&self, price: &[f64]) -> f64 {
        let types = self.work.len() / self.machines;
        let total: f64 = price.iter().sum();
        let even = if total > 0.0 { total / float_len(self.machines) * 1e-3 } else { 1.0 };
        let raised = |factor: f64| -> Vec<f64> {
            price.iter().map(|price| (price + even) * factor).collect()
        };
        let holds = |price: &[f64]| {
            let mut least: f64 = self.load.iter().zip(price).map(|(load, p)| load * p).sum();
            for i in 0..types {
                let row = i * self.machines..(i + 1) * self.machines;
                let costs =
                    row.clone().map(|at| self.cost[at] + self.work[at] * price[at - row.start]);
                least += costs.fold(f64::INFINITY, f64::min);
            }
            least >= self.revenue
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..1100 {
            if holds(&raised(high)) {
                break;
            }
            low = high;
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if holds(&raised(middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        raised(high).iter().sum()
    }
}

fn float_len(length: usize) -> f64 {
    length as f64
}

/// A dense square matrix as the product of a lower and an upper triangle, with
/// rows exchanged.
#[derive(Debug, Default)]
struct Dense {
    size: usize,
    factors: Vec<f64>,
    rows: Vec<usize>,
}

impl Dense {
    /// Factors the row-major `matrix`; returns false when it is singular.
    fn factor(&mut self, matrix: Vec<f64>, size: usize) -> bool {
        self.size = size;
        self.factors = matrix;
        self.rows = (0..size).collect();
        let a = &mut self.factors;
        for k in 0..size {
            let largest = (k..size)
                .reduce(|p, q| if a[q * size + k].abs() > a[p * size + k].abs() { q } else { p });
            let Some(p) = largest else { return false };
            if a[p * size + k].abs() < 1e-300 {
                return false;
            }
            if p != k {
                self.rows.swap(p, k);
                for c in 0..size {
                    a.swap(p * size + c, k * size + c);
                }
            }
            let (above, below) = a.split_at_mut((k + 1) * size);
            let pivot = &above[k * size..];
            for row in below.chunks_exact_mut(size) {
                let factor = row[k] / pivot[k];
                row[k] = factor;
                if factor != 0.0 {
                    for c in k + 1..size {
                        row[c] -= factor * pivot[c];
                    }
                }
            }
        }
        true
    }

    /// Replaces `b` by the solution of A x = b.
    fn solve(&self, b: &mut [f64]) {
        let (n, a) = (self.size, &self.factors);
        let mut x: Vec<f64> = self.rows.iter().map(|&row| b[row]).collect();
        for r in 0..n {
            let sum: f64 = (0..r).map(|c| a[r * n + c] * x[c]).sum();
            x[r] -= sum;
        }
        for r in (0..n).rev() {
            let sum: f64 = (r + 1..n).map(|c| a[r * n + c] * x[c]).sum();
            x[r] = (x[r] - sum) / a[r * n + r];
        }
        b.copy_from_slice(&x);
    }

    /// Replaces `b` by the solution of A^T x = b.
    fn solve_transposed(&self, b: &mut [f64]) {
        let (n, a) = (self.size, &self.factors);
        for r in 0..n {
            let sum: f64 = (0..r).map(|c| a[c * n + r] * b[c]).sum();
            b[r] = (b[r] - sum) / a[r * n + r];
        }
        for r in (0..n).rev() {
            let sum: f64 = (r + 1..n).map(|c| a[c * n + r] * b[c]).sum();
            b[r] -= sum;
        }
        let x = b.to_vec();
        for (place, &row) in self.rows.iter().enumerate() {
            b[row] = x[place];
        }
    }
}
