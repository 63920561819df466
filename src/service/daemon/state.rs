// SPDX-License-Identifier: GPL-3.0-or-later
//! What the daemon's threads share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use log::{info, warn};

use crate::api::types::ReloadReport;
use crate::collect::Now;
use crate::config::Config;
use crate::daemon::bags::Power;
use crate::daemon::collect::{self, Data};
use crate::daemon::data::DataShared;
use crate::daemon::learner::LearnShared;
use crate::daemon::logging;
use crate::daemon::order::OrderView;
use crate::daemon::recent::Recent;
use crate::daemon::settings::history_limits;
use crate::history::{HistoryReader, HistorySender};
use crate::link::Responder;
use crate::recordings::{self, link_settings};
use crate::source::slurm::ClusterInfo;
use phalanx_core::limits::RUNTIME_RUNS_MIN;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_methods::learn::runtime::{JobClass, Prediction, Runtimes};
use phalanx_methods::learn::{JobTraits, Speeds, class_of};
use phalanx_planner::ends::Outlook;
use phalanx_planner::plan::{Plan, usages_from_mirror};
use phalanx_planner::preference::{MethodReport, Note, StartRank};
use phalanx_planner::usage::NodeUsage;

/// The configuration in force and where it came from.
#[derive(Debug)]
pub(super) struct InForce {
    pub(super) config: Config,
    pub(super) generation: u64,
    pub(super) needs_restart: Vec<String>,
    pub(super) last_error: Option<String>,
}

/// What the poll thread tells.
#[derive(Debug, Default)]
pub(super) struct PollState {
    pub(super) info: ClusterInfo,
    pub(super) reachable: bool,
    pub(super) refused: u64,
    pub(super) poll_ms: u64,
    pub(super) last_error: Option<String>,
    pub(super) last_good: Option<Instant>,
}

/// What the plan thread tells.
#[derive(Debug, Default)]
pub(super) struct PlanState {
    pub(super) plan: Option<Arc<Plan>>,
    /// Sequence in which the methods want jobs to start.
    pub(super) start_order: Vec<StartRank>,
    /// Reports of the methods behind it.
    pub(super) methods: Vec<MethodReport>,
    /// What the methods have to say of jobs that they have no preference for.
    pub(super) notes: HashMap<u32, Note>,
    /// Names of the plan's node indexes.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) made: Option<Instant>,
    pub(super) time_ms: u64,
    pub(super) took_ms: u64,
    pub(super) plans: u64,
    pub(super) refused: u64,
    pub(super) last_error: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) started: Instant,
    pub(super) in_force: RwLock<InForce>,
    pub(super) responder: Arc<Responder>,
    pub(super) snapshot: RwLock<Option<Arc<Snapshot>>>,
    pub(super) poll: Mutex<PollState>,
    pub(super) plan: Mutex<PlanState>,
    pub(super) order: Mutex<OrderView>,
    pub(super) recent: Arc<Mutex<Recent>>,
    pub(super) history: Option<HistorySender>,
    pub(super) reader: Option<HistoryReader>,
    /// The data service, if it is switched on.
    pub(super) data: Option<Data>,
    /// Learned speeds; the learner puts a new picture here after each batch of runs.
    pub(super) speeds: RwLock<Arc<Speeds>>,
    /// Inputs of data-parallel jobs.
    pub(super) inputs: DataShared,
    /// Power of nodes as it was measured.
    pub(super) power: Arc<Mutex<Power>>,
    /// Learned runtimes; the learner adds every run that ends.
    pub(super) runtimes: RwLock<Runtimes>,
    /// Recording of decisions.
    pub(super) recording: Arc<recordings::Shared>,
    /// Counts of the learner.
    pub(super) learn: Arc<LearnShared>,
    /// Turns of the link and plan threads, for the watchdog.
    pub(super) beats: [AtomicU64; 2],
}

/// Position of a thread among the beats.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beat {
    /// The plugin's socket.
    Link = 0,
    /// Planning.
    Plan = 1,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic aborts the daemon, so a poisoned lock is never seen.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn beat(&self, which: Beat) -> &AtomicU64 {
        let [link, plan] = &self.beats;
        match which {
            Beat::Link => link,
            Beat::Plan => plan,
        }
    }

    pub(super) fn turn(&self, which: Beat) {
        self.beat(which).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn config(&self) -> Config {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// Number of the configuration in force.
    pub(super) fn generation(&self) -> u64 {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).generation
    }

    pub(super) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The class of a job under the configuration in force, for [`Speeds::estimate`].
    #[allow(dead_code)]
    pub(super) fn class_of(&self, job: &Job) -> String {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        class_of(&JobTraits::of(job), &in_force.config.learn.class_by)
    }

    /// How long a job is expected to run, and how many runs of its user say so;
    /// `None` while nothing is known of the user.
    pub(super) fn expected(&self, job: &Job) -> Option<(Prediction, f64)> {
        let class = JobClass::of(&JobTraits::of(job), job.time_limit_min);
        let runtimes = self.runtimes.read().unwrap_or_else(PoisonError::into_inner);
        let seen = runtimes.seen(&class);
        (seen > 0.0).then(|| (runtimes.predict(&class), seen))
    }

    /// What a job is expected to do, by what is known: a user's runs, else those of
    /// all users with such limits.
    pub(super) fn prediction(&self, job: &Job) -> Prediction {
        let class = JobClass::of(&JobTraits::of(job), job.time_limit_min);
        self.runtimes.read().unwrap_or_else(PoisonError::into_inner).predict(&class)
    }

    /// What learned runtimes say of the jobs of a snapshot, as far as they decide:
    /// of users with enough ended runs. Empty where `learn.runtimes_decide` is off.
    pub(super) fn outlook(&self, snapshot: &Snapshot, now_s: i64) -> Outlook {
        let config = self.config();
        if !config.learn.runtimes_decide {
            return Outlook::default();
        }
        let expected = |job: &Job| {
            let known = self.expected(job).filter(|(_, runs)| *runs >= RUNTIME_RUNS_MIN);
            known.map(|(prediction, _)| prediction.mean_s)
        };
        let jobs_max = config.planner.plan_jobs_max as usize;
        Outlook::new(snapshot, now_s, jobs_max, &expected)
    }

    /// What is known of how fast job classes run where.
    pub(super) fn speeds(&self) -> Arc<Speeds> {
        Arc::clone(&self.speeds.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Usage in the snapshot's node order: exact while a plugin tells it.
    /// The flag says which.
    pub(super) fn usages(&self, snapshot: &Snapshot) -> (Vec<NodeUsage>, bool) {
        match self.responder.copy_usages() {
            Some((table, usages)) => (usages_from_mirror(snapshot, &table, &usages), true),
            None => (NodeUsage::of_snapshot(snapshot), false),
        }
    }

    /// Reads the file again, checks it whole, and only then puts it in force.
    pub(super) fn reload(&self) -> ReloadReport {
        let loaded = Config::load(&self.path);
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        let generation = in_force.generation;
        let refuse = |in_force: &mut InForce, error: String| {
            warn!("configuration not reloaded: {error}");
            in_force.last_error = Some(error.clone());
            ReloadReport { ok: false, generation, error: Some(error), ..ReloadReport::default() }
        };
        let new = match loaded {
            Ok(new) => new,
            Err(error) => return refuse(&mut in_force, error.to_string()),
        };
        let changes = Config::diff(&in_force.config, &new);
        if let Err(error) = self.responder.set_settings(link_settings(&new, generation + 1)) {
            return refuse(&mut in_force, format!("balance: {error}"));
        }
        logging::set_level(&new.log);
        if let Some(history) = &self.history {
            history.shared().set_limits(history_limits(&new.history));
        }
        if let Some(data) = &self.data {
            data.collect.set_settings(collect::settings(&new), Now::read());
        }
        for warning in new.warnings() {
            warn!("configuration: {warning}");
        }
        let waiting: Vec<String> =
            changes.iter().filter(|c| c.needs_restart).map(|c| c.key.clone()).collect();
        in_force.config = new;
        in_force.generation = generation + 1;
        in_force.last_error = None;
        for key in &waiting {
            if !in_force.needs_restart.contains(key) {
                in_force.needs_restart.push(key.clone());
            }
        }
        let changed: Vec<String> = changes.into_iter().map(|c| c.key).collect();
        info!(generation = generation + 1, changed = changed.join(","); "configuration reloaded");
        ReloadReport {
            ok: true,
            generation: generation + 1,
            changed,
            needs_restart: waiting,
            error: None,
        }
    }
}
