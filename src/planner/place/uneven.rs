// SPDX-License-Identifier: GPL-3.0-or-later
//! Other numbers of nodes, and uneven numbers of tasks by what is free on each node.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Why;
use super::search::{Search, Split};
use super::topology::{Chooser, Route};
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::layout::{self, BySocket};
use phalanx_core::shape::{LeftToSlurm, Memory, Need, Shape, Sharing};
use phalanx_methods::balance::{Decision, Holding, Outcome, Request};

/// Nodes of one uneven split whose scores are kept.
const SCORED_MAX: usize = 64;

impl<'a> Search<'a> {
    /// Splits unevenly, or on more nodes, by the rule for several nodes.
    pub(super) fn other_split_by_route(&mut self) -> Result<Split, Why> {
        match self.chooser.routes.many {
            Route::Left(option) => Err(Why::Left(option)),
            Route::Run => Err(Why::Left(LeftToSlurm::Contiguous)),
            // It places the fewest nodes and no other number.
            Route::Block(_) => Err(Why::NoFit),
            Route::Tree(at) if self.shape.gres.iter().all(|gres| gres.per_job == 0) => {
                self.other_split_on_leaves(at)
            }
            Route::Any | Route::Tree(_) => self.other_split(),
        }
    }

    /// The user left the number of nodes or the tasks on each open.
    pub(super) fn other_split(&mut self) -> Result<Split, Why> {
        let shape = self.shape;
        if shape.gres.iter().any(|g| g.per_job > 0) {
            return self.more_nodes();
        }
        let tasks_on = self.tasks_on();
        let nodes = self.chooser.sets.mask.iter().map(|node| (tasks_on(node), node));
        let nodes = nodes.filter(|(tasks, _)| *tasks > 0).collect();
        let shares = fewest_nodes(nodes, shape, self.wanted).ok_or(Why::NoFit)?;
        let nodes = shares.len() as u64;
        let need =
            |&(tasks, node): &(u64, NodeIdx)| self.need_on(node, &shape.need_for(tasks, 1, nodes));
        let needs: Vec<Need> = shares.iter().map(need).collect();
        let chosen: Vec<NodeIdx> = shares.iter().map(|(_, node)| *node).collect();
        let decision = self.score(&chosen, &needs)?;
        Ok((chosen, needs, decision))
    }

    /// Returns how many tasks fit on a node now, beside cores that the job may not have.
    pub(super) fn tasks_on(&self) -> impl Fn(NodeIdx) -> u64 + use<'a> {
        let (shape, cluster) = (self.shape, self.chooser.cluster);
        let excluded = self.candidates.excluded();
        let one = shape.need_for(1, 1, 1);
        move |node| {
            let kept = excluded.iter().find(|excluded| excluded.node == node);
            let kept = kept.map_or_else(BySocket::default, |excluded| excluded.cores);
            cluster.usage(node).map_or(0, |usage| capacity(shape, &one, usage, &kept))
        }
    }

    /// GRES per job: more nodes with a smaller even share each.
    fn more_nodes(&mut self) -> Result<Split, Why> {
        let offered = self.chooser.sets.mask.clone();
        let most_gres = self.shape.gres.iter().map(|g| g.per_job).filter(|n| *n > 0).min();
        let most = most_gres.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
        let mut nodes = self.wanted.saturating_mul(2);
        while nodes <= self.shape.max_nodes.min(most) {
            self.chooser.sets.mask.clone_from(&offered);
            match self.even_split(nodes) {
                Err(Why::NoFit) => nodes = nodes.saturating_mul(2),
                other => return other,
            }
        }
        Err(Why::NoFit)
    }

    /// Dispersions of nodes that were chosen by capacity.
    fn score(&mut self, chosen: &[NodeIdx], needs: &[Need]) -> Result<Decision, Why> {
        let mut scored: Option<Decision> = None;
        for (&node, need) in chosen.iter().zip(needs).take(SCORED_MAX) {
            self.fill_amounts(need)?;
            let Chooser { sets, engine, .. } = &mut self.chooser;
            sets.part.clear();
            sets.part.insert(node);
            let request = Request { holding: Holding::Never, ..Request::new(self.amounts) };
            let decided = engine.decide(&sets.part, &request).map_err(|_| Why::NoFit)?;
            let Outcome::Placed(choice) = &decided.outcome else { continue };
            match scored.as_mut().map(|d| &mut d.outcome) {
                Some(Outcome::Placed(choices)) => choices.extend_from_slice(choice),
                _ => scored = Some(decided),
            }
        }
        scored.ok_or(Why::NoFit)
    }
}

/// Whether another number of nodes or an uneven number of tasks is allowed.
pub fn may_split_otherwise(shape: &Shape) -> bool {
    // Whole nodes have been split since the daemon knows their cores.
    (shape.sharing == Sharing::Shared || shape.layout.whole_cores)
        && (shape.node_count_is_free() || shape.tasks() > 1)
        && shape.ntasks_per_node == 0
}

/// Tasks that fit on a node now, by every resource, beside cores that the job may not have.
/// `one` is what one task needs.
pub fn capacity(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> u64 {
    let per = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
    let free_mb = usage.memory_mb.free();
    let by_memory = match shape.memory {
        Memory::PerCpu(_) => by_memory(one, usage),
        Memory::All if usage.memory_mb.used > 0 => 0,
        _ if one.memory_mb > free_mb => 0,
        _ => u64::MAX,
    };
    let mut tasks = by_memory.min(by_cores(one, usage, excluded));
    for want in &shape.gres {
        let free = usage.gres_free(want.kind, want.gres_type);
        if want.per_node > free {
            return 0;
        }
        tasks = tasks.min(per(free, want.per_task));
    }
    let is_busy = one.whole && usage.jobs > 0;
    if is_busy || usage.cpus.free() < u64::from(shape.pn_min_cpus) { 0 } else { tasks }
}

/// Tasks that a node's CPUs hold now.
fn by_cores(one: &Need, usage: &NodeUsage, excluded: &BySocket) -> u64 {
    let kept: u64 = excluded.iter().map(|&cores| u64::from(cores)).sum();
    let per_core = usage.cores.per_core();
    let free = usage.cpus.free().saturating_sub(kept * per_core);
    let each = one.cpus.max(1);
    if usage.cores.cores == 0 {
        return free / each;
    }
    let Some(usable) = one.cores.cpus_per_core(&usage.cores) else { return 0 };
    let on = layout::tasks_on(&usage.cores, &usage.free_cores(one, excluded), &one.cores);
    on.map_or(0, |on| on.cpus.min(free / per_core * usable) / each)
}

/// Tasks whose memory by CPU a node has now.
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

/// The fewest nodes that hold all tasks, each with its tasks: largest first,
/// and as the last one the smallest that still suffices. `None` if even all of
/// them are too few. `tasks_on`: tasks and node.
pub(super) fn fewest_nodes(
    tasks_on: Vec<(u64, NodeIdx)>,
    shape: &Shape,
    wanted: u32,
) -> Option<Vec<(u64, NodeIdx)>> {
    // A heap: of many nodes only the few largest have to be put in order.
    let largest_first = |(tasks, node)| (tasks, Reverse(node));
    let mut rest: BinaryHeap<(u64, Reverse<NodeIdx>)> =
        tasks_on.into_iter().map(largest_first).collect();
    let needed = shape.tasks().max(u64::from(shape.min_cpus.div_ceil(shape.cpus_per_task.max(1))));
    let mut chosen: Vec<(u64, NodeIdx)> = Vec::new();
    let mut sum = 0u64;
    while chosen.len() < wanted as usize || sum < needed {
        if chosen.len() >= shape.max_nodes as usize {
            return None;
        }
        let (tasks, Reverse(node)) = rest.pop()?;
        sum = sum.saturating_add(tasks);
        chosen.push((tasks, node));
    }
    let largest = chosen.pop()?;
    let before_last = chosen.iter().fold(0u64, |sum, (tasks, _)| sum.saturating_add(*tasks));
    let missing = needed.saturating_sub(before_last).max(1);
    let others = rest.into_iter().map(|(tasks, Reverse(node))| (tasks, node));
    let enough = others.chain([largest]).filter(|(tasks, _)| *tasks >= missing);
    chosen.push(enough.min_by_key(|&(tasks, node)| (tasks, Reverse(node)))?);
    chosen.sort_unstable_by_key(|(_, node)| *node);
    let mut left = needed;
    let mut nodes_left = chosen.len() as u64;
    for (tasks, _) in &mut chosen {
        nodes_left -= 1;
        // Every node gets a task, and no more than fit on it.
        *tasks = (*tasks).min(left.saturating_sub(nodes_left)).max(1);
        left = left.saturating_sub(*tasks);
    }
    Some(chosen)
}
