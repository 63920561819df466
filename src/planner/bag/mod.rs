// SPDX-License-Identifier: GPL-3.0-or-later
//! Job arrays as bags of tasks: how many of their waiting tasks each class of nodes gets, so that
//! profit per time is highest.
//!
//! Source: docs/methods.md, Bags. Machine types are classes of nodes, a user is an array; the
//! whole plan is made anew for every snapshot over all tasks that have not started, on slots that
//! are free when the running tasks end. The mode `best` plans whole tasks on whole slots; others
//! are the document's, on a fluid. The value of each is that of whole slots. Jobs that are no task
//! of a known array take their CPUs out of the count.

mod inputs;
mod model;
mod preferences;
mod schedule;
#[cfg(test)]
mod tests;
mod unheld;

pub use inputs::{Inputs, Knowledge, Loss, Seconds, Settings, Watts, WattsFrom};
use model::Model;
pub use unheld::Unheld;

use crate::preference::{Method, MethodPlan, MethodReport};
pub use phalanx_methods::bag::Mode;
use phalanx_methods::bag::{self, Options, SolveError};

/// A model, its problem solved, and the tasks of each array on each class.
struct Solved<'a> {
    model: Model<'a>,
    split: Vec<Vec<u64>>,
    report: MethodReport,
    /// Objective of the search.
    value: f64,
}

/// Plans with the CPUs that other jobs give back within `horizon_s`; `None` if there is nothing to
/// plan. The error comes with the number of arrays.
fn solve<'a>(
    inputs: &Inputs<'a>,
    report: &MethodReport,
    horizon_s: f64,
    unheld: &mut Unheld,
) -> Result<Option<Solved<'a>>, (SolveError, u64)> {
    let model = Model::new(inputs, horizon_s);
    if model.bags.is_empty() || (horizon_s > 0.0 && model.given_back == 0.0) {
        return Ok(None);
    }
    let (problem, rows) = model.problem();
    let jobs = model.bags.len() as u64;
    let options = Options { mode: inputs.settings.mode, explain: false };
    let answer = bag::solve(&problem, &options).map_err(|error| (error, jobs))?;
    let mut x: Vec<Vec<u64>> = answer.users.iter().map(|user| user.x.clone()).collect();
    let mut slots = model.slot_problem(&rows);
    model.bound(inputs, &rows, &mut slots, (unheld, horizon_s > 0.0));
    // Profit is what the other modes seek: without any price there is none.
    let priced = rows.iter().any(|at| model.bags[*at].price.is_some());
    if inputs.settings.mode == Mode::Best || !priced {
        let allowed = model.split(&x, &rows);
        let of_row = |at: &usize| allowed[*at].clone();
        x = slots.solve(vec![rows.iter().map(of_row).collect()]).split;
    }
    let split = model.split(&x, &rows);
    let of_row = |at: &usize| split[*at].clone();
    let promised = slots.plan_of(rows.iter().map(of_row).collect());
    let value = promised.value;
    let mut report = MethodReport { jobs, ..report.clone() };
    schedule::fill(
        &mut report,
        inputs,
        &model,
        &split,
        &schedule::Values { promised, list: slots.list(), bound: answer.lp_bound },
    );
    Ok(Some(Solved { model, split, report, value }))
}

/// Plans the arrays of a snapshot: with the CPUs that other jobs do not hold, and again with those
/// that these are expected to give back before that plan ends. The better plan counts. `unheld`
/// stays from plan to plan.
pub fn plan(inputs: &Inputs<'_>, unheld: &mut Unheld) -> MethodPlan {
    let mut report =
        MethodReport { mode: inputs.settings.mode.name().to_owned(), ..MethodReport::default() };
    let first = solve(inputs, &report, 0.0, unheld);
    let horizon_s = match &first {
        Ok(Some(found)) => found.report.terms.get("makespan_s").copied().unwrap_or(0.0),
        _ => f64::INFINITY,
    };
    let later = solve(inputs, &report, horizon_s, unheld);
    let best = match (first, later) {
        (Ok(Some(first)), Ok(Some(later))) if later.value > first.value.max(0.0) => Ok(Some(later)),
        (Ok(None), later) => later,
        (first, _) => first,
    };
    let mut notes = Vec::new();
    let preferences = match best {
        Ok(Some(found)) => {
            report = found.report;
            notes = preferences::notes(&found.model);
            preferences::make(inputs, &found.model, &found.split, &report)
        }
        Ok(None) => {
            let model = Model::new(inputs, 0.0);
            notes = preferences::notes(&model);
            report.bags = model.unknown.into_iter().map(|(_, row)| row).collect();
            Vec::new()
        }
        Err((error, jobs)) => {
            report.jobs = jobs;
            report.error = Some(error.to_string());
            Vec::new()
        }
    };
    report.starts = preferences.len() as u64;
    MethodPlan { preferences, notes, ..MethodPlan::new(Method::Bag, report) }
}
