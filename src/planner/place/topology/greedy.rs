// SPDX-License-Identifier: GPL-3.0-or-later
//! The leaves that stock Slurm would take under topology/tree, by its own steps.
//!
//! Sources: `plugins/select/cons_tres/job_test.c` `_eval_nodes_topo` (22.05 to
//! 23.11), `plugins/topology/tree/eval_nodes_tree.c` `_eval_nodes_topo` (24.05 on).

use super::counts::Counts;
use super::tree::{Rules, Tree};

/// Distance, in steps, of a leaf that cannot be reached.
const FAR: u32 = u32::MAX;
/// Most steps towards the root before two switches count as equal: before 24.05.3 the parent of a
/// root is switch 0, and the steps may go round.
const STEPS_MAX: usize = 64;

/// Stock's choice of leaves, one after the other, below a switch.
#[derive(Debug)]
pub struct Greedy<'a> {
    tree: &'a Tree,
    rules: Rules,
    leaves: &'a [u32],
    /// Number of candidates left below each domain.
    count: Vec<u32>,
    /// CPUs below each domain at the beginning; empty: stock does not look at CPUs.
    cpus: Vec<i64>,
    /// Distance of each leaf from the leaves taken.
    distance: Vec<u32>,
}

/// Leaves that stock takes one after the other below a root for `missing` free nodes, after those
/// of forced nodes. `None`: stock fails.
pub(super) fn tree_greedy(
    tree: &Tree,
    leaves: &[u32],
    counts: &Counts,
    mut missing: u32,
) -> Option<Vec<u32>> {
    let mut greedy = Greedy::new(tree, leaves, Vec::new());
    for &leaf in leaves {
        match counts.forced[leaf as usize] {
            0 => greedy.add(leaf, counts.free[leaf as usize]),
            _ => greedy.reach(leaf),
        }
    }
    let mut taken = Vec::new();
    while missing > 0 {
        let (leaf, here) = greedy.next(missing, 0)?;
        missing -= here.min(missing);
        taken.push(leaf);
    }
    Some(taken)
}

impl<'a> Greedy<'a> {
    /// Begins below a switch with `leaves`.
    pub fn new(tree: &'a Tree, leaves: &'a [u32], cpus: Vec<i64>) -> Self {
        let distance = vec![0; tree.leaf_count()];
        let rules = tree.rules();
        Self { tree, rules, leaves, count: vec![0; tree.domain_count()], cpus, distance }
    }

    /// Adds candidates to a leaf.
    pub fn add(&mut self, leaf: u32, candidates: u32) {
        for &domain in self.tree.above(leaf) {
            self.count[domain as usize] += candidates;
        }
    }

    /// Takes the next leaf for `nodes` and `cpus`; returns it and the number of its candidates.
    pub fn next(&mut self, nodes: u32, cpus: i64) -> Option<(u32, u32)> {
        let leaf = self.best(nodes, cpus)?;
        let here = self.count[self.tree.domain_of(leaf) as usize];
        self.reach(leaf);
        let emptied = if self.rules == Rules::New { self.tree.above(leaf).len() } else { 1 };
        for &domain in self.tree.above(leaf).iter().take(emptied) {
            self.count[domain as usize] -= here;
        }
        Some((leaf, here))
    }

    /// Adds a leaf to those that the job has.
    pub fn reach(&mut self, from: u32) {
        for &leaf in self.leaves {
            let hops = self.tree.hops(from, leaf).unwrap_or(FAR);
            let slot = &mut self.distance[leaf as usize];
            *slot = slot.saturating_add(hops);
        }
    }

    fn best(&self, nodes: u32, cpus: i64) -> Option<u32> {
        let mut best: Option<u32> = None;
        for &leaf in self.leaves {
            let at = leaf as usize;
            if self.count[self.tree.domain_of(leaf) as usize] == 0 || self.distance[at] == FAR {
                continue;
            }
            let Some(other) = best else {
                best = Some(leaf);
                continue;
            };
            let (order, fits) = self.compare([leaf, other], nodes, cpus);
            let (here, there) = (self.distance[at], self.distance[other as usize]);
            let wins = match self.rules {
                Rules::Old => order >= 0,
                Rules::New => fits,
            };
            if (here < there && wins) || (here == there && order > 0) {
                best = Some(leaf);
            }
        }
        best
    }

    /// Compares two leaves: returns a number above 0 if the first is the better one, and whether
    /// the leaf, or the last switch compared above it, holds all that is missing.
    fn compare(&self, leaves: [u32; 2], nodes: u32, cpus: i64) -> (i32, bool) {
        let [mut i, mut j] = leaves.map(|leaf| self.tree.domain_of(leaf));
        let holds = |at: u32| {
            let enough = self.cpus.get(at as usize).is_none_or(|has| *has >= cpus);
            enough && self.count[at as usize] >= nodes
        };
        let mut fits = false;
        for _ in 0..STEPS_MAX {
            let (a, b) = (self.count[i as usize], self.count[j as usize]);
            fits = holds(i);
            match (fits, holds(j)) {
                (true, true) if a != b => return (if a < b { 1 } else { -1 }, fits),
                (true, true) => break,
                (true, false) => return (1, fits),
                (false, true) => return (-1, fits),
                (false, false) => {}
            }
            match (self.parent(i), self.parent(j)) {
                (Some(up), Some(other)) if up != other => (i, j) = (up, other),
                _ => break,
            }
        }
        let (a, b) = (self.count[i as usize], self.count[j as usize]);
        let (low, high) = (self.tree.level(i), self.tree.level(j));
        let sign = |order: std::cmp::Ordering| order as i32;
        (sign(a.cmp(&b).then(high.cmp(&low))), fits)
    }

    fn parent(&self, domain: u32) -> Option<u32> {
        let root = (self.rules == Rules::Old).then_some(0);
        self.tree.parent(domain).or(root)
    }
}
