// SPDX-License-Identifier: GPL-3.0-or-later
//! What each task of a gang adds to the objective, for explanations.

use crate::gang::{self, JobTerms, TaskTerms};
use crate::learn::{Exploration, variance_proxy};
use crate::model::hostlist;
use crate::planner::gangs::model::{Gang, Model, Part};
use crate::planner::steer::TaskRow;
use crate::snapshot::Snapshot;

/// Tasks of one component that the plan puts on nodes of one class, each with the same terms.
pub(super) fn planned(
    model: &Model<'_>,
    snapshot: &Snapshot,
    gang: &Gang<'_>,
    nodes: &[u32],
    terms: &JobTerms,
) -> Vec<TaskRow> {
    let mut rows = Vec::new();
    let mut tasks = nodes.iter().copied().zip(&terms.tasks);
    for (component, part) in (0u32..).zip(&gang.parts) {
        let mut by_class: Vec<(usize, &TaskTerms, Vec<&str>)> = Vec::new();
        for (node, task) in tasks.by_ref().take(part.nodes as usize) {
            let Some(&class) = model.class_of.get(node as usize) else { continue };
            let name = snapshot.nodes.get(node as usize).map_or("", |n| &n.name);
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

/// What a task of each component would add by itself on each class of nodes, while the gang
/// waits. `tasks` are the gang's in the problem.
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
        let prices = problem.cost.iter().flatten();
        let cost = task.request.iter().zip(prices).fold(0.0, |sum, (a, f)| sum + a * f);
        for &class in model.classes_of(part.place) {
            let inside = |edge: &&gang::GroupEdge| {
                let group = edge.group.parse().ok().and_then(|at: usize| model.groups.get(at));
                group.is_some_and(|group| group.class == class)
            };
            let Some(edge) = task.groups.iter().find(inside) else { continue };
            let tried = edge.count > 0.0;
            let value = if tried { edge.mean } else { 0.0 };
            let explored = tried && exploration.is_on();
            let proxy = if explored { variance_proxy(exploration.g(), edge.count) } else { 0.0 };
            let bonus = proxy.sqrt();
            let index = value - cost + bonus;
            let known = believed(model, part, component, class);
            rows.push(TaskRow { value, cost, bonus, index, ..known });
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
        kept_for: model.kept_for(part, class),
        ..TaskRow::default()
    }
}
