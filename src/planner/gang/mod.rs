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

use std::sync::Arc;
use std::time::Duration;

pub use inputs::{Belief, Beliefs, Inputs, Last, Settings};
pub use learned::Learned;
use model::Model;

use crate::preference::{Method, MethodPlan, MethodReport};
use phalanx_core::NodeIdx;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::gang::{self, Options};

/// Plans the gangs of a snapshot.
pub fn plan(inputs: &Inputs<'_>) -> (MethodPlan, Last) {
    let begun = (inputs.remaining)();
    let model = Model::new(inputs);
    let mode = match inputs.settings.mode {
        gang::Mode::Seed => "seed",
        gang::Mode::Ga => "ga",
        gang::Mode::Exact => "exact",
    };
    let mut report = MethodReport {
        method: Method::Gang.as_str().to_owned(),
        mode: mode.to_owned(),
        jobs: model.gangs.len() as u64,
        ..MethodReport::default()
    };
    let mut class_preferences = preferences::class_preferences(inputs, &model);
    let with =
        |preferences, report| MethodPlan { preferences, ..MethodPlan::new(Method::Gang, report) };
    if model.gangs.is_empty() {
        return (with(class_preferences, report), Last::new());
    }
    let problem = problem::build(inputs, &model);
    let warm = problem::warm_start(inputs, &model, &problem);
    let reserved = time_for_preferences(inputs, begun);
    let remaining = || (inputs.remaining)().map(|left| left.saturating_sub(reserved));
    let options = Options {
        mode: inputs.settings.mode,
        ga: inputs.settings.ga,
        seed: inputs.settings.seed,
        threads: inputs.settings.threads,
        remaining: &remaining,
        warm_start: &warm,
        explain: true,
        ..Options::default()
    };
    match gang::solve(&problem.problem, &options) {
        Ok(answer) => {
            let places = problem::places(&problem, &model, &answer);
            fill(&mut report, &model, &answer);
            let explain = answer.explain.as_ref();
            let (preferences, notes) =
                preferences::make(inputs, &model, &problem.problem, &places, explain);
            class_preferences.extend(preferences);
            let start_order = preferences::start_order(&model, &places);
            let last = last_of(inputs.snapshot, &model, &places);
            (MethodPlan { start_order, notes, ..with(class_preferences, report) }, last)
        }
        Err(error) => {
            report.error = Some(error.to_string());
            (with(class_preferences, report), Last::new())
        }
    }
}

/// Time that the search leaves: to make preferences of its answer takes about as long as it took
/// since `begun` to make the problem.
fn time_for_preferences(inputs: &Inputs<'_>, begun: Option<Duration>) -> Duration {
    let left = (inputs.remaining)().unwrap_or_default();
    begun.unwrap_or_default().saturating_sub(left).min(left / 2)
}

fn fill(report: &mut MethodReport, model: &Model<'_>, answer: &gang::Answer) {
    report.starts = answer.assignment.len() as u64;
    report.objective = Some(answer.index);
    report.upper_bound = answer.upper_bound;
    report.gap = answer.gap;
    let mut term = |name: &str, value: f64| report.terms.insert(name.to_owned(), value);
    term("welfare", answer.mean_welfare);
    term("untried_edges", as_f64(answer.untried_edges));
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

fn last_of(snapshot: &Snapshot, model: &Model<'_>, places: &[Vec<NodeIdx>]) -> Last {
    let name = |node: &NodeIdx| snapshot.nodes.get(node.at()).map(|n| Arc::clone(&n.name));
    let pairs = model.gangs.iter().zip(places).filter(|(_, nodes)| !nodes.is_empty());
    pairs.map(|(gang, nodes)| (gang.id, nodes.iter().filter_map(name).collect())).collect()
}

#[cfg(test)]
mod tests;
