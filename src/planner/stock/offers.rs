// SPDX-License-Identifier: GPL-3.0-or-later
//! Offers of the candidates: what a job could have of each.
//!
//! Sources: `can_job_run_on_node`, `_select_cores` and, for jobs with GRES,
//! `gres_select_filter_remove_unusable` and `gres_select_filter_sock_core` of
//! `plugins/select/cons_tres` (`cons_common` before 23.02).

use super::ask::{GRES, Offer, signed};
use crate::cluster::Cluster;
use crate::room::{one_task, room_for};
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::layout::BySocket;
use phalanx_core::number::nearest_u32;
use phalanx_core::shape::{GresWant, Memory, Shape, Sharing};
use phalanx_core::snapshot::Table;

/// Number of nodes below which each is looked at by itself.
const FEW: usize = 32;
/// First release that counts a node's CPUs by its tasks: 23.02.7.
const BY_TASKS: u32 = 0x0017_0207;

/// Candidates that stock would not leave out, ascending by node; `class`: what Slurm takes last,
/// then Weight. `excluded`: cores of a node that the job may not have.
pub fn offers(
    cluster: &Cluster,
    shape: &Shape,
    candidates: impl Iterator<Item = NodeIdx>,
    class: impl Fn(NodeIdx) -> (u32, u32),
    excluded: impl Fn(NodeIdx) -> BySocket,
) -> Vec<Offer> {
    // Slurm raises the CPUs of a node to those of its tasks: they are no need of each task.
    let mut one = match shape.ntasks_per_node {
        0 => one_task(shape),
        _ => one_task(&Shape { pn_min_cpus: 0, ..shape.clone() }),
    };
    // Older releases take all free CPUs, as all do for jobs with GRES.
    let by_tasks = cluster.table().slurm == 0 || cluster.table().slurm >= BY_TASKS;
    one.cores.gres |= !by_tasks;
    let each = u64::from(shape.cpus_per_task.max(1));
    let least = match (shape.ntasks_per_node, shape.max_nodes) {
        (0, 1) => shape.tasks(),
        (0, _) => 1,
        (per_node, _) => u64::from(per_node),
    };
    let least = if shape.overcommit { 1 } else { least };
    let counted = |tasks: u64, cpus: u64| match shape.ntasks_per_node {
        _ if !by_tasks => by_memory(shape, cpus),
        1.. if shape.sharing != Sharing::Whole => tasks.min(shape.ntasks_per_node.into()) * each,
        _ => tasks * each,
    };
    let of = |usage: &NodeUsage, kept: &BySocket| {
        let ([tasks, gres @ ..], cpus) = room_for(shape, &one, usage, kept)?;
        let gres: [u64; GRES] = gres;
        let per_core = one.cores.cpus_per_core(&usage.cores).unwrap_or(1);
        let sockets = u64::from(usage.cores.sockets.max(1));
        let whole =
            if shape.layout.whole_sockets { u64::from(usage.cores.cores) / sockets } else { 1 };
        let reserve = signed(per_core * whole.max(1));
        let (mut near, mut gpus) = (0, 0);
        let wanted = shape.gres.iter().filter(|want| is_gpu(cluster.table(), want));
        for free in wanted.map(|want| gpus_of(shape, want, usage)) {
            (near, gpus) = (near + free.near, gpus + free.all);
        }
        let near = nearest_u32(near).min(0xff);
        let (all, cpus) = match shape.gres.is_empty() {
            true => (counted(tasks, cpus), counted(tasks, cpus)),
            false => (by_memory(shape, cpus), beside_gres(shape, usage, cpus, per_core)),
        };
        (tasks >= least).then(|| Offer {
            node: NodeIdx::new(0),
            class: (0, 0, 0xff - near),
            cpus: signed(cpus),
            size: signed(all + gpus),
            reserve,
            tasks,
            gres,
        })
    };
    let least = candidates.size_hint().0;
    let kinds = if least < FEW { 0 } else { cluster.alike().count() };
    let mut known = Known { at: vec![0; kinds], found: Vec::new() };
    let mut offers = Vec::with_capacity(least);
    for node in candidates {
        let kept = excluded(node);
        let own = || cluster.usages().get(node.at()).and_then(|usage| of(usage, &kept));
        let is_known = least >= FEW && kept == BySocket::default();
        let kind = cluster.alike().of(node).filter(|_| is_known);
        let alone = if kind.is_none() { own() } else { None };
        let found = kind.map_or(alone.as_ref(), |kind| known.of(kind, own));
        if let Some(offer) = found {
            let (tier, weight) = class(node);
            offers.push(Offer { node, class: (tier, weight, offer.class.2), ..*offer });
        }
    }
    offers
}

/// Offers that were worked out, by kind of node.
struct Known {
    /// Place of a kind in `found`, from 1 on; 0: the kind was not looked at.
    at: Vec<u32>,
    found: Vec<Option<Offer>>,
}

impl Known {
    fn of(&mut self, kind: usize, work_out: impl FnOnce() -> Option<Offer>) -> Option<&Offer> {
        let at = self.at.get_mut(kind)?;
        if *at == 0 {
            self.found.push(work_out());
            *at = u32::try_from(self.found.len()).ok()?;
        }
        self.found.get(*at as usize - 1)?.as_ref()
    }
}

/// CPUs without those beyond the last task, which stock leaves out where memory goes by CPU.
fn by_memory(shape: &Shape, cpus: u64) -> u64 {
    match shape.memory {
        Memory::PerCpu(_) => cpus - cpus % u64::from(shape.cpus_per_task.max(1)),
        _ => cpus,
    }
}

fn is_gpu(table: &Table, want: &GresWant) -> bool {
    table.kinds.get(want.kind.at()).is_some_and(|kind| &**kind == "gpu")
}

/// GPUs of a node.
struct Gpus {
    /// GPUs that the job could use.
    near: u64,
    /// GPUs that the job may have.
    all: u64,
}

fn gpus_of(shape: &Shape, want: &GresWant, usage: &NodeUsage) -> Gpus {
    let mut all = usage.gres_free(want.kind, want.gres_type);
    let mut near = all;
    if shape.sharing != Sharing::Whole {
        let asked = if want.per_node > 0 { want.per_node } else { want.per_job };
        near = near.min(if asked > 0 { asked } else { u64::MAX });
    }
    let by_cpus = usage.cpus.free().checked_div(u64::from(want.cpus_per_gres));
    let by_memory = usage.memory_mb.free().checked_div(want.mem_per_gres_mb);
    near = near.min(by_cpus.unwrap_or(u64::MAX)).min(by_memory.unwrap_or(u64::MAX));
    all = all.min(by_memory.unwrap_or(u64::MAX));
    Gpus { near, all }
}

/// CPUs that stock counts of a node for a job with GRES: those of the most tasks there, or of the
/// GRES, in whole cores.
fn beside_gres(shape: &Shape, usage: &NodeUsage, cpus: u64, per_core: u64) -> u64 {
    let each = u64::from(shape.cpus_per_task.max(1));
    if shape.overcommit {
        return cpus;
    }
    let given = match (shape.ntasks_per_node, shape.max_nodes, shape.num_tasks) {
        (0, 1, 1..) => u64::from(shape.num_tasks),
        (0, _, 1) => 1,
        (0, most, tasks) if tasks == most && tasks == shape.min_nodes => 1,
        (0, ..) => u64::MAX,
        (per_node, ..) => u64::from(per_node),
    };
    let mut tasks = given.min(cpus / each);
    let (mut of_gres, mut by_gres) = (0, false);
    for want in &shape.gres {
        let free = usage.gres_free(want.kind, want.gres_type);
        tasks = tasks.min(free.checked_div(want.per_task).unwrap_or(u64::MAX));
        let cpus_per = u64::from(want.cpus_per_gres);
        let count = if want.per_node > 0 {
            want.per_node
        } else if want.per_task > 0 {
            want.per_task.saturating_mul(tasks)
        } else {
            let asked = if want.per_job > 0 { want.per_job } else { free };
            free.min(asked).min(cpus.checked_div(cpus_per).unwrap_or(u64::MAX))
        };
        of_gres = of_gres.max(count.saturating_mul(cpus_per));
        by_gres |= cpus_per > 0;
    }
    let needed = tasks.saturating_mul(each);
    let cores = needed.max(of_gres).div_ceil(per_core.max(1)) * per_core.max(1);
    let left = cpus.min(cores);
    if by_gres { left } else { left.min(needed) }
}
