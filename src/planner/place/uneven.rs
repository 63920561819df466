// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs whose number of nodes is open, or whose tasks fit the nodes unevenly.
//!
//! The fewest nodes that hold the job, of one kind where stock would need no fewer of several
//! kinds, and neighbours: those that stock's steps take, if it would take as few. Source: best
//! fit of consecutive sets, `_eval_nodes_consec` of `plugins/topology/common/eval_nodes.c`
//! (24.05 on), `_eval_nodes` of `plugins/select/cons_tres/job_test.c` before; of a tree the sets
//! are its leaves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Why;
use super::search::{Search, Split};
use super::topology::{Chooser, Route, by_switches};
use crate::stock::are_neighbours;
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::layout::{self, BySocket, CoreAsk};
use phalanx_core::number::as_f64;
use phalanx_core::shape::{LeftToSlurm, Memory, Need, Shape};
use phalanx_methods::balance::{Decision, Holding, Outcome, Request};

/// Nodes of one uneven split whose scores are kept.
const SCORED_MAX: usize = 64;
/// Sets of neighbours that are joined before the largest nodes are taken instead.
const SETS_MAX: usize = 64;
/// Kinds of nodes that the balance method compares.
const KINDS_MAX: usize = 8;
/// Amounts of which the whole job needs some: tasks, and GRES asked for per job.
const UNITS: usize = 4;
pub(super) type Units = [u64; UNITS];

/// Amounts that a job needs on all of its nodes together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub need: Units,
    /// Fewest nodes.
    pub least: usize,
    /// Most nodes.
    pub most: usize,
}

/// Room of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub node: NodeIdx,
    pub units: Units,
}

impl Ask {
    /// `None`: too many GRES are asked for per job.
    fn new(shape: &Shape, wanted: u32) -> Option<Self> {
        let mut need = [0; UNITS];
        let by_cpus = shape.min_cpus.div_ceil(shape.cpus_per_task.max(1));
        need[0] = shape.tasks().max(u64::from(by_cpus));
        for (at, gres) in (1..).zip(shape.gres.iter().filter(|gres| gres.per_job > 0)) {
            *need.get_mut(at)? = gres.per_job;
        }
        // Slurm gives no node without a task.
        let tasks = if shape.num_tasks > 0 { shape.num_tasks } else { u32::MAX };
        let most = shape.max_nodes.min(tasks).max(wanted);
        Some(Self { need, least: wanted as usize, most: most as usize })
    }

    /// Returns what is missing beside these rooms; `None`: they are too many.
    fn beside(mut self, rooms: &[Room]) -> Option<Self> {
        for room in rooms {
            self.take(room);
        }
        self.most = self.most.checked_sub(rooms.len())?;
        Some(self)
    }

    fn take(&mut self, room: &Room) {
        for (need, units) in self.need.iter_mut().zip(room.units) {
            *need = need.saturating_sub(units);
        }
        self.least = self.least.saturating_sub(1);
    }

    fn is_held_by(&self, units: &Units) -> bool {
        self.need.iter().zip(units).all(|(need, units)| units >= need)
    }

    fn is_done(&self) -> bool {
        self.least == 0 && self.need == [0; UNITS]
    }

    /// Part of the need for which a node has room, in parts of 2^20.
    fn share(&self, units: &Units) -> u64 {
        let share = |(&need, &units): (&u64, &u64)| {
            (need > 0).then(|| (units.min(need) << 20).div_ceil(need))
        };
        self.need.iter().zip(units).filter_map(share).min().unwrap_or(1 << 20)
    }

    /// The need in whole numbers that leaves are counted in, and how to count a node so.
    pub(super) fn parts(&self) -> Option<(u32, impl Fn(&Units) -> u32)> {
        let whole = *self;
        let by_tasks = whole.need[1..].iter().all(|need| *need == 0);
        let all = if by_tasks { whole.need[0] } else { 1 << 12 };
        let part = move |units: &Units| {
            let part = || whole.share(units).div_ceil(1 << 8);
            u32::try_from(if by_tasks { units[0].min(all) } else { part() }).unwrap_or(u32::MAX)
        };
        Some((u32::try_from(all).ok()?, part))
    }

    /// Takes rooms out of these sets of neighbours, and the most nodes that stock would take.
    pub(super) fn pick(&self, sets: &[&[Room]]) -> Option<(Vec<Room>, usize)> {
        let fewest = self.fewest(sets)?;
        let stock = self.as_stock(sets);
        let most = stock.as_ref().map_or(fewest.len(), |rooms| rooms.len().max(fewest.len()));
        let stock = stock.filter(|rooms| rooms.len() <= fewest.len());
        let mut rooms = match stock.or_else(|| self.window(sets, fewest.len())) {
            Some(rooms) => rooms,
            None => fewest,
        };
        rooms.sort_unstable_by_key(|room| room.node);
        Some((rooms, most))
    }

    /// The largest rooms, and as the last one the smallest that still suffices.
    fn fewest(mut self, sets: &[&[Room]]) -> Option<Vec<Room>> {
        let whole = self;
        let ranked = |room: &Room| (whole.share(&room.units), Reverse(room.node), room.units);
        // A heap: of many nodes only the few largest have to be put in order.
        let mut rest: BinaryHeap<_> = sets.iter().copied().flatten().map(ranked).collect();
        let mut chosen: Vec<Room> = Vec::new();
        let mut before = self;
        while !self.is_done() {
            if chosen.len() >= self.most {
                return None;
            }
            before = self;
            let (_, Reverse(node), units) = rest.pop()?;
            let room = Room { node, units };
            self.take(&room);
            chosen.push(room);
        }
        let largest = chosen.pop()?;
        let others = rest.into_iter().map(|(_, Reverse(node), units)| Room { node, units });
        let enough = others.chain([largest]).filter(|room| before.is_held_by(&room.units));
        chosen.push(enough.min_by_key(|room| (whole.share(&room.units), room.node))?);
        Some(chosen)
    }

    /// Rooms by stock's steps: the set that holds all with the fewest CPUs, else all of the
    /// largest, until done; in a set one node, else by index.
    fn as_stock(mut self, sets: &[&[Room]]) -> Option<Vec<Room>> {
        let sum = |set: &&[Room]| set.iter().fold([0; UNITS], |sum, room| plus(sum, room.units));
        let mut left: Vec<(Units, &[Room])> = sets.iter().map(|set| (sum(set), *set)).collect();
        let mut taken: Vec<Room> = Vec::new();
        for _ in 0..SETS_MAX {
            let rank = |(at, (sum, set)): &(usize, &(Units, &[Room]))| {
                let holds = self.is_held_by(sum) && set.len() >= self.least;
                (!holds, if holds { sum[0] } else { u64::MAX - sum[0] }, *at)
            };
            let (at, _) = left.iter().enumerate().min_by_key(rank)?;
            let (_, set) = left.remove(at);
            let single = |room: &&Room| self.least <= 1 && self.is_held_by(&room.units);
            let single = set.iter().filter(single).min_by_key(|room| (room.units[0], room.node));
            for room in single.map_or(set, std::slice::from_ref) {
                let is_last = taken.len() + 1 == self.most;
                if is_last && !self.is_held_by(&room.units) {
                    continue;
                }
                self.take(room);
                taken.push(*room);
                if self.is_done() {
                    return Some(taken);
                }
            }
        }
        None
    }

    /// The window of `count` neighbours with the fewest CPUs that hold all; the first of equal
    /// ones.
    fn window(&self, sets: &[&[Room]], count: usize) -> Option<Vec<Room>> {
        let mut best: Option<(u64, &[Room])> = None;
        for set in sets.iter().filter(|set| set.len() >= count) {
            let mut sum = [0; UNITS];
            for (at, room) in set.iter().enumerate() {
                sum = plus(sum, room.units);
                let Some(first) = (at + 1).checked_sub(count) else { continue };
                let window = set.get(first..=at)?;
                if self.is_held_by(&sum) && best.is_none_or(|(least, _)| sum[0] < least) {
                    best = Some((sum[0], window));
                }
                let gone = window.first()?.units;
                sum.iter_mut().zip(gone).for_each(|(sum, gone)| *sum = sum.saturating_sub(gone));
            }
        }
        best.map(|(_, window)| window.to_vec())
    }
}

fn plus(mut sum: Units, units: Units) -> Units {
    sum.iter_mut().zip(units).for_each(|(sum, units)| *sum = sum.saturating_add(units));
    sum
}

/// Nodes for an ask.
pub(super) struct Picked {
    rooms: Vec<Room>,
    /// Most nodes that stock would take.
    most: usize,
    /// Leaves of a tree that they are on.
    pub leaves: usize,
}

impl Search<'_> {
    /// Splits unevenly, or on more nodes, by the rule for several nodes. `is_last`: no further
    /// nodes will be offered.
    pub(super) fn other_split_by_route(&mut self, is_last: bool) -> Result<Split, Why> {
        let tree = match self.chooser.routes.many {
            Route::Left(option) => return Err(Why::Left(option)),
            Route::Run(_) => return Err(Why::Left(LeftToSlurm::Contiguous)),
            // It places the fewest nodes and no other number.
            Route::Block(_) => return Err(Why::NoFit),
            Route::Tree(at) => by_switches(&self.shape.topology).then_some(at),
            Route::Any => None,
        };
        let mut ask = Ask::new(self.shape, self.wanted).ok_or(Why::NoFit)?;
        let rooms = self.rooms();
        if is_last {
            // Between its limits Slurm takes as many as there are.
            ask.least = ask.least.min(rooms.len().max(self.shape.min_nodes.max(1) as usize));
        }
        let rooms = self.of_one_kind(&ask, &rooms, tree).ok_or(Why::NoFit)?;
        self.put_on(&ask, &rooms)
    }

    /// Nodes on offer where the job has room.
    fn rooms(&self) -> Vec<Room> {
        let (shape, cluster) = (self.shape, self.chooser.cluster);
        let excluded = self.candidates.excluded();
        let one = one_task(shape);
        let room = |node| {
            let kept = excluded.iter().find(|excluded| excluded.node == node);
            let kept = kept.map_or_else(BySocket::default, |excluded| excluded.cores);
            let units = units(shape, &one, cluster.usage(node)?, &kept)?;
            Some(Room { node, units })
        };
        self.chooser.sets.mask.iter().filter_map(room).collect()
    }

    /// Rooms of one kind of nodes, where these take no more leaves than several kinds, and no
    /// more nodes than stock would: the fewest nodes, then the least mean score. Else of several.
    fn of_one_kind(&mut self, ask: &Ask, rooms: &[Room], tree: Option<usize>) -> Option<Vec<Room>> {
        let mixed = self.choose(ask, rooms, tree)?;
        let fewest = self.chooser.fewest;
        let (forced, rest) = self.lighter_and_rest(rooms);
        let mut kinds: BTreeMap<u32, Vec<Room>> = BTreeMap::new();
        for room in rest {
            let kind = self.chooser.family_of(room.node);
            kinds.entry(kind).or_insert_with(|| forced.clone()).push(room);
        }
        let mut best: Vec<Vec<Room>> = Vec::new();
        if kinds.len() > 1 {
            let own = kinds.into_values().filter_map(|own| self.choose(ask, &own, tree));
            let as_good = |p: &Picked| p.leaves <= mixed.leaves && p.rooms.len() <= mixed.most;
            best = own.filter(as_good).map(|picked| picked.rooms).collect();
        }
        let least = best.iter().map(Vec::len).min();
        best.retain(|rooms| Some(rooms.len()) == least);
        best.truncate(KINDS_MAX);
        self.chooser.fewest = fewest;
        if best.len() > 1 {
            let mut scored: Vec<(f64, Vec<Room>)> = Vec::new();
            for rooms in best {
                let mean = self.put_on(ask, &rooms).map_or(f64::INFINITY, |(.., d)| mean(&d));
                scored.push((mean, rooms));
            }
            return scored.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rooms)| rooms);
        }
        Some(best.pop().unwrap_or(mixed.rooms))
    }

    /// Chooses among rooms; those of lighter classes are taken whole, as stock does.
    fn choose(&mut self, ask: &Ask, rooms: &[Room], tree: Option<usize>) -> Option<Picked> {
        let (mut forced, rest) = self.lighter_and_rest(rooms);
        if let Some(picked) = self.choose_beside(ask, &forced, &rest, tree) {
            return Some(picked);
        }
        // Beside all lighter ones the job has too many nodes: beside the largest of them.
        forced.sort_by_key(|room| Reverse(ask.share(&room.units)));
        let mut count = forced.len().min(ask.most);
        while count > 0 {
            let mut largest = forced.get(..count)?.to_vec();
            largest.sort_unstable_by_key(|room| room.node);
            if let Some(picked) = self.choose_beside(ask, &largest, &rest, tree) {
                return Some(picked);
            }
            // The last node alone may have to hold what is left.
            count = if count == ask.most { count - 1 } else { count / 2 };
        }
        self.choose_beside(ask, &[], rooms, tree)
    }

    fn choose_beside(
        &mut self,
        ask: &Ask,
        forced: &[Room],
        rest: &[Room],
        tree: Option<usize>,
    ) -> Option<Picked> {
        if let Some(at) = tree {
            return self.on_leaves_of(at, ask, forced, rest);
        }
        let table = self.chooser.cluster.table();
        let join = |a: &Room, b: &Room| are_neighbours(table, a.node, b.node);
        let sets: Vec<&[Room]> = rest.chunk_by(join).collect();
        Picked::new(ask, forced, &sets)
    }

    fn lighter_and_rest(&self, rooms: &[Room]) -> (Vec<Room>, Vec<Room>) {
        let lighter = self.chooser.lighter;
        rooms.iter().partition(|room| lighter.is_some_and(|set| set.contains(room.node)))
    }

    /// Returns the nodes with what each gives, and their scores.
    fn put_on(&mut self, ask: &Ask, rooms: &[Room]) -> Result<Split, Why> {
        let nodes = rooms.len() as u64;
        let (mut left, mut behind) = (ask.need[0], nodes);
        let mut needs = Vec::with_capacity(rooms.len());
        for room in rooms {
            behind -= 1;
            // Every node gets a task, and no more than fit on it.
            let tasks = room.units[0].min(left.saturating_sub(behind)).max(1);
            left = left.saturating_sub(tasks);
            needs.push(self.need_on(room.node, &self.shape.need_for(tasks, 1, nodes)));
        }
        let chosen: Vec<NodeIdx> = rooms.iter().map(|room| room.node).collect();
        let decision = self.score(&chosen, &needs)?;
        Ok((chosen, needs, decision))
    }

    /// Dispersions of nodes that were chosen by capacity.
    pub(super) fn score(&mut self, chosen: &[NodeIdx], needs: &[Need]) -> Result<Decision, Why> {
        let mut scored: Option<Decision> = None;
        for (&node, need) in chosen.iter().zip(needs).take(SCORED_MAX) {
            self.fill_amounts(need)?;
            let Chooser { sets, engine, .. } = &mut self.chooser;
            sets.part.clear();
            sets.part.insert(node);
            let (holding, span) = (Holding::Never, self.candidates.span());
            let request = Request { holding, span, ..Request::new(self.amounts) };
            let decided = engine.decide(&sets.part, &request).map_err(|_| Why::NoFit)?;
            let Outcome::Placed(choice) = &decided.outcome else { continue };
            match scored.as_mut().map(|d| &mut d.outcome) {
                Some(Outcome::Placed(choices)) => choices.extend_from_slice(choice),
                _ => scored = Some(decided),
            }
        }
        scored.ok_or(Why::NoFit)
    }
}

impl Picked {
    /// The nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.rooms.iter().map(|room| room.node)
    }

    /// Picks out of these sets beside rooms that are taken anyway.
    pub(super) fn new(ask: &Ask, forced: &[Room], sets: &[&[Room]]) -> Option<Self> {
        let rest = ask.beside(forced)?;
        let (mut rooms, most) = if rest.is_done() { (Vec::new(), 0) } else { rest.pick(sets)? };
        rooms.extend_from_slice(forced);
        rooms.sort_unstable_by_key(|room| room.node);
        Some(Self { rooms, most: most + forced.len(), leaves: 0 })
    }
}

fn mean(decision: &Decision) -> f64 {
    let scores = decision.choices().iter().map(|choice| choice.score);
    scores.sum::<f64>() / as_f64(decision.choices().len() as u64)
}

/// Whether another number of nodes or an uneven number of tasks is allowed.
pub fn may_split_otherwise(shape: &Shape) -> bool {
    (shape.node_count_is_free() || shape.tasks() > 1) && shape.ntasks_per_node == 0
}

/// Nodes that a job takes where all are idle and like this one; `None`: they never hold it.
pub fn nodes_when_idle(shape: &Shape, usage: &NodeUsage) -> Option<u32> {
    let wanted = shape.wanted_nodes();
    if !(may_split_otherwise(shape) && shape.node_count_is_free()) {
        return Some(wanted);
    }
    let ask = Ask::new(shape, wanted)?;
    let units = units(shape, &one_task(shape), &usage.idle(), &BySocket::default())?;
    let nodes = ask.need.iter().zip(units).filter(|(need, _)| **need > 0);
    let nodes = nodes.map(|(need, units)| need.div_ceil(units.max(1))).max()?;
    let nodes = u32::try_from(nodes).ok()?.max(wanted);
    (nodes as usize <= ask.most).then_some(nodes)
}

/// Nodes that a job takes of the largest of these where they are idle; as many as it wants, if
/// none holds a part of it.
pub fn nodes_needed<'a>(shape: &Shape, usages: impl IntoIterator<Item = &'a NodeUsage>) -> u32 {
    let open = may_split_otherwise(shape) && shape.node_count_is_free();
    let usages = open.then_some(usages).into_iter().flatten();
    let fewest = usages.filter_map(|usage| nodes_when_idle(shape, usage)).min();
    fewest.unwrap_or_else(|| shape.wanted_nodes())
}

/// Amounts of one task, with one of each GRES that is asked for per job. CPUs that GRES per node
/// bring are the node's, and not each task's.
pub(crate) fn one_task(shape: &Shape) -> Need {
    let mut own = shape.clone();
    own.gres.iter_mut().filter(|want| want.per_node > 0).for_each(|want| want.cpus_per_gres = 0);
    let one = own.need_for(1, 1, u64::MAX);
    let cores = CoreAsk { cpus_per_gres: shape.need(1).cores.cpus_per_gres, ..one.cores };
    Need { cores, ..one }
}

/// Amounts of a job for which a node has room now; `None`: for none of it.
fn units(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> Option<Units> {
    room_for(shape, one, usage, excluded).map(|(units, _)| units)
}

/// Amounts of a job for which a node has room now, and the CPUs of its cores; `None`: for none of
/// it.
pub(crate) fn room_for(
    shape: &Shape,
    one: &Need,
    usage: &NodeUsage,
    excluded: &BySocket,
) -> Option<(Units, u64)> {
    let (tasks, cpus_of_cores) = tasks_and_cpus(shape, one, usage, excluded);
    let mut units = [tasks, 0, 0, 0];
    for (at, want) in (1..).zip(shape.gres.iter().filter(|gres| gres.per_job > 0)) {
        let cpus = usage.cpus.free().checked_div(u64::from(want.cpus_per_gres));
        let memory = usage.memory_mb.free().checked_div(want.mem_per_gres_mb);
        let free = usage.gres_free(want.kind, want.gres_type);
        let free = free.min(cpus.unwrap_or(u64::MAX)).min(memory.unwrap_or(u64::MAX));
        *units.get_mut(at).filter(|_| free > 0)? = free;
    }
    (units[0] > 0).then_some((units, cpus_of_cores))
}

/// Tasks that fit on a node now, by every resource, beside cores that the job may not have.
/// `one` is what one task needs.
pub fn capacity(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> u64 {
    tasks_and_cpus(shape, one, usage, excluded).0
}

fn tasks_and_cpus(shape: &Shape, one: &Need, usage: &NodeUsage, excluded: &BySocket) -> (u64, u64) {
    let per = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
    let free_mb = usage.memory_mb.free();
    let by_memory = match shape.memory {
        Memory::PerCpu(_) => by_memory(one, usage),
        Memory::All if usage.memory_mb.used > 0 => 0,
        _ if one.memory_mb > free_mb => 0,
        _ => u64::MAX,
    };
    let each = one.cpus.max(1);
    let cpus = by_cores(one, usage, excluded).min(by_memory.saturating_mul(each));
    let mut tasks = cpus / each;
    for want in &shape.gres {
        let free = usage.gres_free(want.kind, want.gres_type);
        let cpus = want.per_node.saturating_mul(want.cpus_per_gres.into());
        if want.per_node > free || cpus > usage.cpus.free() {
            return (0, 0);
        }
        tasks = tasks.min(per(free, want.per_task));
    }
    let is_busy = one.whole && usage.jobs > 0;
    let too_few = usage.cpus.free() < u64::from(shape.pn_min_cpus);
    if is_busy || too_few { (0, 0) } else { (tasks, cpus) }
}

/// CPUs of a node that tasks could have now.
fn by_cores(one: &Need, usage: &NodeUsage, excluded: &BySocket) -> u64 {
    let per_core = usage.cores.per_core();
    let free = usage.free_cpus(excluded);
    if usage.cores.cores == 0 {
        return free;
    }
    let Some(usable) = one.cores.cpus_per_core(&usage.cores) else { return 0 };
    let on = layout::tasks_on(&usage.cores, &usage.free_cores(one, excluded), &one.cores);
    on.map_or(0, |on| on.cpus.min(free / per_core * usable))
}

/// Tasks whose memory by CPU a node has now.
fn by_memory(one: &Need, usage: &NodeUsage) -> u64 {
    let free_mb = usage.memory_mb.free();
    let Some(usable) = one.cores.cpus_per_core(&usage.cores) else { return 0 };
    let per_core = usage.cores.per_core();
    let by_thread = free_mb.checked_div(one.memory_mb).unwrap_or(u64::MAX);
    if per_core == 1 || !one.cores.layout.whole_cores {
        return by_thread;
    }
    let threads = u64::from(one.cores.layout.threads_per_core);
    let charged = if threads > 0 { per_core.min(threads) } else { per_core };
    let cores = free_mb.checked_div(one.mem_per_cpu_mb.saturating_mul(charged));
    by_thread.min(cores.map_or(u64::MAX, |cores| cores * usable / one.cpus.max(1)))
}
