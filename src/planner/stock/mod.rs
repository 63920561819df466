// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes that stock Slurm takes for a job, by its own steps.
//!
//! [`Ask`] is the request as these steps count it, [`Offer`] a candidate with what the job could
//! have there. [`choose`] takes nodes of the offers: without a topology from runs of neighbours
//! ([`consec`]), else from leaf switches ([`tree`]) or blocks. Sources: `_eval_nodes`,
//! `_eval_nodes_topo` and `choose_nodes` of `plugins/select/cons_tres/job_test.c` (22.05 to 23.11),
//! `plugins/topology/common/eval_nodes.c` and `plugins/topology/tree/eval_nodes_tree.c` (24.05 on).

mod ask;
mod consec;
mod offers;
#[cfg(test)]
mod tests;
mod tree;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use ask::{Ask, Class, Offer, Refused, Taken};
pub use offers::offers;

use crate::cluster::Table;
use crate::place::{Blocks, Form, place_one};
use ask::Rest;
use phalanx_core::NodeIdx;
use phalanx_core::shape::{Need, Shape};
use phalanx_core::topology::Topology;

/// Most looks at nodes that the steps take in all, as the answer is late otherwise.
const WORK_MAX: usize = 16_000;
/// Stock's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The nodes, ascending.
    pub taken: Vec<Taken>,
    /// Whether the choice would be the same with heavier nodes on offer too.
    pub is_settled: bool,
}

/// Chooses the nodes of a job among the offers, which ascend by node; `Err` where there is no
/// choice or it is not known.
///
/// # Errors
/// See [`Refused`].
pub fn choose(
    ask: &Ask,
    offers: &[Offer],
    table: &Table,
    topology: Option<(&Topology, &Form)>,
) -> Result<Chosen, Refused> {
    let is_inside =
        |topology: &Topology| offers.iter().any(|offer| topology.leaf_of(offer.node).is_some());
    let mut chosen = match topology {
        Some((topology, Form::Block(blocks))) if is_inside(topology) => {
            in_blocks(ask, offers, topology, blocks)?
        }
        Some((topology, Form::Tree(tree))) => {
            let attempt =
                |rest: &mut Rest, offers: &[Offer]| tree::choose(rest, offers, topology, tree);
            dropping_small(ask, offers, &attempt)?
        }
        _ => dropping_small(ask, offers, &|rest, offers| consec::choose(rest, offers, table))?,
    };
    chosen.taken.sort_unstable_by_key(|taken| taken.node);
    chosen.is_settled &= topology.is_none();
    Ok(chosen)
}

/// Tries all offers; where that fails, the offers without those of the fewest CPUs, and so on: a
/// node that gives little takes the place of one that gives much.
fn dropping_small(
    ask: &Ask,
    offers: &[Offer],
    attempt: &dyn Fn(&mut Rest, &[Offer]) -> bool,
) -> Result<Chosen, Refused> {
    let min_nodes = ask.min_nodes as usize;
    let mut left = Cow::Borrowed(offers);
    let mut work = 0;
    loop {
        work += left.len();
        if work > WORK_MAX.max(left.len()) {
            return Err(Refused::Unknown("nodes of many sizes"));
        }
        let cpus: i64 = left.iter().map(|offer| offer.cpus).sum();
        if left.len() < min_nodes || cpus < ask.cpus {
            return Err(Refused::NoFit);
        }
        let mut rest = Rest::new(ask);
        if attempt(&mut rest, &left) {
            // Runs are taken by class, until no more is wanted.
            let is_settled = left.len() == offers.len() && rest.is_done();
            return Ok(Chosen { taken: rest.taken, is_settled });
        }
        let left = left.to_mut();
        for cut in rest.cut {
            let at = left.binary_search_by_key(&cut.node, |offer| offer.node);
            at.ok().and_then(|at| left.get_mut(at)).into_iter().for_each(|offer| *offer = cut);
        }
        let sizes = || left.iter().map(|offer| offer.size);
        let Some(least) = sizes().min() else { return Err(Refused::NoFit) };
        let most = sizes().max().unwrap_or(least);
        if left.len() <= min_nodes || least >= most {
            return Err(Refused::NoFit);
        }
        let mut count = left.len();
        left.retain(|offer| {
            let goes = offer.size == least && count > min_nodes;
            count -= usize::from(goes);
            !goes
        });
    }
}

/// Takes classes of Weight, the lightest first, until blocks accept the fewest nodes; `Unknown`
/// where these lack CPUs, which the steps look at as they go.
fn in_blocks(
    ask: &Ask,
    offers: &[Offer],
    topology: &Topology,
    blocks: &Blocks,
) -> Result<Chosen, Refused> {
    let mut classes: BTreeMap<Class, Vec<&Offer>> = BTreeMap::new();
    offers.iter().for_each(|offer| classes.entry(offer.class).or_default().push(offer));
    let mut counts = vec![0; topology.leaf_count()];
    let none = counts.clone();
    let mut by_leaf: BTreeMap<u32, Vec<&Offer>> = BTreeMap::new();
    for class in classes.into_values() {
        for offer in class {
            let Some(leaf) = topology.leaf_of(offer.node) else { continue };
            counts.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
            by_leaf.entry(leaf).or_default().push(offer);
        }
        let Some(take) = place_one(blocks, &none, &counts, ask.min_nodes) else { continue };
        let of = |(leaf, offers): (&u32, &Vec<&Offer>)| {
            let count = take.get(*leaf as usize).map_or(0, |count| *count as usize);
            offers.iter().take(count).copied().copied().collect::<Vec<Offer>>()
        };
        let mut rest = Rest::new(ask);
        by_leaf.iter().flat_map(of).for_each(|offer| rest.take(&offer));
        return if rest.has_all() {
            Ok(Chosen { taken: rest.taken, is_settled: false })
        } else {
            Err(Refused::Unknown("CPUs of blocks"))
        };
    }
    Err(Refused::NoFit)
}

/// Amounts that each node of a choice gives.
pub fn needs(shape: &Shape, taken: &[Taken]) -> Vec<(NodeIdx, Need)> {
    let nodes = taken.len() as u64;
    let each = u64::from(shape.cpus_per_task.max(1));
    let by_cpus = u64::from(shape.min_cpus).div_ceil(each);
    let mut left = shape.tasks().max(by_cpus);
    let mut behind = nodes;
    let mut given = Vec::with_capacity(taken.len());
    for node in taken {
        behind -= 1;
        let tasks = node.tasks.min(left.saturating_sub(behind)).max(1);
        left = left.saturating_sub(tasks);
        given.push((node.node, shape.need_for(tasks, 1, nodes)));
    }
    given
}
