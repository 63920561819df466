// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers to the questions of the control socket: a file for each; `Backend` names them all.

mod activity;
mod audit;
mod block_map;
mod energy;
mod explain;
mod explain_key;
mod explain_why;
mod learned;
mod nodes;
mod recording;
mod status;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use self::nodes::nodes_report;
use self::topology::node_names;
use crate::api::metrics::Queue;
use crate::api::{AuditQuery, Backend, Failure};
use crate::collect::{DataService, Now};
use crate::daemon::decision_views::planned_preference;
use crate::daemon::measured_values;
use crate::daemon::shared::Shared;
use crate::link::Responder;
use phalanx_core::run::Run;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_ffi::clock::now_ms;
use phalanx_messages::collect::UsedValues;
use phalanx_messages::rest::{
    ActivityReport, AuditReport, DecisionsReport, DrillReport, EnergyReport, Explain,
    ForgiveReport, ImportReport, NodesReport, PlanReport, PlannedJob, RecordRequest,
    RecordingStatus, ReloadReport, RunJoules, RunsReport, ShadowReport, SpeedsReport, Status,
};
use phalanx_methods::data_jobs::blockmap::BlockMap;
use phalanx_planner::attribution::Demand;
use phalanx_planner::cluster::{Cluster, RunningJob, Table};
use phalanx_planner::place::Placer;
use phalanx_planner::state::State as LiveState;
use phalanx_planner::usage::NodeUsage;

/// Maximum number of differing starts that one shadow report lists.
const SHADOW_LIST_MAX: u32 = 50;

/// Returns the mirror's jobs, if the snapshot has its numbering; simulations have no GRES types.
fn running_jobs(snapshot: &Snapshot, responder: &Responder) -> Vec<RunningJob> {
    let Some((_, mut jobs)) =
        responder.copy_jobs().filter(|(table, _)| snapshot.is_numbered_by(table))
    else {
        return Vec::new();
    };
    let held = jobs.iter_mut().flat_map(|job| &mut job.held);
    held.flat_map(|held| &mut held.gres).for_each(|(_, gres_type, _)| *gres_type = None);
    jobs
}

impl Shared {
    /// Returns the topologies over the snapshot's nodes; none where no plugin reports them.
    pub(super) fn topologies(&self, snapshot: &Snapshot) -> Vec<Topology> {
        let table = self.responder.table().filter(|table| snapshot.is_numbered_by(table));
        table.map(|table| table.topologies.clone()).unwrap_or_default()
    }
}

impl Backend for Shared {
    fn data_service(&self) -> &DataService {
        &self.data_service
    }

    fn used(
        &self,
        key: &str,
        nodes: Option<Vec<String>>,
        name: Option<&str>,
    ) -> Result<UsedValues, Failure> {
        let snapshot = self.cluster.snapshot();
        let named = |s: &Arc<Snapshot>| s.named().map(|(_, node)| node.name.to_string()).collect();
        let nodes = nodes.or_else(|| snapshot.as_ref().map(named)).ok_or_else(no_snapshot)?;
        let cpus = measured_values::cpus(snapshot.as_deref());
        let cpus = |node: &str| cpus.get(node).copied();
        self.data_service.collect.used(key, name, &nodes, &cpus, Now::read())
    }

    fn status(&self) -> Status {
        self.status_report()
    }

    fn queue(&self) -> Queue {
        self.cluster.queue()
    }

    fn nodes(&self) -> Result<NodesReport, Failure> {
        let snapshot = self.cluster.snapshot().ok_or_else(no_snapshot)?;
        let threshold = self.config().balance.threshold;
        let (usages, exact) = self.usages(&snapshot);
        // An engine on the snapshot's nodes: names, features and partitions
        // are there, and the mirror stays free for questions.
        let placer = self.placer_for(&snapshot, usages).map_err(Failure::Unavailable)?;
        let topologies = self.topologies(&snapshot);
        let accused = &self.learned.failures().accused;
        Ok(nodes_report(&snapshot, &placer, &topologies, accused, threshold, exact))
    }

    fn forgive(&self, node: &str) -> Result<ForgiveReport, Failure> {
        let snapshot = self.cluster.snapshot().ok_or_else(no_snapshot)?;
        let Some((_, known)) = snapshot.named().find(|(_, known)| &*known.name == node) else {
            return Err(Failure::NotFound(format!("node {node}: Slurm does not know it")));
        };
        self.learned.forgive(Arc::clone(&known.name));
        Ok(ForgiveReport { node: node.to_owned() })
    }

    fn explain(&self, job: &str, user: Option<u32>) -> Result<Explain, Failure> {
        let mut shown = explain::for_user(self.explain_report(job), job, user)?;
        if user.is_some() && self.responder.settings().draw.is_some() {
            shown.placed = None;
            shown.receipts.clear();
        }
        Ok(shown)
    }

    fn block_map(&self, job_id: u32, user: Option<u32>) -> Result<Arc<BlockMap>, Failure> {
        Self::block_map(self, job_id, user)
    }

    fn shadow(&self, since_ms: Option<u64>) -> Result<ShadowReport, Failure> {
        let day_ms = 24 * 3600 * 1000;
        let since_ms = since_ms.unwrap_or_else(|| now_ms().saturating_sub(day_ms));
        Ok(self.reader.shadow(since_ms, SHADOW_LIST_MAX)?)
    }

    fn report(&self, since_ms: Option<u64>) -> Result<ActivityReport, Failure> {
        activity::report(self, since_ms)
    }

    fn audit(&self, asked: &AuditQuery, user: Option<u32>) -> Result<AuditReport, Failure> {
        audit::report(self, asked, user)
    }

    fn latest(&self, limit: Option<u32>) -> Result<DecisionsReport, Failure> {
        activity::latest(self, limit)
    }

    fn plan(&self) -> Result<PlanReport, Failure> {
        let state = self.plans.lock();
        let (Some(plan), Some(snapshot)) = (&state.plan, &state.snapshot) else {
            return Err(Failure::Unavailable("no plan yet".to_owned()));
        };
        let places = self.order.places();
        let jobs = plan.jobs.iter().map(|planned| {
            let preference_use = planned.preference_use.as_ref();
            let decided = preference_use.filter(|s| s.set.is_some());
            let place = places.get(&planned.job_id);
            let job = snapshot.job(planned.job_id);
            let held = job.and_then(|job| self.held(job));
            PlannedJob {
                rank: place.and_then(|p| p.0),
                delta: place.map_or(0, |p| p.1),
                job_id: planned.job_id,
                label: job.map(|job| job.label.to_string()).unwrap_or_default(),
                method: decided.map_or("balance", |s| s.preference.method.as_str()).to_owned(),
                nodes: node_names(snapshot, &planned.nodes),
                reason: held.or_else(|| planned.why.map(str::to_owned)),
                start_ms: self.order.start_ms(planned.job_id),
                preference: preference_use.map(|s| planned_preference(snapshot, s)),
            }
        });
        Ok(PlanReport {
            epoch: plan.epoch,
            time_ms: state.time_ms,
            took_ms: state.took_ms,
            jobs: jobs.collect(),
            not_planned: plan.not_planned,
            methods: state.of_round.methods.clone(),
        })
    }

    fn state(&self) -> Result<LiveState, Failure> {
        let snapshot = self.cluster.snapshot().ok_or_else(no_snapshot)?;
        let config = serde_json::to_value(&*self.config())
            .map_err(|error| Failure::Unavailable(format!("configuration: {error}")))?;
        let going = |job: &&Job| job.state != JobState::Ended;
        let expected = snapshot.all_jobs().filter(going).filter_map(|job| {
            let (prediction, _) = self.learned.expected(job)?;
            Some((job.id, prediction.mean_s))
        });
        Ok(LiveState {
            time_ms: now_ms(),
            config,
            memory_tracked: self.cluster.memory_tracked(),
            expected_s: expected.collect(),
            running: running_jobs(&snapshot, &self.responder),
            topology: self.topologies(&snapshot).into_iter().find(|t| t.parts().is_default),
            snapshot,
        })
    }

    fn runs(&self, since_ms: Option<u64>, limit: Option<u32>) -> Result<RunsReport, Failure> {
        learned::runs(self, since_ms, limit)
    }

    fn speeds(&self, class: Option<&str>, node: Option<&str>) -> Result<SpeedsReport, Failure> {
        learned::speeds(self, class, node)
    }

    fn energy(&self) -> Result<EnergyReport, Failure> {
        Ok(energy::report(self))
    }

    fn metered(&self, found: Option<Vec<RunJoules>>) -> Option<(i64, i64)> {
        if let Some(found) = found {
            let found = found.into_iter().map(|run| ((run.job, run.start_s), run.joules));
            self.energy.found(&found.collect());
        }
        self.energy.span()
    }

    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure> {
        learned::import(self, runs)
    }

    fn record(&self, request: RecordRequest) -> Result<RecordingStatus, Failure> {
        recording::record(self, &request)
    }

    fn reload(&self) -> ReloadReport {
        Shared::reload(self)
    }

    fn drill(&self) -> DrillReport {
        self.responder.ask_for(DRILL);
        DrillReport { seconds: DRILL.as_secs() }
    }
}

/// Time for which the plugin waits for answers after `phalanx drill` asked for it.
const DRILL: Duration = Duration::from_secs(60);

impl Shared {
    fn placer_for(&self, snapshot: &Snapshot, usages: Vec<NodeUsage>) -> Result<Placer, String> {
        let settings = self.responder.settings();
        let cluster = Cluster::with_usages(Table::of_snapshot(snapshot), usages);
        let tracked = self.cluster.memory_tracked();
        let pending = Demand::clone(&self.responder.pending());
        let mut placer =
            Placer::new(cluster, tracked, settings.tuning.clone(), snapshot.licenses.clone())
                .map_err(|e| e.to_string())?;
        placer.set_pending(pending).map_err(|e| e.to_string())?;
        Ok(placer)
    }
}

fn no_snapshot() -> Failure {
    Failure::Unavailable("nothing read from slurmctld yet; see `phalanx status`".to_owned())
}
