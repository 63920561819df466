// SPDX-License-Identifier: GPL-3.0-or-later
//! A round of planning, in which every method takes part.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::daemon::measured_values::MeasuredValues;
use crate::daemon::state::core_speeds::CoreSpeeds;
use crate::daemon::state::inputs::DataInputs;
use phalanx_config::Config;
use phalanx_core::number::seconds_of;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::learn::Speeds;
use phalanx_planner::data_jobs::Capability;
use phalanx_planner::ends::Outlook;
use phalanx_planner::preference::{JobKey, Method, MethodPlan, MethodReport};
use phalanx_planner::usage::NodeUsage;

/// Inverse of the largest part of one CPU that planning takes: after a plan of `t` there is a pause
/// of at least `(PLAN_SHARE - 1) t`.
pub const PLAN_SHARE: u32 = 20;
/// Longest time of one plan, without the methods' own searches: a fifth of the time between two
/// plans.
pub const PLAN_DEADLINE: Duration = Duration::from_millis(200);

/// Inputs of one round of planning.
#[allow(missing_debug_implementations)] // functions have none
#[derive(Clone, Copy)]
pub struct Round<'a> {
    /// Configuration in force.
    pub config: &'a Config,
    /// Queue and nodes.
    pub snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub usages: &'a [NodeUsage],
    /// Speeds learned from jobs that ended.
    pub speeds: &'a Speeds,
    /// Nodes that failed jobs, which run or wait again, by job id.
    pub failed_on: &'a BTreeMap<u32, Vec<Arc<str>>>,
    /// Speeds of data-parallel jobs.
    pub core_speeds: &'a CoreSpeeds,
    pub inputs: &'a DataInputs,
    /// Source of the speeds of data-parallel jobs on the nodes.
    pub data_capability: &'a Capability,
    /// Data measured on the nodes, for the methods that use it.
    pub measured: &'a MeasuredValues,
    /// Expected ends of jobs by learned runtimes, if these may decide.
    pub outlook: &'a Outlook,
    /// Mean seconds between two jobs on a slot while others wait.
    pub pause_s: f64,
    /// Seconds for which the tasks of an array were held by its plan.
    pub held_s: &'a dyn Fn(u32) -> f64,
    /// Whether a job, or a task of an array, has begun, even if no poll has shown it yet: `usages`
    /// counts it then.
    pub has_begun: &'a dyn Fn(JobKey) -> bool,
    /// Plans of the methods that came before in the round.
    pub done: &'a [MethodPlan],
    /// Time of the round, unix milliseconds.
    pub now_ms: u64,
}

impl Round<'_> {
    /// Returns the time of the round, unix seconds.
    pub fn now_s(&self) -> i64 {
        seconds_of(self.now_ms)
    }
}

/// A method; it may keep state for its next round.
pub trait PlacementMethod: Send {
    /// Plans the pending jobs.
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan;
    /// Notes that the plan is in force at the link.
    fn in_force(&mut self, _round: &Round<'_>) {}
}

/// Returns the plan of a method that is switched off or has nothing to plan.
pub fn no_plan(method: Method) -> MethodPlan {
    MethodPlan::new(method, MethodReport::default())
}
