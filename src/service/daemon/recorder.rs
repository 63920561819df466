// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns the link's notes into what is kept: memory for `explain`, records
//! for the history. Runs on its own thread, so that neither names nor JSON
//! cost time between a question and its answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::Receiver;
use phalanx_ffi::slurm::job_state_text;
use phalanx_ffi::wire::{Cause, Reason};

use crate::api::types::{AskReport, DecisionReport, ScoredNode};
use crate::daemon::learner::RunSender;
use crate::daemon::recent::{Ask, Key, Recent, Start};
use crate::daemon::runs::RunNote;
use crate::daemon::steerers::preference_report;
use crate::history::{
    DecisionRecord, HistorySender, JobEndRecord, JobRef, OutcomeRecord, PlacementRecord, Record,
};
use crate::link::{AskNote, BeganEvent, LinkEvent, Mode, OutcomeEvent, Responder};
use phalanx_core::hostlist;
use phalanx_methods::balance::{Branch, Choice, Decision};
use phalanx_planner::cluster::{Held, Table};

/// Chosen nodes whose scores are kept.
const SCORED_MAX: usize = 64;

/// Unix milliseconds.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Unix seconds.
pub(super) fn now_s() -> i64 {
    i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX)
}

/// The recorder's thread.
pub(super) struct Recorder {
    pub(super) notes: Receiver<LinkEvent>,
    pub(super) recent: Arc<Mutex<Recent>>,
    pub(super) history: Option<HistorySender>,
    pub(super) responder: Arc<Responder>,
    /// To the learner, if anything is learned.
    pub(super) runs: Option<RunSender>,
    /// Keys of asked decisions whose outcome is not yet known.
    pub(super) open: BTreeMap<u64, (Key, Option<f64>)>,
}

impl Recorder {
    /// Until the last sender is gone.
    pub(super) fn run(mut self) {
        while let Ok(note) = self.notes.recv() {
            match note {
                LinkEvent::Asked(ask) => self.asked(&ask),
                LinkEvent::Outcome(outcome) => self.outcome(outcome),
                LinkEvent::Began(began) => self.began(&began),
                LinkEvent::Ended { job_id, state, end_s } => self.ended(job_id, state, end_s),
            }
        }
    }

    fn record(&self, record: Record) {
        if let Some(history) = &self.history {
            history.send(record);
        }
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&mut self, note: &AskNote) {
        let time_ms = now_ms();
        let key = Key::of(note.job_id, note.array);
        let scores = note.placement.as_ref().map(|_| self.decision_report(note, time_ms));
        let nodes = scores.as_ref().map(|s| s.nodes.clone()).unwrap_or_default();
        let reason = note.reason.map(|r| reason_words(r, note.detail));
        let after = scores.as_ref().and_then(mean_after);
        self.open.insert(note.decision, (key, after));
        while self.open.len() > OPEN_MAX {
            self.open.pop_first();
        }
        let preference = |used| preference_report(used, |node| name(&note.table, node));
        let report = AskReport {
            time_ms,
            mode: ask_mode(note.will_run).to_owned(),
            verdict: verdict(note).to_owned(),
            reason: reason.clone(),
            nodes: nodes.clone(),
            preference: note.preference_use.as_ref().map(preference),
            steer: None,
        };
        let explain = scores.as_ref().and_then(|s| serde_json::to_string(s).ok());
        let partition = note.partition.clone();
        let ask = Ask { decision: note.decision, partition, report, scores, kept: false };
        self.recent().asked(key, ask);
        let nodes_count = note.placement.as_ref().map_or(0, |p| p.nodes.len());
        self.record(Record::Decision(DecisionRecord {
            decision: note.decision,
            time_ms,
            job: job_ref(note.job_id, note.array, note.user_id, &note.partition),
            ask: ask_mode(note.will_run).to_owned(),
            mode: note.mode.as_str().to_owned(),
            verdict: verdict(note).to_owned(),
            reason,
            nodes,
            node_count: u32::try_from(nodes_count).unwrap_or(u32::MAX),
            generation: note.generation,
            explain,
            latency_us: note.took_ns / 1000,
        }));
    }

    fn outcome(&mut self, note: OutcomeEvent) {
        let reason = match note.reason {
            Some(Reason::None) => None,
            Some(reason) => Some(reason.as_str().to_owned()),
            None => Some("unknown".to_owned()),
        };
        let key = self.open.get(&note.decision).map(|(key, _)| *key);
        if let Some(key) = key {
            self.recent().outcome(key, note.decision, reason.clone());
        }
        if note.decision == 0 {
            return;
        }
        self.record(Record::Outcome(OutcomeRecord {
            decision: note.decision,
            time_ms: now_ms(),
            job_id: note.job_id,
            reason,
            rc: note.rc,
            node_count: note.count,
            ask_ns: note.ask_ns,
        }));
    }

    fn ended(&self, job_id: u32, state: u32, end_s: u64) {
        let (time_ms, state) = (now_ms(), job_state_text(state));
        if let Some(runs) = &self.runs {
            let end_s = i64::try_from(end_s).unwrap_or(i64::MAX);
            let state = state.split('+').next().unwrap_or_default().to_owned();
            runs.send(RunNote::Ended { job_id, state, end_s, at_ms: time_ms });
        }
        self.record(Record::JobEnd(JobEndRecord { time_ms, job_id, state }));
    }

    /// Tells the learner which nodes a job holds.
    fn holds(&self, note: &BeganEvent, placed_by: &str, at_ms: u64) {
        let Some(runs) = &self.runs else { return };
        let name = |held: &Held| note.table.nodes.get(held.node).map(|n| Arc::clone(&n.name));
        runs.send(RunNote::Holds {
            job_id: note.job.id,
            start_s: i64::try_from(note.job.start_s).unwrap_or(i64::MAX),
            nodes: note.job.held.iter().filter_map(name).collect(),
            placed_by: placed_by.to_owned(),
            at_ms,
            fresh: note.cause == Some(Cause::Begin),
        });
    }

    fn began(&mut self, note: &BeganEvent) {
        if note.cause != Some(Cause::Begin) {
            self.holds(note, "", now_ms());
            return;
        }
        let time_ms = now_ms();
        let key = Key::of(note.job.id, note.job.array);
        let nodes: Vec<u32> =
            note.job.held.iter().filter_map(|h| u32::try_from(h.node).ok()).collect();
        let text = names(&note.table, &nodes);
        let start_ms = note.job.start_s.saturating_mul(1000);
        let start = Start { job_id: note.job.id, nodes: text.clone(), start_ms, ask: None };
        let ask = self.recent().began(key, start);
        let kept = ask.as_ref().filter(|ask| ask.kept);
        let method = kept.and_then(|ask| ask.scores.as_ref()).map_or("stock", |s| &s.method);
        self.holds(note, method, time_ms);
        let partition = ask.as_ref().map(|a| a.partition.as_str()).unwrap_or_default();
        let mode = self.responder.settings().mode_of(partition);
        if mode == Mode::Off {
            return;
        }
        let decision = ask.as_ref().map(|ask| ask.decision);
        let decided = decision.and_then(|id| self.open.get(&id)).and_then(|(_, after)| *after);
        self.record(Record::Placement(PlacementRecord {
            time_ms,
            job: job_ref(note.job.id, note.job.array, note.job.user_id, partition),
            mode: mode.as_str().to_owned(),
            nodes: text,
            node_count: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            decision,
            dispersion_actual: note.dispersion,
            dispersion_decided: decided,
        }));
    }

    fn decision_report(&self, note: &AskNote, time_ms: u64) -> DecisionReport {
        let settings = self.responder.settings();
        let Some(placement) = &note.placement else { return DecisionReport::default() };
        let decision = &placement.decision;
        let by_preference = note.preference_use.as_ref().filter(|s| s.set.is_some());
        DecisionReport {
            id: note.decision,
            time_ms,
            method: by_preference.map_or("balance", |s| s.preference.method.as_str()).to_owned(),
            preference: by_preference.map(|s| preference_report(s, |node| name(&note.table, node))),
            steer: None,
            method_mode: match settings.tuning.params.mode {
                phalanx_methods::balance::Mode::Seed => "seed".to_owned(),
                phalanx_methods::balance::Mode::Best => "best".to_owned(),
            },
            generation: note.generation,
            nodes: names(&note.table, &placement.nodes),
            candidates: placement.candidates as u64,
            branch: branch(decision).to_owned(),
            utilization: decision.utilization,
            dimensions: note.dims.iter().map(|d| d.to_string()).collect(),
            weights: decision.weights.clone(),
            chosen: decision
                .choices()
                .iter()
                .take(SCORED_MAX)
                .map(|choice| scored(note, choice))
                .collect(),
            runner_up: decision.runner_up.as_ref().map(|r| scored(note, &r.choice)),
            margin: decision.runner_up.as_ref().map(|r| r.margin),
        }
    }
}

/// Decisions kept open for their outcome.
const OPEN_MAX: usize = 100_000;

fn mean_after(report: &DecisionReport) -> Option<f64> {
    let count = u32::try_from(report.chosen.len()).ok().filter(|n| *n > 0)?;
    let sum: f64 = report.chosen.iter().map(|c| c.dispersion_after).sum();
    Some(sum / f64::from(count))
}

fn ask_mode(will_run: bool) -> &'static str {
    if will_run { "will_run" } else { "run_now" }
}

fn verdict(note: &AskNote) -> &'static str {
    if note.reason.is_none() { "narrow" } else { "no-opinion" }
}

fn reason_words(reason: Reason, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("{reason} ({detail})"),
        None => reason.to_string(),
    }
}

fn branch(decision: &Decision) -> &'static str {
    match decision.branch {
        Branch::Low => "low",
        Branch::High => "high",
        Branch::Best => "best",
    }
}

fn job_ref(job_id: u32, array: Option<(u32, u32)>, user_id: u32, partition: &str) -> JobRef {
    JobRef {
        job_id,
        array_job_id: array.map(|(job, _)| job),
        array_task_id: array.map(|(_, task)| task),
        het_job_id: None,
        user_id,
        partition: partition.to_owned(),
    }
}

fn name(table: &Table, node: usize) -> String {
    table.nodes.get(node).map_or_else(|| format!("#{node}"), |n| n.name.to_string())
}

/// Nodes as a hostlist in Slurm's order.
fn names(table: &Table, nodes: &[u32]) -> String {
    let names: Vec<String> = nodes.iter().map(|&node| name(table, node as usize)).collect();
    hostlist::compress(&names)
}

fn scored(note: &AskNote, choice: &Choice) -> ScoredNode {
    let known = note.placement.iter().flat_map(|p| &p.terms);
    let own = known.filter(|(node, _)| *node == choice.node).flat_map(|(_, terms)| terms);
    ScoredNode {
        node: name(&note.table, choice.node.at()),
        dispersion_before: choice.before,
        dispersion_after: choice.after,
        score: choice.score,
        terms: own.map(|(term, value)| ((*term).to_owned(), *value)).collect(),
    }
}
