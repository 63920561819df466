// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread that learns: it makes runs of events and polls, records them, and keeps the table
//! of speeds that planners read.
//!
//! The table is what the history's runs say: it is built from them at the start, after an import
//! and after a change of `[learn]`, and every run that ends is added to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use log::{info, warn};

use crate::config::LearnConfig;
use crate::daemon::accounting::{Accounting, RunKey};
use crate::daemon::recorder::now_ms;
use crate::daemon::runs::{Naming, RunNote, Runs};
use crate::daemon::state::{Shared, lock};
use crate::history::{Record, split_node_classes};
use phalanx_core::hostlist;
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_core::number::as_f64;
use phalanx_core::problem::InputError;
use phalanx_core::run::Run;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::learn::runtime::{JobClass, Runtimes, tells_runtime};
use phalanx_methods::learn::{
    JobTraits, Observation, RunNode, Speeds, class_of, family_of, node_class_of, teaches,
};

/// Longest sleep before the thread looks whether it should stop.
const TICK: Duration = Duration::from_millis(100);
/// How long the first picture of the nodes is waited for before runs are read without.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Age at which a run that was handed to the history is surely written.
const WRITTEN_AFTER: Duration = Duration::from_secs(10);
/// Pause after the last part of an import before the table is built anew.
const IMPORT_PAUSE_MS: u64 = 300;
/// Pause before a history that could not be read is tried again.
const RETRY_MS: u64 = 5000;
/// Runs of an earlier daemon that a job still known to Slurm may be: newest ones.
const KNOWN_MAX: usize = 200_000;

/// What the learner tells and is told.
#[derive(Debug, Default)]
pub(super) struct LearnShared {
    /// Runs recorded since the start.
    pub(super) runs: AtomicU64,
    /// Of these, the ones that taught something.
    pub(super) taught: AtomicU64,
    /// Events that found the learner's channel full.
    pub(super) dropped: AtomicU64,
    /// Runs given up because slurmctld did not answer for long.
    pub(super) lost: AtomicU64,
    /// When the table is to be built anew, unix milliseconds; 0 for not.
    pub(super) rebuild: AtomicU64,
    /// Mean seconds between two jobs on a slot while others wait: bits of an f64.
    pub(super) pause_s: AtomicU64,
    /// Runs whose energy Slurm's accounting is asked for.
    pub(super) accounting: Accounting,
}

impl LearnShared {
    /// Asks for the table to be built anew, once imports have paused.
    pub(super) fn imported(&self, now_ms: u64) {
        self.rebuild_at(now_ms.saturating_add(IMPORT_PAUSE_MS));
    }

    /// Mean seconds between two jobs on a slot while others wait.
    pub(super) fn pause_s(&self) -> f64 {
        f64::from_bits(self.pause_s.load(Ordering::Relaxed))
    }

    fn rebuild_at(&self, due_ms: u64) {
        self.rebuild.store(due_ms, Ordering::Relaxed);
    }

    fn rebuild_due(&self, now_ms: u64) -> bool {
        let due = self.rebuild.load(Ordering::Relaxed);
        due > 0
            && due <= now_ms
            && self.rebuild.compare_exchange(due, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The recorder's end: never waits.
#[derive(Debug, Clone)]
pub(super) struct RunSender {
    pub(super) sender: Sender<RunNote>,
    pub(super) shared: Arc<LearnShared>,
}

impl RunSender {
    pub(super) fn send(&self, note: RunNote) {
        if self.sender.try_send(note).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(super) struct Learner {
    shared: Arc<Shared>,
    config: LearnConfig,
    runs: Runs,
    speeds: Speeds,
    /// Classes of the nodes as the last poll showed them.
    classes: BTreeMap<Arc<str>, String>,
    /// Their CPUs.
    cpus: BTreeMap<Arc<str>, u64>,
    /// Runs that the accounting is asked about.
    unmetered: BTreeMap<RunKey, Run>,
    epoch: u64,
    built: bool,
    changed: bool,
    /// Runs that may not be in the file yet.
    recent: Vec<(Instant, Run)>,
    started: Instant,
}

impl Learner {
    pub(super) fn new(shared: Arc<Shared>) -> Learner {
        let config = shared.config().learn;
        Learner {
            shared,
            speeds: empty(&config),
            config,
            runs: Runs::default(),
            classes: BTreeMap::new(),
            cpus: BTreeMap::new(),
            unmetered: BTreeMap::new(),
            epoch: 0,
            built: false,
            changed: false,
            recent: Vec::new(),
            started: Instant::now(),
        }
    }

    /// Until `stop`, or the recorder is gone.
    pub(super) fn run(mut self, notes: &Receiver<RunNote>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match notes.recv_timeout(TICK) {
                Ok(note) => {
                    self.runs.note(note);
                    notes.try_iter().for_each(|note| self.runs.note(note));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        let snapshot = self.shared.snapshot();
        if let Some(snapshot) = snapshot.as_ref().filter(|s| s.epoch != self.epoch) {
            self.name_nodes(snapshot);
        }
        let waited = self.started.elapsed() > FIRST_WAIT;
        if !self.built && snapshot.is_none() && !waited {
            return;
        }
        let config = self.shared.config().learn;
        let asked = self.shared.learn.rebuild_due(now_ms());
        if !self.built || asked || config != self.config {
            self.config = config;
            self.rebuild();
        }
        if let Some(snapshot) = snapshot.filter(|s| s.epoch != self.epoch) {
            self.epoch = snapshot.epoch;
            self.take(&snapshot);
        }
        self.meter();
        if std::mem::take(&mut self.changed) {
            let picture = Arc::new(self.speeds.clone());
            *self.shared.speeds.write().unwrap_or_else(PoisonError::into_inner) = picture;
        }
    }

    fn name_nodes(&mut self, snapshot: &Snapshot) {
        let by = &self.config.node_class_by;
        let class =
            |node: &phalanx_core::snapshot::Node| (Arc::clone(&node.name), node_class_of(node, by));
        self.classes = snapshot.nodes.iter().map(class).collect();
        self.cpus = snapshot.nodes.iter().map(|n| (Arc::clone(&n.name), n.cpus)).collect();
    }

    /// Adds the energy that Slurm's accounting has told since.
    fn meter(&mut self) {
        for (key, joules) in self.shared.learn.accounting.take() {
            let Some(mut run) = self.unmetered.remove(&key) else { continue };
            run.joules = joules;
            if joules.is_none() {
                continue;
            }
            let (class, seen) = (self.class_of(&run), self.observation(&run));
            if let Ok(names) = hostlist::expand(&run.nodes, HOSTLIST_NAMES_MAX) {
                let then = split_node_classes(&run.node_class, &names);
                let nodes = run_nodes(&self.classes, &names, &then);
                self.changed |= self.speeds.learn_energy(&class, &nodes, &seen).is_ok();
            }
            if let Some(history) = &self.shared.history {
                history.send(Record::Run(Box::new(run)));
            }
        }
    }

    /// Asks the accounting for the energy of a run that was learned without.
    fn ask_energy(&mut self, run: &Run) {
        let accounted = lock(&self.shared.poll).info.energy_accounted;
        if accounted && run.joules.is_none() && self.config.accounting_s > 0 {
            let key = (run.job.clone(), run.start_s);
            if self.shared.learn.accounting.ask(key.clone(), run.end_s) {
                self.unmetered.insert(key, run.clone());
            }
        }
    }

    fn take(&mut self, snapshot: &Arc<Snapshot>) {
        let config = &self.config;
        let naming = Naming { class_by: &config.class_by, node_class_by: &config.node_class_by };
        let ended = self.runs.poll(snapshot, now_ms(), naming);
        self.shared.learn.lost.store(self.runs.lost, Ordering::Relaxed);
        let pause_bits = self.runs.pauses.mean_s().to_bits();
        self.shared.learn.pause_s.store(pause_bits, Ordering::Relaxed);
        self.recent.retain(|(at, _)| at.elapsed() < WRITTEN_AFTER);
        for mut run in ended {
            run.work = run.work.or_else(|| self.shared.inputs.megabytes(&run));
            self.shared.learn.runs.fetch_add(1, Ordering::Relaxed);
            if self.learn(&run) {
                self.shared.learn.taught.fetch_add(1, Ordering::Relaxed);
                self.ask_energy(&run);
            }
            if let Some(history) = &self.shared.history {
                history.send(Record::Run(Box::new(run.clone())));
                self.recent.push((Instant::now(), run));
            }
        }
    }

    /// Builds the table from the runs of the history.
    fn rebuild(&mut self) {
        let began = Instant::now();
        if let Some(snapshot) = self.shared.snapshot() {
            self.name_nodes(&snapshot);
        }
        self.shared.inputs.forget();
        let before = std::mem::replace(&mut self.speeds, empty(&self.config));
        let runtimes = &self.shared.runtimes;
        let runtimes_before = std::mem::take(&mut *write(runtimes));
        let reader = self.shared.reader.clone();
        let mut recent: BTreeMap<(String, i64), Run> = std::mem::take(&mut self.recent)
            .into_iter()
            .map(|(_, run)| ((run.job.clone(), run.start_s), run))
            .collect();
        let mut known = VecDeque::new();
        let mut rows = 0_u64;
        let visit = |run: Run| {
            rows += 1;
            self.learn(&run);
            let key = (run.job, run.start_s);
            recent.remove(&key);
            known.push_back(key);
            if known.len() > KNOWN_MAX {
                known.pop_front();
            }
        };
        let read = reader.map_or(Ok(()), |reader| reader.each_run(visit));
        match read {
            Ok(()) => recent.values().for_each(|run| {
                self.learn(run);
            }),
            Err(error) => {
                // The file may be being made, or the disk be full: what is known stays.
                if self.built {
                    warn!("speeds: {error}; what was learned so far stays");
                }
                self.speeds = before;
                *write(&self.shared.runtimes) = runtimes_before;
                self.shared.learn.rebuild_at(now_ms().saturating_add(RETRY_MS));
            }
        }
        self.recent = recent.into_values().map(|run| (Instant::now(), run)).collect();
        self.runs.knows(known.into_iter().collect::<BTreeSet<_>>());
        self.built = true;
        self.changed = true;
        if rows > 0 {
            let (classes, ms) = (self.speeds.len(), began.elapsed().as_millis());
            info!("speeds: {classes} job classes learned from {rows} runs in {ms} ms");
        }
    }

    /// Adds a run to what is known; whether it taught a speed.
    fn learn(&mut self, run: &Run) -> bool {
        if tells_runtime(&run.state) && run.elapsed_ms > 0 {
            let class = JobClass::of(&JobTraits::of_run(run), run.limit_min);
            write(&self.shared.runtimes).observe(&class, (run.elapsed_ms / 1000).max(1));
        }
        self.changed |= self.speeds.saw_request(&run.tres_req, run.end_s);
        if !teaches(&run.state, run.work.is_some()) || run.elapsed_ms == 0 {
            return false;
        }
        let Ok(names) = hostlist::expand(&run.nodes, HOSTLIST_NAMES_MAX) else { return false };
        let then = split_node_classes(&run.node_class, &names);
        let (class, seen) = (self.class_of(run), self.observation(run));
        self.changed = true;
        self.shared.inputs.learn(run, &self.config.class_by);
        let nodes = run_nodes(&self.classes, &names, &then);
        let family = family_of(&class, &self.config.class_by);
        self.speeds.learn(&class, family.as_deref(), &nodes, &seen).is_ok()
    }

    fn class_of(&self, run: &Run) -> String {
        class_of(&JobTraits::of_run(run), &self.config.class_by)
    }

    /// Slurm counts the energy of whole nodes: a job has its share by CPUs.
    fn observation(&self, run: &Run) -> Observation {
        let names = hostlist::expand(&run.nodes, HOSTLIST_NAMES_MAX).unwrap_or_default();
        let cpus: Option<u64> = names.iter().map(|name| self.cpus.get(name.as_str())).sum();
        let share = match cpus {
            Some(cpus) if run.cpus > 0 && cpus > run.cpus => as_f64(run.cpus) / as_f64(cpus),
            _ => 1.0,
        };
        Observation {
            seconds: as_f64(run.elapsed_ms) / 1000.0,
            work: run.work,
            joules: run.joules.map(|joules| joules * share),
            end_s: run.end_s,
        }
    }
}

/// Nodes with their classes: of today, else those of then.
fn run_nodes<'a>(
    classes: &'a BTreeMap<Arc<str>, String>,
    names: &'a [String],
    then: &'a [String],
) -> Vec<RunNode<'a>> {
    let node = |(name, then): (&'a String, &'a String)| RunNode {
        name,
        class: classes.get(name.as_str()).unwrap_or(then),
    };
    names.iter().zip(then).map(node).collect()
}

fn write(runtimes: &RwLock<Runtimes>) -> RwLockWriteGuard<'_, Runtimes> {
    runtimes.write().unwrap_or_else(PoisonError::into_inner)
}

/// A table with nothing in it; options that the configuration allows are valid.
fn empty(config: &LearnConfig) -> Speeds {
    let made: Result<Speeds, InputError> = Speeds::new(config.speeds_options());
    made.unwrap_or_default()
}
