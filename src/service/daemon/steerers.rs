// SPDX-License-Identifier: GPL-3.0-or-later
//! The methods that steer: each plans in its own way, in the plan thread.
//!
//! A method joins by one more entry in [`all`]; what it hands back goes to the
//! link, where [`steer::decide`](phalanx_planner::steer::decide) follows it.

use std::sync::Arc;

use crate::api::types::SteerReport;
use crate::config::Config;
use crate::daemon::bags::Bags;
use crate::daemon::data::DataShared;
use crate::daemon::data_steer::DataJobs;
use crate::daemon::gangs::Gangs;
use crate::daemon::measures::Measures;
use crate::daemon::state::Shared;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::learn::Speeds;
use phalanx_planner::ends::Outlook;
use phalanx_planner::room::Room;
use phalanx_planner::spare;
use phalanx_planner::steer::{Steered, Steering, Unused};

/// What a round of planning is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round<'a> {
    /// Configuration in force.
    pub(super) config: &'a Config,
    /// Queue and nodes.
    pub(super) snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub(super) rooms: &'a [Room],
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
    /// What the methods before wish in this round.
    pub(super) done: &'a [Steering],
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
    fn plan(&mut self, round: &Round<'_>) -> Steering;
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
    fn plan(&mut self, round: &Round<'_>) -> Steering {
        spare::plan(&spare::Inputs {
            snapshot: round.snapshot,
            rooms: round.rooms,
            outlook: round.outlook,
            now_ms: round.now_ms,
            jobs_max: round.config.planner.plan_jobs_max as usize,
            done: round.done,
        })
    }
}

/// A steer and what became of it, with nodes by name.
pub(super) fn steer_report(steered: &Steered, name: impl Fn(usize) -> String) -> SteerReport {
    let steer = &steered.steer;
    let tier = steered.tier.and_then(|at| steer.tiers.get(at));
    SteerReport {
        method: steer.method.as_str().to_owned(),
        made_ms: steer.made_ms,
        tier: tier.map(|tier| tier.name.to_string()),
        unused: steered.unused.map(|why| match why {
            Unused::NotOffered(node) => format!("stale: {} not offered", name(node as usize)),
            Unused::Busy(node) => format!("stale: {} busy", name(node as usize)),
            Unused::Quota => "its share of tasks has started".to_owned(),
            Unused::OtherTable => "stale: the nodes changed".to_owned(),
        }),
        note: steer.note.clone(),
    }
}
