// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `learn` joins events and polls into runs, records these, and keeps the table of
//! speeds that planners read.
//!
//! The table holds what the history's runs say: it is built from them at the start, after an import
//! and after a change of `[learn]`, and every run that ends is added to it.

mod idle_times;
pub mod runs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::{info, warn};

use self::runs::{Naming, RunEvent, Runs};
use crate::daemon::shared::Shared;
use crate::daemon::state::core_speeds::CoreSpeeds;
use crate::daemon::state::energy::RunKey;
use crate::daemon::state::learned::Failures;
use crate::daemon::state_file;
use crate::history::{Record, split_node_classes};
use crate::sync::TICK;
use phalanx_config::LearnConfig;
use phalanx_core::hostlist;
use phalanx_core::limits::{HOSTLIST_NAMES_MAX, LEARN_EVENTS_MAX};
use phalanx_core::number::as_f64;
use phalanx_core::problem::InputError;
use phalanx_core::run::Run;
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::clock::{now_ms, now_s};
use phalanx_messages::collect::OFF;
use phalanx_methods::learn::deaths::{Accused, Deaths, may_be_the_nodes_fault};
use phalanx_methods::learn::runtime::{JobClass, Runtimes, tells_runtime};
use phalanx_methods::learn::{
    JobTraits, Observation, RunNode, Speeds, class_of, family_of, node_class_of, teaches,
};

/// Longest wait for the first snapshot before runs are read without the nodes.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Age at which a run that was handed to the history is surely written.
const WRITTEN_AFTER: Duration = Duration::from_secs(10);
/// Pause before a history that could not be read is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Number of runs that are read between two looks for events.
const EVENTS_EVERY: u64 = 4096;
/// Number of newest runs of a former daemon among which jobs that Slurm still knows are looked up.
const KNOWN_MAX: usize = 200_000;
/// File of the nodes that were forgiven, beside the history.
const FORGIVEN: &str = "forgiven.json";

/// The table of speeds, and the runs and settings that it is made from.
pub struct Learner<'a> {
    all: &'a Shared,
    config: LearnConfig,
    runs: Runs,
    speeds: Speeds,
    deaths: Deaths,
    /// Nodes that failed jobs which Slurm still knows, by job id.
    failed_on: BTreeMap<u32, Vec<Arc<str>>>,
    /// Classes of the nodes as the last poll showed them.
    classes: BTreeMap<Arc<str>, String>,
    cpus: BTreeMap<Arc<str>, u64>,
    /// Runs whose energy the accounting is asked for.
    unmetered: BTreeMap<RunKey, Run>,
    epoch: u64,
    built: bool,
    changed: bool,
    /// Runs that may not be in the file yet.
    unwritten: Vec<(Instant, Run)>,
    /// Runtimes and speeds by cores of the runs being read; planners use the former tables
    /// meanwhile.
    building: Option<Building>,
    started: Instant,
}

/// Tables that are being built again from all runs.
#[derive(Debug, Default)]
struct Building {
    runtimes: Runtimes,
    core_speeds: CoreSpeeds,
}

impl<'a> Learner<'a> {
    pub fn new(all: &'a Shared) -> Self {
        let config = all.configuration.get();
        let path = config.history.path.with_file_name(FORGIVEN);
        let forgiven: BTreeMap<Arc<str>, i64> = state_file::read(&path).unwrap_or_default();
        let config = config.learn.clone();
        Self {
            all,
            speeds: empty(&config),
            config,
            runs: Runs::default(),
            deaths: Deaths::forgiving(forgiven),
            failed_on: BTreeMap::new(),
            classes: BTreeMap::new(),
            cpus: BTreeMap::new(),
            unmetered: BTreeMap::new(),
            epoch: 0,
            built: false,
            changed: false,
            unwritten: Vec::new(),
            building: None,
            started: Instant::now(),
        }
    }

    /// Learns until `stop`, or until the last sender of events is gone.
    pub fn run(mut self, events: &Receiver<RunEvent>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match events.recv_timeout(TICK) {
                Ok(event) => {
                    self.runs.take(event);
                    events.try_iter().for_each(|event| self.runs.take(event));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.turn(events);
        }
    }

    fn turn(&mut self, events: &Receiver<RunEvent>) {
        let snapshot = self.all.cluster.snapshot();
        if let Some(snapshot) = snapshot.as_ref().filter(|s| s.epoch != self.epoch) {
            self.name_nodes(snapshot);
        }
        let waited = self.started.elapsed() > FIRST_WAIT;
        if !self.built && snapshot.is_none() && !waited {
            return;
        }
        let config = self.all.configuration.get();
        let asked = self.all.learned.rebuild_due(Instant::now());
        if !self.built || asked || config.learn != self.config {
            self.config.clone_from(&config.learn);
            self.rebuild(events);
        }
        if let Some(snapshot) = snapshot.filter(|s| s.epoch != self.epoch) {
            self.epoch = snapshot.epoch;
            self.poll(&snapshot);
        }
        self.forgive();
        self.meter();
        if std::mem::take(&mut self.changed) {
            self.all.learned.set_speeds(self.speeds.clone());
        }
    }

    fn name_nodes(&mut self, snapshot: &Snapshot) {
        let by = &self.config.node_class_by;
        let class =
            |node: &phalanx_core::snapshot::Node| (Arc::clone(&node.name), node_class_of(node, by));
        self.classes = snapshot.named().map(|(_, node)| class(node)).collect();
        self.cpus = snapshot.named().map(|(_, n)| (Arc::clone(&n.name), n.cpus)).collect();
    }

    /// Adds the energy that Slurm's accounting has given since the last call.
    fn meter(&mut self) {
        for (key, joules) in self.all.energy.take() {
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
            self.all.history.send(Record::Run(Box::new(run)));
        }
    }

    /// Asks the accounting for the energy of a run that was learned without it.
    fn ask_energy(&mut self, run: &Run) {
        if self.all.cluster.energy_accounted() && run.joules.is_none() {
            let key = (run.job.clone(), run.start_s);
            if self.all.energy.ask(key.clone(), run.end_s) {
                self.unmetered.insert(key, run.clone());
            }
        }
    }

    /// Takes a poll: records and learns the runs that it completes.
    fn poll(&mut self, snapshot: &Arc<Snapshot>) {
        let config = &self.config;
        let naming = Naming { class_by: &config.class_by, node_class_by: &config.node_class_by };
        let ended = self.runs.poll(snapshot, now_ms(), naming);
        self.all.learned.set_pause_s(self.runs.idle_times.mean_s());
        self.unwritten.retain(|(at, _)| at.elapsed() < WRITTEN_AFTER);
        let settings = self.all.responder.settings();
        for mut run in ended {
            run.arm = settings.draw.as_ref().map(|draw| draw.arm(&run)).unwrap_or_default();
            run.work = run.work.or_else(|| self.all.inputs.megabytes(&run));
            if self.learn(&run) {
                self.ask_energy(&run);
            }
            if may_be_the_nodes_fault(&run.state) {
                let nodes = hostlist::nodes(&run.nodes);
                let on = self.failed_on.entry(run.job_id).or_default();
                on.extend(nodes.into_iter().map(Arc::from));
            }
            self.all.history.send(Record::Run(Box::new(run.clone())));
            self.unwritten.push((Instant::now(), run));
        }
        self.failed_on.retain(|id, _| snapshot.job(*id).is_some());
        self.tell_failures();
    }

    /// Publishes what is learned from jobs that died.
    fn tell_failures(&self) {
        let off = self.all.configuration.get().balance.health == OFF;
        let accused = if off { Vec::new() } else { self.deaths.accused(now_s()) };
        tell(&self.all.learned.failures().accused, &accused);
        self.all.learned.set_failures(Failures { accused, of_jobs: self.failed_on.clone() });
    }

    /// Forgets the accusations of nodes that an administrator has forgiven, also after a restart.
    fn forgive(&mut self) {
        let asked = self.all.learned.take_forgiven();
        if asked.is_empty() {
            return;
        }
        asked.into_iter().for_each(|node| self.deaths.forgive(node, now_s()));
        let path = self.all.configuration.get().history.path.with_file_name(FORGIVEN);
        if let Err(error) = state_file::write(&path, self.deaths.forgiven()) {
            warn!("{}: {error}; a restart accuses the nodes again", path.display());
        }
        self.tell_failures();
    }

    /// Builds the table from the history's runs.
    fn rebuild(&mut self, events: &Receiver<RunEvent>) {
        let began = Instant::now();
        if let Some(snapshot) = self.all.cluster.snapshot() {
            self.name_nodes(&snapshot);
        }
        let Shared { learned, reader, .. } = self.all;
        let before = std::mem::replace(&mut self.speeds, empty(&self.config));
        self.deaths = Deaths::forgiving(self.deaths.forgiven().clone());
        self.building = Some(Building::default());
        let mut late = Vec::new();
        let mut unwritten: BTreeMap<(String, i64), Run> = std::mem::take(&mut self.unwritten)
            .into_iter()
            .map(|(_, run)| ((run.job.clone(), run.start_s), run))
            .collect();
        let mut known = VecDeque::new();
        let mut rows = 0_u64;
        let visit = |run: Run| {
            rows += 1;
            if rows.is_multiple_of(EVENTS_EVERY) && late.len() < LEARN_EVENTS_MAX {
                // Reading takes minutes where there are many: the channel must not fill.
                late.extend(events.try_iter());
            }
            self.learn(&run);
            let key = (run.job, run.start_s);
            unwritten.remove(&key);
            known.push_back(key);
            if known.len() > KNOWN_MAX {
                known.pop_front();
            }
        };
        let read = reader.each_run_since(0, visit);
        match read {
            Ok(()) => {
                unwritten.values().for_each(|run| {
                    self.learn(run);
                });
                if let Some(Building { runtimes, core_speeds }) = self.building.take() {
                    learned.replace_runtimes(runtimes);
                    learned.core_speeds.replace(core_speeds);
                }
            }
            Err(error) => {
                // The file may be being made, or the disk be full: what is known stays.
                if self.built {
                    warn!("speeds: {error}; what was learned so far stays");
                }
                self.speeds = before;
                self.building = None;
                learned.rebuild_at(Instant::now() + RETRY);
            }
        }
        late.into_iter().for_each(|event| self.runs.take(event));
        self.unwritten = unwritten.into_values().map(|run| (Instant::now(), run)).collect();
        self.runs.knows(known.into_iter().collect::<BTreeSet<_>>());
        self.built = true;
        self.changed = true;
        self.tell_failures();
        if rows > 0 {
            let (classes, ms) = (self.speeds.len(), began.elapsed().as_millis());
            info!("speeds: {classes} job classes learned from {rows} runs in {ms} ms");
        }
    }

    /// Adds a run to what is known; returns whether the run taught a speed.
    fn learn(&mut self, run: &Run) -> bool {
        if tells_runtime(&run.state) && run.elapsed_ms > 0 {
            let class = JobClass::of(&JobTraits::of_run(run), run.limit_min);
            let seconds = (run.elapsed_ms / 1000).max(1);
            match &mut self.building {
                Some(building) => building.runtimes.observe(&class, seconds),
                None => self.all.learned.observe(&class, seconds),
            }
        }
        let class = self.class_of(run);
        self.deaths.saw(run, &class);
        self.changed |= self.speeds.saw_request(&run.tres_req, run.end_s);
        if !teaches(&run.state, run.work.is_some()) || run.elapsed_ms == 0 {
            return false;
        }
        let Ok(names) = hostlist::expand(&run.nodes, HOSTLIST_NAMES_MAX) else { return false };
        let then = split_node_classes(&run.node_class, &names);
        let seen = self.observation(run);
        self.changed = true;
        let nodes = run_nodes(&self.classes, &names, &then);
        let core_speeds = self.building.as_ref().map(|building| &building.core_speeds);
        let core_speeds = core_speeds.unwrap_or(&self.all.learned.core_speeds);
        core_speeds.learn(run, &self.config.class_by, class_of_all(&nodes));
        let family = family_of(&class, &self.config.class_by);
        self.speeds.learn(&run.user, &class, family.as_deref(), &nodes, &seen).is_ok()
    }

    fn class_of(&self, run: &Run) -> String {
        class_of(&JobTraits::of_run(run), &self.config.class_by)
    }

    /// Returns what a run teaches of speed. Slurm counts energy of whole nodes, of which a job has
    /// its share.
    fn observation(&self, run: &Run) -> Observation {
        let names = hostlist::nodes(&run.nodes);
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

/// Logs which nodes are newly accused, and which ones are not any more.
fn tell(before: &[Accused], now: &[Accused]) {
    let is_in = |all: &[Accused], one: &Accused| all.iter().any(|other| other.node == one.node);
    for one in now.iter().filter(|one| !is_in(before, one)) {
        warn!("node {} comes last: {one}", one.node);
    }
    for one in before.iter().filter(|one| !is_in(now, one)) {
        info!("node {}: no longer last for its failed jobs", one.node);
    }
}

/// Returns nodes with their present classes, else with those recorded with the run.
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

/// The class of all `nodes`; `None` where classes differ or are not known.
fn class_of_all<'a>(nodes: &[RunNode<'a>]) -> Option<&'a str> {
    let class = nodes.first().map(|node| node.class).filter(|class| !class.is_empty())?;
    nodes.iter().all(|node| node.class == class).then_some(class)
}

/// Returns an empty table of speeds; options that the configuration allows are valid.
fn empty(config: &LearnConfig) -> Speeds {
    let made: Result<Speeds, InputError> = Speeds::new(config.speeds_options());
    made.unwrap_or_default()
}
