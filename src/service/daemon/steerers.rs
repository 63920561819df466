// SPDX-License-Identifier: GPL-3.0-or-later
//! The methods of placement: each plans in its own way, in the plan thread.
//!
//! A method joins by one more entry in [`all`]; what it hands back goes to the
//! link, where [`preference::decide`](phalanx_planner::preference::decide) follows it.

use std::sync::Arc;

use crate::api::types::PreferenceReport;
use crate::config::Config;
use crate::daemon::bags::Bags;
use crate::daemon::data::DataShared;
use crate::daemon::data_steer::DataJobs;
use crate::daemon::gangs::Gangs;
use crate::daemon::measures::Measures;
use crate::daemon::state::Shared;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::learn::Speeds;
use phalanx_planner::backfill_window;
use phalanx_planner::ends::Outlook;
use phalanx_planner::preference::{MethodPlan, PreferenceUse, Unused};
use phalanx_planner::usage::NodeUsage;

/// What a round of planning is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round<'a> {
    /// Configuration in force.
    pub(super) config: &'a Config,
    /// Queue and nodes.
    pub(super) snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub(super) usages: &'a [NodeUsage],
    /// What was learned from jobs that ended.
    pub(super) speeds: &'a Speeds,
    /// Inputs of data-parallel jobs.
    pub(super) data: &'a DataShared,
    /// What was measured on the nodes, for the methods that go by it.
    pub(super) measures: &'a Measures,
    /// What learned runtimes say of the jobs, as far as they decide.
    pub(super) outlook: &'a Outlook,
    /// Mean seconds between two jobs on a slot while others wait.
    pub(super) pause_s: f64,
    /// Plans of the methods before in this round.
    pub(super) done: &'a [MethodPlan],
    /// Unix milliseconds.
    pub(super) now_ms: u64,
}

impl Round<'_> {
    /// Unix seconds.
    pub(super) fn now_s(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }
}

/// A method; it may keep what helps its next round.
pub(super) trait Steerer: Send {
    /// Plans the pending jobs.
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan;
    /// Its answer is in force at the link now.
    fn in_force(&mut self, _round: &Round<'_>) {}
}

/// Every method, in the order in which they plan.
pub(super) fn all(shared: &Shared) -> Vec<Box<dyn Steerer>> {
    let bags = Box::new(Bags::new(Arc::clone(&shared.power)));
    vec![Box::new(DataJobs::default()), bags, Box::new(Gangs::default()), Box::new(Spares)]
}

/// Leaves the nodes of a waiting gang to jobs that end before it starts.
struct Spares;

impl Steerer for Spares {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        backfill_window::plan(&backfill_window::Inputs {
            snapshot: round.snapshot,
            usages: round.usages,
            outlook: round.outlook,
            now_ms: round.now_ms,
            jobs_max: round.config.planner.plan_jobs_max as usize,
            done: round.done,
        })
    }
}

/// A node preference and whether it decided, with nodes by name.
pub(super) fn preference_report(
    preference_use: &PreferenceUse,
    name: impl Fn(usize) -> String,
) -> PreferenceReport {
    let preference = &preference_use.preference;
    let set = preference_use.set.and_then(|at| preference.sets.get(at));
    let set = set.map(|set| set.name.to_string());
    PreferenceReport {
        method: preference.method.as_str().to_owned(),
        made_ms: preference.made_ms,
        candidate_set: set.clone(),
        tier: set,
        unused: preference_use.unused.map(|why| match why {
            Unused::NotOffered(node) => format!("stale: {} not offered", name(node as usize)),
            Unused::Busy(node) => format!("stale: {} busy", name(node as usize)),
            Unused::Quota => "its share of tasks has started".to_owned(),
            Unused::OtherTable => "stale: the nodes changed".to_owned(),
        }),
        note: preference.note.clone(),
    }
}
