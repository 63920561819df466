// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaf switches or blocks that jobs use, and the idle ones over time.

mod figures;
mod largest;

pub use figures::LeafFigures;
use figures::Start;
use largest::largest_job;

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::number::as_u32;
use phalanx_core::shape::Need;
use phalanx_core::topology::Topology;
use phalanx_core::{NodeIdx, NodeSet};

/// Nodes, each with what it gives to the job.
pub(super) struct Placed {
    pub(super) nodes: Vec<(u32, Need)>,
    /// Fewest leaves that would have sufficed.
    pub(super) fewest: Option<u32>,
}

/// Leaves that are idle at present, sums over time, and the starts of jobs of several nodes.
#[derive(Debug, Clone)]
pub(super) struct LeafUse<'a> {
    topology: &'a Topology,
    /// See [`Topology::regions`].
    regions: Vec<Vec<u32>>,
    idle_node: Vec<bool>,
    /// Idle nodes by leaf.
    idle: Vec<u32>,
    changed: bool,
    /// Present number of leaves of which every node is idle, of idle nodes of the leaf with most,
    /// and of nodes of the largest job that could start.
    now: [u64; 3],
    last_s: i64,
    seconds: u128,
    sums: [u128; 3],
    starts: Vec<Start>,
    /// Fewest leaves on the idle cluster, by class of jobs and number of nodes.
    ideal: BTreeMap<(u32, usize), Option<u32>>,
    /// Jobs that were refused where enough nodes were free.
    refused: BTreeSet<u32>,
}

impl<'a> LeafUse<'a> {
    /// Starts with all nodes idle from `begin_s` on.
    pub(super) fn new(topology: &'a Topology, begin_s: i64) -> Self {
        let leaves = 0..as_u32(topology.leaf_count());
        let size = |leaf| as_u32(topology.nodes_of(leaf).len());
        Self {
            topology,
            regions: topology.regions(),
            idle_node: vec![true; topology.leaf_by_node().len()],
            idle: leaves.map(size).collect(),
            changed: true,
            now: [0; 3],
            last_s: begin_s,
            seconds: 0,
            sums: [0; 3],
            starts: Vec::new(),
            ideal: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Time passes.
    pub(super) fn advance(&mut self, now_s: i64) {
        let Ok(seconds) = u64::try_from(now_s.saturating_sub(self.last_s)) else { return };
        if seconds == 0 {
            return;
        }
        if std::mem::take(&mut self.changed) {
            self.now = self.count();
        }
        for (sum, now) in self.sums.iter_mut().zip(self.now) {
            *sum += u128::from(now) * u128::from(seconds);
        }
        self.seconds += u128::from(seconds);
        self.last_s = now_s;
    }

    fn count(&self) -> [u64; 3] {
        let sizes = (0u32..).zip(&self.idle).map(|(leaf, &idle)| (idle, self.size(leaf)));
        [
            sizes.filter(|(idle, size)| *size > 0 && idle == size).count() as u64,
            u64::from(self.idle.iter().copied().max().unwrap_or(0)),
            largest_job(self.topology, &self.regions, &self.idle),
        ]
    }

    fn size(&self, leaf: u32) -> u32 {
        as_u32(self.topology.nodes_of(leaf).len())
    }

    /// Notes whether a node is idle.
    pub(super) fn touch(&mut self, node: NodeIdx, idle: bool) {
        let Some(slot) = self.idle_node.get_mut(node.at()) else { return };
        if std::mem::replace(slot, idle) == idle {
            return;
        }
        let leaf = self.topology.leaf_of(node);
        if let Some(count) = leaf.and_then(|leaf| self.idle.get_mut(leaf as usize)) {
            *count = if idle { *count + 1 } else { count.saturating_sub(1) };
            self.changed = true;
        }
    }

    /// Fewest leaves for `wanted` of the nodes, given by weight and number, lightest first: lighter
    /// classes are taken whole, the class that completes the job in part.
    pub(super) fn fewest(&self, fitting: &[(u32, u32)], wanted: usize) -> Option<u32> {
        let (mut forced, mut free) = (vec![0; self.idle.len()], vec![0; self.idle.len()]);
        let last = wanted.checked_sub(1).and_then(|at| fitting.get(at));
        for &(weight, node) in fitting {
            let list = match last {
                Some(&(last, _)) if weight > last => break,
                Some(&(last, _)) if weight == last => &mut free,
                _ => &mut forced,
            };
            let leaf = self.topology.leaf_of(node.into());
            leaf.and_then(|leaf| list.get_mut(leaf as usize)).into_iter().for_each(|n| *n += 1);
        }
        self.topology.fewest(&forced, &free, u32::try_from(wanted).ok()?)
    }

    /// Counts the start of a job of a class, given by number and nodes, if it has several nodes.
    pub(super) fn started(
        &mut self,
        (class, allowed): (u32, &NodeSet),
        placed: &Placed,
        run_s: u64,
        wait_s: i64,
    ) {
        let count = placed.nodes.len();
        if count < 2 {
            return;
        }
        let ideal = self.ideal.get(&(class, count)).copied().unwrap_or_else(|| {
            let alike: Vec<(u32, u32)> = allowed.iter().map(|node| (0, node.raw())).collect();
            self.fewest(&alike, count)
        });
        self.ideal.insert((class, count), ideal);
        let (fewest, ideal) = (placed.fewest.unwrap_or(u32::MAX), ideal.unwrap_or(u32::MAX));
        let on = self.topology.leaves(placed.nodes.iter().map(|(node, _)| NodeIdx::from(*node)));
        let leaves = as_u32(on.len());
        self.starts.push(Start {
            nodes: as_u32(count),
            leaves,
            fewest: fewest.min(leaves),
            ideal: ideal.min(leaves),
            run_s,
            wait_s: wait_s.max(0).unsigned_abs(),
        });
    }

    /// Counts a job that was refused where enough nodes were free.
    pub(super) fn refused(&mut self, id: u32) {
        self.refused.insert(id);
    }

    /// Everything until now.
    pub(super) fn figures(&self) -> LeafFigures {
        let largest = as_u32(self.topology.largest_leaf());
        let mean = |sum: &u128| (self.seconds > 0).then(|| *sum as f64 / self.seconds as f64);
        let [whole, in_leaf, at_once] = self.sums.each_ref().map(mean);
        LeafFigures {
            kind: self.topology.kind(),
            leaves: self.topology.leaf_count(),
            largest_leaf: largest,
            whole_leaves_mean: whole,
            largest_in_leaf_mean: in_leaf,
            largest_at_once_mean: at_once,
            refused_jobs: self.refused.len() as u64,
            ..LeafFigures::of_starts(&self.starts, largest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::shape::Need;
    use phalanx_core::snapshot::{Table, TableNode};
    use phalanx_core::topology::parse_file;

    fn table(count: usize) -> Table {
        let node = |at: usize| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
        Table { nodes: (0..count).map(node).collect(), ..Table::default() }
    }

    fn tree() -> Topology {
        let text = "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\n\
                    SwitchName=alone Nodes=n[8-9]\nSwitchName=top Switches=a,b\n";
        parse_file(text, &table(10)).unwrap()
    }

    #[test]
    fn sums_are_over_time_and_follow_the_nodes() {
        let topology = tree();
        let mut leaves = LeafUse::new(&topology, 100);
        leaves.advance(110);
        for node in [0u32, 1, 4, 4] {
            leaves.touch(node.into(), false);
        }
        leaves.advance(120);
        leaves.touch(4.into(), true);
        leaves.advance(140);
        let figures = leaves.figures();
        // 10 s all idle, 10 s without 2 of a and 1 of b, 20 s without 2 of a.
        assert_eq!(figures.whole_leaves_mean, Some((30.0 + 10.0 + 40.0) / 40.0));
        assert_eq!(figures.largest_in_leaf_mean, Some((40.0 + 30.0 + 80.0) / 40.0));
        assert_eq!(figures.largest_at_once_mean, Some((80.0 + 50.0 + 120.0) / 40.0));
    }

    #[test]
    fn the_fewest_leaves_lie_below_one_root_and_lighter_nodes_count() {
        let topology = tree();
        let leaves = LeafUse::new(&topology, 0);
        let all: Vec<(u32, u32)> = (0..10).map(|node| (1, node)).collect();
        assert_eq!(leaves.fewest(&all, 4), Some(1));
        assert_eq!(leaves.fewest(&all, 5), Some(2));
        assert_eq!(leaves.fewest(&all, 9), None, "no switch joins the last leaf");
        let light = [(1, 0), (1, 4), (2, 1), (2, 2), (2, 5), (2, 6)];
        assert_eq!(leaves.fewest(&light, 3), Some(2), "both light nodes, then one beside them");
        assert_eq!(leaves.fewest(&light[..2], 3), None);
    }

    #[test]
    fn starts_are_counted_by_what_the_choice_and_what_the_moment_cost() {
        let topology = tree();
        let mut leaves = LeafUse::new(&topology, 0);
        // On the idle cluster each of them fits one leaf.
        let all = NodeSet::full(10);
        let mut start = |nodes: &[u32], fewest, run_s, wait_s| {
            let nodes = nodes.iter().map(|node| (*node, Need::default())).collect();
            leaves.started((0, &all), &Placed { nodes, fewest: Some(fewest) }, run_s, wait_s);
        };
        start(&[0, 1, 2, 3], 1, 3600, 10);
        start(&[0, 4, 5, 6], 2, 3600, 30);
        start(&[0, 4], 1, 7200, -5);
        let figures = leaves.figures();
        assert_eq!((figures.multi_node_jobs, figures.whole_leaf_jobs), (3, 2));
        assert_eq!(figures.extra_choice_mean, Some(1.0 / 3.0));
        assert_eq!(figures.extra_frag_mean, Some(1.0 / 3.0));
        assert_eq!(figures.extra_leaves_mean, Some(2.0 / 3.0));
        assert_eq!(figures.extra_leaves_by_node_hours, Some((4.0 + 4.0) / 12.0));
        assert_eq!(figures.fewest_leaves_pct, Some(200.0 / 3.0));
        assert_eq!(figures.whole_leaf_in_one_pct, Some(50.0));
        assert_eq!(figures.half_leaf_wait_mean_s, Some(40.0 / 3.0));
        assert_eq!(LeafUse::new(&topology, 0).figures().extra_leaves_mean, None);
    }
}
