// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers of the data service, with the daemon's knowledge of the nodes.

use tokio::sync::watch;

use crate::api::{DataService, Failure, PastQuery, UseQuery};
use crate::collect::{Collect, Now, Sender};
use crate::daemon::measured_values;
use crate::daemon::shared::Shared;
use crate::daemon::threads::collect;
use phalanx_core::hostlist;
use phalanx_core::limits::{COLLECT_POINTS_MAX, NODES_MAX};
use phalanx_messages::collect::{
    AgentsReport, Batch, CollectorReport, CollectorsReport, DataNames, DataReport, Past, Patch,
    Put, PutOne, Refused, Registration, Stored, SyncReply, SyncRequest, UseChange, UsedValues,
    UsesReport,
};
use phalanx_messages::rest::CollectStatus;

/// Number of past values in an answer by default.
const POINTS: usize = 1000;

fn expand(nodes: &str) -> Result<Vec<String>, Failure> {
    hostlist::expand(nodes, NODES_MAX)
        .map_err(|error| Failure::BadRequest(format!("nodes: {error}")))
}

impl DataService for Shared {
    fn generations(&self) -> watch::Receiver<u64> {
        self.data_service.generations.clone()
    }

    fn is_agent(&self, uid: u32) -> bool {
        self.data_service.agent_uids.contains(&uid)
    }

    fn collectors(&self) -> CollectorsReport {
        self.collect().collectors(Now::read())
    }

    fn collector(&self, name: &str) -> Result<CollectorReport, Failure> {
        self.collect().collector(name, Now::read())
    }

    fn add_collector(&self, patch: Patch) -> Result<Registration, Failure> {
        let added = self.collect().add(patch, Now::read())?;
        log::info!("collector {}: registered {}", added.name, added.cmd);
        Ok(added)
    }

    fn update_collector(&self, name: &str, patch: Patch) -> Result<Registration, Failure> {
        let updated = self.collect().update(name, patch, Now::read())?;
        log::info!("collector {}: changed to version {}", updated.name, updated.version);
        Ok(updated)
    }

    fn switch_collector(
        &self,
        name: &str,
        nodes: Option<&str>,
        run: bool,
    ) -> Result<Registration, Failure> {
        let updated = self.collect().switch(name, nodes, run, Now::read())?;
        let (done, on) = (if run { "started" } else { "stopped" }, nodes.unwrap_or("all nodes"));
        let on = phalanx_messages::collect::short(on);
        log::info!("collector {}: {done} on {on}, version {}", updated.name, updated.version);
        Ok(updated)
    }

    fn remove_collector(&self, name: &str) -> Result<Registration, Failure> {
        let removed = self.collect().remove(name)?;
        log::info!("collector {}: removed", removed.name);
        Ok(removed)
    }

    fn data_names(&self) -> DataNames {
        self.collect().names(Now::read())
    }

    fn data(&self, name: &str, nodes: Option<&str>) -> Result<DataReport, Failure> {
        // The pseudo nodes are no hostlist.
        let nodes = match nodes {
            Some(node) if node.starts_with('@') => Some(vec![node.to_owned()]),
            Some(nodes) => Some(expand(nodes)?),
            None => None,
        };
        self.collect().data(name, nodes.as_deref(), Now::read())
    }

    fn past(&self, name: &str, node: &str, ask: &PastQuery) -> Result<Past, Failure> {
        let period = (ask.since_ms.unwrap_or(0), ask.until_ms.unwrap_or(u64::MAX));
        let limit = ask.limit.unwrap_or(POINTS);
        if !(1..=COLLECT_POINTS_MAX).contains(&limit) {
            let text = format!("limit: expected 1 to {COLLECT_POINTS_MAX}, got {limit}");
            return Err(Failure::BadRequest(text));
        }
        self.collect().past((name, node), period, limit)
    }

    fn store(&self, batch: &Batch) -> Result<Stored, Failure> {
        self.collect().store_batch(batch, Now::read())
    }

    fn store_one(
        &self,
        name: &str,
        node: &str,
        put: PutOne,
        admin: bool,
    ) -> Result<Stored, Failure> {
        let PutOne { value, time_ms, age_ms } = put;
        let put =
            Put { name: name.to_owned(), node: Some(node.to_owned()), value, time_ms, age_ms };
        let from = if admin { Sender::Admin } else { Sender::Agent(node) };
        let mut stored = self.collect().store(&[put], from, Now::read());
        match stored.refused.pop() {
            Some(refused) => Err(Failure::BadRequest(refused.reason)),
            None => Ok(stored),
        }
    }

    fn agents(&self) -> AgentsReport {
        self.collect().agents(Now::read())
    }

    fn begin_sync(&self, node: &str, ask: &SyncRequest) -> Result<(u64, Vec<Refused>), Failure> {
        if node.starts_with('@') {
            return Err(Failure::BadRequest(format!("{node}: no node has that name")));
        }
        self.collect().begin_sync(node, ask, Now::read())
    }

    fn end_sync(&self, node: &str, had: u64, refused: Vec<Refused>) -> SyncReply {
        self.collect().end_sync(node, had, refused, Now::read())
    }

    fn lost(&self, node: &str, turn: u64) {
        self.collect().lost(node, turn, Now::read());
    }

    fn uses(&self) -> UsesReport {
        self.collect().uses(Now::read())
    }

    fn used(&self, key: &str, ask: &UseQuery) -> Result<UsedValues, Failure> {
        let snapshot = self.cluster.snapshot();
        let nodes = match &ask.nodes {
            Some(nodes) => expand(nodes)?,
            None => {
                let snapshot = snapshot.as_ref();
                let names = snapshot.map(|s| s.named().map(|(_, node)| node.name.to_string()));
                names.map(Iterator::collect).ok_or_else(|| {
                    Failure::Unavailable("the nodes are not read from slurmctld yet".to_owned())
                })?
            }
        };
        let cpus = measured_values::cpus(snapshot.as_deref());
        let cpus = |node: &str| cpus.get(node).copied();
        self.collect().used(key, ask.name.as_deref(), &nodes, &cpus, Now::read())
    }

    fn choose(&self, key: &str, choice: Option<UseChange>) -> Result<(), Failure> {
        self.collect().choose(key, choice)
    }
}

impl Shared {
    /// Returns the status of the data service.
    pub(super) fn collect_status(&self) -> CollectStatus {
        let collect = self.collect();
        let config = self.config();
        CollectStatus {
            enabled: true,
            path: collect::path(&config).display().to_string(),
            listen: config.control.listen.clone(),
            generation: collect.generation(),
            totals: collect.totals(Now::read()),
            uses: collect.uses(Now::read()).uses,
        }
    }

    fn collect(&self) -> &Collect {
        &self.data_service.collect
    }
}
