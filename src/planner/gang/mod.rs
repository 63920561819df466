// SPDX-License-Identifier: GPL-3.0-or-later
//! Pending multi-node and het jobs as gangs: who starts now, and on which nodes.
//!
//! Source: `methods.md` section 1 (f). A multi-node job is a gang of equal
//! tasks, one for each of its nodes; a het job is one gang of all its
//! components' nodes, component 0 being the parameter server. Jobs of one node
//! take part where knowledge tells their classes of nodes apart. Nodes that
//! are alike to every job in question are one group of the problem, so that
//! 10,000 nodes do not mean 10,000 edges for each task. The welfare of a gang
//! is what it pays times its relative speed, less the maintenance cost; the
//! payment itself cancels between user and cluster.

mod billing;
mod model;
mod preferences;
mod problem;
mod reserved;
mod terms;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::preference::{JobClassRule, Method, MethodPlan, MethodReport};
use crate::usage::NodeUsage;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::{Job, Node, Snapshot};
use phalanx_methods::gang::{self, Options, Remaining};
use phalanx_methods::learn::Growth;

use model::Model;

/// Knowledge of one job type on one class of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Belief {
    /// Mean speed, 1 on the best class known.
    pub speed: f64,
    /// Runs behind it; 0 = never tried on this class.
    pub count: f64,
}

/// Learned values, by names.
pub trait Beliefs {
    /// Type of a job.
    fn job_type(&self, job: &Job) -> String;
    /// The rule by which jobs are classed, as far as a question has the data.
    fn job_class_rule(&self) -> JobClassRule;
    /// Class of a node.
    fn node_class(&self, node: &Node) -> String;
    /// Knowledge of a job type on a class of nodes.
    fn belief(&self, job_type: &str, node_class: &str) -> Belief;
    /// Runs learned from: the slot t of the method, less one.
    fn runs(&self) -> u64;
    /// End of the latest run that asked for this GRES kind, unix seconds.
    fn asked_s(&self, _gres: &str) -> Option<i64> {
        None
    }
}

/// Settings of the gang method.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `best` or `seed`.
    pub mode: gang::Mode,
    /// Seed of the search.
    pub seed: u64,
    /// Threads of the search.
    pub threads: usize,
    /// Exploration; 0 switches it off.
    pub bonus_scale: f64,
    /// Payment per unit of a resource by dimension name, as TRESBillingWeights
    /// (memory per GiB). Empty: those of the partitions; where none has any
    /// the largest share of an average node.
    pub billing: BTreeMap<String, f64>,
    /// A job of the highest priority pays this much more than one of priority
    /// 0, as a part.
    pub priority_weight: f64,
    /// Maintenance cost per unit, likewise by name.
    pub cost: BTreeMap<String, f64>,
    /// Multiplies what jobs of a QOS pay, by its name, as Slurm's UsageFactor; 1 where not listed.
    pub qos: BTreeMap<String, f64>,
    /// Jobs that one plan looks at, in queue order.
    pub jobs_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: gang::Mode::Best,
            seed: 1,
            threads: 1,
            bonus_scale: phalanx_methods::learn::BONUS_SCALE_SHIPPED,
            billing: BTreeMap::new(),
            priority_weight: 1.0,
            cost: BTreeMap::new(),
            qos: BTreeMap::new(),
            jobs_max: 10_000,
        }
    }
}

/// Node names of each gang's tasks in an earlier plan, by job id.
pub type Last = BTreeMap<u32, Vec<Arc<str>>>;

/// Inputs of one plan.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Queue and nodes.
    pub snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub usages: &'a [NodeUsage],
    /// Unix milliseconds.
    pub now_ms: u64,
    /// Learned values.
    pub beliefs: &'a dyn Beliefs,
    /// Settings.
    pub settings: &'a Settings,
    /// Time left.
    pub remaining: Remaining<'a>,
    /// The plan before this one, to start from.
    pub last: &'a Last,
}

impl std::fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { now_ms, settings, .. } = self;
        f.debug_struct("Inputs")
            .field("now_ms", now_ms)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}

/// Plans the gangs of a snapshot.
pub fn plan(inputs: &Inputs<'_>) -> (MethodPlan, Last) {
    let begun = (inputs.remaining)();
    let model = Model::new(inputs);
    let mode = match inputs.settings.mode {
        gang::Mode::Seed => "seed",
        gang::Mode::Best => "best",
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

/// Time that the search leaves: to make preferences of its answer takes about as long as it took since
/// `begun` to make the problem.
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

fn last_of(snapshot: &Snapshot, model: &Model<'_>, places: &[Vec<u32>]) -> Last {
    let name = |&node: &u32| snapshot.nodes.get(node as usize).map(|n| Arc::clone(&n.name));
    let pairs = model.gangs.iter().zip(places).filter(|(_, nodes)| !nodes.is_empty());
    pairs.map(|(gang, nodes)| (gang.id, nodes.iter().filter_map(name).collect())).collect()
}

/// The method's growth of exploration.
fn growth(settings: &Settings) -> Growth {
    if settings.bonus_scale > 0.0 { Growth::Source } else { Growth::None }
}

#[cfg(test)]
mod tests;
