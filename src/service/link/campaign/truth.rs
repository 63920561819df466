// SPDX-License-Identifier: GPL-3.0-or-later
//! Comparison of the mirror with what slurmctld has.

use crate::link::Responder;
use phalanx_core::layout::BySocket;
use phalanx_ffi::sim::{NODES_MAX, Truth};
use phalanx_planner::cluster::Cluster;

/// CPUs and memory, MiB, of a job on each of its nodes.
const CPUS: u64 = 2;
const MEMORY_MB: u64 = 100;

/// Compares the mirror with slurmctld; `Err`: the first difference. `whole`: the node table as
/// well.
pub(super) fn compare(responder: &Responder, truth: &Truth, whole: bool) -> Result<(), String> {
    responder
        .with_placer(|placer| of_cluster(placer.cluster(), truth, whole))
        .unwrap_or_else(|| Err("it is not complete".to_owned()))
}

fn of_cluster(cluster: &Cluster, truth: &Truth, whole: bool) -> Result<(), String> {
    let mut used = [(0u64, 0u64, 0u32); NODES_MAX];
    let jobs = truth.jobs.get(..truth.job_count as usize).unwrap_or_default();
    for job in jobs {
        let known = cluster.jobs().get(&job.job_id);
        let known = known.ok_or_else(|| format!("job {} is not in it", job.job_id))?;
        let nodes: Vec<usize> = (0..NODES_MAX).filter(|i| job.nodes >> i & 1 == 1).collect();
        let held: Vec<usize> = known.held.iter().map(|held| held.node.at()).collect();
        if nodes != held {
            return Err(format!("job {} has {nodes:?}, there {held:?}", job.job_id));
        }
        let cpus = if job.suspended == 0 { CPUS } else { 0 };
        let cores = BySocket::default();
        for held in &known.held {
            let at = held.node.at();
            if (held.cpus, held.memory_mb) != (cpus, MEMORY_MB)
                || (held.cores == cores) != (cpus == 0)
            {
                return Err(format!(
                    "job {} has {cpus} CPUs on node {at}, there {} and {} MB",
                    job.job_id, held.cpus, held.memory_mb
                ));
            }
            used[at] = (used[at].0 + cpus, used[at].1 + MEMORY_MB, used[at].2 + 1);
        }
    }
    if let Some(id) = cluster.jobs().keys().find(|id| !jobs.iter().any(|job| job.job_id == **id)) {
        return Err(format!("job {id} holds nothing any more, but is in it"));
    }
    if cluster.usages().len() != truth.node_count as usize {
        return Err(format!("{} nodes, expected {}", cluster.usages().len(), truth.node_count));
    }
    for (at, usage) in cluster.usages().iter().enumerate() {
        let found = (usage.cpus.used, usage.memory_mb.used, usage.jobs);
        if found != used[at] {
            return Err(format!("node {at} has {:?} in use, there {found:?}", used[at]));
        }
        if whole && usage.memory_mb.total != truth.memory_mb[at] {
            return Err(format!(
                "node {at} has {} MB, there {}",
                truth.memory_mb[at], usage.memory_mb.total
            ));
        }
    }
    Ok(())
}
