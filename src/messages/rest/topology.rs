// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaf switches and blocks in `GET /v1/nodes`.

use phalanx_core::topology::Kind;
use serde::{Deserialize, Serialize};

/// One topology of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopologyReport {
    /// Its name, `default` before Slurm 25.05.
    pub name: String,
    /// Slurm's plugin, such as `topology/tree`.
    pub plugin: String,
    /// `flat`, `tree`, `block`; `other` and `unknown` leave jobs of several nodes to Slurm.
    pub kind: Kind,
    /// Partitions that name no topology use it.
    pub is_default: bool,
    /// Partitions that use it.
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
pub struct DomainReport {
    /// Its name.
    pub name: String,
    /// 0: a leaf, to which nodes are attached.
    pub level: u32,
    /// Name of the one above.
    pub parent: Option<String>,
    /// Of a leaf its nodes, as a hostlist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// Leaves below it; of a leaf 1.
    pub leaves: u32,
    /// Of these, wholly idle ones.
    pub whole_leaves: u32,
    /// Nodes by what they do.
    #[serde(flatten)]
    pub counts: NodeCounts,
}

/// Nodes by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCounts {
    /// All.
    pub total: u32,
    /// Without a job.
    pub idle: u32,
    /// With a job and free CPUs.
    pub mixed: u32,
    /// Without a free CPU.
    pub allocated: u32,
    /// Down, drained or otherwise not to be used.
    pub unavailable: u32,
}

impl NodeCounts {
    /// Adds those of another.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.idle += other.idle;
        self.mixed += other.mixed;
        self.allocated += other.allocated;
        self.unavailable += other.unavailable;
    }

    /// Whether there are nodes, all of them idle.
    pub fn is_whole(&self) -> bool {
        self.total > 0 && self.idle == self.total
    }
}
