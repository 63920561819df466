// SPDX-License-Identifier: GPL-3.0-or-later
//! Measured values that the methods take from the data service: the keys of the configuration
//! that name a datum, and its values for one round of planning.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::collect::{Collect, Now, Use};
use phalanx_config::Config;
use phalanx_core::snapshot::Snapshot;
use phalanx_messages::collect::{HISTORY, NONE};
use phalanx_planner::data_jobs::Capability;
use phalanx_planner::measured::{Measured, with_health};

/// Key of the datum by which `phalanx-share` splits work.
const SHARE_CAPABILITY: &str = "share.capability";
/// Key of the datum by which nodes of equal Weight are tried.
pub(super) const BALANCE_CAPABILITY: &str = "balance.capability";
/// Key of the datum below a value of which nodes are avoided.
pub(super) const BALANCE_HEALTH: &str = "balance.health";
/// Key of the speed of gangs on a node.
pub(super) const GANG_SPEED: &str = "gang.speed";

/// Key of the power that the nodes draw, watts.
pub(super) const BAG_POWER_W: &str = "bag.power_w";

/// Key of the speed of data jobs on a node.
pub(super) const DATA_CAPABILITY: &str = "data_jobs.capability";

/// Keys that planning reads; `share` reads by itself.
const PLANNED: [&str; 5] =
    [BALANCE_CAPABILITY, BALANCE_HEALTH, GANG_SPEED, BAG_POWER_W, DATA_CAPABILITY];

/// Every key that names a datum, as configured.
pub(super) fn uses(config: &Config) -> Vec<Use> {
    let one = |key: &str, name: &String, fallback: &String, own: &'static [&'static str]| Use {
        key: key.to_owned(),
        name: name.clone(),
        fallback: fallback.clone(),
        own,
    };
    let (share, balance, gang) = (&config.share, &config.balance, &config.gang);
    let data = &config.data_jobs;
    vec![
        one(SHARE_CAPABILITY, &share.capability, &share.capability_fallback, &[]),
        one(BALANCE_CAPABILITY, &balance.capability, &balance.capability_fallback, &[NONE]),
        // A node of which nothing is known now counts as healthy.
        one(BALANCE_HEALTH, &balance.health, &NONE.to_owned(), &[NONE]),
        one(GANG_SPEED, &gang.speed, &gang.speed_fallback, &[HISTORY]),
        one(DATA_CAPABILITY, &data.capability, &data.capability_fallback, &[HISTORY, NONE]),
        // Where it is stale the sources that come after it count.
        one(BAG_POWER_W, &config.bag.power_w, &NONE.to_owned(), &[NONE]),
    ]
}

/// CPUs of each node: the values of the datum `configuration`.
pub(super) fn cpus(snapshot: Option<&Snapshot>) -> BTreeMap<Arc<str>, f64> {
    #[allow(clippy::cast_precision_loss)]
    let of = |node: &phalanx_core::snapshot::Node| (Arc::clone(&node.name), node.cpus as f64);
    snapshot.iter().flat_map(|s| s.named()).map(|(_, node)| of(node)).collect()
}

/// The data that methods take in one round, by key; a key whose method goes by its own
/// knowledge is missing.
pub(super) type MeasuredValues = BTreeMap<&'static str, Measured>;

/// Reads the latest values; nothing is collected for it.
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

/// Whose word counts for how fast data jobs are on these nodes. Without a data service that is the
/// configuration's, as far as it names no datum.
pub(super) fn data_capability(
    collect: Option<&Collect>,
    config: &Config,
    nodes: &[String],
) -> Capability {
    let read =
        |collect: &Collect| collect.used(DATA_CAPABILITY, None, nodes, &|_| None, Now::read());
    let Some(used) = collect.and_then(|collect| read(collect).ok()) else {
        return Capability { measured: None, learned: config.data_jobs.capability != NONE };
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

/// Levels by which nodes of equal Weight are tried, and those that are not healthy last.
pub(super) fn levels(
    measured: &MeasuredValues,
    snapshot: &Snapshot,
    health_least: f64,
) -> BTreeMap<Arc<str>, u32> {
    let levels = measured.get(BALANCE_CAPABILITY).map(Measured::levels).unwrap_or_default();
    match measured.get(BALANCE_HEALTH) {
        Some(health) => {
            let nodes = snapshot.named().map(|(_, node)| Arc::clone(&node.name));
            with_health(&levels, health, health_least, nodes)
        }
        None => levels,
    }
}
