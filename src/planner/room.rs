// SPDX-License-Identifier: GPL-3.0-or-later
//! Tasks of a job for which a node has room, and the nodes that a job takes where their number is
//! open.

use crate::usage::NodeUsage;
use phalanx_core::layout::{self, BySocket, CoreAsk};
use phalanx_core::shape::{Memory, Need, Shape};

/// Number of amounts of which the whole job needs some: tasks, and GRES asked for per job.
const UNITS: usize = 4;
type Units = [u64; UNITS];

/// Whether another number of nodes or an uneven number of tasks is allowed.
pub fn may_split_otherwise(shape: &Shape) -> bool {
    (shape.node_count_is_free() || shape.tasks() > 1) && shape.ntasks_per_node == 0
}

/// Number of nodes that a job takes if all are idle and like this one; `None`: they never hold it.
pub fn nodes_when_idle(shape: &Shape, usage: &NodeUsage) -> Option<u32> {
    let wanted = shape.wanted_nodes();
    if !(may_split_otherwise(shape) && shape.node_count_is_free()) {
        return Some(wanted);
    }
    let needed = needed(shape)?;
    let units = units(shape, &one_task(shape), &usage.idle(), &BySocket::default())?;
    let nodes = needed.iter().zip(units).filter(|(need, _)| **need > 0);
    let nodes = nodes.map(|(need, units)| need.div_ceil(units.max(1))).max()?;
    let nodes = u32::try_from(nodes).ok()?.max(wanted);
    // Slurm gives no node without a task.
    let tasks = if shape.num_tasks > 0 { shape.num_tasks } else { u32::MAX };
    (nodes <= shape.max_nodes.min(tasks).max(wanted)).then_some(nodes)
}

/// Amounts that a job needs on all of its nodes together; `None`: it has too many GRES per job.
fn needed(shape: &Shape) -> Option<Units> {
    let mut need = [0; UNITS];
    let by_cpus = shape.min_cpus.div_ceil(shape.cpus_per_task.max(1));
    need[0] = shape.tasks().max(u64::from(by_cpus));
    for (at, gres) in (1..).zip(shape.gres.iter().filter(|gres| gres.per_job > 0)) {
        *need.get_mut(at)? = gres.per_job;
    }
    Some(need)
}

/// Number of nodes that a job takes of the largest nodes while they are idle; as many as it wants,
/// if none holds a part of it.
pub fn nodes_needed<'a>(shape: &Shape, usages: impl IntoIterator<Item = &'a NodeUsage>) -> u32 {
    let open = may_split_otherwise(shape) && shape.node_count_is_free();
    let usages = open.then_some(usages).into_iter().flatten();
    let fewest = usages.filter_map(|usage| nodes_when_idle(shape, usage)).min();
    fewest.unwrap_or_else(|| shape.wanted_nodes())
}

/// Amounts of one task, with one of each GRES that is asked for per job. CPUs that GRES per node
/// bring are the node's, not each task's.
pub(crate) fn one_task(shape: &Shape) -> Need {
    let mut own = shape.clone();
    own.gres.iter_mut().filter(|want| want.per_node > 0).for_each(|want| want.cpus_per_gres = 0);
    let one = own.need_for(1, 1, u64::MAX);
    let cores = CoreAsk { cpus_per_gres: shape.need(1).cores.cpus_per_gres, ..one.cores };
    Need { cores, ..one }
}

/// Amounts of a job for which a node has room at present; `None`: for none.
fn units(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> Option<Units> {
    room_for(shape, one, usage, excluded).map(|(units, _)| units)
}

/// Amounts of a job for which a node has room at present, and the CPUs of its cores; `None`: for
/// none.
pub(crate) fn room_for(
    shape: &Shape,
    one: &Need,
    usage: &NodeUsage,
    excluded: &BySocket,
) -> Option<(Units, u64)> {
    let (tasks, cpus_of_cores) = tasks_and_cpus(shape, one, usage, excluded);
    let mut units = [tasks, 0, 0, 0];
    for (at, want) in (1..).zip(shape.gres.iter().filter(|gres| gres.per_job > 0)) {
        let cpus = usage.cpus.free().checked_div(u64::from(want.cpus_per_gres));
        let memory = usage.memory_mb.free().checked_div(want.mem_per_gres_mb);
        let free = usage.gres_free(want.kind, want.gres_type);
        let free = free.min(cpus.unwrap_or(u64::MAX)).min(memory.unwrap_or(u64::MAX));
        *units.get_mut(at).filter(|_| free > 0)? = free;
    }
    (units[0] > 0).then_some((units, cpus_of_cores))
}

/// Number of tasks that fit on a node at present, by every resource, without cores that the job may
/// not have. `one` is what one task needs.
pub fn capacity(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> u64 {
    tasks_and_cpus(shape, one, usage, excluded).0
}

fn tasks_and_cpus(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> (u64, u64) {
    let per = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
    let free_mb = usage.memory_mb.free();
    let by_memory = match shape.memory {
        Memory::PerCpu(_) => by_memory(one, usage),
        Memory::All if usage.memory_mb.used > 0 => 0,
        _ if one.memory_mb > free_mb => 0,
        _ => u64::MAX,
    };
    let each = one.cpus.max(1);
    let cpus = by_cores(one, usage, excluded).min(by_memory.saturating_mul(each));
    let mut tasks = cpus / each;
    for want in &shape.gres {
        let free = usage.gres_free(want.kind, want.gres_type);
        let cpus = want.per_node.saturating_mul(want.cpus_per_gres.into());
        if want.per_node > free || cpus > usage.cpus.free() {
            return (0, 0);
        }
        tasks = tasks.min(per(free, want.per_task));
    }
    let is_busy = one.whole && usage.jobs > 0;
    let too_few = usage.cpus.free() < u64::from(shape.pn_min_cpus);
    if is_busy || too_few { (0, 0) } else { (tasks, cpus) }
}

/// CPUs of a node that tasks could have at present.
fn by_cores(one: &Need, usage: &NodeUsage, excluded: &BySocket) -> u64 {
    let per_core = usage.cores.per_core();
    let free = usage.free_cpus(excluded);
    if usage.cores.cores == 0 {
        return free;
    }
    let Some(usable) = one.cores.cpus_per_core(&usage.cores) else { return 0 };
    let on = layout::tasks_on(&usage.cores, &usage.free_cores(one, excluded), &one.cores);
    on.map_or(0, |on| on.cpus.min(free / per_core * usable))
}

/// Number of tasks for whose memory by CPU a node has room at present.
fn by_memory(one: &Need, usage: &NodeUsage) -> u64 {
    let free_mb = usage.memory_mb.free();
    let Some(usable) = one.cores.cpus_per_core(&usage.cores) else { return 0 };
    let per_core = usage.cores.per_core();
    let by_thread = free_mb.checked_div(one.memory_mb).unwrap_or(u64::MAX);
    if per_core == 1 || !one.cores.layout.whole_cores {
        return by_thread;
    }
    let threads = u64::from(one.cores.layout.threads_per_core);
    let charged = if threads > 0 { per_core.min(threads) } else { per_core };
    let cores = free_mb.checked_div(one.mem_per_cpu_mb.saturating_mul(charged));
    by_thread.min(cores.map_or(u64::MAX, |cores| cores * usable / one.cpus.max(1)))
}
