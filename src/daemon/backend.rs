// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers to the control socket's questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use phalanx_ffi::wire::{Reason, Stats};

use crate::api::types::{
    AskReport, BlockerReport, CallShares, CallTime, ConfigStatus, DecisionReport, DimensionReport,
    EnergyReport, ExpectedReport, Explain, FilterReport, HistoryStatus, ImportReport, LinkStatus,
    NodeReport, NodesReport, PendingReport, Placed, PlanReport, PlannedJob, PlannerStatus,
    PluginStatus, Quantiles, ReloadReport, RunsReport, ShadowDiff, ShadowReport, SlurmStatus,
    SpeedsReport, Status, SteerReport,
};
use crate::api::{Backend, DataService, Failure};
use crate::balance::WeightsBySource;
use crate::blockmap::BlockMap;
use crate::config::OrderBy;
use crate::daemon::bags;
use crate::daemon::past;
use crate::daemon::recent::{Key, Known};
use crate::daemon::recorder::now_ms;
use crate::daemon::settings::partition_modes;
use crate::daemon::state::{Shared, lock};
use crate::daemon::steerers::steer_report;
use crate::history::{DecisionRow, HistoryReader};
use crate::limits::RUNTIME_RUNS_MIN;
use crate::link::{Histogram, LinkView, Shares, upper_edge_quantiles};
use crate::model::hostlist;
use crate::model::run::Run;
use crate::planner::cluster::{Cluster, Held, RunningJob, Table};
use crate::planner::ends::expected_end_s;
use crate::planner::pending::waiting;
use crate::planner::place::Placer;
use crate::planner::plan::pools_of;
use crate::planner::room::Room;
use crate::planner::state::State as LiveState;
use crate::planner::steer::Steered;
use crate::snapshot::{Job, JobState, Snapshot};

/// Differing starts that one shadow report lists.
const SHADOW_LIST_MAX: u32 = 50;
/// Asks that one explanation lists.
const ASKS_MAX: u32 = 8;

/// The mirror's jobs, with the snapshot's node indexes.
fn held_in(snapshot: &Snapshot, placer: &Placer) -> Vec<RunningJob> {
    let cluster = placer.cluster();
    let kinds = &cluster.table().kinds;
    let renumber = |held: &Held| {
        let node = snapshot.node(&cluster.table().nodes.get(held.node)?.name)?;
        let gres = held.gres.iter().filter_map(|(kind, _, count)| {
            Some((snapshot.gres_kind(kinds.get(*kind as usize)?)?, None, *count))
        });
        Some(Held { node, gres: gres.collect(), ..held.clone() })
    };
    let job = |job: &RunningJob| RunningJob {
        held: job.held.iter().filter_map(renumber).collect(),
        ..job.clone()
    };
    cluster.jobs().values().map(job).collect()
}

fn now_s() -> i64 {
    i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Backend for Shared {
    fn data_service(&self) -> Option<&dyn DataService> {
        self.data.as_ref().map(|_| self as &dyn DataService)
    }

    fn status(&self) -> Status {
        let view = self.responder.view();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            config: self.config_status(),
            slurm: self.slurm_status(),
            plugin: plugin_status(&view),
            run_now: shares(&view.run_now),
            will_run: shares(&view.will_run),
            link: self.link_status(&view),
            planner: self.planner_status(),
            order: self.order_status(),
            history: self.history_status(),
            collect: self.collect_status(),
        }
    }

    fn nodes(&self) -> Result<NodesReport, Failure> {
        let snapshot = self.snapshot().ok_or_else(no_snapshot)?;
        let threshold = self.config().balance.threshold;
        let (rooms, exact) = self.rooms(&snapshot);
        // An engine on the snapshot's nodes: names, features and partitions
        // are there, and the mirror stays free for questions.
        let placer = self.placer_for(&snapshot, rooms).map_err(Failure::Unavailable)?;
        Ok(nodes_report(&snapshot, &placer, threshold, exact))
    }

    fn explain(&self, job: &str) -> Result<Explain, Failure> {
        let key = parse_job(job).ok_or_else(|| {
            Failure::BadRequest(format!("job `{job}`: expected 123, 123_4 or 123+1"))
        })?;
        let snapshot = self.snapshot();
        let in_queue = snapshot.as_ref().and_then(|s| find(s, key));
        let known = lock(&self.recent).get(recent_key(key, in_queue)).cloned();
        let mut report = match in_queue {
            Some(job) => self.of_job(snapshot.as_deref(), job),
            None => Explain { state: "UNKNOWN".to_owned(), ..Explain::default() },
        };
        if let (Some(snapshot), Some(job)) = (&snapshot, in_queue)
            && job.state == JobState::Pending
        {
            report.pending = Some(self.pending(snapshot, job));
            report.order = self.job_order(job.id);
        }
        report.input = in_queue.and_then(|job| self.input_note(job.id));
        let found = in_queue.is_some() || known.is_some();
        self.add_past(&mut report, key, known);
        if !found && report.placed.is_none() && report.asks.is_empty() {
            let text = format!("job {job}: Slurm does not know it, nor does the history");
            return Err(Failure::NotFound(text));
        }
        Ok(report)
    }

    fn block_map(&self, job_id: u32) -> Result<Arc<BlockMap>, Failure> {
        Self::block_map(self, job_id)
    }

    fn shadow(&self, since_ms: Option<u64>) -> Result<ShadowReport, Failure> {
        let day_ms = 24 * 3600 * 1000;
        let since_ms = since_ms.unwrap_or_else(|| now_ms().saturating_sub(day_ms));
        let reader = self.reader.as_ref().ok_or_else(|| {
            Failure::Unavailable("history.enabled is off: nothing is recorded".to_owned())
        })?;
        let summary = reader
            .shadow(since_ms, SHADOW_LIST_MAX)
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        let diff = |d: crate::history::ShadowDifference| ShadowDiff {
            job_id: d.job_id,
            time_ms: d.time_ms,
            slurm: d.actual,
            phalanx: d.decided,
        };
        Ok(ShadowReport {
            since_ms,
            starts: summary.starts,
            agreed: summary.agreed,
            agreement: ratio(summary.agreed, summary.starts),
            dispersion_slurm: summary.dispersion_actual,
            dispersion_phalanx: summary.dispersion_decided,
            differing: summary.differing.into_iter().map(diff).collect(),
        })
    }

    fn plan(&self) -> Result<PlanReport, Failure> {
        let state = lock(&self.plan);
        let (Some(plan), Some(snapshot)) = (&state.plan, &state.snapshot) else {
            return Err(Failure::Unavailable("no plan yet".to_owned()));
        };
        let places = self.order_places();
        let jobs = plan.jobs.iter().map(|planned| {
            let steered = planned.steered.as_ref();
            let decided = steered.filter(|s| s.tier.is_some());
            let place = places.get(&planned.job_id);
            PlannedJob {
                rank: place.and_then(|p| p.0),
                delta: place.map_or(0, |p| p.1),
                job_id: planned.job_id,
                method: decided.map_or("balance", |s| s.steer.method.as_str()).to_owned(),
                nodes: node_names(snapshot, &planned.nodes),
                reason: planned.why.map(str::to_owned),
                steer: steered.map(|s| steer_of(snapshot, s)),
            }
        });
        Ok(PlanReport {
            epoch: plan.epoch,
            time_ms: state.time_ms,
            took_ms: state.took_ms,
            jobs: jobs.collect(),
            not_planned: plan.not_planned,
            methods: state.methods.clone(),
        })
    }

    fn state(&self) -> Result<LiveState, Failure> {
        let snapshot = self.snapshot().ok_or_else(no_snapshot)?;
        let config = serde_json::to_value(self.config())
            .map_err(|error| Failure::Unavailable(format!("configuration: {error}")))?;
        let going = |job: &&Job| job.state != JobState::Ended;
        let expected = snapshot.jobs.iter().filter(going).filter_map(|job| {
            let (prediction, _) = self.expected(job)?;
            Some((job.id, prediction.mean_s))
        });
        Ok(LiveState {
            time_ms: now_ms(),
            config,
            memory_tracked: lock(&self.poll).info.memory_tracked,
            expected_s: expected.collect(),
            running: self.responder.with_placer(|p| held_in(&snapshot, p)).unwrap_or_default(),
            snapshot: Snapshot::clone(&snapshot),
        })
    }

    fn runs(&self, since_ms: Option<u64>, limit: Option<u32>) -> Result<RunsReport, Failure> {
        past::runs(self, since_ms, limit)
    }

    fn speeds(&self, class: Option<&str>, node: Option<&str>) -> Result<SpeedsReport, Failure> {
        past::speeds(self, class, node)
    }

    fn energy(&self) -> Result<EnergyReport, Failure> {
        if !self.config().learn.enabled {
            let text = "learn.enabled is off: nothing is learned".to_owned();
            return Err(Failure::Unavailable(text));
        }
        Ok(bags::energy(self))
    }

    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure> {
        past::import(self, runs)
    }

    fn reload(&self) -> ReloadReport {
        Shared::reload(self)
    }
}

impl Shared {
    fn config_status(&self) -> ConfigStatus {
        let in_force = self.in_force.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        ConfigStatus {
            path: self.path.display().to_string(),
            generation: in_force.generation,
            mode: in_force.config.mode.as_str().to_owned(),
            partition_modes: partition_modes(&in_force.config),
            needs_restart: in_force.needs_restart.clone(),
            last_error: in_force.last_error.clone(),
        }
    }

    fn slurm_status(&self) -> SlurmStatus {
        let poll = lock(&self.poll);
        let snapshot = self.snapshot();
        let jobs = |state| {
            let count = |s: &Arc<Snapshot>| s.jobs.iter().filter(|j| j.state == state).count();
            snapshot.as_ref().map_or(0, count) as u64
        };
        SlurmStatus {
            cluster: poll.info.cluster.clone(),
            version: poll.info.version.clone(),
            reachable: poll.reachable,
            snapshot_age_ms: poll.last_good.map(|t| millis(t.elapsed())),
            snapshot_epoch: snapshot.as_ref().map_or(0, |s| s.epoch),
            snapshots_refused: poll.refused,
            poll_ms: poll.poll_ms,
            nodes: snapshot.as_ref().map_or(0, |s| s.nodes.len() as u64),
            jobs_pending: jobs(JobState::Pending),
            jobs_running: jobs(JobState::Running),
            last_error: poll.last_error.clone(),
        }
    }

    fn link_status(&self, view: &LinkView) -> LinkStatus {
        LinkStatus {
            socket: self.config().link.socket.display().to_string(),
            connections: view.connections,
            refused: view.refused,
            protocol_errors: view.protocol_errors,
            last_error: view.last_error.clone(),
            events: view.events,
            mirror_jobs: view.mirror_jobs,
            mirror_nodes: view.mirror_nodes,
            answer_ns: quantiles(&view.answer_ns),
        }
    }

    fn planner_status(&self) -> PlannerStatus {
        let plan = lock(&self.plan);
        PlannerStatus {
            plans: plan.plans,
            refused: plan.refused,
            last_plan_ms: plan.took_ms,
            plan_age_ms: plan.made.map(|t| millis(t.elapsed())),
            last_error: plan.last_error.clone(),
        }
    }

    fn history_status(&self) -> HistoryStatus {
        let path = self.config().history.path.display().to_string();
        let Some(history) = &self.history else {
            return HistoryStatus { path, ..HistoryStatus::default() };
        };
        let shared = history.shared();
        HistoryStatus {
            enabled: true,
            path,
            written: shared.written.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            errors: shared.errors.load(Ordering::Relaxed),
            last_error: shared.last_error(),
        }
    }

    fn placer_for(&self, snapshot: &Snapshot, rooms: Vec<Room>) -> Result<Placer, String> {
        let settings = self.responder.settings();
        let cluster = Cluster::with_rooms(Table::of_snapshot(snapshot), rooms);
        let tracked = lock(&self.poll).info.memory_tracked;
        let pending = self.responder.with_placer(|p| p.pending().clone()).unwrap_or_default();
        let mut placer = Placer::new(cluster, tracked, settings.tuning.clone(), pools_of(snapshot))
            .map_err(|e| e.to_string())?;
        placer.set_pending(pending).map_err(|e| e.to_string())?;
        Ok(placer)
    }

    fn of_job(&self, snapshot: Option<&Snapshot>, job: &Job) -> Explain {
        let first = job.partitions.split(',').next().unwrap_or_default();
        Explain {
            job_id: job.id,
            label: job.label.to_string(),
            state: job.state_text.to_string(),
            user_id: Some(job.user_id),
            partition: job.partitions.to_string(),
            mode: self.config().mode_for(first).as_str().to_owned(),
            request: request(snapshot, job),
            expected: self.expected_report(job),
            ..Explain::default()
        }
    }

    fn expected_report(&self, job: &Job) -> Option<ExpectedReport> {
        if job.state == JobState::Ended {
            return None;
        }
        let (prediction, runs) = self.expected(job)?;
        let limit_s = job.time_limit_min.map(|minutes| u64::from(minutes) * 60);
        let running = job.state == JobState::Running && job.start_s > 0;
        let end_s = running.then(|| expected_end_s(job, prediction.mean_s, now_s())).flatten();
        let end_ms = end_s.and_then(|s| u64::try_from(s).ok()).map(|s| s.saturating_mul(1000));
        let used_for = self.used_for(job, runs);
        Some(ExpectedReport { runtime_s: prediction.mean_s, runs, limit_s, end_ms, used_for })
    }

    /// What the prediction decides now.
    fn used_for(&self, job: &Job, runs: f64) -> Vec<String> {
        let (config, pending) = (self.config(), job.state == JobState::Pending);
        let mut used = Vec::new();
        if pending && config.order.enabled && config.order.by == OrderBy::Learned {
            used.push("the order of starts".to_owned());
        }
        if config.learn.runtimes_decide && runs >= RUNTIME_RUNS_MIN {
            used.push(
                if pending { "whether it may delay a gang" } else { "when its nodes are free" }
                    .to_owned(),
            );
        }
        used
    }

    /// When a waiting job could start by its nodes alone, unix milliseconds.
    fn expected_start_ms(&self, snapshot: &Snapshot, rooms: &[Room], job: &Job) -> Option<u64> {
        let now_s = now_s();
        let soonest = self.outlook(snapshot, now_s).soonest(snapshot, rooms, job, now_s)?;
        u64::try_from(soonest.at_s).ok().map(|s| s.saturating_mul(1000))
    }

    fn pending(&self, snapshot: &Snapshot, job: &Job) -> PendingReport {
        let (rooms, _) = self.rooms(snapshot);
        let now_s = i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX);
        let found = waiting(snapshot, &rooms, job, now_s);
        let filters = found.eligible.steps.iter().map(|step| FilterReport {
            filter: step.filter.to_owned(),
            removed: step.removed as u64,
            asked: step.asked.clone(),
        });
        let mut filters: Vec<FilterReport> = filters.collect();
        filters.push(FilterReport {
            filter: "size".to_owned(),
            removed: found.too_small as u64,
            asked: "large enough when empty".to_owned(),
        });
        let blockers = found.blockers.iter().map(|(name, (nodes, missing))| BlockerReport {
            dimension: name.clone(),
            nodes_lacking: *nodes as u64,
            least_missing: as_f64(*missing),
        });
        let mut blockers: Vec<BlockerReport> = blockers.collect();
        blockers.sort_by_key(|b| std::cmp::Reverse(b.nodes_lacking));
        for (name, wanted, free) in &found.licenses {
            let dimension = format!("license/{name}");
            let least_missing = as_f64(wanted.saturating_sub(*free));
            blockers.insert(0, BlockerReport { dimension, nodes_lacking: 0, least_missing });
        }
        let position = snapshot
            .queue
            .iter()
            .position(|&i| snapshot.jobs.get(i as usize).is_some_and(|j| j.id == job.id));
        PendingReport {
            slurm_reason: job.reason.to_string(),
            queue_position: position.map(|p| p as u64 + 1),
            nodes_total: snapshot.nodes.len() as u64,
            filters,
            eligible: (found.eligible.nodes.count_ones(..) - found.too_small) as u64,
            fits_now: found.fits_now as u64,
            nodes_needed: u64::from(found.nodes_needed),
            blockers,
            summary: found.summary(&job.reason),
            steer: self.planned_steer(job.id),
            expected_start_ms: self.expected_start_ms(snapshot, &rooms, job),
        }
    }

    /// What the last plan wishes for a waiting job.
    fn planned_steer(&self, job_id: u32) -> Option<SteerReport> {
        let state = lock(&self.plan);
        let planned = state.plan.as_ref()?.jobs.iter().find(|p| p.job_id == job_id)?;
        Some(steer_of(state.snapshot.as_ref()?, planned.steered.as_ref()?))
    }

    /// What memory, else the history, knows of the job's asks and its start.
    fn add_past(&self, report: &mut Explain, key: JobKey, known: Option<Known>) {
        if let Some(known) = known {
            report.asks = known.asks.iter().rev().map(|ask| ask.report.clone()).collect();
            if let Some(start) = known.start {
                if report.job_id == 0 {
                    report.job_id = start.job_id;
                    report.label = start.job_id.to_string();
                }
                let decided = start.ask.as_ref().and_then(|ask| ask.scores.clone());
                let kept = start.ask.as_ref().is_some_and(|ask| ask.kept);
                let reason = start.ask.as_ref().and_then(|ask| ask.report.reason.clone());
                let reason = reason.or_else(|| (report.mode == "off").then(|| "off".to_owned()));
                report.placed = Some(placed(start.nodes, start.start_ms, decided, kept, reason));
            }
        }
        let id = if report.job_id != 0 { report.job_id } else { key.first() };
        if let Some(reader) = self.reader.as_ref().filter(|_| report.placed.is_none()) {
            add_history(report, reader, key, id);
        }
        if report.job_id == 0 && (report.placed.is_some() || !report.asks.is_empty()) {
            report.job_id = id;
            report.label = id.to_string();
        }
    }
}

/// An unreadable history leaves the explanation without its past.
fn add_history(report: &mut Explain, reader: &HistoryReader, key: JobKey, id: u32) {
    let placement = match key {
        JobKey::Task(array, task) => reader.placement_of_task(array, task),
        _ => reader.placement_of_job(id),
    };
    if report.state != "PENDING"
        && let Ok(Some((placement, decision))) = placement
    {
        let outcome = decision.as_ref().and_then(|d| d.outcome.as_ref());
        let kept = outcome.is_some_and(|o| o.reason.is_none());
        let reason = decision.as_ref().and_then(reason_of);
        let scores = decision.as_ref().and_then(scores_of);
        report.job_id = placement.job.job_id;
        report.placed = Some(placed(placement.nodes, placement.time_ms, scores, kept, reason));
    }
    if report.asks.is_empty() {
        let rows = match key {
            JobKey::Task(array, task) => reader.decisions_of_task(array, task, ASKS_MAX),
            _ => reader.decisions_of_job(id, ASKS_MAX),
        };
        report.asks = rows.unwrap_or_default().iter().map(ask_of).collect();
    }
}

fn no_snapshot() -> Failure {
    Failure::Unavailable("nothing read from slurmctld yet; see `phalanx status`".to_owned())
}

fn placed(
    nodes: String,
    start_ms: u64,
    decision: Option<DecisionReport>,
    kept: bool,
    reason: Option<String>,
) -> Placed {
    let same = decision.as_ref().is_some_and(|d| d.nodes == nodes);
    let reason = match (kept && same, reason) {
        (true, _) => None,
        (false, Some(reason)) => Some(reason),
        (false, None) if decision.is_some() => Some("Slurm took other nodes".to_owned()),
        (false, None) => Some("not asked".to_owned()),
    };
    Placed { nodes, by_phalanx: kept && same, reason, start_ms, decision }
}

fn reason_of(row: &DecisionRow) -> Option<String> {
    let outcome = row.outcome.as_ref().and_then(|o| o.reason.clone());
    outcome.or_else(|| row.decision.reason.clone())
}

fn scores_of(row: &DecisionRow) -> Option<DecisionReport> {
    serde_json::from_str(row.decision.explain.as_deref()?).ok()
}

fn ask_of(row: &DecisionRow) -> AskReport {
    AskReport {
        time_ms: row.decision.time_ms,
        mode: row.decision.ask.clone(),
        verdict: row.decision.verdict.clone(),
        reason: reason_of(row),
        nodes: row.decision.nodes.clone(),
        steer: scores_of(row).and_then(|scores| scores.steer),
    }
}

/// A job as a user writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobKey {
    Id(u32),
    Task(u32, u32),
    Component(u32, u32),
}

impl JobKey {
    fn first(self) -> u32 {
        match self {
            Self::Id(id) | Self::Task(id, _) | Self::Component(id, _) => id,
        }
    }
}

fn parse_job(text: &str) -> Option<JobKey> {
    if let Some((array, task)) = text.split_once('_') {
        return Some(JobKey::Task(array.parse().ok()?, task.parse().ok()?));
    }
    if let Some((leader, offset)) = text.split_once('+') {
        return Some(JobKey::Component(leader.parse().ok()?, offset.parse().ok()?));
    }
    text.parse().ok().map(JobKey::Id)
}

fn find(snapshot: &Snapshot, key: JobKey) -> Option<&Job> {
    match key {
        JobKey::Id(id) => snapshot.job(id),
        JobKey::Task(array, task) => snapshot.array_task(array, task),
        JobKey::Component(leader, offset) => {
            let label = format!("{leader}+{offset}");
            snapshot.jobs.iter().find(|job| *job.label == *label)
        }
    }
}

fn recent_key(key: JobKey, job: Option<&Job>) -> Key {
    match key {
        JobKey::Task(array, task) => Key::Task(array, task),
        JobKey::Id(id) | JobKey::Component(id, _) => Key::Job(job.map_or(id, |j| j.id)),
    }
}

fn request(snapshot: Option<&Snapshot>, job: &Job) -> BTreeMap<String, String> {
    let shape = &job.shape;
    let wanted = shape.wanted_nodes();
    let need = shape.need(wanted);
    let nodes = match (shape.min_nodes, shape.max_nodes) {
        (min, u32::MAX) => format!("{} or more", min.max(1)),
        (min, max) if min == max => max.to_string(),
        (min, max) => format!("{min} to {max}"),
    };
    let mut words = BTreeMap::from([
        ("nodes".to_owned(), nodes),
        ("cpu".to_owned(), format!("{} per node, {} in all", need.cpus, shape.min_cpus)),
    ]);
    if need.memory_mb > 0 {
        words.insert("mem".to_owned(), format!("{} MiB per node", need.memory_mb));
    } else if need.all_memory {
        words.insert("mem".to_owned(), "all of each node".to_owned());
    }
    if need.whole {
        words.insert("exclusive".to_owned(), "whole nodes".to_owned());
    }
    for (want, (_, _, count)) in shape.gres.iter().zip(&need.gres) {
        let name = |of: fn(&Snapshot) -> &[Arc<str>], id: u32| {
            snapshot.and_then(|s| of(s).get(id as usize)).map_or("?", |name| name)
        };
        let kind = name(|s| &s.gres_kinds, want.kind);
        let full = want.gres_type.map_or(kind, |t| name(|s| &s.gres_types, t));
        words.insert(format!("gres/{full}"), format!("{count} per node"));
    }
    for (name, count) in &job.licenses {
        words.insert(format!("license/{name}"), count.to_string());
    }
    words
}

fn node_names(snapshot: &Snapshot, nodes: &[u32]) -> String {
    let name = |&n: &u32| snapshot.nodes.get(n as usize).map(|node| node.name.to_string());
    let names: Vec<String> = nodes.iter().filter_map(name).collect();
    hostlist::compress(&names)
}

fn steer_of(snapshot: &Snapshot, steered: &Steered) -> SteerReport {
    let name = |node: usize| {
        snapshot.nodes.get(node).map_or_else(|| format!("#{node}"), |n| n.name.to_string())
    };
    steer_report(steered, name)
}

fn nodes_report(snapshot: &Snapshot, placer: &Placer, threshold: f64, exact: bool) -> NodesReport {
    let engine = placer.engine();
    let weights = engine.weights();
    let utilization = engine.utilization();
    let by_source = engine.weights_by_source();
    let dimensions = placer.dims().iter().enumerate();
    let dimensions =
        dimensions.map(|(at, name)| dimension(placer, at, name, &weights, &by_source)).collect();
    let nodes = snapshot.nodes.iter().zip(placer.cluster().rooms()).enumerate();
    let nodes = nodes.map(|(at, (node, room))| {
        let levels = [room.cpus, room.memory_mb].into_iter().chain(room.kinds.iter().copied());
        let (total, used) = levels.map(|l| (as_f64(l.total), as_f64(l.used))).unzip();
        let inside = |p: &&crate::snapshot::Partition| p.nodes.contains(at);
        NodeReport {
            name: node.name.to_string(),
            state: node.state.to_string(),
            partitions: snapshot
                .partitions
                .iter()
                .filter(inside)
                .map(|p| p.name.to_string())
                .collect(),
            total,
            used,
            dispersion: engine.dispersion(at, &weights).unwrap_or(0.0),
            jobs: room.jobs,
        }
    });
    NodesReport {
        dimensions,
        utilization,
        threshold,
        branch: if utilization >= threshold { "high" } else { "low" }.to_owned(),
        source: if exact { "plugin" } else { "poll" }.to_owned(),
        nodes: nodes.collect(),
    }
}

fn dimension(
    placer: &Placer,
    at: usize,
    name: &Arc<str>,
    weights: &[f64],
    by_source: &WeightsBySource,
) -> DimensionReport {
    let of = |list: &[f64]| list.get(at).copied().unwrap_or(0.0);
    let (total, used) = placer.dimension_level(at);
    DimensionReport {
        name: name.to_string(),
        unit: if &**name == "mem" { "MiB" } else { "count" }.to_owned(),
        total: as_f64(total),
        used: as_f64(used),
        pending: placer.pending().get(name).copied().unwrap_or(0),
        weight_initial: of(&by_source.initial),
        weight_pending: of(&by_source.pending),
        weight_usage: of(&by_source.usage),
        weight: of(weights),
    }
}

fn plugin_status(view: &LinkView) -> PluginStatus {
    let mut status = PluginStatus {
        connected: view.connected,
        synced: view.synced,
        overlay_version: view.plugin.overlay_version.clone(),
        slurm_version: view.plugin.slurm_version.clone(),
        pid: view.plugin.pid,
        ..PluginStatus::default()
    };
    if let Some(counters) = &view.counters {
        fill_counters(&mut status, &counters.0);
    }
    status
}

const MODES: [&str; 4] = ["run_now", "test_only", "will_run", "other"];

fn fill_counters(status: &mut PluginStatus, stats: &Stats) {
    let by_mode = |counts: &[u64; 4]| -> BTreeMap<String, u64> {
        MODES.iter().zip(counts).map(|(mode, n)| ((*mode).to_owned(), *n)).collect()
    };
    let mean =
        |calls: u64, ns: u64| CallTime { calls, mean_ns: ns.checked_div(calls).unwrap_or(0) };
    status.calls = by_mode(&stats.calls);
    status.asks = stats.asks;
    status.answers = stats.answers;
    status.narrowed = stats.narrowed;
    status.late_answers = stats.late_answers;
    status.events = stats.events;
    status.resyncs = stats.resyncs;
    status.connects = stats.connects;
    status.breaker_opens = stats.breaker_opens;
    status.breaker = match stats.breaker_open {
        0 => "closed",
        1 => "open",
        _ => "half-open",
    }
    .to_owned();
    // Reason 0 counts what was placed as answered: no reason at all.
    for (number, count) in (0u16..).zip(&stats.reasons).skip(1).filter(|(_, n)| **n > 0) {
        let name = Reason::from_raw(number).map_or("unknown", Reason::as_str);
        *status.reasons.entry(name.to_owned()).or_insert(0) += count;
    }
    status.ask_ns = quantiles(&Histogram::from_counts(stats.ask_ns_hist));
    status.skip_ns = quantiles(&Histogram::from_counts(stats.skip_ns_hist));
    status.narrowed_stock = mean(stats.narrowed_calls, stats.narrowed_ns);
    let full = MODES.iter().zip(stats.full_calls.iter().zip(&stats.full_ns));
    status.full_stock = full.map(|(m, (c, ns))| ((*m).to_owned(), mean(*c, *ns))).collect();
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    let (count, p50, p99, max) = upper_edge_quantiles(histogram);
    Quantiles { count, mean: histogram.mean(), p50, p99, max, buckets: histogram.buckets() }
}

fn shares(shares: &Shares) -> CallShares {
    CallShares {
        asked: shares.asked,
        answered: shares.answered,
        narrowed: shares.narrowed,
        fallen_back: shares.fallen_back.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| as_f64(part) / as_f64(whole))
}

/// Amounts and counts stay far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn as_f64(amount: u64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names() {
        assert_eq!(parse_job("12"), Some(JobKey::Id(12)));
        assert_eq!(parse_job("12_3"), Some(JobKey::Task(12, 3)));
        assert_eq!(parse_job("12+1"), Some(JobKey::Component(12, 1)));
        for bad in ["", "x", "12_", "_3", "12_3_4", "-1", "4294967296", "12.5", "../x"] {
            assert_eq!(parse_job(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_start_elsewhere_is_not_claimed() {
        let decision = DecisionReport { nodes: "n1".to_owned(), ..DecisionReport::default() };
        let ours = placed("n1".to_owned(), 1, Some(decision.clone()), true, None);
        assert!(ours.by_phalanx && ours.reason.is_none());
        let other = placed("n2".to_owned(), 1, Some(decision.clone()), true, None);
        assert_eq!(
            (other.by_phalanx, other.reason.as_deref()),
            (false, Some("Slurm took other nodes"))
        );
        let shadow = placed("n1".to_owned(), 1, Some(decision), false, Some("shadow".to_owned()));
        assert_eq!((shadow.by_phalanx, shadow.reason.as_deref()), (false, Some("shadow")));
        let unasked = placed("n1".to_owned(), 1, None, false, None);
        assert_eq!(unasked.reason.as_deref(), Some("not asked"));
    }
}
