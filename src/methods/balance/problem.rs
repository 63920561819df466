// SPDX-License-Identifier: GPL-3.0-or-later
//! A whole problem: nodes and a list of jobs. The types are the JSON that
//! `phalanx solve balance` reads.

use serde::Deserialize;

use super::engine::Engine;
use super::params::{Mode, NoImprovement, Params, Sources};
use phalanx_core::problem::{InputError, Name, distinct, length, present, refuse};
use phalanx_core::{Amount, NodeIdx, Scale};

/// A source of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `initial_weights`.
    Initial,
    /// Pending jobs by lacking dimension.
    Pending,
    /// Usage of each dimension.
    Usage,
}

/// A node of a [`Problem`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node<'a> {
    /// Name, unique.
    #[serde(borrow)]
    pub name: Name<'a>,
    /// Total of each dimension, at least 0.
    pub total: Vec<f64>,
    /// Amount in use of each dimension, from 0 to its total.
    pub used: Vec<f64>,
}

/// A job of a [`Problem`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job<'a> {
    /// Id, unique.
    #[serde(borrow)]
    pub id: Name<'a>,
    /// Amount of each dimension on every node, at least 0.
    pub request: Vec<f64>,
    /// Number of nodes, at least 1; default 1.
    #[serde(default, deserialize_with = "present")]
    pub nodes: Option<usize>,
}

/// Nodes and the jobs to place on them, in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem<'a> {
    /// Names of the dimensions, at least one, unique.
    #[serde(borrow)]
    pub dimensions: Vec<Name<'a>>,
    /// Weights with sum 1; default equal.
    #[serde(default, deserialize_with = "present")]
    pub initial_weights: Option<Vec<f64>>,
    /// Sources of weights, not empty; default all.
    #[serde(default, deserialize_with = "present")]
    pub weights_from: Option<Vec<Source>>,
    /// Utilization from which on the high branch decides; default 0.5.
    #[serde(default, deserialize_with = "present")]
    pub threshold: Option<f64>,
    /// Default fallback.
    #[serde(default, deserialize_with = "present")]
    pub no_improvement: Option<NoImprovement>,
    /// Position at which the first poll begins; default 0.
    #[serde(default, deserialize_with = "present")]
    pub start: Option<usize>,
    /// Fixed pending counts instead of attribution.
    #[serde(default)]
    pub pending_counts: Option<Vec<u64>>,
    /// The nodes.
    #[serde(borrow)]
    pub nodes: Vec<Node<'a>>,
    /// The jobs, in the order in which they are placed.
    #[serde(borrow)]
    pub jobs: Vec<Job<'a>>,
}

/// A checked problem in ticks.
pub(super) struct Prepared {
    pub(super) scales: Vec<Scale>,
    pub(super) engine: Engine,
    /// Job-major.
    pub(super) requests: Vec<Amount>,
}

/// Wraps an error of the engine, which is a defect, since a checked problem satisfies the engine.
pub(super) fn internal(error: super::EngineError) -> InputError {
    InputError::new("problem", format!("internal error: {error}"))
}

/// Checks a problem and puts its nodes into an engine.
pub(super) fn prepare(problem: &Problem<'_>, mode: Mode) -> Result<Prepared, InputError> {
    check_lists(problem)?;
    check_numbers(problem)?;
    let params = params(problem, mode)?;
    let dims = problem.dimensions.len();
    let scales: Vec<Scale> = (0..dims).map(|dim| scale(problem, dim)).collect();
    let ticks = |numbers: &[f64]| -> Vec<Amount> {
        let pairs = numbers.iter().zip(&scales);
        // Checked above: finite and not negative.
        pairs.map(|(&number, scale)| scale.amount(number).unwrap_or_default()).collect()
    };
    let totals: Vec<Amount> = problem.nodes.iter().flat_map(|node| ticks(&node.total)).collect();
    let mut engine = Engine::new(dims, &totals, params).map_err(internal)?;
    for (at, (node, total)) in problem.nodes.iter().zip(totals.chunks_exact(dims)).enumerate() {
        engine.set_node(NodeIdx::new(at), total, &ticks(&node.used)).map_err(internal)?;
    }
    let counts = problem.pending_counts.as_deref().unwrap_or_default();
    if !counts.is_empty() {
        engine.set_pending(counts).map_err(internal)?;
    }
    engine.set_poll_start(problem.start.unwrap_or(0));
    let requests = problem.jobs.iter().flat_map(|job| ticks(&job.request)).collect();
    Ok(Prepared { scales, engine, requests })
}

/// The scale of a dimension: requests beyond every total need not be told apart, so the totals fix
/// it.
fn scale(problem: &Problem<'_>, dim: usize) -> Scale {
    let nodes = || problem.nodes.iter().flat_map(|node| [node.total[dim], node.used[dim]]);
    let requests = problem.jobs.iter().map(|job| job.request[dim]);
    let largest = nodes().fold(0.0, f64::max);
    Scale::for_numbers(nodes().chain(requests.filter(|&number| number <= largest)), largest)
}

fn check_lists(problem: &Problem<'_>) -> Result<(), InputError> {
    let dims = problem.dimensions.len();
    if dims == 0 {
        return refuse("dimensions", "must not be empty");
    }
    distinct(problem.dimensions.iter().map(|name| &*name.0), |at| format!("dimensions[{at}]"))?;
    distinct(problem.nodes.iter().map(|node| &*node.name.0), |at| format!("nodes[{at}].name"))?;
    distinct(problem.jobs.iter().map(|job| &*job.id.0), |at| format!("jobs[{at}].id"))?;
    if let Some(weights) = &problem.initial_weights {
        length(|| "initial_weights".to_owned(), weights.len(), dims, "dimensions")?;
    }
    if let Some(counts) = &problem.pending_counts {
        length(|| "pending_counts".to_owned(), counts.len(), dims, "dimensions")?;
    }
    for (at, node) in problem.nodes.iter().enumerate() {
        length(|| format!("nodes[{at}].total"), node.total.len(), dims, "dimensions")?;
        length(|| format!("nodes[{at}].used"), node.used.len(), dims, "dimensions")?;
    }
    for (at, job) in problem.jobs.iter().enumerate() {
        length(|| format!("jobs[{at}].request"), job.request.len(), dims, "dimensions")?;
        if job.nodes == Some(0) {
            return refuse(format!("jobs[{at}].nodes"), "must be >= 1, got 0");
        }
    }
    let nodes = problem.nodes.len();
    if let Some(start) = problem.start
        && start >= nodes.max(1)
    {
        let what = format!("must be below the number of nodes, {nodes}, got {start}");
        return refuse("start", what);
    }
    Ok(())
}

fn check_numbers(problem: &Problem<'_>) -> Result<(), InputError> {
    for (at, node) in problem.nodes.iter().enumerate() {
        not_negative(&node.total, || format!("nodes[{at}].total"))?;
        not_negative(&node.used, || format!("nodes[{at}].used"))?;
        for (dim, (used, total)) in node.used.iter().zip(&node.total).enumerate() {
            if used > total {
                let what = format!("must be <= the total {total}, got {used}");
                return refuse(format!("nodes[{at}].used[{dim}]"), what);
            }
        }
    }
    for (at, job) in problem.jobs.iter().enumerate() {
        not_negative(&job.request, || format!("jobs[{at}].request"))?;
    }
    if let Some(weights) = &problem.initial_weights {
        not_negative(weights, || "initial_weights".to_owned())?;
        let sum: f64 = weights.iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return refuse("initial_weights", format!("must sum to 1, got {sum}"));
        }
    }
    if let Some(threshold) = problem.threshold
        && threshold < 0.0
    {
        return refuse("threshold", format!("must be >= 0, got {threshold}"));
    }
    Ok(())
}

fn not_negative(numbers: &[f64], path: impl Fn() -> String) -> Result<(), InputError> {
    match numbers.iter().position(|&number| number < 0.0) {
        None => Ok(()),
        Some(at) => {
            let what = format!("must be >= 0, got {}", numbers[at]);
            refuse(format!("{}[{at}]", path()), what)
        }
    }
}

fn params(problem: &Problem<'_>, mode: Mode) -> Result<Params, InputError> {
    let mut sources = Sources::ALL;
    if let Some(listed) = &problem.weights_from {
        sources = Sources { initial: false, pending: false, usage: false };
        for (at, source) in listed.iter().enumerate() {
            let flag = match source {
                Source::Initial => &mut sources.initial,
                Source::Pending => &mut sources.pending,
                Source::Usage => &mut sources.usage,
            };
            if std::mem::replace(flag, true) {
                return refuse(format!("weights_from[{at}]"), "listed twice");
            }
        }
        if listed.is_empty() {
            return refuse("weights_from", "must not be empty");
        }
    }
    Ok(Params {
        mode,
        initial_weights: problem.initial_weights.clone().unwrap_or_default(),
        sources,
        threshold: problem.threshold.unwrap_or(0.5),
        no_improvement: problem.no_improvement.unwrap_or(NoImprovement::Fallback),
        ..Params::default()
    })
}
