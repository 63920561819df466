// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs of neighbours of one Weight: best fit.

use super::{Ask, Class, GRES, Offer, Rest, Taken, are_neighbours};
use crate::cluster::Table;

/// A run of offers.
struct Run {
    nodes: std::ops::Range<usize>,
    is_used: bool,
    class: Class,
    cpus: i64,
    /// CPUs of its largest node.
    largest: i64,
    gres: [u64; GRES],
}

/// Takes the first nodes of the run that suffices with the fewest CPUs, else the largest run, and
/// so on within the lightest class, then in the next; `None`: that does not suffice.
pub(super) fn choose(ask: &Ask, offers: &mut [Offer], table: &Table) -> Option<Vec<Taken>> {
    let mut runs = runs(offers, table);
    let mut rest = Rest::new(ask);
    while rest.max_nodes > 0 {
        let Some(run) = best(&runs, &rest).and_then(|at| runs.get_mut(at)) else { break };
        run.is_used = true;
        take_of(&mut rest, offers.get_mut(run.nodes.clone())?);
        // The last node that the job may have has to hold all that is left.
        let holds = |run: &Run| !run.is_used && run.largest >= rest.cpus;
        if rest.max_nodes == 1 && !runs.iter().any(holds) {
            break;
        }
        if rest.is_done() {
            return Some(rest.taken);
        }
    }
    (rest.has_all() && rest.enough(0)).then_some(rest.taken)
}

fn runs(offers: &[Offer], table: &Table) -> Vec<Run> {
    let joined = |a: &Offer, b: &Offer| a.class == b.class && are_neighbours(table, a.node, b.node);
    let mut first = 0;
    let run = |nodes: &[Offer]| {
        let range = first..first + nodes.len();
        first = range.end;
        let mut gres = [0; GRES];
        for offer in nodes {
            gres.iter_mut().zip(offer.gres).for_each(|(sum, has)| *sum += has);
        }
        let cpus = || nodes.iter().map(|offer| offer.cpus);
        let (cpus, largest) = (cpus().sum(), cpus().max()?);
        Some(Run { nodes: range, is_used: false, class: nodes.first()?.class, cpus, largest, gres })
    };
    offers.chunk_by(joined).filter_map(run).collect()
}

/// The lightest run that is not used, of these the one that suffices with the fewest CPUs. As in
/// the original a larger one that does not suffice, for want of nodes or GRES, may replace one that
/// does.
fn best(runs: &[Run], rest: &Rest) -> Option<usize> {
    let mut best: Option<(usize, bool)> = None;
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_used) {
        let suffices = run.cpus >= rest.cpus
            && rest.enough(i64::try_from(run.nodes.len()).unwrap_or(i64::MAX))
            && rest.has_gres(&run.gres);
        let wins = best.is_none_or(|(known, known_suffices)| {
            let Some(known) = runs.get(known) else { return true };
            let better = match suffices {
                true => !known_suffices || run.cpus < known.cpus,
                false => run.cpus > known.cpus,
            };
            run.class < known.class || (run.class == known.class && better)
        });
        if wins {
            best = Some((at, suffices));
        }
    }
    best.map(|(at, _)| at)
}

/// Takes the smallest node of a run that holds all that is left, where one may do; else by index.
fn take_of(rest: &mut Rest, run: &mut [Offer]) {
    let holds = |offer: &&mut Offer| offer.cpus >= rest.cpus && rest.has_gres(&offer.gres);
    let alone = run.iter_mut().filter(|_| rest.nodes <= 1).filter(holds);
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
