// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds the scarcest resource of a pool of partitions, by what its jobs ask for.

use std::collections::BTreeMap;

use super::Pools;
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::snapshot::{Job, Snapshot};

/// A pool: amounts by dimension, which are CPUs, memory in MiB, then GRES by kind.
#[derive(Debug, Clone, Default)]
struct Pool {
    /// Number of nodes that may start jobs.
    nodes: u64,
    /// Amounts of the pool's nodes.
    total: Vec<u64>,
    /// Amounts that jobs ask for.
    asked: Vec<u64>,
}

/// The pools of a cluster, and for each the dimension that jobs ask for most.
#[derive(Debug, Clone)]
pub struct Scarcity<'a> {
    names: Pools<'a>,
    pools: BTreeMap<u32, Pool>,
}

impl<'a> Scarcity<'a> {
    /// Measures the pools of a snapshot by `jobs`.
    pub fn of<'j>(snapshot: &'a Snapshot, jobs: impl Iterator<Item = &'j Job>) -> Self {
        let usages = NodeUsage::of_snapshot(snapshot);
        let zeros = vec![0; 2 + snapshot.gres_kinds.len()];
        let mut found = Self { names: Pools::of_nodes(snapshot), pools: BTreeMap::new() };
        for (number, nodes) in found.names.nodes(snapshot) {
            let mut pool = Pool { nodes: 0, total: zeros.clone(), asked: zeros.clone() };
            let available = |at: &usize| snapshot.nodes.get(*at).is_some_and(|n| n.available);
            let nodes = nodes.iter().map(NodeIdx::at);
            for usage in nodes.filter(available).filter_map(|at| usages.get(at)) {
                let kinds = usage.kinds.iter().map(|level| level.total);
                add(
                    &mut pool.total,
                    [usage.cpus.total, usage.memory_mb.total].into_iter().chain(kinds),
                );
                pool.nodes += 1;
            }
            found.pools.insert(number, pool);
        }
        for job in jobs {
            let tasks = job.task_count.max(1);
            let asked: Vec<u64> = found.asked(job);
            if let Some(pool) = found.pools.get_mut(&found.names.of_job(&job.partitions)) {
                add(&mut pool.asked, asked.into_iter().map(|amount| amount.saturating_mul(tasks)));
            }
        }
        found
    }

    /// The number of a job's pool.
    pub fn pool_of(&self, job: &Job) -> u32 {
        self.names.of_job(&job.partitions)
    }

    /// Each pool with the dimension of which jobs ask for the largest share; of equal ones the
    /// first.
    pub fn scarcest(&self) -> impl Iterator<Item = (u32, usize)> {
        self.pools.iter().map(|(number, pool)| {
            // As integers: parts of a millionth.
            let share = |at: usize| {
                let of = |list: &[u64]| u128::from(list.get(at).copied().unwrap_or(0));
                (of(&pool.asked) * 1_000_000).checked_div(of(&pool.total)).unwrap_or(0)
            };
            (*number, (0..pool.total.len()).rev().max_by_key(|at| share(*at)).unwrap_or(0))
        })
    }

    /// The amount of a dimension that a pool has.
    pub fn total(&self, pool: u32, dimension: usize) -> u64 {
        let pool = self.pools.get(&pool);
        pool.and_then(|pool| pool.total.get(dimension)).copied().unwrap_or(0)
    }

    /// The amount of a dimension that a job, or an array's task, asks for.
    pub fn size(&self, job: &Job, dimension: usize) -> u64 {
        self.asked(job).get(dimension).copied().unwrap_or(0)
    }

    fn asked(&self, job: &Job) -> Vec<u64> {
        let Some(pool) = self.pools.get(&self.pool_of(job)) else { return Vec::new() };
        let count = job.shape.wanted_nodes();
        let (nodes, need) = (u64::from(count), job.shape.need(count));
        let mut amounts = vec![0; pool.total.len()];
        let cpus = need.cpus.saturating_mul(nodes).max(u64::from(job.shape.min_cpus));
        let gres = need.gres.iter().map(|(kind, _, count)| (2 + kind.at(), *count));
        for (at, count) in [(1, need.memory_mb)].into_iter().chain(gres) {
            let slot = amounts.get_mut(at);
            slot.into_iter().for_each(|slot| *slot += count.saturating_mul(nodes));
        }
        for (at, (slot, total)) in amounts.iter_mut().zip(&pool.total).enumerate() {
            *slot = (*slot).max(if at == 0 { cpus } else { 0 });
            if need.whole || (at == 1 && need.all_memory) {
                // A whole node is as large as nodes are on average.
                let whole = total.saturating_mul(nodes).checked_div(pool.nodes).unwrap_or(0);
                *slot = (*slot).max(whole);
            }
        }
        amounts
    }
}

fn add(sum: &mut [u64], more: impl Iterator<Item = u64>) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
}
