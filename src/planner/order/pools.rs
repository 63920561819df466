// SPDX-License-Identifier: GPL-3.0-or-later
//! Groups partitions that compete for nodes.

use std::collections::BTreeMap;

use phalanx_core::NodeSet;
use phalanx_core::number::as_u32;
use phalanx_core::snapshot::{Job, JobState, Partition, Snapshot};

/// Pools of partitions that compete: those that share nodes, directly, through other partitions, or
/// through a job that waits for several.
#[derive(Debug, Clone)]
pub struct Pools<'a> {
    by_name: BTreeMap<&'a str, u32>,
}

impl<'a> Pools<'a> {
    /// Groups the partitions of a snapshot by shared nodes and by its waiting jobs.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let several = snapshot.all_jobs().filter(|j| j.partitions.contains(','));
        Self::joined(snapshot, several.filter(|j| j.state == JobState::Pending))
    }

    /// Groups the partitions by their nodes alone.
    pub fn of_nodes(snapshot: &'a Snapshot) -> Self {
        Self::joined(snapshot, std::iter::empty())
    }

    fn joined<'j>(snapshot: &'a Snapshot, several: impl Iterator<Item = &'j Job>) -> Self {
        let list: &[Partition] = &snapshot.partitions;
        let mut pool: Vec<usize> = (0..list.len()).collect();
        for (i, a) in list.iter().enumerate() {
            for (j, b) in list.iter().enumerate().take(i) {
                if a.nodes.meets(&b.nodes) {
                    join(&mut pool, i, j);
                }
            }
        }
        let index: BTreeMap<&str, usize> =
            list.iter().enumerate().map(|(i, p)| (&*p.name, i)).collect();
        for job in several {
            let mut each = job.partitions.split(',').filter_map(|name| index.get(name));
            let Some(&first) = each.next() else { continue };
            each.for_each(|&other| join(&mut pool, first, other));
        }
        let number =
            |(name, i): (&'a str, usize)| (name, pool.get(i).map_or(0, |&p| as_u32(p + 1)));
        Self { by_name: index.into_iter().map(number).collect() }
    }

    /// The nodes of each pool.
    pub fn nodes(&self, snapshot: &Snapshot) -> BTreeMap<u32, NodeSet> {
        let mut found: BTreeMap<u32, NodeSet> = BTreeMap::new();
        for partition in &snapshot.partitions {
            let pool = self.of_job(&partition.name);
            let none = || NodeSet::new(snapshot.nodes.len());
            found.entry(pool).or_insert_with(none).union_with(&partition.nodes);
        }
        found
    }

    /// The number of a job's pool; 0 for a job whose partition is unknown, which competes with
    /// others like it.
    pub fn of_job(&self, names: &str) -> u32 {
        let first = names.split(',').next().unwrap_or_default();
        self.by_name.get(first).copied().unwrap_or(0)
    }
}

/// Joins two pools: all partitions of both get the lower number.
fn join(pool: &mut [usize], a: usize, b: usize) {
    let (Some(&a), Some(&b)) = (pool.get(a), pool.get(b)) else { return };
    let (low, high) = (a.min(b), a.max(b));
    pool.iter_mut().filter(|p| **p == high).for_each(|p| *p = low);
}
