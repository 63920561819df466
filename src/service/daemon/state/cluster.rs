// SPDX-License-Identifier: GPL-3.0-or-later
//! The cluster as slurmctld described it at the last poll.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use super::starts::Starts;
use crate::api::metrics::Queue;
use crate::source::slurm::{ClusterInfo, Priorities, SourceError};
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_ffi::clock::millis;
use phalanx_ffi::locks::{lock, read, write};
use phalanx_messages::rest::SlurmStatus;

/// The newest snapshot, and the state of polling.
#[derive(Debug, Default)]
pub struct Cluster {
    snapshot: RwLock<Option<Arc<Snapshot>>>,
    poll: Mutex<PollState>,
    starts: Mutex<Starts>,
}

#[derive(Debug, Default)]
struct PollState {
    info: ClusterInfo,
    reachable: bool,
    refused: u64,
    poll_ms: u64,
    last_error: Option<String>,
    last_good: Option<Instant>,
}

impl Cluster {
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        read(&self.snapshot).clone()
    }

    pub fn set_snapshot(&self, snapshot: Arc<Snapshot>) {
        lock(&self.starts).saw(&snapshot);
        *write(&self.snapshot) = Some(snapshot);
    }

    /// Counts GPUs that are stranded at present.
    pub fn stranded(&self, gpus: f64) {
        lock(&self.starts).stranded(gpus, Instant::now());
    }

    /// The queue by partition, and the waits of the jobs that started.
    pub fn queue(&self) -> Queue {
        let snapshot = self.snapshot();
        lock(&self.starts).queue(snapshot.as_deref())
    }

    /// Whether memory is a consumable resource.
    pub fn memory_tracked(&self) -> bool {
        lock(&self.poll).info.memory_tracked
    }

    /// Whether nodes measure energy, and slurmdbd keeps the jobs' energy.
    pub fn energy_accounted(&self) -> bool {
        lock(&self.poll).info.energy_accounted
    }

    pub fn priorities(&self) -> Priorities {
        lock(&self.poll).info.priorities
    }

    /// Notes a poll that slurmctld answered.
    pub fn answered(&self, took: Duration, info: ClusterInfo) {
        let mut poll = lock(&self.poll);
        poll.info = info;
        poll.reachable = true;
        poll.poll_ms = millis(took);
        poll.last_error = None;
        poll.last_good = Some(Instant::now());
    }

    /// Notes a poll that failed; returns the age of the last good poll, if there was one.
    pub fn failed(&self, took: Duration, error: &SourceError) -> Option<Duration> {
        let mut poll = lock(&self.poll);
        poll.reachable = false;
        poll.refused += u64::from(matches!(error, SourceError::Refused(_)));
        poll.poll_ms = millis(took);
        poll.last_error = Some(error.to_string());
        poll.last_good.map(|good| good.elapsed())
    }

    pub fn status(&self) -> SlurmStatus {
        let poll = lock(&self.poll);
        let snapshot = self.snapshot();
        // Those that are being cleaned up run no more.
        let is = |j: &Job, state| j.state == state && !j.state_text.contains("COMPLETING");
        let jobs = |state| {
            let count = |s: &Arc<Snapshot>| s.jobs.iter().filter(|j| is(j, state)).count();
            snapshot.as_ref().map_or(0, count) as u64
        };
        SlurmStatus {
            cluster: poll.info.cluster.clone(),
            version: poll.info.version.clone(),
            reachable: poll.reachable,
            snapshot_age_ms: poll.last_good.map(|good| millis(good.elapsed())),
            snapshot_epoch: snapshot.as_ref().map_or(0, |s| s.epoch),
            snapshots_refused: poll.refused,
            poll_ms: poll.poll_ms,
            nodes: snapshot.as_ref().map_or(0, |s| s.named().count() as u64),
            jobs_pending: jobs(JobState::Pending),
            jobs_running: jobs(JobState::Running),
            last_error: poll.last_error.clone(),
        }
    }
}
