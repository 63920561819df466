// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon as the API sees it.

use std::sync::Arc;

use super::metrics::Sources;
use crate::collect::{DataService, Now};
use crate::failure::Failure;
use phalanx_core::run::Run;
use phalanx_messages::collect::UsedValues;
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
    /// Returns the data service, if it is switched on. None of its answers waits for a collection.
    fn data_service(&self) -> Option<&DataService> {
        None
    }
    /// `GET /v1/use/{key}`, of these nodes or of all, and of this datum or the one in force.
    fn used(
        &self,
        _key: &str,
        _nodes: Option<Vec<String>>,
        _name: Option<&str>,
    ) -> Result<UsedValues, Failure> {
        Err(Failure::Unavailable("there is no data service here".to_owned()))
    }
    /// `GET /v1/heat`
    fn heat(&self) -> Result<HeatReport, Failure> {
        self.nodes().map(|nodes| HeatReport::of(&nodes))
    }
    /// Returns the reports behind `GET /metrics`.
    fn sources(&self) -> Sources {
        let (service, now) = (self.data_service().map(|service| &service.collect), Now::read());
        Sources {
            status: self.status(),
            nodes: self.nodes().ok(),
            plan: self.plan().ok(),
            collectors: service.map(|collect| collect.collectors(now)),
            data: service.map(|collect| collect.names(now)),
            agents: service.map(|collect| collect.agents(now)),
        }
    }
}
