// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon as the API sees it.

use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::watch;

use super::metrics::Sources;
use crate::failure::Failure;
use phalanx_core::run::Run;
use phalanx_messages::collect::{
    AgentsReport, Batch, CollectorReport, CollectorsReport, DataNames, DataReport, Past, Patch,
    PutOne, Refused, Registration, Stored, SyncReply, SyncRequest, UseChange, UsedValues,
    UsesReport,
};
use phalanx_messages::rest::heat::HeatReport;
use phalanx_messages::rest::{
    ActivityReport, DecisionsReport, EnergyReport, EnergyUse, Explain, ImportReport, NodesReport,
    PlanReport, RecordRequest, RecordingStatus, ReloadReport, RunsReport, ShadowReport,
    SpeedsReport, Status,
};
use phalanx_methods::data_jobs::blockmap::BlockMap;
use phalanx_planner::state::State as LiveState;

/// The answers of the daemon, each named by its request. Times are unix milliseconds.
pub trait Backend: Send + Sync + 'static {
    /// `GET /v1/status`
    fn status(&self) -> Status;
    /// `GET /v1/nodes`
    fn nodes(&self) -> Result<NodesReport, Failure>;
    /// `GET /v1/explain/{job}`, `job` as users write it, for `user`; `None` may see every job.
    fn explain(&self, job: &str, user: Option<u32>) -> Result<Explain, Failure>;
    /// `GET /v1/jobs/{id}/blocks`: the block map of a running job, for `user` as above;
    /// [`Failure::Unavailable`] while the input is looked up, or where another daemon is in charge.
    fn block_map(&self, job_id: u32, user: Option<u32>) -> Result<Arc<BlockMap>, Failure>;
    /// `GET /v1/shadow?since=`
    fn shadow(&self, since_ms: Option<u64>) -> Result<ShadowReport, Failure>;
    /// `GET /v1/report?since=`
    fn report(&self, since_ms: Option<u64>) -> Result<ActivityReport, Failure>;
    /// `GET /v1/decisions?limit=`
    fn latest(&self, limit: Option<u32>) -> Result<DecisionsReport, Failure>;
    /// `GET /v1/plan`
    fn plan(&self) -> Result<PlanReport, Failure>;
    /// `GET /v1/state`
    fn state(&self) -> Result<LiveState, Failure>;
    /// `GET /v1/history/runs?since=&limit=`
    fn runs(&self, since_ms: Option<u64>, limit: Option<u32>) -> Result<RunsReport, Failure>;
    /// `GET /v1/history/speeds?class=&node=`
    fn speeds(&self, class: Option<&str>, node: Option<&str>) -> Result<SpeedsReport, Failure>;
    /// `GET /v1/history/energy`
    fn energy(&self) -> Result<EnergyReport, Failure>;
    /// `GET /v1/energy?since=`
    fn energy_use(&self, _since_ms: Option<u64>) -> Result<EnergyUse, Failure> {
        Err(Failure::Unavailable("nothing is recorded here".to_owned()))
    }
    /// `POST /v1/history/import`
    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure>;
    /// `POST /v1/reload`
    fn reload(&self) -> ReloadReport;
    /// `POST /v1/record`; fails if there is a recording already, or none to stop.
    fn record(&self, request: RecordRequest) -> Result<RecordingStatus, Failure>;
    /// Returns the data service, if it is switched on.
    fn data_service(&self) -> Option<&dyn DataService> {
        None
    }
    /// `GET /v1/heat`
    fn heat(&self) -> Result<HeatReport, Failure> {
        self.nodes().map(|nodes| HeatReport::of(&nodes))
    }
    /// Returns the reports behind `GET /metrics`.
    fn sources(&self) -> Sources {
        let service = self.data_service();
        Sources {
            status: self.status(),
            nodes: self.nodes().ok(),
            plan: self.plan().ok(),
            collectors: service.map(DataService::collectors),
            data: service.map(DataService::data_names),
            agents: service.map(DataService::agents),
        }
    }
}

/// The answers of the data service. None of them waits for a collection.
pub trait DataService: Send + Sync + 'static {
    /// Returns the generation of the assignments, as it changes.
    fn generations(&self) -> watch::Receiver<u64>;
    /// Returns whether this user's agents may send values.
    fn is_agent(&self, uid: u32) -> bool;
    /// `GET /v1/collectors`
    fn collectors(&self) -> CollectorsReport;
    /// `GET /v1/collectors/{name}`
    fn collector(&self, name: &str) -> Result<CollectorReport, Failure>;
    /// `POST /v1/collectors`
    fn add_collector(&self, patch: Patch) -> Result<Registration, Failure>;
    /// `PATCH /v1/collectors/{name}`
    fn update_collector(&self, name: &str, patch: Patch) -> Result<Registration, Failure>;
    /// `POST /v1/collectors/{name}/start` and `/stop`, of these nodes (a hostlist) or of all.
    fn switch_collector(
        &self,
        name: &str,
        nodes: Option<&str>,
        run: bool,
    ) -> Result<Registration, Failure>;
    /// `DELETE /v1/collectors/{name}`
    fn remove_collector(&self, name: &str) -> Result<Registration, Failure>;
    /// `GET /v1/data`
    fn data_names(&self) -> DataNames;
    /// `GET /v1/data/{name}`, of these nodes (a hostlist) or of all.
    fn data(&self, name: &str, nodes: Option<&str>) -> Result<DataReport, Failure>;
    /// `GET /v1/data/{name}/{node}/history`
    fn past(&self, name: &str, node: &str, ask: &PastQuery) -> Result<Past, Failure>;
    /// `POST /v1/data`
    fn store(&self, batch: &Batch) -> Result<Stored, Failure>;
    /// `PUT /v1/data/{name}/{node}`, by the node's agent or an administrator.
    fn store_one(
        &self,
        name: &str,
        node: &str,
        put: PutOne,
        admin: bool,
    ) -> Result<Stored, Failure>;
    /// `GET /v1/agents`
    fn agents(&self) -> AgentsReport;
    /// Performs the first half of `POST /v1/agents/{node}/sync`; returns the number of the agent's
    /// turn, and the refused values.
    fn begin_sync(&self, node: &str, ask: &SyncRequest) -> Result<(u64, Vec<Refused>), Failure>;
    /// Performs the second half of `POST /v1/agents/{node}/sync`.
    fn end_sync(&self, node: &str, had: u64, refused: Vec<Refused>) -> SyncReply;
    /// Records that the agent's connection broke between the halves.
    fn lost(&self, node: &str, turn: u64);
    /// `GET /v1/use`
    fn uses(&self) -> UsesReport;
    /// `GET /v1/use/{key}`
    fn used(&self, key: &str, ask: &UseQuery) -> Result<UsedValues, Failure>;
    /// `PUT` and `DELETE /v1/use/{key}`
    fn choose(&self, key: &str, choice: Option<UseChange>) -> Result<(), Failure>;
}

/// Query of `GET /v1/data/{name}/{node}/history`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastQuery {
    /// Earliest receipt, unix milliseconds.
    pub since_ms: Option<u64>,
    /// Latest receipt, unix milliseconds.
    pub until_ms: Option<u64>,
    /// Maximum number of points.
    pub limit: Option<usize>,
}

/// Query of `GET /v1/use/{key}`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseQuery {
    /// Hostlist; absent: every node of the cluster.
    pub nodes: Option<String>,
    /// Datum to use instead of the one in force.
    pub name: Option<String>,
}
