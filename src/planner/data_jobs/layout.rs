// SPDX-License-Identifier: GPL-3.0-or-later
//! Distributes the tasks of a data job over its nodes.

use phalanx_core::number::{as_u32, nearest_u32};
use phalanx_core::shape::Shape;

/// Tasks of each node, as Slurm's default distribution counts them: round by round, on nodes
/// that still have CPUs. Source: `slurmctld`'s step layout, `_task_layout_block`.
pub fn layout(shape: &Shape, cpus: &[u64]) -> Vec<u32> {
    let nodes = as_u32(cpus.len());
    let per_task = u64::from(shape.cpus_per_task.max(1));
    let most = |at: usize| {
        let by_cpus = cpus.get(at).map_or(1, |cpus| cpus / per_task).max(1);
        let by_node =
            if shape.ntasks_per_node > 0 { shape.ntasks_per_node.into() } else { u64::MAX };
        nearest_u32(by_cpus.min(by_node))
    };
    let all = nodes.saturating_mul(shape.ntasks_per_node);
    let mut left = shape.num_tasks.max(nodes).max(if shape.num_tasks == 0 { all } else { 0 });
    let mut tasks = vec![0u32; cpus.len()];
    while left > 0 {
        let mut given = false;
        for (at, count) in tasks.iter_mut().enumerate() {
            if left > 0 && *count < most(at) {
                *count += 1;
                left -= 1;
                given = true;
            }
        }
        // More tasks than CPUs (`--overcommit`): in turn.
        if !given {
            for count in &mut tasks {
                if left > 0 {
                    *count += 1;
                    left -= 1;
                }
            }
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_go_round_by_round() {
        let shape = |num_tasks, ntasks_per_node, cpus_per_task| Shape {
            num_tasks,
            ntasks_per_node,
            cpus_per_task,
            ..Shape::default()
        };
        assert_eq!(layout(&shape(8, 0, 1), &[8, 8, 8, 8]), [2, 2, 2, 2]);
        assert_eq!(layout(&shape(7, 0, 1), &[1, 4, 2]), [1, 4, 2]);
        assert_eq!(layout(&shape(0, 3, 1), &[4, 4]), [3, 3]);
        assert_eq!(layout(&shape(0, 0, 0), &[4, 4]), [1, 1]);
        assert_eq!(layout(&shape(4, 0, 2), &[4, 4]), [2, 2]);
        assert_eq!(layout(&shape(5, 0, 1), &[1, 1]), [3, 2]);
    }
}
