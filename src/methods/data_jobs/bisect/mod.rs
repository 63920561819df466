// SPDX-License-Identifier: GPL-3.0-or-later
//! Assigns cores, start times and blocks to data-parallel jobs, so that the last job ends as early
//! as possible.
//!
//! A job is a set of blocks; a block is read locally where a replica is, else over the
//! network first. Cores of one job slow each other down (f(n)), so more is not better.
//!
//! [`solve`] is the whole method as a pure function: the same problem, mode and seed give
//! the same answer; deadline and clock are arguments.
//!
//! # Source
//! `docs/methods.md`, section Data jobs: "bisection on makespan, core weights, block migration and
//! exchange"; the same problem is SJTU CS7310 "Resource Scheduling Problem in Hadoop".

mod anneal;
mod answer;
mod assignment;
mod best;
mod bound;
mod budget;
mod construct;
mod cores;
mod exact;
mod forms;
mod given;
mod instance;
mod options;
mod problem;
pub mod rigid;
mod schedule;
mod seed;
#[cfg(test)]
mod tests;
pub mod turns;
mod weights;

pub use super::attenuation::Attenuation;
pub use answer::{Answer, BlockAnswer, CoreAnswer, Explanation, JobAnswer, ProbeAnswer};
pub use budget::Stopped;
pub use options::{Mode, Options};
pub use problem::{Block, Host, Job, Problem, Start};

use bound::JobBound;
use budget::Budget;
use instance::Instance;
use options::Found;
use phalanx_core::limits::{BISECT_EXACT_UNITS, BISECT_SEED_STEPS_MAX};
use phalanx_core::problem::InputError;
use turns::Turn;

/// An error for which there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// A field cannot be used.
    #[error("{0}")]
    Input(#[from] InputError),
    /// There are blocks, but no core to work on them.
    #[error("{0}")]
    Infeasible(InputError),
    /// The problem is larger than mode `exact` can do; the text names the limit.
    #[error("mode exact: {0}")]
    TooLarge(String),
}

/// Solves a problem.
///
/// # Errors
/// [`SolveError::Input`] when the problem breaks a rule of its format;
/// [`SolveError::Infeasible`] when there are blocks but no cores;
/// [`SolveError::TooLarge`] in mode `exact` only.
///
/// # Example
/// ```
/// use phalanx_methods::data_jobs::bisect::{Mode, Options, Problem, solve};
/// let problem: Problem<'_> = serde_json::from_str(
///     r#"{"hosts": [{"name": "a", "cores": 1}, {"name": "b", "cores": 1}],
///         "jobs": [{"id": "sort", "speed_mb_per_s": 100, "blocks": [
///             {"id": "left", "size_mb": 200, "replicas": ["a"]},
///             {"id": "right", "size_mb": 200, "replicas": ["b"]}]}]}"#,
/// )?;
/// let options = Options { mode: Mode::Best, seed: 1, expired: &|| false, explain: false };
/// let answer = solve(&problem, &options)?;
/// assert_eq!(answer.jobs[0].cores.len(), 2, "each block is read where it lies");
/// assert_eq!(answer.transferred_mb.0, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve<'a>(
    problem: &'a Problem<'_>,
    options: &Options<'_>,
) -> Result<Answer<'a>, SolveError> {
    problem.validate()?;
    let instance = Instance::new(problem);
    if let (true, Some(&i)) = (instance.host_of.is_empty(), instance.queue.first()) {
        let what = "no host has a core to work on them";
        return Err(SolveError::Infeasible(InputError::new(format!("jobs[{i}].blocks"), what)));
    }
    let bounds = bound::of_jobs(&instance);
    let lower = bound::of_all(&instance, &bounds);
    let mut found = match options.mode {
        Mode::Seed => by_seed(&instance, options),
        Mode::Best => best::run(&instance, &bounds, lower, options),
        Mode::Exact => exactly(&instance, &bounds, options)?,
        Mode::RoundRobin => in_turn(&instance, Turn::RoundRobin, "round robin"),
        Mode::Weighted => in_turn(&instance, Turn::Weighted, "weighted round robin"),
    };
    found.schedule.recompute(&instance);
    let end = found.schedule.end;
    let lower = if found.optimal { end } else { lower };
    let mut answer = answer::build(problem, &instance, &found.schedule, lower, &found.probes);
    answer.stopped = found.stopped;
    if options.explain {
        let gap = if lower > 0.0 { (end - lower).max(0.0) / lower } else { 0.0 };
        let proven_optimal = found.optimal || end <= lower;
        answer.explain = Some(Explanation { found_by: found.found_by, gap, proven_optimal });
    }
    Ok(answer)
}

fn by_seed(instance: &Instance, options: &Options<'_>) -> Found {
    let mut budget = Budget::new(BISECT_SEED_STEPS_MAX, options.expired);
    let mut probes = Vec::new();
    let found = seed::run(instance, &mut probes, &mut budget);
    let found_by = if found.is_some() { "seed" } else { "one core each" };
    let schedule = found.unwrap_or_else(|| schedule::one_core_each(instance));
    let stopped = budget.is_over().then(|| budget.reason());
    Found { schedule, probes, found_by, optimal: false, stopped }
}

fn in_turn(instance: &Instance, turn: Turn, found_by: &'static str) -> Found {
    let schedule = turns::run(instance, turn);
    Found { schedule, probes: Vec::new(), found_by, optimal: false, stopped: None }
}

fn exactly(
    instance: &Instance,
    bounds: &[JobBound],
    options: &Options<'_>,
) -> Result<Found, SolveError> {
    exact::is_small(instance).map_err(SolveError::TooLarge)?;
    let mut budget = Budget::new(BISECT_EXACT_UNITS, options.expired);
    let whole = schedule::one_core_each(instance);
    let found = exact::search(instance, bounds, Some(&whole), &mut budget);
    let deadline = budget.deadline;
    let (schedule, optimal) = found.unwrap_or((whole, false));
    if !optimal && !deadline {
        let what = format!("the search takes more than {BISECT_EXACT_UNITS} steps");
        return Err(SolveError::TooLarge(what));
    }
    let stopped = (!optimal).then_some(Stopped::Deadline);
    Ok(Found { schedule, probes: Vec::new(), found_by: "exact search", optimal, stopped })
}
