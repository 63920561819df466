// SPDX-License-Identifier: GPL-3.0-or-later
//! Assignment of splits to tasks, on nodes that the job has: the assignment and migration of
//! `docs/methods.md`, section Data jobs, (c), with a floor under the share that is read locally.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::splits::Split;
use crate::data_jobs::merge_equal;
use phalanx_core::number::{as_f64, as_u32};

/// Rounds of migration; each moves one split.
const MOVES_MAX: usize = 20_000;
/// Splits of one task that are looked at for a move in two steps.
const LOOK_MAX: usize = 64;

/// Speeds at which a task reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Extra time of a remote byte compared with a local one, as a part of the time of a local byte
    /// at speed 1.
    pub remote_extra: f64,
    /// Share of the bytes that could be read locally which may be read remotely for balance.
    pub remote_share: f64,
}

/// The answer of [`assign`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assignment {
    /// Task of each split, numbered node by node.
    pub task: Vec<u32>,
    /// Load of each task in local bytes at speed 1: remote bytes count more, and so do those of a
    /// slower task.
    pub loads: Vec<f64>,
}

/// Tasks of one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeTasks {
    /// Number of tasks.
    pub tasks: u32,
    /// Speed of each task relative to other nodes' tasks, >= 0. Tasks of speed 0 get nothing,
    /// unless all have speed 0.
    pub speed: f64,
}

/// Difference below which speeds count as equal.
const EQUAL: f64 = 0.05;
/// Part of the fastest task's speed: where the slowest task is below it, only the last task's end
/// counts, however much is read remotely.
const UNEQUAL: f64 = 0.75;

/// [`Pace::remote_share`] for tasks on nodes of unequal speeds: `remote_share` where speeds are
/// equal, and more the more they differ, since slow nodes' data are then read from other nodes.
#[must_use]
pub fn remote_share(remote_share: f64, nodes: &[NodeTasks]) -> f64 {
    let speeds = || nodes.iter().filter(|node| node.tasks > 0).map(|node| node.speed);
    let fastest = speeds().fold(0.0, f64::max);
    let slowest = speeds().fold(fastest, f64::min);
    if fastest <= 0.0 {
        return remote_share;
    }
    let slower = 1.0 - slowest / fastest - EQUAL;
    (slower / (1.0 - UNEQUAL - EQUAL)).clamp(0.0, 1.0).max(remote_share)
}

/// A split, in the form that the assignment works on.
pub(super) struct Item {
    pub(super) length: f64,
    /// Nodes that hold some of the split, ascending, each with the split's time there.
    pub(super) near: Vec<(usize, f64)>,
    /// Extra time of the split on a node of speed 1 that holds nothing of it.
    extra: f64,
    /// Whether no node holds half of the split, so that it is near nowhere.
    pub(super) scattered: bool,
}

pub(super) struct State {
    pub(super) items: Vec<Item>,
    /// Node of each task.
    pub(super) node_of: Vec<usize>,
    /// Tasks of each node; empty where the node's tasks get nothing.
    tasks_of: Vec<std::ops::Range<usize>>,
    /// Speed of each node's tasks, 1 the fastest.
    speed: Vec<f64>,
    pub(super) loads: Vec<f64>,
    /// (load as sortable bits, task) by node.
    by_node: Vec<BTreeSet<(u64, usize)>>,
    /// (load as sortable bits, task) of all nodes of one speed.
    by_speed: Vec<BTreeSet<(u64, usize)>>,
    /// Group of each node, of nodes of one speed.
    group: Vec<usize>,
    task: Vec<usize>,
    /// Splits of each task, also in the order of their length.
    of_task: Vec<BTreeSet<usize>>,
    by_length: Vec<BTreeSet<(u64, Reverse<usize>)>>,
}

/// Assigns the splits to the tasks. `node_of` has the node of each DataNode of the splits (`None`:
/// none of the job's).
///
/// Largest split first, each to the task that ends soonest with it among those of the nodes that
/// hold it; then the tasks that end last hand splits on, first to other nodes that hold them,
/// then, within [`Pace::remote_share`], to any.
#[must_use]
pub fn assign(
    splits: &[Split],
    node_of: &[Option<usize>],
    nodes: &[NodeTasks],
    pace: Pace,
) -> Assignment {
    let mut state = State::new(splits, node_of, nodes, pace);
    if state.loads.is_empty() {
        return Assignment::default();
    }
    let mut order: Vec<usize> = (0..splits.len()).collect();
    order.sort_by(|&a, &b| {
        let length = |i: usize| splits.get(i).map_or(0, |split| split.length);
        length(b).cmp(&length(a)).then(a.cmp(&b))
    });
    for i in order {
        if let Some(task) = state.best_for(i) {
            state.give(i, task);
        }
    }
    let mut moves = MOVES_MAX;
    while moves > 0 && state.hand_on_near() {
        moves -= 1;
    }
    let mut allowance = state.allowance(pace);
    // On unequal nodes about every split may have to go elsewhere.
    let mut moves = MOVES_MAX.max(splits.len());
    while moves > 0 && state.hand_on_far(&mut allowance) {
        moves -= 1;
    }
    let number = |&task: &usize| as_u32(task);
    Assignment { task: state.task.iter().map(number).collect(), loads: state.loads }
}

/// Maps loads, which are never negative, to integers of the same order.
fn key(load: f64) -> u64 {
    (load.max(0.0) + 0.0).to_bits()
}

impl State {
    pub(super) fn new(
        splits: &[Split],
        node_of: &[Option<usize>],
        nodes: &[NodeTasks],
        pace: Pace,
    ) -> Self {
        let speed = relative(nodes);
        let mut tasks_of = Vec::with_capacity(nodes.len());
        let mut owner = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            let first = owner.len();
            let count = node.tasks as usize;
            owner.extend(std::iter::repeat_n(at, count));
            tasks_of.push(if speed[at] > 0.0 { first..owner.len() } else { first..first });
        }
        let items = items(splits, node_of, &tasks_of, &speed, pace);
        let mut speeds: Vec<u64> = speed.iter().map(|&speed| key(speed)).collect();
        speeds.sort_unstable();
        speeds.dedup();
        let group_of = |speed: &f64| speeds.binary_search(&key(*speed)).unwrap_or(0);
        let idle = |own: std::ops::Range<usize>| own.map(|task| (key(0.0), task));
        let group: Vec<usize> = speed.iter().map(group_of).collect();
        let mut by_speed = vec![BTreeSet::new(); speeds.len()];
        for (own, &group) in tasks_of.iter().zip(&group) {
            by_speed[group].extend(idle(own.clone()));
        }
        let count = owner.len();
        Self {
            items,
            by_node: tasks_of.iter().map(|own| idle(own.clone()).collect()).collect(),
            by_speed,
            group,
            node_of: owner,
            tasks_of,
            speed,
            loads: vec![0.0; count],
            task: vec![0; splits.len()],
            of_task: vec![BTreeSet::new(); count],
            by_length: vec![BTreeSet::new(); count],
        }
    }

    /// Bytes that could be read locally and may be read remotely.
    pub(super) fn allowance(&self, pace: Pace) -> f64 {
        let could: f64 = self.items.iter().filter(|i| !i.scattered).map(|i| i.length).sum();
        could * pace.remote_share.clamp(0.0, 1.0)
    }

    pub(super) fn cost(&self, split: usize, task: usize) -> f64 {
        let item = &self.items[split];
        let node = self.node_of[task];
        let near = item.near.binary_search_by_key(&node, |pair| pair.0);
        near.map_or_else(|_| item.length / self.speed[node] + item.extra, |at| item.near[at].1)
    }

    /// Bytes of a split that `task` reads remotely and another task could read locally.
    pub(super) fn far_bytes(&self, split: usize, task: usize) -> f64 {
        let item = &self.items[split];
        let node = self.node_of[task];
        let near = item.near.binary_search_by_key(&node, |pair| pair.0).is_ok();
        if near || item.scattered { 0.0 } else { item.length }
    }

    /// The task that ends last.
    pub(super) fn critical(&self) -> Option<usize> {
        self.by_speed.iter().filter_map(BTreeSet::last).max().map(|&(_, task)| task)
    }

    /// (end, task) of the task that would end soonest with the split, wherever it is held.
    fn soonest(&self, split: usize) -> Option<(u64, usize)> {
        let ends = self.by_speed.iter().filter_map(|tasks| {
            let (_, task) = *tasks.first()?;
            Some((key(self.loads[task] + self.cost(split, task)), task))
        });
        ends.min()
    }

    /// (end, task) of the task, on each node that holds some of the split, that would end soonest
    /// with it.
    pub(super) fn near(&self, split: usize) -> impl Iterator<Item = (u64, usize)> {
        self.items[split].near.iter().filter_map(|&(node, cost)| {
            let (_, task) = *self.by_node.get(node)?.first()?;
            Some((key(self.loads[task] + cost), task))
        })
    }

    /// The least loaded task of each speed.
    pub(super) fn least_loaded(&self) -> impl Iterator<Item = usize> {
        self.by_speed.iter().filter_map(|tasks| tasks.first()).map(|&(_, task)| task)
    }

    /// The task that gets a split at first.
    fn best_for(&self, split: usize) -> Option<usize> {
        let anywhere = || self.soonest(split);
        if self.items[split].scattered {
            return self.near(split).chain(anywhere()).min().map(|(_, task)| task);
        }
        self.near(split).min().or_else(anywhere).map(|(_, task)| task)
    }

    pub(super) fn set_load(&mut self, task: usize, load: f64) {
        let (old, node) = (key(self.loads[task]), self.node_of[task]);
        let group = self.group[node];
        self.by_speed[group].remove(&(old, task));
        self.by_node[node].remove(&(old, task));
        self.loads[task] = load;
        self.by_speed[group].insert((key(load), task));
        self.by_node[node].insert((key(load), task));
    }

    pub(super) fn give(&mut self, split: usize, task: usize) {
        self.task[split] = task;
        self.of_task[task].insert(split);
        self.by_length[task].insert((key(self.items[split].length), Reverse(split)));
        self.set_load(task, self.loads[task] + self.cost(split, task));
    }

    fn hand(&mut self, split: usize, to: usize) {
        let from = self.task[split];
        self.of_task[from].remove(&split);
        self.by_length[from].remove(&(key(self.items[split].length), Reverse(split)));
        self.set_load(from, self.loads[from] - self.cost(split, from));
        self.give(split, to);
    }

    /// The task with the highest load hands a split to another node that holds it, or through
    /// one node that thereby hands on another split.
    fn hand_on_near(&mut self) -> bool {
        let Some(critical) = self.critical() else { return false };
        let high = self.loads[critical];
        let own: Vec<usize> = self.of_task[critical].iter().copied().collect();
        for &split in &own {
            if let Some(to) = self.near_target(split, critical, high) {
                self.hand(split, to);
                return true;
            }
        }
        // Two steps: split to a task that first makes room.
        for &split in own.iter().take(LOOK_MAX) {
            let nodes: Vec<(usize, f64)> = self.items[split].near.clone();
            for (node, cost) in nodes {
                for middle in self.tasks_of[node].clone().filter(|&task| task != critical) {
                    if let Some((other, to)) = self.makes_room(middle, critical, cost, high) {
                        self.hand(other, to);
                        self.hand(split, middle);
                        return true;
                    }
                }
            }
        }
        false
    }

    /// A task on a node that holds the split, whose load would stay below `high` with it.
    fn near_target(&self, split: usize, from: usize, high: f64) -> Option<usize> {
        let item = &self.items[split];
        let ends = item.near.iter().filter_map(|&(node, cost)| {
            let (_, task) = *self.by_node.get(node)?.first()?;
            let end = self.loads[task] + cost;
            (task != from && end < high - slack(high)).then_some((key(end), task))
        });
        ends.min().map(|(_, task)| task)
    }

    fn makes_room(
        &self,
        middle: usize,
        critical: usize,
        cost: f64,
        high: f64,
    ) -> Option<(usize, usize)> {
        self.of_task[middle].iter().take(LOOK_MAX).find_map(|&other| {
            let freed = self.loads[middle] - self.cost(other, middle);
            if freed + cost >= high - slack(high) {
                return None;
            }
            let to = self.near_target(other, middle, high).filter(|&to| to != critical)?;
            Some((other, to))
        })
    }

    /// Moves the smallest split of the task with the highest load to the task that then ends
    /// soonest.
    fn hand_on_far(&mut self, allowance: &mut f64) -> bool {
        let Some(critical) = self.critical() else { return false };
        let Some(&(_, Reverse(split))) = self.by_length[critical].first() else { return false };
        let Some((_, target)) = self.soonest(split) else { return false };
        let high = self.loads[critical];
        let end = self.loads[target] + self.cost(split, target);
        let bytes = self.far_bytes(split, target) - self.far_bytes(split, critical);
        if bytes > *allowance || end >= high - slack(high) {
            return false;
        }
        *allowance -= bytes;
        self.hand(split, target);
        true
    }
}

/// Speeds relative to the fastest one; all 1 where none is above 0.
fn relative(nodes: &[NodeTasks]) -> Vec<f64> {
    let usable = |speed: f64| if speed.is_finite() { speed.max(0.0) } else { 0.0 };
    let busy = nodes.iter().filter(|node| node.tasks > 0);
    let fastest = busy.map(|node| usable(node.speed)).fold(0.0, f64::max);
    let part = |node: &NodeTasks| {
        // What is far below may as well be nothing: its time would be beyond all bounds.
        let part = usable(node.speed) / fastest;
        if part < 1e-6 { 0.0 } else { part.min(1.0) }
    };
    nodes.iter().map(|node| if fastest > 0.0 { part(node) } else { 1.0 }).collect()
}

/// Converts the splits to the form that the assignment works on.
fn items(
    splits: &[Split],
    node_of: &[Option<usize>],
    tasks_of: &[std::ops::Range<usize>],
    speed: &[f64],
    pace: Pace,
) -> Vec<Item> {
    let usable = |node: &usize| tasks_of.get(*node).is_some_and(|own| !own.is_empty());
    let item = |split: &Split| {
        let length = as_f64(split.length);
        let mut held: Vec<(usize, u64)> = Vec::new();
        for &(datanode, bytes) in split.held.iter().filter(|(_, bytes)| *bytes > 0) {
            let at = datanode as usize;
            let node = node_of.get(at).copied().flatten().filter(usable);
            held.extend(node.map(|node| (node, bytes)));
        }
        held.sort_unstable();
        // Two DataNodes of one node hold no more than the split.
        merge_equal(&mut held, u64::saturating_add);
        let cost = |node: usize, bytes: u64| {
            let local = as_f64(bytes.min(split.length));
            length / speed[node] + (length - local) * pace.remote_extra
        };
        let most = held.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        Item {
            length,
            scattered: most < split.length.div_ceil(2),
            near: held.into_iter().map(|(node, bytes)| (node, cost(node, bytes))).collect(),
            extra: length * pace.remote_extra,
        }
    };
    splits.iter().map(item).collect()
}

/// Difference of loads that is not worth a move.
fn slack(high: f64) -> f64 {
    high * 1e-9
}
