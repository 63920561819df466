// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs of a plan of gangs: queue, nodes, learned speeds and settings.

use std::collections::BTreeMap;

use crate::preference::JobClassRule;
use crate::usage::NodeUsage;
use phalanx_core::snapshot::{Job, Node, Snapshot};
use phalanx_methods::gang::{self, Remaining};
use phalanx_methods::learn::Growth;

/// Knowledge of one job type on one class of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Belief {
    /// Mean speed, 1 on the best class known.
    pub speed: f64,
    /// Runs behind the speed; 0 = the type was never tried on the class.
    pub count: f64,
    /// Standard error of the speed, relative to the speed, where it is known.
    pub error: Option<f64>,
}

/// Learned values, by names.
pub trait Beliefs {
    /// Type of a job that gets `nodes` nodes; `None`: the number that it has or asks for.
    fn job_type(&self, job: &Job, nodes: Option<u32>) -> String;
    /// The rule by which jobs are classed, as far as a question's data allow.
    fn job_class_rule(&self) -> JobClassRule;
    /// Class of a node.
    fn node_class(&self, node: &Node) -> String;
    /// Knowledge of a job type on a class of nodes.
    fn belief(&self, job_type: &str, node_class: &str) -> Belief;
    /// Number of runs that speeds were learned from: the slot t of the method, less one.
    fn runs(&self) -> u64;
    /// End of the latest run that asked for a GRES kind, unix seconds.
    fn asked_s(&self, _gres: &str) -> Option<i64> {
        None
    }
}

/// Settings of the gang method.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `ga` or `seed`.
    pub mode: gang::Mode,
    /// Parameters of the genetic algorithm.
    pub ga: gang::GaParams,
    /// Seed of the search.
    pub seed: u64,
    /// Threads of the search.
    pub threads: usize,
    /// Growth of the exploration bonus.
    pub g: Growth,
    /// Factor of the exploration bonus; 0 switches the bonus off.
    pub bonus_scale: f64,
    /// Payment per unit of a resource by dimension name, as TRESBillingWeights (memory per GiB).
    /// Empty: those of the partitions; where none has any, the largest share of an average node.
    pub billing: BTreeMap<String, f64>,
    /// Maintenance cost per unit of a resource, by dimension name.
    pub cost: BTreeMap<String, f64>,
    /// Gangs that are worth less than their cost on every node with room are to wait.
    pub enforce_admission: bool,
    /// Whether jobs start in the order of the plan, for which equal nodes are planned too.
    pub orders: bool,
    /// Jobs that one plan considers, in queue order.
    pub jobs_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: gang::Mode::Ga,
            ga: gang::GaParams::default(),
            seed: 1,
            threads: 1,
            g: Growth::Source,
            bonus_scale: phalanx_methods::learn::BONUS_SCALE_SHIPPED,
            billing: BTreeMap::new(),
            cost: BTreeMap::new(),
            enforce_admission: false,
            orders: true,
            jobs_max: 10_000,
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
    /// Learned values.
    pub beliefs: &'a dyn Beliefs,
    /// Settings.
    pub settings: &'a Settings,
    /// Time left.
    pub remaining: Remaining<'a>,
    /// Population of the previous search, to start from.
    pub bred: &'a gang::Bred,
}

impl Settings {
    /// Whether gangs are planned among nodes that are all alike to them.
    pub fn plans_alike(&self) -> bool {
        self.orders || self.enforce_admission
    }

    /// The growth of exploration.
    pub(super) fn growth(&self) -> Growth {
        if self.bonus_scale > 0.0 { self.g } else { Growth::None }
    }
}
