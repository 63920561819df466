// SPDX-License-Identifier: GPL-3.0-or-later
//! Chooses by leaf switches: the top switch, classes of Weight below it, then leaf after leaf.

use super::ask::{Class, GRES, Offer, Rest};
use crate::place::{Greedy, Rules, Tree};
use phalanx_core::number::{nearest_i64, nearest_u32, nearest_u64};
use phalanx_core::topology::Topology;

/// Takes nodes below one switch; returns false if no switch has enough.
pub(super) fn choose(rest: &mut Rest, offers: &[Offer], topology: &Topology, tree: &Tree) -> bool {
    let Some((top, cpus)) = top(rest, offers, topology, tree) else { return false };
    let below = |offer: &&Offer| {
        topology.leaf_of(offer.node).is_some_and(|leaf| tree.above(leaf).contains(&top))
    };
    let mut below: Vec<&Offer> = offers.iter().filter(below).collect();
    below.sort_by_key(|offer| (offer.class, offer.node));
    let Some((forced, until)) = classes(rest, &below, tree) else { return false };
    below.truncate(until);
    let leaf_of = |offer: &Offer| topology.leaf_of(offer.node).unwrap_or(u32::MAX);
    let mut greedy = Greedy::new(tree, tree.below(top), cpus);
    let mut held = vec![false; topology.leaf_count()];
    let mut others = below.split_off(forced);
    below.sort_by_key(|offer| offer.node);
    for offer in below {
        held.get_mut(leaf_of(offer) as usize).into_iter().for_each(|held| *held = true);
        if rest.max_nodes > 0 {
            rest.take(offer);
        }
    }
    if rest.is_done() || rest.max_nodes <= 0 {
        return rest.is_done();
    }
    others.sort_by_key(|offer| (leaf_of(offer), offer.node));
    let is_held = |offer: &&Offer| held.get(leaf_of(offer) as usize) == Some(&true);
    let (beside, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_held);
    for offer in beside {
        rest.take(offer);
        if rest.is_done() {
            return true;
        }
    }
    (0u32..).zip(&held).filter(|(_, held)| **held).for_each(|(leaf, _)| greedy.reach(leaf));
    others.iter().for_each(|offer| greedy.add(leaf_of(offer), 1));
    let mut before = rest.nodes + 1;
    while before != rest.nodes {
        before = rest.nodes;
        let missing = nearest_u32(nearest_u64(rest.nodes));
        let Some((leaf, _)) = greedy.next(missing, rest.cpus) else { break };
        for offer in others.iter().filter(|offer| leaf_of(offer) == leaf) {
            if rest.max_nodes > 0 {
                rest.take(offer);
            }
            if rest.is_done() {
                return true;
            }
        }
    }
    rest.min_nodes <= 0 && rest.has_all()
}

/// The switch below which nodes are taken: of those with enough the highest, of these the last one
/// whose lightest node is no heavier.
///
/// Beside it the CPUs below each switch, where these count.
fn top(rest: &Rest, offers: &[Offer], topology: &Topology, tree: &Tree) -> Option<(u32, Vec<i64>)> {
    let by_cpus = tree.rules() == Rules::New;
    let mut below = vec![(0i64, 0i64, (u32::MAX, u32::MAX, u32::MAX)); topology.domains().len()];
    for offer in offers {
        let Some(leaf) = topology.leaf_of(offer.node) else { continue };
        for &switch in tree.above(leaf) {
            let Some((nodes, cpus, lightest)) = below.get_mut(switch as usize) else { continue };
            (*nodes, *cpus) = (*nodes + 1, *cpus + offer.cpus);
            *lightest = offer.class.min(*lightest);
        }
    }
    let mut top: Option<(u32, u32, Class)> = None;
    for (switch, &(nodes, cpus, lightest)) in (0u32..).zip(&below) {
        let enough = rest.enough(nodes) && (!by_cpus || cpus >= rest.cpus);
        let level = tree.level(switch);
        let wins = top.is_none_or(|(_, best, light)| level >= best && lightest <= light);
        if nodes > 0 && enough && wins {
            top = Some((switch, level, lightest));
        }
    }
    let counted = below.into_iter().filter(|_| by_cpus).map(|(_, cpus, _)| cpus);
    top.map(|(switch, ..)| (switch, counted.collect()))
}

/// Number of nodes of the classes before the last one that is needed, and that number with the last
/// one.
fn classes(rest: &Rest, below: &[&Offer], tree: &Tree) -> Option<(usize, usize)> {
    let (mut cpus, mut gres) = (0, [0; GRES]);
    let (mut forced, mut until) = (0, 0);
    let mut suffices = false;
    for class in below.chunk_by(|a, b| a.class == b.class) {
        (forced, until) = (until, until + class.len());
        for offer in class {
            cpus += offer.cpus;
            gres.iter_mut().zip(offer.gres).for_each(|(sum, has)| *sum += has);
        }
        let nodes = nearest_i64(until as u64);
        let holds = cpus >= rest.cpus && rest.has_gres(&gres);
        suffices |= holds && rest.enough(nodes);
        if suffices && (tree.rules() == Rules::Old || (holds && nodes >= rest.nodes)) {
            break;
        }
    }
    suffices.then_some((forced, until))
}
