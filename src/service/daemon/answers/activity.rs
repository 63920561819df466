// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx report`, and the samples behind it.

use std::collections::BTreeMap;

use crate::api::{Backend, Failure};
use crate::daemon::shared::Shared;
use crate::history::{DecisionRow, JobRef, SampleRecord};
use phalanx_ffi::clock::now_ms;
use phalanx_messages::rest::heat::stranded;
use phalanx_messages::rest::{ActivityReport, DecisionsReport, DimensionReport, LatestDecision};

impl Shared {
    /// Samples the queue and the nodes' use; `None` while slurmctld does not answer.
    pub(in crate::daemon) fn sample(&self) -> Option<SampleRecord> {
        let slurm = self.cluster.status();
        if !slurm.reachable {
            return None;
        }
        let nodes = self.nodes().ok()?;
        let each = nodes.dimensions.iter().zip(stranded(&nodes));
        let row = |(of, stranded): (&DimensionReport, f64)| {
            (of.name.clone(), [of.total, of.used, stranded])
        };
        let resources: BTreeMap<_, _> = each.map(row).collect();
        self.cluster.stranded(resources.get("gres/gpu").map_or(0.0, |[.., stranded]| *stranded));
        Some(SampleRecord {
            time_ms: now_ms(),
            pending: slurm.jobs_pending,
            running: slurm.jobs_running,
            resources,
        })
    }
}

/// Returns the report on a period; by default the last day.
pub(super) fn report(shared: &Shared, since_ms: Option<u64>) -> Result<ActivityReport, Failure> {
    let until_ms = now_ms();
    let since_ms = since_ms.unwrap_or_else(|| until_ms.saturating_sub(24 * 3600 * 1000));
    let activity = shared.reader.activity(since_ms, until_ms)?;
    let slurm = shared.cluster.status();
    let config = shared.configuration.status();
    Ok(ActivityReport {
        cluster: slurm.cluster,
        slurm: slurm.version,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mode: config.mode,
        partition_modes: config.partition_modes,
        retention_days: shared.config().history.retention_days,
        activity,
        shadow: shared.shadow(Some(since_ms))?,
    })
}

/// Decisions that one report lists, unless the request gives another number.
const LATEST: u32 = 20;
/// Maximum number of decisions that one report lists.
const LATEST_MAX: u32 = 1000;

/// Returns the latest decisions, newest first.
pub(super) fn latest(shared: &Shared, limit: Option<u32>) -> Result<DecisionsReport, Failure> {
    let limit = limit.unwrap_or(LATEST).min(LATEST_MAX);
    let rows = shared.reader.latest(limit)?;
    Ok(DecisionsReport { decisions: rows.into_iter().map(view).collect() })
}

fn view(row: DecisionRow) -> LatestDecision {
    let made = row.decision;
    LatestDecision {
        time_ms: made.ask.time_ms,
        job: label(&made.job),
        partition: made.job.partition,
        ask: made.ask.ask,
        mode: made.mode,
        nodes: made.ask.nodes,
        reason: made.ask.reason,
        placed: row.outcome.as_ref().map(|outcome| outcome.rc == 0),
        outcome: row.outcome.and_then(|outcome| outcome.reason),
        latency_us: made.latency_us,
    }
}

/// Returns the job as users write it; while its array waits, the array.
fn label(job: &JobRef) -> String {
    match (job.array_job_id, job.array_task_id) {
        (Some(array), Some(task)) => format!("{array}_{task}"),
        _ => job.job_id.to_string(),
    }
}
