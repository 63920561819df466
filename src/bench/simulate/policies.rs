// SPDX-License-Identifier: GPL-3.0-or-later
//! The policies that Phalanx is compared with, beside the product's.

use phalanx_core::shape::Need;
use phalanx_methods::balance::fragment::WHOLE;
use phalanx_planner::usage::{Level, NodeUsage};
use phalanx_sim::nodes::choose::{GpuMix, Rule};
use phalanx_sim::policy::{EASY, GANG, Order, POLICIES, Policy};

use super::orders::{EasyPlus, Learned, Research, Shortest};
use super::reference::spread_of_used;

/// Policies that the product does not have.
const MORE: [Policy; 6] = [
    // EASY with the mean of the user's two latest runtimes, shortest first.
    Policy {
        name: "easy++",
        order: Order::Other {
            pool: |load| Box::new(EasyPlus::new(load)),
            line: |_| Box::new(Shortest::default()),
        },
        ..EASY
    },
    // The node with least left.
    Policy { name: "best-fit", rule: Some(Rule::Least(tightest)), ..EASY },
    // The node whose free vector points least along the request.
    Policy { name: "dot-product", rule: Some(Rule::Least(product)), ..EASY },
    // Kubernetes' NodeResourcesBalancedAllocation.
    Policy { name: "k8s-balanced", rule: Some(Rule::Least(spread)), ..EASY },
    // Fragmentation gradient descent (Weng et al., ATC'23).
    Policy { name: "fgd", rule: Some(Rule::Least(fragmentation)), ..EASY },
    // The order and the backfill of the research.
    Policy {
        name: "research",
        order: Order::Other {
            pool: |load| Box::new(Research::new(load)),
            line: |cpus| Box::new(Learned::new(cpus)),
        },
        ..GANG
    },
];

/// Returns the policies of the product and those that the product is compared with.
pub fn all() -> Vec<Policy> {
    [&POLICIES[..], &MORE].concat()
}

/// Shares of CPUs, memory and GPUs that are left on a node beside a need.
fn left(room: &NodeUsage, mix: &GpuMix, need: &Need) -> [f64; 3] {
    let left = |level: Level, taken: u64| share(level.free().saturating_sub(taken), level.total);
    [
        left(room.cpus, need.cpus),
        left(room.memory_mb, need.memory_mb),
        left(mix.level(room), mix.gpus_of(need)),
    ]
}

/// Sum of CPUs and GPUs left, as shares of the node's.
fn tightest(room: &NodeUsage, mix: &GpuMix, need: &Need) -> f64 {
    let [cpus, _, gpus] = left(room, mix, need);
    cpus + gpus
}

/// Product of free and requested amounts.
fn product(room: &NodeUsage, mix: &GpuMix, need: &Need) -> f64 {
    let asked = [
        share(need.cpus, room.cpus.total),
        share(need.memory_mb, room.memory_mb.total),
        share(mix.gpus_of(need), mix.level(room).total),
    ];
    let free = [room.cpus, room.memory_mb, mix.level(room)];
    let free = free.map(|level| share(level.free(), level.total));
    free.iter().zip(asked).map(|(f, a)| f * a).sum()
}

/// Spread of the used shares of a node's resources.
fn spread(room: &NodeUsage, mix: &GpuMix, need: &Need) -> f64 {
    let totals = [room.cpus.total, room.memory_mb.total, mix.level(room).total];
    let used = totals.iter().zip(left(room, mix, need)).filter(|(total, _)| **total > 0);
    spread_of_used(&used.map(|(_, left)| 1.0 - left).collect::<Vec<_>>())
}

/// Rise of the GPU share that the mix cannot use.
fn fragmentation(room: &NodeUsage, mix: &GpuMix, need: &Need) -> f64 {
    let rise = mix.cost(room, need.cpus, mix.gpus_of(need)) - mix.cost(room, 0, 0);
    -(100.0 / (1.0 + (rise / f64::from(WHOLE)).exp())).floor()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
