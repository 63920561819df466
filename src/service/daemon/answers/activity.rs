// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx report`, and the samples behind it.

use crate::api::heat::stranded;
use crate::api::types::{ActivityReport, DimensionReport};
use crate::api::{Backend, Failure};
use crate::clock::now_ms;
use crate::daemon::shared::Shared;
use crate::history::SampleRecord;

impl Shared {
    /// The queue and the nodes' use now; none while slurmctld does not answer.
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
        Some(SampleRecord {
            time_ms: now_ms(),
            pending: slurm.jobs_pending,
            running: slurm.jobs_running,
            resources: each.map(row).collect(),
        })
    }
}

/// What happened since a time; by default in the last day.
pub(super) fn report(shared: &Shared, since_ms: Option<u64>) -> Result<ActivityReport, Failure> {
    let reader = shared.reader.as_ref().ok_or_else(|| {
        Failure::Unavailable("history.enabled is off: nothing is recorded".to_owned())
    })?;
    let until_ms = now_ms();
    let since_ms = since_ms.unwrap_or_else(|| until_ms.saturating_sub(24 * 3600 * 1000));
    let failed = |error: crate::history::HistoryError| Failure::Unavailable(error.to_string());
    let activity = reader.activity(since_ms, until_ms).map_err(failed)?;
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
