// SPDX-License-Identifier: GPL-3.0-or-later
//! The exact usage of every node: which job holds what where.
//!
//! A [`Cluster`] starts from a node table and takes jobs' allocations as they
//! begin, change and end. A job's allocation is always given whole and
//! replaces what was known of it, so a repeated or lost message cannot make
//! the sums drift; whoever feeds it starts anew with a fresh table.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::usage::{Level, NodeUsage};
use phalanx_core::snapshot::Snapshot;

/// One node of the table. Empty slots of Slurm's table have an empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNode {
    /// NodeName.
    pub name: Arc<str>,
    /// Usable CPUs.
    pub cpus: u64,
    /// Hardware threads per core, at least 1.
    pub threads: u32,
    /// Usable memory, MiB.
    pub memory_mb: u64,
    /// Slurm's Weight: low ones are taken first.
    pub weight: u32,
    /// GRES counts: kind id and count.
    pub kinds: Vec<(u32, u64)>,
    /// GRES counts: type id and count.
    pub types: Vec<(u32, u64)>,
}

/// The node table with the names of its GRES.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// By Slurm's node index.
    pub nodes: Vec<TableNode>,
    /// Kind names (`gpu`) by id.
    pub kinds: Vec<Arc<str>>,
    /// Type names (`gpu:a100`) by id.
    pub types: Vec<Arc<str>>,
}

impl Table {
    /// The nodes of a snapshot, with its GRES ids.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        let nodes = snapshot.nodes.iter().map(|node| TableNode {
            name: Arc::clone(&node.name),
            cpus: node.cpus,
            threads: 1,
            memory_mb: node.memory_mb,
            weight: node.weight,
            kinds: Vec::new(),
            types: Vec::new(),
        });
        Self {
            nodes: nodes.collect(),
            kinds: snapshot.gres_kinds.clone(),
            types: snapshot.gres_types.clone(),
        }
    }
}

/// Resources of a job on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Node index.
    pub node: usize,
    /// CPUs, 0 while suspended.
    pub cpus: u64,
    /// Memory, MiB.
    pub memory_mb: u64,
    /// GRES: kind id, type id if typed, count.
    pub gres: Vec<(u32, Option<u32>, u64)>,
}

/// A running or suspended job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningJob {
    /// Job id.
    pub id: u32,
    /// Id of its array and task, if it is of one.
    pub array: Option<(u32, u32)>,
    /// User id.
    pub user_id: u32,
    /// Unix seconds.
    pub start_s: u64,
    /// Nodes in index order.
    pub held: Vec<Held>,
}

/// A change of what is in use on one node.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// The job now holds this.
    Take(&'a Held),
    /// The job no longer holds this.
    Give(&'a Held),
}

/// Node table, usage and jobs.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    table: Arc<Table>,
    usages: Vec<NodeUsage>,
    jobs: BTreeMap<u32, RunningJob>,
    index: BTreeMap<Arc<str>, usize>,
}

impl Cluster {
    /// An idle cluster with these nodes.
    pub fn new(table: Table) -> Self {
        let usages = table.nodes.iter().map(|node| idle_usage(&table, node)).collect();
        let named = table.nodes.iter().enumerate().filter(|(_, n)| !n.name.is_empty());
        let index = named.map(|(i, n)| (Arc::clone(&n.name), i)).collect();
        Self { usages, jobs: BTreeMap::new(), index, table: Arc::new(table) }
    }

    /// A cluster whose usage is known but not who causes it.
    pub fn with_usages(table: Table, usages: Vec<NodeUsage>) -> Self {
        let mut cluster = Self::new(table);
        if usages.len() == cluster.usages.len() {
            cluster.usages = usages;
        }
        cluster
    }

    /// The node table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Usage by node index.
    pub fn usages(&self) -> &[NodeUsage] {
        &self.usages
    }

    /// Jobs by id.
    pub fn jobs(&self) -> &BTreeMap<u32, RunningJob> {
        &self.jobs
    }

    /// Index of a node.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The job now holds exactly this. Calls `changed` for every node entry
    /// given back or taken.
    pub fn set_job(&mut self, job: RunningJob, mut changed: impl FnMut(Change<'_>)) {
        self.end_job(job.id, &mut changed);
        for held in &job.held {
            if let Some(usage) = self.usages.get_mut(held.node) {
                apply(usage, held, u64::saturating_add);
                usage.jobs = usage.jobs.saturating_add(1);
                changed(Change::Take(held));
            }
        }
        self.jobs.insert(job.id, job);
    }

    /// The job gave everything back. False if it was not known.
    pub fn end_job(&mut self, id: u32, mut changed: impl FnMut(Change<'_>)) -> bool {
        let Some(job) = self.jobs.remove(&id) else { return false };
        for held in &job.held {
            if let Some(usage) = self.usages.get_mut(held.node) {
                give_back(usage, held);
                changed(Change::Give(held));
            }
        }
        true
    }
}

fn idle_usage(table: &Table, node: &TableNode) -> NodeUsage {
    let levels = |len: usize, counts: &[(u32, u64)]| {
        let mut levels = vec![Level::default(); len];
        for &(id, total) in counts {
            if let Some(level) = levels.get_mut(id as usize) {
                level.total = total;
            }
        }
        levels
    };
    NodeUsage {
        cpus: Level { total: node.cpus, used: 0 },
        memory_mb: Level { total: node.memory_mb, used: 0 },
        kinds: levels(table.kinds.len(), &node.kinds),
        types: levels(table.types.len(), &node.types),
        jobs: 0,
    }
}

/// Takes back from the usage of a node what a job held there.
pub fn give_back(usage: &mut NodeUsage, held: &Held) {
    apply(usage, held, u64::saturating_sub);
    usage.jobs = usage.jobs.saturating_sub(1);
}

fn apply(usage: &mut NodeUsage, held: &Held, op: fn(u64, u64) -> u64) {
    usage.cpus.used = op(usage.cpus.used, held.cpus);
    usage.memory_mb.used = op(usage.memory_mb.used, held.memory_mb);
    for &(kind, gres_type, count) in &held.gres {
        if let Some(level) = usage.kinds.get_mut(kind as usize) {
            level.used = op(level.used, count);
        }
        if let Some(level) = gres_type.and_then(|t| usage.types.get_mut(t as usize)) {
            level.used = op(level.used, count);
        }
    }
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
            kinds: vec![(0, 4)],
            types: vec![(1, 4)],
        };
        Cluster::new(Table {
            nodes: vec![node("a"), TableNode::default(), node("c")],
            kinds: vec!["gpu".into()],
            types: vec!["gpu:a100".into(), "gpu:v100".into()],
        })
    }

    fn job(id: u32, nodes: &[usize], cpus: u64) -> RunningJob {
        let held = |&node: &usize| Held { node, cpus, memory_mb: 10, gres: vec![(0, Some(1), 2)] };
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
        cluster.set_job(job(1, &[0], 1), |_| {});
        assert_eq!((cluster.usages()[0].cpus.used, cluster.usages()[2].cpus.used), (1, 3));
        assert!(cluster.end_job(1, |_| {}));
        assert!(!cluster.end_job(1, |_| {}));
        cluster.end_job(2, |_| {});
        let idle = Cluster::new(Table::clone(cluster.table()));
        assert_eq!(cluster.usages(), idle.usages());
        assert_eq!(cluster.node("c"), Some(2));
        assert_eq!(cluster.node(""), None);
    }

    #[test]
    fn every_change_is_told() {
        let mut cluster = cluster();
        let mut told = Vec::new();
        let mut tell = |change: Change<'_>| {
            told.push(match change {
                Change::Take(h) => (h.node, i64::try_from(h.cpus).unwrap()),
                Change::Give(h) => (h.node, -i64::try_from(h.cpus).unwrap()),
            });
        };
        cluster.set_job(job(1, &[0, 2], 4), &mut tell);
        cluster.set_job(job(1, &[2], 4), &mut tell);
        assert_eq!(told, [(0, 4), (2, 4), (0, -4), (2, -4), (2, 4)]);
    }
}
