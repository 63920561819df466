// SPDX-License-Identifier: GPL-3.0-or-later
//! A mirror that follows the records of a recording.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decide;
use crate::recording::{AskOp, Op, PreferencesOp, RecordedAnswer, Rest, TableOp};
use crate::settings::Settings;
use crate::state::State;
use phalanx_config::{BagMode, Config, DataMode, GangMode};
use phalanx_core::NodeIdx;
use phalanx_core::topology::Topology;
use phalanx_planner::cluster::{Cluster, Table};
use phalanx_planner::place::Placer;
use phalanx_planner::preference::{CandidateSet, Method, Note, Preference, PreferenceTable, Rows};

/// A replica's answer to a recorded question.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The answer, in the form of the recorded answer.
    pub answer: RecordedAnswer,
    /// Mean dispersion of the chosen nodes with the job.
    pub dispersion: Option<f64>,
}

/// A function that makes a topology over a recorded node table.
pub type TopologyOf<'a> = dyn Fn(&Table) -> Result<Topology, String> + 'a;

/// Deviations of a replay from the recording.
#[allow(missing_debug_implementations)] // functions have none
#[derive(Clone, Copy, Default)]
pub struct Other<'a> {
    /// Configuration in place of the recorded one.
    pub config: Option<&'a Config>,
    /// Topology in place of the recorded one.
    pub topology: Option<&'a TopologyOf<'a>>,
}

/// A mirror that follows the records of a recording.
#[allow(missing_debug_implementations)] // functions have none
pub struct Replica<'a> {
    state: State,
    settings: Option<Settings>,
    other: Other<'a>,
    /// The mirror whose jobs are being read.
    coming: Option<(Cluster, bool)>,
}

impl<'a> Replica<'a> {
    /// Starts without a state. `base` is the zero of the recording's times.
    pub fn new(base: Instant, other: Other<'a>) -> Self {
        Self { state: State::new(base), settings: None, other, coming: None }
    }

    /// Applies one record; returns the answer if the record is a question.
    ///
    /// # Errors
    /// Fails if the record does not fit those before.
    pub fn take(&mut self, at_ns: u64, op: &Op) -> Result<Option<Replayed>, String> {
        match op {
            Op::Table(table) => self.table(table)?,
            Op::Jobs(jobs) => {
                let (cluster, _) = self.coming.as_mut().ok_or("jobs without a node table")?;
                for job in jobs {
                    cluster.set_job(job.clone(), |_| {});
                }
            }
            Op::Rest(rest) => self.rest(rest)?,
            Op::Gone => self.state.disconnected(),
            Op::Settings(generation, text) => self.configure(*generation, text)?,
            Op::Levels(levels) => {
                self.settings()?.tuning.levels = Arc::new(levels.clone());
                self.tune()?;
            }
            Op::Queue(pending, pools) => self.state.set_queue(pending.clone(), pools.clone()),
            Op::Lacks(lacks) => self.lacks(lacks),
            Op::Preferences(preferences) => self.preferences(preferences)?,
            Op::Job(job, begun) => {
                if let Some((cluster, _)) = &mut self.coming {
                    cluster.set_job(job.clone(), |_| {});
                }
                self.state.set_job(job.clone(), *begun);
            }
            Op::Ends(ends) => {
                if let Some((cluster, _)) = &mut self.coming {
                    ends.iter().for_each(|end| _ = cluster.set_end(end.0, end.1));
                }
                self.state.set_ends(ends);
            }
            Op::Ended(job_id, job_state, end_s) => {
                if let Some((cluster, _)) = &mut self.coming {
                    cluster.end_job(*job_id, |_| {});
                }
                self.state.end_job(*job_id, *job_state, *end_s);
            }
            Op::Forgot(ids) => self.state.forget(ids),
            Op::Ask(ask) => return self.ask(at_ns, ask).map(Some),
            Op::Outcome(decision, refused) => {
                self.state.outcome(*decision, *refused, self.at(at_ns));
            }
            Op::Picture(_) | Op::Change(_) | Op::End(_) => {}
        }
        Ok(None)
    }

    /// Returns the mirror's nodes and engine; `None`: there is no mirror.
    pub(crate) fn placer(&self) -> Option<&Placer> {
        self.state.placer.as_ref().filter(|_| self.state.view.synced)
    }

    /// Returns the name of a node of the table in force.
    pub fn node(&self, index: NodeIdx) -> String {
        let table = self.state.placer.as_ref().map(|p| p.cluster().table());
        let node = table.and_then(|t| t.nodes.get(index.at()));
        node.map_or_else(|| format!("#{index}"), |n| n.name.to_string())
    }

    /// Returns the number of leaf switches or blocks that nodes are on; `None` without a topology.
    pub fn leaves(&self, nodes: &[NodeIdx]) -> Option<usize> {
        let table = self.state.placer.as_ref().map(|p| p.cluster().table())?;
        let (_, topology) =
            table.topology_at(None).filter(|(_, topology)| topology.has_leaves())?;
        Some(topology.leaves(nodes.iter().copied()).len())
    }

    fn table(&mut self, table: &TableOp) -> Result<(), String> {
        let memory_tracked = table.memory_tracked;
        let mut table = Table::clone(&table.table);
        if let Some(topology) = self.other.topology {
            let other = topology(&table)?;
            // Whichever of them a partition names.
            table.topologies = vec![other; table.topologies.len().max(1)];
        }
        self.coming = Some((Cluster::new(table), memory_tracked));
        Ok(())
    }

    fn rest(&mut self, rest: &Rest) -> Result<(), String> {
        let tuning = self.settings()?.tuning.clone();
        self.state.view.synced = false;
        if let Some((cluster, tracked)) = self.coming.take() {
            let set = self.state.set_cluster(cluster, tracked, tuning);
            set.map_err(|error| error.to_string())?;
        }
        if let Some(placer) = &mut self.state.placer {
            placer.set_poll_start(rest.poll_start);
        }
        self.state.polled = rest.polled;
        let first = rest.first_seen.iter().map(|&(job, ns)| (job, ns / 1_000_000));
        self.state.holds.set_first(first);
        self.state.inputs = rest.inputs.iter().copied().collect();
        self.state.refusals = rest.refusals.clone();
        self.state.preferences = Default::default();
        self.state.preferences.set_newest(rest.newest);
        Ok(())
    }

    fn lacks(&mut self, lacks: &BTreeMap<Arc<str>, u64>) {
        self.state.pending.lacks.clone_from(lacks);
        if let Some(placer) = &mut self.state.placer {
            placer.set_lacks(lacks.clone());
        }
    }

    fn settings(&mut self) -> Result<&mut Settings, String> {
        self.settings.as_mut().ok_or_else(|| "no configuration yet".to_owned())
    }

    fn configure(&mut self, generation: u64, text: &str) -> Result<(), String> {
        let recorded = Config::parse(text, Path::new("recorded configuration"));
        let recorded = recorded.map_err(|error| error.to_string())?;
        let mut settings = Settings::of(self.other.config.unwrap_or(&recorded), generation);
        if let Some(before) = &self.settings {
            settings.tuning.levels = Arc::clone(&before.tuning.levels);
        }
        self.settings = Some(settings);
        self.tune()
    }

    fn tune(&mut self) -> Result<(), String> {
        let tuning = self.settings()?.tuning.clone();
        let Some(placer) = &mut self.state.placer else { return Ok(()) };
        placer.tune(tuning).map_err(|error| error.to_string())?;
        placer.maintain();
        Ok(())
    }

    fn preferences(&mut self, op: &PreferencesOp) -> Result<(), String> {
        let current = self.state.placer.as_ref().filter(|_| op.current);
        let table = current.map(|p| Arc::clone(p.cluster().table())).unwrap_or_default();
        let lists: Vec<Arc<[NodeIdx]>> =
            op.lists.iter().map(|list| list.as_slice().into()).collect();
        let mut rows: Rows = Vec::with_capacity(op.rows.len());
        let is_on = self.other.config.is_none_or(|config| has(config, op.method));
        for row in op.rows.iter().filter(|_| is_on) {
            let mut sets = Vec::with_capacity(row.sets.len());
            let mut taken = Vec::with_capacity(row.sets.len());
            for (name, list, quota, started) in &row.sets {
                let nodes = lists.get(*list).ok_or("a candidate set without its nodes")?;
                sets.push(CandidateSet {
                    name: Arc::from(&**name),
                    nodes: Arc::clone(nodes),
                    quota: *quota,
                });
                taken.push(*started);
            }
            let (key, required, method) = (row.key, row.required, op.method);
            let worth = row.worth.clone();
            let preference =
                Preference { key, method, sets, worth, required, made_ms: 0, note: Note::None };
            rows.push((Arc::new(preference), taken));
        }
        self.state.preferences.set_newest(op.newest);
        self.state.prefer(op.method, PreferenceTable::of_rows(table, rows));
        Ok(())
    }

    fn at(&self, at_ns: u64) -> Instant {
        let base = self.state.born;
        base.checked_add(Duration::from_nanos(at_ns)).unwrap_or(base)
    }

    fn ask(&mut self, at_ns: u64, ask: &AskOp) -> Result<Replayed, String> {
        let settings = self.settings.as_ref().ok_or("a question before the state")?;
        let now = self.at(at_ns);
        let offer = &ask.offer;
        let (state, question) = (&mut self.state, &ask.question);
        let candidates = offer.candidates();
        let (mut answer, used) =
            decide::answer(state, settings, ask.decision, question, candidates, now);
        answer.explain(state.placer.as_mut());
        let choices = answer.placement().map(|p| p.decision.choices()).unwrap_or_default();
        let sum: f64 = choices.iter().map(|choice| choice.after).sum();
        let count = u32::try_from(choices.len()).ok().filter(|count| *count > 0);
        let dispersion = count.map(|count| sum / f64::from(count));
        Ok(Replayed { answer: RecordedAnswer::of(&answer, used.as_ref()), dispersion })
    }
}

/// Whether the configuration has a method; recorded preferences of other methods are ignored.
fn has(config: &Config, method: Method) -> bool {
    match method {
        Method::Gang | Method::BackfillWindow => config.gang.mode != GangMode::Off,
        Method::Bag => config.bag.mode != BagMode::Off,
        Method::DataJobs => config.data_jobs.mode != DataMode::Off,
    }
}
