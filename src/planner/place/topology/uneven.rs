// SPDX-License-Identifier: GPL-3.0-or-later
//! Leaves for a job whose nodes are open: `-n` without `-N`.

use std::cmp::Reverse;

use super::counts::Plan;
use super::{Form, Route};
use crate::place::search::Search;
use crate::place::uneven::largest;
use crate::stock::{Ask, Offer};
use phalanx_core::NodeIdx;
use phalanx_core::number::{nearest_u32, nearest_u64};

impl Search<'_> {
    /// Chooses nodes by single leaves that hold the job, and the largest nodes of each; else those
    /// of the fewest leaves that hold it. `lighter` nodes are taken wherever they are.
    pub(in crate::place) fn on_few_leaves(
        &mut self,
        at: usize,
        ask: &Ask,
        lighter: &[Offer],
        own: &[Offer],
    ) -> Option<Vec<Vec<Offer>>> {
        let topology = self.chooser.topology(at).ok()?;
        let leaf = |offer: &Offer| topology.leaf_of(offer.node);
        let mut by_leaf: Vec<Offer> = own.to_vec();
        by_leaf.sort_by_key(leaf);
        let holds = |part: &&[Offer]| {
            let cpus: i64 = part.iter().map(|offer| offer.cpus).sum();
            cpus >= ask.cpus && part.len() >= ask.min_nodes as usize
        };
        let single = by_leaf.chunk_by(|a, b| leaf(a) == leaf(b)).filter(holds);
        let single: Vec<Vec<Offer>> = single.map(<[Offer]>::to_vec).collect();
        if lighter.is_empty() && !single.is_empty() {
            let large = single.iter().filter_map(|leaf| largest(ask, &[], leaf, leaf.len()));
            return Some(large.chain(single.iter().cloned()).collect());
        }
        let counts = &mut self.chooser.sets.counts;
        counts.reset(topology.leaf_count());
        for (offers, is_forced) in [(lighter, true), (own, false)] {
            for offer in offers {
                let parts = nearest_u32(nearest_u64(offer.cpus.min(ask.cpus)));
                leaf(offer).into_iter().for_each(|leaf| counts.add_room(leaf, parts, is_forced));
            }
        }
        counts.free_idle.clone_from(&counts.free);
        let Some(Form::Tree(tree)) = self.chooser.topologies.forms.get(at) else { return None };
        let plans = tree.choose(counts, u32::try_from(ask.cpus).ok()?, None)?;
        let of = |plan: Plan| {
            let is_forced = |offer: &&Offer| {
                leaf(offer).is_some_and(|leaf| topology.above(leaf).last() == plan.root)
            };
            let mut part: Vec<Offer> = lighter.iter().filter(is_forced).copied().collect();
            for (taken, parts) in plan.take {
                // Stock would begin leaves in its own order: each has only what is taken there.
                let mut on: Vec<&Offer> = own.iter().filter(|o| leaf(o) == Some(taken)).collect();
                on.sort_by_key(|offer| Reverse(offer.cpus));
                let mut left = i64::from(parts);
                part.extend(on.into_iter().copied().take_while(|offer| {
                    let is_wanted = left > 0;
                    left -= offer.cpus;
                    is_wanted
                }));
            }
            part
        };
        Some(plans.equal.into_iter().map(of).collect())
    }

    /// Number of idle nodes on the leaves of `nodes`.
    pub(in crate::place) fn idle_beside(&self, nodes: impl Iterator<Item = NodeIdx>) -> usize {
        let Route::Tree(at) = self.chooser.routes.many else { return 0 };
        let Ok(topology) = self.chooser.topology(at) else { return 0 };
        let idle = |leaf| {
            let on = topology.nodes_of(leaf).iter();
            on.filter(|node| self.chooser.sets.idle.contains(**node)).count()
        };
        topology.leaves(nodes).into_iter().map(|(leaf, _)| idle(leaf)).sum()
    }
}
