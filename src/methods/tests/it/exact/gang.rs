// SPDX-License-Identifier: GPL-3.0-or-later
//! Every assignment of a small gang problem, one by one.
//!
//! Works on the problem as given, in floating point, without classes, prices or fixed point.

use phalanx_core::problem::InputError;
use phalanx_methods::gang::{Edge, Problem};
use phalanx_methods::learn::{confidence_index, variance_proxy};
use std::collections::HashMap;

/// Slack of a capacity test, relative to the capacity.
const CAPACITY_SLACK: f64 = 1e-9;

/// A feasible, gang-complete assignment and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Enumerated {
    /// Server index by job and task; empty for a pending job.
    pub servers: Vec<Vec<usize>>,
    /// Never-tried edges used; compared first.
    pub untried: u64,
    /// Formula 13.
    pub index: f64,
    /// Sum of mean - cost.
    pub welfare: f64,
}

/// Calls `visit` with every feasible assignment, lexicographically with "pending" last.
///
/// # Errors
/// A malformed problem.
pub fn enumerate(problem: &Problem, visit: &mut dyn FnMut(&Enumerated)) -> Result<(), InputError> {
    problem.validate()?;
    let names = problem.servers.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
    let mut walk = Walk {
        problem,
        names,
        free: problem.servers.iter().map(|s| s.capacity.clone()).collect(),
        current: vec![Vec::new(); problem.jobs.len()],
        sums: Vec::new(),
        visit,
    };
    walk.job(0);
    Ok(())
}

/// The best assignment: most untried edges, then the highest index; of equal ones the first.
///
/// # Errors
/// A malformed problem.
pub fn best(problem: &Problem) -> Result<Option<Enumerated>, InputError> {
    let mut best: Option<Enumerated> = None;
    enumerate(problem, &mut |found| {
        let better = best.as_ref().is_none_or(|b| {
            found.untried > b.untried
                || (found.untried == b.untried
                    && found.index > b.index + 1e-12 * b.index.abs().max(1.0))
        });
        if better {
            best = Some(found.clone());
        }
    })?;
    Ok(best)
}

struct Walk<'a> {
    problem: &'a Problem,
    names: HashMap<&'a str, usize>,
    free: Vec<Vec<f64>>,
    current: Vec<Vec<usize>>,
    /// (untried, mean - cost, sigma2) of each task placed so far.
    sums: Vec<(u64, f64, f64)>,
    visit: &'a mut dyn FnMut(&Enumerated),
}

impl Walk<'_> {
    fn job(&mut self, j: usize) {
        if j == self.problem.jobs.len() {
            let found = self.value();
            (self.visit)(&found);
            return;
        }
        self.task(j);
        self.job(j + 1);
    }

    fn task(&mut self, j: usize) {
        let q = self.current[j].len();
        if q == self.problem.jobs[j].tasks.len() {
            self.job(j + 1);
            return;
        }
        let task = &self.problem.jobs[j].tasks[q];
        for s in 0..self.free.len() {
            if self.problem.jobs[j].spread && self.current[j].contains(&s) {
                continue;
            }
            let Some(terms) = self.terms(j, q, s) else { continue };
            let capacity = &self.problem.servers[s].capacity;
            let free = self.free[s].iter().zip(capacity);
            if task.request.iter().zip(free).any(|(a, (f, c))| *a > f + CAPACITY_SLACK * c) {
                continue;
            }
            for (f, a) in self.free[s].iter_mut().zip(&task.request) {
                *f -= a;
            }
            self.current[j].push(s);
            self.sums.push(terms);
            self.task(j);
            self.sums.pop();
            self.current[j].pop();
            for (f, a) in self.free[s].iter_mut().zip(&task.request) {
                *f += a;
            }
        }
    }

    fn terms(&self, j: usize, q: usize, s: usize) -> Option<(u64, f64, f64)> {
        let task = &self.problem.jobs[j].tasks[q];
        let listed = |e: &&Edge| self.names.get(e.server.as_str()) == Some(&s);
        let edge = task.edges.iter().find(listed).map(|e| (e.mean, e.count));
        let own = self.problem.servers[s].group.as_ref();
        let group = task.groups.iter().find(|g| Some(&g.group) == own).map(|g| (g.mean, g.count));
        let (mean, count) = edge.or(group).or(task.any.map(|any| (any.mean, any.count)))?;
        let prices = self.problem.cost.iter().flatten();
        let cost: f64 = task.request.iter().zip(prices).map(|(a, f)| a * f).sum();
        let exploration = self.problem.exploration();
        let value = if count > 0.0 { mean } else { 0.0 } - cost;
        Some(match (exploration.is_on(), count > 0.0) {
            (false, _) => (0, value, 0.0),
            (true, true) => (0, value, variance_proxy(exploration.g(), count)),
            (true, false) => (1, value, 0.0),
        })
    }

    fn value(&self) -> Enumerated {
        let untried = self.sums.iter().map(|t| t.0).sum();
        let welfare = self.sums.iter().map(|t| t.1).sum();
        let variance = self.sums.iter().map(|t| t.2).sum();
        let index = confidence_index(self.problem.exploration().delta(), welfare, variance);
        Enumerated { servers: self.current.clone(), untried, index, welfare }
    }
}
