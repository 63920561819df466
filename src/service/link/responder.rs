// SPDX-License-Identifier: GPL-3.0-or-later
//! The mirror of the nodes and the answers to the plugin's questions.
//!
//! One lock guards the mirror: the link thread takes it for each packet, the planner and the
//! status page for short copies. Nothing here blocks on I/O. Events for the history are returned to
//! the link thread, which first answers and later, when no question waits, puts them into a bounded
//! channel, so that the history thread does not compete for the CPU meanwhile. Events are dropped,
//! and counted, when the channel is full.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use log::warn;
use phalanx_ffi::wire::{self, AnswerHead, Cause, Reason};

use crate::link::agreement::Look;
use crate::link::clock;
use crate::link::convert;
use crate::link::copy::{Copied, Copies, Partial, Piece};
use crate::link::order::OrderExchange;
use crate::link::session::{Session, Step};
use phalanx_config::{Draw, Mode};
use phalanx_core::number::as_f64;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{License, Snapshot};
use phalanx_ffi::locks::{lock, read, write};
use phalanx_mirror::recording::{self, Event, EventKind, Op};
use phalanx_mirror::{
    BeganEvent, Decision, Gone, LinkEvent, LinkView, OutcomeEvent, PluginCounters, Proved,
    Settings, State, Watched, decide, is_known,
};
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{Cluster, RunningJob, Table};
use phalanx_planner::place::{Candidates, Classes, Placer, Tuning, up_to_class};
use phalanx_planner::preference::{
    HoldRule, JobKey, Method, Preference, PreferenceTable, Question,
};
use phalanx_planner::tally::Tally;
use phalanx_planner::usage::NodeUsage;

/// Interval at which jobs are forgotten that left the queue without an event.
const FORGET_EVERY: Duration = Duration::from_secs(30);
/// Most jobs that are looked at or forgotten under one hold of the lock, as questions wait for it.
const FORGET_AT_ONCE: usize = 512;

/// The mirror behind its lock, and the answers made from it.
#[derive(Debug)]
pub struct Responder {
    settings: RwLock<Arc<Settings>>,
    pub(super) state: Mutex<State>,
    events: Sender<LinkEvent>,
    next_decision: AtomicU64,
    pub(super) copies: Copies<NodeUsage>,
    pub(super) job_copies: Copies<RunningJob>,
    /// Demand of the queue, as the mirror has it.
    pending: Mutex<Arc<Demand>>,
    /// Name of the cluster, as slurmctld tells it at a poll; empty before the first poll.
    cluster_name: Mutex<String>,
    /// Whether the plugin's Slurm is of an unknown series.
    unknown: AtomicBool,
    /// Time until which the plugin waits for answers, even where none is in force.
    asked_until: Mutex<Option<Instant>>,
    /// Whether the plugin is to send its whole state.
    pub(super) resync: AtomicBool,
    /// Time of the last search for jobs that left the queue without an event, and its findings.
    gone: Mutex<(Option<Instant>, Gone)>,
    /// The order of starts.
    pub order: OrderExchange,
}

impl Responder {
    /// Makes a responder without a plugin. `first_decision` is the id of its first decision: larger
    /// than any of former runs.
    pub fn new(settings: Settings, events: Sender<LinkEvent>, first_decision: u64) -> Self {
        Self {
            settings: RwLock::new(Arc::new(settings)),
            state: Mutex::new(State::new(clock::now())),
            events,
            next_decision: AtomicU64::new(first_decision),
            copies: Copies::default(),
            job_copies: Copies::default(),
            pending: Mutex::default(),
            cluster_name: Mutex::default(),
            unknown: AtomicBool::new(false),
            asked_until: Mutex::default(),
            resync: AtomicBool::new(false),
            gone: Mutex::default(),
            order: OrderExchange::default(),
        }
    }

    /// Settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&read(&self.settings))
    }

    /// Puts a new configuration in force for the next decision.
    ///
    /// # Errors
    /// The engine's error text, if it does not take the tuning; the old settings then stay.
    pub fn set_settings(&self, mut settings: Settings) -> Result<(), String> {
        let mut state = lock(&self.state);
        // Levels come from measured values, not from the configuration.
        settings.tuning.levels = Arc::clone(&self.settings().tuning.levels);
        if let Some(placer) = &mut state.placer {
            placer.tune(settings.tuning.clone()).map_err(|e| e.to_string())?;
            placer.maintain();
        }
        state.proofs.forgive();
        let (generation, text) = (settings.generation, settings.config.clone());
        *write(&self.settings) = Arc::new(settings);
        state.record(|_| EventKind::Op(Op::Settings(generation, text.to_string())));
        Ok(())
    }

    /// Takes the levels of the nodes by measured values; see [`Tuning::levels`].
    pub fn set_levels(&self, levels: BTreeMap<Arc<str>, u32>) {
        let before = self.settings();
        if *before.tuning.levels == levels {
            return;
        }
        // Made outside the lock: questions wait for the swap only.
        let tuning = Tuning { levels: Arc::new(levels), ..before.tuning.clone() };
        let table = self.table();
        let classes = table.as_ref().map(|table| up_to_class(table, &tuning));
        let mut state = lock(&self.state);
        let mut settings = Settings::clone(&self.settings());
        let same = settings.tuning.weight_cost == tuning.weight_cost;
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
        state.record(|_| EventKind::Op(Op::Levels(BTreeMap::clone(&settings.tuning.levels))));
        *write(&self.settings) = Arc::new(settings);
    }

    /// Counts of the link, copied.
    pub fn view(&self) -> LinkView {
        let state = lock(&self.state);
        let mut view = state.view.clone();
        view.proofs = state.proofs.counts();
        view.options = state.refusals.counts().clone();
        view.now_ms = state.ms(clock::now());
        if let Some(placer) = &state.placer {
            view.link.mirror_jobs = placer.cluster().jobs().len() as u64;
            view.link.mirror_nodes = placer.cluster().usages().len() as u64;
        }
        view.link.holds_refused = state.holds.refused();
        view
    }

    /// Reads the mirror, if it is complete. `look` must be quick: questions wait meanwhile.
    pub fn with_placer<T>(&self, look: impl FnOnce(&Placer) -> T) -> Option<T> {
        let state = lock(&self.state);
        if state.view.synced { state.placer.as_ref().map(look) } else { None }
    }

    /// Node table and usage, if the mirror is complete; copied in pieces, so that no question waits
    /// for the whole of a large cluster.
    pub fn copy_usages(&self) -> Option<(Arc<Table>, Vec<NodeUsage>)> {
        self.copies.whole(|copy| self.copy_piece(copy))
    }

    /// Node table and running jobs, if the mirror is complete; copied in pieces, so not of one
    /// moment.
    pub fn copy_jobs(&self) -> Option<(Arc<Table>, Vec<RunningJob>)> {
        self.job_copies.whole(|copy| self.copy_piece(copy))
    }

    /// Demand of the queue as of the last poll.
    pub fn pending(&self) -> Arc<Demand> {
        Arc::clone(&lock(&self.pending))
    }

    /// Adds the next piece to a copy.
    pub(super) fn copy_piece<T: Copied>(&self, copy: &mut Partial<T>) -> Piece {
        let state = lock(&self.state);
        let placer = state.placer.as_ref().filter(|_| state.view.synced);
        placer.map_or(Piece::Void, |placer| copy.add(placer.cluster()))
    }

    /// Takes the demand of the queue and the licence pools of a poll.
    pub fn set_queue(&self, pending: Demand, pools: Vec<License>) {
        *lock(&self.pending) = Arc::new(pending.clone());
        let mut state = lock(&self.state);
        state.set_queue(pending, pools);
    }

    /// Begins to keep changes of nodes, for the tally that is being made.
    pub fn mark_for_tally(&self) {
        if let Some(placer) = &mut lock(&self.state).placer {
            placer.mark_for_tally();
        }
    }

    /// Takes the tally of the queue that was just set, of nodes as copied since the mark.
    pub fn set_tally(&self, tally: Tally, table: &Arc<Table>) {
        let mut state = lock(&self.state);
        let placer = state.placer.as_mut();
        let former = placer.and_then(|placer| {
            let current = Arc::ptr_eq(placer.cluster().table(), table);
            placer.set_tally(current.then_some(tally))
        });
        drop(state);
        // Its drop takes a while; no question is to wait for it.
        drop(former);
    }

    /// Node table of the mirror, if it is complete.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.with_placer(|placer| Arc::clone(placer.cluster().table()))
    }

    /// Replaces the preferences of one method. Where the mirror is not complete, or the snapshot
    /// behind them has another numbering, there are none.
    pub fn set_preferences(
        &self,
        method: Method,
        snapshot: &Snapshot,
        preferences: Vec<Preference>,
    ) {
        let table = self.table().filter(|table| snapshot.is_numbered_by(table));
        let preferences = if table.is_some() { preferences } else { Vec::new() };
        // Made and dropped outside the lock: questions wait for the swap only.
        let mut fresh = PreferenceTable::new(table.unwrap_or_default(), preferences);
        let mut state = lock(&self.state);
        let running = state.placer.iter().flat_map(|placer| placer.cluster().jobs().values());
        fresh.count_since(snapshot, running);
        state.preferences.saw(snapshot);
        let old = state.prefer(method, fresh);
        drop(state);
        drop(old);
    }

    /// Whether nothing is placed or ordered, whatever the mode, because the series of the plugin's
    /// Slurm is not known.
    pub fn is_shadow_only(&self) -> bool {
        self.unknown.load(Ordering::Relaxed)
    }

    /// Makes the plugin wait for answers for `time`, even where nothing enforces.
    pub fn ask_for(&self, time: Duration) {
        *lock(&self.asked_until) = Some(clock::now() + time);
    }

    /// Whether the plugin is not to wait for answers, as none may change anything.
    pub(super) fn watches(&self, settings: &Settings) -> bool {
        (self.is_shadow_only() || !settings.enforces())
            && lock(&self.asked_until).is_none_or(|until| clock::now() >= until)
    }

    /// Whether a job runs, according to the plugin's events.
    pub fn runs(&self, job_id: u32) -> bool {
        self.with_placer(|placer| placer.cluster().jobs().contains_key(&job_id)).unwrap_or(false)
    }

    /// Jobs and tasks of arrays that have begun according to the plugin's events, if not long
    /// before a snapshot.
    pub fn begun(&self, snapshot: &Snapshot) -> BTreeSet<JobKey> {
        let from_s = snapshot.time_ms / 1000;
        self.with_placer(|placer| placer.begun(from_s)).unwrap_or_default()
    }

    /// Whether the plugin said that the job declares an input.
    pub fn declared_input(&self, job_id: u32) -> bool {
        lock(&self.state).inputs.contains(&job_id)
    }

    pub(super) fn connected(&self) {
        let mut state = lock(&self.state);
        state.view.link.connections += 1;
        state.view.connected = true;
    }

    pub(super) fn disconnected(&self, error: Option<String>) {
        let mut state = lock(&self.state);
        self.order.forget();
        state.disconnected();
        state.view.connected = false;
        if error.is_some() {
            state.view.link.protocol_errors += 1;
            state.view.link.last_error = error;
        }
    }

    /// Notes why a connection was refused, and logs the reason if it differs from the last one.
    pub(super) fn refused(&self, why: String) {
        let mut state = lock(&self.state);
        state.view.link.refused += 1;
        let last = state.view.link.last_error.replace(why.clone());
        drop(state);
        if last.as_ref() != Some(&why) {
            warn!("{why}");
        }
    }

    /// Takes the name of the polled cluster; plugins of other clusters are refused.
    pub fn set_cluster_name(&self, name: &str) {
        let mut known = lock(&self.cluster_name);
        if *known != name {
            name.clone_into(&mut known);
        }
    }

    /// Returns the reason why a plugin may not connect, if it is of another cluster.
    pub(super) fn of_another_cluster(&self, plugin: &str) -> Option<String> {
        let known = lock(&self.cluster_name);
        // A name on the wire may be cut off.
        let cut = wire::PHX_NAME_LEN as usize - 1;
        let same = plugin == known.as_str() || (plugin.len() == cut && known.starts_with(plugin));
        (!same && !known.is_empty() && !plugin.is_empty()).then(|| {
            format!(
                "a plugin of cluster {plugin:?} may not connect: this is the daemon of {known:?}; \
                 give each cluster of this host a link.socket of its own"
            )
        })
    }

    /// Notes how mirror and poll differ; asks the plugin for its whole state if that helps.
    pub fn compared(&self, found: &Look) {
        let mut state = lock(&self.state);
        state.view.link.comparisons += 1;
        state.view.link.differing_nodes = found.differing;
        if !found.repair.is_empty() && state.view.synced {
            state.view.link.resyncs_asked += 1;
            self.resync.store(true, Ordering::Relaxed);
        }
    }

    /// Applies one step of a session. The answer, if any, goes out by `send`, with its nodes in
    /// `nodes`; what is to be recorded is appended to `events`.
    pub(super) fn apply(
        &self,
        session: &Session,
        step: Step<'_>,
        received: Instant,
        nodes: &mut Vec<u32>,
        events: &mut Vec<LinkEvent>,
        send: impl FnOnce(&AnswerHead, &[u32]),
    ) {
        let mut state = lock(&self.state);
        match step {
            Step::None => {}
            Step::Hello(plugin) => {
                self.unknown.store(!is_known(&plugin.slurm_version), Ordering::Relaxed);
                if self.is_shadow_only() {
                    warn!(
                        "Slurm {}: this series is not known: decisions are recorded only",
                        plugin.slurm_version
                    );
                }
                state.view.greeted(plugin);
                state.watched = None;
            }
            Step::Synced(cluster, memory_tracked) => {
                self.synced(&mut state, *cluster, memory_tracked);
            }
            Step::Job(job, cause) => {
                let is_begin = cause == Some(Cause::Begin);
                let delta = if is_begin { self.order.delta_of(&job) } else { 0 };
                events.extend(began(&mut state, job, cause, delta));
            }
            Step::Ended(job_id, job_state, end_s) => {
                state.view.link.events += 1;
                state.end_job(job_id, job_state, end_s);
                events.push(LinkEvent::Ended { job_id, state: job_state, end_s });
            }
            Step::Ends(ends) => {
                let ends: Vec<_> = ends.iter().map(|end| (end.job_id, end.end_time)).collect();
                state.set_ends(&ends);
            }
            Step::Outcome(outcome) => events.extend(outcome_event(&mut state, outcome)),
            Step::Queue(queue) => self.order.take(&queue),
            Step::Stats(stats) => state.view.counted(PluginCounters(Box::new(*stats))),
            Step::Ask(ask) => {
                events.extend(self.answer(&mut state, session, &ask, received, nodes, send));
            }
        }
    }

    fn synced(&self, state: &mut State, cluster: Cluster, memory_tracked: bool) {
        let settings = self.settings();
        match state.set_cluster(cluster, memory_tracked, settings.tuning.clone()) {
            Ok(()) => state.record_mirror(&settings),
            Err(error) => {
                warn!("mirror not built: {error}");
                state.view.link.last_error = Some(error.to_string());
            }
        }
    }

    /// Makes the question of an ask: its job, and whether Slurm decides whatever the mode.
    fn question<'a>(
        &self,
        settings: &Settings,
        session: &Session,
        ask: &wire::Ask<'a>,
    ) -> Question<'a> {
        let mut question = convert::question(ask, session.ids());
        // Of a watched one Slurm has started the job already.
        question.shadow_only = self.is_shadow_only() || ask.head.watched != 0;
        let of = |id| (id != 0).then_some(id);
        let (array, het) = (of(ask.head.array_job_id), of(ask.head.het_job_id));
        let drawn = |draw: &Draw| draw.is_slurms(question.job_id, array, het);
        question.slurm_only = settings.draw.as_ref().is_some_and(drawn);
        question
    }

    fn answer(
        &self,
        state: &mut State,
        session: &Session,
        ask: &wire::Ask<'_>,
        received: Instant,
        nodes: &mut Vec<u32>,
        send: impl FnOnce(&AnswerHead, &[u32]),
    ) -> Option<LinkEvent> {
        let settings = self.settings();
        let mut question = self.question(&settings, session, ask);
        let mode = decide::mode_of(&settings, &question);
        let prove = mode == Mode::Enforce && ask.has(wire::PHX_ASK_PROVE);
        state.proofs.asked(ask);
        if !asks_for_nodes_now(ask) {
            state.view.will_run.asked += u64::from(question.will_run);
            let (job_id, generation) = (question.job_id, settings.generation);
            let no_opinion = wire::Answer::no_opinion_head(job_id, Reason::NoFit, 0, generation);
            let proof = prove.then(|| prove_it(state, &settings, ask, &question.shape, nodes));
            let head = proof.flatten().map(|proof| proof.head(ask, nodes, 0, generation));
            send(&head.unwrap_or(no_opinion), nodes);
            return None;
        }
        let id = self.next_decision.fetch_add(1, Ordering::Relaxed);
        let (keys, excluded) = (convert::class_keys(ask), convert::excluded(ask));
        let mut candidates = Candidates::new(ask.candidates).without(&excluded);
        if !keys.is_empty() {
            let words = ask.candidates.len();
            candidates = candidates.in_classes(Classes { keys: &keys, planes: ask.planes, words });
        }
        state.freshen(false);
        let (mut answer, preference_use) =
            decide::ask(state, &settings, id, &mut question, candidates, received);
        let (reason, used) = (answer.reason(), preference_use.as_ref());
        if let (Some(Reason::NoFit), Some(placer)) = (reason, &mut state.placer) {
            placer.stays_pending(question.job_id, &question.shape, candidates);
        }
        nodes.clear();
        nodes.extend(answer.nodes().iter().map(|node| node.raw()));
        let mut head = answer.head(question.job_id, id, settings.generation, used);
        // A proof stands on what runs and what is asked for, not on why no nodes were chosen.
        if prove && matches!(reason, Some(Reason::NoFit | Reason::Unsupported)) {
            let proof = prove_it(state, &settings, ask, &question.shape, nodes);
            head = proof.map_or(head, |proof| proof.head(ask, nodes, id, settings.generation));
        }
        let took_ns = u64::try_from(clock::since(received).as_nanos()).unwrap_or(u64::MAX);
        if ask.head.watched != 0 {
            let (decision, reason) = (id, reason.unwrap_or(Reason::Shadow));
            state.watched = Some(Watched { seq: ask.head.hdr.seq, decision, reason });
        } else {
            send(&head, nodes);
        }
        // All below is for people. Before the lock is given up, so of the nodes as they were.
        state.view.answered(question.will_run, &answer, took_ns);
        if mode == Mode::Off && state.recording.is_none() {
            return None;
        }
        answer.explain(state.placer.as_mut());
        let table = |placer: &Placer| Arc::clone(placer.cluster().table());
        let decision = Arc::new(Decision {
            id,
            question: question.into_owned(),
            answer,
            preference_use,
            mode,
            generation: settings.generation,
            dims: Arc::clone(&state.dims),
            table: state.placer.as_ref().map(table).unwrap_or_default(),
            took_ns,
        });
        state.record_ask(received, &decision, candidates);
        (mode != Mode::Off).then_some(LinkEvent::Asked(decision))
    }

    /// Hands events to the history thread; events that do not fit into its channel are counted.
    pub(super) fn record(&self, events: &mut Vec<LinkEvent>) {
        let mut dropped = 0;
        for event in events.drain(..) {
            dropped += u64::from(self.events.try_send(event).is_err());
        }
        if dropped > 0 {
            lock(&self.state).view.notes_dropped += dropped;
        }
    }

    /// Begins a recording; see [`recording`] and [`State::start_recording`].
    pub fn start_recording(&self, sender: Sender<Event>, cut: Arc<AtomicBool>) {
        lock(&self.state).start_recording(sender, cut);
    }

    /// Completes a copy for a recording; see [`State::complete_recording`].
    pub fn complete_recording(&self) {
        let mut state = lock(&self.state);
        state.complete_recording(&self.settings());
    }

    /// Ends the recording.
    pub fn stop_recording(&self) {
        lock(&self.state).recording = None;
    }

    /// Time in the recording at present, nanoseconds.
    pub fn recording_ns(&self) -> u64 {
        recording::nanos(lock(&self.state).born, clock::now())
    }

    /// Records the snapshot of the last poll.
    pub fn saw_snapshot(&self, snapshot: &Arc<Snapshot>) {
        lock(&self.state).record(|_| EventKind::Snapshot(Arc::clone(snapshot)));
    }

    /// Rule by which a waiting job is held, and the longest time for which the hold still lasts.
    pub fn hold(&self, job_id: u32, array: Option<u32>) -> Option<(HoldRule, Duration)> {
        let state = lock(&self.state);
        let hold = state.holds.of(job_id, array)?;
        let left_ms = hold.until_ms.saturating_sub(state.ms(clock::now()));
        (left_ms > 0).then_some((hold.rule, Duration::from_millis(left_ms)))
    }

    /// Seconds for which tasks of an array were held by its plan.
    pub fn array_held_s(&self, array: u32) -> f64 {
        let state = lock(&self.state);
        as_f64(state.holds.spent_ms(array, state.ms(clock::now()))) / 1e3
    }

    /// Jobs whose holds have ended since the last call, at which slurmctld is to look.
    pub fn ended_holds(&self) -> Vec<u32> {
        let mut state = lock(&self.state);
        let now_ms = state.ms(clock::now());
        state.holds.ended(now_ms)
    }

    /// Forgets, from time to time, jobs that left the queue without an event.
    pub fn forget_gone(&self, snapshot: &Snapshot, now: Instant) {
        let mut gone = lock(&self.gone);
        let (last, gone) = &mut *gone;
        if last.is_some_and(|last| now.saturating_duration_since(last) < FORGET_EVERY) {
            return;
        }
        *last = Some(now);
        let (mut ids, mut after) = (Vec::new(), 0);
        loop {
            // A few at a time: questions wait meanwhile.
            let some = lock(&self.state).remembered(after, FORGET_AT_ONCE);
            let Some(newest) = some.last() else { break };
            after = *newest;
            ids.extend(some);
        }
        for some in gone.sort_out(&ids, snapshot).chunks(FORGET_AT_ONCE) {
            lock(&self.state).forget(some);
        }
    }

    /// Does work for later answers while no question waits; returns whether there is more to do.
    pub(super) fn quiet(&self) -> bool {
        let mut state = lock(&self.state);
        if let Some(placer) = &mut state.placer {
            placer.maintain();
        }
        state.freshen(true);
        state.placer.as_ref().is_some_and(Placer::is_behind)
    }
}

fn began(
    state: &mut State,
    job: RunningJob,
    cause: Option<Cause>,
    delta: i32,
) -> Option<LinkEvent> {
    state.view.link.events += 1;
    let begun = cause == Some(Cause::Begin);
    state.set_job(job.clone(), begun);
    let table = Arc::clone(state.placer.as_ref()?.cluster().table());
    Some(LinkEvent::Began(BeganEvent { job, cause, table, delta }))
}

/// Whether the ask is for nodes to start on at once, which the balance method chooses.
fn asks_for_nodes_now(ask: &wire::Ask<'_>) -> bool {
    ask.mode() != Some(wire::Mode::TestOnly) && ask.head.from_time <= clock::unix_s()
}

/// Returns a proof for the ask, with the proof's nodes in `nodes`.
fn prove_it(
    state: &mut State,
    settings: &Settings,
    ask: &wire::Ask<'_>,
    shape: &Shape,
    nodes: &mut Vec<u32>,
) -> Option<Proved> {
    let cluster = state.placer.as_ref().filter(|_| state.view.synced)?.cluster();
    if ask.head.node_bits as usize != cluster.usages().len() {
        return None;
    }
    state.proofs.prove(settings.proving, cluster, ask, shape, clock::unix_s(), nodes)
}

fn outcome_event(state: &mut State, outcome: &wire::Outcome) -> Option<LinkEvent> {
    let of = |watched: &Watched| outcome.decision == 0 && outcome.ask_seq == watched.seq;
    if let Some(Watched { decision, reason, .. }) = state.watched.take_if(|watched| of(watched)) {
        let reason = reason.raw();
        return outcome_event(state, &wire::Outcome { decision, reason, ..*outcome });
    }
    state.proofs.outcome(outcome);
    if outcome.mode == wire::Mode::TestOnly.raw() {
        return None;
    }
    let will_run = outcome.mode == wire::Mode::WillRun.raw();
    let reason = Reason::from_raw(outcome.reason);
    let shares = state.view.shares(will_run);
    let name = match reason {
        Some(Reason::None | Reason::NoFit) if outcome.proof != 0 => "proved",
        // No nodes were chosen that Slurm could have refused.
        Some(Reason::NarrowFailed | Reason::NarrowLater) if outcome.proof != 0 => "not_proved",
        other => other.map_or("unknown", Reason::as_str),
    };
    match reason {
        Some(Reason::None) if outcome.proof == 0 => shares.narrowed += 1,
        _ => *shares.fallen_back.entry(name.into()).or_insert(0) += 1,
    }
    // No decision was made, and none was lost either.
    if outcome.decision == 0 && outcome.reason < wire::Reason::Down.raw() {
        return None;
    }
    let event = OutcomeEvent {
        decision: outcome.decision,
        job_id: outcome.job_id,
        will_run,
        // What was proved is when there is room, not that there is now.
        reason: if outcome.proof == 0 { reason } else { Some(Reason::NoFit) },
        rc: outcome.rc,
        count: outcome.count,
        ask_ns: outcome.ask_ns,
        full: outcome.full_ns > 0,
    };
    let now = clock::now();
    match event.reason {
        Some(Reason::None) => state.outcome(event.decision, false, now),
        Some(Reason::NarrowFailed | Reason::NarrowLater) => {
            state.outcome(event.decision, true, now);
        }
        _ => {}
    }
    Some(LinkEvent::Outcome(event))
}
