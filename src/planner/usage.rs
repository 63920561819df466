// SPDX-License-Identifier: GPL-3.0-or-later
//! Usage of a node, and the amounts that a need lacks there.

use phalanx_core::shape::Need;
use phalanx_core::snapshot::Snapshot;
use phalanx_core::{GresIdx, GresTypeIdx};

/// Amount of one resource on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Configured.
    pub total: u64,
    /// In use.
    pub used: u64,
}

impl Level {
    /// Not in use.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }
}

/// Resources of one node. GRES ids are the indexes of the two vectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUsage {
    /// CPUs.
    pub cpus: Level,
    /// Memory, MiB.
    pub memory_mb: Level,
    /// By GRES kind.
    pub kinds: Vec<Level>,
    /// By GRES type.
    pub types: Vec<Level>,
    /// Jobs on the node.
    pub jobs: u32,
}

/// A dimension that a node can lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// CPUs.
    Cpu,
    /// Memory.
    Memory,
    /// A GRES kind.
    Kind(GresIdx),
}

impl NodeUsage {
    /// Rooms of all nodes as the poll saw them.
    pub fn of_snapshot(snapshot: &Snapshot) -> Vec<Self> {
        snapshot.nodes.iter().map(|node| Self::of_node(snapshot, node)).collect()
    }

    fn of_node(snapshot: &Snapshot, node: &phalanx_core::snapshot::Node) -> Self {
        let mut usage = Self {
            cpus: Level { total: node.cpus, used: node.cpus_used },
            memory_mb: Level { total: node.memory_mb, used: node.memory_used_mb },
            kinds: vec![Level::default(); snapshot.gres_kinds.len()],
            types: vec![Level::default(); snapshot.gres_types.len()],
            jobs: u32::from(node.cpus_used > 0),
        };
        for gres in &node.gres {
            let kind = snapshot.gres_kind(&gres.kind).and_then(|k| usage.kinds.get_mut(k.at()));
            if let Some(level) = kind {
                level.total += gres.total;
                level.used += gres.used;
            }
            let Some(gres_type) = &gres.gres_type else { continue };
            let id = snapshot.gres_type(&gres.kind, gres_type);
            if let Some(level) = id.and_then(|t| usage.types.get_mut(t.at())) {
                level.total += gres.total;
                level.used += gres.used;
            }
        }
        usage
    }

    /// Whether the node could ever give this.
    pub fn could_hold(&self, need: &Need) -> bool {
        !self.totals_lack(need)
    }

    /// Calls `each` with every lacking dimension and the missing amount.
    /// A node must also be idle for a whole-node need: that counts as CPUs.
    pub fn lacks(&self, need: &Need, mut each: impl FnMut(Lack, u64)) {
        if need.whole && self.jobs > 0 {
            each(Lack::Cpu, self.cpus.used.max(1));
        } else if need.cpus > self.cpus.free() {
            each(Lack::Cpu, need.cpus - self.cpus.free());
        }
        if need.all_memory && self.memory_mb.used > 0 {
            each(Lack::Memory, self.memory_mb.used);
        } else if need.memory_mb > self.memory_mb.free() {
            each(Lack::Memory, need.memory_mb - self.memory_mb.free());
        }
        for &(kind, gres_type, count) in &need.gres {
            let free = self.gres_free(kind, gres_type, |level| level.free());
            if count > free {
                each(Lack::Kind(kind), count - free);
            }
        }
    }

    fn gres_free(
        &self,
        kind: GresIdx,
        gres_type: Option<GresTypeIdx>,
        of: impl Fn(Level) -> u64,
    ) -> u64 {
        let level = |levels: &[Level], at: usize| levels.get(at).copied().map_or(0, &of);
        let free = level(&self.kinds, kind.at());
        gres_type.map_or(free, |t| free.min(level(&self.types, t.at())))
    }

    fn totals_lack(&self, need: &Need) -> bool {
        let total = |level: Level| level.total;
        need.cpus > self.cpus.total
            || need.memory_mb > self.memory_mb.total
            || need.gres.iter().any(|&(k, t, count)| count > self.gres_free(k, t, total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> NodeUsage {
        NodeUsage {
            cpus: Level { total: 8, used: 6 },
            memory_mb: Level { total: 100, used: 10 },
            kinds: vec![Level { total: 4, used: 1 }],
            types: vec![Level { total: 2, used: 1 }, Level { total: 2, used: 0 }],
            jobs: 1,
        }
    }

    fn lacks(need: &Need) -> Vec<(Lack, u64)> {
        let mut all = Vec::new();
        usage().lacks(need, |lack, missing| all.push((lack, missing)));
        all
    }

    #[test]
    fn every_lacking_dimension_is_named_with_what_is_missing() {
        let need = Need {
            cpus: 4,
            memory_mb: 95,
            gres: vec![(0.into(), Some(0.into()), 2)],
            ..Need::default()
        };
        let expected = [(Lack::Cpu, 2), (Lack::Memory, 5), (Lack::Kind(0.into()), 1)];
        assert_eq!(lacks(&need), expected);
        assert!(usage().could_hold(&need));
        let fits = Need { cpus: 2, gres: vec![(0.into(), None, 3)], ..Need::default() };
        assert_eq!(lacks(&fits), []);
        let never = Need { cpus: 2, gres: vec![(0.into(), Some(1.into()), 3)], ..Need::default() };
        assert!(!usage().could_hold(&never));
    }

    #[test]
    fn whole_nodes_must_be_idle_and_all_memory_unused() {
        let whole = Need { cpus: 1, whole: true, ..Need::default() };
        assert_eq!(lacks(&whole), [(Lack::Cpu, 6)]);
        let memory = Need { cpus: 1, all_memory: true, ..Need::default() };
        assert_eq!(lacks(&memory), [(Lack::Memory, 10)]);
    }
}
