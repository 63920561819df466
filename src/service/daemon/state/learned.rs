// SPDX-License-Identifier: GPL-3.0-or-later
//! Speeds and runtimes as the learn thread last published them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use super::core_speeds::CoreSpeeds;
use phalanx_config::{Config, PLAN_JOBS_MAX};
use phalanx_core::limits::RUNTIME_RUNS_MIN;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_ffi::locks::{lock, read, write};
use phalanx_methods::learn::deaths::Accused;
use phalanx_methods::learn::runtime::{JobClass, Prediction, Runtimes};
use phalanx_methods::learn::{JobTraits, Speeds};
use phalanx_planner::ends::Outlook;

/// Pause after the last part of an import before the table is built again.
const IMPORT_PAUSE: Duration = Duration::from_millis(300);

/// Knowledge from runs that failed.
#[derive(Debug, Default)]
pub struct Failures {
    /// Nodes on which jobs die that live elsewhere.
    pub accused: Vec<Accused>,
    /// Nodes that failed jobs which Slurm has requeued, by job id.
    pub of_jobs: BTreeMap<u32, Vec<Arc<str>>>,
}

/// Knowledge from runs that ended.
#[derive(Debug, Default)]
pub struct Learned {
    speeds: RwLock<Arc<Speeds>>,
    failures: RwLock<Arc<Failures>>,
    /// Nodes that an administrator has forgiven and the learner has not forgiven yet.
    forgiven: RwLock<Vec<Arc<str>>>,
    runtimes: RwLock<Runtimes>,
    pub core_speeds: CoreSpeeds,
    /// Number of events dropped because the learner's channel was full.
    pub dropped: AtomicU64,
    /// Time at which the table is to be built again.
    rebuild_due: Mutex<Option<Instant>>,
    /// Bits of the f64 that [`pause_s`](Self::pause_s) returns.
    pause_s: AtomicU64,
}

impl Learned {
    /// Speeds of job classes by node.
    pub fn speeds(&self) -> Arc<Speeds> {
        Arc::clone(&read(&self.speeds))
    }

    pub fn set_speeds(&self, speeds: Speeds) {
        *write(&self.speeds) = Arc::new(speeds);
    }

    /// Knowledge from runs that failed.
    pub fn failures(&self) -> Arc<Failures> {
        Arc::clone(&read(&self.failures))
    }

    pub fn set_failures(&self, failures: Failures) {
        *write(&self.failures) = Arc::new(failures);
    }

    /// Asks the learner to forget that jobs died on a node.
    pub fn forgive(&self, node: Arc<str>) {
        write(&self.forgiven).push(node);
    }

    /// The nodes forgiven since the last call.
    pub fn take_forgiven(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *write(&self.forgiven))
    }

    pub fn replace_runtimes(&self, runtimes: Runtimes) -> Runtimes {
        std::mem::replace(&mut *write(&self.runtimes), runtimes)
    }

    /// Adds the runtime of one run.
    pub fn observe(&self, class: &JobClass, seconds: u64) {
        write(&self.runtimes).observe(class, seconds);
    }

    /// Expected runtime of a job, and the number of runs of its user behind it; `None` while
    /// nothing is known of the user.
    pub fn expected(&self, job: &Job) -> Option<(Prediction, f64)> {
        let class = JobClass::of(&JobTraits::of(job), job.time_limit_min);
        let runtimes = read(&self.runtimes);
        let seen = runtimes.seen(&class);
        (seen > 0.0).then(|| (runtimes.predict(&class), seen))
    }

    /// The prediction from the user's runs, else from all users' runs with such limits.
    pub fn prediction(&self, job: &Job) -> Prediction {
        let class = JobClass::of(&JobTraits::of(job), job.time_limit_min);
        read(&self.runtimes).predict(&class)
    }

    /// Expected ends of the jobs of a snapshot whose users have enough ended runs. Empty where
    /// `learn.runtimes_decide` is off.
    pub fn outlook(&self, config: &Config, snapshot: &Snapshot, now_s: i64) -> Outlook {
        if !config.learn.runtimes_decide {
            return Outlook::default();
        }
        let expected = |job: &Job| {
            let known = self.expected(job).filter(|(_, runs)| *runs >= RUNTIME_RUNS_MIN);
            known.map(|(prediction, _)| prediction.mean_s)
        };
        Outlook::new(snapshot, now_s, PLAN_JOBS_MAX, &expected)
    }

    /// Mean seconds between two jobs on a slot while others wait.
    pub fn pause_s(&self) -> f64 {
        f64::from_bits(self.pause_s.load(Ordering::Relaxed))
    }

    pub fn set_pause_s(&self, pause_s: f64) {
        self.pause_s.store(pause_s.to_bits(), Ordering::Relaxed);
    }

    /// Asks for the table to be built again, once imports have paused.
    pub fn imported(&self) {
        self.rebuild_at(Instant::now() + IMPORT_PAUSE);
    }

    /// Asks for the table to be built again at a time.
    pub fn rebuild_at(&self, due: Instant) {
        *lock(&self.rebuild_due) = Some(due);
    }

    /// Whether the table is to be built again by now; returns true only once.
    pub fn rebuild_due(&self, now: Instant) -> bool {
        lock(&self.rebuild_due).take_if(|due| *due <= now).is_some()
    }
}
