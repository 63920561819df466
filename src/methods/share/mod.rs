// SPDX-License-Identifier: GPL-3.0-or-later
//! Splits work over nodes in proportion to what each node can do.
//!
//! The work lies on the nodes already (blocks of a file, for instance); as little
//! as possible of it moves. [`solve`] is the whole method, [`capability`] has the
//! ways to tell what a node can do from what was measured there, and [`stream`] hands out items
//! one by one.
//!
//! # Source
//! `docs/methods.md`, section Share: Algorithm 1, the load partition of the information
//! framework for task scheduling.

mod answer;
pub mod capability;
mod flow;
mod items;
mod partition;
mod problem;
pub mod stream;

pub use answer::{Answer, Partition, TransferAnswer};
pub use partition::{Transfer, targets, transfers};
pub use problem::{Item, Problem};

use phalanx_core::problem::InputError;

/// Solves a problem: targets, and what has to move to reach them.
///
/// With items of different weights the targets can only be approached; then a
/// transfer moves the weight that comes closest to the planned one.
///
/// # Errors
/// The first field that breaks a rule of the problem's format.
///
/// # Example
/// ```
/// use phalanx_methods::share::{Problem, solve};
/// let problem = Problem {
///     nodes: vec!["n0".into(), "n1".into()],
///     capability: vec![1.0, 1.0],
///     load: Some(vec![160, 40]),
///     items: None,
/// };
/// let answer = solve(&problem).unwrap();
/// assert_eq!(answer.target, [100, 100]);
/// assert_eq!((answer.transfers[0].to.as_str(), answer.transfers[0].count), ("n1", 60));
/// ```
pub fn solve(problem: &Problem) -> Result<Answer, InputError> {
    let index = problem.validate()?;
    let name = |node: usize| problem.nodes[node].clone();
    let named = |transfer: Transfer| TransferAnswer {
        from: name(transfer.from),
        to: name(transfer.to),
        count: transfer.count,
    };
    let Some(items) = &problem.items else {
        let load = problem.load.as_deref().unwrap_or_default();
        let target = targets(load.iter().sum(), &problem.capability);
        let moves = transfers(load, &target).into_iter().map(named).collect();
        return Ok(Answer { target, transfers: moves, partition: None, remote_items: None });
    };
    let replicas = problem::replicas(items, &index);
    let weights: Vec<u64> = items.iter().map(|item| item.weight).collect();
    let target = targets(weights.iter().sum(), &problem.capability);
    let mut placed = items::Placement::initial(&target, &weights, &replicas);
    let moves = placed.balance(&target).into_iter().map(named).collect();
    let mut parts: Vec<(String, Vec<String>)> =
        problem.nodes.iter().map(|node| (node.clone(), Vec::new())).collect();
    for (item, &node) in items.iter().zip(&placed.node) {
        parts[node].1.push(item.id.clone());
    }
    parts.retain(|(_, ids)| !ids.is_empty());
    let remote = placed.remote();
    let partition = Some(Partition(parts));
    Ok(Answer { target, transfers: moves, partition, remote_items: Some(remote) })
}
