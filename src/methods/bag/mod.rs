// SPDX-License-Identifier: GPL-3.0-or-later
//! Splits arriving bags of tasks over machine types, so that profit per time is
//! highest when energy costs money.
//!
//! A *bag* is a set of identical independent tasks (in Slurm: a job array), a
//! *machine type* a group of like nodes. Bags arrive one after the other; the
//! objective after each is (revenue - price * energy) / makespan, where the
//! makespan is that of all bags so far.
//!
//! [`solve`] is the whole method as a pure function: the same problem and mode
//! give the same answer, and nothing but the arguments is read.
//!
//! # Source
//! `docs/methods.md`, section Bags: "Online assignment of bags of tasks, energy-aware and
//! profit maximising"; the offline programme is Tarplee's (CCGrid 2014).

mod answer;
mod integer;
mod lp;
mod model;
mod myopic;
mod num;
mod online;
mod planner;
mod power;
mod problem;
pub mod slots;
mod solved;
mod totals;

pub use answer::{Answer, Explanation, Final, ModeResult, UserAnswer};
pub use problem::{MachineType, Problem, User};
pub use solved::{Mode, SolveError};

use model::Model;
use phalanx_core::problem::InputError;
use planner::Contender;
use solved::{Solved, solve_with};

/// Options of [`solve`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The method.
    pub mode: Mode,
    /// Adds [`Answer::explain`].
    pub explain: bool,
}

/// Solves a problem.
///
/// # Errors
/// [`SolveError::Input`] when the problem breaks a rule of its format;
/// [`SolveError::Infeasible`] when there are tasks but no machine.
///
/// # Example
/// ```
/// use phalanx_methods::bag::{MachineType, Mode, Options, Problem, User, solve};
/// let machine = |name: &str| MachineType { name: name.into(), count: 1 };
/// let problem = Problem {
///     energy_price: 1.0,
///     machine_types: vec![machine("fast"), machine("frugal")],
///     etc_s: vec![vec![10.0, 20.0]],
///     apc_w: vec![vec![300.0, 100.0]],
///     initial_load_s: None,
///     idle_w: None,
///     power_cap_w: None,
///     revise: false,
///     users: vec![User { task_type: 0, tasks: 12, revenue: 40_000.0 }],
/// };
/// let answer = solve(&problem, &Options { mode: Mode::Seed, explain: false }).unwrap();
/// assert_eq!(answer.users[0].x, [8, 4]);
/// assert_eq!(answer.last.objective, Some(100.0));
/// ```
pub fn solve(problem: &Problem, options: &Options) -> Result<Answer, SolveError> {
    problem.validate()?;
    let model = Model::new(problem);
    let first = problem.users.iter().position(|user| user.tasks > 0);
    if let (true, Some(i)) = (model.usable.is_empty(), first) {
        let what = "no machine type has a machine to run them";
        return Err(SolveError::Infeasible(InputError::new(format!("users[{i}].tasks"), what)));
    }
    let (solved, bound) = match problem.power_cap_w {
        None => {
            let solved = solve_with(problem, &model, options.mode);
            let bound = solved.optimum.as_ref().map(|optimum| optimum.bound);
            (solved, bound)
        }
        Some(cap) => power::capped(problem, &model, options.mode, cap)?,
    };
    let mut answer = answer::build(problem, &model, &solved.plan);
    answer.lp_bound = bound.map(|bound| bound - model.price * problem.idle_total());
    raise_to_answer(&mut answer);
    if problem.users.is_empty() {
        answer.lp_bound = None;
    }
    if options.explain {
        answer.explain = Some(explanation(&solved));
    }
    Ok(answer)
}

/// Lifts a bound that rounding has put below the answer that it bounds.
fn raise_to_answer(answer: &mut Answer) {
    /// Relative size of an error by rounding.
    const NOISE: f64 = 1e-9;
    if let (Some(bound), Some(reached)) = (&mut answer.lp_bound, answer.last.objective)
        && reached > *bound
        && reached - *bound <= NOISE * reached.abs()
    {
        *bound = reached;
    }
}

fn explanation(solved: &Solved) -> Explanation {
    let Solved { plan, contenders, optimum } = solved;
    let result = |contender: &Contender| ModeResult {
        mode: contender.name.into(),
        objective: contender.objective,
    };
    let chosen = contenders.iter().find(|contender| contender.objective == plan.objective);
    Explanation {
        contenders: contenders.iter().map(result).collect(),
        chosen: chosen.map(|contender| contender.name.into()),
        lp_bound_is_optimum: optimum.as_ref().map(|optimum| optimum.optimal),
    }
}
