// SPDX-License-Identifier: GPL-3.0-or-later
//! Speeds of the tasks of a data job on each node.

use crate::daemon::state::core_speeds::{CoreSpeeds, core_speed_class};
use phalanx_config::Config;
use phalanx_core::comment;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_methods::data_jobs::bisect::Attenuation;
use phalanx_methods::learn::{JobTraits, node_class_of};
use phalanx_planner::data_jobs::Capability;

/// Sources of the speeds of data jobs on nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeSpeeds<'a> {
    pub(super) capability: &'a Capability,
    pub(super) core_speeds: &'a CoreSpeeds,
    pub(super) config: &'a Config,
    pub(super) snapshot: &'a Snapshot,
}

#[derive(Debug, Default)]
pub(super) struct TaskSpeeds {
    /// Speeds in the order of the nodes asked for, as parts of the fastest; empty if all are alike.
    pub(super) parts: Vec<f64>,
    /// MB/s of a single core on the fastest class of nodes; `None`: not learned, or all are alike.
    pub(super) core: Option<f64>,
}

impl NodeSpeeds<'_> {
    /// Returns MB/s of a single core for a job's class, on average over the nodes where it ran, its
    /// attenuation, and the runs behind both.
    pub(super) fn core(&self, job: &Job) -> (f64, Attenuation, u64) {
        // Runs that report work of their own units say nothing of megabytes.
        let class = match comment::work_units(&job.comment) {
            Some(_) => String::new(),
            None => core_speed_class(&JobTraits::of(job), &self.config.learn.class_by),
        };
        self.core_speeds.of(&class)
    }

    /// Returns the speeds of a job on `nodes`.
    pub(super) fn of<'n>(
        &self,
        job: &Job,
        form: &Attenuation,
        nodes: impl Iterator<Item = &'n str>,
    ) -> TaskSpeeds {
        let class = core_speed_class(&JobTraits::of(job), &self.config.learn.class_by);
        let by_class = match self.capability.learned {
            true => self.core_speeds.by_node_class(&class, form),
            false => Default::default(),
        };
        let learned = |name: &str| {
            if by_class.is_empty() {
                return None;
            }
            let node = self.snapshot.nodes.get(self.snapshot.node(name)?.at())?;
            by_class.get(&node_class_of(node, &self.config.learn.node_class_by)).copied()
        };
        let parts = self.capability.speeds(nodes.map(|name| (name, learned(name))));
        if parts.iter().all(|part| *part >= 1.0) {
            return TaskSpeeds::default();
        }
        let fastest = by_class.into_values().reduce(f64::max);
        TaskSpeeds { parts, core: fastest.filter(|_| comment::work_units(&job.comment).is_none()) }
    }
}
