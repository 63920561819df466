// SPDX-License-Identifier: GPL-3.0-or-later
//! The state behind the mirror's lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use log::warn;

use crate::link::recording::{Recording, nanos};
use crate::link::refusals::Refusals;
use crate::link::view::LinkView;
use phalanx_methods::balance::EngineError;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{Cluster, RunningJob};
use phalanx_planner::place::{Placer, Pool, Tuning};
use phalanx_planner::preference::Preferences;

/// All that answers depend on, but for the settings.
#[derive(Debug)]
pub(super) struct State {
    pub(super) placer: Option<Placer>,
    pub(super) dims: Arc<[Arc<str>]>,
    pub(super) view: LinkView,
    pub(super) pools: Vec<Pool>,
    pub(super) pending: Demand,
    pub(super) first_seen: BTreeMap<u32, Instant>,
    /// Jobs that declare an input, as the plugin says, until they end.
    pub(super) inputs: BTreeSet<u32>,
    pub(super) preferences: Preferences,
    pub(super) refusals: Refusals,
    /// Zero of the times in a recording.
    pub(super) born: Instant,
    /// The recording under way.
    pub(super) recording: Option<Recording>,
}

impl State {
    /// Without a mirror.
    pub(super) fn new(born: Instant) -> Self {
        Self {
            placer: None,
            dims: Arc::default(),
            view: LinkView::default(),
            pools: Vec::new(),
            pending: Demand::default(),
            first_seen: BTreeMap::new(),
            inputs: BTreeSet::new(),
            preferences: Preferences::default(),
            refusals: Refusals::default(),
            born,
            recording: None,
        }
    }

    /// Milliseconds of the times in a recording.
    pub(super) fn ms(&self, at: Instant) -> u64 {
        nanos(self.born, at) / 1_000_000
    }

    /// Stock took the nodes of an answer, or refused them.
    pub(super) fn outcome(&mut self, decision: u64, refused: bool, at: Instant) {
        let now_ms = self.ms(at);
        for option in self.refusals.outcome(decision, refused, now_ms) {
            warn!(
                "Slurm refused too many answers to requests with {option}: these are left to it \
                 for an hour"
            );
        }
    }

    /// A complete mirror replaces what there is.
    ///
    /// # Errors
    /// The engine's error.
    pub(super) fn set_cluster(
        &mut self,
        cluster: Cluster,
        memory_tracked: bool,
        tuning: Tuning,
    ) -> Result<(), EngineError> {
        // The same table again keeps its identity, and with it the preferences.
        let cluster = match &self.placer {
            Some(old) => cluster.with_equal_table(old.cluster().table()),
            None => cluster,
        };
        let mut placer = Placer::new(cluster, memory_tracked, tuning, self.pools.clone())?;
        placer.set_pending(self.pending.clone())?;
        // Before the first question rather than during it.
        placer.maintain();
        self.dims = placer.dims().into();
        self.placer = Some(placer);
        self.view.synced = true;
        Ok(())
    }

    /// Takes the demand of the queue and the licence pools.
    pub(super) fn set_queue(&mut self, pending: Demand, pools: Vec<Pool>) {
        self.pools.clone_from(&pools);
        self.pending.clone_from(&pending);
        if let Some(placer) = &mut self.placer {
            let done = placer.set_pools(pools).and_then(|()| placer.set_pending(pending));
            if let Err(error) = done {
                warn!("weights of the queue not taken: {error}");
            }
            self.dims = placer.dims().into();
        }
    }

    /// A job holds exactly this, since just now if it has `begun`.
    pub(super) fn set_job(&mut self, job: RunningJob, begun: bool) {
        self.first_seen.remove(&job.id);
        self.refusals.forget(job.id);
        if let (Some((array, _)), true) = (job.array, begun) {
            self.preferences.began(array, job.held.iter().map(|held| held.node));
        }
        if let Some(placer) = &mut self.placer {
            placer.set_job(job);
        }
    }

    /// A job gave everything back.
    pub(super) fn end_job(&mut self, job_id: u32) {
        self.first_seen.remove(&job_id);
        self.inputs.remove(&job_id);
        self.refusals.forget(job_id);
        if let Some(placer) = &mut self.placer {
            placer.end_job(job_id);
        }
    }
}
