// SPDX-License-Identifier: GPL-3.0-or-later
//! Assignment of splits to tasks, on nodes that the job has: the assignment and migration of
//! `docs/methods.md`, section Data jobs, (c), with a floor under the share that is read locally.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::splits::Split;
use crate::data_jobs::merge_equal;
use phalanx_core::number::as_f64;

/// Rounds of migration; each moves one split.
const MOVES_MAX: usize = 20_000;
/// Splits of one task that are looked at for a move in two steps.
const LOOK_MAX: usize = 64;

/// Speeds at which a task reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Time of a byte from another node, beyond that of a local one, as a part of the latter.
    pub remote_extra: f64,
    /// Part of the bytes that could be local which may be read remotely for the sake of balance.
    pub remote_share: f64,
}

/// The answer of [`assign`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assignment {
    /// Task of each split, numbered node by node.
    pub task: Vec<u32>,
    /// Bytes-equivalents of each task: local bytes count 1, remote ones more.
    pub loads: Vec<f64>,
}

/// One split as the assignment sees it.
struct Item {
    length: f64,
    /// (node, cost there), ascending by node: where some of it is held.
    near: Vec<(usize, f64)>,
    /// Cost on a node that holds nothing.
    far: f64,
    /// No node holds half of it: it is near nowhere.
    scattered: bool,
}

struct State {
    items: Vec<Item>,
    /// Node of each task.
    node_of: Vec<usize>,
    /// Tasks of each node.
    tasks_of: Vec<std::ops::Range<usize>>,
    loads: Vec<f64>,
    /// (load as sortable bits, task) by node, and of all.
    by_node: Vec<BTreeSet<(u64, usize)>>,
    all: BTreeSet<(u64, usize)>,
    task: Vec<usize>,
    of_task: Vec<BTreeSet<usize>>,
}

/// Assigns the splits to the tasks. `tasks` has the number of tasks of each node, `node_of` the
/// node of each DataNode of the splits (`None`: none of the job's).
///
/// Largest split first, each to the least loaded task of the nodes that hold it; then tasks with
/// the highest load hand splits on, first to other nodes that hold them, then, within
/// [`Pace::remote_share`], to any.
#[must_use]
pub fn assign(
    splits: &[Split],
    node_of: &[Option<usize>],
    tasks: &[u32],
    pace: Pace,
) -> Assignment {
    let mut state = State::new(splits, node_of, tasks, pace);
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
    let could: f64 = state.items.iter().filter(|i| !i.scattered).map(|i| i.length).sum();
    let mut allowance = could * pace.remote_share.clamp(0.0, 1.0);
    while moves > 0 && state.hand_on_far(&mut allowance) {
        moves -= 1;
    }
    let number = |&task: &usize| u32::try_from(task).unwrap_or(u32::MAX);
    Assignment { task: state.task.iter().map(number).collect(), loads: state.loads }
}

/// Orders loads, which are never negative, as integers.
fn key(load: f64) -> u64 {
    (load.max(0.0) + 0.0).to_bits()
}

impl State {
    fn new(splits: &[Split], node_of: &[Option<usize>], tasks: &[u32], pace: Pace) -> Self {
        let mut tasks_of = Vec::with_capacity(tasks.len());
        let mut owner = Vec::new();
        for (node, &count) in tasks.iter().enumerate() {
            let first = owner.len();
            owner.extend(std::iter::repeat_n(node, usize::try_from(count).unwrap_or(0)));
            tasks_of.push(first..owner.len());
        }
        let usable = |node: &usize| tasks.get(*node).is_some_and(|&count| count > 0);
        let item = |split: &Split| {
            let length = as_f64(split.length);
            let mut held: Vec<(usize, u64)> = Vec::new();
            for &(datanode, bytes) in split.held.iter().filter(|(_, bytes)| *bytes > 0) {
                let at = usize::try_from(datanode).unwrap_or(usize::MAX);
                let node = node_of.get(at).copied().flatten().filter(usable);
                held.extend(node.map(|node| (node, bytes)));
            }
            held.sort_unstable();
            // Two DataNodes of one node hold no more than the split.
            merge_equal(&mut held, u64::saturating_add);
            let cost = |bytes: u64| {
                let local = as_f64(bytes.min(split.length));
                length + (length - local) * pace.remote_extra
            };
            let most = held.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            Item {
                length,
                scattered: most < split.length.div_ceil(2),
                near: held.into_iter().map(|(node, bytes)| (node, cost(bytes))).collect(),
                far: cost(0),
            }
        };
        let count = owner.len();
        Self {
            items: splits.iter().map(item).collect(),
            by_node: tasks_of
                .iter()
                .map(|own| own.clone().map(|t| (key(0.0), t)).collect())
                .collect(),
            all: (0..count).map(|task| (key(0.0), task)).collect(),
            node_of: owner,
            tasks_of,
            loads: vec![0.0; count],
            task: vec![0; splits.len()],
            of_task: vec![BTreeSet::new(); count],
        }
    }

    fn cost(&self, split: usize, task: usize) -> f64 {
        let item = &self.items[split];
        let node = self.node_of[task];
        let near = item.near.binary_search_by_key(&node, |pair| pair.0);
        near.map_or(item.far, |at| item.near[at].1)
    }

    /// The task that a split goes to at first.
    fn best_for(&self, split: usize) -> Option<usize> {
        let item = &self.items[split];
        let ends = item.near.iter().filter_map(|&(node, cost)| {
            let (_, task) = *self.by_node.get(node)?.first()?;
            Some((key(self.loads[task] + cost), task))
        });
        let anywhere = || {
            let (_, task) = *self.all.first()?;
            Some((key(self.loads[task] + self.cost(split, task)), task))
        };
        if item.scattered {
            return ends.chain(anywhere()).min().map(|(_, task)| task);
        }
        ends.min().or_else(anywhere).map(|(_, task)| task)
    }

    fn set_load(&mut self, task: usize, load: f64) {
        let (old, node) = (key(self.loads[task]), self.node_of[task]);
        self.all.remove(&(old, task));
        self.by_node[node].remove(&(old, task));
        self.loads[task] = load;
        self.all.insert((key(load), task));
        self.by_node[node].insert((key(load), task));
    }

    fn give(&mut self, split: usize, task: usize) {
        self.task[split] = task;
        self.of_task[task].insert(split);
        self.set_load(task, self.loads[task] + self.cost(split, task));
    }

    fn hand(&mut self, split: usize, to: usize) {
        let from = self.task[split];
        self.of_task[from].remove(&split);
        self.set_load(from, self.loads[from] - self.cost(split, from));
        self.give(split, to);
    }

    /// The task with the highest load hands a split to another node that holds it, or through
    /// one node that thereby hands on another split.
    fn hand_on_near(&mut self) -> bool {
        let Some(&(_, critical)) = self.all.last() else { return false };
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

    /// A task on a node that holds the split and would stay below `high` with it.
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

    /// The task with the highest load hands its smallest split to the least loaded task.
    fn hand_on_far(&mut self, allowance: &mut f64) -> bool {
        let (Some(&(_, critical)), Some(&(_, target))) = (self.all.last(), self.all.first()) else {
            return false;
        };
        let high = self.loads[critical];
        let lengths =
            self.of_task[critical].iter().map(|&i| (key(self.items[i].length), Reverse(i)));
        let Some((_, Reverse(split))) = lengths.min() else { return false };
        let end = self.loads[target] + self.cost(split, target);
        let item = &self.items[split];
        let bytes = if item.scattered { 0.0 } else { item.length };
        if bytes > *allowance || end >= high - slack(high) {
            return false;
        }
        *allowance -= bytes;
        self.hand(split, target);
        true
    }
}

/// A difference that is not worth a move.
fn slack(high: f64) -> f64 {
    high * 1e-9
}
