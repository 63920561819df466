// SPDX-License-Identifier: GPL-3.0-or-later
//! Chooses by best fit among runs of neighbours of one Weight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::ask::{Class, GRES, Offer, Rest};
use crate::cluster::{Table, are_neighbours};
use phalanx_core::number::nearest_i64;

/// A run of offers.
struct Run {
    nodes: Range<usize>,
    is_used: bool,
    class: Class,
    cpus: i64,
    /// CPUs of the run's largest node.
    largest: i64,
    gres: [u64; GRES],
}

impl Run {
    fn add(&mut self, offer: &Offer) {
        self.nodes.end += 1;
        self.cpus += offer.cpus;
        self.largest = self.largest.max(offer.cpus);
        self.gres.iter_mut().zip(offer.gres).for_each(|(sum, has)| *sum += has);
    }
}

/// Takes the first nodes of the run that suffices with the fewest CPUs, else the largest run, and
/// so on within the lightest class, then in the next; returns false if all together do not suffice.
pub(super) fn choose(rest: &mut Rest, offers: &[Offer], table: &Table) -> bool {
    let mut runs = runs(offers, table);
    runs.sort_by_key(|run| run.class);
    let mut before = 0; // runs of classes that are used up
    let mut largest: BinaryHeap<(i64, Reverse<usize>)> = BinaryHeap::new();
    let mut own = 0..0;
    while rest.max_nodes > 0 {
        while largest.peek().is_some_and(|(_, at)| runs.get(at.0).is_none_or(|run| run.is_used)) {
            largest.pop();
        }
        if largest.is_empty() {
            let class = runs.get(before).map(|run| run.class);
            let alike = runs.iter().skip(before).take_while(|run| Some(run.class) == class);
            own = before..before + alike.count();
            before = own.end;
            largest =
                own.clone().filter_map(|at| Some((runs.get(at)?.cpus, Reverse(at)))).collect();
        }
        let Some(&(most, Reverse(first))) = largest.peek() else { break };
        // Where no run has enough CPUs none suffices, and it is the largest.
        let at = if most < rest.cpus { Some(first) } else { best(&runs, own.clone(), rest) };
        let Some(run) = at.and_then(|at| runs.get_mut(at)) else { break };
        run.is_used = true;
        take_of(rest, offers.get(run.nodes.clone()).unwrap_or_default());
        // The last node that the job may have has to hold all that is left.
        let holds = |run: &Run| !run.is_used && run.largest >= rest.cpus;
        if rest.max_nodes == 1 && !runs.iter().any(holds) {
            break;
        }
        if rest.is_done() {
            return true;
        }
    }
    rest.has_all() && rest.enough(0)
}

/// Runs of neighbours of one class, in one look at each offer.
fn runs(offers: &[Offer], table: &Table) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut last: Option<&Offer> = None;
    for (at, offer) in offers.iter().enumerate() {
        let is_joined = last
            .is_some_and(|a| a.class == offer.class && are_neighbours(table, a.node, offer.node));
        last = Some(offer);
        match runs.last_mut().filter(|_| is_joined) {
            Some(run) => run.add(offer),
            None => runs.push(Run {
                nodes: at..at + 1,
                is_used: false,
                class: offer.class,
                cpus: offer.cpus,
                largest: offer.cpus,
                gres: offer.gres,
            }),
        }
    }
    runs
}

/// The unused run of a class that suffices with the fewest CPUs. As in Slurm a larger run
/// that does not suffice, for want of nodes or GRES, may replace one that does.
fn best(runs: &[Run], class: Range<usize>, rest: &Rest) -> Option<usize> {
    let mut best: Option<(usize, i64, bool)> = None;
    let own = class.clone().zip(runs.get(class)?);
    for (at, run) in own.filter(|(_, run)| !run.is_used) {
        let suffices = run.cpus >= rest.cpus
            && rest.enough(nearest_i64(run.nodes.len() as u64))
            && rest.has_gres(&run.gres);
        let wins = best.is_none_or(|(_, cpus, known_suffices)| match suffices {
            true => !known_suffices || run.cpus < cpus,
            false => run.cpus > cpus,
        });
        if wins {
            best = Some((at, run.cpus, suffices));
        }
    }
    best.map(|(at, ..)| at)
}

/// Takes the smallest node of a run that alone holds what is left, where one may; else by index.
fn take_of(rest: &mut Rest, run: &[Offer]) {
    let holds = |offer: &&Offer| offer.cpus >= rest.cpus && rest.has_gres(&offer.gres);
    let alone = run.iter().filter(|_| rest.nodes <= 1).filter(holds);
    if let Some(one) = alone.min_by_key(|offer| offer.cpus) {
        if rest.max_nodes > 0 && !rest.is_done() {
            rest.take(one);
        }
        return;
    }
    for offer in run {
        if rest.max_nodes <= 0 || rest.is_done() {
            return;
        }
        if rest.max_nodes > 1 || offer.cpus >= rest.cpus {
            rest.take(offer);
        }
    }
}
