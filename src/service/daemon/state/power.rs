// SPDX-License-Identifier: GPL-3.0-or-later
//! Power of nodes, configured and as measured while they were busy, for every method alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_config::{Config, watts_of};
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::{Node, Snapshot};
use phalanx_methods::learn::node_class_of;
use phalanx_planner::bag::WattsFrom;
use phalanx_planner::measured::Measured;

/// Used part of a node's CPUs from which on the node's power says what its tasks take.
const BUSY: f64 = 0.5;

/// Measured power of busy nodes by class: the mean of the latest readings of each node while busy,
/// scaled to a full node.
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
        for classes in [&mut self.slurm, &mut self.metric] {
            classes.values_mut().for_each(|of| of.retain(|name, _| snapshot.node(name).is_some()));
            classes.retain(|_, nodes| !nodes.is_empty());
        }
        for node in &snapshot.nodes {
            let used = as_f64(node.cpus_used) / as_f64(node.cpus.max(1));
            if used < BUSY {
                continue;
            }
            let class = node_class_of(node, &config.learn.node_class_by);
            // The share of power that idle CPUs draw is part of the base.
            let idle = watts_of(&config.energy.idle_watts, &class, node).unwrap_or(0.0);
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

/// Power of nodes by class, from the configuration.
#[derive(Debug, Default)]
pub struct Configured {
    /// Watts of busy nodes from `[energy]`, which precede measured ones.
    declared: BTreeMap<String, f64>,
    /// Watts of busy nodes from `[bag]`, which follow measured ones.
    busy: BTreeMap<String, f64>,
    idle: BTreeMap<String, f64>,
}

impl Configured {
    pub fn new(config: &Config, snapshot: &Snapshot) -> Self {
        let mut out = Self::default();
        let (energy, bag) = (&config.energy, &config.bag);
        for (_, node) in snapshot.named() {
            let class = node_class_of(node, &config.learn.node_class_by);
            let values = [
                (&mut out.declared, watts_of(&energy.watts, &class, node)),
                (&mut out.busy, watts_of(&bag.watts, &class, node)),
                (&mut out.idle, watts_of(&energy.idle_watts, &class, node)),
            ];
            for (table, value) in values {
                if let Some(watts) = value {
                    table.insert(class.clone(), watts);
                }
            }
        }
        out
    }

    /// Power of a fully used node of a class, watts: by `[energy]`, else Slurm's readings, else the
    /// data service's, else by `[bag]`.
    pub fn busy_w(&self, power: &Power, class: &str) -> Option<(f64, WattsFrom)> {
        let of = |table: &BTreeMap<String, f64>| {
            table.get(class).map(|watts| (*watts, WattsFrom::Configuration))
        };
        let slurm = || power.by_slurm(class).map(|watts| (watts, WattsFrom::Slurm));
        let metric = || power.by_metric(class).map(|watts| (watts, WattsFrom::Metric));
        of(&self.declared).or_else(slurm).or_else(metric).or_else(|| of(&self.busy))
    }

    /// Power of a fully used node, watts; that of an idle node where nothing else is known.
    pub fn full_w(&self, power: &Power, class: &str) -> Option<f64> {
        let idle = || self.idle.get(class).copied();
        self.busy_w(power, class).map(|(watts, _)| watts).or_else(idle)
    }

    /// Power of an idle node of a class, watts; 0 where nothing is known.
    pub fn idle_w(&self, class: &str) -> f64 {
        self.idle.get(class).copied().unwrap_or(0.0)
    }

    /// Power of a node of a class, in whole watts so that small changes do not count; `None` where
    /// neither idle nor full power is known.
    fn node(&self, power: &Power, class: &str) -> Option<NodePower> {
        let full_w = self.full_w(power, class)?.round();
        Some(NodePower { idle_w: self.idle_w(class).round(), full_w })
    }
}

/// Power of one node, watts.
#[derive(Debug, Clone, Copy)]
struct NodePower {
    /// Power while nothing runs on the node.
    idle_w: f64,
    /// Power while all CPUs of the node are in use.
    full_w: f64,
}

impl NodePower {
    /// Power that a job on all CPUs of the idle node adds; it boots a node that is off.
    fn added_w(&self, off: bool) -> f64 {
        (self.full_w - self.idle_w).max(0.0) + if off { self.idle_w } else { 0.0 }
    }
}

/// Returns whether Slurm has powered down a node of this state. A node that boots, or is being
/// powered down, draws power.
fn is_off(state: &str) -> bool {
    state.split('+').any(|part| part == "POWERED_DOWN")
}

/// Every node whose power is known.
fn known<'a>(
    config: &'a Config,
    snapshot: &'a Snapshot,
    power: &'a Power,
    classes: &'a Configured,
) -> impl Iterator<Item = (&'a Node, NodePower)> {
    snapshot.named().filter_map(move |(_, node)| {
        let class = node_class_of(node, &config.learn.node_class_by);
        Some((node, classes.node(power, &class)?))
    })
}

/// CPUs that one more watt keeps busy on each node: more is better. A node that is powered down has
/// to start first.
pub fn frugality(config: &Config, snapshot: &Snapshot, power: &Power) -> Measured {
    let classes = Configured::new(config, snapshot);
    let of = |(node, power): (&Node, NodePower)| {
        let added = power.added_w(is_off(&node.state)).max(0.001);
        (Arc::clone(&node.name), as_f64(node.cpus) / added)
    };
    let of = known(config, snapshot, power, &classes).map(of).collect();
    Measured { name: "cpus_per_watt".to_owned(), of }
}

/// Mean power of a busy CPU, watts; 1 where nothing is known.
pub fn cpu_watts(config: &Config, snapshot: &Snapshot, power: &Power) -> f64 {
    let classes = Configured::new(config, snapshot);
    let (mut sum, mut cpus) = (0.0, 0);
    for (node, power) in known(config, snapshot, power, &classes) {
        sum += power.full_w;
        cpus += node.cpus;
    }
    if cpus > 0 && sum > 0.0 { sum / as_f64(cpus) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::snapshot::Builder;

    #[test]
    fn a_job_adds_what_idle_nodes_do_not_draw() {
        let states = ["IDLE", "IDLE+CLOUD+POWERED_DOWN", "MIXED+POWERING_UP", "IDLE+POWERING_DOWN"];
        assert_eq!(states.map(is_off), [false, true, false, false]);
        let added =
            |idle_w, full_w| [false, true].map(|off| NodePower { idle_w, full_w }.added_w(off));
        assert_eq!(added(100.0, 300.0), [200.0, 300.0]);
        assert_eq!(added(100.0, 50.0), [0.0, 100.0], "less when full than when idle");
    }

    #[test]
    fn nodes_that_are_gone_are_forgotten() {
        let see = |power: &mut Power, names: &[(&str, u32)]| {
            let node = |&(name, watts): &(&str, u32)| Node {
                name: name.into(),
                cpus: 8,
                cpus_used: 8,
                watts: Some(watts),
                ..Node::default()
            };
            let mut builder = Builder::default();
            builder.nodes(names.iter().map(node).collect()).unwrap();
            power.see(&Config::default(), &builder.build(1, 0).unwrap(), None);
            power.slurm.values().flat_map(|nodes| nodes.keys().cloned()).collect::<Vec<_>>()
        };
        let mut power = Power::default();
        assert_eq!(see(&mut power, &[("a", 100), ("b", 900)]), ["a", "b"]);
        assert_eq!(see(&mut power, &[("a", 100), ("c", 100)]), ["a", "c"]);
    }
}
