// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs of a plan of bags: queue, nodes, learned times and powers, settings.

use serde::{Deserialize, Serialize};

use crate::ends::Outlook;
use crate::usage::NodeUsage;
use phalanx_core::snapshot::{Job, Node, Snapshot};
use phalanx_methods::bag::Mode;

/// Time of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// Expected seconds.
    pub seconds: f64,
    /// Runs behind the figure on this class of nodes; 0: the figure is taken from other classes.
    pub count: f64,
}

/// Source of a power figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The mean of the other node classes, since nothing is known of the class itself.
    OtherClasses,
}

/// Power of one task above the idle power of the part of the node that it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watts {
    /// Power of a task, watts.
    pub watts: f64,
    /// Source of the watts.
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
    /// The array runs where its tasks cost least.
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
    /// Money per joule at present.
    pub energy_price: f64,
    /// Prices per joule of the hours to come: seconds until they begin, price.
    pub ahead: Vec<(u64, f64)>,
    /// Money per task, where the job's comment says no more; 0: not known.
    pub task_price: f64,
    /// Whether tasks with a price rather wait than go where the plan does not want them.
    pub required: bool,
    /// Longest time in seconds for which the tasks of an array may wait for the plan, together, and
    /// by which the plan may start one of them later than list scheduling would; `None`: any.
    pub wait_s: Option<f64>,
    /// Treatment of arrays that make a loss.
    pub loss: Loss,
    /// Longest wait of a loss-making array since its submission, seconds.
    pub wait_max_s: u64,
    /// Seconds that a slot stands idle between two tasks.
    pub pause_s: f64,
    /// Arrays that one plan considers, in queue order.
    pub arrays_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Best,
            energy_price: 0.3 / 3.6e6,
            ahead: Vec::new(),
            task_price: 0.0,
            required: false,
            wait_s: None,
            loss: Loss::Run,
            wait_max_s: 3600,
            pause_s: 0.0,
            arrays_max: phalanx_core::limits::BAG_ARRAYS_MAX,
        }
    }
}

/// Inputs of one plan.
#[allow(missing_debug_implementations)] // functions have none
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Queue and nodes.
    pub snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub usages: &'a [NodeUsage],
    /// Time of planning, unix milliseconds.
    pub now_ms: u64,
    /// Expected ends of other jobs.
    pub outlook: &'a Outlook,
    /// Learned and configured values.
    pub knowledge: &'a dyn Knowledge,
    /// Settings.
    pub settings: &'a Settings,
    /// Seconds for which the tasks of an array were held back until now.
    pub held_s: &'a dyn Fn(u32) -> f64,
}
