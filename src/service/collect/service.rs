// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service: one handle that all threads share.
//!
//! Values live in memory and go to the database once a second; a registration
//! is in the database before it counts. Locks are taken in the order database,
//! registry, agents, latest; only the database's is held while the disk works.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::watch;

use super::agents::Agents;
use super::clock::Now;
use super::database::CollectorStore;
use super::latest::{Latest, row};
use super::registry::Registry;
use super::store;
use super::uses::Use;
use crate::failure::Failure;
use phalanx_core::hostlist;
use phalanx_core::limits::{COLLECT_BATCH_MAX, COLLECT_POINTS_MAX, NODES_MAX};
use phalanx_ffi::command;
use phalanx_ffi::locks::{lock, read, write};
use phalanx_messages::collect::{
    ALL, AgentsReport, Batch, CLUSTER, DataNames, DataReport, MASTER, Output, Past, Patch, Put,
    Refused, Registration, Stored, SyncReply, SyncRequest, UseChange, Value, ValueType, short,
    valid_name, valid_node,
};

/// Period that is assumed for data without a registration, milliseconds.
const EVERY_MS: u64 = 30_000;

/// Settings of the data service; a running service adopts all of them except the path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Path of the database; `None`: values are in memory only.
    pub path: Option<PathBuf>,
    pub command_dirs: Vec<PathBuf>,
    /// User that may own commands besides root: the daemon's.
    pub owner: u32,
    /// Number of periods after which a value is stale.
    pub stale_periods: u32,
    /// Least time between two past values of one node, in seconds.
    pub history_step_s: u32,
    /// Age at which past values are deleted, in hours.
    pub retention_hours: u32,
    /// Size of the database at which the oldest values are deleted, in MiB.
    pub max_mb: u32,
    /// Registrations of the configuration.
    pub registrations: Vec<Registration>,
    /// The data that methods use.
    pub uses: Vec<Use>,
}

/// The origin of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender<'n> {
    /// An administrator, who may send values of any node.
    Admin,
    /// The agent of a node, which may send values for its own registrations and node.
    Agent(&'n str),
}

/// The service as the daemon runs it, and the users whose agents may feed it.
#[derive(Debug)]
pub struct DataService {
    pub collect: Arc<Collect>,
    /// Users whose agents may send values.
    pub agent_uids: Vec<u32>,
}

#[derive(Debug)]
pub struct Collect {
    pub(super) settings: RwLock<Settings>,
    pub(super) database: Mutex<CollectorStore>,
    pub(super) registry: RwLock<Registry>,
    pub(super) agents: Mutex<Agents>,
    pub(super) latest: RwLock<Latest>,
    /// Choices made by REST, by key.
    pub(super) choices: RwLock<BTreeMap<String, UseChange>>,
    /// Generation of the assignments.
    generation: watch::Sender<u64>,
}

impl Collect {
    /// Starts with the contents of the database; while it cannot be opened, values stay in memory.
    pub fn new(settings: Settings, now: Now) -> Collect {
        let mut database = CollectorStore::default();
        let path = settings.path.as_deref();
        let held = path.and_then(|path| {
            crate::sqlite::was_emptied(path);
            database.open(path, settings.max_mb, now)
        });
        let held = held.unwrap_or_default();
        let mut registry = Registry::default();
        registry.set_time(now.local());
        registry.load(held.registrations);
        registry.set_config(settings.registrations.clone(), now.wall_ms);
        let mut latest = Latest::default();
        for (name, node, value, time_ms, received_ms) in held.values {
            latest.load(&name, &node, (value, time_ms, received_ms), now);
        }
        Collect {
            settings: RwLock::new(settings),
            database: Mutex::new(database),
            registry: RwLock::new(registry),
            agents: Mutex::new(Agents::default()),
            latest: RwLock::new(latest),
            choices: RwLock::new(held.uses.into_iter().collect()),
            // Differs from that of the last start, and is exact in JSON.
            generation: watch::Sender::new((now.wall_ms / 1000) << 20),
        }
    }

    /// Returns the generation of the assignments in force.
    pub fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Returns the generation as it changes.
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    pub(super) fn bump(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Adopts another configuration; the database stays at its path.
    pub fn set_settings(&self, settings: Settings, now: Now) {
        let registrations = settings.registrations.clone();
        let mut database = lock(&self.database);
        database.set_max_mb(settings.max_mb);
        {
            let mut current = write(&self.settings);
            *current = Settings { path: current.path.take(), ..settings };
        }
        drop(database);
        if write(&self.registry).set_config(registrations, now.wall_ms) {
            self.bump();
        }
    }

    /// Returns the period of a datum, if it has one, and the age from which its values are stale.
    pub(super) fn limits_of(&self, name: &str) -> (Option<u64>, u64) {
        let every = read(&self.registry).get(name).map(|registration| registration.every_ms);
        let periods = u64::from(read(&self.settings).stale_periods);
        (every, every.unwrap_or(EVERY_MS).saturating_mul(periods))
    }

    // ---- registrations

    fn checked(&self, registration: &Registration) -> Result<(), Failure> {
        registration.check().map_err(Failure::BadRequest)?;
        if registration.builtin().is_some() {
            return Ok(());
        }
        let settings = read(&self.settings);
        let path = std::path::Path::new(&registration.cmd);
        command::check(path, &settings.command_dirs, settings.owner)
            .map(|_| ())
            .map_err(Failure::BadRequest)
    }

    /// Adds a registration; durable when it returns.
    pub fn add(&self, patch: Patch, now: Now) -> Result<Registration, Failure> {
        let name = patch.name.clone();
        let name = name.ok_or_else(|| Failure::BadRequest("name: missing".to_owned()))?;
        if patch.cmd.is_none() {
            return Err(Failure::BadRequest("cmd: missing".to_owned()));
        }
        let mut new = Registration { name, changed_ms: now.wall_ms, ..Registration::default() };
        patch.apply(&mut new);
        self.checked(&new)?;
        let mut database = lock(&self.database);
        read(&self.registry).may_add(&new)?;
        database.write(|store| store.put_registration(&new))?;
        self.put(new.clone(), now);
        log::info!("collector {}: registered {}", new.name, new.cmd);
        Ok(new)
    }

    /// Changes a registration that is not the configuration's; durable when it returns.
    pub fn update(&self, name: &str, patch: Patch, now: Now) -> Result<Registration, Failure> {
        if patch.name.as_deref().is_some_and(|other| other != name) {
            return Err(Failure::BadRequest("name: cannot be changed".to_owned()));
        }
        let updated = self.change(name, now, |new| {
            patch.apply(new);
            Ok(())
        })?;
        log::info!("collector {name}: changed to version {}", updated.version);
        Ok(updated)
    }

    /// Starts or stops a registration, everywhere or on some nodes; durable when it returns.
    pub fn switch(
        &self,
        name: &str,
        nodes: Option<&str>,
        run: bool,
        now: Now,
    ) -> Result<Registration, Failure> {
        let updated = self.change(name, now, |new| match nodes {
            None => {
                new.enabled = run;
                if run {
                    new.except.clear();
                }
                Ok(())
            }
            Some(nodes) => except(new, nodes, run).map_err(Failure::BadRequest),
        })?;
        let (done, on) = (if run { "started" } else { "stopped" }, nodes.unwrap_or("all nodes"));
        log::info!("collector {name}: {done} on {}, version {}", short(on), updated.version);
        Ok(updated)
    }

    fn change(
        &self,
        name: &str,
        now: Now,
        change: impl FnOnce(&mut Registration) -> Result<(), Failure>,
    ) -> Result<Registration, Failure> {
        let mut database = lock(&self.database);
        let mut new = read(&self.registry).changeable(name)?.clone();
        let old = new.clone();
        change(&mut new)?;
        self.checked(&new)?;
        if new == old {
            return Ok(new);
        }
        new.version += 1;
        new.changed_ms = now.wall_ms;
        database.write(|store| store.put_registration(&new))?;
        self.put(new.clone(), now);
        Ok(new)
    }

    fn put(&self, registration: Registration, now: Now) {
        {
            let mut registry = write(&self.registry);
            registry.put(registration);
            registry.elect(&lock(&self.agents).alive(now));
        }
        self.bump();
    }

    /// Removes a registration that is not the configuration's, and its latest values.
    pub fn remove(&self, name: &str) -> Result<Registration, Failure> {
        let mut database = lock(&self.database);
        let old = read(&self.registry).changeable(name)?.clone();
        database.write(|store| store.remove_registration(name))?;
        write(&self.registry).remove(name);
        write(&self.latest).drop_name(name);
        self.bump();
        log::info!("collector {name}: removed");
        Ok(old)
    }

    // ---- values

    /// Stores values; returns the indexes of values that were refused.
    pub fn store(&self, values: &[Put], from: Sender<'_>, now: Now) -> Stored {
        let mut out = Stored::default();
        // Checked before the values are locked: readers wait for neither.
        let mut good = Vec::with_capacity(values.len().min(COLLECT_BATCH_MAX));
        {
            let registry = read(&self.registry);
            for (index, put) in values.iter().enumerate() {
                match accept(put, from, &registry) {
                    Ok(value) if index < COLLECT_BATCH_MAX => good.push((index, value)),
                    Ok(_) => {
                        let reason = format!("more than {COLLECT_BATCH_MAX} values");
                        out.refused.push(Refused { index, reason });
                    }
                    Err(reason) => out.refused.push(Refused { index, reason }),
                }
            }
        }
        let mut latest = write(&self.latest);
        for (index, (node, value)) in good {
            let put = &values[index];
            match latest.put((&put.name, node), value, (put.time_ms, put.age_ms), now) {
                Ok(()) => out.stored += 1,
                Err(reason) => out.refused.push(Refused { index, reason }),
            }
        }
        out.refused.sort_by_key(|refused| refused.index);
        out
    }

    /// Stores the values of a request of an administrator, or none if there are too many.
    pub fn store_batch(&self, batch: &Batch, now: Now) -> Result<Stored, Failure> {
        if batch.values.len() > COLLECT_BATCH_MAX {
            let text =
                format!("values: expected at most {COLLECT_BATCH_MAX}, got {}", batch.values.len());
            return Err(Failure::BadRequest(text));
        }
        Ok(self.store(&batch.values, Sender::Admin, now))
    }

    /// Returns the latest values of one name, of these nodes or of all.
    pub fn data(
        &self,
        name: &str,
        nodes: Option<&[String]>,
        now: Now,
    ) -> Result<DataReport, Failure> {
        let (every_ms, stale_after_ms) = self.limits_of(name);
        let latest = read(&self.latest);
        let column = latest.column(name);
        if column.is_none() && every_ms.is_none() {
            return Err(Failure::NotFound(format!("data {name}: there is none")));
        }
        let values = match (column, nodes) {
            (None, _) => Vec::new(),
            (Some(column), None) => {
                column.iter().map(|(node, entry)| row(node, entry, stale_after_ms, now)).collect()
            }
            (Some(column), Some(nodes)) => nodes
                .iter()
                .filter_map(|node| Some(row(node, column.get(node.as_str())?, stale_after_ms, now)))
                .collect(),
        };
        Ok(DataReport { name: name.to_owned(), every_ms, stale_after_ms, values })
    }

    pub fn names(&self, now: Now) -> DataNames {
        // Before the values are locked: nothing waits for a lock while that is held.
        let every: BTreeMap<String, u64> = {
            let registry = read(&self.registry);
            registry.all().into_iter().map(|r| (r.name.clone(), r.every_ms)).collect()
        };
        let periods = u64::from(read(&self.settings).stale_periods);
        let limit =
            |name: &str| every.get(name).copied().unwrap_or(EVERY_MS).saturating_mul(periods);
        DataNames { names: read(&self.latest).names(now, limit) }
    }

    /// Returns past values from the database.
    pub fn past(
        &self,
        (name, node): (&str, &str),
        period_ms: (u64, u64),
        limit: usize,
    ) -> Result<Past, Failure> {
        if !valid_name(name) || !valid_node(node) {
            return Err(Failure::NotFound(format!("data {name} of {node}: there is none")));
        }
        let path = read(&self.settings).path.clone();
        let path = path.ok_or_else(|| Failure::Unavailable("there is no database".to_owned()))?;
        let points = store::past(&path, (name, node), period_ms, limit.min(COLLECT_POINTS_MAX))?;
        Ok(Past { name: name.to_owned(), node: node.to_owned(), points })
    }

    // ---- agents

    /// Takes the values and reports of an agent. Returns the number of its sync, for
    /// [`Collect::lost`], and the refused values.
    pub fn begin_sync(
        &self,
        node: &str,
        request: &SyncRequest,
        now: Now,
    ) -> Result<(u64, Vec<Refused>), Failure> {
        if node != MASTER && (!valid_node(node) || node == CLUSTER) {
            return Err(Failure::BadRequest(format!("{node:?}: expected the name of a node")));
        }
        let turn = {
            let registry = read(&self.registry);
            let known = |name: &str| registry.may_come_from(name, node);
            lock(&self.agents).begin(node, request, known, now)
        };
        let turn = turn.ok_or_else(|| Failure::Unavailable("too many agents".to_owned()))?;
        let stored = self.store(&request.values, Sender::Agent(node), now);
        lock(&self.agents).count(node, stored.stored, stored.refused.len());
        Ok((turn, stored.refused))
    }

    /// Returns the answer to an agent whose generation was `had`.
    pub fn end_sync(&self, node: &str, had: u64, refused: Vec<Refused>, now: Now) -> SyncReply {
        let registry = read(&self.registry);
        let generation = self.generation();
        let assignments = (generation != had).then(|| registry.assigned(node));
        drop(registry);
        lock(&self.agents).end(node, generation, now);
        SyncReply { generation, now_ms: now.wall_ms, refused, assignments }
    }

    /// Records that the connection of an agent broke while its answer was held.
    pub fn lost(&self, node: &str, turn: u64, now: Now) {
        lock(&self.agents).lost(node, turn, now);
    }

    pub fn agents(&self, now: Now) -> AgentsReport {
        AgentsReport { agents: lock(&self.agents).report(now) }
    }
}

/// Starts or stops a registration on some of its nodes.
fn except(registration: &mut Registration, nodes: &str, run: bool) -> Result<(), String> {
    let names = |text: &str| hostlist::expand(text, NODES_MAX).map_err(|error| error.to_string());
    let named = names(nodes).map_err(|error| format!("nodes: {error}"))?;
    if named.is_empty() || registration.nodes == MASTER {
        let (own, given) = (short(&registration.nodes), short(nodes));
        return Err(format!("nodes: expected some of its nodes ({own}), got {given:?}"));
    }
    if registration.nodes != ALL {
        let own: BTreeSet<String> = names(&registration.nodes)?.into_iter().collect();
        if let Some(other) = named.iter().find(|name| !own.contains(*name)) {
            let nodes = short(&registration.nodes);
            return Err(format!("nodes: {} is not among its nodes ({nodes})", short(other)));
        }
    }
    let mut stopped: BTreeSet<String> = names(&registration.except)?.into_iter().collect();
    for name in named {
        if run {
            stopped.remove(&name);
        } else {
            stopped.insert(name);
        }
    }
    let stopped: Vec<String> = stopped.into_iter().collect();
    registration.except = hostlist::compress(&stopped);
    Ok(())
}

/// Returns the node and the value of a valid entry of a request.
fn accept<'p>(
    put: &'p Put,
    from: Sender<'p>,
    registry: &Registry,
) -> Result<(&'p str, Value), String> {
    if !valid_name(&put.name) {
        return Err(format!("name: {:?} is no name", phalanx_messages::collect::short(&put.name)));
    }
    let registration = registry.get(&put.name);
    let node = match from {
        Sender::Admin => put.node.as_deref().ok_or("node: missing")?,
        Sender::Agent(own) => {
            if !registry.may_come_from(&put.name, own) {
                return Err(format!("{}: not assigned to {own}", put.name));
            }
            let many = registration.is_some_and(|r| r.output == Output::Nodes);
            let own = if own == MASTER { CLUSTER } else { own };
            match put.node.as_deref() {
                None => own,
                Some(node) if node == own || many => node,
                Some(node) => return Err(format!("node: {node} is not the agent's own")),
            }
        }
    };
    if !valid_node(node) {
        return Err(format!("node: {:?} is no name", phalanx_messages::collect::short(node)));
    }
    let value = Value::from_json(&put.value).map_err(|reason| format!("value: {reason}"))?;
    match (registration.map(|r| r.value_type), &value) {
        (Some(ValueType::Number), Value::Text(_)) => {
            Err(format!("value: {} is a number, got text", put.name))
        }
        (Some(ValueType::Text), Value::Number(number)) => {
            Ok((node, Value::Text(number.to_string())))
        }
        _ => Ok((node, value)),
    }
}
