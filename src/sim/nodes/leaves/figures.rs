// SPDX-License-Identifier: GPL-3.0-or-later
//! The figures of leaves or blocks of one simulated policy.

use phalanx_core::topology::Kind;
use serde::{Deserialize, Serialize};

/// Start of a job on several nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) nodes: u32,
    /// Leaves that the job got.
    pub(super) leaves: u32,
    /// Fewest leaves for the job at its start.
    pub(super) fewest: u32,
    /// Fewest leaves for the job on the idle cluster.
    pub(super) ideal: u32,
    pub(super) run_s: u64,
    pub(super) wait_s: u64,
}

/// Leaves (leaf switches, or blocks) over a whole simulation. Means are null if nothing was
/// counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct LeafFigures {
    /// `tree` or `block`.
    pub kind: Kind,
    /// Leaves of the topology.
    pub leaves: usize,
    /// Nodes of the largest leaf.
    pub largest_leaf: u32,
    /// Jobs that started on several nodes.
    pub multi_node_jobs: u64,
    /// Mean number of leaves of a job beyond the fewest that would hold it on the idle cluster:
    /// `extra_choice_mean` + `extra_frag_mean`.
    pub extra_leaves_mean: Option<f64>,
    /// Mean number of leaves beyond the fewest possible at the job's start: the cost of the choice.
    pub extra_choice_mean: Option<f64>,
    /// Mean number of the fewest leaves possible at the job's start beyond those of the idle
    /// cluster: the cost of fragmentation.
    pub extra_frag_mean: Option<f64>,
    /// Mean of the extra leaves, weighted by nodes times runtime.
    pub extra_leaves_by_node_hours: Option<f64>,
    /// Jobs on the fewest leaves that were possible at their start, percent.
    pub fewest_leaves_pct: Option<f64>,
    /// Jobs of as many nodes as the largest leaf has.
    pub whole_leaf_jobs: u64,
    /// Share of `whole_leaf_jobs` that started within one leaf, percent.
    pub whole_leaf_in_one_pct: Option<f64>,
    /// Jobs of at least half the largest leaf and at most all of it.
    pub half_leaf_jobs: u64,
    /// Share of `half_leaf_jobs` that started within one leaf, percent.
    pub half_leaf_in_one_pct: Option<f64>,
    /// Mean wait of jobs of at least half the largest leaf, seconds.
    pub half_leaf_wait_mean_s: Option<f64>,
    /// Leaves of which every node was idle, mean over time.
    pub whole_leaves_mean: Option<f64>,
    /// Idle nodes of the leaf with the most idle ones, mean over time.
    pub largest_in_leaf_mean: Option<f64>,
    /// Nodes of the largest job that could have started, mean over time.
    pub largest_at_once_mean: Option<f64>,
    /// Jobs that waited although enough nodes were free, because no switch is above these or no
    /// blocks were accepted.
    pub refused_jobs: u64,
}

impl LeafFigures {
    pub(super) fn of_starts(starts: &[Start], largest: u32) -> Self {
        let mean_of = |value: &dyn Fn(&Start) -> u32| {
            let sum: u64 = starts.iter().map(|start| u64::from(value(start))).sum();
            mean(sum, starts.len())
        };
        let hours = |start: &Start| u128::from(start.nodes) * u128::from(start.run_s);
        let all_hours: u128 = starts.iter().map(hours).sum();
        let extra = |start: &Start| start.leaves - start.ideal;
        let weighted: u128 = starts.iter().map(|s| hours(s) * u128::from(extra(s))).sum();
        let half = |start: &&Start| start.nodes >= largest.div_ceil(2);
        let whole = |start: &&Start| start.nodes == largest;
        let fits = |start: &&Start| half(start) && start.nodes <= largest;
        let count = |of: &dyn Fn(&&Start) -> bool| starts.iter().filter(of).count();
        let in_one = |of: &dyn Fn(&&Start) -> bool| {
            percent(starts.iter().filter(of).filter(|s| s.leaves == 1).count(), count(of))
        };
        let waits: u64 = starts.iter().filter(half).map(|start| start.wait_s).sum();
        let fewest = starts.iter().filter(|s| s.leaves == s.fewest).count();
        Self {
            multi_node_jobs: starts.len() as u64,
            extra_leaves_mean: mean_of(&extra),
            extra_choice_mean: mean_of(&|s| s.leaves - s.fewest),
            extra_frag_mean: mean_of(&|s| s.fewest.saturating_sub(s.ideal)),
            extra_leaves_by_node_hours: (all_hours > 0).then(|| weighted as f64 / all_hours as f64),
            fewest_leaves_pct: percent(fewest, starts.len()),
            whole_leaf_jobs: count(&whole) as u64,
            whole_leaf_in_one_pct: in_one(&whole),
            half_leaf_jobs: count(&fits) as u64,
            half_leaf_in_one_pct: in_one(&fits),
            half_leaf_wait_mean_s: mean(waits, count(&half)),
            ..Self::default()
        }
    }
}

fn mean(sum: u64, count: usize) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

fn percent(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 * 100.0 / of as f64)
}
