// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx explain`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::audit;
use super::explain_key::{JobKey, parsed};
use super::explain_why::summary;
use crate::api::Failure;
use crate::clock::zoned;
use crate::daemon::decision_views::{leaves_report, planned_preference};
use crate::daemon::shared::Shared;
use crate::daemon::state::decision_memory::{JobMemory, Key};
use crate::daemon::state::inputs::tasks_of;
use crate::history::{DecisionRow, HistoryReader};
use phalanx_config::OrderBy;
use phalanx_core::limits::{HOSTLIST_NAMES_MAX, RUNTIME_RUNS_MIN};
use phalanx_core::number::as_f64;
use phalanx_core::reason::WaitsFor;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_core::{NodeIdx, hostlist};
use phalanx_ffi::clock::{millis, now_ms, now_s};
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::{
    BlockerReport, ExpectedReport, Explain, FilterReport, LeafAhead, LeavesAhead, LeavesReport,
    PendingReport, Placed, PreferenceReport,
};
use phalanx_planner::ends::expected_end_s;
use phalanx_planner::pending::{waiting, waits_for};
use phalanx_planner::usage::NodeUsage;

/// Maximum number of asks that one explanation lists.
const ASKS_MAX: u32 = 8;
/// Text about an answer whose report by the overlay is lost.
const NOT_REPORTED: &str = "not reported";
/// Mode of a job in Slurm's arm of a comparison.
const SLURM_ONLY: &str = "off, treated by Slurm alone: live comparison";

/// Returns what the job's user may see of the explanation where users see their own jobs alone;
/// `None`: for a peer who may see every job. Another user's job looks like an unknown one.
pub(super) fn for_user(
    made: Result<Explain, Failure>,
    job: &str,
    user: Option<u32>,
) -> Result<Explain, Failure> {
    let Some(_) = user else { return made };
    let own = made.ok().filter(|report| report.user_id == user);
    own.map(shown).ok_or_else(|| unknown(job))
}

/// Copies by name the fields that tell nothing of nodes and of other users' jobs, so that a new
/// field is hidden until it is named here.
fn shown(full: Explain) -> Explain {
    let placed = full.placed.map(|placed| Placed {
        nodes: placed.nodes,
        start_ms: placed.start_ms,
        by_phalanx: placed.by_phalanx,
        ..Placed::default()
    });
    let pending = full.pending.map(|pending| PendingReport {
        summary: match pending.waits_for {
            WaitsFor::Nodes => format!("Slurm's reason is {}", pending.slurm_reason),
            _ => pending.summary,
        },
        slurm_reason: pending.slurm_reason,
        waits_for: pending.waits_for,
        nodes_needed: pending.nodes_needed,
        ..PendingReport::default()
    });
    Explain {
        job_id: full.job_id,
        label: full.label,
        state: full.state,
        user_id: full.user_id,
        partition: full.partition,
        request: full.request,
        placed,
        pending,
        receipts: full.receipts,
        expected: full.expected,
        ..Explain::default()
    }
}

fn unknown(job: &str) -> Failure {
    Failure::NotFound(format!("job {job}: Slurm does not know it, nor does the history"))
}

impl Shared {
    /// Explains one job, by the name that a user writes.
    ///
    /// # Errors
    /// Fails for a wrong name, or a job that neither Slurm nor the history knows.
    pub(super) fn explain_report(&self, job: &str) -> Result<Explain, Failure> {
        let key = parsed(job)?;
        let snapshot = self.cluster.snapshot();
        let in_queue = snapshot.as_ref().and_then(|s| find(s, key));
        let known = lock(&self.decisions).get(recent_key(key, in_queue)).cloned();
        let mut report = match in_queue {
            Some(job) => self.of_job(snapshot.as_deref(), job),
            None => Explain { state: "UNKNOWN".to_owned(), ..Explain::default() },
        };
        if let (Some(snapshot), Some(job)) = (&snapshot, in_queue)
            && job.state == JobState::Pending
        {
            report.pending = Some(self.pending(snapshot, job));
            let queue = self.responder.order.report();
            report.order = queue.and_then(|queue| self.order.of_job(&queue, job.id));
        }
        report.input = in_queue.and_then(|job| self.input_note(job.id));
        let failures = self.learned.failures();
        report.last = failures.accused.iter().map(|one| format!("{}: {one}", one.node)).collect();
        let found = in_queue.is_some() || known.is_some();
        self.add_past(&mut report, key, known);
        if let (Some(snapshot), Some(placed)) = (&snapshot, &mut report.placed) {
            placed.topology = self.leaves(snapshot, in_queue, placed);
        }
        report.receipts = audit::of_job(self, key);
        if !found && report.placed.is_none() && report.asks.is_empty() {
            return Err(unknown(job));
        }
        Ok(report)
    }

    /// Returns the leaf switches or blocks of a job that started.
    fn leaves(
        &self,
        snapshot: &Snapshot,
        job: Option<&Job>,
        placed: &Placed,
    ) -> Option<LeavesReport> {
        let decided = placed.decision.as_ref().filter(|_| placed.by_phalanx);
        if let Some(leaves) = decided.and_then(|decision| decision.topology.clone()) {
            return Some(leaves);
        }
        let topology = self.topology_of(snapshot, job)?;
        let names = hostlist::expand(&placed.nodes, HOSTLIST_NAMES_MAX).ok()?;
        let nodes: Vec<NodeIdx> = names.iter().filter_map(|name| snapshot.node(name)).collect();
        leaves_report(&topology, &nodes)
    }

    /// Returns the topology that a job's partition uses.
    fn topology_of(&self, snapshot: &Snapshot, job: Option<&Job>) -> Option<Topology> {
        let all = self.topologies(snapshot);
        let first = job.and_then(|job| job.partitions.split(',').next());
        let partition = snapshot.partitions.iter().find(|p| Some(&*p.name) == first);
        super::topology::of_partition(&all, partition).cloned()
    }

    /// Returns the leaf switches or blocks that a waiting job of several nodes could have.
    fn leaves_ahead(
        &self,
        snapshot: &Snapshot,
        usages: &[NodeUsage],
        job: &Job,
    ) -> Option<LeavesAhead> {
        let topology = self.topology_of(snapshot, Some(job))?;
        if phalanx_planner::room::nodes_needed(&job.shape, usages) < 2 || !topology.has_leaves() {
            return None;
        }
        let now_s = now_s();
        let outlook = self.learned.outlook(&self.config(), snapshot, now_s);
        let found = outlook.on_leaves(snapshot, usages, &topology, job, now_s);
        let one_leaf = found.one.map(|one| LeafAhead {
            name: topology.leaf_name(one.leaf).to_owned(),
            at_ms: u64::try_from(one.at_s)
                .ok()
                .filter(|_| one.at_s > now_s)
                .map(|at_s| at_s.saturating_mul(1000)),
            after_jobs: one.jobs,
        });
        Some(LeavesAhead {
            topology: topology.name().to_string(),
            kind: topology.kind(),
            fewest_now: found.fewest,
            one_leaf,
        })
    }

    fn of_job(&self, snapshot: Option<&Snapshot>, job: &Job) -> Explain {
        let first = job.partitions.split(',').next().unwrap_or_default();
        Explain {
            job_id: job.id,
            label: job.label.to_string(),
            state: job.state_text.to_string(),
            user_id: Some(job.user_id),
            partition: job.partitions.to_string(),
            mode: match self.is_slurms(job) {
                true => SLURM_ONLY.to_owned(),
                false => self.config().mode_for(first, &job.account).as_str().to_owned(),
            },
            request: request(snapshot, job),
            expected: self.expected_report(job),
            ..Explain::default()
        }
    }

    /// Whether Slurm alone treats a job, for a live comparison.
    fn is_slurms(&self, job: &Job) -> bool {
        self.responder.settings().draw.as_ref().is_some_and(|draw| draw.is_slurms_job(job))
    }

    fn expected_report(&self, job: &Job) -> Option<ExpectedReport> {
        if job.state == JobState::Ended {
            return None;
        }
        let (prediction, runs) = self.learned.expected(job)?;
        let limit_s = job.time_limit_min.map(|minutes| u64::from(minutes) * 60);
        let running = job.state == JobState::Running && job.start_s > 0;
        let end_s = running.then(|| expected_end_s(job, prediction.mean_s, now_s())).flatten();
        let end_ms = end_s.and_then(|s| u64::try_from(s).ok()).map(|s| s.saturating_mul(1000));
        let used_for = self.used_for(job, runs);
        Some(ExpectedReport { runtime_s: prediction.mean_s, runs, limit_s, end_ms, used_for })
    }

    /// Returns the decisions that the prediction affects.
    fn used_for(&self, job: &Job, runs: f64) -> Vec<String> {
        let (config, pending) = (self.config(), job.state == JobState::Pending);
        let mut used = Vec::new();
        if pending && config.order.by == OrderBy::Learned {
            used.push("the order of starts".to_owned());
        }
        if config.learn.runtimes_decide && runs >= RUNTIME_RUNS_MIN {
            let ends = "when its nodes are free";
            used.push(if pending { "whether it may delay a gang" } else { ends }.to_owned());
        }
        used
    }

    fn pending(&self, snapshot: &Snapshot, job: &Job) -> PendingReport {
        let (usages, _) = self.usages(snapshot);
        let now_s = now_s();
        let found = waiting(snapshot, &usages, job, now_s);
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
        let position = snapshot.queued().position(|queued| queued.id == job.id);
        PendingReport {
            slurm_reason: job.reason.to_string(),
            waits_for: waits_for(snapshot, &usages, job, now_s),
            queue_position: position.map(|p| p as u64 + 1),
            nodes_total: snapshot.named().count() as u64,
            filters,
            eligible: (found.eligible.nodes.count() - found.too_small) as u64,
            fits_now: found.fits_now as u64,
            nodes_needed: u64::from(found.nodes_needed),
            blockers,
            summary: match self.held(job) {
                Some(held) => held,
                None => summary(snapshot, &usages, job, &found),
            },
            preference: self.planned_preference(job.id).filter(|_| !self.is_slurms(job)),
            note: self.plans.lock().of_round.notes.get(&job.id).cloned(),
            start_ms: self.order.start_ms(job.id),
            topology: self.leaves_ahead(snapshot, &usages, job),
        }
    }

    /// Says by which rule, and until when, the daemon holds a job or its array, if it does.
    pub(super) fn held(&self, job: &Job) -> Option<String> {
        let (rule, left) = self.responder.hold(job.id, job.array_job_id)?;
        let until = zoned(now_ms().saturating_add(millis(left))).strftime("%H:%M:%S").to_string();
        Some(format!("Phalanx holds it {}, until {until} at the latest", rule.text()))
    }

    /// Returns the last plan's preference for a waiting job.
    fn planned_preference(&self, job_id: u32) -> Option<PreferenceReport> {
        let state = self.plans.lock();
        let planned = state.plan.as_ref()?.jobs.iter().find(|p| p.job_id == job_id)?;
        Some(planned_preference(state.snapshot.as_ref()?, planned.preference_use.as_ref()?))
    }

    /// Adds the job's asks and its start from memory, else from the history.
    fn add_past(&self, report: &mut Explain, key: JobKey, known: Option<JobMemory>) {
        if let Some(known) = known {
            report.user_id = report.user_id.or(Some(known.user));
            report.asks = known.rows.iter().rev().map(|row| row.report()).collect();
            if let Some(start) = known.start {
                if report.job_id == 0 {
                    report.job_id = start.job_id;
                    report.label = start.job_id.to_string();
                }
                let row = start.row.as_deref();
                report.placed = Some(placed(start.nodes, start.start_ms, row, &report.mode));
            }
        }
        let id = if report.job_id != 0 { report.job_id } else { key.first() };
        if let Some(reader) = Some(&self.reader).filter(|_| report.placed.is_none()) {
            add_history(report, reader, key, id);
        }
        if report.job_id == 0 && (report.placed.is_some() || !report.asks.is_empty()) {
            report.job_id = id;
            report.label = id.to_string();
        }
    }
}

/// Adds past asks and starts from the history; an unreadable history leaves the explanation without
/// them.
fn add_history(report: &mut Explain, reader: &HistoryReader, key: JobKey, id: u32) {
    let of = match key {
        JobKey::Task(array, task) => (array, Some(task)),
        _ => (id, None),
    };
    if report.state != "PENDING"
        && let Ok(Some((placement, decision))) = reader.placement_of(of)
    {
        if placement.mode == "off" {
            SLURM_ONLY.clone_into(&mut report.mode);
        }
        report.job_id = placement.job.job_id;
        report.user_id.get_or_insert(placement.job.user_id);
        let (nodes, start_ms) = (placement.nodes, placement.time_ms);
        report.placed = Some(placed(nodes, start_ms, decision.as_ref(), &report.mode));
    }
    if report.asks.is_empty() {
        let rows = reader.decisions_of(of, ASKS_MAX).unwrap_or_default();
        let user = rows.first().map(|row| row.decision.job.user_id);
        report.user_id = report.user_id.or(user);
        report.asks = rows.iter().map(DecisionRow::report).collect();
    }
}

/// Reports a start on `nodes`, and the decision behind it; `mode` is that of its partition.
fn placed(nodes: String, start_ms: u64, row: Option<&DecisionRow>, mode: &str) -> Placed {
    let kept = row.filter(|row| row.put_on(&nodes));
    let reason = match (kept, row) {
        (Some(row), _) if row.outcome.is_none() => Some(NOT_REPORTED.to_owned()),
        (_, row) => row.and_then(DecisionRow::reason),
    };
    let reason = reason.or_else(|| mode.starts_with("off").then(|| "off".to_owned()));
    let decision = row.and_then(|row| row.decision.explain.as_deref().cloned());
    let by_phalanx = kept.is_some() && decision.as_ref().is_some_and(|d| d.nodes == nodes);
    let reason = match (by_phalanx, reason) {
        (true, reason) | (false, reason @ Some(_)) => reason,
        (false, None) if decision.is_some() => Some("Slurm took other nodes".to_owned()),
        (false, None) => Some("not asked".to_owned()),
    };
    Placed { nodes, by_phalanx, reason, start_ms, decision, topology: None }
}

fn find(snapshot: &Snapshot, key: JobKey) -> Option<&Job> {
    match key {
        JobKey::Id(id) => snapshot.job(id),
        // Of a list that Slurm has shortened nothing can be said.
        JobKey::Task(array, task) => snapshot.array_task(array, task).filter(|job| {
            job.array_task_id.is_some() || tasks_of(job).is_none_or(|all| all.contains(&task))
        }),
        JobKey::Array(id) => snapshot.array_task(id, u32::MAX).or_else(|| snapshot.job(id)),
        JobKey::Component(leader, offset) => {
            let label = format!("{leader}+{offset}");
            snapshot.all_jobs().find(|job| *job.label == *label)
        }
    }
}

fn recent_key(key: JobKey, job: Option<&Job>) -> Key {
    match key {
        JobKey::Task(array, task) => Key::Task(array, task),
        _ => Key::Job(job.map_or(key.first(), |j| j.id)),
    }
}

fn request(snapshot: Option<&Snapshot>, job: &Job) -> BTreeMap<String, String> {
    let shape = &job.shape;
    let wanted = shape.wanted_nodes();
    let need = shape.need(wanted);
    // Its nodes follow from its tasks: what one node would need is what it needs in all.
    let is_open = wanted == 1 && shape.node_count_is_free();
    let per = |by_node: bool| if is_open && !by_node { "in all" } else { "per node" };
    let nodes = match (shape.min_nodes, shape.max_nodes) {
        (min, u32::MAX) => format!("{} or more", min.max(1)),
        (min, max) if min == max => max.to_string(),
        (min, max) => format!("{min} to {max}"),
    };
    let cpus = match is_open {
        true => format!("{} in all", need.cpus),
        false => format!("{} per node, {} in all", need.cpus, shape.min_cpus),
    };
    let mut words = BTreeMap::from([("nodes".to_owned(), nodes), ("cpu".to_owned(), cpus)]);
    if need.memory_mb > 0 {
        words.insert(
            "mem".to_owned(),
            format!("{} MiB {}", need.memory_mb, per(need.mem_per_cpu_mb == 0)),
        );
    } else if need.all_memory {
        words.insert("mem".to_owned(), "all of each node".to_owned());
    }
    if need.whole {
        words.insert("exclusive".to_owned(), "whole nodes".to_owned());
    }
    for (want, (_, _, count)) in shape.gres.iter().zip(&need.gres) {
        let name = |of: fn(&Snapshot) -> &[Arc<str>], at: usize| {
            snapshot.and_then(|s| of(s).get(at)).map_or("?", |name| name)
        };
        let kind = name(|s| &s.gres_kinds, want.kind.at());
        let full = want.gres_type.map_or(kind, |t| name(|s| &s.gres_types, t.at()));
        words.insert(format!("gres/{full}"), format!("{count} {}", per(want.per_node > 0)));
    }
    for (name, count) in &job.licenses {
        words.insert(format!("license/{name}"), count.to_string());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{DecisionRecord, OutcomeRecord};
    use phalanx_messages::rest::order::JobOrder;
    use phalanx_messages::rest::{AskReport, DecisionReport};

    /// Goal: a task that an array does not have, or that no longer waits, does not count as
    /// waiting.
    #[test]
    fn an_array_that_waits_stands_for_its_own_tasks_only() {
        let job = |id, task, label: &str| Job {
            id,
            array_job_id: Some(28),
            array_task_id: task,
            label: label.into(),
            ..Job::default()
        };
        let mut snapshot = Snapshot::default();
        snapshot.set_queue(vec![job(30, Some(2), "28_2"), job(28, None, "28_[3-6,8:2%1]")]);
        let found = |name: &str| find(&snapshot, parsed(name).unwrap()).map(|job| job.id);
        assert_eq!(["28_2", "28_3", "28_8", "28_[3-6]"].map(found), [30, 28, 28, 28].map(Some));
        assert_eq!(["28_1", "28_7", "28_999", "29_3"].map(found), [None; 4]);
        snapshot.set_queue(vec![job(28, None, "28_[1,3,5,...]")]);
        let found = find(&snapshot, JobKey::Task(28, 999)).map(|job| job.id);
        assert_eq!(found, Some(28), "a shortened list");
    }

    /// Goal: users get their own jobs, with nothing of nodes and others' jobs; another job looks as
    /// one that there is not; who may see all gets what there is.
    #[test]
    fn users_get_their_own_jobs_only() {
        let hidden = || "n31".to_owned();
        let one_leaf =
            Some(LeafAhead { name: hidden(), after_jobs: vec![31], ..LeafAhead::default() });
        let topology = Some(LeavesAhead { topology: hidden(), one_leaf, ..LeavesAhead::default() });
        let pending = PendingReport {
            slurm_reason: "Resources".to_owned(),
            summary: hidden(),
            queue_position: Some(31),
            nodes_total: 31,
            eligible: 31,
            fits_now: 31,
            start_ms: Some([31, 31]),
            filters: vec![FilterReport { filter: hidden(), ..<_>::default() }],
            blockers: vec![BlockerReport { dimension: hidden(), ..<_>::default() }],
            topology,
            ..PendingReport::default()
        };
        let decision = Some(DecisionReport { nodes: hidden(), ..DecisionReport::default() });
        let placed = Placed { nodes: "n1".to_owned(), decision, ..Placed::default() };
        let made = || {
            Ok(Explain {
                user_id: Some(5),
                mode: hidden(),
                placed: Some(placed.clone()),
                pending: Some(pending.clone()),
                order: Some(JobOrder { stop_job: Some(31), ..JobOrder::default() }),
                asks: vec![AskReport { nodes: hidden(), ..AskReport::default() }],
                last: vec![hidden()],
                ..Explain::default()
            })
        };
        let text = |report: &Explain| serde_json::to_string(report).unwrap();
        assert_eq!(for_user(made(), "7", None).unwrap(), made().unwrap());
        let own = text(&for_user(made(), "7", Some(5)).unwrap());
        assert!(text(&made().unwrap()).contains("31") && !own.contains("31"), "{own}");
        assert!(own.contains("Resources") && own.contains("n1"), "{own}");
        let refused = |made, user| for_user(made, "7", Some(user)).unwrap_err().to_string();
        let nobodys = || Ok(Explain::default());
        assert_eq!(refused(made(), 6), refused(Err(unknown("7")), 6));
        assert_eq!(refused(nobodys(), 0), unknown("7").to_string(), "an unknown user is nobody");
    }

    #[test]
    fn a_start_elsewhere_is_not_claimed() {
        let row = |mode: &str, reason: Option<&str>, outcome| {
            let (nodes, reason) = ("n1".to_owned(), reason.map(str::to_owned));
            let scores = DecisionReport { nodes: nodes.clone(), ..DecisionReport::default() };
            let decision = DecisionRecord {
                ask: AskReport { nodes, reason, ..AskReport::default() },
                mode: mode.to_owned(),
                explain: Some(Arc::new(scores)),
                ..DecisionRecord::default()
            };
            DecisionRow { decision, outcome }
        };
        let reported = Some(OutcomeRecord::default());
        let ours = row("enforce", None, reported.clone());
        let cases = [
            ("n1", Some(&ours), "", true, None),
            ("n2", Some(&ours), "", false, Some("Slurm took other nodes")),
            ("n1", Some(&row("shadow", Some("shadow"), reported)), "", false, Some("shadow")),
            ("n1", Some(&row("enforce", None, None)), "", true, Some(NOT_REPORTED)),
            ("n1", None, "", false, Some("not asked")),
            ("n1", None, SLURM_ONLY, false, Some("off")),
        ];
        for (nodes, row, mode, by_phalanx, reason) in cases {
            let placed = placed(nodes.to_owned(), 1, row, mode);
            assert_eq!((placed.by_phalanx, placed.reason.as_deref()), (by_phalanx, reason));
        }
    }
}
