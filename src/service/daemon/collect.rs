// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service inside the daemon: its thread, its settings, and its answers
//! to the API.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::unistd::Uid;
use tokio::sync::watch;

use crate::api::types::CollectStatus;
use crate::api::{DataService, Failure, PastQuery, UseQuery};
use crate::collect::agent::AgentOptions;
use crate::collect::{Collect, Now, Sender, Settings};
use crate::config::Config;
use crate::daemon::measures;
use crate::daemon::state::Shared;
use phalanx_core::collect::{
    AgentsReport, Batch, CollectorReport, CollectorsReport, DataNames, DataReport, MASTER, Past,
    Patch, Put, PutOne, Refused, Registration, Stored, SyncReply, SyncRequest, UseChange,
    UsedValues, UsesReport,
};
use phalanx_core::hostlist;
use phalanx_core::limits::{COLLECT_POINTS_MAX, NODES_MAX};

/// Time between two rounds of upkeep.
const TICK: Duration = Duration::from_secs(1);
/// Longest sleep before the thread looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);
/// Past values of an answer that asks for no number.
const POINTS: usize = 1000;

/// The service and who may feed it.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) collect: Arc<Collect>,
    generations: watch::Receiver<u64>,
    agent_uids: Vec<u32>,
}

impl Data {
    /// Starts the service of this configuration, if it is switched on.
    pub(super) fn start(config: &Config) -> Option<Data> {
        if !config.collect.enabled {
            return None;
        }
        let (sender, generations) = watch::channel(0);
        let changed = Box::new(move |generation| {
            let _ = sender.send_replace(generation);
        });
        let collect = Arc::new(Collect::new(settings(config), changed, Now::read()));
        collect.announce();
        Some(Data { collect, generations, agent_uids: config.collect.agent_uids.clone() })
    }
}

/// What a configuration means to the service.
pub(super) fn settings(config: &Config) -> Settings {
    let collect = &config.collect;
    Settings {
        path: Some(collect.path.clone()),
        command_dirs: collect.command_dirs.clone(),
        owner: Uid::effective().as_raw(),
        stale_periods: collect.stale_periods,
        history_step_s: collect.history_step_s,
        retention_hours: collect.retention_hours,
        max_mb: collect.max_mb,
        registrations: config.registrations(),
        uses: measures::uses(config),
    }
}

/// How the daemon runs what is registered for `@master`.
pub(super) fn agent_options(config: &Config) -> AgentOptions {
    AgentOptions {
        node: MASTER.to_owned(),
        command_dirs: config.collect.command_dirs.clone(),
        run_as: config.collect.run_as.clone(),
        service: config.control.socket.display().to_string(),
        root: PathBuf::from("/"),
        seed: Now::read().wall_ms,
    }
}

/// Socket of munged, if it is not the machine's own.
pub(super) fn munge_socket(config: &Config) -> Option<PathBuf> {
    let path = &config.control.munge_socket;
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// Upkeep until `stop`, and a last write.
pub(super) fn run(collect: &Collect, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        collect.tick(Now::read());
        let mut left = TICK;
        while !left.is_zero() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(left));
            left = left.saturating_sub(LOOK);
        }
    }
    collect.tick(Now::read());
}

fn expand(nodes: &str) -> Result<Vec<String>, Failure> {
    hostlist::expand(nodes, NODES_MAX)
        .map_err(|error| Failure::BadRequest(format!("nodes: {error}")))
}

/// The service with what the daemon knows of the nodes.
impl DataService for Shared {
    fn generations(&self) -> watch::Receiver<u64> {
        match &self.data {
            Some(data) => data.generations.clone(),
            None => watch::channel(0).1,
        }
    }

    fn is_agent(&self, uid: u32) -> bool {
        self.data.as_ref().is_some_and(|data| data.agent_uids.contains(&uid))
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
        let snapshot = self.snapshot();
        let nodes = match &ask.nodes {
            Some(nodes) => expand(nodes)?,
            None => {
                let snapshot = snapshot.as_ref();
                let names = snapshot.map(|s| s.nodes.iter().map(|node| node.name.to_string()));
                names.map(Iterator::collect).ok_or_else(|| {
                    Failure::Unavailable("slurmctld has not told its nodes yet".to_owned())
                })?
            }
        };
        let cpus = measures::cpus(snapshot.as_deref());
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
            listen: config.control.listen,
            generation: collect.generation(),
            totals: collect.totals(Now::read()),
            uses: collect.uses(Now::read()).uses,
        }
    }

    fn collect(&self) -> Result<&Collect, Failure> {
        let data = self.data.as_ref();
        data.map(|data| &*data.collect)
            .ok_or_else(|| Failure::Unavailable("collect.enabled is off".to_owned()))
    }
}
