// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's own choice of nodes, by the steps that the planner also uses so as never to do worse.

use phalanx_core::NodeIdx;
use phalanx_core::layout::BySocket;
use phalanx_core::shape::{Need, Shape};
use phalanx_core::topology::Topology;
use phalanx_planner::cluster::{Cluster, Table};
use phalanx_planner::place::{Form, place_one};
use phalanx_planner::stock::{Ask, Offer, Taken, choose, needs, offers};

/// Slurm's rule for one topology.
#[derive(Debug)]
pub(super) struct Stock {
    topology: Topology,
    form: Form,
}

impl Stock {
    /// Makes the rule of a topology; `None` if its nodes are alike.
    pub(super) fn new(topology: &Topology) -> Option<Self> {
        let form = Form::new(topology);
        (!matches!(form, Form::None)).then(|| Self { topology: topology.clone(), form })
    }

    fn parts(&self) -> (&Topology, &Form) {
        (&self.topology, &self.form)
    }

    /// Whether a job of `wanted` nodes may run on some of `nodes`.
    pub(super) fn holds(&self, nodes: &[u32], wanted: u32) -> bool {
        let on = nodes.iter().filter_map(|node| self.topology.leaf_of((*node).into()));
        let mut counts = vec![0; self.topology.domains().len().max(self.topology.leaf_count())];
        let mut add = |at: u32| {
            counts.get_mut(at as usize).into_iter().for_each(|count: &mut u32| *count += 1);
        };
        match &self.form {
            Form::Tree(tree) => {
                on.for_each(|leaf| tree.above(leaf).iter().for_each(|switch| add(*switch)));
                counts.iter().any(|count| *count >= wanted)
            }
            Form::Block(blocks) => {
                on.for_each(add);
                counts.truncate(self.topology.leaf_count());
                place_one(blocks, &vec![0; counts.len()], &counts, wanted).is_some()
            }
            Form::None => nodes.len() >= wanted as usize,
        }
    }

    /// The nodes of a job of even shares among those with room for one, given by weight and index.
    pub(super) fn evenly(&self, fitting: &[(u32, u32)], wanted: u32) -> Option<Vec<u32>> {
        let ask = Ask {
            min_nodes: wanted,
            max_nodes: wanted,
            req_nodes: wanted,
            cpus: wanted.into(),
            least_cpus: 1,
            gres_cpus: 0,
            whole: true,
            gres: Default::default(),
        };
        let gres = Default::default();
        let share = |&(weight, node): &(u32, u32)| {
            let class = (0, weight, 0);
            Offer { node: node.into(), class, cpus: 1, size: 1, reserve: 1, tasks: 1, gres }
        };
        let mut offers: Vec<Offer> = fitting.iter().map(share).collect();
        offers.sort_unstable_by_key(|offer| offer.node);
        let taken = choose(&ask, &offers, &Table::default(), Some(self.parts())).ok()?.taken;
        Some(taken.into_iter().map(|taken| taken.node.raw()).collect())
    }
}

/// The nodes that Slurm takes of the candidates, which ascend, each with what it gives.
pub(super) fn by_slurm(
    cluster: &Cluster,
    stock: Option<&Stock>,
    shape: &Shape,
    candidates: &[u32],
) -> Option<Vec<(u32, Need)>> {
    let table = cluster.table();
    let weight = |node: NodeIdx| (0, table.nodes.get(node.at()).map_or(0, |node| node.weight));
    let nodes = candidates.iter().map(|node| NodeIdx::from(*node));
    let offers = offers(cluster, shape, nodes, weight, |_| BySocket::default());
    let ask = Ask::new(shape).ok()?;
    let taken: Vec<Taken> = choose(&ask, &offers, table, stock.map(Stock::parts)).ok()?.taken;
    Some(needs(shape, &taken).into_iter().map(|(node, need)| (node.raw(), need)).collect())
}

#[cfg(test)]
mod tests;
