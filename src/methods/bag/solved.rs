// SPDX-License-Identifier: GPL-3.0-or-later
//! The modes of the method, and the plan that each makes of a model.

use super::lp::Optimum;
use super::model::Model;
use super::online::{Plan, Rule, run};
use super::planner::{Contender, Planner};
use super::problem::Problem;
use phalanx_core::problem::InputError;

/// The rule that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The source paper's rule, fractional, rounded up.
    Seed,
    /// The exact optimum of each arrival, fractional, rounded up.
    Exact,
    /// The exact optimum of each arrival in whole tasks.
    Integer,
    /// Every bag in the proportions of the offline optimum of the totals.
    Template,
    /// The best plan of all modes, improved further.
    #[default]
    Best,
    /// Every bag wholly to the machine with the least energy per task.
    Greedy,
    /// Every bag in equal parts.
    Average,
}

named_modes! { Mode:
    "seed" => Seed,
    "exact" => Exact,
    "integer" => Integer,
    "template" => Template,
    "best" => Best,
    "greedy" => Greedy,
    "average" => Average,
}

/// An error for which there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// A field cannot be used.
    #[error("{0}")]
    Input(#[from] InputError),
    /// Tasks that no machine can take.
    #[error("{0}")]
    Infeasible(InputError),
}

/// A plan, and what is known of its quality.
#[derive(Debug)]
pub(super) struct Solved {
    pub(super) plan: Plan,
    pub(super) contenders: Vec<Contender>,
    pub(super) optimum: Option<Optimum>,
}

pub(super) fn solve_with(problem: &Problem, model: &Model, mode: Mode) -> Solved {
    let planner = Planner::new(problem, model);
    let (plan, contenders) = match mode {
        Mode::Seed => (run(problem, model, Rule::Seed), Vec::new()),
        Mode::Exact => (run(problem, model, Rule::Exact), Vec::new()),
        Mode::Integer => (run(problem, model, Rule::Integer), Vec::new()),
        Mode::Greedy => (run(problem, model, Rule::Greedy), Vec::new()),
        Mode::Average => (run(problem, model, Rule::Average), Vec::new()),
        Mode::Template => (planner.template(), Vec::new()),
        Mode::Best => planner.best(problem.revise),
    };
    Solved { plan, contenders, optimum: planner.optimum }
}
