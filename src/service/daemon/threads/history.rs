// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `history` turns the link's events into decision memory, which `phalanx explain`
//! reads, and into the history's records. It is a thread of its own so that names cost no time
//! between a question and its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use phalanx_ffi::wire::{Cause, Reason};
use phalanx_slurm::job_state_text;

use super::learn::runs::RunEvent;
use crate::daemon::comparison::compare;
use crate::daemon::decision_views::{decision_record, job_ref, names};
use crate::daemon::shared::Shared;
use crate::daemon::state::decision_memory::{Key, Start};
use crate::history::{JobEndRecord, OutcomeRecord, PlacementRecord, Record};
use crate::sync::TICK;
use phalanx_config::{Draw, Mode};
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_core::number::{as_u32, nearest_i64};
use phalanx_core::{NodeIdx, hostlist};
use phalanx_ffi::clock::now_ms;
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::DecisionReport;
use phalanx_mirror::{BeganEvent, Decision, LinkEvent, OutcomeEvent};
use phalanx_planner::cluster::Held;

/// Turns link events into decision memory and records.
pub struct HistoryWriter<'a> {
    pub all: &'a Shared,
    pub events: Receiver<LinkEvent>,
    /// Channel to the learn thread.
    pub runs: Sender<RunEvent>,
    /// Job keys of decisions whose outcome is not known yet.
    pub open: BTreeMap<u64, Key>,
}

impl HistoryWriter<'_> {
    /// Writes until `stop`, and then as long as events come.
    pub fn run(mut self, stop: &AtomicBool) {
        let mut next = Instant::now() + FIRST_SAMPLE;
        loop {
            if Instant::now() >= next {
                next = Instant::now() + SAMPLE_EVERY;
                self.all.sample().into_iter().for_each(|now| self.record(Record::Sample(now)));
            }
            match self.events.recv_timeout(TICK) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Asked(ask) => self.asked(&ask),
            LinkEvent::Outcome(outcome) => self.outcome(outcome),
            LinkEvent::Began(began) => self.began(&began),
            LinkEvent::Ended { job_id, state, end_s } => self.ended(job_id, state, end_s),
        }
    }

    fn record(&self, record: Record) {
        self.all.history.send(record);
    }

    /// Hands an event to the learn thread without waiting.
    fn send_run(&self, event: RunEvent) {
        if self.runs.try_send(event).is_err() {
            self.all.learned.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn asked(&mut self, decision: &Decision) {
        let question = &decision.question;
        let key = Key::of(question.job_id, question.array);
        let mode = self.all.responder.settings().tuning.params.mode;
        self.open.insert(decision.id, key);
        while self.open.len() > OPEN_MAX {
            self.open.pop_first();
        }
        let record = decision_record(decision, mode, now_ms());
        lock(&self.all.decisions).asked(key, record.clone());
        self.record(Record::Decision(record));
    }

    fn outcome(&mut self, note: OutcomeEvent) {
        if note.decision == 0 {
            return;
        }
        let record = OutcomeRecord {
            decision: note.decision,
            job_id: note.job_id,
            outcome_ms: now_ms(),
            outcome_reason: match note.reason {
                Some(Reason::None) => None,
                Some(Reason::Held) if note.full => Some("hold_refused".to_owned()),
                Some(reason) => Some(reason.as_str().to_owned()),
                None => Some("unknown".to_owned()),
            },
            outcome_rc: note.rc,
            outcome_nodes: note.count,
            ask_ns: note.ask_ns,
        };
        if let Some(key) = self.open.get(&note.decision) {
            lock(&self.all.decisions).outcome(*key, record.clone());
        }
        self.record(Record::Outcome(record));
    }

    fn ended(&self, job_id: u32, state: u32, end_s: u64) {
        let (time_ms, state) = (now_ms(), job_state_text(state));
        self.send_run(RunEvent::Ended {
            job_id,
            state: state.split('+').next().unwrap_or_default().to_owned(),
            end_s: nearest_i64(end_s),
            at_ms: time_ms,
        });
        self.record(Record::JobEnd(JobEndRecord { time_ms, job_id, state }));
    }

    /// Hands the nodes of a job to the learn thread.
    fn holds(&self, note: &BeganEvent, placed_by: &str, at_ms: u64) {
        let name = |held: &Held| note.table.nodes.get(held.node.at()).map(|n| Arc::clone(&n.name));
        self.send_run(RunEvent::Holds {
            job_id: note.job.id,
            start_s: nearest_i64(note.job.start_s),
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
        let nodes: Vec<NodeIdx> = note.job.held.iter().map(|held| held.node).collect();
        let text = names(&note.table, &nodes);
        let of_table = |at: &NodeIdx| Some(Arc::clone(&note.table.nodes.get(at.at())?.name));
        let named: Vec<Arc<str>> = nodes.iter().filter_map(of_table).collect();
        self.all.inputs.began(note.job.id, &named);
        let start_ms = note.job.start_s.saturating_mul(1000);
        let start = Start { job_id: note.job.id, nodes: text.clone(), start_ms, row: None };
        let row = lock(&self.all.decisions).began(key, note.job.user_id, start);
        let ours = row.as_ref().filter(|row| row.put_on(&text));
        let scores = ours.and_then(|row| row.decision.explain.as_ref());
        self.holds(note, scores.map_or("stock", |scores| &scores.method), time_ms);
        let made = row.as_ref().map(|row| &row.decision);
        let partition = made.map(|made| made.job.partition.as_str()).unwrap_or_default();
        let settings = self.all.responder.settings();
        let array = note.job.array.map(|(array, _)| array);
        let drawn = |draw: &Draw| row.is_none() && draw.is_slurms(note.job.id, array, None);
        let alone = settings.draw.as_ref().is_some_and(drawn);
        let mode = made.map_or(settings.mode.as_str(), |made| &made.mode);
        let mode = if alone { Mode::Off.as_str() } else { mode };
        if mode == Mode::Off.as_str() && !alone {
            return;
        }
        let is_shadow = mode == Mode::Shadow.as_str();
        let shadow = made.filter(|made| is_shadow && made.ask.nodes != text);
        let scores = shadow.and_then(|made| made.explain.as_ref());
        let compared = scores.and_then(|scores| self.compare(note, scores));
        self.record(Record::Placement(PlacementRecord {
            time_ms,
            job: job_ref(note.job.id, note.job.array, note.job.user_id, partition),
            mode: mode.to_owned(),
            nodes: text,
            node_count: as_u32(nodes.len()),
            decision: made.map(|made| made.decision),
            compared,
            delta: Some(i64::from(note.delta)).filter(|delta| *delta != 0),
        }));
    }

    /// Compares Slurm's nodes with those of a decision, as JSON; none where the node table is
    /// another one by now.
    fn compare(&self, note: &BeganEvent, made: &DecisionReport) -> Option<String> {
        let names = hostlist::expand(&made.nodes, HOSTLIST_NAMES_MAX).ok()?;
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let all = note.table.nodes.iter().enumerate();
        let decided = all.filter(|(_, node)| names.contains(&*node.name));
        let decided = decided.map(|(at, _)| NodeIdx::new(at)).collect();
        let on = made.topology.as_ref().map(|on| on.topology.as_str());
        let topology = note.table.topologies.iter().find(|t| on == Some(&**t.name()));
        let found = self.all.responder.with_placer(|placer| {
            let cluster = Some(placer.cluster()).filter(|c| Arc::ptr_eq(c.table(), &note.table))?;
            let usage = |node: NodeIdx| cluster.usages().get(node.at()).cloned();
            compare((&note.table, topology), usage, &note.job.held, &decided)
        });
        serde_json::to_string(&found??).ok()
    }
}

/// Interval of samples of queue and nodes.
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
/// Time until the first sample, by when the first poll has answered.
const FIRST_SAMPLE: Duration = Duration::from_secs(2);
/// Most decisions that are kept for their outcome.
const OPEN_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::state::decision_memory::DecisionMemory;
    use crate::history::{DecisionRecord, HistoryThread, Limits, ThreadOptions};
    use crate::link::Responder;
    use crate::recordings::RecordingWriter;
    use phalanx_config::Config;
    use phalanx_core::snapshot::{Table, TableNode};
    use phalanx_messages::rest::AskReport;
    use phalanx_mirror::Settings;
    use phalanx_planner::cluster::RunningJob;

    /// Writes events; returns how many records were written and how many were not, and the events
    /// that the learn thread got.
    fn write(memory: DecisionMemory, all: Vec<LinkEvent>) -> ((u64, u64), Vec<RunEvent>) {
        let dir = tempfile::tempdir().unwrap();
        let options = ThreadOptions::new(&dir.path().join("history.sqlite"));
        let limits = Limits { retention_days: 1, runs_days: 1, max_mb: 64 };
        let (history, database) = HistoryThread::start(options, limits).unwrap();
        let (sender, events) = crossbeam_channel::bounded(10);
        let (runs, learned) = crossbeam_channel::bounded(10);
        all.into_iter().for_each(|event| sender.send(event).unwrap());
        let mut config = Config::default();
        config.history.path = dir.path().join("history.sqlite");
        let responder = Arc::new(Responder::new(Settings::of(&config, 1), sender, 1));
        let counters = Arc::clone(history.shared());
        let (_, recording) = RecordingWriter::new(Arc::clone(&responder));
        let file = dir.path().join("phalanx.toml");
        let all =
            Shared::new(&file, &Arc::new(config), responder, history, recording, Arc::default());
        *lock(&all.decisions) = memory;
        let writer = HistoryWriter { all: &all, events, runs, open: BTreeMap::new() };
        writer.run(&AtomicBool::new(true));
        drop(all);
        database.join(Duration::from_secs(60));
        let written = (counters.written.load(Ordering::Relaxed), counters.not_written());
        (written, learned.try_iter().collect())
    }

    #[test]
    fn events_that_wait_at_the_end_reach_the_database() {
        let ended = |job_id| LinkEvent::Ended { job_id, state: 3, end_s: 1 };
        let (written, _) = write(DecisionMemory::default(), (1..=5).map(ended).collect());
        assert_eq!(written, (5, 0));
    }

    /// Goal: a method is named for the nodes that it chose, not where it chose only a part of a
    /// job's nodes, as for each of counted features.
    #[test]
    fn a_method_that_chose_a_part_of_the_nodes_did_not_place_the_job() {
        let node = |at: usize| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
        let table = Table { nodes: (0..3).map(node).collect(), ..Table::default() };
        let table = Arc::new(table);
        let cases = [
            ("n[0-1]", Some(None), "gang"),
            ("n[0-1]", None, "gang"), // its report is lost
            ("n[0-1]", Some(Some("narrow_failed")), "stock"),
            ("n1", Some(None), "stock"),
            ("n1", None, "stock"),
            ("n[0-2]", Some(None), "stock"),
        ];
        for (chosen, outcome, expected) in cases {
            let mut memory = DecisionMemory::default();
            let (ask, nodes) = ("run_now".to_owned(), chosen.to_owned());
            let ask = AskReport { ask, nodes, ..AskReport::default() };
            let scores = DecisionReport { method: "gang".to_owned(), ..DecisionReport::default() };
            let explain = Some(Arc::new(scores));
            let (decision, mode) = (1, "enforce".to_owned());
            let made = DecisionRecord { decision, mode, ask, explain, ..DecisionRecord::default() };
            memory.asked(Key::Job(7), made);
            if let Some(reason) = outcome {
                let outcome_reason = reason.map(str::to_owned);
                let outcome = OutcomeRecord { decision: 1, outcome_reason, ..<_>::default() };
                memory.outcome(Key::Job(7), outcome);
            }
            let held = (0..2).map(|at| Held { node: NodeIdx::new(at), ..Held::default() });
            let job = RunningJob { id: 7, held: held.collect(), ..RunningJob::default() };
            let (cause, table) = (Some(Cause::Begin), Arc::clone(&table));
            let began = BeganEvent { job, cause, table, delta: 0 };
            let (_, learned) = write(memory, vec![LinkEvent::Began(began)]);
            let [RunEvent::Holds { placed_by, .. }] = &learned[..] else { panic!("{learned:?}") };
            assert_eq!(placed_by, expected, "{chosen}");
        }
    }
}
