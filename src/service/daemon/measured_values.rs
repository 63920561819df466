// SPDX-License-Identifier: GPL-3.0-or-later
//! Measured values that the methods take from the data service: the keys of the configuration
//! that name a datum, and its values for one round of planning.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::collect::{Collect, Now, Use};
use phalanx_config::Config;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::Snapshot;
use phalanx_messages::collect::{CONFIGURATION, HISTORY, NONE, OFF};
use phalanx_methods::learn::deaths::Accused;
use phalanx_planner::data_jobs::Capability;
use phalanx_planner::measured::{Measured, with_health};

/// Key of the datum by which `phalanx-share` splits work.
const SHARE_CAPABILITY: &str = "share.capability";
/// Key of the datum by which nodes of equal Weight are tried.
pub(super) const BALANCE_CAPABILITY: &str = "balance.capability";
/// Key of the health of nodes, which are avoided below [`HEALTH_LEAST`].
pub(super) const BALANCE_HEALTH: &str = "balance.health";
/// Key of the speed of gangs on a node.
pub(super) const GANG_SPEED: &str = "gang.speed";

/// Key of the power that the nodes draw, watts.
pub(super) const BAG_POWER_W: &str = "bag.power_w";

/// Key of the speed of data jobs on a node.
pub(super) const DATA_CAPABILITY: &str = "data_jobs.capability";

/// Least health of a node that is not taken last: halfway between 0, bad, and 1, good.
const HEALTH_LEAST: f64 = 0.5;

/// Keys whose data planning reads; the program `phalanx-share` reads its own.
const PLANNED: [&str; 5] =
    [BALANCE_CAPABILITY, BALANCE_HEALTH, GANG_SPEED, BAG_POWER_W, DATA_CAPABILITY];

/// Returns the datum or word of each key, unless `phalanx collector use` names another.
pub(super) fn uses(config: &Config) -> Vec<Use> {
    let one = |key: &str, name: &str, fallback: &str, own: &'static [&'static str]| Use {
        key: key.to_owned(),
        name: name.to_owned(),
        fallback: fallback.to_owned(),
        own,
    };
    let health = match config.balance.health.as_str() {
        OFF => NONE,
        health => health,
    };
    vec![
        one(SHARE_CAPABILITY, CONFIGURATION, CONFIGURATION, &[]),
        one(BALANCE_CAPABILITY, NONE, CONFIGURATION, &[NONE]),
        // A node of which nothing is known now counts as healthy.
        one(BALANCE_HEALTH, health, NONE, &[NONE]),
        one(GANG_SPEED, HISTORY, HISTORY, &[HISTORY]),
        one(DATA_CAPABILITY, HISTORY, HISTORY, &[HISTORY, NONE]),
        // Where it is stale the sources that come after it count.
        one(BAG_POWER_W, NONE, NONE, &[NONE]),
    ]
}

/// Returns the CPUs of each node, which are the values of the datum `configuration`.
pub(super) fn cpus(snapshot: Option<&Snapshot>) -> BTreeMap<Arc<str>, f64> {
    let of = |node: &phalanx_core::snapshot::Node| (Arc::clone(&node.name), as_f64(node.cpus));
    snapshot.iter().flat_map(|s| s.named()).map(|(_, node)| of(node)).collect()
}

/// Data that methods take in one round, by key, without keys whose method has better knowledge.
pub(super) type MeasuredValues = BTreeMap<&'static str, Measured>;

/// Reads the latest values without having any collected.
pub(super) fn read(collect: &Collect, snapshot: &Snapshot) -> MeasuredValues {
    let wanted = collect.wanted(&PLANNED);
    if wanted.is_empty() {
        return MeasuredValues::new();
    }
    let nodes: Vec<String> = snapshot.named().map(|(_, node)| node.name.to_string()).collect();
    let cpus = cpus(Some(snapshot));
    let cpus = |node: &str| cpus.get(node).copied();
    let now = Now::read();
    let one = |key: &'static str| {
        let used = collect.used(key, None, &nodes, &cpus, now).ok()?;
        let of = used.values.into_iter().map(|value| (value.node.into(), value.value));
        Some((key, Measured { name: used.name, of: of.collect() }))
    };
    wanted.into_iter().filter_map(one).collect()
}

/// Returns the source of the speeds of data jobs on the nodes.
pub(super) fn data_capability(collect: &Collect, nodes: &[String]) -> Capability {
    let Ok(used) = collect.used(DATA_CAPABILITY, None, nodes, &|_| None, Now::read()) else {
        return Capability { measured: None, learned: true };
    };
    match used.name.as_str() {
        NONE => Capability::default(),
        HISTORY => Capability { measured: None, learned: true },
        _ => {
            let of = used.values.into_iter().map(|value| (value.node.into(), value.value));
            let measured = Some(Measured { name: used.name, of: of.collect() });
            Capability { measured, learned: used.fallback == HISTORY }
        }
    }
}

/// Returns the levels by which nodes of equal Weight are tried; nodes below the least health, and
/// nodes on which jobs die, come last.
pub(super) fn levels(
    measured: &MeasuredValues,
    accused: &[Accused],
    snapshot: &Snapshot,
) -> BTreeMap<Arc<str>, u32> {
    let levels = measured.get(BALANCE_CAPABILITY).map(Measured::levels).unwrap_or_default();
    let health = measured.get(BALANCE_HEALTH);
    if health.is_none() && accused.is_empty() {
        return levels;
    }
    let is_ill = |node: &str| {
        health.and_then(|health| health.of.get(node)).is_some_and(|value| *value < HEALTH_LEAST)
            || accused.iter().any(|one| &*one.node == node)
    };
    let nodes = snapshot.named().map(|(_, node)| Arc::clone(&node.name));
    with_health(&levels, &is_ill, nodes)
}
