// SPDX-License-Identifier: GPL-3.0-or-later
//! Running jobs by their expected ends, and from them the time and nodes at which a job that does
//! not fit now will start.
//!
//! When a node has room for a class of jobs is kept until something changes on that node, so that
//! a job of a long queue costs a look at numbers, not at what runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use phalanx_core::shape::{Need, Shape};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::{Cluster, Held, give_back};
use phalanx_planner::room::{capacity, may_split_otherwise};

use super::choose::by_weight;
use super::classes::Class;
use super::stock::Stock;
use crate::slurm::Windows;

/// Most classes and changes of nodes that are kept at once; beyond this number all are forgotten.
const KEPT: (usize, usize) = (2_000, 1 << 20);
/// Nodes that are looked at together.
const BLOCK: usize = 32;
/// A time before every end: a job that fits at this time fits now.
pub(super) const NOW_S: i64 = i64::MIN;

/// Nodes kept free for a job.
#[derive(Debug, Clone)]
pub(super) struct Reservation {
    /// Begin of the reservation, unix seconds.
    pub(super) start_s: i64,
    /// The nodes.
    pub(super) nodes: NodeSet,
}

/// Running jobs by their expected ends.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Expected end, job and the job's nodes, in order.
    by_end: Vec<((i64, u32), Vec<NodeIdx>)>,
    end_of: BTreeMap<u32, i64>,
    on_node: Vec<Vec<(i64, u32)>>,
    /// Nodes in the order of their changes, and for each node the place of its latest change.
    changed: Vec<NodeIdx>,
    latest: Vec<usize>,
    rooms: BTreeMap<u32, Rooms>,
    /// Number of nodes and ends that were looked at.
    looks: u64,
}

/// Times from which the nodes have room for a class of jobs.
#[derive(Debug, Default)]
struct Rooms {
    /// Number of changes that are known.
    seen: usize,
    /// The end after which a whole share fits on each node; `i64::MAX`: none.
    fits_s: Vec<i64>,
    /// Nodes on which the class ever fits, each with the end after which it does, in that order.
    order: Vec<(i64, NodeIdx)>,
    /// Bit sets of the nodes of `order`, one for each run of [`BLOCK`] of them.
    blocks: Vec<u64>,
    /// Number of tasks that fit after an end, where an uneven split is allowed.
    tasks: Vec<Vec<(i64, u64)>>,
    /// The earliest end after which the job fits on the nodes of its class.
    earliest_s: Option<i64>,
}

/// A request on the present nodes, and the rule of the topology, if nodes are chosen by it.
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

    /// Nodes of `nodes` that have room once all that ends up to `at_s` has ended.
    fn fitting(&self, rooms: &Rooms, nodes: &NodeSet, at_s: i64) -> Vec<u32> {
        let until = rooms.order.partition_point(|(from_s, _)| *from_s <= at_s);
        let some = rooms.order.get(..until).unwrap_or_default().iter().map(|(_, node)| *node);
        let mut found: Vec<u32> =
            some.filter(|node| nodes.contains(*node)).map(NodeIdx::raw).collect();
        found.sort_unstable();
        found
    }

    /// The earliest end after which enough of `nodes` have room for an even share, if it is no
    /// later than `until_s`.
    fn evenly_s(&self, rooms: &Rooms, nodes: &NodeSet, until_s: i64) -> Option<i64> {
        let wanted = self.shape().wanted_nodes();
        // By whole blocks as far as these do not suffice, then one by one.
        let blocks = rooms.blocks.chunks_exact(nodes.words().len().max(1));
        let of = |block: &[u64]| -> u32 {
            nodes.words().iter().zip(block).map(|(own, block)| (own & block).count_ones()).sum()
        };
        let (mut at, mut left) = (0, wanted);
        let in_time = |(at, _): &(usize, &[u64])| {
            let last = rooms.order.get((at + 1) * BLOCK - 1);
            last.is_some_and(|(at_s, _)| *at_s <= until_s)
        };
        for (_, block) in (0..).zip(blocks).take_while(in_time) {
            let here = of(block);
            if here >= left {
                break;
            }
            (at, left) = (at + BLOCK, left - here);
        }
        let rest = rooms.order.get(at..)?.iter().take_while(|(at_s, _)| *at_s <= until_s);
        let mut fitting = rest.filter(|(_, node)| nodes.contains(*node));
        fitting.nth((left as usize).checked_sub(1)?).map(|(at_s, _)| *at_s)
    }

    /// Whether the job fits `nodes` once all that ends up to `at_s` has ended: evenly, if
    /// `evenly_s` is no later, else unevenly.
    fn is_met(&self, rooms: &Rooms, nodes: &NodeSet, evenly_s: Option<i64>, at_s: i64) -> bool {
        let wanted = self.shape().wanted_nodes();
        let holds = |stock: &Stock| stock.holds(&self.fitting(rooms, nodes, at_s), wanted);
        if evenly_s.is_some_and(|from_s| from_s <= at_s) && self.stock.is_none_or(holds) {
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
            Some(stock) => stock.evenly(&lightest(), self.shape().wanted_nodes()),
            None if fitting.len() < wanted => None,
            None if first => {
                Some(lightest().into_iter().take(wanted).map(|(_, node)| node).collect())
            }
            None => Some(fitting.iter().rev().take(wanted).copied().collect()),
        };
        let mut kept = NodeSet::new(nodes.len());
        match chosen {
            Some(chosen) => kept.extend(chosen.into_iter().map(NodeIdx::from)),
            None => kept.extend(nodes.iter().filter(|node| rooms.tasks_on(*node, at_s) > 0)),
        }
        kept
    }

    /// The earliest end after which the job fits `nodes`: [`NOW_S`] if it fits already.
    fn earliest_s(&self, rooms: &Rooms, nodes: &NodeSet) -> Option<i64> {
        let evenly_s = self.evenly_s(rooms, nodes, i64::MAX);
        if self.stock.is_none() && rooms.tasks.is_empty() {
            return evenly_s;
        }
        let is_met = |at_s: i64| self.is_met(rooms, nodes, evenly_s, at_s);
        let steps = rooms.tasks.iter().flatten().map(|(at_s, _)| *at_s);
        let mut ends: Vec<i64> = rooms.order.iter().map(|(at_s, _)| *at_s).chain(steps).collect();
        ends.sort_unstable();
        ends.dedup();
        let at = ends.partition_point(|at_s| !is_met(*at_s));
        if is_met(NOW_S) { Some(NOW_S) } else { ends.get(at).copied() }
    }
}

impl Rooms {
    fn tasks_on(&self, node: NodeIdx, at_s: i64) -> u64 {
        let steps = self.tasks.get(node.at()).map_or(&[][..], Vec::as_slice);
        steps.iter().take_while(|(from_s, _)| *from_s <= at_s).last().map_or(0, |(_, n)| *n)
    }

    /// Looks at a node again, whose jobs end at `ends`, in order; returns whether anything changed.
    fn look(
        &mut self,
        ask: &Ask<'_>,
        (need, one): (&Need, Option<&Need>),
        node: NodeIdx,
        ends: &[(i64, u32)],
    ) -> bool {
        let Some(own) = ask.cluster.usages().get(node.at()) else { return false };
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
            if fits_s == i64::MAX && room.has_room(need) {
                fits_s = at_s;
            }
            match one {
                Some(one) => tasks.push((at_s, capacity(ask.shape(), one, &room, &[0; 8]))),
                None if fits_s < i64::MAX => break,
                None => {}
            }
        }
        let before = self.fits_s.get_mut(node.at()).map(|slot| std::mem::replace(slot, fits_s));
        let moved = before.is_some_and(|before| before != fits_s);
        if moved {
            if let Ok(place) = self.order.binary_search(&(before.unwrap_or(i64::MAX), node)) {
                self.order.remove(place);
            }
            if let (Err(place), true) =
                (self.order.binary_search(&(fits_s, node)), fits_s < i64::MAX)
            {
                self.order.insert(place, (fits_s, node));
            }
        }
        let slot = self.tasks.get_mut(node.at());
        moved | slot.is_some_and(|slot| std::mem::replace(slot, tasks) != *slot)
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
        for node in nodes {
            self.latest.resize(self.latest.len().max(node.at() + 1), 0);
            let place = self.changed.len();
            self.latest.get_mut(node.at()).into_iter().for_each(|latest| *latest = place);
            self.changed.push(*node);
        }
    }

    /// The rooms of a class, brought up to date.
    fn rooms(&mut self, ask: &Ask<'_>) -> &Rooms {
        let (number, class) = ask.class;
        let is_full = self.rooms.len() >= KEPT.0 && !self.rooms.contains_key(&number);
        if is_full || self.changed.len() > KEPT.1 {
            self.rooms.clear();
            self.changed.clear();
        }
        let rooms = self.rooms.entry(number).or_default();
        let is_new = rooms.fits_s.is_empty();
        if rooms.seen == self.changed.len() && !is_new {
            return rooms;
        }
        let shape = ask.shape();
        let need = shape.need(shape.wanted_nodes());
        let one = may_split_otherwise(shape).then(|| shape.need_for(1, 1, 1));
        let mut again: Vec<NodeIdx> = Vec::new();
        if is_new {
            rooms.fits_s.resize(ask.cluster.usages().len(), i64::MAX);
            rooms.tasks.resize_with(one.as_ref().map_or(0, |_| rooms.fits_s.len()), Vec::new);
            again.extend(class.nodes.iter());
        } else {
            let places = (rooms.seen..).zip(self.changed.get(rooms.seen..).unwrap_or_default());
            let is_latest = |place, node: NodeIdx| self.latest.get(node.at()) == Some(&place);
            let last = places.filter(|(place, node)| is_latest(*place, **node));
            again.extend(last.map(|(_, node)| *node).filter(|node| class.nodes.contains(*node)));
        }
        rooms.seen = self.changed.len();
        self.looks += again.len() as u64;
        let mut moved = is_new;
        for node in again {
            let ends = self.on_node.get(node.at()).map_or(&[][..], Vec::as_slice);
            moved |= rooms.look(ask, (&need, one.as_ref()), node, ends);
        }
        if moved {
            let words = class.nodes.words().len();
            rooms.blocks.clear();
            for block in rooms.order.chunks_exact(BLOCK) {
                let mut set = NodeSet::new(words * 64);
                set.extend(block.iter().map(|(_, node)| *node));
                rooms.blocks.extend(set.words());
            }
            rooms.earliest_s = ask.earliest_s(rooms, &class.nodes);
        }
        rooms
    }

    /// The earliest end after which a job of the class fits: [`NOW_S`] if it fits already.
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

    /// Whether a job of the class may start by a time on `nodes`: enough of them have room,
    /// whatever the topology says, or it may be split in other ways.
    pub(super) fn may_run(&mut self, ask: &Ask<'_>, nodes: &NodeSet, until_s: i64) -> bool {
        let rooms = self.rooms(ask);
        let evenly_s = ask.evenly_s(rooms, nodes, until_s);
        let unevenly = until_s > NOW_S && !rooms.tasks.is_empty();
        unevenly || Ask { stock: None, ..*ask }.is_met(rooms, nodes, evenly_s, until_s)
    }

    /// The start that Slurm's backfill finds on `nodes` from the present time on, and its nodes if
    /// it is no later than `until_s`. `None`: there is none by then.
    pub(super) fn will_run(
        &mut self,
        ask: &Ask<'_>,
        candidates: &NodeSet,
        (now_s, until_s): (i64, i64),
    ) -> Option<(i64, NodeSet)> {
        self.rooms(ask);
        let rooms = self.rooms.get(&ask.class.0)?;
        let evenly_s = ask.evenly_s(rooms, candidates, until_s);
        if evenly_s.is_none() && rooms.tasks.is_empty() {
            return None;
        }
        let is_met = |at_s: i64| ask.is_met(rooms, candidates, evenly_s, at_s);
        if is_met(NOW_S) {
            return Some((now_s, ask.kept(rooms, candidates, NOW_S, true)));
        }
        if !is_met(i64::MAX - 1) {
            return None;
        }
        let counts = |(_, nodes): &((i64, u32), Vec<NodeIdx>)| {
            nodes.iter().any(|node| candidates.contains(*node))
        };
        let mut windows = Windows::new();
        let ends = self.by_end.get(..=self.by_end.iter().rposition(counts)?)?;
        let mut at = ends.iter().position(counts)?;
        loop {
            self.looks += 1;
            let end_s = ends.get(at)?.0.0;
            let next_s = ends.get(at + 1).map(|((end_s, _), _)| *end_s);
            if windows.is_full(end_s, next_s) && is_met(end_s) {
                let none = || NodeSet::new(candidates.len());
                let kept = || ask.kept(rooms, candidates, end_s, true);
                let nodes = if end_s > until_s { none() } else { kept() };
                return Some((end_s.max(now_s + 1), nodes));
            }
            // Of those that end within a window only the last one is tested behind.
            let inside = ends.partition_point(|((end_s, _), _)| *end_s <= windows.reach_s());
            at = (at + 1).max(inside.saturating_sub(1));
            at += ends.get(at..)?.iter().position(counts)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeLoad;
    use super::super::classes::{Classes, idle_rooms};
    use super::super::load::{Site, idle};
    use super::super::{NodeJob, load::PARTITION};
    use super::*;
    use phalanx_core::snapshot::Job;
    use phalanx_core::trace::spec;
    use phalanx_planner::cluster::RunningJob;

    const NODES: u32 = 512;

    fn job(nodes: u32) -> NodeJob {
        let shape = Shape {
            min_nodes: nodes,
            max_nodes: nodes,
            req_nodes: nodes,
            min_cpus: nodes,
            ..Shape::default()
        };
        let job = Job { shape, partitions: PARTITION.into(), ..Job::default() };
        NodeJob { job, ..NodeJob::default() }
    }

    /// Goal: a search costs windows, not running jobs, and a change costs what changed. Method:
    /// nodes taken by a job each, with ends a minute apart; jobs of all sizes ask, as one after
    /// another ends.
    #[test]
    fn a_search_looks_at_windows_and_changes() {
        let nodes = spec::parse(&format!("{NODES}x(cpu=1)")).unwrap();
        let jobs = (1..=NODES).map(job).collect();
        let load = NodeLoad { jobs, ..idle(&Site::of(&nodes)).unwrap() };
        let classes = Classes::of(&load);
        let mut cluster = Cluster::with_usages(load.table(), idle_rooms(&load));
        let mut expected = Expected::default();
        for id in 0..NODES {
            let held = vec![Held { node: id.into(), cpus: 1, ..Held::default() }];
            expected.insert(id, i64::from(id + 1) * 60, &held);
            cluster.set_job(RunningJob { id, held, ..RunningJob::default() }, |_| {});
        }
        let all = NodeSet::full(NODES as usize);
        for ended in 0..4 {
            let before = expected.looks;
            for size in ended + 1..=NODES {
                let class = (size - 1, classes.get(size - 1).unwrap());
                let ask = Ask { cluster: &cluster, stock: None, class };
                let earliest_s = expected.earliest_s(&ask).unwrap();
                assert_eq!(earliest_s, i64::from(size) * 60);
                let (start_s, kept) = expected.will_run(&ask, &all, (0, i64::MAX)).unwrap();
                assert!(start_s >= earliest_s && kept.count() == size as usize);
            }
            let a_size = (expected.looks - before) / u64::from(NODES);
            let most = if ended == 0 { u64::from(NODES) + 24 } else { 24 };
            assert!(a_size <= most, "{a_size} looks for a size, {ended} jobs ended");
            expected.remove(ended);
            cluster.end_job(ended, |_| {});
        }
    }
}
