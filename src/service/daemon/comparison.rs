// SPDX-License-Identifier: GPL-3.0-or-later
//! Compares Slurm's nodes of a start with the decided ones, for `phalanx report shadow`.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::number::as_f64;
use phalanx_core::topology::Topology;
use phalanx_core::{GresIdx, NodeIdx};
use phalanx_planner::cluster::{Held, Table};
use phalanx_planner::usage::NodeUsage;

/// Returns by how much the decision would have been better, by measure (negative: worse), each with
/// the job on its nodes: `gpus` free on nodes without a free CPU, `weight` (mean), `idle` nodes
/// taken, `nodes`, `leaves`. `usage` is the present one, with the job where Slurm started it.
pub(super) fn compare(
    (table, topology): (&Table, Option<&Topology>),
    usage: impl Fn(NodeIdx) -> Option<NodeUsage>,
    held: &[Held],
    decided: &BTreeSet<NodeIdx>,
) -> Option<BTreeMap<&'static str, f64>> {
    let gpu = table.kinds.iter().position(|kind| &**kind == "gpu").map(GresIdx::new);
    let of = |held: &Held| {
        let gpus = held.gres.iter().filter(|(kind, ..)| Some(*kind) == gpu);
        (held.cpus, gpus.map(|(.., count)| count).sum::<u64>())
    };
    let slurm: BTreeMap<NodeIdx, (u64, u64)> = held.iter().map(|h| (h.node, of(h))).collect();
    let all = slurm.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let count = decided.len().max(1) as u64;
    let share = (all.0.div_ceil(count), all.1.div_ceil(count));
    let weight = |node: NodeIdx| table.nodes.get(node.at()).map_or(0.0, |n| f64::from(n.weight));
    let nodes = [slurm.len(), decided.len()].map(|nodes| as_f64(nodes as u64));
    let (mut gpus, mut weights, mut idle) = (0.0, 0.0, 0.0);
    for node in slurm.keys().chain(decided.difference(&slurm.keys().copied().collect())) {
        let usage = usage(*node)?;
        let level = gpu.map(|gpu| usage.kind(gpu)).unwrap_or_default();
        let own = slurm.get(node).copied();
        let (cpus, devices) = own.unwrap_or_default();
        let free = (usage.cpus.free() + cpus, level.free() + devices);
        let is_idle = usage.jobs == u32::from(own.is_some());
        let theirs = decided.contains(node).then_some(share);
        for (sign, taken, of) in [(1.0, own, nodes[0]), (-1.0, theirs, nodes[1])] {
            let (cpus, devices) = taken.unwrap_or_default();
            let left = if free.0 > cpus { 0 } else { free.1.saturating_sub(devices) };
            gpus += sign * as_f64(left);
            idle += if is_idle && taken.is_some() { sign } else { 0.0 };
            weights += if taken.is_some() { sign * weight(*node) / of } else { 0.0 };
        }
    }
    let mut found = BTreeMap::from([
        ("gpus", gpus),
        ("idle", idle),
        ("nodes", nodes[0] - nodes[1]),
        ("weight", weights),
    ]);
    if let Some(topology) = topology.filter(|topology| topology.has_leaves()) {
        let on = |leaves: Vec<(u32, u32)>| as_f64(leaves.len() as u64);
        let theirs = on(topology.leaves(slurm.keys().copied()));
        found.insert("leaves", theirs - on(topology.leaves(decided.iter().copied())));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_planner::cluster::TableNode;
    use phalanx_planner::usage::Level;

    /// Goal: a CPU job off the GPU node is better. Nodes of 8 CPUs: 0 and 1 with 2 GPUs (Weight
    /// 50), 2 and 3 without (Weight 10); the job of 8 CPUs is on node 0, and node 3 has half of its
    /// CPUs in use by another.
    #[test]
    fn a_cpu_job_off_the_gpu_node_is_better() {
        let node = |weight| TableNode { cpus: 8, weight, ..TableNode::default() };
        let nodes = [50, 50, 10, 10].map(node).to_vec();
        let table = Table { nodes, kinds: vec!["gpu".into()], ..Table::default() };
        let usage = |at: NodeIdx| {
            let used = [8, 0, 0, 4][at.at()];
            let gpus = if at.at() < 2 { 2 } else { 0 };
            Some(NodeUsage {
                cpus: Level { total: 8, used },
                kinds: vec![Level { total: gpus, used: 0 }],
                jobs: u32::from(used > 0),
                ..NodeUsage::default()
            })
        };
        let held = |node, cpus| Held { node: NodeIdx::new(node), cpus, ..Held::default() };
        let by = |held: &[Held], decided: &[usize]| {
            let decided = decided.iter().map(|at| NodeIdx::new(*at)).collect();
            let found = compare((&table, None), usage, held, &decided).unwrap();
            ["gpus", "weight", "idle", "nodes"].map(|name| found[name])
        };
        assert_eq!(by(&[held(0, 8)], &[2]), [2.0, 40.0, 0.0, 0.0]);
        assert_eq!(by(&[held(0, 8)], &[1]), [0.0; 4], "the other GPU node is as bad");
        // Two nodes, one of them half full already: fewer idle ones, but more nodes.
        assert_eq!(by(&[held(0, 8)], &[2, 3]), [2.0, 40.0, 0.0, -1.0]);
        assert_eq!(by(&[held(0, 8)], &[0]), [0.0; 4], "the same node");
    }
}
