// SPDX-License-Identifier: GPL-3.0-or-later
//! Choice of the items that move: first those whose data the receiver has.

use std::collections::{BTreeMap, VecDeque};

use super::partition::{Transfer, transfers};

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
    /// Every item, in the given order, on its least loaded replica holder.
    pub fn initial(nodes: usize, weights: &'a [u64], replicas: &'a [Vec<usize>]) -> Self {
        let mut load = vec![0; nodes];
        let mut node = Vec::with_capacity(weights.len());
        for (&weight, holders) in weights.iter().zip(replicas) {
            let least = holders.iter().copied().min_by_key(|&holder| (load[holder], holder));
            let holder = least.unwrap_or(0);
            load[holder] += weight;
            node.push(holder);
        }
        Self { weights, replicas, node, load }
    }

    /// Items that are on a node without their data.
    pub fn remote(&self) -> usize {
        let places = self.node.iter().zip(self.replicas);
        places.filter(|(node, holders)| !holders.contains(node)).count()
    }

    /// Moves items towards the targets; the weights that really moved.
    pub fn balance(&mut self, target: &[u64]) -> Vec<Transfer> {
        let mut plan = transfers(&self.load, target);
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); self.load.len()];
        for (item, &node) in self.node.iter().enumerate() {
            on[node].push(item);
        }
        let mut by_sender: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, transfer) in plan.iter().enumerate() {
            by_sender.entry(transfer.from).or_default().push(place);
        }
        for (sender, places) in by_sender {
            if on[sender].iter().all(|&item| self.weights[item] == 1) {
                self.send_units(&on[sender], &plan, &places);
            } else {
                for place in places {
                    plan[place].count = self.send_weights(&mut on[sender], plan[place]);
                }
            }
        }
        plan.retain(|transfer| transfer.count > 0);
        plan
    }

    /// Sends items of unit weight: as many as possible go to a receiver that has their data, by a
    /// maximum flow from groups of like items to receivers.
    fn send_units(&mut self, items: &[usize], plan: &[Transfer], places: &[usize]) {
        let holds = |item: usize, receiver: usize| self.replicas[item].contains(&plan[receiver].to);
        let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for &item in items {
            let local = places.iter().copied().filter(|&place| holds(item, place)).collect();
            groups.entry(local).or_default().push(item);
        }
        let groups: Vec<(Vec<usize>, Vec<usize>)> = groups.into_iter().collect();
        let column = |place: usize| places.iter().position(|&other| other == place);
        let edges: Vec<Vec<usize>> = groups
            .iter()
            .map(|(local, _)| local.iter().filter_map(|&place| column(place)).collect())
            .collect();
        let stock: Vec<u64> = groups.iter().map(|(_, members)| members.len() as u64).collect();
        let wanted: Vec<u64> = places.iter().map(|&place| plan[place].count).collect();
        let flow = maximum_flow(&stock, &wanted, &edges);
        // Members of a group are alike: the first ones go local, the groups with
        // the fewest possible receivers (they stand first) then fill the rest.
        let mut left: Vec<VecDeque<usize>> =
            groups.into_iter().map(|(_, members)| members.into()).collect();
        let mut open = wanted;
        for (group, flow) in flow.iter().enumerate() {
            for (receiver, &count) in flow.iter().enumerate() {
                open[receiver] -= count;
                for _ in 0..count {
                    if let Some(item) = left[group].pop_front() {
                        self.node[item] = plan[places[receiver]].to;
                    }
                }
            }
        }
        let mut rest = left.into_iter().flatten();
        for (receiver, &count) in open.iter().enumerate() {
            for _ in 0..count {
                if let Some(item) = rest.next() {
                    self.node[item] = plan[places[receiver]].to;
                }
            }
        }
    }

    /// Makes a transfer of weighted items: heavy before light, those whose data the receiver has
    /// before the others, without exceeding the count; then one more if that comes closer to it.
    /// Returns the weight moved.
    fn send_weights(&mut self, on: &mut Vec<usize>, transfer: Transfer) -> u64 {
        let local = |item: usize| self.replicas[item].contains(&transfer.to);
        let mut order: Vec<usize> = on.clone();
        order.sort_by_key(|&item| (!local(item), std::cmp::Reverse(self.weights[item]), item));
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

/// Most units from `stock` (by group) to `wanted` (by receiver) along `edges`
/// (receivers of each group): a first filling, then shortest augmenting paths.
fn maximum_flow(stock: &[u64], wanted: &[u64], edges: &[Vec<usize>]) -> Vec<Vec<u64>> {
    let mut flow = vec![vec![0; wanted.len()]; stock.len()];
    let mut stock = stock.to_vec();
    let mut wanted = wanted.to_vec();
    for (group, receivers) in edges.iter().enumerate() {
        for &receiver in receivers {
            let count = stock[group].min(wanted[receiver]);
            flow[group][receiver] += count;
            stock[group] -= count;
            wanted[receiver] -= count;
        }
    }
    while let Some(path) = augmenting_path(&stock, &wanted, edges, &flow) {
        // group, receiver, group, receiver ...: forward edges gain, backward lose.
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { break };
        let backward = path[1..].chunks_exact(2).map(|pair| flow[pair[1]][pair[0]]);
        let count = backward.fold(stock[first].min(wanted[last]), u64::min);
        for pair in path.chunks_exact(2) {
            flow[pair[0]][pair[1]] += count;
        }
        for pair in path[1..].chunks_exact(2) {
            flow[pair[1]][pair[0]] -= count;
        }
        stock[first] -= count;
        wanted[last] -= count;
    }
    flow
}

/// A shortest path from a group with stock to a receiver that wants more, as
/// alternating group and receiver indexes.
fn augmenting_path(
    stock: &[u64],
    wanted: &[u64],
    edges: &[Vec<usize>],
    flow: &[Vec<u64>],
) -> Option<Vec<usize>> {
    let mut reached_by: Vec<Option<usize>> = vec![None; wanted.len()];
    let mut entered_by: Vec<Option<usize>> = vec![None; stock.len()];
    let mut seen: Vec<bool> = stock.iter().map(|&stock| stock > 0).collect();
    let mut queue: VecDeque<usize> = (0..stock.len()).filter(|&group| seen[group]).collect();
    while let Some(group) = queue.pop_front() {
        for &receiver in &edges[group] {
            if reached_by[receiver].is_some() {
                continue;
            }
            reached_by[receiver] = Some(group);
            if wanted[receiver] > 0 {
                let mut path = vec![receiver];
                let mut at = group;
                loop {
                    path.push(at);
                    let Some(receiver) = entered_by[at] else { break };
                    path.push(receiver);
                    at = reached_by[receiver]?;
                }
                path.reverse();
                return Some(path);
            }
            for other in 0..stock.len() {
                if !seen[other] && flow[other][receiver] > 0 {
                    seen[other] = true;
                    entered_by[other] = Some(receiver);
                    queue.push_back(other);
                }
            }
        }
    }
    None
}
