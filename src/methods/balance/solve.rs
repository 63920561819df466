// SPDX-License-Identifier: GPL-3.0-or-later
//! Solves a whole problem: a list of jobs, placed one after the other.

use super::answer::{Answer, explained, node_uses, placement};
use super::decision::{Outcome, Request};
use super::params::Mode;
use super::pending::PendingCounts;
use super::problem::{Problem, internal, prepare};
use phalanx_core::NodeSet;
use phalanx_core::problem::InputError;

/// Places the jobs of `problem` one after the other.
///
/// # Errors
/// A field that is not as [`Problem`] says; nothing is placed then.
///
/// # Example
/// ```
/// use phalanx_methods::balance::{Mode, Problem, solve};
/// let problem: Problem<'_> = serde_json::from_str(
///     r#"{"dimensions": ["cpu", "gpu"],
///         "nodes": [{"name": "a", "total": [8, 2], "used": [0, 0]},
///                   {"name": "b", "total": [8, 0], "used": [0, 0]}],
///         "jobs": [{"id": "train", "request": [4, 2]}, {"id": "compile", "request": [4, 0]},
///                  {"id": "late", "request": [1, 1]}]}"#,
/// )?;
/// let answer = solve(&problem, Mode::Best, false)?;
/// assert_eq!(answer.placements[0].nodes, ["a"], "it has the GPUs");
/// assert_eq!(answer.pending, ["late"], "no GPU is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve<'a>(
    problem: &'a Problem<'_>,
    mode: Mode,
    explain: bool,
) -> Result<Answer<'a>, InputError> {
    let mut prepared = prepare(problem, mode)?;
    let candidates = NodeSet::full(problem.nodes.len());
    let attribute = problem.pending_counts.is_none() && prepared.engine.params().sources.pending;
    let mut counts = PendingCounts::new(problem.dimensions.len());
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
        let mut decision = engine.decide(&candidates, &request).map_err(internal)?;
        engine.find_runner_up(&mut decision);
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
        answer.placements.push(placement(problem, job, decision));
    }
    answer.nodes = node_uses(problem, &prepared);
    Ok(answer)
}
