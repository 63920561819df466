// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer: the split of every bag and what it leads to.

use serde::{Deserialize, Serialize};

use super::model::{Model, State};
use super::online::Plan;
use super::problem::Problem;

/// Every bag's split, in the order of arrival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Splits of the bags, one entry per user.
    pub users: Vec<UserAnswer>,
    /// State after the last arrival.
    #[serde(rename = "final")]
    pub last: Final,
    /// Profit per second of the offline optimum with splittable tasks; `None`
    /// when there are no users or nothing takes any time.
    pub lp_bound: Option<f64>,
    /// Reasons of the answer, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explanation>,
}

/// A bag's split and the state after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserAnswer {
    /// Tasks on each machine type.
    pub x: Vec<u64>,
    /// Place, from 1, of the most expensive machine in use when machines are ordered
    /// by falling energy per task; `None` in modes that do not choose it.
    pub tau: Option<usize>,
    /// Seconds.
    pub makespan_s: f64,
    /// Money per second; `None` while the makespan is 0.
    pub objective: Option<f64>,
    /// Money per second of the split before it was rounded; in mode `best` that of the best split
    /// of the bag alone. `None` in modes without a fractional split.
    pub fractional_objective: Option<f64>,
}

/// The state after the last arrival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// Money per second; `None` while the makespan is 0.
    pub objective: Option<f64>,
    /// Seconds.
    pub makespan_s: f64,
    /// Joules of the users' tasks, and of idle machines up to the makespan.
    pub energy_j: f64,
    /// Money.
    pub revenue: f64,
}

/// Reasons of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Mode `best`: the modes it compared and what each reaches at the end;
    /// `search` is the local search on whole tasks.
    pub contenders: Vec<ModeResult>,
    /// Mode `best`: the contender that was taken.
    pub chosen: Option<String>,
    /// Whether `lp_bound` is the optimum itself, not only a bound above it.
    pub lp_bound_is_optimum: Option<bool>,
}

/// Figures that a mode reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeResult {
    /// Name of the mode.
    pub mode: String,
    /// Money per second after the last arrival.
    pub objective: Option<f64>,
}

/// Computes the states to which a plan leads.
pub(super) fn build(problem: &Problem, model: &Model, plan: &Plan) -> Answer {
    let idle = problem.idle_total();
    let value = |state: &State| Some(state.objective(model.price)? - model.price * idle);
    let mut state = State::new(model);
    let mut users = Vec::with_capacity(problem.users.len());
    for (i, (user, choice)) in problem.users.iter().zip(&plan.choices).enumerate() {
        state.revenue += user.revenue;
        let x = &plan.x[i * model.machines..(i + 1) * model.machines];
        if let Some(task_type) = model.task_type(user.task_type) {
            state.place(task_type, x);
        }
        users.push(UserAnswer {
            x: x.to_vec(),
            tau: choice.tau,
            makespan_s: state.makespan,
            objective: value(&state),
            fractional_objective: choice.fractional.map(|found| found - model.price * idle),
        });
    }
    let last = if users.is_empty() {
        Final { objective: None, makespan_s: 0.0, energy_j: 0.0, revenue: 0.0 }
    } else {
        Final {
            objective: value(&state),
            makespan_s: state.makespan,
            energy_j: state.energy + idle * state.makespan,
            revenue: state.revenue,
        }
    };
    Answer { users, last, lp_bound: None, explain: None }
}
