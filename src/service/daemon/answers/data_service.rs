// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers of the data service, with the daemon's knowledge of the nodes.

use tokio::sync::watch;

use crate::api::{DataService, Failure, PastQuery, UseQuery};
use crate::collect::{Collect, Now, Sender};
use crate::daemon::measured_values;
use crate::daemon::shared::Shared;
use phalanx_core::hostlist;
use phalanx_core::limits::{COLLECT_POINTS_MAX, NODES_MAX};
use phalanx_messages::collect::{
    AgentsReport, Batch, CollectorReport, CollectorsReport, DataNames, DataReport, Past, Patch,
    Put, PutOne, Refused, Registration, Stored, SyncReply, SyncRequest, UseChange, UsedValues,
    UsesReport,
};
use phalanx_messages::rest::CollectStatus;

/// Past values of an answer that asks for no number.
const POINTS: usize = 1000;

fn expand(nodes: &str) -> Result<Vec<String>, Failure> {
    hostlist::expand(nodes, NODES_MAX)
        .map_err(|error| Failure::BadRequest(format!("nodes: {error}")))
}

impl DataService for Shared {
    fn generations(&self) -> watch::Receiver<u64> {
        match &self.data_service {
            Some(service) => service.generations.clone(),
            None => watch::channel(0).1,
        }
    }

    fn is_agent(&self, uid: u32) -> bool {
        self.data_service.as_ref().is_some_and(|service| service.agent_uids.contains(&uid))
    }

    fn collectors(&self) -> CollectorsReport {
        self.collect().map(|collect| collect.collectors(Now::read())).unwrap_or_default()
    }

    fn collector(&self, name: &str) -> Result<CollectorReport, Failure> {
        self.collect()?.collector(name, Now::read())
    }

    fn add_collector(&self, patch: Patch) -> Result<Registration, Failure> {
        let added = self.collect()?.add(patch, Now::read())?;
        log::info!("collector {}: registered {}", added.name, added.cmd);
        Ok(added)
    }

    fn update_collector(&self, name: &str, patch: Patch) -> Result<Registration, Failure> {
        let updated = self.collect()?.update(name, patch, Now::read())?;
        log::info!("collector {}: changed to version {}", updated.name, updated.version);
        Ok(updated)
    }

    fn switch_collector(
        &self,
        name: &str,
        nodes: Option<&str>,
        run: bool,
    ) -> Result<Registration, Failure> {
        let updated = self.collect()?.switch(name, nodes, run, Now::read())?;
        let (done, on) = (if run { "started" } else { "stopped" }, nodes.unwrap_or("all nodes"));
        let on = phalanx_messages::collect::short(on);
        log::info!("collector {}: {done} on {on}, version {}", updated.name, updated.version);
        Ok(updated)
    }

    fn remove_collector(&self, name: &str) -> Result<Registration, Failure> {
        let removed = self.collect()?.remove(name)?;
        log::info!("collector {}: removed", removed.name);
        Ok(removed)
    }

    fn data_names(&self) -> DataNames {
        self.collect().map(|collect| collect.names(Now::read())).unwrap_or_default()
    }

    fn data(&self, name: &str, nodes: Option<&str>) -> Result<DataReport, Failure> {
        // The pseudo nodes are no hostlist.
        let nodes = match nodes {
            Some(node) if node.starts_with('@') => Some(vec![node.to_owned()]),
            Some(nodes) => Some(expand(nodes)?),
            None => None,
        };
        self.collect()?.data(name, nodes.as_deref(), Now::read())
    }

    fn past(&self, name: &str, node: &str, ask: &PastQuery) -> Result<Past, Failure> {
        let period = (ask.since_ms.unwrap_or(0), ask.until_ms.unwrap_or(u64::MAX));
        let limit = ask.limit.unwrap_or(POINTS);
        if !(1..=COLLECT_POINTS_MAX).contains(&limit) {
            let text = format!("limit: expected 1 to {COLLECT_POINTS_MAX}, got {limit}");
            return Err(Failure::BadRequest(text));
        }
        self.collect()?.past((name, node), period, limit)
    }

    fn store(&self, batch: &Batch) -> Result<Stored, Failure> {
        self.collect()?.store_batch(batch, Now::read())
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
        let mut stored = self.collect()?.store(&[put], from, Now::read());
        match stored.refused.pop() {
            Some(refused) => Err(Failure::BadRequest(refused.reason)),
            None => Ok(stored),
        }
    }

    fn agents(&self) -> AgentsReport {
        self.collect().map(|collect| collect.agents(Now::read())).unwrap_or_default()
    }

    fn begin_sync(&self, node: &str, ask: &SyncRequest) -> Result<(u64, Vec<Refused>), Failure> {
        if node.starts_with('@') {
            return Err(Failure::BadRequest(format!("{node}: no node has that name")));
        }
        self.collect()?.begin_sync(node, ask, Now::read())
    }

    fn end_sync(&self, node: &str, had: u64, refused: Vec<Refused>) -> SyncReply {
        match self.collect() {
            Ok(collect) => collect.end_sync(node, had, refused, Now::read()),
            Err(_) => SyncReply::default(),
        }
    }

    fn lost(&self, node: &str, turn: u64) {
        if let Ok(collect) = self.collect() {
            collect.lost(node, turn, Now::read());
        }
    }

    fn uses(&self) -> UsesReport {
        self.collect().map(|collect| collect.uses(Now::read())).unwrap_or_default()
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
        self.collect()?.used(key, ask.name.as_deref(), &nodes, &cpus, Now::read())
    }

    fn choose(&self, key: &str, choice: Option<UseChange>) -> Result<(), Failure> {
        self.collect()?.choose(key, choice)
    }
}

impl Shared {
    /// The service in numbers.
    pub(super) fn collect_status(&self) -> CollectStatus {
        let Ok(collect) = self.collect() else { return CollectStatus::default() };
        let config = self.config();
        CollectStatus {
            enabled: true,
            path: config.collect.path.display().to_string(),
            listen: config.control.listen.clone(),
            generation: collect.generation(),
            totals: collect.totals(Now::read()),
            uses: collect.uses(Now::read()).uses,
        }
    }

    fn collect(&self) -> Result<&Collect, Failure> {
        let service = self.data_service.as_ref();
        service
            .map(|service| &*service.collect)
            .ok_or_else(|| Failure::Unavailable("collect.enabled is off".to_owned()))
    }
}
