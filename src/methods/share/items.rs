// SPDX-License-Identifier: GPL-3.0-or-later
//! Owners of the items, and the choice of items that move: first those whose data the receiver has.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::flow;
use super::partition::{Transfer, transfers};
use phalanx_core::number::nearest_usize;

/// Items on nodes, all by index.
#[derive(Debug)]
pub(super) struct Placement<'a> {
    weights: &'a [u64],
    /// Nodes with the data of each item, ascending.
    replicas: &'a [Vec<usize>],
    /// Node of each item.
    pub node: Vec<usize>,
    /// Weight on each node.
    load: Vec<u64>,
}

impl<'a> Placement<'a> {
    /// Every item on a holder of its data, so that as much as possible lies within the targets.
    ///
    /// One maximum flow gives each group of items with the same holders its amount on each of
    /// them: an item stays where its data is, whatever chain of others makes room for it. What
    /// finds no room stays with the holder that has most.
    pub fn initial(target: &[u64], weights: &'a [u64], replicas: &'a [Vec<usize>]) -> Self {
        let mut groups: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
        for (item, holders) in replicas.iter().enumerate() {
            groups.entry(holders).or_default().push(item);
        }
        let sum = |items: &Vec<usize>| items.iter().map(|&item| weights[item]).sum();
        let stock: Vec<u64> = groups.values().map(sum).collect();
        let edges: Vec<Vec<usize>> = groups.keys().map(|holders| holders.to_vec()).collect();
        let flow = flow::maximum(&stock, target, &edges);
        let mut placed =
            Self { weights, replicas, node: vec![0; weights.len()], load: vec![0; target.len()] };
        let mut rest = Vec::new();
        for ((holders, mut items), mut amounts) in groups.into_iter().zip(flow) {
            // Whole items, heavy before light, each where most of the group's amount is left.
            items.sort_by_key(|&item| Reverse(weights[item]));
            for item in items {
                let most = (0..amounts.len()).max_by_key(|&at| (amounts[at], Reverse(at)));
                match most.filter(|&at| 2 * amounts[at] >= weights[item]) {
                    Some(at) => {
                        amounts[at] = amounts[at].saturating_sub(weights[item]);
                        placed.put(item, holders[at]);
                    }
                    None => rest.push(item),
                }
            }
        }
        rest.sort_by_key(|&item| (Reverse(weights[item]), item));
        for item in rest {
            let over = |holder: usize| i128::from(placed.load[holder]) - i128::from(target[holder]);
            let least = replicas[item].iter().copied().min_by_key(|&holder| (over(holder), holder));
            placed.put(item, least.unwrap_or(0));
        }
        placed
    }

    fn put(&mut self, item: usize, node: usize) {
        self.node[item] = node;
        self.load[node] += self.weights[item];
    }

    /// Items that are on a node without their data.
    pub fn remote(&self) -> usize {
        let places = self.node.iter().zip(self.replicas);
        places.filter(|(node, holders)| !holders.contains(node)).count()
    }

    /// Moves items towards the targets; returns the weights that were moved.
    pub fn balance(&mut self, target: &[u64]) -> Vec<Transfer> {
        let mut plan = transfers(&self.load, target);
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); self.load.len()];
        for (item, &node) in self.node.iter().enumerate() {
            on[node].push(item);
        }
        let units = self.weights.iter().all(|&weight| weight == 1);
        for transfer in &mut plan {
            let on = &mut on[transfer.from];
            if units {
                // None that could go has its data there, or the flow had led it there.
                let count = nearest_usize(transfer.count).min(on.len());
                for item in on.drain(..count) {
                    self.node[item] = transfer.to;
                }
                continue;
            }
            transfer.count = self.send(on, *transfer);
        }
        plan.retain(|transfer| transfer.count > 0);
        plan
    }

    /// Makes a transfer of items without exceeding the count: first those whose data the receiver
    /// has, heavy ones first; then one more if that comes closer to the count. Returns the weight
    /// moved.
    fn send(&mut self, on: &mut Vec<usize>, transfer: Transfer) -> u64 {
        let local = |item: usize| self.replicas[item].contains(&transfer.to);
        let mut order: Vec<usize> = on.clone();
        order.sort_by_key(|&item| (!local(item), Reverse(self.weights[item]), item));
        let mut left = transfer.count;
        let mut chosen = Vec::new();
        let mut kept = Vec::new();
        for item in order {
            if self.weights[item] <= left {
                left -= self.weights[item];
                chosen.push(item);
            } else {
                kept.push(item);
            }
        }
        let lightest = kept.iter().copied().min_by_key(|&item| (self.weights[item], !local(item)));
        let closer = lightest.filter(|&item| self.weights[item] - left < left);
        chosen.extend(closer);
        for &item in &chosen {
            self.node[item] = transfer.to;
        }
        on.retain(|&item| self.node[item] == transfer.from);
        chosen.iter().map(|&item| self.weights[item]).sum()
    }
}
