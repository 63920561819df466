// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx report`, and the samples behind it.

use std::collections::BTreeMap;

use crate::api::{Backend, Failure};
use crate::daemon::shared::Shared;
use crate::history::SampleRecord;
use phalanx_ffi::clock::now_ms;
use phalanx_messages::rest::heat::stranded;
use phalanx_messages::rest::{ActivityReport, DecisionsReport, DimensionReport};

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
    Ok(DecisionsReport { decisions: shared.reader.latest(limit)? })
}
