// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx nodes`.

use std::sync::Arc;

use super::topology;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::{Partition, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_messages::rest::{DimensionReport, NodeReport, NodesReport};
use phalanx_methods::balance::WeightsBySource;
use phalanx_methods::learn::deaths::Accused;
use phalanx_planner::place::Placer;

pub(super) fn nodes_report(
    snapshot: &Snapshot,
    placer: &Placer,
    topologies: &[Topology],
    accused: &[Accused],
    threshold: f64,
    exact: bool,
) -> NodesReport {
    let engine = placer.engine();
    let weights = engine.weights();
    let utilization = engine.utilization();
    let by_source = engine.weights_by_source();
    let dimensions = placer.dims().iter().enumerate();
    let dimensions =
        dimensions.map(|(at, name)| dimension(placer, at, name, &weights, &by_source)).collect();
    let usages = placer.cluster().usages();
    let default = topologies.iter().find(|topology| topology.parts().is_default);
    let leaf_of = |node| {
        let topology = default.filter(|topology| topology.has_leaves())?;
        topology.leaf_of(node).map(|leaf| topology.leaf_name(leaf).to_owned())
    };
    let nodes = snapshot.named().filter_map(|(at, node)| Some((at, node, usages.get(at.at())?)));
    let nodes = nodes.map(|(at, node, usage)| {
        let levels = [usage.cpus, usage.memory_mb].into_iter().chain(usage.kinds.iter().copied());
        let (total, used) = levels.map(|l| (as_f64(l.total), as_f64(l.in_use()))).unzip();
        let inside = |p: &&Partition| p.nodes.contains(at);
        NodeReport {
            name: node.name.to_string(),
            state: node.state.to_string(),
            partitions: snapshot
                .partitions
                .iter()
                .filter(inside)
                .map(|p| p.name.to_string())
                .collect(),
            total,
            used,
            dispersion: engine.dispersion(at.at(), &weights).unwrap_or(0.0),
            jobs: usage.jobs,
            out: !node.available,
            accused: accused.iter().find(|one| one.node == node.name).map(Accused::to_string),
            leaf: leaf_of(at),
        }
    });
    NodesReport {
        dimensions,
        utilization,
        threshold,
        branch: if utilization >= threshold { "high" } else { "low" }.to_owned(),
        source: if exact { "plugin" } else { "poll" }.to_owned(),
        nodes: nodes.collect(),
        topologies: topology::reports(snapshot, usages, topologies),
    }
}

fn dimension(
    placer: &Placer,
    at: usize,
    name: &Arc<str>,
    weights: &[f64],
    by_source: &WeightsBySource,
) -> DimensionReport {
    let of = |list: &[f64]| list.get(at).copied().unwrap_or(0.0);
    let (total, used) = placer.dimension_level(at);
    DimensionReport {
        name: name.to_string(),
        unit: if &**name == "mem" { "MiB" } else { "count" }.to_owned(),
        total: as_f64(total),
        used: as_f64(used),
        pending: placer.pending().lacks.get(name).copied().unwrap_or(0),
        weight_initial: of(&by_source.initial),
        weight_pending: of(&by_source.pending),
        weight_usage: of(&by_source.usage),
        weight: of(weights),
    }
}
