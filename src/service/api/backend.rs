// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon as the API sees it.

use std::sync::Arc;

use serde::Deserialize;

use super::metrics::{Queue, Sources};
use crate::collect::{Collect, DataService, Now};
use crate::failure::Failure;
use phalanx_core::run::Run;
use phalanx_messages::collect::UsedValues;
use phalanx_messages::rest::{
    ActivityReport, AuditReport, DecisionsReport, DrillReport, EnergyReport, Explain,
    ForgiveReport, ImportReport, NodesReport, PlanReport, RecordRequest, RecordingStatus,
    ReloadReport, RunJoules, RunsReport, ShadowReport, SpeedsReport, Status,
};
use phalanx_methods::data_jobs::blockmap::BlockMap;
use phalanx_planner::state::State as LiveState;

/// Jobs whose receipts are asked for.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Begin of the period, unix milliseconds.
    pub since: Option<u64>,
    /// Name or id of a user.
    pub user: Option<String>,
    /// Job, array or task as squeue prints it.
    pub job: Option<String>,
}

/// The answers of the daemon; `routes` says to which requests. Times are unix milliseconds.
pub trait Backend: Send + Sync + 'static {
    fn status(&self) -> Status;
    fn nodes(&self) -> Result<NodesReport, Failure>;
    /// `POST /v1/nodes/{node}/forgive`: lets jobs that died on the node so far count no more.
    fn forgive(&self, node: &str) -> Result<ForgiveReport, Failure>;
    /// `GET /v1/explain/{job}`, `job` as users write it, for `user`; `None` may see every job.
    fn explain(&self, job: &str, user: Option<u32>) -> Result<Explain, Failure>;
    /// `GET /v1/jobs/{id}/blocks`: the block map of a running job, for `user`, `None` for any;
    /// [`Failure::Unavailable`] while the input is looked up, or where another daemon is in charge.
    fn block_map(&self, job_id: u32, user: Option<u32>) -> Result<Arc<BlockMap>, Failure>;
    fn shadow(&self, since_ms: Option<u64>) -> Result<ShadowReport, Failure>;
    fn report(&self, since_ms: Option<u64>) -> Result<ActivityReport, Failure>;
    /// `GET /v1/audit` of the jobs asked for, for `user`; `None` may see every job.
    fn audit(&self, asked: &AuditQuery, user: Option<u32>) -> Result<AuditReport, Failure>;
    fn latest(&self, limit: Option<u32>) -> Result<DecisionsReport, Failure>;
    fn plan(&self) -> Result<PlanReport, Failure>;
    fn state(&self) -> Result<LiveState, Failure>;
    fn runs(&self, since_ms: Option<u64>, limit: Option<u32>) -> Result<RunsReport, Failure>;
    fn speeds(&self, class: Option<&str>, node: Option<&str>) -> Result<SpeedsReport, Failure>;
    fn energy(&self) -> Result<EnergyReport, Failure>;
    /// `POST /v1/history/energy`
    fn metered(&self, found: Option<Vec<RunJoules>>) -> Option<(i64, i64)>;
    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure>;
    fn reload(&self) -> ReloadReport;
    /// `POST /v1/drill`
    fn drill(&self) -> DrillReport;
    /// `POST /v1/record`; fails if there is a recording already, or none to stop.
    fn record(&self, request: RecordRequest) -> Result<RecordingStatus, Failure>;
    /// Returns the data service; none of its answers waits for a collection.
    fn data_service(&self) -> &DataService;
    fn collect(&self) -> &Collect {
        &self.data_service().collect
    }
    /// `GET /v1/use/{key}`, of some nodes or of all, and of a datum or the one in force.
    fn used(
        &self,
        key: &str,
        nodes: Option<Vec<String>>,
        name: Option<&str>,
    ) -> Result<UsedValues, Failure>;
    fn queue(&self) -> Queue;
    /// Returns the reports behind the metrics.
    fn sources(&self) -> Sources {
        let (collect, now) = (self.collect(), Now::read());
        Sources {
            status: self.status(),
            nodes: self.nodes().ok(),
            plan: self.plan().ok(),
            collectors: collect.collectors(now),
            data: collect.names(now),
            agents: collect.agents(now),
            queue: self.queue(),
        }
    }
}
