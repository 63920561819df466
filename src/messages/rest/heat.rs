// SPDX-License-Identifier: GPL-3.0-or-later
//! The use of nodes in a compact form, for maps of thousands of nodes.

use std::collections::BTreeMap;

use phalanx_core::topology::Kind;
use serde::{Deserialize, Serialize};

use super::{NodeReport, NodesReport};

/// `GET /v1/heat`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeatReport {
    /// Dimensions, one for each row of `percent`.
    pub dimensions: Vec<HeatDimension>,
    /// The states that nodes are in.
    pub states: Vec<String>,
    /// Nodes in Slurm's order.
    pub names: Vec<String>,
    /// Position of each node's state in `states`.
    pub state: Vec<usize>,
    /// Number of jobs on each node.
    pub jobs: Vec<u32>,
    /// Leaf switches or blocks by name; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaves: Vec<String>,
    /// Position of each node's leaf in `leaves`; absent without leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaf: Vec<Option<usize>>,
    /// `tree` or `block`; absent without leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Kind>,
    /// Use of each dimension on each node, in percent; `null` where the node has nothing of the
    /// dimension.
    pub percent: Vec<Vec<Option<u8>>>,
}

/// One resource of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeatDimension {
    /// `cpu`, `mem`, `gres/gpu`.
    pub name: String,
    /// `count` or `MiB`.
    pub unit: String,
    /// Configured amount on all nodes together.
    pub total: f64,
    /// Amount in use.
    pub used: f64,
    /// Amount that is free, but on nodes whose CPUs or memory are used up.
    pub stranded: f64,
}

/// Free part of a node's CPUs or memory below which they count as used up.
const USED_UP: f64 = 0.01;

impl HeatReport {
    /// Converts the report on the nodes; dimensions that no node has (licences) are left out.
    pub fn of(nodes: &NodesReport) -> Self {
        let stranded = stranded(nodes);
        let on_nodes = |d: &usize| nodes.nodes.iter().any(|node| at(&node.total, *d) > 0.0);
        let shown: Vec<usize> = (0..nodes.dimensions.len()).filter(on_nodes).collect();
        let dimensions = shown.iter().filter_map(|&d| {
            let dimension = nodes.dimensions.get(d)?;
            Some(HeatDimension {
                name: dimension.name.clone(),
                unit: dimension.unit.clone(),
                total: dimension.total,
                used: dimension.used,
                stranded: at(&stranded, d),
            })
        });
        let mut states: Vec<String> = nodes.nodes.iter().map(|node| node.state.clone()).collect();
        states.sort_unstable();
        states.dedup();
        let state = |name: &String| states.binary_search(name).unwrap_or_default();
        let row = |&d: &usize| {
            let use_of = |node: &NodeReport| {
                let total = at(&node.total, d);
                (total > 0.0).then(|| percent(at(&node.used, d) / total))
            };
            nodes.nodes.iter().map(use_of).collect()
        };
        let topology = nodes.topologies.iter().find(|topology| topology.is_default);
        let kind = topology.map(|t| t.kind).filter(|kind| [Kind::Tree, Kind::Block].contains(kind));
        let topology = topology.filter(|_| kind.is_some());
        let domains = topology.iter().flat_map(|topology| &topology.domains);
        let leaves: Vec<String> =
            domains.filter(|domain| domain.level == 0).map(|domain| domain.name.clone()).collect();
        let by_name: BTreeMap<&str, usize> =
            leaves.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let leaf = |node: &NodeReport| by_name.get(node.leaf.as_deref()?).copied();
        Self {
            leaf: match leaves.is_empty() {
                true => Vec::new(),
                false => nodes.nodes.iter().map(leaf).collect(),
            },
            topology: kind.filter(|_| !leaves.is_empty()),
            dimensions: dimensions.collect(),
            names: nodes.nodes.iter().map(|node| node.name.clone()).collect(),
            state: nodes.nodes.iter().map(|node| state(&node.state)).collect(),
            jobs: nodes.nodes.iter().map(|node| node.jobs).collect(),
            percent: shown.iter().map(row).collect(),
            states,
            leaves,
        }
    }
}

fn at(vector: &[f64], index: usize) -> f64 {
    vector.get(index).copied().unwrap_or_default()
}

/// Converts a share to percent; a small one is never shown as 0, nor a large one as 100.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
fn percent(share: f64) -> u8 {
    let whole = (share * 100.0).round().clamp(0.0, 100.0);
    let whole = if share > 0.0 { whole.max(1.0) } else { whole };
    (if share < 1.0 { whole.min(99.0) } else { whole }) as u8
}

/// Returns the free amount on nodes that cannot use it, by dimension.
pub fn stranded(nodes: &NodesReport) -> Vec<f64> {
    let vital: Vec<usize> = (0..nodes.dimensions.len())
        .filter(|&d| nodes.dimensions.get(d).is_some_and(|d| ["cpu", "mem"].contains(&&*d.name)))
        .collect();
    let mut sums = vec![0.0; nodes.dimensions.len()];
    for node in nodes.nodes.iter().filter(|node| !node.out) {
        let free = |d: usize| (at(&node.total, d) - at(&node.used, d)).max(0.0);
        for (d, sum) in sums.iter_mut().enumerate() {
            // Without CPUs and memory nothing else of the node can be used.
            let used_up = |&v: &usize| {
                let total = at(&node.total, v);
                v != d && total > 0.0 && free(v) < USED_UP * total
            };
            if vital.iter().any(used_up) {
                *sum += free(d);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::{DimensionReport, DomainReport, TopologyReport};

    fn report() -> NodesReport {
        let dimension = |name: &str| DimensionReport { name: name.into(), ..Default::default() };
        let node = |name: &str, state: &str, used: [f64; 4]| NodeReport {
            name: name.into(),
            state: state.into(),
            total: vec![4.0, 1000.0, if name == "n1" { 0.0 } else { 2.0 }, 0.0],
            used: used.to_vec(),
            ..Default::default()
        };
        NodesReport {
            dimensions: ["cpu", "mem", "gres/gpu", "license/x"].map(dimension).to_vec(),
            nodes: vec![
                node("n1", "IDLE", [0.0, 0.0, 0.0, 0.0]),
                node("n2", "MIXED", [4.0, 999.0, 1.0, 0.0]),
                node("n3", "IDLE", [1.0, 1.0, 0.0, 0.0]),
            ],
            ..Default::default()
        }
    }

    #[test]
    fn nodes_name_their_leaves_by_number() {
        let mut nodes = report();
        nodes.nodes[0].leaf = Some("s2".into());
        nodes.nodes[2].leaf = Some("s1".into());
        let domain = |name: &str, level| DomainReport {
            name: name.into(),
            level,
            ..DomainReport::default()
        };
        nodes.topologies = vec![TopologyReport {
            kind: Kind::Tree,
            is_default: true,
            domains: vec![domain("s1", 0), domain("top", 1), domain("s2", 0)],
            ..TopologyReport::default()
        }];
        let heat = HeatReport::of(&nodes);
        assert_eq!(heat.leaves, ["s1", "s2"]);
        assert_eq!((heat.leaf, heat.topology), (vec![Some(1), None, Some(0)], Some(Kind::Tree)));
    }

    #[test]
    fn what_a_full_node_has_free_is_stranded() {
        assert_eq!(stranded(&report()), [0.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn the_compact_form() {
        let heat = HeatReport::of(&report());
        assert_eq!(heat.dimensions.len(), 3, "no licences");
        assert_eq!(heat.states, ["IDLE", "MIXED"]);
        assert_eq!(heat.state, [0, 1, 0]);
        let expected = vec![
            vec![Some(0), Some(100), Some(25)],
            vec![Some(0), Some(99), Some(1)],
            vec![None, Some(50), Some(0)],
        ];
        assert_eq!(heat.percent, expected);
    }
}
