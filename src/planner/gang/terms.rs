// SPDX-License-Identifier: GPL-3.0-or-later
//! Terms that each task of a gang adds to the objective, for explanations.

use std::collections::BTreeMap;

use crate::gang::model::{Gang, Model, Part};
use crate::preference::TaskRow;
use phalanx_core::snapshot::Snapshot;
use phalanx_core::{NodeIdx, hostlist};
use phalanx_methods::gang::{self, JobTerms, TaskTerms};
use phalanx_methods::learn::Exploration;

/// Tasks of one component that the plan puts on nodes of one class, each with the same terms.
pub(super) fn planned(
    model: &Model<'_>,
    snapshot: &Snapshot,
    gang: &Gang<'_>,
    nodes: &[NodeIdx],
    terms: &JobTerms,
) -> Vec<TaskRow> {
    let mut rows = Vec::new();
    let mut tasks = nodes.iter().copied().zip(&terms.tasks);
    for (component, part) in (0u32..).zip(&gang.parts) {
        let mut by_class: Vec<(usize, &TaskTerms, Vec<&str>)> = Vec::new();
        for (node, task) in tasks.by_ref().take(part.nodes as usize) {
            let Some(&class) = model.class_of.get(node.at()) else { continue };
            let name = snapshot.nodes.get(node.at()).map_or("", |n| &n.name);
            match by_class.iter_mut().find(|(known, ..)| *known == class) {
                Some((.., names)) => names.push(name),
                None => by_class.push((class, task, vec![name])),
            }
        }
        rows.extend(by_class.into_iter().map(|(class, task, names)| TaskRow {
            tasks: names.len() as u64,
            nodes: hostlist::compress(&names),
            value: task.value,
            cost: task.cost,
            bonus: task.bonus,
            index: task.index,
            ..believed(model, part, component, class)
        }));
    }
    rows
}

/// Terms that a task of each component would add by itself on each class of nodes, while the gang
/// waits. `tasks` are the gang's tasks in the problem.
pub(super) fn possible(
    model: &Model<'_>,
    gang: &Gang<'_>,
    problem: &gang::Problem,
    tasks: &[gang::Task],
    exploration: &Exploration,
) -> Vec<TaskRow> {
    let mut rows = Vec::new();
    let mut at = 0;
    for (component, part) in (0u32..).zip(&gang.parts) {
        let Some(task) = tasks.get(at) else { break };
        at += part.nodes as usize;
        // All groups of a class have the same terms.
        let mut by_class = BTreeMap::new();
        for ((_, group), edge) in model.groups_for(part).zip(task.groups.iter()) {
            by_class.entry(group.class).or_insert(edge);
        }
        for (class, edge) in by_class {
            let alone = gang::task_alone(problem, exploration, task, edge);
            rows.push(TaskRow {
                value: alone.value,
                cost: alone.cost,
                bonus: alone.bonus,
                index: alone.index,
                ..believed(model, part, component, class)
            });
        }
    }
    rows
}

fn believed(model: &Model<'_>, part: &Part<'_>, component: u32, class: usize) -> TaskRow {
    let belief = model.belief(part, class);
    TaskRow {
        component,
        class: model.classes.get(class).cloned().unwrap_or_default(),
        speed: (belief.count > 0.0).then_some(belief.speed),
        runs: belief.count,
        reserved_for: model.reserved_for(part, class),
        ..TaskRow::default()
    }
}
