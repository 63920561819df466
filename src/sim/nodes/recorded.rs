// SPDX-License-Identifier: GPL-3.0-or-later
//! A recorded period as a load: the jobs that ran in it, on its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::live::{class_of, held_of};
use super::load::PARTITION;
use super::{NodeJob, NodeLoad};
use crate::window::{Span, Window};
use phalanx_core::run::waits_from_s;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_planner::cluster::RunningJob;

/// Content of a recording over a period.
#[derive(Debug, Clone, Default)]
pub struct Period {
    /// Nodes and queue at the beginning of the recording.
    pub first: Snapshot,
    /// Begin of the period, unix seconds.
    pub begin_s: i64,
    /// End of the period, unix seconds.
    pub end_s: i64,
    /// Whether memory is a consumable resource.
    pub memory_tracked: bool,
    /// Resources that jobs held at the recording's begin, by its node indexes.
    pub running: BTreeMap<u32, RunningJob>,
    /// The last state that was seen of each job.
    pub jobs: BTreeMap<u32, Job>,
    /// Ends of jobs, Unix seconds.
    pub ends_s: BTreeMap<u32, i64>,
}

/// The jobs that ran in the period. Those under way at its beginning hold their
/// nodes; those still running at its end run to it. Jobs that never
/// started are skipped, as their runtime is not known. `other`: a cluster
/// to run them on instead, idle at the beginning.
pub fn load(period: &Period, other: Option<NodeLoad>) -> NodeLoad {
    let mut own = period.first.clone();
    own.reindex();
    own.jobs = Arc::default();
    own.queue.clear();
    let elsewhere = other.is_some();
    let mut load = other.unwrap_or_else(|| NodeLoad {
        cluster: own.clone(),
        memory_tracked: period.memory_tracked,
        ..NodeLoad::default()
    });
    (load.begin_s, load.until_s) = (period.begin_s, Some(period.end_s));
    for job in period.jobs.values() {
        let Some(mut run) = of_job(period, job) else {
            load.skipped += 1;
            continue;
        };
        if elsewhere {
            run.job.partitions = PARTITION.into();
        } else if job.start_s < period.begin_s {
            let held = period.running.get(&job.id).cloned();
            run.held = Some(held.unwrap_or_else(|| held_of(&own, job)));
        }
        load.jobs.push(run);
    }
    // Those that hold nodes come first, as for the live cluster.
    load.jobs.sort_by_key(|job| (job.held.is_none(), job.job.submit_s, job.job.id));
    load.drop_impossible();
    load
}

fn of_job(period: &Period, job: &Job) -> Option<NodeJob> {
    let end_s = period.ends_s.get(&job.id).copied();
    if job.start_s <= 0 || job.nodes.is_empty() || end_s.is_some_and(|end| end < period.begin_s) {
        return None;
    }
    let class = class_of(job);
    let start_s = job.start_s;
    let submit_s = waits_from_s(job.submit_s, job.eligible_s, start_s);
    let span = Span { submit_s, start_s, end_s, limit_s: class.limit_s };
    let window = Window { begin_s: period.begin_s, end_s: period.end_s };
    let inside = window.inside(&span)?;
    Some(NodeJob {
        job: Job { submit_s: inside.submit_s, priority: job.priority.max(1), ..job.clone() },
        run_s: inside.run_s,
        limit_s: inside.limit_s,
        unfinished: inside.goes_on,
        class,
        ..NodeJob::default()
    })
}
