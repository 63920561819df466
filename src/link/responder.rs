// SPDX-License-Identifier: GPL-3.0-or-later
//! The mirror of the nodes and the answers to the plugin's questions.
//!
//! One lock guards the mirror: the link thread takes it for each packet, the
//! planner and the status page for short copies. Nothing here blocks on I/O.
//! What should be recorded is handed back as notes: the link thread first
//! answers and later, when no question waits, puts them into a bounded
//! channel, so that the recorder does not compete for the CPU meanwhile.
//! Notes are dropped, counted, when the channel is full.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use crossbeam_channel::Sender;
use log::warn;
use phalanx_ffi::wire::{self, AnswerHead, Cause, Reason, WireName};

use crate::balance::NoImprovement;
use crate::limits;
use crate::link::convert;
use crate::link::copy::{Copies, Piece, RoomsCopy};
use crate::link::hist::Histogram;
use crate::link::order::OrderDesk;
use crate::link::session::{PluginCounters, PluginState, Session, Step};
use crate::planner::cluster::{Cluster, RunningJob, Table};
use crate::planner::place::{NoPlacement, Placement, Placer, Pool, Tuning, up_to_class};
use crate::planner::room::Room;
use crate::planner::steer::{self, Method, Question, Steer, SteerTable, Steered, Steers};
use crate::snapshot::Snapshot;

/// What the daemon does with a partition's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No decisions.
    Off,
    /// Decide and record; Slurm places.
    Shadow,
    /// Decide; the plugin tries it first.
    Enforce,
}

impl Mode {
    /// The configuration's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }
}

/// What a configuration means to the link.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Counts accepted configurations.
    pub generation: u64,
    /// Mode of partitions without one of their own.
    pub mode: Mode,
    /// Mode by partition.
    pub partition_modes: BTreeMap<String, Mode>,
    /// Longest wait of the plugin, microseconds.
    pub deadline_us: u32,
    /// Misses in a row that open its breaker.
    pub breaker_misses: u32,
    /// How long the breaker stays open, milliseconds.
    pub breaker_open_ms: u32,
    /// Whether planning calls are asked too.
    pub ask_will_run: bool,
    /// Whether the order of starts is ours to change.
    pub order: bool,
    /// Of the balance method.
    pub tuning: Tuning,
    /// How long a job that declares an input may be held back until it was looked up,
    /// milliseconds; 0: not at all.
    pub input_wait_ms: u64,
    /// How long one that insists on the nodes of its input may be, milliseconds.
    pub require_wait_ms: u64,
}

impl Settings {
    /// Mode for jobs of a partition.
    pub fn mode_of(&self, partition: &str) -> Mode {
        self.partition_modes.get(partition).copied().unwrap_or(self.mode)
    }

    /// What the plugin must know.
    pub(super) fn welcome(&self) -> wire::Welcome {
        let will_run = if self.ask_will_run { wire::PHX_W_ASK_WILL_RUN } else { 0 };
        let order = if self.order { wire::PHX_W_ORDER } else { 0 };
        let may_hold = self.tuning.params.no_improvement == NoImprovement::Hold
            || self.tuning.steered_hold_ms.is_some()
            || self.input_wait_ms.max(self.require_wait_ms) > 0;
        let hold = if may_hold { wire::PHX_W_MAY_HOLD } else { 0 };
        wire::Welcome::new(
            self.generation,
            self.deadline_us,
            self.breaker_misses,
            self.breaker_open_ms,
            wire::PHX_W_ASK_RUN_NOW | will_run | hold | order,
        )
    }
}

/// Something worth recording.
#[derive(Debug, Clone)]
pub enum Note {
    /// A question and its answer.
    Asked(Box<AskNote>),
    /// What the plugin made of an answer.
    Outcome(OutcomeNote),
    /// A job got nodes.
    Began(BeganNote),
    /// A job gave its nodes back.
    Ended {
        /// Job id.
        job_id: u32,
        /// Slurm's state number.
        state: u32,
        /// Unix seconds.
        end_s: u64,
    },
}

/// See [`Note::Asked`].
#[derive(Debug, Clone)]
pub struct AskNote {
    /// Decision id.
    pub decision: u64,
    /// Job id as the plugin asked.
    pub job_id: u32,
    /// Array job and task, if of one.
    pub array: Option<(u32, u32)>,
    /// User id.
    pub user_id: u32,
    /// Partition.
    pub partition: String,
    /// RUN_NOW or WILL_RUN.
    pub will_run: bool,
    /// Mode of the partition.
    pub mode: Mode,
    /// Configuration generation.
    pub generation: u64,
    /// Reason of no opinion; `None` when nodes were answered.
    pub reason: Option<Reason>,
    /// In words, where the reason needs some.
    pub detail: Option<&'static str>,
    /// The decision, also in shadow mode.
    pub placement: Option<Placement>,
    /// What became of the job's steer, if it has one.
    pub steered: Option<Steered>,
    /// Names of the decision's dimensions.
    pub dims: Arc<[Arc<str>]>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// From receiving the question to having the answer, nanoseconds.
    pub took_ns: u64,
}

/// See [`Note::Outcome`].
#[derive(Debug, Clone, Copy)]
pub struct OutcomeNote {
    /// Decision id; 0 if the plugin got no answer.
    pub decision: u64,
    /// Job id.
    pub job_id: u32,
    /// RUN_NOW or WILL_RUN.
    pub will_run: bool,
    /// `Reason::None`: placed on the answered set.
    pub reason: Option<Reason>,
    /// What job_test returned.
    pub rc: i32,
    /// Nodes of the result.
    pub count: u32,
    /// The plugin's own time, nanoseconds.
    pub ask_ns: u64,
}

/// See [`Note::Began`].
#[derive(Debug, Clone)]
pub struct BeganNote {
    /// The job; `held` names its nodes.
    pub job: RunningJob,
    /// Why it was told.
    pub cause: Option<Cause>,
    /// Node names by index.
    pub table: Arc<Table>,
    /// Mean dispersion of its nodes after it began, with the weights in force.
    pub dispersion: Option<f64>,
}

/// Calls of one mode.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// Asks received.
    pub asked: u64,
    /// Answered with nodes.
    pub answered: u64,
    /// Placed on exactly the answered set.
    pub narrowed: u64,
    /// The others by reason.
    pub fallen_back: BTreeMap<&'static str, u64>,
}

/// What the status page shows of the link; a copy.
#[derive(Debug, Clone, Default)]
pub struct LinkView {
    /// Plugin connected.
    pub connected: bool,
    /// Mirror complete.
    pub synced: bool,
    /// Who it is.
    pub plugin: PluginState,
    /// Its counters.
    pub counters: Option<PluginCounters>,
    /// RUN_NOW asks.
    pub run_now: Shares,
    /// WILL_RUN asks.
    pub will_run: Shares,
    /// Time to answer.
    pub answer_ns: Histogram,
    /// Events applied.
    pub events: u64,
    /// Running jobs.
    pub mirror_jobs: u64,
    /// Nodes.
    pub mirror_nodes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused for credentials.
    pub refused: u64,
    /// Connections closed for a malformed message.
    pub protocol_errors: u64,
    /// Text of the last of these.
    pub last_error: Option<String>,
    /// Notes dropped because the recorder was behind.
    pub notes_dropped: u64,
    /// Steered jobs by method.
    pub steered: BTreeMap<&'static str, u64>,
    /// Questions that a steer decided, by method.
    pub steer_decided: BTreeMap<&'static str, u64>,
    /// Questions of steered jobs that were decided without the steer.
    pub steer_unused: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct State {
    placer: Option<Placer>,
    dims: Arc<[Arc<str>]>,
    view: LinkView,
    pools: Vec<Pool>,
    pending: BTreeMap<Arc<str>, u64>,
    first_seen: BTreeMap<u32, Instant>,
    /// Jobs that declare an input, by the plugin's word, until they end.
    inputs: BTreeSet<u32>,
    steers: Steers,
}

/// See the module.
#[derive(Debug)]
pub struct Responder {
    settings: RwLock<Arc<Settings>>,
    state: Mutex<State>,
    notes: Sender<Note>,
    next_decision: AtomicU64,
    pub(super) copies: Copies,
    /// The order of starts.
    pub order: OrderDesk,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic aborts the daemon, so a poisoned lock is never seen.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Responder {
    /// A responder without a plugin yet. `first_decision` is the id of its
    /// first decision: larger than any of earlier runs.
    pub fn new(settings: Settings, notes: Sender<Note>, first_decision: u64) -> Self {
        Self {
            settings: RwLock::new(Arc::new(settings)),
            state: Mutex::new(State::default()),
            notes,
            next_decision: AtomicU64::new(first_decision),
            copies: Copies::default(),
            order: OrderDesk::default(),
        }
    }

    /// Settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a new configuration in force for the next decision.
    ///
    /// # Errors
    /// The engine's words, if it does not take the tuning; the old settings
    /// then stay.
    pub fn set_settings(&self, mut settings: Settings) -> Result<(), String> {
        let mut state = lock(&self.state);
        // What was measured is not configured.
        settings.tuning.levels = Arc::clone(&self.settings().tuning.levels);
        if let Some(placer) = &mut state.placer {
            placer.tune(settings.tuning.clone()).map_err(|e| e.to_string())?;
            placer.maintain();
        }
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        Ok(())
    }

    /// What was measured on the nodes, by name; see [`Tuning::levels`].
    pub fn set_levels(&self, levels: BTreeMap<Arc<str>, u32>) {
        let before = self.settings();
        if *before.tuning.levels == levels {
            return;
        }
        // Made outside the lock: questions wait for the swap only.
        let tuning = Tuning { levels: Arc::new(levels), ..before.tuning.clone() };
        let table = self.with_placer(|placer| Arc::clone(placer.cluster().table()));
        let classes = table.as_ref().map(|table| up_to_class(table, &tuning));
        let mut state = lock(&self.state);
        let mut settings = Settings::clone(&self.settings());
        let same = settings.tuning.ignore_node_weight == tuning.ignore_node_weight;
        settings.tuning.levels = Arc::clone(&tuning.levels);
        if let Some(placer) = &mut state.placer {
            let is_its = |table| Arc::ptr_eq(table, placer.cluster().table());
            match classes.filter(|_| same && table.as_ref().is_some_and(is_its)) {
                Some(classes) => placer.set_levels(tuning.levels, classes),
                None => {
                    if let Err(error) = placer.tune(settings.tuning.clone()) {
                        warn!("levels of the nodes not taken: {error}");
                    }
                }
            }
        }
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Counts of the link, copied.
    pub fn view(&self) -> LinkView {
        let state = lock(&self.state);
        let mut view = state.view.clone();
        if let Some(placer) = &state.placer {
            view.mirror_jobs = placer.cluster().jobs().len() as u64;
            view.mirror_nodes = placer.cluster().rooms().len() as u64;
        }
        view.steered = state.steers.counts().map(|(m, n)| (m.as_str(), n as u64)).collect();
        view
    }

    /// Looks at the mirror, if it is complete. `look` must be quick: questions
    /// wait meanwhile.
    pub fn with_placer<T>(&self, look: impl FnOnce(&Placer) -> T) -> Option<T> {
        let state = lock(&self.state);
        if state.view.synced { state.placer.as_ref().map(look) } else { None }
    }

    /// Node table and usage, if the mirror is complete. Copied in pieces, so
    /// that no question waits for the whole of a large cluster.
    pub fn copy_rooms(&self) -> Option<(Arc<Table>, Vec<Room>)> {
        self.copies.whole(|copy| self.copy_piece(copy))
    }

    /// Adds the next nodes to a copy; see [`RoomsCopy::add`].
    pub(super) fn copy_piece(&self, copy: &mut RoomsCopy) -> Piece {
        let state = lock(&self.state);
        let placer = state.placer.as_ref().filter(|_| state.view.synced);
        placer.map_or(Piece::Void, |placer| copy.add(placer.cluster()))
    }

    /// What the queue waits for, and the licence pools, from a poll.
    pub fn set_queue(&self, pending: BTreeMap<Arc<str>, u64>, pools: Vec<Pool>) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.pools.clone_from(&pools);
        state.pending.clone_from(&pending);
        if let Some(placer) = &mut state.placer {
            let done = placer.set_pools(pools).and_then(|()| placer.set_pending(pending));
            if let Err(error) = done {
                warn!("weights of the queue not taken: {error}");
            }
            state.dims = placer.dims().into();
        }
    }

    /// Replaces the steers of one method; their nodes are the snapshot's.
    /// Without a complete mirror there is nothing to steer by.
    pub fn set_steers(&self, method: Method, snapshot: &Snapshot, steers: Vec<Steer>) {
        let table = self.with_placer(|placer| Arc::clone(placer.cluster().table()));
        let steers = if table.is_some() { steers } else { Vec::new() };
        // Made and dropped outside the lock: questions wait for the swap only.
        let fresh = SteerTable::new(table.unwrap_or_default(), snapshot, steers);
        let mut state = lock(&self.state);
        let old = state.steers.replace(method, fresh);
        state.steers.saw(snapshot);
        drop(state);
        drop(old);
    }

    /// Whether the plugin said that this job declares an input.
    pub fn declared_input(&self, job_id: u32) -> bool {
        lock(&self.state).inputs.contains(&job_id)
    }

    pub(super) fn connected(&self) {
        let mut state = lock(&self.state);
        state.view.connections += 1;
        state.view.connected = true;
    }

    pub(super) fn disconnected(&self, error: Option<String>) {
        let mut state = lock(&self.state);
        self.order.forget();
        state.view.connected = false;
        state.view.synced = false;
        if error.is_some() {
            state.view.protocol_errors += 1;
            state.view.last_error = error;
        }
    }

    pub(super) fn refused(&self, why: String) {
        let mut state = lock(&self.state);
        state.view.refused += 1;
        state.view.last_error = Some(why);
    }

    /// Applies one step of a session. The answer to send, if any, has its
    /// nodes in `nodes`; what is to be recorded is appended to `notes`.
    pub(super) fn apply(
        &self,
        session: &Session,
        step: Step<'_>,
        received: Instant,
        nodes: &mut Vec<u32>,
        notes: &mut Vec<Note>,
    ) -> Option<AnswerHead> {
        let mut state = lock(&self.state);
        match step {
            Step::None => {}
            Step::Hello(plugin) => state.view.plugin = plugin,
            Step::Synced(cluster, memory_tracked) => {
                self.synced(&mut state, *cluster, memory_tracked);
            }
            Step::Job(job, cause) => notes.extend(began(&mut state, job, cause)),
            Step::Ended(job_id, job_state, end_s) => {
                state.view.events += 1;
                state.first_seen.remove(&job_id);
                state.inputs.remove(&job_id);
                if let Some(placer) = &mut state.placer {
                    placer.end_job(job_id);
                }
                notes.push(Note::Ended { job_id, state: job_state, end_s });
            }
            Step::Outcome(outcome) => notes.push(outcome_note(&mut state, outcome)),
            Step::Queue(queue) => self.order.take(&queue),
            Step::Stats(stats) => state.view.counters = Some(PluginCounters(Box::new(*stats))),
            Step::Ask(ask) => {
                let (head, note) = self.answer(&mut state, session, &ask, received, nodes);
                notes.extend(note);
                return Some(head);
            }
        }
        None
    }

    fn synced(&self, state: &mut State, cluster: Cluster, memory_tracked: bool) {
        let tuning = self.settings().tuning.clone();
        let placer = Placer::new(cluster, memory_tracked, tuning, state.pools.clone());
        match placer.and_then(|mut p| p.set_pending(state.pending.clone()).map(|()| p)) {
            Ok(mut placer) => {
                // Before the first question rather than during it.
                placer.maintain();
                state.dims = placer.dims().into();
                state.placer = Some(placer);
                state.view.synced = true;
            }
            Err(error) => {
                warn!("mirror not built: {error}");
                state.view.last_error = Some(error.to_string());
            }
        }
    }

    fn answer(
        &self,
        state: &mut State,
        session: &Session,
        ask: &wire::Ask<'_>,
        received: Instant,
        nodes: &mut Vec<u32>,
    ) -> (AnswerHead, Option<Note>) {
        let settings = self.settings();
        let will_run = ask.mode() == Some(wire::Mode::WillRun);
        let partition = ask.head.partition.name();
        let mode = settings.mode_of(&partition);
        let decision = self.next_decision.fetch_add(1, Ordering::Relaxed);
        let (decided, steered) = decide(state, session, ask, &settings, mode, received);
        count_steer(&mut state.view, steered.as_ref());
        let by_method = steered.as_ref().is_some_and(|s| s.steer.strict && s.tier.is_none());
        let (reason, detail) = match &decided {
            // In shadow mode nothing may be held back.
            Err(Why::No(NoPlacement::Held | NoPlacement::Unplanned)) if mode == Mode::Shadow => {
                (Some(Reason::Shadow), Some("would wait"))
            }
            // Backfill still reserves nodes for a job that only waits for a better one, but not
            // for tasks that wait for their own nodes: others could not start meanwhile.
            Err(Why::No(NoPlacement::Held)) if will_run && !by_method => {
                (Some(Reason::NoFit), Some("would wait"))
            }
            Err(why) => why.reason(),
            Ok(_) if mode == Mode::Shadow => (Some(Reason::Shadow), None),
            Ok(_) => (None, None),
        };
        nodes.clear();
        if reason.is_none()
            && let Ok(placement) = &decided
        {
            nodes.extend_from_slice(&placement.nodes);
        }
        let shares = if will_run { &mut state.view.will_run } else { &mut state.view.run_now };
        shares.asked += 1;
        shares.answered += u64::from(reason.is_none());
        let head = match reason {
            None => wire::Answer::narrow_head(ask.head.job_id, decision, settings.generation)
                .with_all_nodes(steered.as_ref().is_some_and(Steered::all_nodes)),
            Some(reason) => {
                let job_id = ask.head.job_id;
                wire::Answer::no_opinion_head(job_id, reason, decision, settings.generation)
            }
        };
        let took_ns = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
        state.view.answer_ns.add(took_ns);
        let table = |placer: &Placer| Arc::clone(placer.cluster().table());
        let note = (mode != Mode::Off).then(|| AskNote {
            decision,
            job_id: ask.head.job_id,
            array: convert::array_of(ask.head),
            user_id: ask.head.user_id,
            partition: partition.into_owned(),
            will_run,
            mode,
            generation: settings.generation,
            reason,
            detail,
            placement: decided.ok(),
            steered,
            dims: Arc::clone(&state.dims),
            table: state.placer.as_ref().map(table).unwrap_or_default(),
            took_ns,
        });
        (head, note.map(|note| Note::Asked(Box::new(note))))
    }

    /// Hands notes to the recorder; what finds no room is counted.
    pub(super) fn record(&self, notes: &mut Vec<Note>) {
        let mut dropped = 0;
        for note in notes.drain(..) {
            dropped += u64::from(self.notes.try_send(note).is_err());
        }
        if dropped > 0 {
            lock(&self.state).view.notes_dropped += dropped;
        }
    }

    /// Nobody asks at the moment: time for what makes later answers fast.
    pub(super) fn quiet(&self) {
        if let Some(placer) = &mut lock(&self.state).placer {
            placer.maintain();
        }
    }
}

fn began(state: &mut State, job: RunningJob, cause: Option<Cause>) -> Option<Note> {
    state.view.events += 1;
    state.first_seen.remove(&job.id);
    if let (Some((array, _)), Some(Cause::Begin)) = (job.array, cause) {
        state.steers.began(array, job.held.iter().map(|held| held.node));
    }
    let placer = state.placer.as_mut()?;
    placer.set_job(job.clone());
    let engine = placer.engine();
    let weights = engine.weights();
    let dispersions = job.held.iter().filter_map(|held| engine.dispersion(held.node, &weights));
    let (sum, count) = dispersions.fold((0.0, 0u32), |(s, n), y| (s + y, n + 1));
    let dispersion = (count > 0).then(|| sum / f64::from(count));
    let table = Arc::clone(placer.cluster().table());
    Some(Note::Began(BeganNote { job, cause, table, dispersion }))
}

fn outcome_note(state: &mut State, outcome: &wire::Outcome) -> Note {
    let will_run = outcome.mode == wire::Mode::WillRun.raw();
    let reason = Reason::from_raw(outcome.reason);
    let shares = if will_run { &mut state.view.will_run } else { &mut state.view.run_now };
    match reason {
        Some(Reason::None) => shares.narrowed += 1,
        other => {
            let name = other.map_or("unknown", Reason::as_str);
            *shares.fallen_back.entry(name).or_insert(0) += 1;
        }
    }
    Note::Outcome(OutcomeNote {
        decision: outcome.decision,
        job_id: outcome.job_id,
        will_run,
        reason,
        rc: outcome.rc,
        count: outcome.count,
        ask_ns: outcome.ask_ns,
    })
}

enum Why {
    Off,
    NotSynced,
    NoChoice,
    No(NoPlacement),
}

impl Why {
    fn reason(&self) -> (Option<Reason>, Option<&'static str>) {
        let (reason, detail) = match self {
            Self::Off => (Reason::Off, None),
            Self::NotSynced | Self::No(NoPlacement::OtherTable) => (Reason::NotSynced, None),
            Self::No(NoPlacement::Left(option)) => (Reason::Unsupported, Some(option.option())),
            Self::No(NoPlacement::NoFit) => (Reason::NoFit, None),
            Self::NoChoice => (Reason::NoChoice, None),
            Self::No(NoPlacement::Held) => (Reason::Held, None),
            Self::No(NoPlacement::Unplanned) => (Reason::Held, Some("waits for its first plan")),
        };
        (Some(reason), detail)
    }
}

fn count_steer(view: &mut LinkView, steered: Option<&Steered>) {
    let Some(steered) = steered else { return };
    let counts = match steered.tier {
        Some(_) => &mut view.steer_decided,
        None => &mut view.steer_unused,
    };
    *counts.entry(steered.steer.method.as_str()).or_insert(0) += 1;
}

fn decide(
    state: &mut State,
    session: &Session,
    ask: &wire::Ask<'_>,
    settings: &Settings,
    mode: Mode,
    now: Instant,
) -> (Result<Placement, Why>, Option<Steered>) {
    if mode == Mode::Off {
        return (Err(Why::Off), None);
    }
    let Some(placer) = state.placer.as_mut().filter(|_| state.view.synced) else {
        return (Err(Why::NotSynced), None);
    };
    if ask.head.node_bits as usize != placer.cluster().rooms().len() {
        return (Err(Why::NotSynced), None);
    }
    let shape = convert::shape(ask, session.ids());
    let held_ms = match state.first_seen.get(&ask.head.job_id) {
        Some(first) => now.saturating_duration_since(*first).as_millis(),
        None => 0,
    };
    let question = Question {
        job_id: ask.head.job_id,
        array_job_id: (ask.head.array_job_id != 0).then_some(ask.head.array_job_id),
        user_id: ask.head.user_id,
        name_key: ask.head.name_key,
        shape: &shape,
        candidates: ask.candidates,
        held_ms: u64::try_from(held_ms).unwrap_or(u64::MAX),
        input_wait_ms: if ask.has(wire::PHX_ASK_INPUT) { settings.input_wait_ms } else { 0 },
        require_wait_ms: settings.require_wait_ms,
    };
    if ask.has(wire::PHX_ASK_INPUT) && state.inputs.len() < limits::HELD_JOBS_MAX {
        state.inputs.insert(ask.head.job_id);
    }
    let (decided, steered) = steer::decide(placer, &mut state.steers, &question);
    let held = matches!(decided, Err(NoPlacement::Held | NoPlacement::Unplanned));
    if held && state.first_seen.len() < limits::HELD_JOBS_MAX {
        state.first_seen.entry(ask.head.job_id).or_insert(now);
    }
    let decided = match decided {
        // Stock would come to the same set: nothing to try first.
        Ok(placement) if placement.nodes.len() == placement.candidates => Err(Why::NoChoice),
        other => other.map_err(Why::No),
    };
    (decided, steered)
}
