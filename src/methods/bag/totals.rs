// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans for whole task types: how many tasks of each type each machine gets,
//! whoever owns them. The offline optimum, its rounding, a local search on whole
//! tasks, and the dealing of the result to the bags as they arrive.

use super::lp::{Optimum, Programme};
use super::model::{Model, State};
use super::num::BETTER;
use phalanx_core::number::as_f64;

/// Task counts by type, on the machines of [`Model::usable`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Totals {
    /// Rows of the rate matrices that have tasks, ascending.
    pub rows: Vec<usize>,
    /// Number of tasks in each of `rows`.
    pub tasks: Vec<u64>,
}

impl Totals {
    /// Adds up `(row, tasks)` pairs; rows without tasks are left out.
    pub fn new(rows: usize, bags: impl Iterator<Item = (usize, u64)>) -> Self {
        let mut all = vec![0_u64; rows];
        for (row, tasks) in bags {
            all[row] += tasks;
        }
        let rows: Vec<usize> = (0..rows).filter(|&row| all[row] > 0).collect();
        let tasks = rows.iter().map(|&row| all[row]).collect();
        Self { rows, tasks }
    }
}

/// Rates by machine (not by rank) for the types of some [`Totals`].
#[derive(Debug, Clone)]
pub(super) struct Rates {
    /// Number of usable machines.
    pub machines: usize,
    /// Seconds of makespan of one task: `time[i * machines + j]`.
    pub time: Vec<f64>,
    /// Joules of one task; shape of `time`.
    pub joules: Vec<f64>,
}

impl Rates {
    /// Collects the rates of the types in `totals`.
    pub fn new(model: &Model, totals: &Totals) -> Self {
        let machines = model.usable.len();
        let mut place = vec![0; model.machines];
        for (column, &j) in model.usable.iter().enumerate() {
            place[j] = column;
        }
        let mut time = vec![0.0; totals.rows.len() * machines];
        let mut joules = time.clone();
        for (i, &row) in totals.rows.iter().enumerate() {
            let Some(task_type) = model.task_type(row) else { continue };
            for (rank, &j) in task_type.machine.iter().enumerate() {
                time[i * machines + place[j]] = task_type.time[rank];
                joules[i * machines + place[j]] = task_type.joules[rank];
            }
        }
        Self { machines, time, joules }
    }
}

/// The offline optimum of `totals` placed after `state`; `revenue` is that of
/// all users, those in `state` included.
///
/// `None` when nothing takes any time, or no machine can take tasks.
pub(super) fn optimum(
    model: &Model,
    rates: &Rates,
    totals: &Totals,
    state: &State,
    revenue: f64,
) -> Option<Optimum> {
    let machines = rates.machines;
    if machines == 0 {
        return None;
    }
    let tasks = |at: usize| as_f64(totals.tasks[at / machines]);
    let scaled = |rate: &[f64], unit: f64| -> Vec<f64> {
        rate.iter().enumerate().map(|(at, rate)| unit * rate * tasks(at)).collect()
    };
    let programme = Programme {
        machines,
        work: scaled(&rates.time, 1.0),
        cost: scaled(&rates.joules, model.price),
        load: model.usable.iter().map(|&j| state.load[j]).collect(),
        revenue: revenue - model.price * state.energy,
    };
    programme.solve()
}

/// Splits `tasks` in proportion to `weights` by largest remainder; ties go to
/// the lowest index. No share exceeds its weight while `tasks` does not exceed
/// their sum.
pub(super) fn apportion(tasks: u64, weights: &[u64], x: &mut Vec<u64>) {
    x.clear();
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if sum == 0 {
        x.resize(weights.len(), 0);
        return;
    }
    let exact = |weight: u64| u128::from(tasks) * u128::from(weight);
    let quotient = |weight: u64| u64::try_from(exact(weight) / sum).unwrap_or(u64::MAX);
    x.extend(weights.iter().map(|&weight| quotient(weight)));
    let mut rest = tasks - x.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&j| std::cmp::Reverse(exact(weights[j]) % sum));
    for j in order {
        if rest == 0 {
            break;
        }
        x[j] += 1;
        rest -= 1;
    }
}

/// Whole tasks closest to the fractional `share` of every type.
pub(super) fn round(totals: &Totals, machines: usize, share: &[f64]) -> Vec<u64> {
    /// Shares are compared after rounding to 1 / `PARTS`.
    const PARTS: f64 = 1e15;
    let mut plan = Vec::with_capacity(share.len());
    let mut x = Vec::new();
    for (row, &tasks) in share.chunks(machines).zip(&totals.tasks) {
        let weights: Vec<u64> = row.iter().map(|part| weight(part * PARTS)).collect();
        apportion(tasks, &weights, &mut x);
        plan.extend_from_slice(&x);
    }
    plan
}

fn weight(x: f64) -> u64 {
    super::num::whole_floor(x.round())
}

/// A plan for whole types while it is being improved.
#[derive(Debug)]
pub(super) struct Search<'a> {
    rates: &'a Rates,
    price: f64,
    revenue: f64,
    /// Tasks of type i on machine j: `x[i * machines + j]`.
    pub x: Vec<u64>,
    load: Vec<f64>,
    energy: f64,
    /// The three largest loads, each with its machine.
    top: [(f64, usize); 3],
}

/// A move of `q` tasks of a type from machine `from` to machine `to` (indexes into [`Search::x`],
/// same type).
#[derive(Debug, Clone, Copy)]
struct Move {
    from: usize,
    to: usize,
    q: u64,
}

impl<'a> Search<'a> {
    /// Starts from the plan `x`, placed after `state`.
    pub fn new(model: &Model, rates: &'a Rates, state: &State, revenue: f64, x: Vec<u64>) -> Self {
        let load: Vec<f64> = model.usable.iter().map(|&j| state.load[j]).collect();
        let top = [(0.0, usize::MAX); 3];
        let energy = state.energy;
        let mut search = Self { rates, price: model.price, revenue, x, load, energy, top };
        for at in 0..search.x.len() {
            let tasks = as_f64(search.x[at]);
            search.load[at % rates.machines] += tasks * rates.time[at];
            search.energy += tasks * rates.joules[at];
        }
        search.find_top();
        search
    }

    /// Profit per second of the plan.
    pub fn value(&self) -> f64 {
        self.value_of(self.energy, self.top[0].0)
    }

    fn value_of(&self, energy: f64, makespan: f64) -> f64 {
        (self.revenue - self.price * energy) / makespan
    }

    fn find_top(&mut self) {
        let mut top = [(f64::NEG_INFINITY, usize::MAX); 3];
        for (machine, &load) in self.load.iter().enumerate() {
            if load > top[2].0 {
                top[2] = (load, machine);
                if top[2].0 > top[1].0 {
                    top.swap(1, 2);
                }
                if top[1].0 > top[0].0 {
                    top.swap(0, 1);
                }
            }
        }
        self.top = top;
    }

    /// Value after changes of two machines' loads.
    fn value_after(&self, a: (usize, f64), b: (usize, f64), joules: f64) -> f64 {
        let rest = self.top.iter().find(|&&(_, machine)| machine != a.0 && machine != b.0);
        let makespan = rest.map_or(0.0, |&(load, _)| load).max(a.1).max(b.1).max(0.0);
        self.value_of(self.energy + joules, makespan)
    }

    fn value_of_move(&self, step: Move) -> f64 {
        let machines = self.rates.machines;
        let q = as_f64(step.q);
        let (from, to) = (step.from % machines, step.to % machines);
        let left = self.load[from] - q * self.rates.time[step.from];
        let grown = self.load[to] + q * self.rates.time[step.to];
        let joules = q * (self.rates.joules[step.to] - self.rates.joules[step.from]);
        self.value_after((from, left), (to, grown), joules)
    }

    /// Value after one task each of `a` and `b` have changed machines.
    fn value_of_swap(&self, a: usize, b: usize) -> f64 {
        let machines = self.rates.machines;
        let (on_a, on_b) = (a % machines, b % machines);
        let (a_moved, b_moved) = (a - on_a + on_b, b - on_b + on_a);
        let (time, joules) = (&self.rates.time, &self.rates.joules);
        let load_a = self.load[on_a] - time[a] + time[b_moved];
        let load_b = self.load[on_b] - time[b] + time[a_moved];
        let change = joules[a_moved] + joules[b_moved] - joules[a] - joules[b];
        self.value_after((on_a, load_a), (on_b, load_b), change)
    }

    fn apply(&mut self, step: Move) {
        let machines = self.rates.machines;
        self.x[step.from] -= step.q;
        self.x[step.to] += step.q;
        let q = as_f64(step.q);
        self.load[step.from % machines] -= q * self.rates.time[step.from];
        self.load[step.to % machines] += q * self.rates.time[step.to];
        self.energy += q * (self.rates.joules[step.to] - self.rates.joules[step.from]);
        self.find_top();
    }

    /// Takes the best move or swap until none helps or `trials` values have been computed.
    pub fn improve(&mut self, trials: usize) {
        let mut left = trials;
        while left > 0 {
            let used: Vec<usize> = (0..self.x.len()).filter(|&at| self.x[at] > 0).collect();
            let now = self.value();
            let enough = now + BETTER + 1e-13 * now.abs();
            if let Some(step) = self.best_move(&used, enough, &mut left) {
                self.apply(step);
            } else if let Some((a, b)) = self.best_swap(&used, enough, &mut left) {
                let machines = self.rates.machines;
                let (on_a, on_b) = (a % machines, b % machines);
                self.apply(Move { from: a, to: a - on_a + on_b, q: 1 });
                self.apply(Move { from: b, to: b - on_b + on_a, q: 1 });
            } else {
                return;
            }
        }
    }

    fn best_move(&self, used: &[usize], enough: f64, left: &mut usize) -> Option<Move> {
        let machines = self.rates.machines;
        let mut best: Option<(f64, Move)> = None;
        for &from in used {
            let row = from - from % machines;
            for to in (row..row + machines).filter(|&to| to != from) {
                let mut q = 1;
                while q <= self.x[from] {
                    if *left == 0 {
                        return best.map(|(_, step)| step);
                    }
                    *left -= 1;
                    let step = Move { from, to, q };
                    let value = self.value_of_move(step);
                    if value > best.map_or(enough, |(value, _)| value) {
                        best = Some((value, step));
                    }
                    q *= 4;
                }
            }
        }
        best.map(|(_, step)| step)
    }

    fn best_swap(&self, used: &[usize], enough: f64, left: &mut usize) -> Option<(usize, usize)> {
        /// Number of places up to which all pairs are tried; with more, only pairs with a task of
        /// the machine that sets the makespan.
        const ALL_PAIRS_MAX: usize = 64;
        let machines = self.rates.machines;
        let mut best: Option<(f64, (usize, usize))> = None;
        for &a in used {
            if used.len() > ALL_PAIRS_MAX && a % machines != self.top[0].1 {
                continue;
            }
            for &b in used {
                if a % machines == b % machines || a / machines == b / machines {
                    continue;
                }
                if *left == 0 {
                    return best.map(|(_, pair)| pair);
                }
                *left -= 1;
                let value = self.value_of_swap(a, b);
                if value > best.map_or(enough, |(value, _)| value) {
                    best = Some((value, (a, b)));
                }
            }
        }
        best.map(|(_, pair)| pair)
    }
}
