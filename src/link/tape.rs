// SPDX-License-Identifier: GPL-3.0-or-later
//! What a recording is made from: every change of what answers depend on, in
//! the order in which it was made, and every question with its answer.
//!
//! Under the mirror's lock an [`Event`] is only put into a bounded channel;
//! what is costly (texts, digests) is made by whoever writes it
//! ([`Event::into_op`]). When the channel is full the tape is cut: a gap could
//! not be replayed. The state at the start is copied in pieces, as usage is
//! for planning: allocations are given whole and replace what was known, so
//! pieces and events may mix. [`Op::Rest`] completes the copy; only questions
//! after it are on the tape.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use phalanx_ffi::wire::Reason;
use serde::{Deserialize, Serialize};

use crate::balance::fragment::Want;
use crate::link::decide::Asked;
use crate::link::responder::{AskNote, OutcomeNote, Settings, State};
use crate::planner::attribution::Demand;
use crate::planner::cluster::{RunningJob, Table};
use crate::planner::place::{Placement, Pool, Tuning};
use crate::planner::steer::{JobKey, Method, Rows, SteerTable, Steered};
use crate::snapshot::Snapshot;

/// Jobs copied at a time.
const PIECE_JOBS: usize = 128;

/// One record of a tape, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Node table of the mirror; its jobs follow.
    Table(Box<TableOp>),
    /// Jobs that run, a part of them.
    Jobs(Vec<RunningJob>),
    /// Everything else: the state is complete.
    Rest(Box<Rest>),
    /// The plugin has disconnected: there is no mirror.
    Gone,
    /// Another configuration, as TOML, and its generation.
    Settings(u64, String),
    /// Levels of nodes by what was measured there.
    Levels(Vec<(String, u32)>),
    /// Pending jobs by dimension, and licence pools.
    Queue(QueueOp, Vec<Pool>),
    /// Steers of one method.
    Steers(SteersOp),
    /// Greatest job id that plans know.
    Newest(Option<u32>),
    /// A job holds exactly this; whether it began just now.
    Job(RunningJob, bool),
    /// A job gave everything back: id, Slurm's state, unix seconds.
    Ended(u32, u32, u64),
    /// A question and its answer.
    Ask(Box<AskOp>),
    /// What became of an answer.
    Outcome(OutcomeOp),
    /// Queue and nodes.
    Picture(Box<Snapshot>),
    /// What changed since the last picture.
    Change(Box<Change>),
    /// The end, and why.
    End(String),
}

/// See [`Op::Table`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableOp {
    /// Nodes by Slurm's index.
    pub table: Table,
    /// Memory is a consumable resource.
    pub memory_tracked: bool,
}

/// See [`Op::Rest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// There is a complete mirror: that of the table and jobs before.
    pub synced: bool,
    /// Generation of the configuration.
    pub generation: u64,
    /// The configuration, as TOML.
    pub config: String,
    /// See [`Op::Levels`].
    pub levels: Vec<(String, u32)>,
    /// See [`Op::Queue`].
    pub pending: QueueOp,
    /// See [`Op::Queue`].
    pub pools: Vec<Pool>,
    /// Where the engine polls next.
    pub poll_start: usize,
    /// Jobs held back: id, and since when in nanoseconds of the tape.
    pub first_seen: Vec<(u32, u64)>,
    /// Jobs that declare an input.
    pub inputs: Vec<u32>,
    /// See [`Op::Newest`].
    pub newest: Option<u32>,
    /// Steers of all methods.
    pub steers: Vec<SteersOp>,
    /// Questions that are not on the tape, because the state was not complete.
    pub missed: u64,
}

/// See [`Op::Queue`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueOp {
    /// Pending jobs by the dimension that they wait for.
    pub lacks: Vec<(String, u64)>,
    /// Requests for GPUs.
    pub gpus: Vec<Want>,
}

impl QueueOp {
    fn of(demand: &Demand) -> Self {
        let lacks = demand.lacks.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        Self { lacks, gpus: demand.gpus.clone() }
    }

    pub(super) fn demand(&self) -> Demand {
        let lacks = self.lacks.iter().map(|(name, count)| (Arc::from(&**name), *count)).collect();
        Demand { lacks, gpus: self.gpus.clone() }
    }
}

/// See [`Op::Steers`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteersOp {
    /// By whom.
    pub method: Method,
    /// Made for the node table in force.
    pub current: bool,
    /// Node lists that tiers refer to.
    pub lists: Vec<Vec<u32>>,
    /// By key.
    pub rows: Vec<SteerRow>,
}

/// One steer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteerRow {
    /// For whom.
    pub key: JobKey,
    /// Rather wait than go elsewhere.
    pub strict: bool,
    /// Name, number of the node list, quota, tasks started.
    pub tiers: Vec<(String, usize, Option<u32>, u32)>,
}

/// See [`Op::Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskOp {
    /// Decision id.
    pub decision: u64,
    /// The question.
    pub asked: Asked,
    /// Words of the bitmap of candidates.
    #[serde(with = "words")]
    pub candidates: Vec<u64>,
    /// The answer.
    pub answer: Answer,
}

/// An answer, as far as it is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Why Slurm is to decide; empty: it is to take the nodes.
    pub reason: String,
    /// In words, where the reason needs some.
    pub detail: String,
    /// Decided nodes, also in shadow mode; empty if none.
    pub nodes: Vec<u32>,
    /// Method of the job's steer; empty without one.
    pub method: String,
    /// Which of its sets decided.
    pub tier: Option<usize>,
    /// Hash of every figure behind it, to the last bit; 0 without a decision.
    pub digest: u64,
}

impl Answer {
    pub(super) fn new(
        reason: Option<Reason>,
        detail: Option<&str>,
        placement: Option<&Placement>,
        steered: Option<&Steered>,
    ) -> Self {
        Self {
            reason: reason.map(Reason::as_str).unwrap_or_default().to_owned(),
            detail: detail.unwrap_or_default().to_owned(),
            nodes: placement.map(|p| p.nodes.clone()).unwrap_or_default(),
            method: steered.map(|s| s.steer.method.as_str()).unwrap_or_default().to_owned(),
            tier: steered.and_then(|s| s.tier),
            digest: placement.map_or(0, digest),
        }
    }
}

/// See [`Op::Outcome`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeOp {
    /// Decision id.
    pub decision: u64,
    /// Job id.
    pub job_id: u32,
    /// WILL_RUN instead of RUN_NOW.
    pub will_run: bool,
    /// Empty: placed on the answered set.
    pub reason: String,
}

/// See [`Op::Change`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When it was seen, unix milliseconds.
    pub time_ms: u64,
    /// Nodes that changed.
    pub nodes: Vec<crate::snapshot::Node>,
    /// Jobs that are new or changed.
    pub jobs: Vec<crate::snapshot::Job>,
    /// Jobs that Slurm has forgotten.
    pub gone: Vec<u32>,
}

/// What happened, cheap to make.
#[derive(Debug)]
pub enum What {
    /// As it is written.
    Op(Op),
    /// See [`Op::Table`].
    Table(Arc<Table>, bool),
    /// See [`Op::Rest`], and the steers that belong to it.
    Rest(Box<Rest>, Vec<RawSteers>),
    /// See [`Op::Steers`].
    Steers(RawSteers),
    /// See [`Op::Ask`].
    Ask(Box<RawAsk>),
    /// See [`Op::Picture`]; made into changes by the writer.
    Snapshot(Arc<Snapshot>),
}

/// Steers of one method: by whom, whether made for the table in force, rows.
#[derive(Debug)]
pub struct RawSteers(pub Method, pub bool, pub Rows);

/// See [`What::Ask`].
#[derive(Debug)]
pub struct RawAsk {
    pub(super) decision: u64,
    pub(super) asked: Asked,
    pub(super) candidates: Vec<u64>,
    pub(super) reason: Option<Reason>,
    /// Absent when nothing was decided.
    pub(super) note: Option<Arc<AskNote>>,
}

/// One thing that happened, and when: nanoseconds since the responder was made.
#[derive(Debug)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

impl What {
    /// As it is written; `None` for a snapshot, which the writer compares with
    /// the one before.
    pub fn into_op(self) -> Result<Op, Arc<Snapshot>> {
        Ok(match self {
            Self::Op(op) => op,
            Self::Table(table, memory_tracked) => {
                Op::Table(Box::new(TableOp { table: Table::clone(&table), memory_tracked }))
            }
            Self::Rest(mut rest, steers) => {
                rest.steers = steers.into_iter().map(SteersOp::of).collect();
                Op::Rest(rest)
            }
            Self::Steers(raw) => Op::Steers(SteersOp::of(raw)),
            Self::Ask(raw) => Op::Ask(Box::new(raw.into_op())),
            Self::Snapshot(snapshot) => return Err(snapshot),
        })
    }
}

impl RawAsk {
    fn into_op(self) -> AskOp {
        let answer = match &self.note {
            Some(note) => {
                let placement = note.placement.as_ref();
                Answer::new(note.reason, note.detail, placement, note.steered.as_ref())
            }
            None => Answer::new(self.reason, None, None, None),
        };
        let Self { decision, asked, candidates, .. } = self;
        AskOp { decision, asked, candidates, answer }
    }
}

impl SteersOp {
    /// Lists that several tiers share are written once.
    fn of(RawSteers(method, current, rows): RawSteers) -> Self {
        let mut lists: Vec<Vec<u32>> = Vec::new();
        let mut known = std::collections::HashMap::new();
        let mut row = |(steer, taken): (Arc<crate::planner::steer::Steer>, Vec<u32>)| {
            let tiers = steer.tiers.iter().enumerate().map(|(at, tier)| {
                let list = *known.entry(tier.nodes.as_ptr().addr()).or_insert_with(|| {
                    lists.push(tier.nodes.to_vec());
                    lists.len() - 1
                });
                (tier.name.to_string(), list, tier.quota, taken.get(at).copied().unwrap_or(0))
            });
            SteerRow { key: steer.key, strict: steer.strict, tiers: tiers.collect() }
        };
        // The steers stay alive until all are made: an address means one list.
        let kept: Rows = rows.clone();
        let rows = rows.into_iter().map(&mut row).collect();
        drop(kept);
        Self { method, current, lists, rows }
    }
}

/// How far the copy of the state at the start is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    /// Next job id to copy.
    Jobs(u32),
    Rest,
    Whole,
}

/// A recording under way, as the link knows it.
#[derive(Debug)]
pub(super) struct Tape {
    sender: Sender<Event>,
    cut: Arc<AtomicBool>,
    phase: Phase,
    missed: u64,
}

impl Tape {
    pub(super) fn new(sender: Sender<Event>, cut: Arc<AtomicBool>) -> Self {
        Self { sender, cut, phase: Phase::Fresh, missed: 0 }
    }

    /// Whether allocations have to be told.
    pub(super) fn follows_jobs(&self) -> bool {
        self.phase != Phase::Fresh
    }

    /// Whether everything has to be told.
    pub(super) fn is_whole(&self) -> bool {
        self.phase == Phase::Whole
    }
}

/// Nanoseconds from one to the other.
pub(super) fn nanos(born: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(born).as_nanos()).unwrap_or(u64::MAX)
}

impl State {
    /// Puts an event on the tape, which is cut when there is no room.
    pub(super) fn put(&mut self, at: Instant, what: What) {
        let Some(tape) = &self.tape else { return };
        let at_ns = nanos(self.born, at);
        if tape.sender.try_send(Event { at_ns, what }).is_err() {
            tape.cut.store(true, Ordering::Release);
            self.tape = None;
        }
    }

    /// The same, if the state on the tape is complete.
    pub(super) fn tell(&mut self, what: impl FnOnce(&Self) -> What) {
        if self.tape.as_ref().is_some_and(Tape::is_whole) {
            let what = what(self);
            self.put(Instant::now(), what);
        }
    }

    /// The same for a change of an allocation, which a copy under way needs too.
    pub(super) fn tell_job(&mut self, op: impl FnOnce() -> Op) {
        if self.tape.as_ref().is_some_and(Tape::follows_jobs) {
            self.put(Instant::now(), What::Op(op()));
        }
    }

    /// A question and its answer.
    pub(super) fn tell_ask(&mut self, at: Instant, raw: impl FnOnce() -> RawAsk) {
        match &mut self.tape {
            Some(tape) if tape.is_whole() => self.put(at, What::Ask(Box::new(raw()))),
            Some(tape) => tape.missed += 1,
            None => {}
        }
    }

    /// Copies the next piece of the state; whether there is more to do.
    pub(super) fn tape_piece(&mut self, rest: impl FnOnce(&Self) -> Rest) -> bool {
        let Some(tape) = &self.tape else { return false };
        let now = Instant::now();
        let placer = self.placer.as_ref().filter(|_| self.view.synced);
        let (what, next) = match (tape.phase, placer) {
            (Phase::Whole, _) => return false,
            (Phase::Fresh, Some(placer)) => {
                let table = Arc::clone(placer.cluster().table());
                (What::Table(table, placer.memory_tracked()), Phase::Jobs(0))
            }
            (Phase::Jobs(from), Some(placer)) => {
                let range = (Bound::Included(from), Bound::Unbounded);
                let jobs = placer.cluster().jobs().range(range).map(|(_, job)| job);
                let jobs: Vec<RunningJob> = jobs.take(PIECE_JOBS).cloned().collect();
                let last = jobs.last().filter(|_| jobs.len() == PIECE_JOBS).map(|job| job.id);
                let next = last.and_then(|id| id.checked_add(1)).map_or(Phase::Rest, Phase::Jobs);
                (What::Op(Op::Jobs(jobs)), next)
            }
            (Phase::Rest, _) | (_, None) => {
                let rest = Rest { missed: tape.missed, ..rest(self) };
                (What::Rest(Box::new(rest), self.raw_steers()), Phase::Whole)
            }
        };
        if let Some(tape) = &mut self.tape {
            tape.phase = next;
            tape.missed *= u64::from(next != Phase::Whole);
        }
        self.put(now, what);
        next != Phase::Whole
    }

    /// A new mirror: the copy begins anew with it.
    pub(super) fn tape_again(&mut self) {
        if let Some(tape) = &mut self.tape {
            tape.phase = Phase::Fresh;
        }
    }

    /// Steers of a table that is to be put in force.
    pub(super) fn raw_of(&self, method: Method, table: &SteerTable) -> RawSteers {
        let is_its = |t: &Arc<Table>| Arc::ptr_eq(t, table.table());
        let current = self.placer.as_ref().is_some_and(|p| is_its(p.cluster().table()));
        RawSteers(method, current, table.rows())
    }

    fn raw_steers(&self) -> Vec<RawSteers> {
        self.steers.tables().map(|(method, table)| self.raw_of(method, table)).collect()
    }
}

pub(super) fn levels(tuning: &Tuning) -> Vec<(String, u32)> {
    tuning.levels.iter().map(|(name, level)| (name.to_string(), *level)).collect()
}

pub(super) fn queue(pending: &Demand, pools: &[Pool]) -> Op {
    Op::Queue(QueueOp::of(pending), pools.to_vec())
}

/// What completes a copy, but for the steers.
pub(super) fn rest(state: &State, settings: &Settings) -> Rest {
    let first_seen = state.first_seen.iter();
    Rest {
        synced: state.view.synced,
        generation: settings.generation,
        config: settings.config.to_string(),
        levels: levels(&settings.tuning),
        pending: QueueOp::of(&state.pending),
        pools: state.pools.clone(),
        poll_start: state.placer.as_ref().map_or(0, |p| p.engine().poll_start()),
        first_seen: first_seen.map(|(job, at)| (*job, nanos(state.born, *at))).collect(),
        inputs: state.inputs.iter().copied().collect(),
        newest: state.steers.newest(),
        steers: Vec::new(),
        missed: 0,
    }
}

pub(super) fn outcome_op(note: &OutcomeNote) -> Op {
    let reason = match note.reason {
        Some(Reason::None) => "",
        Some(reason) => reason.as_str(),
        None => "unknown",
    };
    Op::Outcome(OutcomeOp {
        decision: note.decision,
        job_id: note.job_id,
        will_run: note.will_run,
        reason: reason.to_owned(),
    })
}

/// FNV-1a over the bits of every figure of a decision.
fn digest(placement: &Placement) -> u64 {
    let decision = &placement.decision;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bits: u64| {
        for byte in bits.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(placement.candidates as u64);
    add(decision.branch as u64);
    add(decision.utilization.to_bits());
    decision.weights.iter().for_each(|w| add(w.to_bits()));
    let runner_up = decision.runner_up.iter().map(|r| &r.choice);
    for choice in decision.choices().iter().chain(runner_up) {
        add(u64::from(choice.node.raw()));
        [choice.before, choice.after, choice.score].iter().for_each(|y| add(y.to_bits()));
    }
    for need in &placement.needs {
        [need.cpus, need.memory_mb].into_iter().for_each(&mut add);
    }
    hash
}

/// Words of a bitmap as hexadecimal text.
mod words {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(words: &[u64], to: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        let mut text = String::with_capacity(words.len() * 16);
        for word in words {
            // Writing to a string does not fail.
            let _ = write!(text, "{word:016x}");
        }
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        let word = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|d| d.len() == 16)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let words: Option<Vec<u64>> = text.as_bytes().chunks(16).map(word).collect();
        words.ok_or_else(|| serde::de::Error::custom("candidates are no words of 16 digits"))
    }
}
