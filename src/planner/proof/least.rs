// SPDX-License-Identifier: GPL-3.0-or-later
//! The least that a request takes on every node of every placement.
//!
//! Not what a placement takes ([`Shape::need`]): here a job may be split in any way that
//! Slurm could choose, so whatever depends on the split is left out. A node that cannot
//! give this much can never be one of the job's nodes.

use crate::cluster::Table;
use phalanx_core::shape::{Memory, Need, Shape, Sharing};

/// Largest amounts that one node of a table has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Largest {
    cpus: u64,
    /// Largest count of each GRES kind.
    kinds: Vec<u64>,
    /// Number of GRES types.
    types: usize,
}

impl Largest {
    pub(super) fn of(table: &Table) -> Self {
        let (kinds, types) = (vec![0; table.kinds.len()], table.types.len());
        let mut largest = Self { cpus: 0, kinds, types };
        for node in &table.nodes {
            largest.cpus = largest.cpus.max(node.cpus);
            for &(kind, count) in &node.kinds {
                if let Some(most) = largest.kinds.get_mut(kind.at()) {
                    *most = count.max(*most);
                }
            }
        }
        largest
    }
}

/// Fewest nodes, and the least on each of them; `None` where nothing certain can be said.
pub(super) fn least(shape: &Shape, largest: &Largest) -> Option<(usize, Need)> {
    // What options of cores and sockets leave of a node's CPUs is not followed here.
    let layout = &shape.layout;
    let of_cores = layout.options().next().is_some()
        || layout.one_task_per_core
        || layout.whole_sockets
        || layout.core_spec > 0;
    if shape.left_to_slurm.is_some() || shape.max_nodes == 0 || of_cores {
        return None;
    }
    let per_node = u64::from(shape.ntasks_per_node.max(1)) * u64::from(shape.cpus_per_task.max(1));
    // Slurm may have raised `pn_min_cpus` for the memory, and then takes CPUs for granted
    // that are not there.
    let counted = !shape.overcommit && u64::from(shape.pn_min_cpus) <= per_node;
    let total = if counted { u64::from(shape.min_cpus) } else { 1 };
    // Slurm raises the number of nodes to what holds all tasks.
    let filled = u32::try_from(total.div_ceil(largest.cpus.max(1))).ok()?;
    let nodes = shape.min_nodes.max(shape.nodes_for_tasks()).max(filled).max(1);
    if nodes > shape.max_nodes {
        return None;
    }
    // All but one of the nodes give at most what the largest node has.
    let others = u64::from(shape.max_nodes - 1);
    let rest = |total: u64, most: u64| total.saturating_sub(others.saturating_mul(most));
    let cpus = if counted { per_node.max(rest(total, largest.cpus)) } else { 1 };
    let gres = shape.gres.iter().map(|want| {
        let most = *largest.kinds.get(want.kind.at())?;
        let known = want.gres_type.is_none_or(|t| t.at() < largest.types);
        let of_tasks = want.per_task.saturating_mul(u64::from(shape.ntasks_per_node.max(1)));
        let count = want.per_node.max(of_tasks).max(rest(want.per_job, most));
        known.then_some((want.kind, want.gres_type, count))
    });
    let gres = gres.filter(|want| want.is_none_or(|(_, _, count)| count > 0));
    let gres = gres.collect::<Option<_>>()?;
    let (memory_mb, all_memory) = memory(shape);
    let whole = shape.sharing == Sharing::Whole;
    let need = Need { cpus, memory_mb, all_memory, gres, whole, ..Need::default() };
    Some((nodes as usize, need))
}

/// Computes the least memory. Source: `_verify_node_state` of Slurm.
fn memory(shape: &Shape) -> (u64, bool) {
    match shape.memory {
        Memory::Untracked => (0, false),
        Memory::All => (0, shape.gres.iter().all(|want| want.mem_per_gres_mb == 0)),
        Memory::PerNode(mb) => (mb, false),
        Memory::PerCpu(mb) => {
            let counts = [shape.ntasks_per_node, shape.pn_min_cpus, shape.cpus_per_task, 1];
            (mb.saturating_mul(u64::from(counts.into_iter().max().unwrap_or(1))), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::shape::GresWant;

    fn largest() -> Largest {
        Largest { cpus: 64, kinds: vec![4], types: 1 }
    }

    fn shape(nodes: u32, tasks: u32) -> Shape {
        Shape {
            min_nodes: nodes,
            max_nodes: nodes,
            req_nodes: nodes,
            num_tasks: tasks,
            min_cpus: tasks,
            ..Shape::default()
        }
    }

    #[test]
    fn a_split_is_not_taken_for_even() {
        // 16 tasks on 2 nodes may be 15 and 1; 100 on 2 of 64 CPUs are 36 at least.
        assert_eq!(least(&shape(2, 16), &largest()).unwrap().1.cpus, 1);
        assert_eq!(least(&shape(2, 100), &largest()).unwrap().1.cpus, 36);
        assert_eq!(least(&shape(1, 16), &largest()).unwrap().1.cpus, 16);
        let free = Shape { max_nodes: 500, ..shape(1, 16) };
        assert_eq!(least(&free, &largest()).unwrap(), (1, Need { cpus: 1, ..Need::default() }));
        // Where the number of nodes is open, 100 tasks are on two nodes at least.
        let free = Shape { max_nodes: 500, ..shape(1, 100) };
        assert_eq!(least(&free, &largest()).unwrap(), (2, Need { cpus: 1, ..Need::default() }));
        assert!(least(&Shape { max_nodes: 1, ..free }, &largest()).is_none());
    }

    #[test]
    fn gres_and_tasks_of_each_node_count_in_full() {
        let gpus = GresWant { per_node: 2, per_job: 8, ..GresWant::default() };
        let wanted = Shape {
            ntasks_per_node: 4,
            cpus_per_task: 2,
            max_nodes: 2,
            memory: Memory::PerCpu(100),
            gres: vec![gpus],
            ..shape(1, 8)
        };
        let (nodes, need) = least(&wanted, &largest()).unwrap();
        assert_eq!((nodes, need.cpus, need.memory_mb), (2, 8, 400));
        assert_eq!(need.gres, vec![(0.into(), None, 4)]);
    }

    /// Goal: nothing is proved for GRES of another table, which nodes only seem not to have.
    #[test]
    fn of_unknown_gres_nothing_is_certain() {
        let of = |kind: u32, gres_type: Option<u32>| {
            let (kind, gres_type) = (kind.into(), gres_type.map(Into::into));
            let want = GresWant { kind, gres_type, per_job: 6, ..GresWant::default() };
            least(&Shape { gres: vec![want], ..shape(2, 2) }, &largest()).map(|(_, need)| need.gres)
        };
        assert_eq!(of(0, Some(0)), Some(vec![(0.into(), Some(0.into()), 2)]));
        assert_eq!((of(1, None), of(0, Some(1))), (None, None));
    }

    #[test]
    fn where_slurm_overrides_the_count_of_cpus_one_is_certain() {
        let raised = Shape { pn_min_cpus: 9, ..shape(1, 4) };
        assert_eq!(least(&raised, &largest()).unwrap().1.cpus, 1);
        let over = Shape { overcommit: true, ..shape(1, 4) };
        assert_eq!(least(&over, &largest()).unwrap().1.cpus, 1);
        let too_few = Shape { ntasks_per_node: 1, ..shape(2, 3) };
        assert!(least(&too_few, &largest()).is_none());
    }
}
