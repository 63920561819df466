// SPDX-License-Identifier: GPL-3.0-or-later
//! Gangs: which multi-task jobs start and where every task runs, by expected social welfare.
//!
//! [`solve`] is a pure function of a problem, a seed and a clock given by the caller. Modes:
//!
//! - [`Mode::Seed`]: the document's genetic algorithm (`seed.rs`);
//! - [`Mode::Ga`]: a genetic algorithm on whole gangs, seeded by dual prices (`ga.rs`);
//! - [`Mode::Exact`]: branch and bound for small problems (`branch.rs`).
//!
//! All answers are complete gangs within capacity; all carry an upper bound from Lagrangian
//! prices (`dual.rs`) that is valid whatever mode found the assignment.

mod branch;
mod bred;
mod clock;
mod counts;
mod crossover;
mod dual;
mod fill;
mod ga;
mod instance;
mod moves;
mod pattern;
mod problem;
mod rework;
mod seed;
mod start;
mod state;
mod task_prices;
mod tree;
mod units;
mod values;

#[cfg(test)]
mod tests;

pub use branch::{EXACT_SERVERS_MAX, EXACT_TASKS_MAX};
pub use instance::TASKS_MAX;
pub use problem::{
    Answer, AnyEdge, Bred, Edge, Explain, GaParams, GroupEdge, Job, JobTerms, Mode, Mutation,
    Options, Placement, Problem, Remaining, SeedParams, Server, SolveError, Stopped, Task,
    TaskTerms,
};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;

use crate::learn::Exploration;

use bred::{Warm, placements};
use clock::Clock;
use dual::Dual;
use ga::Found;
use instance::{Instance, NONE, Terms, used_g};
use state::{Score, State};

/// Search nodes of mode `exact` without a deadline; some ten seconds.
const EXACT_NODES_MAX: u64 = 30_000_000;

/// Decides which gangs start and where their tasks run.
///
/// # Errors
/// [`SolveError::Input`] when the problem is malformed, [`SolveError::TooLarge`] when the mode
/// cannot do its size, [`SolveError::Threads`] when the system refuses threads.
pub fn solve(problem: &Problem, options: &Options<'_>) -> Result<Answer, SolveError> {
    pool(options.threads.max(1))?.install(|| solve_here(problem, options))
}

/// The threads that work side by side, which are kept, since to start them takes longer than many a
/// problem.
///
/// Callers of other names have threads of their own: a short search waits for no long one.
fn pool(threads: usize) -> Result<Arc<ThreadPool>, SolveError> {
    type Pools = BTreeMap<(usize, Option<String>), Arc<ThreadPool>>;
    static POOLS: Mutex<Pools> = Mutex::new(BTreeMap::new());
    let key = (threads, std::thread::current().name().map(str::to_owned));
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&key) {
        return Ok(Arc::clone(pool));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("gang-{i}"))
        .build()
        .map_err(|e| SolveError::Threads { threads, reason: e.to_string() })?;
    Ok(Arc::clone(pools.entry(key).or_insert(Arc::new(pool))))
}

/// Does what [`solve`] does, on the current threads.
fn solve_here(problem: &Problem, options: &Options<'_>) -> Result<Answer, SolveError> {
    problem.validate()?;
    let instance = Instance::compile(problem)?;
    // Shares of the time are shares of what reading the problem left.
    let clock = Clock::new(options.remaining);
    let warm = options.bred.map(|bred| bred.on(problem, &instance)).unwrap_or_default();
    let found = match options.mode {
        Mode::Ga => ga::solve(&instance, options, &warm, clock),
        Mode::Seed => bounded(&instance, seed::solve(&instance, options, clock), clock),
        Mode::Exact => exact(&instance, options, &warm, clock)?,
    };
    Ok(answer(problem, &instance, options, &found))
}

/// Adds a bound to what a mode without prices found.
fn bounded(instance: &Instance, found: Found, clock: Clock<'_>) -> Found {
    let mut state = State::with(instance, &found.server);
    let target = state.rescore(instance).scalar(instance);
    let mut dual = Dual::new(instance);
    start::find_prices(&mut dual, target, clock);
    Found { bound: dual.best.bound, prices: Some(dual.best), ..found }
}

fn exact(
    instance: &Instance,
    options: &Options<'_>,
    warm: &Warm,
    clock: Clock<'_>,
) -> Result<Found, SolveError> {
    let tasks = instance.tasks();
    if tasks > EXACT_TASKS_MAX || instance.servers > EXACT_SERVERS_MAX {
        let (what, got, name, limit) = if tasks > EXACT_TASKS_MAX {
            ("number of tasks", tasks, "EXACT_TASKS_MAX", EXACT_TASKS_MAX)
        } else {
            ("number of servers", instance.servers, "EXACT_SERVERS_MAX", EXACT_SERVERS_MAX)
        };
        let limit = format!("{name} = {limit}");
        return Err(SolveError::TooLarge { mode: "exact", what, got, limit });
    }
    let start = start::Start::new(instance, options, warm, clock);
    let score = start.state.score();
    let stop = || clock.expired();
    let tree = branch::search(instance, &start.prices, &score, EXACT_NODES_MAX, &stop);
    let stopped = match (tree.complete, clock.expired()) {
        (true, _) => Stopped::Converged,
        (false, true) => Stopped::Deadline,
        (false, false) => Stopped::Limit,
    };
    Ok(Found {
        bound: start.bound(),
        others: Vec::new(),
        server: tree.server.unwrap_or(start.state.server),
        proven: tree.complete,
        generations: tree.nodes,
        stopped,
        prices: Some(start.prices),
    })
}

/// Makes the answer of an assignment: its names, and its numbers summed again in input order.
fn answer(problem: &Problem, instance: &Instance, options: &Options<'_>, found: &Found) -> Answer {
    let is_pending = |at: usize| found.server[instance.job_tasks(at).start] == NONE;
    let pending = problem.jobs.iter().zip(0..).filter(|(_, at)| is_pending(*at));
    let mut score = Score { untried: 0, lin: 0.0, s2: 0.0 };
    for (server, ty) in found.server.iter().zip(&instance.task_type).filter(|(s, _)| **s != NONE) {
        if let Some(option) = instance.option_on(*ty as usize, *server) {
            let opt = &instance.opts[option];
            score.untried += u64::from(opt.untried);
            score.lin += opt.lin;
            score.s2 += opt.s2;
        }
    }
    let index = score.index(instance);
    // A proof leaves no room between the two; rounding must not show one.
    let bound = instance.delta + found.bound;
    let bound = if found.proven { index } else { bound.max(index) };
    let known = !instance.has_untried && bound.is_finite();
    Answer {
        assignment: placements(problem, instance, &found.server),
        pending: pending.map(|(job, _)| job.id.clone()).collect(),
        index,
        untried_edges: score.untried,
        mean_welfare: score.lin,
        upper_bound: known.then_some(bound),
        gap: known.then(|| (bound - index) / bound.abs().max(1e-12)),
        proven_optimal: found.proven,
        generations: found.generations,
        stopped: found.stopped,
        bred: options.bred.map(|_| found.bred(problem, instance)).unwrap_or_default(),
        explain: options.explain.then(|| explain(problem, instance, found, &score)),
    }
}

fn explain(problem: &Problem, instance: &Instance, found: &Found, score: &Score) -> Explain {
    let exploration = problem.exploration();
    let bonus_per_s2 = if score.s2 > 0.0 { 1.0 / score.s2.sqrt() } else { 0.0 };
    let mut jobs = Vec::new();
    for (j, job) in problem.jobs.iter().enumerate() {
        let range = instance.job_tasks(j);
        if found.server[range.start] == NONE {
            continue;
        }
        let terms = range.zip(&job.tasks).map(|(task, spec)| {
            let server = found.server[task];
            let ty = instance.task_type[task] as usize;
            let terms = instance.option_on(ty, server).map(|option| {
                let opt = &instance.opts[option];
                Terms { lin: opt.lin, s2: opt.s2, untried: opt.untried }
            });
            let input = &problem.servers[instance.input_of[server as usize] as usize];
            let cost = problem.cost_of(spec);
            let terms = terms.unwrap_or(Terms { lin: -cost, s2: 0.0, untried: 0 });
            TaskTerms {
                server: input.name.clone(),
                count: problem.count_on(spec, input),
                ..task_terms(cost, terms, terms.s2 * bonus_per_s2)
            }
        });
        jobs.push(job_terms(&job.id, terms.collect()));
    }
    Explain {
        delta: exploration.delta(),
        g: exploration.g(),
        m: exploration.m,
        variance: score.s2,
        server_classes: instance.classes as u64,
        jobs,
    }
}

/// Terms of a task by itself on any server of a group, as no other task shares the bonus.
pub fn task_alone(
    problem: &Problem,
    exploration: &Exploration,
    task: &Task,
    edge: &GroupEdge,
) -> TaskTerms {
    let cost = problem.cost_of(task);
    let terms = Terms::new(edge.mean, edge.count, cost, used_g(exploration));
    TaskTerms { count: edge.count, ..task_terms(cost, terms, terms.s2.sqrt()) }
}

fn task_terms(cost: f64, terms: Terms, bonus: f64) -> TaskTerms {
    TaskTerms {
        server: String::new(),
        value: terms.lin + cost,
        count: 0.0,
        cost,
        bonus,
        index: terms.lin + bonus,
        untried: terms.untried > 0,
    }
}

fn job_terms(job: &str, tasks: Vec<TaskTerms>) -> JobTerms {
    let sum = |of: fn(&TaskTerms) -> f64| tasks.iter().map(of).fold(0.0, |a, b| a + b);
    JobTerms {
        job: job.to_owned(),
        value: sum(|t| t.value),
        cost: sum(|t| t.cost),
        bonus: sum(|t| t.bonus),
        untried_edges: tasks.iter().filter(|t| t.untried).count() as u64,
        index: sum(|t| t.index),
        tasks,
    }
}
