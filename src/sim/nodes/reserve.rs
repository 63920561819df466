// SPDX-License-Identifier: GPL-3.0-or-later
//! Time and nodes at which the first job of the line that does not fit will start, if
//! all running jobs last as long as is expected of them.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::shape::{Need, Shape};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::{Cluster, give_back};
use phalanx_planner::place::{capacity, may_split_otherwise};
use phalanx_planner::usage::NodeUsage;

use super::choose::{by_weight, fits};
use super::stock::Stock;
use crate::slurm::Windows;

/// Nodes kept free for a job.
#[derive(Debug, Clone)]
pub(super) struct Reservation {
    /// Begin of the reservation, unix seconds.
    pub(super) start_s: i64,
    /// The nodes.
    pub(super) nodes: NodeSet,
}

/// Distance of a request from fitting.
struct Progress<'a> {
    cluster: &'a Cluster,
    /// The rule of the topology, and the nodes with room by leaf.
    stock: Option<&'a Stock>,
    by_leaf: Vec<u32>,
    shape: &'a Shape,
    need: Need,
    wanted: usize,
    /// Amounts of one task, where an uneven split is allowed.
    one: Option<Need>,
    tasks_wanted: u64,
    fitting: BTreeSet<u32>,
    tasks: BTreeMap<u32, u64>,
    tasks_sum: u64,
}

impl<'a> Progress<'a> {
    fn new(cluster: &'a Cluster, stock: Option<&'a Stock>, shape: &'a Shape) -> Self {
        let wanted = shape.wanted_nodes();
        let per_task = shape.cpus_per_task.max(1);
        Self {
            cluster,
            stock,
            by_leaf: vec![0; stock.map_or(0, |stock| stock.topology().leaf_count())],
            shape,
            need: shape.need(wanted),
            wanted: wanted as usize,
            one: may_split_otherwise(shape).then(|| shape.need_for(1, 1, 1)),
            tasks_wanted: shape.tasks().max(u64::from(shape.min_cpus.div_ceil(per_task))),
            fitting: BTreeSet::new(),
            tasks: BTreeMap::new(),
            tasks_sum: 0,
        }
    }

    fn look(&mut self, node: u32, room: &NodeUsage) {
        if fits(room, &self.need) && self.fitting.insert(node) {
            let leaf = self.stock.and_then(|stock| stock.topology().leaf_of(node.into()));
            if let Some(count) = leaf.and_then(|leaf| self.by_leaf.get_mut(leaf as usize)) {
                *count += 1;
            }
        }
        if let Some(one) = &self.one {
            let tasks = capacity(self.shape, one, room, &[0; 8]);
            let before = self.tasks.insert(node, tasks).unwrap_or(0);
            self.tasks_sum = self.tasks_sum.saturating_sub(before).saturating_add(tasks);
        }
    }

    fn done(&self) -> bool {
        let unevenly = self.one.is_some() && self.tasks_sum >= self.tasks_wanted;
        let wanted = u32::try_from(self.wanted).unwrap_or(u32::MAX);
        let evenly = self.fitting.len() >= self.wanted
            && self.stock.is_none_or(|stock| stock.holds(&self.by_leaf, wanted));
        evenly || unevenly
    }

    /// The nodes that Slurm would take: the lightest and first ones.
    fn first_nodes(&self) -> Vec<u32> {
        if self.stock.is_none() && self.fitting.len() >= self.wanted {
            let fitting: Vec<u32> = self.fitting.iter().copied().collect();
            let lightest = by_weight(self.cluster, &fitting).into_iter();
            return lightest.take(self.wanted).map(|(_, node)| node).collect();
        }
        self.nodes()
    }

    /// Nodes to keep: as many as are wanted; of an uneven split all that count.
    fn nodes(&self) -> Vec<u32> {
        if let Some(stock) = self.stock {
            let fitting: Vec<u32> = self.fitting.iter().copied().collect();
            let fitting = by_weight(self.cluster, &fitting);
            let wanted = u32::try_from(self.wanted).unwrap_or(u32::MAX);
            if let Some(nodes) = stock.choose(&fitting, wanted) {
                return nodes;
            }
        } else if self.fitting.len() >= self.wanted {
            // The ones that became free last: others may use the rest.
            return self.fitting.iter().rev().take(self.wanted).copied().collect();
        }
        self.tasks.iter().filter(|(_, tasks)| **tasks > 0).map(|(node, _)| *node).collect()
    }
}

/// Looks ahead over the expected ends of the running jobs (time and id, in
/// order). `stock`: the rule of the topology, if the nodes are chosen by it. `None`: it does not
/// fit even then.
pub(super) fn reserve(
    cluster: &Cluster,
    stock: Option<&Stock>,
    ends: &BTreeSet<(i64, u32)>,
    shape: &Shape,
    candidates: &NodeSet,
    now_s: i64,
) -> Option<Reservation> {
    let inside = |node: NodeIdx| candidates.contains(node);
    let mut progress = Progress::new(cluster, stock, shape);
    for (node, room) in (0u32..).zip(cluster.usages()) {
        if inside(node.into()) {
            progress.look(node, room);
        }
    }
    let mut later: BTreeMap<usize, NodeUsage> = BTreeMap::new();
    let mut start_s = now_s;
    for &(end_s, id) in ends {
        if progress.done() && end_s > start_s {
            break;
        }
        start_s = end_s.max(now_s);
        let Some(job) = cluster.jobs().get(&id) else { continue };
        for held in &job.held {
            let Some(own) = cluster.usages().get(held.node.at()) else { continue };
            let room = later.entry(held.node.at()).or_insert_with(|| own.clone());
            give_back(room, held);
            if inside(held.node) {
                progress.look(held.node.raw(), room);
            }
        }
    }
    if !progress.done() {
        return None;
    }
    let mut nodes = NodeSet::new(candidates.len());
    progress.nodes().into_iter().for_each(|node| _ = nodes.insert(node.into()));
    Some(Reservation { start_s, nodes })
}

/// The start that Slurm's backfill finds on these nodes by the limits of what runs (`ends`), and
/// the nodes. `None`: there is none.
pub(super) fn will_run(
    cluster: &Cluster,
    stock: Option<&Stock>,
    ends: &BTreeSet<(i64, u32)>,
    shape: &Shape,
    candidates: &NodeSet,
    now_s: i64,
) -> Option<(i64, NodeSet)> {
    let mut progress = Progress::new(cluster, stock, shape);
    for node in candidates.iter() {
        if let Some(room) = cluster.usages().get(node.at()) {
            progress.look(node.raw(), room);
        }
    }
    let chosen = |progress: &Progress<'_>| {
        let mut nodes = NodeSet::new(candidates.len());
        progress.first_nodes().into_iter().for_each(|node| _ = nodes.insert(node.into()));
        nodes
    };
    if progress.done() {
        return Some((now_s, chosen(&progress)));
    }
    let mut later: BTreeMap<usize, NodeUsage> = BTreeMap::new();
    let (mut windows, mut last_s) = (Windows::new(), None);
    let mut ends = ends.iter().peekable();
    while let Some(&(end_s, id)) = ends.next() {
        let next_s = ends.peek().map(|(end_s, _)| *end_s);
        let held = cluster.jobs().get(&id).map(|job| &*job.held).unwrap_or_default();
        let mut overlaps = false;
        for held in held.iter().filter(|held| candidates.contains(held.node)) {
            let Some(own) = cluster.usages().get(held.node.at()) else { continue };
            let room = later.entry(held.node.at()).or_insert_with(|| own.clone());
            give_back(room, held);
            progress.look(held.node.raw(), room);
            overlaps = true;
        }
        if overlaps {
            last_s = Some(end_s);
        } else if next_s.is_some() {
            continue;
        }
        let last_s = last_s?;
        if windows.is_full(last_s, next_s) && progress.done() {
            return Some((last_s.max(now_s + 1), chosen(&progress)));
        }
    }
    None
}
