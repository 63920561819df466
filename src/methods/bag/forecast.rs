// SPDX-License-Identifier: GPL-3.0-or-later
//! Bags that are final on arrival, split with a forecast of what comes after
//! them instead of knowledge: the form of `template` that a daemon can use.

use super::SolveError;
use super::model::{Model, State};
use super::problem::Problem;
use super::totals::{Rates, Totals, apportion, optimum};
use phalanx_core::number::as_f64;
use phalanx_core::problem::InputError;

/// Tasks of one type that arrive together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bag {
    /// Row of the problem's rate matrices.
    pub task_type: usize,
    /// Number of tasks.
    pub tasks: u64,
    /// Money for all tasks.
    pub revenue: f64,
}

/// Tasks that are expected to arrive later, in any order; usually the type mix of the
/// past scaled to the planning horizon, less what has arrived.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecast {
    /// Several bags of one type are added up.
    pub bags: Vec<Bag>,
}

/// Splits one arriving bag after the other.
///
/// At each arrival the offline programme is solved for this bag and the
/// forecast together, on top of the loads that are already there, and the bag is
/// split in its proportions. What rounding withholds from a machine is made up
/// for by the next bag of the type.
#[derive(Debug)]
pub struct OnlinePlanner {
    model: Model,
    state: State,
    /// Tasks that rounding withheld from each usable machine, by task type.
    owed: Vec<Vec<f64>>,
}

impl OnlinePlanner {
    /// Takes machines, rates, price and loads from `problem`; not its users.
    ///
    /// # Errors
    /// Fails as [`super::solve`] does.
    pub fn new(problem: &Problem) -> Result<Self, SolveError> {
        problem.validate()?;
        let model = Model::with_types(problem, &vec![true; problem.etc_s.len()]);
        if model.usable.is_empty() {
            let what = "none has a machine to run tasks";
            return Err(SolveError::Infeasible(InputError::new("machine_types", what)));
        }
        let owed = vec![vec![0.0; model.usable.len()]; model.rows()];
        let state = State::new(&model);
        Ok(Self { model, state, owed })
    }

    /// Splits `bag` and places it: tasks on each machine type.
    ///
    /// # Errors
    /// [`SolveError::Input`] for a type that has no row, in the bag or in the
    /// forecast.
    pub fn arrive(&mut self, bag: &Bag, forecast: &Forecast) -> Result<Vec<u64>, SolveError> {
        let known = |bag: &Bag| bag.task_type < self.model.rows();
        if !known(bag) || !forecast.bags.iter().all(known) {
            let message = format!("must be < {}, the rows of etc_s", self.model.rows());
            return Err(InputError::new("type", message).into());
        }
        self.state.revenue += bag.revenue;
        let mut x = vec![0; self.model.machines];
        if bag.tasks == 0 {
            return Ok(x);
        }
        let both = std::iter::once(bag).chain(&forecast.bags);
        let totals = Totals::new(self.model.rows(), both.map(|bag| (bag.task_type, bag.tasks)));
        let later: f64 = forecast.bags.iter().map(|bag| bag.revenue).sum();
        let rates = Rates::new(&self.model, &totals);
        let revenue = self.state.revenue + later;
        let best = optimum(&self.model, &rates, &totals, &self.state, revenue);
        let place = totals.rows.iter().position(|&row| row == bag.task_type);
        if let (Some(best), Some(place)) = (best, place) {
            let machines = rates.machines;
            let share = &best.share[place * machines..(place + 1) * machines];
            let part = self.round(bag, share);
            for (&j, tasks) in self.model.usable.iter().zip(part) {
                x[j] = tasks;
            }
        }
        if let Some(task_type) = self.model.task_type(bag.task_type) {
            self.state.place(task_type, &x);
        }
        Ok(x)
    }

    /// Profit per second of what has arrived; `None` while the makespan is 0.
    #[must_use]
    pub fn objective(&self) -> Option<f64> {
        self.state.objective(self.model.price)
    }

    /// Whole tasks near `share`, with what earlier roundings owe.
    fn round(&mut self, bag: &Bag, share: &[f64]) -> Vec<u64> {
        /// Steps from 0 to 1 in which shares are compared.
        const PARTS: f64 = 1e15;
        let tasks = as_f64(bag.tasks);
        let owed = &mut self.owed[bag.task_type];
        let wanted: Vec<f64> =
            share.iter().zip(owed.iter()).map(|(part, owed)| part * tasks + owed).collect();
        let weights: Vec<u64> = wanted
            .iter()
            .map(|wanted| super::num::whole_floor((wanted.max(0.0) / tasks * PARTS).round()))
            .collect();
        let mut x = Vec::new();
        apportion(bag.tasks, &weights, &mut x);
        for ((owed, wanted), &x) in owed.iter_mut().zip(wanted).zip(&x) {
            *owed = wanted - as_f64(x);
        }
        x
    }
}
