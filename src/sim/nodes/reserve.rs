// SPDX-License-Identifier: GPL-3.0-or-later
//! Running jobs by their expected ends, and from them the time and nodes at which a job that does
//! not fit now will start.
//!
//! When a node has room for a class of jobs is kept until something changes on that node, so that
//! a job of a long queue costs a look at numbers, not at what runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use phalanx_core::shape::Shape;
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::{Cluster, Held, give_back};
use phalanx_planner::place::{capacity, may_split_otherwise};

use super::choose::{by_weight, fits};
use super::classes::Class;
use super::stock::Stock;
use crate::slurm::Windows;

/// Classes whose rooms are kept at once; then all are forgotten.
const CLASSES_KEPT: usize = 2_000;
/// A time before every end: what fits then fits now.
pub(super) const NOW_S: i64 = i64::MIN;

/// Nodes kept free for a job.
#[derive(Debug, Clone)]
pub(super) struct Reservation {
    /// Begin of the reservation, unix seconds.
    pub(super) start_s: i64,
    /// The nodes.
    pub(super) nodes: NodeSet,
}

/// Running jobs by the ends that are expected of them.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// End, job and its nodes, in order.
    by_end: Vec<((i64, u32), Vec<NodeIdx>)>,
    end_of: BTreeMap<u32, i64>,
    on_node: Vec<Vec<(i64, u32)>>,
    /// Changes of each node so far, and of all.
    changes: Vec<u64>,
    changed: u64,
    rooms: BTreeMap<u32, Rooms>,
}

/// When the nodes have room for a class of jobs.
#[derive(Debug, Default)]
struct Rooms {
    /// Changes of each node, and of all, when it was looked at, plus one.
    seen: Vec<u64>,
    seen_all: u64,
    /// The end with which a whole share fits; `i64::MAX`: none.
    fits_s: Vec<i64>,
    /// Tasks that fit from an end on, where an uneven split is allowed.
    tasks: Vec<Vec<(i64, u64)>>,
    /// Nodes of the class with room, from each end on that adds some.
    sets: Vec<(i64, NodeSet)>,
    /// The earliest end with which the job fits on the nodes of its class.
    earliest_s: Option<i64>,
}

/// A request on the nodes as they are, and the rule of the topology, if nodes are chosen by it.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) stock: Option<&'a Stock>,
    /// Number of the class, and the class.
    pub(super) class: (u32, &'a Class),
}

impl<'a> Ask<'a> {
    fn shape(&self) -> &'a Shape {
        &self.class.1.shape
    }

    /// Nodes of these that have room with the end `at_s`.
    fn fitting(&self, rooms: &Rooms, nodes: &NodeSet, at_s: i64) -> Vec<u32> {
        let Some(set) = rooms.with_room(at_s) else { return Vec::new() };
        let mut both = nodes.clone();
        both.intersect_with(set);
        both.iter().map(NodeIdx::raw).collect()
    }

    /// Whether the job fits these nodes with the end `at_s`: evenly, else unevenly.
    fn is_met(&self, rooms: &Rooms, nodes: &NodeSet, at_s: i64) -> bool {
        let wanted = self.shape().wanted_nodes();
        let both = rooms.with_room(at_s).map(|set| set.words().iter().zip(nodes.words()));
        let count: u32 = both.into_iter().flatten().map(|(a, b)| (a & b).count_ones()).sum();
        let holds = |stock: &Stock| stock.holds(&self.fitting(rooms, nodes, at_s), wanted);
        if count >= wanted && self.stock.is_none_or(holds) {
            return true;
        }
        let sum = |sum: u64, node: NodeIdx| sum.saturating_add(rooms.tasks_on(node, at_s));
        let per_task = self.shape().cpus_per_task.max(1);
        let tasks = self.shape().tasks().max(u64::from(self.shape().min_cpus.div_ceil(per_task)));
        !rooms.tasks.is_empty() && nodes.iter().fold(0, sum) >= tasks
    }

    /// The nodes to keep of these with the end `at_s`: those that Slurm takes by topology; the
    /// `first` by weight or else the last ones, that others may use the rest; of an uneven split
    /// all that count.
    fn kept(&self, rooms: &Rooms, nodes: &NodeSet, at_s: i64, first: bool) -> NodeSet {
        let wanted = self.shape().wanted_nodes() as usize;
        let fitting = self.fitting(rooms, nodes, at_s);
        let lightest = || by_weight(self.cluster, &fitting);
        let chosen = match self.stock {
            Some(stock) => stock.choose(&lightest(), self.shape().wanted_nodes()),
            None if fitting.len() < wanted => None,
            None if first => {
                Some(lightest().into_iter().take(wanted).map(|(_, node)| node).collect())
            }
            None => Some(fitting.iter().rev().take(wanted).copied().collect()),
        };
        let mut kept = NodeSet::new(nodes.len());
        match chosen {
            Some(chosen) => chosen.into_iter().for_each(|node: u32| _ = kept.insert(node.into())),
            None => {
                let some = nodes.iter().filter(|node| rooms.tasks_on(*node, at_s) > 0);
                some.for_each(|node| _ = kept.insert(node));
            }
        }
        kept
    }

    /// The earliest end with which the job fits these nodes: [`NOW_S`] if it fits already.
    fn earliest_s(&self, rooms: &Rooms, nodes: &NodeSet) -> Option<i64> {
        if self.is_met(rooms, nodes, NOW_S) {
            return Some(NOW_S);
        }
        let steps = rooms.tasks.iter().flatten().map(|(at_s, _)| *at_s);
        let mut times: Vec<i64> = rooms.sets.iter().map(|(at_s, _)| *at_s).chain(steps).collect();
        times.sort_unstable();
        times.dedup();
        let at = times.partition_point(|at_s| !self.is_met(rooms, nodes, *at_s));
        times.get(at).copied()
    }
}

impl Rooms {
    /// Nodes of the class with room with the end `at_s`.
    fn with_room(&self, at_s: i64) -> Option<&NodeSet> {
        let behind = self.sets.partition_point(|(from_s, _)| *from_s <= at_s);
        Some(&self.sets.get(behind.checked_sub(1)?)?.1)
    }

    /// Makes the sets of nodes anew.
    fn gather(&mut self, nodes: &NodeSet) {
        let fits_s = |node: NodeIdx| Some((*self.fits_s.get(node.at())?, node));
        let mut order: Vec<(i64, NodeIdx)> = nodes.iter().filter_map(fits_s).collect();
        order.retain(|(at_s, _)| *at_s < i64::MAX);
        order.sort_unstable();
        let mut set = NodeSet::new(nodes.len());
        self.sets.clear();
        for same in order.chunk_by(|a, b| a.0 == b.0) {
            same.iter().for_each(|(_, node)| _ = set.insert(*node));
            self.sets.extend(same.first().map(|(at_s, _)| (*at_s, set.clone())));
        }
    }

    fn tasks_on(&self, node: NodeIdx, at_s: i64) -> u64 {
        let steps = self.tasks.get(node.at()).map_or(&[][..], Vec::as_slice);
        steps.iter().take_while(|(from_s, _)| *from_s <= at_s).last().map_or(0, |(_, n)| *n)
    }

    /// Looks at a node again: `ends` are those of the jobs on it, in order.
    fn look(&mut self, ask: &Ask<'_>, node: NodeIdx, ends: &[(i64, u32)]) {
        let Some(own) = ask.cluster.usages().get(node.at()) else { return };
        let shape = ask.shape();
        let need = shape.need(shape.wanted_nodes());
        let one = may_split_otherwise(shape).then(|| shape.need_for(1, 1, 1));
        let (mut fits_s, mut tasks) = (i64::MAX, Vec::new());
        let mut room = Cow::Borrowed(own);
        for end in std::iter::once(None).chain(ends.iter().map(Some)) {
            let mut at_s = NOW_S;
            if let Some((end_s, id)) = end {
                at_s = *end_s;
                let held = ask.cluster.jobs().get(id).map(|job| &*job.held).unwrap_or_default();
                let here = held.iter().filter(|held| held.node == node);
                here.for_each(|held| give_back(room.to_mut(), held));
            }
            if fits_s == i64::MAX && fits(&room, &need) {
                fits_s = at_s;
            }
            match &one {
                Some(one) => tasks.push((at_s, capacity(shape, one, &room, &[0; 8]))),
                None if fits_s < i64::MAX => break,
                None => {}
            }
        }
        if let Some(slot) = self.fits_s.get_mut(node.at()) {
            *slot = fits_s;
        }
        if let Some(slot) = self.tasks.get_mut(node.at()) {
            *slot = tasks;
        }
    }
}

impl Expected {
    pub(super) fn insert(&mut self, id: u32, end_s: i64, held: &[Held]) {
        self.end_of.insert(id, end_s);
        let nodes: Vec<NodeIdx> = held.iter().map(|held| held.node).collect();
        for node in &nodes {
            self.on_node.resize_with(self.on_node.len().max(node.at() + 1), Vec::new);
            if let Some(ends) = self.on_node.get_mut(node.at()) {
                let at = ends.partition_point(|end| *end < (end_s, id));
                ends.insert(at, (end_s, id));
            }
        }
        self.touch(&nodes);
        let at = self.by_end.partition_point(|(end, _)| *end < (end_s, id));
        self.by_end.insert(at, ((end_s, id), nodes));
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Some(end_s) = self.end_of.remove(&id) else { return };
        let at = self.by_end.partition_point(|(end, _)| *end < (end_s, id));
        let is_there = self.by_end.get(at).is_some_and(|(end, _)| *end == (end_s, id));
        let nodes = if is_there { self.by_end.remove(at).1 } else { Vec::new() };
        for node in &nodes {
            let ends = self.on_node.get_mut(node.at());
            ends.into_iter().for_each(|ends| ends.retain(|(_, other)| *other != id));
        }
        self.touch(&nodes);
    }

    fn touch(&mut self, nodes: &[NodeIdx]) {
        self.changed += 1;
        for node in nodes {
            self.changes.resize(self.changes.len().max(node.at() + 1), 0);
            self.changes.get_mut(node.at()).into_iter().for_each(|changes| *changes += 1);
        }
    }

    /// The rooms of a class, as they are now.
    fn rooms(&mut self, ask: &Ask<'_>) -> &Rooms {
        let (number, class) = ask.class;
        if self.rooms.len() >= CLASSES_KEPT && !self.rooms.contains_key(&number) {
            self.rooms.clear();
        }
        let rooms = self.rooms.entry(number).or_default();
        if rooms.seen_all == self.changed + 1 {
            return rooms;
        }
        let nodes = ask.cluster.usages().len();
        rooms.seen.resize(nodes, 0);
        rooms.fits_s.resize(nodes, i64::MAX);
        if may_split_otherwise(ask.shape()) {
            rooms.tasks.resize_with(nodes, Vec::new);
        }
        for node in class.nodes.iter() {
            let changes = self.changes.get(node.at()).copied().unwrap_or(0) + 1;
            let seen = rooms.seen.get_mut(node.at());
            if seen.is_some_and(|seen| std::mem::replace(seen, changes) != changes) {
                rooms.look(ask, node, self.on_node.get(node.at()).map_or(&[], Vec::as_slice));
            }
        }
        rooms.seen_all = self.changed + 1;
        rooms.gather(&class.nodes);
        rooms.earliest_s = ask.earliest_s(rooms, &class.nodes);
        rooms
    }

    /// The earliest end with which a job of the class fits: [`NOW_S`] if it fits already.
    pub(super) fn earliest_s(&mut self, ask: &Ask<'_>) -> Option<i64> {
        self.rooms(ask).earliest_s
    }

    /// The start of a job of the class if all running jobs last as long as is expected, and nodes
    /// for it. `None`: it does not fit even then.
    pub(super) fn reserve(&mut self, ask: &Ask<'_>, now_s: i64) -> Option<Reservation> {
        let rooms = self.rooms(ask);
        let start_s = rooms.earliest_s?.max(now_s);
        let nodes = ask.kept(rooms, &ask.class.1.nodes, start_s, false);
        Some(Reservation { start_s, nodes })
    }

    /// The start that Slurm's backfill finds on these nodes, and the nodes. `None`: there is none.
    pub(super) fn will_run(
        &mut self,
        ask: &Ask<'_>,
        candidates: &NodeSet,
        now_s: i64,
    ) -> Option<(i64, NodeSet)> {
        self.rooms(ask);
        let rooms = self.rooms.get(&ask.class.0)?;
        if ask.is_met(rooms, candidates, NOW_S) {
            return Some((now_s, ask.kept(rooms, candidates, NOW_S, true)));
        }
        if !ask.is_met(rooms, candidates, i64::MAX - 1) {
            return None;
        }
        let (mut windows, mut last_s) = (Windows::new(), None);
        let mut ends = self.by_end.iter().peekable();
        while let Some(((end_s, _), nodes)) = ends.next() {
            let next_s = ends.peek().map(|((end_s, _), _)| *end_s);
            if nodes.iter().any(|node| candidates.contains(*node)) {
                last_s = Some(*end_s);
            } else if next_s.is_some() {
                continue;
            }
            let last_s = last_s?;
            if windows.is_full(last_s, next_s) && ask.is_met(rooms, candidates, last_s) {
                let nodes = ask.kept(rooms, candidates, last_s, true);
                return Some((last_s.max(now_s + 1), nodes));
            }
        }
        None
    }
}
