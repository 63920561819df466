// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `poll` reads slurmctld every `source.poll_ms`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use log::{info, warn};

use crate::clock::now_ms;
use crate::daemon::state::cluster::Cluster;
use crate::daemon::state::configuration::Configuration;
use crate::link::Responder;
use crate::source::slurm::Source;
use crate::sync::{Newest, sleep_until};
use phalanx_core::snapshot::Snapshot;
use phalanx_planner::attribution::Demand;

pub struct Poll<'a> {
    pub source: Source,
    pub configuration: &'a Configuration,
    pub cluster: &'a Cluster,
    pub responder: &'a Responder,
    pub to_plan: Newest<Arc<Snapshot>>,
}

impl Poll<'_> {
    /// Polls until `stop`.
    pub fn run(mut self, stop: &AtomicBool) {
        // Whether slurmctld answered the last time.
        let mut answers = None;
        let mut is_queue_forgotten = false;
        while !stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            let table = self.responder.table();
            let polled = self.source.poll(table.is_none(), table, now_ms());
            match polled {
                Ok(fresh) => {
                    if answers.replace(true) != Some(true) {
                        info!("slurmctld answers");
                    }
                    is_queue_forgotten = false;
                    self.cluster.answered(started.elapsed(), self.source.info());
                    fresh.into_iter().for_each(|snapshot| self.publish(Arc::new(snapshot)));
                }
                Err(error) => {
                    if answers.replace(false) != Some(false) {
                        warn!("slurmctld: {error}; the last good snapshot stays");
                    }
                    let age = self.cluster.failed(started.elapsed(), &error);
                    is_queue_forgotten |= !is_queue_forgotten && self.forget_queue(age);
                }
            }
            let pause = Duration::from_millis(self.configuration.get().source.poll_ms);
            sleep_until(started + pause, stop);
        }
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        self.cluster.set_snapshot(Arc::clone(&snapshot));
        self.responder.saw_snapshot(&snapshot);
        self.to_plan.send(snapshot);
    }

    /// Weighs nothing by the queue any more once the last good poll is too old; whether it is.
    fn forget_queue(&self, age: Option<Duration>) -> bool {
        let stale = Duration::from_millis(self.configuration.get().source.stale_after_ms);
        let is_stale = age.is_some_and(|age| age > stale);
        if is_stale {
            warn!("the last poll of slurmctld is too old: its queue no longer counts");
            self.responder.set_queue(Demand::default(), Vec::new());
        }
        is_stale
    }
}
