// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaf switches and blocks in `GET /v1/nodes`.

use phalanx_core::topology::Kind;
use serde::{Deserialize, Serialize};

/// One topology of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopologyReport {
    /// Name of the topology, `default` before Slurm 25.05.
    pub name: String,
    /// Slurm's plugin, such as `topology/tree`.
    pub plugin: String,
    /// Kind: `flat`, `tree`, `block`; `other` and `unknown` leave jobs of several nodes to Slurm.
    pub kind: Kind,
    /// Whether partitions that name no topology use this one.
    pub is_default: bool,
    /// Partitions that use the topology.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Nodes of a base block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// Switches in Slurm's order, or blocks and then their aggregates.
    pub domains: Vec<DomainReport>,
    /// Nodes on no leaf switch and in no block.
    pub outside: NodeCounts,
    /// Some nodes that Slurm's file names and the cluster does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_nodes: Vec<String>,
}

/// A switch, a block or an aggregate of blocks, with all nodes below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DomainReport {
    /// Name of the domain.
    pub name: String,
    /// Level; 0: a leaf, to which nodes are attached.
    pub level: u32,
    /// Name of the domain above.
    pub parent: Option<String>,
    /// Nodes of a leaf, as a hostlist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// Number of leaves below the domain; 1 for a leaf.
    pub leaves: u32,
    /// Number of leaves that are wholly idle.
    pub whole_leaves: u32,
    /// Nodes by use.
    #[serde(flatten)]
    pub counts: NodeCounts,
}

/// Nodes by use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCounts {
    /// All nodes.
    pub total: u32,
    /// Nodes without a job.
    pub idle: u32,
    /// Nodes with a job and free CPUs.
    pub mixed: u32,
    /// Nodes without a free CPU.
    pub allocated: u32,
    /// Nodes that are down, drained or otherwise unusable.
    pub unavailable: u32,
}

impl NodeCounts {
    /// Adds the counts of another domain.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.idle += other.idle;
        self.mixed += other.mixed;
        self.allocated += other.allocated;
        self.unavailable += other.unavailable;
    }

    /// Returns whether there are nodes, all of them idle.
    pub fn is_whole(&self) -> bool {
        self.total > 0 && self.idle == self.total
    }
}
