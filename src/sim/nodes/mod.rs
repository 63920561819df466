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
mod inputs;
mod jobs;
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

use std::collections::BTreeSet;

pub use jobs::{Inputs, NodeJob, NodeLoad, Ran};
pub use leaves::LeafFigures;
pub use record::Outcome;

use phalanx_core::snapshot::{Job, Node};
use phalanx_methods::data_jobs::bisect::rigid;
use phalanx_methods::learn::ClassKey;
use phalanx_planner::bag;
use phalanx_planner::gang::{Belief, Beliefs, Settings as GangSettings};
use phalanx_planner::place::Tuning;
use phalanx_planner::preference::JobClassRule;

use super::policy::{Order, Policy};
use super::slurm::Rules;
use choose::Rule;

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
