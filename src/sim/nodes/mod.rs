// SPDX-License-Identifier: GPL-3.0-or-later
//! Batch jobs on a cluster of nodes with CPUs, memory and GRES: the planner's
//! filters, choice of nodes, gangs and order, in simulated time.
//!
//! [`load`] makes clusters and jobs, [`accounted`] those of an accounting, [`engine`] runs them,
//! [`choose`] has placement rules, [`line`] the order of starts, [`usage`] adds up what was in use.

pub mod accounted;
pub mod choose;
mod chooser;
mod classes;
pub mod engine;
pub mod inputs;
mod learned;
mod leaves;
pub mod line;
pub mod live;
pub mod load;
mod record;
pub mod recorded;
pub mod reserve;
mod slurmctld;
mod stock;
pub mod usage;

use std::collections::{BTreeMap, BTreeSet};

pub use leaves::LeafFigures;

use phalanx_core::snapshot::{Job, Node, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_core::trace::{LeftOut, Reasons};
use phalanx_methods::data_jobs::bisect::rigid;
use phalanx_methods::learn::ClassKey;
use phalanx_methods::learn::runtime::JobClass;
use phalanx_planner::bag;
use phalanx_planner::cluster::RunningJob;
use phalanx_planner::gang::{Belief, Beliefs, Settings as GangSettings};
use phalanx_planner::place::Tuning;
use phalanx_planner::preference::JobClassRule;

use super::policy::{Order, Policy};
use super::slurm::Rules;
use choose::Rule;

/// A job, and its course once it runs.
#[derive(Debug, Clone, Default)]
pub struct NodeJob {
    /// The job as the planner sees it while the job waits.
    pub job: Job,
    /// Seconds that the job runs from its start (or, if it runs already, from the beginning of the
    /// simulation); at least 1, at most the limit.
    pub run_s: u64,
    /// Time limit, seconds from the job's start.
    pub limit_s: u64,
    /// Class by which runtimes are predicted.
    pub class: JobClass,
    /// Seconds that the job is expected to run, where that is known; else the simulation learns.
    pub expected_s: Option<f64>,
    /// Resources that the job holds at the beginning, if it runs already.
    pub held: Option<RunningJob>,
    /// Whether the job still ran at the end of the period, so that `run_s` is not all of it.
    pub unfinished: bool,
    /// Whether the job is not of the input but a likely arrival.
    pub sampled: bool,
    /// Start and nodes by the accounting.
    pub ran: Option<Ran>,
    /// Number of the job's input, if it has one.
    pub input: Option<u64>,
}

/// Start and nodes that a job really had.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// Start, Unix seconds.
    pub start_s: i64,
    /// Indexes of the job's nodes; empty where they are not known.
    pub nodes: Vec<u32>,
}

/// A cluster and its jobs by submission.
#[derive(Debug, Clone, Default)]
pub struct NodeLoad {
    /// Nodes, partitions, reservations, licences; no jobs.
    pub cluster: Snapshot,
    /// Jobs by submission; jobs of one second in the input's order.
    pub jobs: Vec<NodeJob>,
    /// Jobs of the input that can never run, and lines that cannot be read.
    pub skipped: u64,
    /// Jobs of an accounting that are left out, by reason.
    pub reasons: Reasons,
    /// Lines of the input that cannot be read.
    pub left_out: LeftOut,
    /// Number of jobs by the part of their request that is not modelled.
    pub unmodelled: BTreeMap<String, u64>,
    /// Whether memory is a resource.
    pub memory_tracked: bool,
    /// Watts of each node: idle, and with all CPUs in use; empty: not known.
    pub watts: Vec<[f64; 2]>,
    /// Speed of each node, relative to the log's nodes; empty: all are alike.
    pub speeds: Vec<f64>,
    /// Inputs of the jobs, if they have any.
    pub inputs: Option<inputs::Inputs>,
    /// Seconds that a node stays idle between two jobs.
    pub turnaround_s: u64,
    /// Beginning, Unix seconds.
    pub begin_s: i64,
    /// End of the period that the input covers, Unix seconds, after which use does not count.
    /// `None`: until the last job has ended.
    pub until_s: Option<i64>,
    /// Leaf switches or blocks of the nodes, where they count.
    pub topology: Option<Topology>,
}

/// Order, choice of nodes and settings of a simulation on nodes.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Order of starts.
    pub order: Order,
    /// Rules of slurmctld, for Slurm's order.
    pub rules: Rules,
    /// Choice of nodes; `None`: the balance engine.
    pub rule: Option<Rule>,
    /// Tuning of the balance engine.
    pub tuning: Tuning,
    /// Settings of the plan of gangs; `None`: gangs are not planned.
    pub gangs: Option<GangSettings>,
    /// Settings of the plan of arrays; `None`: arrays are not planned.
    pub bags: Option<bag::Settings>,
    /// Rule by which data jobs are planned; `None`: data jobs are not planned.
    pub data: Option<rigid::Rule>,
    /// Longest time for which one user's jobs hold one partition, milliseconds.
    pub hold_budget_ms: u64,
    /// Partitions whose jobs Slurm places by itself.
    pub left_to_slurm: BTreeSet<String>,
}

impl Setup {
    /// Makes the setup of a policy under a configuration's tuning, gang settings and rules of
    /// order.
    pub fn of(policy: &Policy, tuning: &Tuning, gangs: &GangSettings, rules: &Rules) -> Self {
        let mut tuning = tuning.clone();
        tuning.params.mode = policy.balance;
        let gangs = policy.gangs.map(|mode| GangSettings { mode, ..gangs.clone() });
        let Policy { order, rule, data, .. } = *policy;
        let bags = policy.bags.map(|mode| bag::Settings { mode, ..bag::Settings::default() });
        let rules = rules.of(order);
        let (hold_budget_ms, left_to_slurm) = (u64::MAX, BTreeSet::new());
        Self { order, rules, rule, tuning, gangs, bags, data, hold_budget_ms, left_to_slurm }
    }

    /// Sets the plan of arrays; where watts are known, tasks may wait for it as the daemon lets
    /// them.
    pub fn plan_bags(&mut self, settings: &bag::Settings, hold_budget_s: u32, load: &NodeLoad) {
        self.hold_budget_ms = u64::from(hold_budget_s) * 1000;
        let Some(own) = &mut self.bags else { return };
        *own = bag::Settings { mode: own.mode, ..settings.clone() };
        let brief_s = own.wait_s.filter(|_| !load.watts.is_empty());
        let brief_ms = brief_s.map(|seconds| phalanx_core::number::whole(seconds * 1e3));
        self.tuning.brief_hold_ms = self.tuning.brief_hold_ms.or(brief_ms);
    }
}

/// Beliefs where no speeds were learned: all nodes are alike to all jobs.
#[derive(Debug, Clone, Copy, Default)]
struct NoBeliefs;

impl Beliefs for NoBeliefs {
    fn job_type(&self, job: &Job, _: Option<u32>) -> String {
        job.name.to_string()
    }

    fn job_class_rule(&self) -> JobClassRule {
        JobClassRule::new(&[ClassKey::Name])
    }

    fn node_class(&self, _: &Node) -> String {
        String::new()
    }

    fn belief(&self, _: &str, _: &str) -> Belief {
        Belief { speed: 1.0, ..Belief::default() }
    }

    fn runs(&self) -> u64 {
        0
    }
}
