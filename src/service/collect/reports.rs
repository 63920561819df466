// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports of the data service, and the data that methods take from it.

use super::clock::Now;
use super::service::Collect;
use super::uses::{Use, resolve};
use crate::failure::Failure;
use phalanx_core::limits::COLLECT_INSTANCES_LISTED;
use phalanx_ffi::locks::{lock, read, write};
use phalanx_messages::collect::{
    CLUSTER, CONFIGURATION, CollectorReport, CollectorsReport, InstanceReport, Instances, MASTER,
    Origin, Registration, State, TakenFrom, Totals, UseChange, UseReport, UsedValue, UsedValues,
    UsesReport, valid_name,
};

/// A fresh number, and the age of the value, whether it is fresh or not.
type Reading = (Option<f64>, Option<u64>);

impl Collect {
    /// Returns every registration with its state.
    pub fn collectors(&self, now: Now) -> CollectorsReport {
        let all: Vec<Registration> = read(&self.registry).all().into_iter().cloned().collect();
        let report = |registration| self.report(registration, false, now);
        CollectorsReport {
            generation: self.generation(),
            collectors: all.into_iter().map(report).collect(),
        }
    }

    /// Returns one registration with the state of each instance.
    pub fn collector(&self, name: &str, now: Now) -> Result<CollectorReport, Failure> {
        let registration = read(&self.registry).get(name).cloned();
        registration
            .map(|registration| self.report(registration, true, now))
            .ok_or_else(|| Failure::NotFound(format!("collector {name}: there is none")))
    }

    fn report(&self, registration: Registration, listed: bool, now: Now) -> CollectorReport {
        let name = registration.name.as_str();
        let (_, stale_after_ms) = self.limits_of(name);
        let registry = read(&self.registry);
        let agents = lock(&self.agents);
        let latest = read(&self.latest);
        let mut out = CollectorReport::default();
        let mut last: Option<(i64, String)> = None;
        let mut nodes = Vec::new();
        for node in agents.alive(now).into_iter().filter(|node| registry.runs_on(name, node)) {
            let entry = latest.get(name, if node == MASTER { CLUSTER } else { node });
            let run = agents.get(node).and_then(|agent| agent.runs.get(name));
            let failing = run.filter(|(at_ms, run)| {
                run.error.is_some() && entry.is_none_or(|entry| entry.made_ms < *at_ms)
            });
            let age_ms = entry.map(|entry| now.since(entry.made_ms));
            let fresh = age_ms.is_some_and(|age| age <= stale_after_ms);
            let counts = &mut out.instances;
            counts.assigned += 1;
            counts.fresh += u64::from(fresh);
            counts.stale += u64::from(age_ms.is_some() && !fresh);
            counts.failing += u64::from(failing.is_some());
            if let Some((at_ms, run)) = failing
                && last.as_ref().is_none_or(|(last_ms, _)| last_ms < at_ms)
            {
                let error = run.error.as_deref().unwrap_or_default();
                last = Some((*at_ms, format!("{node}: {error}")));
            }
            let state = match (failing.is_some(), age_ms) {
                (true, _) => State::Failing,
                (false, None) => State::Waiting,
                (false, Some(_)) if fresh => State::Running,
                (false, Some(_)) => State::Failing,
            };
            if listed {
                let run = run.map(|(_, run)| run.clone());
                nodes.push(InstanceReport { node: node.to_owned(), state, age_ms, run });
            }
        }
        nodes.sort_by_key(|instance| instance.state != State::Failing);
        nodes.truncate(COLLECT_INSTANCES_LISTED);
        out.nodes_state = nodes;
        out.last_error = last.map(|(_, error)| error);
        out.state = overall(registry.is_on(name), out.instances);
        drop((registry, agents, latest));
        out.registration = registration;
        out
    }

    pub fn totals(&self, now: Now) -> Totals {
        let names = self.names(now);
        let (written, errors, last_error, clock_jumps) = {
            let database = lock(&self.database);
            (database.written, database.errors, database.last_error.clone(), database.jumps)
        };
        Totals {
            registrations: read(&self.registry).all().len() as u64,
            agents: lock(&self.agents).alive(now).len() as u64,
            values: read(&self.latest).len() as u64,
            stale: names.names.iter().map(|name| name.stale).sum(),
            written,
            errors,
            last_error,
            clock_jumps,
        }
    }

    // ---- the data that methods use

    /// Returns the choice in force for a key: the one made by REST, else the configuration's.
    fn in_force(&self, configured: &Use) -> (Use, Origin) {
        match read(&self.choices).get(&configured.key) {
            None => (configured.clone(), Origin::Config),
            Some(choice) => {
                let fallback = choice.fallback.as_ref().unwrap_or(&configured.fallback).clone();
                (Use { name: choice.name.clone(), fallback, ..configured.clone() }, Origin::Api)
            }
        }
    }

    fn configured(&self, key: &str) -> Result<Use, Failure> {
        let settings = read(&self.settings);
        let found = settings.uses.iter().find(|used| used.key == key);
        found.cloned().ok_or_else(|| {
            let keys: Vec<&str> = settings.uses.iter().map(|used| used.key.as_str()).collect();
            Failure::NotFound(format!("use {key}: expected one of {}", keys.join(", ")))
        })
    }

    /// Returns the keys that use a datum rather than the method's own knowledge.
    pub fn wanted(&self, keys: &[&'static str]) -> Vec<&'static str> {
        let by_datum = |key: &&&'static str| {
            let used = self.configured(key).map(|configured| self.in_force(&configured).0);
            used.is_ok_and(|used| !used.is_own(&used.name))
        };
        keys.iter().filter(by_datum).copied().collect()
    }

    /// Returns the datum that each method uses.
    pub fn uses(&self, now: Now) -> UsesReport {
        let configured = read(&self.settings).uses.clone();
        let line = |configured: &Use| {
            let (used, origin) = self.in_force(configured);
            let rows = self.data(&used.name, None, now).map(|data| data.values).unwrap_or_default();
            let stale = rows.iter().filter(|row| row.stale).count() as u64;
            let fresh = rows.len() as u64 - stale;
            let Use { key, name, fallback, .. } = used;
            UseReport { key, name, fallback, origin, fresh, stale }
        };
        UsesReport { uses: configured.iter().map(line).collect() }
    }

    /// Returns one number for each of these nodes, also where values are stale. `name` replaces the
    /// datum in force; `configuration` returns the configured amount of a node. Nodes for which the
    /// method's own knowledge counts are left out.
    pub fn used(
        &self,
        key: &str,
        name: Option<&str>,
        nodes: &[String],
        configuration: &dyn Fn(&str) -> Option<f64>,
        now: Now,
    ) -> Result<UsedValues, Failure> {
        let (mut used, _) = self.in_force(&self.configured(key)?);
        if let Some(name) = name {
            self.known_name(name, &used)?;
            used.name = name.to_owned();
        }
        let values = match used.is_own(&used.name) {
            true => Vec::new(),
            false => self.values_of(&used, nodes, configuration, now),
        };
        let Use { key, name, fallback, .. } = used;
        Ok(UsedValues { key, name, fallback, values })
    }

    fn values_of(
        &self,
        used: &Use,
        nodes: &[String],
        configuration: &dyn Fn(&str) -> Option<f64>,
        now: Now,
    ) -> Vec<UsedValue> {
        let configured = || nodes.iter().map(|node| configuration(node).unwrap_or(1.0));
        let own: Vec<Reading> = match used.name.as_str() {
            CONFIGURATION => configured().map(|value| (Some(value), Some(0))).collect(),
            name => self.readings(name, nodes, now),
        };
        let numbers: Vec<Option<f64>> = own.iter().map(|value| value.0).collect();
        let fallback: Vec<f64> = match used.fallback.as_str() {
            CONFIGURATION => configured().collect(),
            name if used.is_own(name) => vec![0.0; nodes.len()],
            name => {
                let own: Vec<Option<f64>> =
                    self.readings(name, nodes, now).into_iter().map(|v| v.0).collect();
                let configured: Vec<f64> = configured().collect();
                resolve(&own, &configured).into_iter().map(|(value, _)| value).collect()
            }
        };
        let values = resolve(&numbers, &fallback).into_iter().zip(own).zip(nodes);
        let values = values.map(|(((value, from), (_, age_ms)), node)| UsedValue {
            node: node.clone(),
            value,
            from,
            age_ms,
        });
        let by_number = !used.is_own(&used.fallback);
        values.filter(|value| by_number || value.from == TakenFrom::Data).collect()
    }

    /// Returns the fresh number of each node, and the age of its value.
    fn readings(&self, name: &str, nodes: &[String], now: Now) -> Vec<Reading> {
        let (_, stale_after_ms) = self.limits_of(name);
        let latest = read(&self.latest);
        let column = latest.column(name);
        let of = |node: &String| {
            let Some(entry) = column.and_then(|column| column.get(node.as_str())) else {
                return (None, None);
            };
            let age_ms = now.since(entry.made_ms);
            let fresh = (age_ms <= stale_after_ms).then_some(&entry.value);
            (fresh.and_then(phalanx_messages::collect::Value::number), Some(age_ms))
        };
        nodes.iter().map(of).collect()
    }

    /// Sets the datum that a method uses, or with `None` the configured one; durable when it
    /// returns.
    pub fn choose(&self, key: &str, choice: Option<UseChange>) -> Result<(), Failure> {
        let configured = self.configured(key)?;
        if let Some(choice) = &choice {
            self.known_name(&choice.name, &configured)?;
            choice.fallback.as_deref().map_or(Ok(()), |name| self.known_name(name, &configured))?;
        }
        lock(&self.database).write(|store| store.put_use(key, choice.as_ref()))?;
        let mut choices = write(&self.choices);
        match choice {
            Some(choice) => choices.insert(key.to_owned(), choice),
            None => choices.remove(key),
        };
        Ok(())
    }

    /// Accepts a word of the key, a registration, or a name that has values.
    fn known_name(&self, name: &str, used: &Use) -> Result<(), Failure> {
        let known = used.is_word(name)
            || read(&self.registry).get(name).is_some()
            || read(&self.latest).column(name).is_some();
        if known && valid_name(name) {
            return Ok(());
        }
        let name = phalanx_messages::collect::short(name);
        Err(Failure::BadRequest(format!("name: there is no datum {name:?}")))
    }
}

fn overall(is_on: bool, instances: Instances) -> State {
    let Instances { fresh, stale, failing, .. } = instances;
    match () {
        () if !is_on => State::Stopped,
        () if failing > 0 || stale > 0 => State::Failing,
        () if fresh > 0 => State::Running,
        () => State::Waiting,
    }
}
