// SPDX-License-Identifier: GPL-3.0-or-later
//! The exact usage of every node: which job holds what where.
//!
//! A [`Cluster`] starts from a node table and takes jobs' allocations as they
//! begin, change and end. A job's allocation is always given whole and
//! replaces what was known of it, so a repeated or lost message cannot make
//! the sums drift; whoever feeds it starts anew with a fresh table.

mod alike;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use alike::Alike;

use crate::usage::{Level, NodeUsage, Parts};
use phalanx_core::layout::{self, BySocket};
use phalanx_core::shape::Need;
use phalanx_core::snapshot::Node;
pub use phalanx_core::snapshot::{Table, TableNode};
use phalanx_core::{GresIdx, GresTypeIdx, NodeIdx};

/// Resources of a job on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Node index.
    pub node: NodeIdx,
    /// CPUs, 0 while suspended.
    pub cpus: u64,
    /// Memory, MiB.
    pub memory_mb: u64,
    /// Cores by socket; zeros while suspended or not known.
    #[serde(default, skip_serializing_if = "layout::is_zero")]
    pub cores: BySocket,
    /// GRES: kind id, type id if typed, count.
    pub gres: Vec<(GresIdx, Option<GresTypeIdx>, u64)>,
}

impl Held {
    /// Amounts that a job takes of a node by its need, where nothing else tells.
    pub fn by_need(node: NodeIdx, of: &Node, need: &Need) -> Self {
        let Need { cpus, memory_mb, gres, whole, .. } =
            need.on(&of.cores).unwrap_or_else(|| need.clone());
        let cpus = if whole { of.cpus } else { cpus };
        Self { node, cpus, memory_mb, gres, ..Self::default() }
    }
}

/// A running or suspended job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningJob {
    /// Job id.
    pub id: u32,
    /// Ids of the job's array and task, if the job is an array task.
    pub array: Option<(u32, u32)>,
    /// User id.
    pub user_id: u32,
    /// Start of the job, unix seconds.
    pub start_s: u64,
    /// Unix second at which Slurm takes the job for ended; 0 if it has no limit.
    #[serde(default)]
    pub end_s: u64,
    /// Whether other jobs may not use the blocks that the job is in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes_blocks: bool,
    /// Nodes in index order.
    pub held: Vec<Held>,
}

/// A change of what is in use on one node.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// A job takes what it then holds.
    Take(&'a Held),
    /// A job gives back what it held.
    Give(&'a Held),
}

impl Change<'_> {
    /// Whether the change is a job taking resources, rather than giving them back.
    pub(crate) fn is_take(&self) -> bool {
        matches!(self, Self::Take(_))
    }
}

/// Node table, usage and jobs.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    table: Arc<Table>,
    usages: Vec<NodeUsage>,
    alike: Alike,
    weights: Vec<u32>,
    jobs: BTreeMap<u32, RunningJob>,
    beyond: Option<(u32, GresIdx, u64)>,
}

impl Cluster {
    /// An idle cluster with the nodes of `table`.
    pub fn new(table: Table) -> Self {
        let usages = table.nodes.iter().map(|node| idle_usage(&table, node)).collect();
        let weights = table.nodes.iter().map(|node| node.weight).collect();
        let alike = Alike::new(table.nodes.len());
        Self { usages, alike, weights, table: Arc::new(table), ..Self::default() }
    }

    /// A cluster whose usage is known, but not which jobs cause it.
    pub fn with_usages(table: Table, usages: Vec<NodeUsage>) -> Self {
        let mut cluster = Self::new(table);
        debug_assert_eq!(usages.len(), cluster.usages.len(), "usage of another table");
        if usages.len() == cluster.usages.len() {
            cluster.usages = usages;
        }
        cluster
    }

    /// Returns this cluster with `table` in place of its own table, if the two are equal.
    #[must_use]
    pub fn with_equal_table(self, table: &Arc<Table>) -> Self {
        let table = if *self.table == **table { Arc::clone(table) } else { self.table };
        Self { table, ..self }
    }

    /// The node table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Usage by node index.
    pub fn usages(&self) -> &[NodeUsage] {
        &self.usages
    }

    /// Nodes by equal usage, as of the last [`settle`](Self::settle).
    pub fn alike(&self) -> &Alike {
        &self.alike
    }

    /// Says that the kinds of nodes are needed now, and maybe again.
    pub fn want_alike(&mut self) {
        self.alike.want();
    }

    /// Finds the kinds of the nodes that have changed, where they are [wanted](Self::want_alike).
    pub fn settle(&mut self) {
        self.alike.settle(&self.usages);
    }

    /// slurm.conf's Weight of a node of this cluster's table.
    pub fn weight(&self, node: NodeIdx) -> u32 {
        debug_assert!(node.at() < self.weights.len(), "node {node} of {}", self.weights.len());
        self.weights.get(node.at()).copied().unwrap_or(0)
    }

    /// Usage of a node of this cluster's table.
    pub fn usage(&self, node: NodeIdx) -> Option<&NodeUsage> {
        let usage = self.usages.get(node.at());
        debug_assert!(usage.is_some(), "node {node} in a table of {}", self.usages.len());
        usage
    }

    /// First job that was reported to hold more of a GRES kind than the node has, and how much.
    pub fn beyond(&self) -> Option<(u32, GresIdx, u64)> {
        self.beyond
    }

    /// Jobs by id.
    pub fn jobs(&self) -> &BTreeMap<u32, RunningJob> {
        &self.jobs
    }

    /// Sets what a job holds. Calls `changed` for every node entry given back or taken.
    ///
    /// Of a GRES no node gives more than it has: such a count is cut, see [`beyond`](Self::beyond).
    pub fn set_job(&mut self, mut job: RunningJob, mut changed: impl FnMut(Change<'_>)) {
        self.end_job(job.id, &mut changed);
        // While a recorded table is replaced, jobs of the next one come; a damaged record has any.
        job.held.retain(|held| held.node.at() < self.usages.len());
        for held in &mut job.held {
            if let Some(usage) = self.usages.get_mut(held.node.at()) {
                for (kind, _, count) in &mut held.gres {
                    let most = usage.kinds.get(kind.at()).map_or(0, |level| level.total);
                    if *count > most {
                        self.beyond.get_or_insert((job.id, *kind, *count));
                        *count = most;
                    }
                }
                apply(usage, held, u64::saturating_add, u16::saturating_add);
                usage.jobs = usage.jobs.saturating_add(1);
                self.alike.change(held.node);
                changed(Change::Take(held));
            }
        }
        self.jobs.insert(job.id, job);
    }

    /// Sets another end of a job; returns false if the job was not known.
    pub fn set_end(&mut self, id: u32, end_s: u64) -> bool {
        self.jobs.get_mut(&id).map(|job| job.end_s = end_s).is_some()
    }

    /// Removes a job that gave everything back; returns false if the job was not known.
    pub fn end_job(&mut self, id: u32, mut changed: impl FnMut(Change<'_>)) -> bool {
        let Some(job) = self.jobs.remove(&id) else { return false };
        for held in &job.held {
            if let Some(usage) = self.usages.get_mut(held.node.at()) {
                give_back(usage, held);
                self.alike.change(held.node);
                changed(Change::Give(held));
            }
        }
        true
    }
}

fn idle_usage(table: &Table, node: &TableNode) -> NodeUsage {
    let mut kinds = vec![Level::default(); table.kinds.len()];
    for &(kind, total) in &node.kinds {
        if let Some(level) = kinds.get_mut(kind.at()) {
            level.total = total;
        }
    }
    let mut types = vec![Level::default(); table.types.len()];
    for &(gres_type, total) in &node.types {
        if let Some(level) = types.get_mut(gres_type.at()) {
            level.total = total;
        }
    }
    NodeUsage {
        cpus: Level { total: node.cpus, used: 0 },
        memory_mb: Level { total: node.memory_mb, used: 0 },
        kinds,
        types,
        jobs: 0,
        cores: node.cores,
        cores_used: BySocket::default(),
        parts: Parts::of(&table.parts),
    }
}

/// Takes back from the usage of a node what a job held there.
pub fn give_back(usage: &mut NodeUsage, held: &Held) {
    apply(usage, held, u64::saturating_sub, u16::saturating_sub);
    usage.jobs = usage.jobs.saturating_sub(1);
}

fn apply(
    usage: &mut NodeUsage,
    held: &Held,
    op: fn(u64, u64) -> u64,
    on_socket: fn(u16, u16) -> u16,
) {
    usage.cpus.used = op(usage.cpus.used, held.cpus);
    for (used, held) in usage.cores_used.iter_mut().zip(held.cores) {
        *used = on_socket(*used, held);
    }
    usage.memory_mb.used = op(usage.memory_mb.used, held.memory_mb);
    for &(kind, gres_type, count) in &held.gres {
        if let Some(level) = usage.kinds.get_mut(kind.at()) {
            level.used = op(level.used, count);
        }
        if let Some(level) = gres_type.and_then(|t| usage.types.get_mut(t.at())) {
            level.used = op(level.used, count);
        }
    }
}

/// Whether no other node lies between two; empty slots of the node table do not count.
pub(crate) fn are_neighbours(table: &Table, a: NodeIdx, b: NodeIdx) -> bool {
    (a.at() + 1..b.at()).all(|at| table.nodes.get(at).is_some_and(|node| node.name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        let node = |name: &str| TableNode {
            name: name.into(),
            cpus: 8,
            threads: 1,
            memory_mb: 100,
            weight: 1,
            kinds: vec![(0.into(), 4)],
            types: vec![(1.into(), 4)],
            ..TableNode::default()
        };
        Cluster::new(Table {
            nodes: vec![node("a"), TableNode::default(), node("c")],
            kinds: vec!["gpu".into()],
            types: vec!["gpu:a100".into(), "gpu:v100".into()],
            ..Table::default()
        })
    }

    fn job(id: u32, nodes: &[u32], cpus: u64) -> RunningJob {
        let held = |&node: &u32| Held {
            node: node.into(),
            cpus,
            memory_mb: 10,
            cores: [u16::try_from(cpus).unwrap(), 1, 0, 0, 0, 0, 0, 0],
            gres: vec![(0.into(), Some(1.into()), 2)],
        };
        RunningJob { id, held: nodes.iter().map(held).collect(), ..RunningJob::default() }
    }

    #[test]
    fn repeated_and_replaced_allocations_do_not_drift() {
        let mut cluster = cluster();
        cluster.set_job(job(1, &[0, 2], 4), |_| {});
        cluster.set_job(job(1, &[0, 2], 4), |_| {});
        cluster.set_job(job(2, &[2], 3), |_| {});
        assert_eq!(cluster.usages()[2].cpus.used, 7);
        assert_eq!(cluster.usages()[2].types[1].used, 4);
        assert_eq!(cluster.usages()[2].cores_used, [7, 2, 0, 0, 0, 0, 0, 0]);
        cluster.set_job(job(1, &[0], 1), |_| {});
        assert_eq!((cluster.usages()[0].cpus.used, cluster.usages()[2].cpus.used), (1, 3));
        assert!(cluster.end_job(1, |_| {}));
        assert!(!cluster.end_job(1, |_| {}));
        cluster.end_job(2, |_| {});
        let idle = Cluster::new(Table::clone(cluster.table()));
        assert_eq!(cluster.usages(), idle.usages());
    }

    /// Goal: nodes of one kind have equal usage, those of two kinds not, and a node that has
    /// changed has no kind until its usage is looked up.
    #[test]
    fn nodes_of_one_kind_are_used_alike() {
        let mut cluster = cluster();
        let idle: Vec<NodeIdx> = [0, 2].map(NodeIdx::new).to_vec();
        let of = |cluster: &Cluster, at: usize| cluster.alike().of(NodeIdx::new(at));
        assert_eq!(idle.iter().find_map(|node| cluster.alike().of(*node)), None);
        for step in 0..200 {
            let id = step % 5;
            match step * 7 % 3 {
                0 => _ = cluster.end_job(id, |_| {}),
                _ => cluster.set_job(job(id, &[step * 5 % 3 / 2 * 2], u64::from(step % 3)), |_| {}),
            }
            cluster.want_alike();
            cluster.settle();
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                let usages = cluster.usages();
                assert_eq!(of(&cluster, a) == of(&cluster, b), usages[a] == usages[b], "{step}");
            }
            assert!((0..3).all(|at| of(&cluster, at).is_some_and(|k| k < cluster.alike().count())));
        }
        assert!(cluster.alike().count() < 100, "kinds that no node has are forgotten");
    }

    #[test]
    fn every_change_is_reported() {
        let mut cluster = cluster();
        let mut changes = Vec::new();
        let mut report = |change: Change<'_>| {
            changes.push(match change {
                Change::Take(h) => (h.node.at(), i64::try_from(h.cpus).unwrap()),
                Change::Give(h) => (h.node.at(), -i64::try_from(h.cpus).unwrap()),
            });
        };
        cluster.set_job(job(1, &[0, 2], 4), &mut report);
        cluster.set_job(job(1, &[2], 4), &mut report);
        assert_eq!(changes, [(0, 4), (2, 4), (0, -4), (2, -4), (2, 4)]);
    }
}
