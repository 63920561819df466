// SPDX-License-Identifier: GPL-3.0-or-later
//! The rules of placement that look at one bag after the other.

use super::integer::Integer;
use super::model::{Arrival, Model, State, TaskType};
use super::myopic::Myopic;
use super::problem::Problem;

/// The rule that decides the split of a bag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The paper's.
    Seed,
    /// The exact fractional optimum of the bag alone, rounded up as the paper does.
    Exact,
    /// The optimum of the bag alone in whole tasks.
    Integer,
    /// Gives all tasks to the machine with the least energy per task.
    Greedy,
    /// Gives the same number of tasks to every machine.
    Average,
}

/// The split of one bag.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Choice {
    /// The paper's tau, from 1.
    pub tau: Option<usize>,
    /// Profit per second of the fractional split.
    pub fractional: Option<f64>,
}

/// Splits bags, and keeps scratch space from one bag to the next.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    arrival: Arrival,
    myopic: Myopic,
    integer: Integer,
    ranked: Vec<u64>,
}

impl Splitter {
    /// Splits a bag of at least one task by `rule` into `x`, by machine type. `state.revenue`
    /// includes the bag's revenue already. There must be a machine.
    pub fn split(
        &mut self,
        rule: Rule,
        model: &Model,
        state: &State,
        task_type: &TaskType,
        tasks: u64,
        x: &mut [u64],
    ) -> Choice {
        let mut choice = Choice::default();
        match rule {
            Rule::Greedy => {
                self.ranked.clear();
                self.ranked.resize(task_type.len(), 0);
                let least = task_type.joules.last();
                let cheapest = task_type.joules.iter().position(|joules| Some(joules) == least);
                if let Some(place) = cheapest.and_then(|rank| self.ranked.get_mut(rank)) {
                    *place = tasks;
                }
            }
            Rule::Average => {
                spread_evenly(model, tasks, x);
                return choice;
            }
            Rule::Seed | Rule::Exact => {
                self.arrival.set(model, state, task_type, tasks);
                let split = match rule {
                    Rule::Seed => self.myopic.seed(&self.arrival),
                    _ => self.myopic.exact(&self.arrival),
                };
                let Some(split) = split else { return choice };
                self.myopic.round(tasks, split.tau, &mut self.ranked);
                choice.tau = Some(split.tau + 1);
                choice.fractional = Some(split.value);
            }
            Rule::Integer => {
                self.arrival.set(model, state, task_type, tasks);
                self.integer.solve(&self.arrival, &mut self.myopic, tasks);
                self.ranked.clone_from(&self.integer.x);
            }
        }
        x.fill(0);
        for (&j, &tasks) in task_type.machine.iter().zip(&self.ranked) {
            x[j] = tasks;
        }
        choice
    }

    /// Profit per second of the best fractional split of the bag alone.
    pub fn fractional(
        &mut self,
        model: &Model,
        state: &State,
        task_type: &TaskType,
        tasks: u64,
    ) -> Option<f64> {
        self.arrival.set(model, state, task_type, tasks);
        self.myopic.exact(&self.arrival).map(|split| split.value)
    }
}

/// Gives ceil(tasks / machines) to each machine, in order; the last machines take what is left.
fn spread_evenly(model: &Model, tasks: u64, x: &mut [u64]) {
    x.fill(0);
    let mut rest = tasks;
    let machines = model.usable.len().try_into().unwrap_or(u64::MAX).max(1);
    let each = tasks.div_ceil(machines);
    for &j in &model.usable {
        x[j] = each.min(rest);
        rest -= x[j];
    }
}

/// The whole run of one rule: `x[user * machines + machine]` and the choices.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub x: Vec<u64>,
    pub choices: Vec<Choice>,
    /// Profit per second at the end.
    pub objective: Option<f64>,
}

/// Lets every user of the problem arrive under `rule`.
pub(super) fn run(problem: &Problem, model: &Model, rule: Rule) -> Plan {
    let mut state = State::new(model);
    let mut splitter = Splitter::default();
    let mut x = vec![0; problem.users.len() * model.machines];
    let mut choices = vec![Choice::default(); problem.users.len()];
    for (i, user) in problem.users.iter().enumerate() {
        state.revenue += user.revenue;
        if user.tasks == 0 {
            continue;
        }
        let Some(task_type) = model.task_type(user.task_type) else { continue };
        let row = &mut x[i * model.machines..(i + 1) * model.machines];
        choices[i] = splitter.split(rule, model, &state, task_type, user.tasks, row);
        state.place(task_type, row);
    }
    Plan { x, choices, objective: state.objective(model.price) }
}
