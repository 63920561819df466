// SPDX-License-Identifier: GPL-3.0-or-later
//! Job arrays as bags of tasks: how many of their waiting tasks each class of
//! nodes gets, so that profit per time is highest.
//!
//! Source: `methods.md` section 4 (e) and (f). Machine types are classes of
//! nodes, a user is an array; the whole plan is made anew for every snapshot
//! over all tasks that have not started, with the time that the running ones
//! still need as initial load. Everything then shrinks in proportion as tasks
//! end, so that the best split stays the best. Jobs that are no task of a known
//! array take their CPUs out of the count.

mod model;
mod preferences;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ends::Outlook;
use crate::preference::{Method, MethodPlan, MethodReport};
use crate::usage::NodeUsage;
use phalanx_core::snapshot::{Job, Node, Snapshot};
use phalanx_methods::bag::{self, Mode, Options, SolveError};

use model::Model;

/// Time of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// Expected seconds.
    pub seconds: f64,
    /// Runs on this class of nodes behind it; 0: taken from other classes.
    pub count: f64,
}

/// Source of a power figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WattsFrom {
    /// Energy of ended jobs by Slurm's accounting.
    Accounting,
    /// Slurm's reading of the nodes (`CurrentWatts`).
    Slurm,
    /// A collected value.
    Metric,
    /// The configuration.
    #[default]
    Configuration,
}

/// Power of one task above the idle power of what it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watts {
    /// Watts.
    pub watts: f64,
    /// Its source.
    pub from: WattsFrom,
}

/// Learned and configured values, by names.
pub trait Knowledge {
    /// Class of a job.
    fn job_class(&self, job: &Job) -> String;
    /// Class of a node.
    fn node_class(&self, node: &Node) -> String;
    /// Time of a task; `None` where nothing is known of the class.
    fn seconds(&self, job_class: &str, node_class: &str) -> Option<Seconds>;
    /// Power of a task that takes `share` of a node.
    fn watts(&self, job_class: &str, node_class: &str, share: f64) -> Option<Watts>;
    /// Idle power of a node, watts.
    fn idle_watts(&self, node_class: &str) -> f64;
}

/// Treatment of an array that makes a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Loss {
    /// Runs where it costs least.
    #[default]
    Run,
    /// Waits for a cheaper hour while one is near.
    Wait,
}

/// Settings of the bag method.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Form of the method.
    pub mode: Mode,
    /// Money per joule, now.
    pub energy_price: f64,
    /// Prices per joule of the hours to come: seconds until they begin, price.
    pub ahead: Vec<(u64, f64)>,
    /// Money per task, where neither the job's comment nor `price` says more.
    pub task_price: f64,
    /// Money per unit and hour by TRES name (memory per GiB).
    pub price: BTreeMap<String, f64>,
    /// Without any price a task earns this many times its least energy cost.
    pub margin: f64,
    /// Tasks rather wait than go where the plan does not want them.
    pub required: bool,
    /// Treatment of arrays that make a loss.
    pub loss: Loss,
    /// Longest wait of a loss-making array since its submission, seconds.
    pub wait_max_s: u64,
    /// Longest mean power of the plan above idle, watts.
    pub power_cap: Option<f64>,
    /// Seconds that a slot stands idle between two tasks.
    pub pause_s: f64,
    /// Arrays that one plan looks at, in queue order.
    pub arrays_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Best,
            energy_price: 0.3 / 3.6e6,
            ahead: Vec::new(),
            task_price: 0.0,
            price: BTreeMap::new(),
            margin: 1.3,
            required: false,
            loss: Loss::Run,
            wait_max_s: 3600,
            power_cap: None,
            pause_s: 0.0,
            arrays_max: phalanx_core::limits::BAG_ARRAYS_MAX,
        }
    }
}

/// Inputs of one plan.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Queue and nodes.
    pub snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub usages: &'a [NodeUsage],
    /// Unix milliseconds.
    pub now_ms: u64,
    /// Expected ends of other jobs.
    pub outlook: &'a Outlook,
    /// Learned and configured values.
    pub knowledge: &'a dyn Knowledge,
    /// Settings.
    pub settings: &'a Settings,
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

/// A model, its problem solved, and the tasks of each array on each class.
struct Solved<'a> {
    model: Model<'a>,
    split: Vec<Vec<u64>>,
    report: MethodReport,
}

impl Solved<'_> {
    /// Profit per second.
    fn value(&self) -> f64 {
        self.report.objective.unwrap_or(0.0)
    }
}

/// Plans with the CPUs that others give back within `horizon_s`; `None` if there
/// is nothing to plan. The error comes with the number of arrays.
fn solve<'a>(
    inputs: &Inputs<'a>,
    report: &MethodReport,
    horizon_s: f64,
) -> Result<Option<Solved<'a>>, (SolveError, u64)> {
    let model = Model::new(inputs, horizon_s);
    if model.bags.is_empty() || (horizon_s > 0.0 && model.given_back == 0.0) {
        return Ok(None);
    }
    let (problem, rows) = model.problem();
    let jobs = model.bags.len() as u64;
    let options = Options { mode: inputs.settings.mode, explain: false };
    let answer = bag::solve(&problem, &options).map_err(|error| (error, jobs))?;
    let split = model.split(&answer, &rows);
    let mut report = MethodReport { jobs, ..report.clone() };
    schedule::fill(&mut report, inputs, &model, &answer, &split);
    Ok(Some(Solved { model, split, report }))
}

/// Plans the arrays of a snapshot: with the CPUs that other jobs do not hold,
/// and again with those that they are expected to give back before that plan
/// ends. The better plan counts.
pub fn plan(inputs: &Inputs<'_>) -> MethodPlan {
    let mut report = MethodReport {
        method: Method::Bag.as_str().to_owned(),
        mode: name_of(inputs.settings.mode).to_owned(),
        ..MethodReport::default()
    };
    let first = solve(inputs, &report, 0.0);
    let horizon_s = match &first {
        Ok(Some(found)) => found.report.terms.get("makespan_s").copied().unwrap_or(0.0),
        _ => f64::INFINITY,
    };
    let later = solve(inputs, &report, horizon_s);
    let best = match (first, later) {
        (Ok(Some(first)), Ok(Some(later))) if later.value() > first.value().max(0.0) => {
            Ok(Some(later))
        }
        (Ok(None), later) => later,
        (first, _) => first,
    };
    let preferences = match best {
        Ok(Some(found)) => {
            report = found.report;
            preferences::make(inputs, &found.model, &found.split, &report)
        }
        Ok(None) => Vec::new(),
        Err((error, jobs)) => {
            report.jobs = jobs;
            report.error = Some(error.to_string());
            Vec::new()
        }
    };
    report.starts = preferences.len() as u64;
    MethodPlan { preferences, ..MethodPlan::new(Method::Bag, report) }
}
fn name_of(mode: Mode) -> &'static str {
    Mode::ALL.iter().find(|(_, known)| *known == mode).map_or("", |(name, _)| name)
}
