// SPDX-License-Identifier: GPL-3.0-or-later
//! The dimensions of the balance engine, in the order in which it has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::why::Why;
use crate::cluster::{Change, Held, Table};
use crate::usage::{Level, NodeUsage};
use phalanx_core::shape::Need;
use phalanx_core::snapshot::License;
use phalanx_core::{Amount, NodeIdx};
use phalanx_methods::balance::Engine;

/// Position of CPUs among the dimensions.
pub(super) const CPU: usize = 0;
/// Position of memory among the dimensions.
pub(super) const MEM: usize = 1;
/// Position of the first GRES kind.
pub(super) const KINDS: usize = 2;
/// Position of the first GRES kind among the dimensions.
pub(super) const GPU_DIM: &str = "gres/gpu";

/// Names of the dimensions of nodes and of the licence pools.
pub(crate) fn dimension_names(kinds: &[Arc<str>], pools: &[License]) -> Vec<Arc<str>> {
    let of_nodes = ["cpu".into(), "mem".into()].into_iter();
    let of_kinds = kinds.iter().map(|kind| format!("gres/{kind}").into());
    let of_pools = pools.iter().map(|pool| format!("license/{}", pool.name).into());
    of_nodes.chain(of_kinds).chain(of_pools).collect()
}

/// Weights in the order of the dimensions, scaled to sum 1; empty, which the engine takes as equal,
/// where none is given or present.
pub(super) fn initial_weights(dims: &[Arc<str>], by_name: &BTreeMap<String, f64>) -> Vec<f64> {
    let given: Vec<f64> =
        dims.iter().map(|name| by_name.get(&**name).copied().unwrap_or(0.0)).collect();
    let sum: f64 = given.iter().sum();
    if sum > 0.0 { given.iter().map(|w| w / sum).collect() } else { Vec::new() }
}

/// Amounts by dimension, without those that jobs do not use up.
pub(super) fn vector(
    table: &Table,
    dims: usize,
    memory_tracked: bool,
    usage: &NodeUsage,
    of: impl Fn(Level) -> u64,
) -> Vec<Amount> {
    let memory = if memory_tracked { of(usage.memory_mb) } else { 0 };
    let mut amounts = Vec::with_capacity(dims);
    amounts.push(Amount::saturating(of(usage.cpus)));
    amounts.push(Amount::saturating(memory));
    amounts.extend(usage.kinds.iter().map(|&level| Amount::saturating(of(level))));
    amounts.resize(dims, Amount::ZERO);
    let unspent = table.unspent.iter().map(|kind| KINDS + kind.at());
    unspent.filter(|slot| *slot < dims).for_each(|slot| amounts[slot] = Amount::ZERO);
    amounts
}

/// Writes what a node must give into the amounts by dimension.
pub(super) fn fill_amounts(
    amounts: &mut [Amount],
    table: &Table,
    memory_tracked: bool,
    need: &Need,
) -> Result<(), Why> {
    amounts.fill(Amount::ZERO);
    let mut set = |dim: usize, value: u64| {
        let slot = amounts.get_mut(dim).ok_or(Why::NoFit)?;
        *slot = slot.saturating_add(Amount::saturating(value));
        Ok(())
    };
    set(CPU, need.cpus)?;
    if memory_tracked {
        set(MEM, need.memory_mb)?;
    }
    for &(kind, _, count) in need.gres.iter().filter(|gres| !table.unspent.contains(&gres.0)) {
        set(KINDS + kind.at(), count)?;
    }
    Ok(())
}

/// Passes a change on to the engine, unless the node takes no jobs; returns the node.
pub(super) fn follow(
    engine: &mut Engine,
    table: &Table,
    memory_tracked: bool,
    change: Change<'_>,
) -> NodeIdx {
    let (Change::Take(held) | Change::Give(held)) = change;
    if table.nodes.get(held.node.at()).is_none_or(|node| node.out) {
        return held.node;
    }
    let dims = engine.dims();
    let amounts = |held: &Held| {
        let mut amounts = vec![Amount::ZERO; dims];
        let mut set = |dim: usize, value: u64| {
            debug_assert!(dim < dims, "dimension {dim} of {dims}");
            if let Some(slot) = amounts.get_mut(dim) {
                *slot = slot.saturating_add(Amount::saturating(value));
            }
        };
        set(CPU, held.cpus);
        set(MEM, if memory_tracked { held.memory_mb } else { 0 });
        for &(kind, _, count) in &held.gres {
            set(KINDS + kind.at(), count);
        }
        amounts
    };
    // Both ends have the same dimensions and nodes, so the engine accepts.
    let done = match change {
        Change::Take(held) => engine.add_used(held.node, &amounts(held)),
        Change::Give(held) => engine.sub_used(held.node, &amounts(held)),
    };
    debug_assert!(done.is_ok());
    held.node
}
