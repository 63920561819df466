// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds gangs that are worth less than their cost on every node with room for them.

use phalanx_methods::gang::{Job, Problem, Task, task_alone};
use phalanx_methods::learn::Exploration;

/// Returns how much a gang that the plan leaves out is worth less than its cost, at best, on nodes
/// with room for one of its tasks each; where none has room, on any nodes. `None` if the gang is
/// worth its cost, or was never tried on one of these nodes.
pub(super) fn below_cost(problem: &Problem, exploration: &Exploration, job: &Job) -> Option<f64> {
    let mut worth = 0.0;
    let mut last: Option<(&Task, f64)> = None;
    for task in &job.tasks {
        // Equal tasks stand beside each other.
        let best = match last {
            Some((before, best)) if before.request == task.request => best,
            _ => best_of(problem, exploration, task)?,
        };
        last = Some((task, best));
        worth += best;
    }
    (worth < 0.0).then_some(-worth)
}

/// The best index of a task; `None` where the task was never tried on some node, or may go nowhere.
fn best_of(problem: &Problem, exploration: &Exploration, task: &Task) -> Option<f64> {
    let has_room = |group: &str| {
        let of_group = problem.servers.iter().filter(|s| s.group.as_deref() == Some(group));
        let fits = |capacity: &[f64]| capacity.iter().zip(&task.request).all(|(c, r)| c >= r);
        of_group.into_iter().any(|server| fits(&server.capacity))
    };
    let mut indexes = Vec::with_capacity(task.groups.len());
    for edge in task.groups.iter() {
        if edge.count <= 0.0 {
            return None;
        }
        indexes.push((task_alone(problem, exploration, task, edge).index, edge));
    }
    indexes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = indexes.first().map(|(index, _)| *index)?;
    if indexes.iter().all(|(index, _)| *index >= 0.0) {
        return Some(best);
    }
    let with_room = indexes.iter().find(|(_, edge)| has_room(&edge.group));
    Some(with_room.map_or(best, |(index, _)| *index))
}
