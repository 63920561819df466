// SPDX-License-Identifier: GPL-3.0-or-later
//! A whole problem: nodes and a list of jobs, placed one after the other.
//!
//! The types are the JSON of `phalanx solve balance`.

use serde::{Deserialize, Serialize};

use super::engine::{Branch, Decision, Engine, Outcome, Request};
use super::params::{Mode, NoImprovement, Params, Sources};
use super::pending::PendingCounts;
#[cfg(debug_assertions)]
use crate::verify;
use phalanx_core::problem::{InputError, Name, Number, distinct, length, present};
use phalanx_core::{Amount, NodeIdx, NodeSet, Scale};

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

/// What to do when no node's dispersion falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Least dispersion.
    Fallback,
    /// Pending, unless a node is idle.
    Hold,
}

/// One node of a [`Problem`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node<'a> {
    /// Name, unique.
    #[serde(borrow)]
    pub name: Name<'a>,
    /// Total of each dimension, at least 0.
    pub total: Vec<f64>,
    /// In use of each dimension, from 0 to its total.
    pub used: Vec<f64>,
}

/// One job of a [`Problem`].
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
    pub no_improvement: Option<Rule>,
    /// Where the first poll begins; default 0.
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

/// One placed job.
#[derive(Clone, Debug, Serialize)]
pub struct Placement<'a> {
    /// Id of the job.
    pub id: &'a str,
    /// Names of its nodes, in the order of choice.
    pub nodes: Vec<&'a str>,
    /// Dispersion of each node just before.
    pub dispersion_before: Vec<f64>,
    /// Dispersion of each node just after.
    pub dispersion_after: Vec<f64>,
    /// Weights just before.
    pub weights: Vec<f64>,
    /// Cluster utilization just before.
    pub utilization: f64,
}

/// What is in use of one node at the end.
#[derive(Clone, Debug, Serialize)]
pub struct NodeUse<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// In use of each dimension.
    pub used: Vec<Number>,
}

/// Why one job went where it went.
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
    /// Cluster utilization when deciding.
    pub utilization: f64,
    /// Pending jobs by lacking dimension when deciding.
    pub pending_counts: Vec<u64>,
    /// What was minimised, for each chosen node.
    pub scores: Vec<f64>,
    /// The best node not chosen.
    pub runner_up: Option<Second<'a>>,
}

/// The runner-up of a decision.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Second<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// Its dispersion if the job had gone there.
    pub dispersion_after: f64,
    /// Its score minus that of the last chosen node; below zero when the poll
    /// order decided.
    pub margin: f64,
}

/// The answer to a [`Problem`].
#[derive(Clone, Debug, Serialize)]
pub struct Answer<'a> {
    /// Placed jobs, in input order.
    pub placements: Vec<Placement<'a>>,
    /// Ids of the others, in input order.
    pub pending: Vec<&'a str>,
    /// The nodes at the end, in input order.
    pub nodes: Vec<NodeUse<'a>>,
    /// One entry for each job, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Vec<JobExplain<'a>>>,
}

/// A checked problem in ticks.
struct Prepared {
    scales: Vec<Scale>,
    engine: Engine,
    /// Job-major.
    requests: Vec<Amount>,
}

/// Places the jobs of `problem` one after the other.
///
/// # Errors
/// A field that is not as [`Problem`] says; nothing is placed then.
pub fn solve<'a>(
    problem: &'a Problem<'_>,
    mode: Mode,
    explain: bool,
) -> Result<Answer<'a>, InputError> {
    let mut prepared = prepare(problem, mode)?;
    let candidates = NodeSet::full(problem.nodes.len());
    let attribute = problem.pending_counts.is_none() && prepared.engine.params().sources.pending;
    let mut counts = PendingCounts::new(problem.dimensions.len());
    #[cfg(debug_assertions)]
    let mut check = Check::new(&prepared.engine);
    let mut answer = Answer {
        placements: Vec::with_capacity(problem.jobs.len()),
        pending: Vec::new(),
        nodes: Vec::new(),
        explain: explain.then(Vec::new),
    };
    let dims = problem.dimensions.len();
    for (job, amounts) in problem.jobs.iter().zip(prepared.requests.chunks_exact(dims)) {
        let engine = &mut prepared.engine;
        if attribute {
            engine.set_pending(counts.counts()).map_err(internal)?;
        }
        let nodes = job.nodes.unwrap_or(1);
        let request = Request { nodes, runner_up: explain, ..Request::new(amounts) };
        engine.maintain();
        let decision = engine.decide(&candidates, &request).map_err(internal)?;
        if let Some(entries) = &mut answer.explain {
            entries.push(explained(problem, job, engine.pending(), &decision));
        }
        engine.commit(&request, &decision).map_err(internal)?;
        if decision.choices().is_empty() {
            answer.pending.push(&job.id.0);
            if attribute {
                counts.add(engine, amounts, nodes, decision.outcome == Outcome::Held);
            }
            continue;
        }
        for choice in decision.choices() {
            if attribute {
                counts.node_filled(engine, choice.node);
            }
        }
        #[cfg(debug_assertions)]
        check.placements.push(Check::placement(&job.id.0, &request, &decision));
        answer.placements.push(placement(problem, job, decision));
    }
    #[cfg(debug_assertions)]
    assert_eq!(verify::check(&check.total, &check.used, &check.placements), Ok(()));
    answer.nodes = node_uses(problem, &prepared);
    Ok(answer)
}

/// The engine's errors are about calls that do not fit it: a defect here.
fn internal(error: super::EngineError) -> InputError {
    InputError::new("problem", format!("internal error: {error}"))
}

fn placement<'a>(problem: &'a Problem<'_>, job: &'a Job<'_>, decision: Decision) -> Placement<'a> {
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

fn explained<'a>(
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

fn node_uses<'a>(problem: &'a Problem<'_>, prepared: &Prepared) -> Vec<NodeUse<'a>> {
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

fn prepare(problem: &Problem<'_>, mode: Mode) -> Result<Prepared, InputError> {
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

/// Requests beyond every total need not be told apart: totals fix the scale.
fn scale(problem: &Problem<'_>, dim: usize) -> Scale {
    let nodes = || problem.nodes.iter().flat_map(|node| [node.total[dim], node.used[dim]]);
    let requests = problem.jobs.iter().map(|job| job.request[dim]);
    let largest = nodes().fold(0.0, f64::max);
    Scale::for_numbers(nodes().chain(requests.filter(|&number| number <= largest)), largest)
}

fn check_lists(problem: &Problem<'_>) -> Result<(), InputError> {
    let dims = problem.dimensions.len();
    if dims == 0 {
        return Err(InputError::new("dimensions", "must not be empty"));
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
            return Err(InputError::new(format!("jobs[{at}].nodes"), "must be >= 1, got 0"));
        }
    }
    let nodes = problem.nodes.len();
    if let Some(start) = problem.start
        && start >= nodes.max(1)
    {
        let what = format!("must be below the number of nodes, {nodes}, got {start}");
        return Err(InputError::new("start", what));
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
                return Err(InputError::new(format!("nodes[{at}].used[{dim}]"), what));
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
            return Err(InputError::new("initial_weights", format!("must sum to 1, got {sum}")));
        }
    }
    if let Some(threshold) = problem.threshold
        && threshold < 0.0
    {
        return Err(InputError::new("threshold", format!("must be >= 0, got {threshold}")));
    }
    Ok(())
}

fn not_negative(numbers: &[f64], path: impl Fn() -> String) -> Result<(), InputError> {
    match numbers.iter().position(|&number| number < 0.0) {
        None => Ok(()),
        Some(at) => {
            let what = format!("must be >= 0, got {}", numbers[at]);
            Err(InputError::new(format!("{}[{at}]", path()), what))
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
                return Err(InputError::new(format!("weights_from[{at}]"), "listed twice"));
            }
        }
        if listed.is_empty() {
            return Err(InputError::new("weights_from", "must not be empty"));
        }
    }
    Ok(Params {
        mode,
        initial_weights: problem.initial_weights.clone().unwrap_or_default(),
        sources,
        threshold: problem.threshold.unwrap_or(0.5),
        no_improvement: match problem.no_improvement {
            Some(Rule::Hold) => NoImprovement::Hold,
            Some(Rule::Fallback) | None => NoImprovement::Fallback,
        },
        ..Params::default()
    })
}

/// What the independent checker needs; it runs in debug builds.
#[cfg(debug_assertions)]
struct Check {
    total: Vec<Vec<u64>>,
    used: Vec<Vec<u64>>,
    placements: Vec<verify::Placement>,
}

#[cfg(debug_assertions)]
impl Check {
    fn new(engine: &Engine) -> Self {
        let rows = |ticks: &[u64]| ticks.chunks_exact(engine.dims()).map(<[u64]>::to_vec).collect();
        Self { total: rows(&engine.total), used: rows(&engine.used), placements: Vec::new() }
    }

    fn placement(id: &str, request: &Request<'_>, decision: &Decision) -> verify::Placement {
        verify::Placement {
            job: id.to_owned(),
            nodes: decision.choices().iter().map(|choice| choice.node.at()).collect(),
            nodes_wanted: request.nodes,
            request: request.amounts.iter().map(|amount| amount.ticks()).collect(),
            whole_node: false,
            candidates: None,
        }
    }
}
