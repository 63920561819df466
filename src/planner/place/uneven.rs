// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs whose number of nodes is open, or whose tasks fit the nodes unevenly.
//!
//! Stock's steps say how many nodes such a job takes, and what each gives. They are taken on all
//! nodes on offer and on parts of these: one leaf or few, nodes of one kind, the largest nodes.
//! The best part wins.

use std::collections::BTreeMap;

use super::as_stock::{offers_of, topology_of};
use super::search::{Search, Split};
use super::topology::{Chooser, Route, by_switches};
use super::why::Why;
use crate::stock::{Ask, Chosen, Offer, Refused, Taken, choose, needs};
use phalanx_core::NodeIdx;
use phalanx_core::number::{as_f64, nearest_i64};
use phalanx_core::shape::{LeftToSlurm, Need};
use phalanx_methods::balance::{Decision, Holding, Outcome, Request};

/// Most nodes of one uneven split whose scores are kept.
const SCORED_MAX: usize = 64;
/// Equally good splits among which the balance method chooses one.
const EQUAL_MAX: usize = 8;

/// Costs of a choice in the order in which they count: nodes that are not of the lighter classes,
/// leaves and their level, kinds of nodes, nodes, idle nodes on its leaves.
type Rank = (usize, (usize, u32), usize, usize, usize);

impl Search<'_> {
    /// The best of stock's choices on the offered nodes and on parts of them. `is_last`: no further
    /// nodes will be offered; `is_whole`: no further nodes of these classes of Weight will be.
    pub(super) fn by_parts(&mut self, is_last: bool, is_whole: bool) -> Result<Split, Why> {
        match self.chooser.routes.many {
            Route::Left(option) => return Err(Why::Left(option)),
            Route::Run(_) => return Err(Why::Left(LeftToSlurm::Contiguous)),
            // Blocks place the fewest nodes and no other number.
            Route::Block(_) => return Err(Why::NoFit),
            Route::Tree(_) | Route::Any => {}
        }
        let ask = Ask::new(self.shape).map_err(why_of)?;
        if self.candidates.are_full() {
            return Err(Why::NoFit);
        }
        // Between its limits Slurm takes as many nodes as there are.
        let is_range = ask.req_nodes > ask.min_nodes;
        let mut offers = self.offers();
        let all = offers.len();
        let first = self.stocks(&ask, &offers);
        let is_settled = first.as_ref().is_ok_and(|first| first.is_settled);
        let is_stocks = first.is_ok() && (is_last || (is_whole && is_settled));
        let first = first.or_else(|refused| {
            // Of many sizes the largest are known to hold the job.
            let part = largest(&ask, &[], &offers, ask.max_nodes as usize + 1);
            part.filter(|_| !is_range && self.is_alike(&offers))
                .map_or(Err(refused), |part| self.stocks(&ask, &part))
        });
        let first = first.map_err(why_of)?.taken;
        if is_stocks && !self.candidates.preferred().0 {
            self.known_stock = Some(first.clone());
        }
        if !is_last && first.len() < self.wanted as usize {
            return Err(Why::NoFit);
        }
        let class = |taken: &Taken| offer_of(&offers, taken.node).map(|offer| offer.class);
        let heaviest = first.iter().filter_map(class).max().ok_or(Why::NoFit)?;
        let mut lighter: Vec<Offer> = Vec::new();
        if offers.iter().any(|offer| offer.class != heaviest) {
            offers.retain(|offer| offer.class <= heaviest);
            lighter.extend(offers.extract_if(.., |offer| offer.class < heaviest));
        }
        let mut parts = self.parts(&ask, &lighter, &offers, first.len());
        parts.retain(|part| part.len() < all); // of all nodes the choice is known
        let count = first.len();
        let chosen = parts.iter().filter_map(|part| self.stocks(&ask, part).ok());
        let chosen = chosen.map(|chosen| chosen.taken);
        let chosen = chosen.filter(|taken| !is_range || taken.len() == count);
        let ranked = chosen.chain([first]).map(|taken| (self.rank(&lighter, &taken), taken));
        let mut ranked: Vec<(Rank, Vec<Taken>)> = ranked.collect();
        let least = ranked.iter().map(|(rank, _)| *rank).min();
        ranked.retain(|(rank, _)| Some(*rank) == least);
        ranked.dedup();
        ranked.truncate(EQUAL_MAX);
        let splits = ranked.into_iter().map(|(_, taken)| self.put_on(&taken));
        let splits: Result<Vec<Split>, Why> = splits.collect();
        let best = splits?.into_iter().min_by(|a, b| mean(&a.2).total_cmp(&mean(&b.2)));
        best.ok_or(Why::NoFit)
    }

    /// Whether stock treats all the offers alike.
    fn is_alike(&self, offers: &[Offer]) -> bool {
        let is_flat = self.chooser.routes.many == Route::Any;
        is_flat && offers.iter().all(|offer| offers.first().is_some_and(|o| o.class == offer.class))
    }

    /// Stock's choice among the offers.
    fn stocks(&self, ask: &Ask, offers: &[Offer]) -> Result<Chosen, Refused> {
        let (cluster, forms) = (self.chooser.cluster, &self.chooser.topologies.forms);
        let topology = topology_of(cluster, forms, self.shape)?;
        let chosen = choose(ask, offers, cluster.table(), topology)?;
        let most = self.shape.max_nodes.max(1) as usize;
        if chosen.taken.len() > most { Err(Refused::NoFit) } else { Ok(chosen) }
    }

    /// Amounts that the job could have of the nodes on offer.
    fn offers(&self) -> Vec<Offer> {
        let (cluster, mask) = (self.chooser.cluster, &self.chooser.sets.mask);
        let class = |node| self.stock_class(node);
        offers_of(cluster, self.shape, self.candidates, mask.iter(), class)
    }

    /// Parts of the nodes of the heaviest class that stock takes, each with all lighter nodes;
    /// `count`: how many nodes stock takes in all.
    fn parts(
        &mut self,
        ask: &Ask,
        lighter: &[Offer],
        own: &[Offer],
        count: usize,
    ) -> Vec<Vec<Offer>> {
        let mut parts = match self.chooser.routes.many {
            Route::Tree(at) if by_switches(&self.shape.topology) => {
                self.on_few_leaves(at, ask, lighter, own).unwrap_or_default()
            }
            _ => largest(ask, lighter, own, count).into_iter().collect(),
        };
        let kind = |offer: &Offer| self.chooser.family_of(offer.node);
        let known = own.first().map(kind);
        if own.iter().any(|offer| Some(kind(offer)) != known) {
            let mut kinds: BTreeMap<u32, Vec<Offer>> = BTreeMap::new();
            for offer in own {
                kinds.entry(kind(offer)).or_insert_with(|| lighter.to_vec()).push(*offer);
            }
            parts.extend(kinds.into_values().take(EQUAL_MAX));
        }
        parts.iter_mut().for_each(|part| part.sort_unstable_by_key(|offer| offer.node));
        parts
    }

    fn rank(&self, lighter: &[Offer], taken: &[Taken]) -> Rank {
        let nodes = || taken.iter().map(|taken| taken.node);
        let heavy = nodes().filter(|node| offer_of(lighter, *node).is_none());
        let heavy = if lighter.is_empty() { 0 } else { heavy.count() };
        let (leaves, level) = self.leaves(nodes());
        let mut kinds: Vec<u32> = nodes().map(|node| self.chooser.family_of(node)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let level = level.unwrap_or(u32::MAX);
        (heavy, (leaves, level), kinds.len(), taken.len(), self.idle_beside(nodes()))
    }

    /// Returns the nodes with what each gives to the job, and their scores.
    pub(super) fn put_on(&mut self, taken: &[Taken]) -> Result<Split, Why> {
        let nodes: Vec<NodeIdx> = taken.iter().map(|taken| taken.node).collect();
        let given = needs(self.shape, taken).into_iter();
        let given: Vec<Need> = given.map(|(node, need)| self.need_on(node, &need)).collect();
        let decision = self.score(&nodes, &given)?;
        (self.chooser.fewest, self.chooser.loss) = (0, 0);
        Ok((nodes, given, decision))
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

/// The reason for which stock's steps name no nodes.
fn why_of(refused: Refused) -> Why {
    match refused {
        Refused::NoFit => Why::NoFit,
        Refused::Unknown(option) => Why::Unknown(option),
    }
}

/// The offer of `node`; offers ascend by node.
fn offer_of(offers: &[Offer], node: NodeIdx) -> Option<&Offer> {
    offers.binary_search_by_key(&node, |offer| offer.node).ok().and_then(|at| offers.get(at))
}

/// The largest nodes that hold the job together with lighter ones, with all nodes as large; `None`:
/// these are not fewer than `count`.
pub(super) fn largest(
    ask: &Ask,
    lighter: &[Offer],
    own: &[Offer],
    count: usize,
) -> Option<Vec<Offer>> {
    let mut left = ask.cpus - lighter.iter().map(|offer| offer.cpus).sum::<i64>();
    let mut most = count.checked_sub(lighter.len() + 1)?;
    let mut sizes: BTreeMap<i64, usize> = BTreeMap::new();
    for alike in own.chunk_by(|a, b| a.cpus == b.cpus) {
        let cpus = alike.first()?.cpus;
        *sizes.entry(cpus).or_default() += alike.len();
    }
    let (last, _) = sizes.into_iter().rev().find(|(cpus, nodes)| {
        let taken = most.min(*nodes);
        most -= taken;
        left -= cpus.saturating_mul(nearest_i64(taken as u64));
        taken > 0 && left <= 0
    })?;
    let mut large = Vec::with_capacity(lighter.len() + own.len());
    large.extend_from_slice(lighter);
    large.extend(own.iter().filter(|offer| offer.cpus >= last));
    Some(large)
}

fn mean(decision: &Decision) -> f64 {
    let scores = decision.choices().iter().map(|choice| choice.score);
    scores.sum::<f64>() / as_f64(decision.choices().len() as u64)
}
