// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `poll`, alone in libslurm: it reads slurmctld every `source.poll_ms`, and writes
//! comments of jobs in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use log::{info, warn};

use crate::daemon::shared::Shared;
use crate::daemon::threads::comments;
use crate::link::Agreement;
use crate::source::slurm::Source;
use crate::sync::{Newest, sleep_until};
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::clock::now_ms;
use phalanx_planner::attribution::Demand;
use phalanx_planner::usage::NodeUsage;

/// Age at which the last read queue no longer counts: two reads at the greatest `source.poll_ms`.
const STALE_AFTER: Duration = Duration::from_secs(10);
/// Interval at which the mirror is compared with polls.
const COMPARE_EVERY: Duration = Duration::from_secs(3);
/// Bit of slurm.conf's PrivateData that hides nothing here: `PRIVATE_CLOUD_NODES` (slurm.h).
const PRIVATE_CLOUD_NODES: u32 = 1 << 7;

pub struct Poll<'a> {
    pub source: Source,
    pub all: &'a Shared,
    pub to_plan: Newest<Arc<Snapshot>>,
    /// SlurmUser, for the sockets.
    pub owner: Arc<OnceLock<u32>>,
}

impl Poll<'_> {
    pub fn run(mut self, stop: &AtomicBool) {
        // Whether slurmctld answered the last time.
        let mut answers = None;
        let mut is_queue_forgotten = false;
        let (mut agreement, mut compared) = (Agreement::default(), Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            let table = self.all.responder.table();
            let polled = self.source.poll(table.is_none(), table, now_ms());
            match polled {
                Ok(fresh) => {
                    if answers.replace(true) != Some(true) {
                        info!("slurmctld answers");
                    }
                    is_queue_forgotten = false;
                    let info = self.source.info();
                    let _ = info.slurm_user_id.map(|uid| self.owner.set(uid));
                    self.all.responder.set_cluster_name(&info.cluster);
                    let private = info.private_data & !PRIVATE_CLOUD_NODES != 0;
                    // Who knew a job's arm could submit until it suits.
                    let blind = self.all.responder.settings().draw.is_some();
                    self.all.control.hide(private || blind);
                    self.all.cluster.answered(started.elapsed(), info);
                    fresh.into_iter().for_each(|snapshot| self.publish(Arc::new(snapshot)));
                    if compared.elapsed() >= COMPARE_EVERY {
                        compared = Instant::now();
                        self.compare(&mut agreement);
                    }
                }
                Err(error) => {
                    if answers.replace(false) != Some(false) {
                        warn!("slurmctld: {error}; the last good snapshot stays");
                    }
                    let age = self.all.cluster.failed(started.elapsed(), &error);
                    is_queue_forgotten |= !is_queue_forgotten && self.forget_queue(age);
                }
            }
            self.end_holds();
            let pause = Duration::from_millis(self.all.configuration.get().source.poll_ms);
            if answers == Some(true) {
                comments::write_until(started + pause, &self.source, self.all, stop);
            } else {
                sleep_until(started + pause, stop);
            }
        }
    }

    /// Has slurmctld look at the jobs whose holds have ended, which it does not while nothing
    /// happens.
    fn end_holds(&self) {
        for job in self.all.responder.ended_holds() {
            match self.source.touch(job) {
                Ok(()) => info!("job {job}: held as long as it may be; Slurm is to look at it"),
                // It may have ended meanwhile.
                Err(error) => info!("job {job}: not looked at after its hold: {error}"),
            }
        }
    }

    fn compare(&self, agreement: &mut Agreement) {
        let Some(snapshot) = self.all.cluster.snapshot() else { return };
        let Some((table, mirror)) = self.all.responder.copy_usages() else { return };
        if !snapshot.is_numbered_by(&table) {
            return;
        }
        let polled = NodeUsage::of_snapshot(&snapshot);
        let tracked = self.all.cluster.memory_tracked();
        let found = agreement.look(&mirror, &polled, tracked, Instant::now());
        self.all.responder.compared(&found);
        let name = |at: usize| snapshot.nodes.get(at).map_or("?", |node| &node.name);
        for &(at, (cpus, memory), (cpus_polled, memory_polled)) in &found.repair {
            warn!(
                "node {}: the mirror has {cpus} CPUs and {memory} MiB in use, slurmctld \
                 {cpus_polled} and {memory_polled}; asking the plugin for its whole state",
                name(at)
            );
        }
        for &(at, (cpus, memory), (cpus_polled, memory_polled)) in &found.unrepaired {
            warn!(
                "node {}: {cpus} CPUs and {memory} MiB in use by the plugin's whole state, \
                 {cpus_polled} and {memory_polled} by slurmctld's report: not repaired",
                name(at)
            );
        }
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        self.all.cluster.set_snapshot(Arc::clone(&snapshot));
        self.all.responder.saw_snapshot(&snapshot);
        self.all.responder.forget_gone(&snapshot, Instant::now());
        self.to_plan.send(snapshot);
    }

    /// Empties the link's queue once the last good poll is too old; returns whether it is.
    fn forget_queue(&self, age: Option<Duration>) -> bool {
        let is_stale = age.is_some_and(|age| age > STALE_AFTER);
        if is_stale {
            warn!("the last poll of slurmctld is too old: its queue no longer counts");
            self.all.responder.set_queue(Demand::default(), Vec::new());
        }
        is_stale
    }
}
