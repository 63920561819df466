// SPDX-License-Identifier: GPL-3.0-or-later
//! The node table: the one numbering of nodes and GRES, which is slurmctld's where a plugin
//! reports it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::layout::NodeCores;
use crate::topology::Topology;
use crate::{GresIdx, GresTypeIdx};

/// A node of the table. Empty slots of Slurm's table have an empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNode {
    /// NodeName.
    pub name: Arc<str>,
    /// Usable CPUs.
    pub cpus: u64,
    /// Hardware threads per core, at least 1; see [`NodeCores::cpus_per_core`] for those that
    /// jobs are given.
    pub threads: u32,
    /// Cores and sockets.
    #[serde(default, skip_serializing_if = "NodeCores::is_unknown")]
    pub cores: NodeCores,
    /// Usable memory, MiB.
    pub memory_mb: u64,
    /// Slurm's Weight: low ones are taken first.
    pub weight: u32,
    /// GRES counts: kind id and count.
    pub kinds: Vec<(GresIdx, u64)>,
    /// GRES counts: type id and count.
    pub types: Vec<(GresTypeIdx, u64)>,
    /// Whether the node takes no job, being down, drained or draining: it has no capacity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out: bool,
}

/// The node table with the names of its GRES.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Nodes by Slurm's node index.
    pub nodes: Vec<TableNode>,
    /// Kind names (`gpu`) by id.
    pub kinds: Vec<Arc<str>>,
    /// Type names (`gpu:a100`) by id.
    pub types: Vec<Arc<str>>,
    /// Kinds that are parts of devices of another kind, and that kind: `shard` or `mps` of `gpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(GresIdx, GresIdx)>,
    /// Kinds that jobs do not use up (`no_consume`): conditions on a node, no amounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unspent: Vec<GresIdx>,
    /// Topologies by slurmctld's index; empty if none was reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topologies: Vec<Topology>,
    /// Slurm's release, `0x160508` for 22.05.8; 0 if not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub slurm: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives references
fn is_unknown(release: &u32) -> bool {
    *release == 0
}

/// Returns the kinds that are parts of another kind's devices, each with that kind.
#[must_use]
pub fn parts_of_devices(kinds: &[Arc<str>]) -> Vec<(GresIdx, GresIdx)> {
    let at = |name: &str| kinds.iter().position(|kind| &**kind == name).map(GresIdx::new);
    let Some(gpu) = at("gpu") else { return Vec::new() };
    ["mps", "shard"].into_iter().filter_map(at).map(|part| (part, gpu)).collect()
}

impl Table {
    /// The nodes of a snapshot, with its GRES ids.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        let nodes = snapshot.nodes.iter().map(|node| TableNode {
            name: Arc::clone(&node.name),
            cpus: node.cpus,
            threads: 1,
            cores: node.cores,
            memory_mb: node.memory_mb,
            weight: node.weight,
            out: !node.available,
            ..TableNode::default()
        });
        Self {
            nodes: nodes.collect(),
            kinds: snapshot.gres_kinds.clone(),
            types: snapshot.gres_types.clone(),
            parts: parts_of_devices(&snapshot.gres_kinds),
            ..Self::default()
        }
    }

    /// The topology with index `index`, or the default one, and its position.
    pub fn topology_at(&self, index: Option<u16>) -> Option<(usize, &Topology)> {
        let default = || self.topologies.iter().position(|t| t.parts().is_default).unwrap_or(0);
        let at = index.map_or_else(default, usize::from);
        Some((at, self.topologies.get(at)?))
    }
}
