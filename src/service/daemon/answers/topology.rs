// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaf switches and blocks with the nodes below them.

use phalanx_core::number::as_u32;
use phalanx_core::snapshot::{Node, Partition, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_core::{NodeIdx, hostlist};
use phalanx_messages::rest::{DomainReport, NodeCounts, TopologyReport};
use phalanx_planner::usage::NodeUsage;

/// Returns the topology that a partition names, else the default one.
pub(super) fn of_partition<'a>(
    all: &'a [Topology],
    partition: Option<&Partition>,
) -> Option<&'a Topology> {
    let named = partition.map_or("", |partition| &partition.topology);
    let own = all.iter().find(|topology| !named.is_empty() && **topology.name() == *named);
    own.or_else(|| all.iter().find(|topology| topology.parts().is_default)).or(all.first())
}

/// Returns all topologies over the snapshot's nodes.
pub(super) fn reports(
    snapshot: &Snapshot,
    usages: &[NodeUsage],
    all: &[Topology],
) -> Vec<TopologyReport> {
    let one = |topology: &Topology| {
        let uses = |partition: &&Partition| {
            of_partition(all, Some(partition)).is_some_and(|own| std::ptr::eq(own, topology))
        };
        let partitions = snapshot.partitions.iter().filter(uses).map(|p| p.name.to_string());
        TopologyReport { partitions: partitions.collect(), ..report(snapshot, usages, topology) }
    };
    all.iter().map(one).collect()
}

fn report(snapshot: &Snapshot, usages: &[NodeUsage], topology: &Topology) -> TopologyReport {
    let domains = topology.domains();
    let name = |at: u32| domains.get(at as usize).map(|domain| domain.name.to_string());
    let mut found: Vec<DomainReport> = domains
        .iter()
        .map(|domain| DomainReport {
            name: domain.name.to_string(),
            level: domain.level,
            parent: domain.parent.and_then(name),
            nodes: node_names(snapshot, &domain.nodes),
            ..DomainReport::default()
        })
        .collect();
    for leaf in 0..as_u32(topology.leaf_count()) {
        let mut counts = NodeCounts::default();
        for node in topology.nodes_of(leaf) {
            counts.add(of_node(snapshot, usages, *node));
        }
        for domain in topology.above(leaf) {
            let Some(domain) = found.get_mut(domain as usize) else { continue };
            domain.counts.add(counts);
            domain.leaves += 1;
            domain.whole_leaves += u32::from(counts.is_whole());
        }
    }
    let mut outside = NodeCounts::default();
    if topology.has_leaves() {
        for (at, _) in snapshot.named().filter(|(at, _)| topology.leaf_of(*at).is_none()) {
            outside.add(of_node(snapshot, usages, at));
        }
    }
    let parts = topology.parts();
    TopologyReport {
        name: topology.name().to_string(),
        plugin: parts.plugin.to_string(),
        kind: topology.kind(),
        is_default: parts.is_default,
        partitions: Vec::new(),
        block_size: Some(parts.block_size).filter(|size| *size > 0),
        domains: found,
        outside,
        unknown_nodes: parts.unknown_nodes.iter().map(|name| name.to_string()).collect(),
    }
}

pub(super) fn node_names(snapshot: &Snapshot, nodes: &[NodeIdx]) -> String {
    let name = |n: &NodeIdx| snapshot.nodes.get(n.at()).map(|node| &*node.name);
    hostlist::compress(&nodes.iter().filter_map(name).collect::<Vec<&str>>())
}

fn of_node(snapshot: &Snapshot, usages: &[NodeUsage], at: NodeIdx) -> NodeCounts {
    let (Some(node), Some(usage)) = (snapshot.nodes.get(at.at()), usages.get(at.at())) else {
        return NodeCounts::default();
    };
    count(node, usage)
}

fn count(node: &Node, usage: &NodeUsage) -> NodeCounts {
    let mut counts = NodeCounts { total: 1, ..NodeCounts::default() };
    *match (node.available, usage.jobs, usage.cpus.free()) {
        (false, ..) => &mut counts.unavailable,
        (true, 0, _) => &mut counts.idle,
        (true, _, 0) => &mut counts.allocated,
        (true, ..) => &mut counts.mixed,
    } = 1;
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::snapshot::Table;
    use phalanx_core::topology::parse_file;
    use phalanx_planner::usage::Level;

    #[test]
    fn nodes_count_on_every_level_above_them() {
        let node = |at: usize| Node {
            name: format!("n{at}").into(),
            available: at != 4,
            cpus: 8,
            ..Node::default()
        };
        let mut snapshot = Snapshot::default();
        snapshot.nodes = (0..6).map(node).collect();
        let usage = |used: u64| NodeUsage {
            cpus: Level { total: 8, used },
            jobs: u32::from(used > 0),
            ..NodeUsage::default()
        };
        let usages = [0, 0, 3, 8, 0, 0].map(usage);
        let text = "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-4],gone\n\
                    SwitchName=top Switches=a,b\n";
        let topology = parse_file(text, &Table::of_snapshot(&snapshot)).unwrap();
        let found = report(&snapshot, &usages, &topology);
        let counts = |[total, idle, mixed, allocated, unavailable]: [u32; 5]| NodeCounts {
            total,
            idle,
            mixed,
            allocated,
            unavailable,
        };
        let [a, b, top] = &found.domains[..] else { panic!("{found:?}") };
        assert_eq!((&*a.nodes, a.counts, a.whole_leaves), ("n[0-1]", counts([2, 2, 0, 0, 0]), 1));
        assert_eq!((&*b.nodes, b.counts, b.whole_leaves), ("n[2-4]", counts([3, 0, 1, 1, 1]), 0));
        assert_eq!((top.leaves, top.whole_leaves, top.level), (2, 1, 1));
        assert_eq!((top.counts, &*top.nodes), (counts([5, 2, 1, 1, 1]), ""));
        assert_eq!((a.parent.as_deref(), top.parent.as_deref()), (Some("top"), None));
        assert_eq!((found.outside.idle, &*found.unknown_nodes), (1, &["gone".to_owned()][..]));
    }

    /// Partitions use the topology that they name in topology.yaml, as of Slurm 25.05.
    #[test]
    fn partitions_use_the_topology_that_they_name() {
        let partition = |name: &str, topology: &str| Partition {
            name: name.into(),
            topology: topology.into(),
            ..Partition::default()
        };
        let mut snapshot = Snapshot::default();
        snapshot.partitions =
            vec![partition("a", ""), partition("b", "ib"), partition("c", "gone")];
        let one = |name: &str, is_default| {
            let kind = phalanx_core::topology::Kind::Tree;
            let (name, plugin) = (name.into(), "tree".into());
            let none = phalanx_core::topology::Parts::default();
            Topology::from(phalanx_core::topology::Parts { name, plugin, kind, is_default, ..none })
        };
        let found = reports(&snapshot, &[], &[one("default", true), one("ib", false)]);
        let used: Vec<&[String]> = found.iter().map(|topology| &*topology.partitions).collect();
        assert_eq!(used, [&["a".to_owned(), "c".to_owned()][..], &["b".to_owned()][..]]);
        assert!(of_partition(&[], None).is_none());
    }
}
