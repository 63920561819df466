// SPDX-License-Identifier: GPL-3.0-or-later
//! The splits that one task of a step reads, whatever number of tasks the step has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::map::{BlockMap, MapNode, Range};

/// The tasks of a job step, which every one of them knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Nodes of the step, each with its tasks.
    pub nodes: Vec<MapNode>,
}

/// Place of an element in its job array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// Index of the element, from 0.
    pub index: u64,
    /// Number of elements.
    pub count: u64,
}

impl Elements {
    /// Makes an element of the numbers that Slurm gives it; `None` when its array is not evenly
    /// spaced.
    #[must_use]
    pub fn of(id: u64, min: u64, max: u64, count: u64) -> Option<Self> {
        let span = max.checked_sub(min)?;
        let step = match count.checked_sub(1)? {
            0 => 1,
            gaps if span % gaps == 0 => (span / gaps).max(1),
            _ => return None,
        };
        let offset = id.checked_sub(min)?;
        let index = offset / step;
        (offset % step == 0 && index < count).then_some(Self { index, count })
    }

    /// The element's part of `total` splits.
    #[must_use]
    pub fn range(self, total: usize) -> std::ops::Range<usize> {
        let edge = |i: u64| {
            let at = u128::from(i) * (total as u128) / u128::from(self.count.max(1));
            usize::try_from(at).unwrap_or(total)
        };
        edge(self.index)..edge(self.index + 1)
    }
}

/// Parses the tasks of a waiting array as Slurm writes them, `3-9:2,12%4`; `None` where Slurm has
/// shortened the list, or there are more than `most`.
#[must_use]
pub fn array_tasks(text: &str, most: usize) -> Option<Vec<u32>> {
    let mut tasks = Vec::new();
    for part in text.split('%').next().unwrap_or_default().split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let step = step.parse::<usize>().ok().filter(|step| *step > 0)?;
        let all = (first.parse::<u32>().ok()?..=last.parse().ok()?).step_by(step);
        tasks.extend(all.take(most.saturating_add(1)));
        if tasks.len() > most {
            return None;
        }
    }
    Some(tasks)
}

impl BlockMap {
    /// Returns the splits (positions in [`Self::ranges`], ascending) of task `slot` on `node`.
    ///
    /// As planned when the step has the tasks that were expected. Else what was planned for a
    /// node is assigned to the tasks that the step has there, and what was planned for nodes that
    /// the step does not have is assigned to all: every split goes to exactly one task.
    #[must_use]
    pub fn of_task(
        &self,
        step: &Step,
        elements: Option<Elements>,
        node: &str,
        slot: u32,
    ) -> Vec<usize> {
        let all = 0..self.ranges.len();
        let part = elements.map_or(all, |elements| elements.range(self.ranges.len()));
        let mine = |range: &Range| self.node_of(range) == node && range.slot == slot;
        if elements.is_none() && same_tasks(&self.nodes, &step.nodes) {
            return part.filter(|&i| self.ranges.get(i).is_some_and(mine)).collect();
        }
        let mut again = Again::new(step, &self.nodes);
        let mut rest = Vec::new();
        let mut falling: Vec<usize> = part.collect();
        let length = |i: usize| self.ranges.get(i).map_or(0, |range| range.length);
        falling.sort_by_key(|&i| (Reverse(length(i)), i));
        for i in falling {
            let Some(range) = self.ranges.get(i) else { continue };
            let planned = elements.is_none().then(|| self.node_of(range));
            if !planned.is_some_and(|name| again.give_to(name, i, range.length)) {
                rest.push(i);
            }
        }
        for i in rest {
            let Some(range) = self.ranges.get(i) else { continue };
            let near = |name: &str| self.is_local(range, name);
            again.give_near(&near, i, range.length);
        }
        let mut own = again.taken.remove(&(node.to_owned(), slot)).unwrap_or_default();
        own.sort_unstable();
        own
    }
}

/// Whether two steps have the same nodes with the same tasks, in any order.
fn same_tasks(planned: &[MapNode], step: &[MapNode]) -> bool {
    let sorted = |nodes: &[MapNode]| {
        let mut pairs: Vec<(String, u32)> =
            nodes.iter().map(|node| (node.name.clone(), node.tasks)).collect();
        pairs.sort_unstable();
        pairs
    };
    sorted(planned) == sorted(step)
}

/// Assigns splits to the tasks of a step: each to the task that has the least to do, for its speed.
struct Again {
    /// (bytes, slot) of the tasks, by node.
    nodes: BTreeMap<String, BinaryHeap<Reverse<(u64, u32)>>>,
    /// Speed by node, in thousandths.
    speed: BTreeMap<String, u32>,
    taken: BTreeMap<(String, u32), Vec<usize>>,
}

impl Again {
    fn new(step: &Step, planned: &[MapNode]) -> Self {
        let busy = step.nodes.iter().filter(|node| node.tasks > 0);
        let heap = |node: &MapNode| {
            let slots = (0..node.tasks).map(|slot| Reverse((0, slot)));
            (node.name.clone(), slots.collect())
        };
        let speed =
            planned.iter().filter_map(|node| Some((node.name.clone(), node.speed_permille?)));
        Self { nodes: busy.map(heap).collect(), speed: speed.collect(), taken: BTreeMap::new() }
    }

    /// Time that a node takes for `bytes`.
    fn time(&self, node: &str, bytes: u64) -> u128 {
        let speed = self.speed.get(node).copied().unwrap_or(1000);
        (u128::from(bytes) * 1000).checked_div(speed.into()).unwrap_or(u128::MAX)
    }

    fn give_to(&mut self, node: &str, split: usize, length: u64) -> bool {
        let Some(heap) = self.nodes.get_mut(node) else { return false };
        let Some(Reverse((bytes, slot))) = heap.pop() else { return false };
        heap.push(Reverse((bytes.saturating_add(length), slot)));
        self.taken.entry((node.to_owned(), slot)).or_default().push(split);
        true
    }

    /// Gives the split to the task that ends soonest with it on a near node, else anywhere.
    fn give_near(&mut self, near: &dyn Fn(&str) -> bool, split: usize, length: u64) {
        let least = |only: bool| {
            let nodes = self.nodes.iter().filter(|(name, _)| !only || near(name));
            let tops = nodes.filter_map(|(name, heap)| {
                let bytes = heap.peek()?.0.0.saturating_add(length);
                Some((self.time(name, bytes), name))
            });
            tops.min().map(|(_, name)| name.clone())
        };
        if let Some(name) = least(true).or_else(|| least(false)) {
            self.give_to(&name, split, length);
        }
    }
}
