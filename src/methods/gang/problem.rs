// SPDX-License-Identifier: GPL-3.0-or-later
//! Problem, options, answer and errors of `solve gang`: the types of the library and of the JSON.

use crate::learn::{Exploration, Growth};
use foldhash::fast::RandomState;
use phalanx_core::problem::InputError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Most device kinds of a problem.
pub const KINDS_MAX: usize = 255;

/// The question of one slot: which gangs start, and where every task runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Names of the device kinds; all requests and capacities have this length.
    pub kinds: Vec<String>,
    /// Maintenance cost per device of each kind; empty or absent = zeros.
    #[serde(default)]
    pub cost: Option<Vec<f64>>,
    /// Scheduling round t, from 1.
    #[serde(default = "one")]
    pub slot: u64,
    /// Growth of the exploration bonus.
    #[serde(default)]
    pub g: Growth,
    /// Factor of g(t) inside the root.
    #[serde(default = "one_f64")]
    pub bonus_scale: f64,
    /// m of formula 11; absent = number of tasks of all jobs.
    #[serde(default)]
    pub m: Option<u64>,
    /// Servers with their free devices.
    pub servers: Vec<Server>,
    /// Gangs that wait, in the caller's order.
    pub jobs: Vec<Job>,
}

/// A server and its free devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Unique name.
    pub name: String,
    /// Free devices per kind.
    pub capacity: Vec<f64>,
    /// Name of the group that [`Task::groups`] may refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A gang: all tasks start together or none does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Unique id.
    pub id: String,
    /// Tasks; at least one.
    pub tasks: Vec<Task>,
    /// Whether no two tasks share a server, as on the nodes of a Slurm job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
}

/// A task of a gang. A clone shares its edges and groups.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Devices needed per kind.
    pub request: Vec<f64>,
    /// Servers that may run the task, with what was learned of it there.
    #[serde(default)]
    pub edges: Arc<[Edge]>,
    /// Edges to all servers of a group, except those that `edges` lists.
    #[serde(default, skip_serializing_if = "no_groups")]
    pub groups: Arc<[GroupEdge]>,
    /// An edge to every server that neither `edges` nor `groups` lists.
    #[serde(default)]
    pub any: Option<AnyEdge>,
}

impl PartialEq for Task {
    fn eq(&self, other: &Task) -> bool {
        let same_edges = || Arc::ptr_eq(&self.edges, &other.edges) || self.edges == other.edges;
        let same_groups =
            || Arc::ptr_eq(&self.groups, &other.groups) || self.groups == other.groups;
        self.request == other.request && self.any == other.any && same_groups() && same_edges()
    }
}

/// Permission for a task to run on `server`, with what was learned there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Name of the server.
    pub server: String,
    /// Learned mean value; counts as 0 when `count` is 0.
    pub mean: f64,
    /// Observations behind `mean`; whole in JSON, any amount for a caller in Rust.
    #[serde(deserialize_with = "whole", serialize_with = "as_whole")]
    pub count: f64,
}

/// Mean and count of the edges not listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnyEdge {
    /// Learned mean value; counts as 0 when `count` is 0.
    pub mean: f64,
    /// Observations behind `mean`.
    #[serde(deserialize_with = "whole", serialize_with = "as_whole")]
    pub count: f64,
}

/// A task may run on every server of a group, with the same terms everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEdge {
    /// Name of the group.
    pub group: String,
    /// Learned mean value; counts as 0 when `count` is 0.
    pub mean: f64,
    /// Observations behind `mean`.
    #[serde(deserialize_with = "whole", serialize_with = "as_whole")]
    pub count: f64,
}

fn no_groups(groups: &Arc<[GroupEdge]>) -> bool {
    groups.is_empty()
}

fn one() -> u64 {
    1
}

fn one_f64() -> f64 {
    1.0
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    u64::deserialize(deserializer).map(|n| n as f64)
}

/// Whole counts are written as JSON integers, so that a written problem can be read again.
fn as_whole<S: Serializer>(count: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rounded = count.round().max(0.0) as u64;
    serializer.serialize_u64(rounded)
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// The problem is malformed.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The mode cannot do a problem of this size.
    #[error("{mode}: {what} is {got}, the limit is {limit}")]
    TooLarge {
        /// Name of the mode.
        mode: &'static str,
        /// Name of the things counted, such as servers.
        what: &'static str,
        /// Number of such things in the problem.
        got: usize,
        /// Name and value of the limit.
        limit: String,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} planner threads: {reason}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// The system's reason.
        reason: String,
    },
}

/// How a problem is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The document's genetic algorithm, with bounded retries and repair.
    Seed,
    /// A genetic algorithm on whole gangs, with dual prices and a certified gap.
    #[default]
    #[serde(alias = "best")]
    Ga,
    /// Branch and bound; small problems only.
    Exact,
}

named_modes! { Mode: "ga" => Ga, "seed" => Seed, "exact" => Exact }

/// Time left before the answer is due; `None` = no deadline. Called from several threads.
pub type Remaining<'a> = &'a (dyn Fn() -> Option<Duration> + Sync);

/// Parameters of the genetic algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GaParams {
    /// Lines of plans; above 256 servers at most two.
    pub population: u32,
    /// Number of generations, whatever the deadline: a longer deadline makes each longer.
    pub generations: u32,
    /// Probability of a crossover for each child.
    pub crossover: f64,
    /// Share of the crossovers that exchange servers; the others exchange gangs.
    pub by_servers: f64,
    /// Part of the mutations in which a waiting gang takes its place on full servers.
    pub oust: f64,
}

impl Default for GaParams {
    fn default() -> Self {
        Self { population: 4, generations: 40, crossover: 0.25, by_servers: 0.5, oust: 0.3 }
    }
}

/// Parameters of the document's algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SeedParams {
    /// Chromosomes, P in the document.
    pub population: u32,
    /// Iterations, NI in the document.
    pub generations: u32,
    /// Reading of the paper's mutation: whether a mutation clears a task's other copies.
    pub mutation: Mutation,
}

impl Default for SeedParams {
    fn default() -> Self {
        Self { population: 20, generations: 400, mutation: Mutation::Move }
    }
}

/// Reading of the document's mutation, which sets bits and does not say whether it clears any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mutation {
    /// A mutation removes a task's other copies.
    Move,
    /// A mutation leaves a task's other copies.
    Literal,
}

/// Arguments of [`super::solve`] beside the problem.
#[allow(missing_debug_implementations)] // a clock is a function, which has none
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How to solve.
    pub mode: Mode,
    /// Seed of every random stream; same seed, same answer.
    pub seed: u64,
    /// Worker threads, at least 1; changes the speed only.
    pub threads: usize,
    /// Clock of the caller.
    pub remaining: Remaining<'a>,
    /// Parameters of the `ga` mode.
    pub ga: GaParams,
    /// Parameters of the `seed` mode.
    pub document: SeedParams,
    /// Work after which the search of `ga` ends, in servers evaluated (about 10^8 a second and
    /// thread); `None` = the search's own limit. Unlike a deadline, this limit keeps answers
    /// repeatable.
    pub work_max: Option<u64>,
    /// Population of an earlier search, from which to go on; the answer then has a population.
    pub bred: Option<&'a Bred>,
    /// Whether to fill [`Answer::explain`].
    pub explain: bool,
}

/// Population and prices of a search, by names, for the next one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bred {
    /// Plans of the population, the best first.
    pub plans: Vec<Vec<Placement>>,
    /// Price of the largest server's amount, by kind, on each server.
    pub(super) prices: Vec<(String, Vec<f64>)>,
    /// Slope of the tangent to the root.
    pub(super) theta: f64,
}

impl Problem {
    /// Observations behind the edge of a task to a server; 0 where there is no edge.
    pub fn count_on(&self, task: &Task, server: &Server) -> f64 {
        let own = task.edges.iter().find(|edge| edge.server == server.name).map(|e| e.count);
        let group = || {
            let name = server.group.as_ref()?;
            task.groups.iter().find(|edge| edge.group == *name).map(|e| e.count)
        };
        own.or_else(group).or(task.any.map(|any| any.count)).unwrap_or(0.0)
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            mode: Mode::Ga,
            ga: GaParams::default(),
            document: SeedParams::default(),
            seed: 1,
            threads: 1,
            remaining: &|| None,
            work_max: None,
            bred: None,
            explain: false,
        }
    }
}

/// A started gang: one server per task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Id of the job.
    pub job: String,
    /// Server names, task by task.
    pub tasks: Vec<String>,
}

/// Why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// Nothing better can be found, or nothing better was found for a long time.
    Converged,
    /// The deadline came first.
    Deadline,
    /// The search's own limit came first.
    Limit,
}

/// Share of a started gang in the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobTerms {
    /// Id of the job.
    pub job: String,
    /// Sum of learned means.
    pub value: f64,
    /// Maintenance cost.
    pub cost: f64,
    /// Share of the exploration bonus, in proportion to the variance proxies.
    pub bonus: f64,
    /// Number of the gang's edges that were never tried.
    pub untried_edges: u64,
    /// value - cost + bonus: what the gang adds to the index, without edges that were never tried.
    pub index: f64,
    /// Terms of each task, in the order of the problem.
    pub tasks: Vec<TaskTerms>,
}

/// Share of a task in the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskTerms {
    /// Name of the task's server.
    pub server: String,
    /// Learned mean of the task on its server; 0 where it was never tried.
    pub value: f64,
    /// Observations behind `value`.
    pub count: f64,
    /// Maintenance cost.
    pub cost: f64,
    /// Share of the exploration bonus.
    pub bonus: f64,
    /// value - cost + bonus.
    pub index: f64,
    /// Whether the edge was never tried while exploration is on: compared before the index.
    pub untried: bool,
}

/// Terms behind an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explain {
    /// delta(t).
    pub delta: f64,
    /// Scaled g(t).
    pub g: f64,
    /// m of formula 11.
    pub m: f64,
    /// Sum of the variance proxies of the edges used.
    pub variance: f64,
    /// Number of server equivalence classes.
    pub server_classes: u64,
    /// Started gangs in input order.
    pub jobs: Vec<JobTerms>,
}

/// The answer: gangs that start, gangs that wait, and how good that certainly is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Started gangs in input order.
    pub assignment: Vec<Placement>,
    /// Ids of the gangs that wait, in input order.
    pub pending: Vec<String>,
    /// Formula 13 without the untried edges' infinite part.
    pub index: f64,
    /// Never-tried edges used; compared before `index`.
    pub untried_edges: u64,
    /// Sum of mean - cost.
    pub mean_welfare: f64,
    /// Upper bound of the index of any assignment; null when untried edges exist.
    pub upper_bound: Option<f64>,
    /// (upper_bound - index) / max(1e-12, |upper_bound|).
    pub gap: Option<f64>,
    /// True when no assignment is better.
    pub proven_optimal: bool,
    /// Generations (or search nodes of `exact`) done.
    pub generations: u64,
    /// Why the search ended.
    pub stopped: Stopped,
    /// Population for the next search, where the options ask for one.
    #[serde(skip)]
    pub bred: Bred,
    /// Terms, when asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explain: Option<Explain>,
}

/// Servers by name.
pub struct ServerNames<'a> {
    servers: &'a [Server],
    by_name: HashMap<&'a str, usize, RandomState>,
}

impl<'a> ServerNames<'a> {
    /// Indexes the servers by name; of equal names the first counts.
    pub fn of(servers: &'a [Server]) -> ServerNames<'a> {
        let mut by_name = HashMap::with_capacity_and_hasher(servers.len(), RandomState::default());
        for (i, server) in servers.iter().enumerate() {
            by_name.entry(server.name.as_str()).or_insert(i);
        }
        ServerNames { servers, by_name }
    }

    /// Returns the index of a server; searches for it unless it follows the one found last.
    pub fn find(&self, name: &str, last: Option<usize>) -> Option<usize> {
        let next = last.map_or(0, |last| last + 1);
        let expected = self.servers.get(next).is_some_and(|server| server.name == name);
        if expected { Some(next) } else { self.by_name.get(name).copied() }
    }
}

impl Problem {
    /// The exploration sequences of this slot.
    #[must_use]
    pub fn exploration(&self) -> Exploration {
        let tasks: usize = self.jobs.iter().map(|job| job.tasks.len()).sum();
        let m = self.m.map_or(tasks as f64, |m| m as f64);
        Exploration { growth: self.g, bonus_scale: self.bonus_scale, slot: self.slot as f64, m }
    }

    /// Maintenance cost of a task, the same on all servers.
    pub fn cost_of(&self, task: &Task) -> f64 {
        let prices = self.cost.iter().flatten();
        // From 0: an empty sum of doubles is -0.
        task.request.iter().zip(prices).fold(0.0, |sum, (a, f)| sum + a * f)
    }

    /// Checks everything that the types do not say.
    ///
    /// # Errors
    /// The first bad field, in the order of the document.
    pub fn validate(&self) -> Result<(), InputError> {
        self.validate_head()?;
        let kinds = self.kinds.len();
        let names = ServerNames::of(&self.servers);
        for (i, server) in self.servers.iter().enumerate() {
            if names.by_name.get(server.name.as_str()).is_some_and(|first| *first < i) {
                let message = format!("duplicate server name {:?}", server.name);
                return Err(InputError::new(format!("servers[{i}].name"), message));
            }
            amounts(&format_args!("servers[{i}].capacity"), &server.capacity, kinds)?;
        }
        let groups: HashSet<&str> =
            self.servers.iter().filter_map(|server| server.group.as_deref()).collect();
        let mut ids = HashSet::with_capacity(self.jobs.len());
        // The task that listed a server last, counted from 1.
        let mut listed = vec![0_u64; self.servers.len()];
        let mut checked = 0;
        for (j, job) in self.jobs.iter().enumerate() {
            if !ids.insert(job.id.as_str()) {
                let message = format!("duplicate job id {:?}", job.id);
                return Err(InputError::new(format!("jobs[{j}].id"), message));
            }
            if job.tasks.is_empty() {
                let message = "a gang needs at least one task";
                return Err(InputError::new(format!("jobs[{j}].tasks"), message));
            }
            for (q, task) in job.tasks.iter().enumerate() {
                // Gangs are mostly runs of equal tasks.
                if q > 0 && job.tasks[q - 1] == *task {
                    continue;
                }
                checked += 1;
                self.validate_task((j, q), task, &names, (&mut listed, checked))?;
                validate_groups((j, q), task, &groups)?;
            }
        }
        Ok(())
    }

    fn validate_head(&self) -> Result<(), InputError> {
        let mut seen = HashSet::new();
        if self.kinds.len() > KINDS_MAX {
            let message = format!("must be at most {KINDS_MAX}, got {}", self.kinds.len());
            return Err(InputError::new("kinds", message));
        }
        for (k, kind) in self.kinds.iter().enumerate() {
            if !seen.insert(kind) {
                let message = format!("duplicate kind {kind:?}");
                return Err(InputError::new(format!("kinds[{k}]"), message));
            }
        }
        if let Some(cost) = &self.cost {
            amounts(&"cost", cost, self.kinds.len())?;
        }
        if self.slot == 0 {
            return Err(InputError::new("slot", "must be at least 1, got 0"));
        }
        amount(&"bonus_scale", self.bonus_scale)
    }

    fn validate_task(
        &self,
        (j, q): (usize, usize),
        task: &Task,
        names: &ServerNames<'_>,
        (listed, number): (&mut [u64], u64),
    ) -> Result<(), InputError> {
        amounts(&format_args!("jobs[{j}].tasks[{q}].request"), &task.request, self.kinds.len())?;
        let mut last = None;
        for (e, edge) in task.edges.iter().enumerate() {
            let path = format_args!("jobs[{j}].tasks[{q}].edges[{e}]");
            let Some(server) = names.find(&edge.server, last) else {
                let message = format!("unknown server {:?}", edge.server);
                return Err(InputError::new(format!("{path}.server"), message));
            };
            last = Some(server);
            if std::mem::replace(&mut listed[server], number) == number {
                let message = format!("duplicate edge to server {:?}", edge.server);
                return Err(InputError::new(format!("{path}.server"), message));
            }
            finite(&format_args!("{path}.mean"), edge.mean)?;
            amount(&format_args!("{path}.count"), edge.count)?;
        }
        if let Some(any) = &task.any {
            finite(&format_args!("jobs[{j}].tasks[{q}].any.mean"), any.mean)?;
            amount(&format_args!("jobs[{j}].tasks[{q}].any.count"), any.count)?;
        }
        Ok(())
    }
}

fn validate_groups(
    (j, q): (usize, usize),
    task: &Task,
    groups: &HashSet<&str>,
) -> Result<(), InputError> {
    for (g, edge) in task.groups.iter().enumerate() {
        let path = format_args!("jobs[{j}].tasks[{q}].groups[{g}]");
        let name = edge.group.as_str();
        if !groups.contains(name) {
            return Err(InputError::new(
                format!("{path}.group"),
                format!("unknown group {name:?}"),
            ));
        }
        if task.groups.iter().take(g).any(|other| other.group == name) {
            let message = format!("duplicate edge to group {name:?}");
            return Err(InputError::new(format!("{path}.group"), message));
        }
        finite(&format_args!("{path}.mean"), edge.mean)?;
        amount(&format_args!("{path}.count"), edge.count)?;
    }
    Ok(())
}

fn finite(path: &dyn std::fmt::Display, x: f64) -> Result<(), InputError> {
    if x.is_finite() {
        return Ok(());
    }
    Err(InputError::new(path.to_string(), format!("must be a finite number, got {x}")))
}

fn amount(path: &dyn std::fmt::Display, x: f64) -> Result<(), InputError> {
    finite(path, x)?;
    if x >= 0.0 {
        return Ok(());
    }
    Err(InputError::new(path.to_string(), format!("must be >= 0, got {x}")))
}

fn amounts(path: &dyn std::fmt::Display, xs: &[f64], kinds: usize) -> Result<(), InputError> {
    if xs.len() != kinds {
        let message = format!("must have {kinds} entries, one per kind, got {}", xs.len());
        return Err(InputError::new(path.to_string(), message));
    }
    for (k, x) in xs.iter().enumerate() {
        amount(&format_args!("{path}[{k}]"), *x)?;
    }
    Ok(())
}
