// SPDX-License-Identifier: GPL-3.0-or-later
//! Usage of a node, and the amounts that a need lacks there.

use phalanx_core::layout::{BySocket, FreeCores, NodeCores};
use phalanx_core::shape::Need;
use phalanx_core::snapshot::{NodeGres, Snapshot, parts_of_devices};
use phalanx_core::{GresIdx, GresTypeIdx};

/// Amount of one resource on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Level {
    /// Configured amount.
    pub total: u64,
    /// Amount in use.
    pub used: u64,
}

impl Level {
    /// Returns the amount that is not in use.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// Returns the most that may be in use: jobs that gang scheduling suspends hold the same cores
    /// as those that run in their place, and `used` has both.
    pub fn in_use(self) -> u64 {
        self.used.min(self.total)
    }

    fn add(&mut self, gres: &NodeGres) {
        self.total = self.total.saturating_add(gres.total);
        self.used = self.used.saturating_add(gres.used);
    }
}

/// Resources of one node. GRES ids are the indexes of the two vectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeUsage {
    /// CPUs.
    pub cpus: Level,
    /// Memory, MiB.
    pub memory_mb: Level,
    /// Levels by GRES kind.
    pub kinds: Vec<Level>,
    /// Levels by GRES type.
    pub types: Vec<Level>,
    /// Jobs on the node.
    pub jobs: u32,
    /// Cores and sockets.
    pub cores: NodeCores,
    /// Cores in use by socket, as far as known.
    pub cores_used: BySocket,
    /// Relation of kinds to the kinds whose devices they are parts of.
    pub parts: Parts,
}

/// Kinds that are parts of devices of another kind, as a shard of a GPU is: a device is
/// given whole or in parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Parts([Option<(GresIdx, GresIdx)>; 2]);

impl Parts {
    /// Takes pairs of a kind and the kind whose devices it divides; the first two pairs count.
    pub fn of(pairs: &[(GresIdx, GresIdx)]) -> Self {
        let mut parts = Self::default();
        for (slot, pair) in parts.0.iter_mut().zip(pairs) {
            *slot = Some(*pair);
        }
        parts
    }

    fn iter(&self) -> impl Iterator<Item = (GresIdx, GresIdx)> {
        self.0.iter().flatten().copied()
    }
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
    /// Usages of all nodes at the time of the poll.
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
            cores: node.cores,
            cores_used: BySocket::default(),
            parts: Parts::of(&parts_of_devices(&snapshot.gres_kinds)),
        };
        for gres in &node.gres {
            let kind = snapshot.gres_kind(&gres.kind).and_then(|k| usage.kinds.get_mut(k.at()));
            if let Some(level) = kind {
                level.add(gres);
            }
            let Some(gres_type) = &gres.gres_type else { continue };
            let id = snapshot.gres_type(&gres.kind, gres_type);
            if let Some(level) = id.and_then(|t| usage.types.get_mut(t.at())) {
                level.add(gres);
            }
        }
        usage
    }

    /// The node as it is without jobs.
    pub fn idle(&self) -> Self {
        let mut idle = Self { jobs: 0, cores_used: BySocket::default(), ..self.clone() };
        let own = [&mut idle.cpus, &mut idle.memory_mb].into_iter();
        let gres = idle.kinds.iter_mut().chain(&mut idle.types);
        own.chain(gres).for_each(|level| level.used = 0);
        idle
    }

    /// Whether the node could ever give the need.
    pub fn could_hold(&self, need: &Need) -> bool {
        !self.totals_lack(need)
    }

    /// Whether the node can give the need at present.
    pub fn has_room(&self, need: &Need) -> bool {
        let mut has_room = true;
        self.lacks(need, |_, _| has_room = false);
        has_room
    }

    /// Calls `each` with every lacking dimension and the missing amount.
    /// A node must also be idle for a whole-node need: that counts as CPUs.
    pub fn lacks(&self, need: &Need, mut each: impl FnMut(Lack, u64)) {
        if need.whole && self.jobs > 0 {
            each(Lack::Cpu, self.cpus.used.max(1));
        } else if let Some(missing) = self.cpus_missing(need, &BySocket::default()) {
            each(Lack::Cpu, missing);
        }
        let memory_mb = need.memory_on(&self.cores);
        if need.all_memory && self.memory_mb.used > 0 {
            each(Lack::Memory, self.memory_mb.used);
        } else if memory_mb > self.memory_mb.free() {
            each(Lack::Memory, memory_mb - self.memory_mb.free());
        }
        for &(kind, gres_type, count) in &need.gres {
            let free = self.gres_free(kind, gres_type);
            if count > free {
                each(Lack::Kind(kind), count - free);
            }
        }
    }

    /// CPUs that the node lacks for `need` without the cores in `excluded`, at least 1; `None` if
    /// it lacks none.
    pub fn cpus_missing(&self, need: &Need, excluded: &BySocket) -> Option<u64> {
        let Some(cpus) = need.cpus_on(&self.cores) else { return Some(need.cpus.max(1)) };
        let free = self.free_cpus(excluded);
        if cpus > free {
            return Some(cpus - free);
        }
        let by_socket = need.cores.is_by_socket(&self.cores);
        (by_socket && !need.cores.fits(&self.cores, &self.free_cores(need, excluded))).then_some(1)
    }

    /// Most CPUs that may be free beside excluded cores, some of which may be in use as well.
    pub fn free_cpus(&self, excluded: &BySocket) -> u64 {
        let kept: u64 = excluded.iter().map(|&cores| u64::from(cores)).sum();
        let not_kept = self.cpus.total.saturating_sub(kept * self.cores.per_core());
        self.cpus.free().min(not_kept)
    }

    /// Most cores by socket that `need` may have beside excluded ones, some of which may be in use
    /// as well.
    pub fn free_cores(&self, need: &Need, excluded: &BySocket) -> FreeCores {
        self.cores.free(&need.cores, self.cpus.used, &self.cores_used, excluded)
    }

    /// Free count of a GRES kind, or of a type of it. For devices that are also shared as shards or
    /// MPS it is an upper bound: only the least number in use is known.
    pub fn gres_free(&self, kind: GresIdx, gres_type: Option<GresTypeIdx>) -> u64 {
        let free = self.gres_level(kind, gres_type, Level::free);
        self.parts.iter().fold(free, |free, (part, device)| {
            let (parts, devices) = (self.kind(part), self.kind(device));
            let each = parts.total.checked_div(devices.total);
            let Some(each) = each.filter(|each| *each > 0) else { return free };
            if kind == device {
                free.min(devices.free().saturating_sub(parts.used.div_ceil(each)))
            } else if kind == part {
                // All of one job are of one device.
                free.min(each).min((devices.free() * each).saturating_sub(parts.used))
            } else {
                free
            }
        })
    }

    /// Level of a GRES kind; of a kind that the table lacks, nothing, which no proof is about.
    pub fn kind(&self, kind: GresIdx) -> Level {
        self.kinds.get(kind.at()).copied().unwrap_or_default()
    }

    /// Level of a GRES kind, or of a type of it where the type's own is less.
    pub(crate) fn gres_level(
        &self,
        kind: GresIdx,
        gres_type: Option<GresTypeIdx>,
        of: impl Fn(Level) -> u64,
    ) -> u64 {
        let of_kind = of(self.kind(kind));
        let of_type = |t: GresTypeIdx| self.types.get(t.at()).copied().map_or(0, &of);
        gres_type.map_or(of_kind, |t| of_kind.min(of_type(t)))
    }

    fn totals_lack(&self, need: &Need) -> bool {
        let idle = || {
            let none = BySocket::default();
            need.cores.fits(&self.cores, &self.cores.free(&need.cores, 0, &none, &none))
        };
        need.cpus_on(&self.cores).is_none_or(|cpus| cpus > self.cpus.total)
            || need.memory_on(&self.cores) > self.memory_mb.total
            || need.gres.iter().any(|&(k, t, count)| count > self.gres_level(k, t, |of| of.total))
            || (need.cores.is_by_socket(&self.cores) && !idle())
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
            ..NodeUsage::default()
        }
    }

    fn of_cpus(cpus: u64) -> Need {
        Need::default().with_cpus(cpus)
    }

    fn lacks(need: &Need) -> Vec<(Lack, u64)> {
        let mut all = Vec::new();
        usage().lacks(need, |lack, missing| all.push((lack, missing)));
        all
    }

    #[test]
    fn every_lacking_dimension_is_named_with_what_is_missing() {
        let need = Need { memory_mb: 95, gres: vec![(0.into(), Some(0.into()), 2)], ..of_cpus(4) };
        let expected = [(Lack::Cpu, 2), (Lack::Memory, 5), (Lack::Kind(0.into()), 1)];
        assert_eq!(lacks(&need), expected);
        assert!(usage().could_hold(&need));
        let fits = Need { gres: vec![(0.into(), None, 3)], ..of_cpus(2) };
        assert_eq!(lacks(&fits), []);
        let never = Need { gres: vec![(0.into(), Some(1.into()), 3)], ..of_cpus(2) };
        assert!(!usage().could_hold(&never));
    }

    #[test]
    fn whole_nodes_must_be_idle_and_all_memory_unused() {
        let whole = Need { whole: true, ..of_cpus(1) };
        assert_eq!(lacks(&whole), [(Lack::Cpu, 6)]);
        let memory = Need { all_memory: true, ..of_cpus(1) };
        assert_eq!(lacks(&memory), [(Lack::Memory, 10)]);
    }

    #[test]
    fn whole_cores_are_taken_and_sockets_looked_at() {
        let cores = NodeCores { cpus_per_core: 2, sockets: 2, cores: 4, spec_cores: 0 };
        let cores_used = [2, 1, 0, 0, 0, 0, 0, 0];
        let smt = NodeUsage { cores, cores_used, ..usage() };
        let missing = |need: &Need| smt.cpus_missing(need, &BySocket::default());
        assert_eq!((missing(&of_cpus(2)), missing(&of_cpus(3))), (None, Some(2)));
        let mut spread = of_cpus(2);
        spread.cores.layout.sockets_per_node = 2;
        assert_eq!((missing(&spread), smt.could_hold(&spread)), (Some(1), true));
        spread.cores.layout.sockets_per_node = 3;
        assert!(!smt.could_hold(&spread));
        let excluded = |cores| [cores, cores, 0, 0, 0, 0, 0, 0];
        assert_eq!(smt.cpus_missing(&of_cpus(2), &excluded(1)), None);
        assert_eq!(smt.cpus_missing(&of_cpus(2), &excluded(2)), Some(2));
        let by_cpu = Need { memory_mb: 93, mem_per_cpu_mb: 93, ..of_cpus(1) };
        assert_eq!(by_cpu.memory_on(&cores), 93);
        let mut charged = by_cpu.clone();
        charged.cores.layout.whole_cores = true;
        assert_eq!(charged.memory_on(&cores), 186);
    }

    #[test]
    fn a_gpu_is_given_whole_or_in_shards() {
        let of = |gpus, shards| NodeUsage {
            kinds: vec![Level { total: 4, used: gpus }, Level { total: 16, used: shards }],
            parts: Parts::of(&[(1.into(), 0.into())]),
            ..NodeUsage::default()
        };
        let free = |gpus, shards| {
            let usage = of(gpus, shards);
            (usage.gres_free(0.into(), None), usage.gres_free(1.into(), None))
        };
        assert_eq!(free(0, 0), (4, 4));
        assert_eq!(free(4, 0), (0, 0));
        assert_eq!(free(1, 5), (1, 4));
        assert_eq!(free(3, 3), (0, 1));
    }
}
