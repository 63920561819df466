// SPDX-License-Identifier: GPL-3.0-or-later
//! The registered programs and the nodes that run them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;

use crate::failure::Failure;
use phalanx_core::hash::fnv64;
use phalanx_core::hostlist;
use phalanx_core::limits::{COLLECT_REGISTRATIONS_MAX, NODES_MAX};
use phalanx_messages::collect::calendar::{Calendar, runs};
use phalanx_messages::collect::{ALL, MASTER, Origin, Registration};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Nodes {
    All,
    Master,
    Listed(BTreeSet<String>),
}

impl Nodes {
    fn of(registration: &Registration) -> Nodes {
        match registration.nodes.as_str() {
            ALL => Nodes::All,
            MASTER => Nodes::Master,
            // Checked before; a list that does not expand is no nodes.
            list => Nodes::Listed(
                hostlist::expand(list, NODES_MAX).unwrap_or_default().into_iter().collect(),
            ),
        }
    }

    fn has(&self, node: &str) -> bool {
        match self {
            Nodes::All => node != MASTER,
            Nodes::Master => node == MASTER,
            Nodes::Listed(names) => names.contains(node),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    registration: Registration,
    nodes: Nodes,
    /// Nodes on which the registration was stopped.
    except: BTreeSet<String>,
    /// Times at which the registration starts and stops.
    start: Option<Calendar>,
    stop: Option<Calendar>,
    /// Whether the present time is between start and stop.
    is_due: bool,
    /// Nodes chosen for `replicas`.
    chosen: BTreeSet<String>,
}

impl Entry {
    fn new(registration: Registration, now: DateTime) -> Entry {
        // All were checked before.
        let time = |text: &str| Calendar::parse(text).ok();
        let (start, stop) = (time(&registration.start), time(&registration.stop));
        let except = hostlist::expand(&registration.except, NODES_MAX).unwrap_or_default();
        Entry {
            nodes: Nodes::of(&registration),
            except: except.into_iter().collect(),
            is_due: runs(start.as_ref(), stop.as_ref(), now),
            start,
            stop,
            registration,
            chosen: BTreeSet::new(),
        }
    }

    fn may_run_on(&self, node: &str) -> bool {
        self.nodes.has(node) && !self.except.contains(node)
    }

    fn limited(&self) -> bool {
        self.registration.replicas > 0 && self.nodes != Nodes::Master
    }

    fn is_on(&self) -> bool {
        self.registration.enabled && self.is_due
    }

    fn runs_on(&self, node: &str) -> bool {
        self.is_on() && self.may_run_on(node) && (!self.limited() || self.chosen.contains(node))
    }
}

/// All registrations. A name of the configuration hides one of the API.
#[derive(Debug, Default)]
pub(super) struct Registry {
    config: BTreeMap<String, Entry>,
    api: BTreeMap<String, Entry>,
    /// Local time, to the minute.
    now: DateTime,
}

impl Registry {
    /// Whether the present time is between start and stop.
    pub(super) fn set_time(&mut self, now: DateTime) -> bool {
        let minute = |time: DateTime| (time.date(), time.hour(), time.minute());
        if minute(now) == minute(self.now) {
            return false;
        }
        self.now = now;
        let mut changed = false;
        for entry in self.config.values_mut().chain(self.api.values_mut()) {
            let is_due = runs(entry.start.as_ref(), entry.stop.as_ref(), now);
            changed |= is_due != entry.is_due;
            entry.is_due = is_due;
        }
        changed
    }

    /// Returns whether the registration is switched on and due.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.entry(name).is_some_and(Entry::is_on)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Registration> {
        self.entry(name).map(|entry| &entry.registration)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.config.get(name).or_else(|| self.api.get(name))
    }

    /// Returns all registrations in the order of their names.
    pub(super) fn all(&self) -> Vec<&Registration> {
        let hidden = |name: &String| self.config.contains_key(name);
        let api = self.api.iter().filter(|(name, _)| !hidden(name));
        let mut all: Vec<&Registration> =
            self.config.iter().chain(api).map(|(_, entry)| &entry.registration).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns the registrations that one node runs, in the order of their names.
    pub(super) fn assigned(&self, node: &str) -> Vec<Registration> {
        let of = |registration: &&Registration| {
            self.entry(&registration.name).is_some_and(|entry| entry.runs_on(node))
        };
        self.all().into_iter().filter(of).cloned().collect()
    }

    pub(super) fn runs_on(&self, name: &str, node: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.runs_on(node))
    }

    /// Returns whether values of the registration may come from `node`, even if it was stopped or
    /// moved a moment ago.
    pub(super) fn may_come_from(&self, name: &str, node: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.nodes.has(node))
    }

    /// Loads the registrations of the database.
    pub(super) fn load(&mut self, registrations: Vec<Registration>) {
        for registration in registrations.into_iter().take(COLLECT_REGISTRATIONS_MAX) {
            self.api.insert(registration.name.clone(), Entry::new(registration, self.now));
        }
    }

    /// Replaces the configuration's registrations; returns whether any changed.
    pub(super) fn set_config(&mut self, registrations: Vec<Registration>, wall_ms: u64) -> bool {
        let mut new = BTreeMap::new();
        let mut changed = false;
        for mut registration in registrations {
            registration.origin = Origin::Config;
            if let Some(old) = self.config.get(&registration.name) {
                let (version, changed_ms) = (old.registration.version, old.registration.changed_ms);
                (registration.version, registration.changed_ms) = (version, changed_ms);
                if old.registration == registration {
                    new.insert(registration.name.clone(), old.clone());
                    continue;
                }
                registration.version += 1;
            }
            registration.changed_ms = wall_ms;
            changed = true;
            new.insert(registration.name.clone(), Entry::new(registration, self.now));
        }
        changed |= new.len() != self.config.len();
        self.config = new;
        changed
    }

    pub(super) fn may_add(&self, registration: &Registration) -> Result<(), Failure> {
        if self.entry(&registration.name).is_some() {
            return Err(Failure::Conflict(format!(
                "collector {}: it exists; update it instead",
                registration.name
            )));
        }
        if self.api.len() >= COLLECT_REGISTRATIONS_MAX {
            return Err(Failure::Conflict(format!(
                "there are {COLLECT_REGISTRATIONS_MAX} registrations, the most that are taken"
            )));
        }
        Ok(())
    }

    /// Returns the registration of a name if the API may change it.
    pub(super) fn changeable(&self, name: &str) -> Result<&Registration, Failure> {
        if self.config.contains_key(name) {
            return Err(Failure::Conflict(format!(
                "collector {name}: it stands in the configuration as [collector.{name}]; change \
                 it there and reload"
            )));
        }
        self.api
            .get(name)
            .map(|entry| &entry.registration)
            .ok_or_else(|| Failure::NotFound(format!("collector {name}: there is none")))
    }

    pub(super) fn put(&mut self, registration: Registration) {
        self.api.insert(registration.name.clone(), Entry::new(registration, self.now));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.api.remove(name);
    }

    /// Chooses the nodes of registrations with `replicas` among the nodes with a live agent: those
    /// with the greatest hash of name and node, so that a node's death moves its own instances
    /// only. Returns whether any choice changed.
    pub(super) fn elect(&mut self, alive: &[&str]) -> bool {
        let mut changed = false;
        for entry in self.config.values_mut().chain(self.api.values_mut()) {
            if !entry.limited() {
                continue;
            }
            let mut ranked: Vec<(u64, &str)> = alive
                .iter()
                .filter(|node| entry.may_run_on(node))
                .map(|node| (rank(&entry.registration.name, node), *node))
                .collect();
            ranked.sort_unstable_by(|a, b| b.cmp(a));
            let replicas = entry.registration.replicas as usize;
            let chosen: BTreeSet<String> =
                ranked.iter().take(replicas).map(|(_, node)| (*node).to_owned()).collect();
            changed |= chosen != entry.chosen;
            entry.chosen = chosen;
        }
        changed
    }
}

/// Returns a mixed hash of both names, equal on every machine.
fn rank(name: &str, node: &str) -> u64 {
    let hash = fnv64(name.bytes().chain([0]).chain(node.bytes()));
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn named(name: &str, nodes: &str, replicas: u32) -> Registration {
        let (name, nodes) = (name.to_owned(), nodes.to_owned());
        Registration { name, nodes, replicas, ..Registration::default() }
    }

    fn names(registry: &Registry, node: &str) -> Vec<String> {
        registry.assigned(node).into_iter().map(|r| r.name).collect()
    }

    #[test]
    fn nodes_run_what_is_meant_for_them() {
        let mut registry = Registry::default();
        registry.put(named("everywhere", ALL, 0));
        registry.put(named("some", "n[1-2]", 0));
        registry.put(named("here", MASTER, 0));
        registry.put(Registration { enabled: false, ..named("off", ALL, 0) });
        assert_eq!(names(&registry, "n1"), ["everywhere", "some"]);
        assert_eq!(names(&registry, "n3"), ["everywhere"]);
        assert_eq!(names(&registry, MASTER), ["here"]);
        assert!(registry.may_come_from("off", "n1") && !registry.runs_on("off", "n1"));
        assert!(!registry.may_come_from("some", "n3"));
        assert!(!registry.may_come_from("unknown", "n1"));
    }

    #[test]
    fn stopped_on_some_nodes_and_at_some_times() {
        let mut registry = Registry::default();
        let at = |text: &str| text.parse().unwrap();
        assert!(!registry.set_time(at("2026-11-25T07:59:59")));
        let (start, stop) = ("Mon..Fri 08:00".to_owned(), "Mon..Fri 18:00".to_owned());
        registry.put(Registration { start, stop, ..named("days", ALL, 0) });
        registry.put(Registration { except: "n[2-3]".into(), ..named("some", ALL, 0) });
        registry.put(Registration { except: "n1".into(), ..named("one", ALL, 1) });
        registry.elect(&["n1", "n2"]);
        assert_eq!(names(&registry, "n1"), ["some"]);
        assert_eq!(names(&registry, "n2"), ["one"]);
        assert!(registry.may_come_from("some", "n2"), "what is under way counts");
        assert!(!registry.is_on("days") && registry.is_on("some"));
        assert!(registry.set_time(at("2026-11-25T08:00:07")));
        assert!(!registry.set_time(at("2026-11-25T08:00:59")), "in the same minute");
        assert_eq!(names(&registry, "n1"), ["days", "some"]);
        assert!(!registry.set_time(at("2026-11-25T08:01:00")));
        assert!(registry.set_time(at("2026-11-25T18:00:00")));
        assert!(!registry.is_on("days"));
    }

    #[test]
    fn the_configuration_hides_and_keeps_versions() {
        let mut registry = Registry::default();
        registry.put(named("a", "n1", 0));
        assert!(registry.set_config(vec![named("a", "n2", 0), named("b", ALL, 0)], 7));
        assert!(!registry.set_config(vec![named("a", "n2", 0), named("b", ALL, 0)], 8));
        assert_eq!(registry.get("a").unwrap().nodes, "n2");
        assert_eq!(registry.get("a").unwrap().changed_ms, 7);
        assert!(matches!(registry.changeable("a"), Err(Failure::Conflict(_))));
        assert!(registry.set_config(vec![named("b", "n9", 0)], 9));
        assert_eq!(registry.get("a").unwrap().nodes, "n1");
        assert_eq!(registry.get("b").unwrap().version, 2);
        assert_eq!(registry.all().len(), 2);
    }

    /// Goal: N replicas run on N live nodes, and a node's death moves its own only.
    #[test]
    fn replicas_move_only_from_dead_nodes() {
        let mut registry = Registry::default();
        for i in 0..50 {
            registry.put(named(&format!("p{i}"), ALL, 2));
        }
        let nodes: Vec<String> = (1..=8).map(|i| format!("n{i}")).collect();
        let alive: Vec<&str> = nodes.iter().map(String::as_str).collect();
        assert!(registry.elect(&alive));
        assert!(!registry.elect(&alive));
        let of = |registry: &Registry| -> Vec<Vec<String>> {
            nodes.iter().map(|node| names(registry, node)).collect()
        };
        let before = of(&registry);
        assert_eq!(before.iter().map(Vec::len).sum::<usize>(), 100);
        assert!(before.iter().all(|runs| (3..=25).contains(&runs.len())), "{before:?}");
        assert!(registry.elect(&alive[1..]));
        let after = of(&registry);
        assert_eq!(after[0], Vec::<String>::new());
        assert_eq!(after.iter().map(Vec::len).sum::<usize>(), 100);
        for (before, after) in before.iter().zip(&after).skip(1) {
            assert!(before.iter().all(|name| after.contains(name)));
        }
    }
}
