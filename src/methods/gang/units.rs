// SPDX-License-Identifier: GPL-3.0-or-later
//! Fixed-point resources: device amounts as small integers, so that fitting is exact and fast.
//!
//! Amounts of one kind are read as decimals with up to nine places and divided by their greatest
//! common divisor. What is still larger than [`CAPACITY_MAX`] (amounts with no common unit) is
//! rounded to that many steps of the largest capacity, 2e-9 of it each.

use super::problem::Problem;

/// Largest capacity in units; twice the sum of any two amounts still fits an `i32`.
const CAPACITY_MAX: i64 = 1 << 29;
/// A request above every capacity, of which only that it does not fit matters.
const TOO_MUCH: i32 = 1 << 30;
/// Decimal steps per device where amounts are small enough.
const STEPS_PER_DEVICE: f64 = 1e9;
/// Largest step number that doubles hold exactly, with room for rounding.
const STEPS_MAX: f64 = 4e15;

/// Converts the amounts of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    steps_per_device: f64,
    divisor: i64,
    /// Units per divided step: 1 where units are exact.
    shrink: f64,
    max: f64,
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn steps(x: f64, steps_per_device: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)]
    let whole = (x * steps_per_device).round() as i64;
    if x > 0.0 { whole.max(1) } else { 0 }
}

impl Unit {
    /// Returns one unit per kind of `problem`.
    pub fn of(problem: &Problem) -> Vec<Unit> {
        (0..problem.kinds.len()).map(|k| Unit::of_kind(problem, k)).collect()
    }

    fn of_kind(problem: &Problem, k: usize) -> Unit {
        let capacities = problem.servers.iter().map(|s| s.capacity[k]);
        let max = capacities.clone().fold(0.0, f64::max);
        let mut steps_per_device = STEPS_PER_DEVICE;
        while max * steps_per_device > STEPS_MAX {
            steps_per_device /= 10.0;
        }
        let requests =
            problem.jobs.iter().flat_map(|j| &j.tasks).map(|t| t.request[k]).filter(|a| *a <= max);
        let mut divisor = 0;
        for amount in capacities.chain(requests) {
            divisor = gcd(divisor, steps(amount, steps_per_device));
            if divisor == 1 {
                break;
            }
        }
        let divisor = divisor.max(1);
        let largest = steps(max, steps_per_device) / divisor;
        let shrink =
            if largest > CAPACITY_MAX { CAPACITY_MAX as f64 / largest as f64 } else { 1.0 };
        Unit { steps_per_device, divisor, shrink, max }
    }

    /// The amount `x` in units, to the nearest; a positive amount never becomes 0.
    pub fn count(&self, x: f64) -> i32 {
        if x > self.max {
            return TOO_MUCH;
        }
        let whole = steps(x, self.steps_per_device) / self.divisor;
        #[allow(clippy::cast_possible_truncation)]
        let units = (whole as f64 * self.shrink).round() as i32;
        if x > 0.0 { units.max(1) } else { 0 }
    }
}

/// Appends a row of amounts; one zero when there are no kinds.
pub fn push_units(rows: &mut Vec<i32>, amounts: &[f64], units: &[Unit]) {
    if amounts.is_empty() {
        rows.push(0);
    }
    rows.extend(amounts.iter().zip(units).map(|(x, unit)| unit.count(*x)));
}
