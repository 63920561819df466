// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to a [`Problem`]: the JSON that `phalanx solve balance` prints.

use serde::Serialize;

use super::decision::{Branch, Decision, Outcome};
use super::problem::{Job, Prepared, Problem};
use phalanx_core::NodeIdx;
use phalanx_core::problem::Number;

/// A placed job.
#[derive(Clone, Debug, Serialize)]
pub struct Placement<'a> {
    /// Id of the job.
    pub id: &'a str,
    /// Names of the chosen nodes, in the order of choice.
    pub nodes: Vec<&'a str>,
    /// Dispersion of each node just before the job was placed.
    pub dispersion_before: Vec<f64>,
    /// Dispersion of each node just after the job was placed.
    pub dispersion_after: Vec<f64>,
    /// Weights just before.
    pub weights: Vec<f64>,
    /// Cluster utilization just before the job was placed.
    pub utilization: f64,
}

/// Amounts in use on one node at the end.
#[derive(Clone, Debug, Serialize)]
pub struct NodeUse<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Amount in use of each dimension.
    pub used: Vec<Number>,
}

/// Reasons of one job's placement.
#[derive(Clone, Debug, Serialize)]
pub struct JobExplain<'a> {
    /// Id of the job.
    pub id: &'a str,
    /// `placed`, `no_fit` (too few nodes have room) or `held`.
    pub outcome: &'static str,
    /// `low`, `high` or `best`.
    pub branch: &'static str,
    /// Weights when deciding.
    pub weights: Vec<f64>,
    /// Cluster utilization at the time of the decision.
    pub utilization: f64,
    /// Pending jobs by lacking dimension, at the time of the decision.
    pub pending_counts: Vec<u64>,
    /// The figure that was minimised, for each chosen node.
    pub scores: Vec<f64>,
    /// The best node not chosen.
    pub runner_up: Option<Second<'a>>,
}

/// The runner-up of a decision.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Second<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// Dispersion of the node if it had got the job.
    pub dispersion_after: f64,
    /// Score of the node minus that of the last chosen node; below zero when the poll order
    /// decided.
    pub margin: f64,
}

/// The answer to a [`Problem`].
#[derive(Clone, Debug, Serialize)]
pub struct Answer<'a> {
    /// Placed jobs, in input order.
    pub placements: Vec<Placement<'a>>,
    /// Ids of the jobs that are not placed, in input order.
    pub pending: Vec<&'a str>,
    /// The nodes at the end, in input order.
    pub nodes: Vec<NodeUse<'a>>,
    /// Reasons of each job's placement, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Vec<JobExplain<'a>>>,
}

pub(super) fn placement<'a>(
    problem: &'a Problem<'_>,
    job: &'a Job<'_>,
    decision: Decision,
) -> Placement<'a> {
    let choices = decision.choices();
    Placement {
        id: &job.id.0,
        nodes: choices.iter().map(|choice| name_of(problem, choice.node)).collect(),
        dispersion_before: choices.iter().map(|choice| choice.before).collect(),
        dispersion_after: choices.iter().map(|choice| choice.after).collect(),
        utilization: decision.utilization,
        weights: decision.weights,
    }
}

fn name_of<'a>(problem: &'a Problem<'_>, node: NodeIdx) -> &'a str {
    problem.nodes.get(node.at()).map_or("", |node| &node.name.0)
}

pub(super) fn explained<'a>(
    problem: &'a Problem<'_>,
    job: &'a Job<'_>,
    pending_counts: &[u64],
    decision: &Decision,
) -> JobExplain<'a> {
    JobExplain {
        id: &job.id.0,
        outcome: match decision.outcome {
            Outcome::Placed(_) => "placed",
            Outcome::NoFit { .. } => "no_fit",
            Outcome::Held => "held",
        },
        branch: match decision.branch {
            Branch::Low => "low",
            Branch::High => "high",
            Branch::Best => "best",
        },
        weights: decision.weights.clone(),
        utilization: decision.utilization,
        pending_counts: pending_counts.to_vec(),
        scores: decision.choices().iter().map(|choice| choice.score).collect(),
        runner_up: decision.runner_up.map(|second| Second {
            node: name_of(problem, second.choice.node),
            dispersion_after: second.choice.after,
            margin: second.margin,
        }),
    }
}

pub(super) fn node_uses<'a>(problem: &'a Problem<'_>, prepared: &Prepared) -> Vec<NodeUse<'a>> {
    let use_of = |at: usize, dim: usize| {
        let used = prepared.engine.used(NodeIdx::new(at), dim);
        Number(prepared.scales[dim].units(used))
    };
    let dims = problem.dimensions.len();
    let nodes = problem.nodes.iter().enumerate();
    nodes
        .map(|(at, node)| NodeUse {
            name: &node.name.0,
            used: (0..dims).map(|dim| use_of(at, dim)).collect(),
        })
        .collect()
}
