// SPDX-License-Identifier: GPL-3.0-or-later
//! Power of nodes as it was measured while they were busy.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Config;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::{Node, Snapshot};
use phalanx_methods::learn::node_class_of;

/// Part of a node's CPUs from which on its power says what its tasks take.
const BUSY: f64 = 0.5;

/// Power of busy nodes by class, as measured: the mean of the latest readings
/// of each node at which it was busy, scaled to a full one.
#[derive(Debug, Default)]
pub struct Power {
    slurm: BTreeMap<String, BTreeMap<String, f64>>,
    metric: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Power {
    /// Takes the readings of the busy nodes of a snapshot, by Slurm and by the data service.
    pub fn see(
        &mut self,
        config: &Config,
        snapshot: &Snapshot,
        collected: Option<&BTreeMap<Arc<str>, f64>>,
    ) {
        if collected.is_none() {
            self.metric.clear();
        }
        for node in &snapshot.nodes {
            let used = as_f64(node.cpus_used) / as_f64(node.cpus.max(1));
            if used < BUSY {
                continue;
            }
            let class = node_class_of(node, &config.learn.node_class_by);
            // The share of power that idle CPUs draw is part of the base.
            let idle = configured(&config.bag.idle_watts, &class, node).unwrap_or(0.0);
            let full = |watts: f64| idle + (watts - idle).max(0.0) / used;
            if let Some(watts) = node.watts {
                let nodes = self.slurm.entry(class.clone()).or_default();
                nodes.insert(node.name.to_string(), full(f64::from(watts)));
            }
            if let Some(watts) = collected.and_then(|collected| collected.get(&node.name)) {
                self.metric.entry(class).or_default().insert(node.name.to_string(), full(*watts));
            }
        }
    }

    /// Mean over the nodes of a class, by Slurm's readings.
    pub fn by_slurm(&self, class: &str) -> Option<f64> {
        mean(&self.slurm, class)
    }

    /// Mean over the nodes of a class, by the data service's readings.
    pub fn by_metric(&self, class: &str) -> Option<f64> {
        mean(&self.metric, class)
    }
}

fn mean(table: &BTreeMap<String, BTreeMap<String, f64>>, class: &str) -> Option<f64> {
    let nodes = table.get(class)?;
    Some(nodes.values().sum::<f64>() / as_f64(nodes.len() as u64))
}

/// The value that the configuration has for a node: for its class, else for one of its features.
pub fn configured(table: &BTreeMap<String, f64>, class: &str, node: &Node) -> Option<f64> {
    let by_feature = || node.features.iter().find_map(|feature| table.get(&**feature));
    table.get(class).or_else(by_feature).copied()
}
