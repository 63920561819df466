// SPDX-License-Identifier: GPL-3.0-or-later
//! Pending multi-node and het jobs as gangs: who starts now, and on which nodes.
//!
//! Source: docs/methods.md, Gangs. A multi-node job is a gang of equal
//! tasks, one for each of its nodes; a het job is one gang of all its
//! components' nodes, component 0 being the parameter server. Jobs of one node
//! take part where knowledge tells their classes of nodes apart. Nodes that
//! are alike to every job in question are one group of the problem, so that
//! 10,000 nodes do not mean 10,000 edges for each task. The welfare of a gang
//! is what it pays times its relative speed, less the maintenance cost; the
//! payment itself cancels between user and cluster.

mod admission;
mod billing;
mod inputs;
mod learned;
mod model;
mod preferences;
mod problem;
mod reserved;
mod terms;

use std::time::Duration;

pub use inputs::{Belief, Beliefs, Inputs, Settings};
pub use learned::Learned;
use model::Model;
pub use phalanx_methods::gang::Bred;

use crate::preference::{Method, MethodPlan, MethodReport};
use phalanx_core::number::as_f64;
use phalanx_methods::gang::{self, Options, Problem, Remaining};

/// A round's plan, and the state from which a longer search may go on.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: MethodPlan,
    /// Population that the search left for the next search.
    pub bred: Bred,
    /// The problem, where a longer search may find more.
    pub open: Option<Open>,
}

/// A problem whose best plan is not known yet.
#[derive(Debug)]
pub struct Open {
    problem: Problem,
    settings: Settings,
}

impl Open {
    /// Number of nodes with room.
    pub fn nodes(&self) -> usize {
        self.problem.servers.len()
    }

    /// Searches from where the search of `bred` ended; returns the state in which it ends.
    pub fn search(&self, bred: &Bred, remaining: Remaining<'_>) -> Option<Bred> {
        // Where it fails the round's own report says why.
        search(&self.problem, &self.settings, bred, remaining).ok().map(|answer| answer.bred)
    }
}

/// Plans the gangs of a snapshot.
pub fn plan(inputs: &Inputs<'_>) -> Planned {
    let begun = (inputs.remaining)();
    let model = Model::new(inputs);
    let mut report = MethodReport {
        mode: inputs.settings.mode.name().to_owned(),
        jobs: model.gangs.len() as u64,
        ..MethodReport::default()
    };
    let mut class_preferences = preferences::class_preferences(inputs, &model);
    let with =
        |preferences, report| MethodPlan { preferences, ..MethodPlan::new(Method::Gang, report) };
    let nothing = |plan| Planned { plan, bred: Bred::default(), open: None };
    if model.gangs.is_empty() {
        return nothing(with(class_preferences, report));
    }
    let built = problem::build(inputs, &model);
    let reserved = time_for_preferences(inputs, begun);
    let remaining = || (inputs.remaining)().map(|left| left.saturating_sub(reserved));
    match search(&built.problem, inputs.settings, inputs.bred, &remaining) {
        Ok(mut answer) => {
            let places = problem::places(&built, &model, &answer);
            fill(&mut report, &model, &answer);
            let (bred, explain) = (std::mem::take(&mut answer.bred), answer.explain.as_ref());
            let (preferences, notes) =
                preferences::make(inputs, &model, &built.problem, &places, explain);
            class_preferences.extend(preferences);
            let start_order = preferences::start_order(&model, &places);
            let plan = MethodPlan { start_order, notes, ..with(class_preferences, report) };
            let settings = inputs.settings.clone();
            let open = settings.mode == gang::Mode::Ga && !answer.proven_optimal;
            Planned { plan, bred, open: open.then_some(Open { problem: built.problem, settings }) }
        }
        Err(error) => {
            report.error = Some(error.to_string());
            nothing(with(class_preferences, report))
        }
    }
}

/// Searches for a plan, starting where another search ended.
fn search(
    problem: &Problem,
    settings: &Settings,
    bred: &Bred,
    remaining: Remaining<'_>,
) -> Result<gang::Answer, gang::SolveError> {
    let Settings { mode, ga, seed, threads, .. } = *settings;
    let bred = Some(bred);
    let explain = true;
    let options =
        Options { mode, ga, seed, threads, remaining, bred, explain, ..Options::default() };
    gang::solve(problem, &options)
}

/// Time that the search leaves: making preferences of its answer takes about as long as making the
/// problem took since `begun`.
fn time_for_preferences(inputs: &Inputs<'_>, begun: Option<Duration>) -> Duration {
    let left = (inputs.remaining)().unwrap_or_default();
    begun.unwrap_or_default().saturating_sub(left).min(left / 2)
}

fn fill(report: &mut MethodReport, model: &Model<'_>, answer: &gang::Answer) {
    report.starts = answer.assignment.len() as u64;
    report.objective = Some(answer.index);
    report.upper_bound = answer.upper_bound;
    report.gap = answer.gap;
    report.stopped = Some(answer.stopped);
    let mut term = |name: &str, value: f64| report.terms.insert(name.to_owned(), value);
    term("welfare", answer.mean_welfare);
    term("untried_edges", as_f64(answer.untried_edges));
    term("generations", as_f64(answer.generations));
    term("node_groups", as_f64(model.groups.len() as u64));
    if let Some(explain) = &answer.explain {
        // From 0: an empty sum of doubles is -0.
        term("value", explain.jobs.iter().fold(0.0, |sum, j| sum + j.value));
        term("cost", explain.jobs.iter().fold(0.0, |sum, j| sum + j.cost));
        term("bonus", explain.variance.sqrt());
        term("delta", explain.delta);
        term("g", explain.g);
    }
}

#[cfg(test)]
mod tests;
