// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question: the job's preference first, then the balance method.

use std::sync::Arc;

use super::model::{CandidateSet, Method, PreferenceUse, Unused};
use super::question::{Question, Waits};
use super::table::{Entry, Preferences};
use crate::place::{Candidates, Holding, Placement, Placer, TopologyUse, Wait, Why};
use crate::room::{may_split_otherwise, nodes_when_idle};
use phalanx_core::limits::FIRST_PLAN_WAIT_MS;
use phalanx_core::number::{as_f64, as_u32};
use phalanx_core::shape::{LeftToSlurm, Shape};

/// Decides like [`Placer::decide`], but tries the preferred sets first.
///
/// A component of a het job is decided only when a method prefers nodes for it: alone, one
/// component could take the room of the others.
///
/// # Errors
/// Those of [`Placer::decide`].
pub fn decide(
    placer: &mut Placer,
    preferences: &mut Preferences,
    question: &Question<'_>,
    candidates: Candidates<'_>,
    waits: Waits,
) -> (Result<Placement, Why>, Option<PreferenceUse>) {
    let candidates = candidates.for_time(question.span());
    // Before its input is known a data-parallel job would go anywhere.
    if waits.holding.is_before(waits.input_ms) && !preferences.has_own(Method::DataJobs, question) {
        return (Err(Why::Wait(Wait::FirstPlan)), None);
    }
    match preferences.find(question) {
        // Where tasks may wait for their nodes, they wait for the first plan of their array.
        None if waits.holding.is_before(FIRST_PLAN_WAIT_MS)
            && placer.preference_may_hold(waits.holding)
            && preferences.is_new_array(question) =>
        {
            (Err(Why::Wait(Wait::FirstPlan)), None)
        }
        // The first plan says whether a gang is worth its cost.
        None | Some(_)
            if waits.holding.is_before(FIRST_PLAN_WAIT_MS)
                && !question.no_wait
                && placer.gang_may_hold(waits.holding)
                && preferences.is_new_gang(question) =>
        {
            (Err(Why::Wait(Wait::FirstPlan)), None)
        }
        None => (placer.decide(&question.shape, candidates, waits.holding), None),
        Some((table, entry)) if !Arc::ptr_eq(&table.table, placer.cluster().table()) => {
            let preference = Arc::clone(&entry.preference);
            let unused = Some(Unused::OtherTable);
            let decided = placer.decide(&question.shape, candidates, waits.holding);
            (decided, Some(PreferenceUse { preference, set: None, unused }))
        }
        Some((_, entry)) => follow(placer, entry, question, candidates, waits),
    }
}

/// Whether a job may wait for the nodes that a method prefers.
fn may_wait(placer: &Placer, method: Method, question: &Question<'_>, waits: Waits) -> bool {
    let holding = waits.holding;
    match method {
        Method::Gang => !question.no_wait && placer.gang_may_hold(holding),
        Method::DataJobs if holding.is_before(waits.require_ms) => true,
        Method::Bag if !question.no_wait && placer.may_wait_briefly(holding) => true,
        _ => placer.may_wait_for_preference(holding),
    }
}

fn follow(
    placer: &mut Placer,
    entry: &Entry,
    question: &Question<'_>,
    candidates: Candidates<'_>,
    waits: Waits,
) -> (Result<Placement, Why>, Option<PreferenceUse>) {
    let preference = &entry.preference;
    let preference_use =
        |set, unused| Some(PreferenceUse { preference: Arc::clone(preference), set, unused });
    let plain;
    let shape = match question.shape.left_to_slurm {
        Some(LeftToSlurm::HetJob) => {
            plain = Shape { left_to_slurm: None, ..question.shape.clone().into_owned() };
            &plain
        }
        _ => &*question.shape,
    };
    // Nodes that failed a job are worth nothing to its retry: that counts more than Weight, but the
    // retry waits for no node to boot.
    let worthless = preference.worth.last() == Some(&Some(0.0));
    let retry = preference.method == Method::BackfillWindow && worthless;
    let mut unused = None;
    for (at, (set, taken)) in preference.sets.iter().zip(&entry.taken).enumerate() {
        if set.quota.is_some_and(|quota| *taken >= quota) {
            unused = unused.or(Some(Unused::Quota));
            continue;
        }
        // Where the user left the number of nodes open, the plan says it.
        let spread = (preference.method == Method::DataJobs && at == 0 && shape.may_spread())
            .then(|| on_all(shape, set.nodes.len()));
        let shape = spread.as_ref().unwrap_or(shape);
        // Waiting is decided below, for all sets together.
        let within = candidates.within(&set.nodes);
        let mut placed = placer.decide(shape, within, Holding::Never);
        let mut is_heavier = false;
        if matches!(placed, Err(Why::NoFit)) && placer.has_weights(candidates) {
            placed = placer.decide(shape, within.of_any_weight(), Holding::Never);
            is_heavier = true;
        }
        if let (true, Ok(placed)) = (retry && is_heavier, &placed)
            && let Ok(best) = placer.decide(shape, candidates, Holding::Never)
        {
            let tier = |p: &Placement| Some(placer.heaviest(&p.nodes, candidates)?.0);
            is_heavier = tier(placed) > tier(&best);
        }
        if let (true, Ok(placed)) = (spread.is_some() && placer.has_weights(candidates), &placed)
            && let Ok(plain) = placer.decide(&question.shape, candidates, Holding::Never)
        {
            // On fewer nodes lighter ones might hold it.
            let heaviest = |p: &Placement| placer.heaviest(&p.nodes, candidates);
            is_heavier |= heaviest(placed) > heaviest(&plain);
        }
        let gain = |best: &Placement| preference.gain(at, &best.nodes);
        match placed {
            Ok(placement) => {
                match worth_it(placer, shape, placement, is_heavier, candidates, gain) {
                    Ok(placement) => return (Ok(placement), preference_use(Some(at), unused)),
                    Err(reason) => unused = unused.or(Some(reason)),
                }
            }
            Err(Why::NoFit | Why::Wait(_)) => {
                unused = unused.or_else(|| in_the_way(placer, shape, set, candidates));
            }
            Err(other) => return (Err(other), preference_use(None, unused)),
        }
    }
    let holding = waits.holding;
    let waits = preference.required && may_wait(placer, preference.method, question, waits);
    // Where nothing has room, nothing but its turn is waited for. Backfill is not to reserve nodes
    // for a task that waits for others.
    let elsewhere = preference.method == Method::Bag && !question.will_run;
    let decided = match waits && !elsewhere {
        true => Err(Why::Wait(Wait::Gain)),
        false => placer.decide(&question.shape, candidates, holding),
    };
    let decided = decided.and_then(|p| if waits { Err(Why::Wait(Wait::Gain)) } else { Ok(p) });
    (decided, preference_use(None, unused))
}

/// Returns the placement if all candidates together would be no lighter, and need no fewer switches
/// or blocks, nor fewer nodes where their number is open; or if the gain over these is worth the
/// difference. On as many leaves any gain is, also an unknown one; without one the nodes must not
/// break leaves that others would leave whole.
fn worth_it(
    placer: &mut Placer,
    shape: &Shape,
    mut placement: Placement,
    is_heavier: bool,
    candidates: Candidates<'_>,
    gain: impl FnOnce(&Placement) -> Option<f64>,
) -> Result<Placement, Unused> {
    let count = placement.nodes.len();
    let leaves = placement.topology.as_ref().filter(|_| count > 1);
    // As many as the set would need without other jobs are no reason against it.
    let usages = placement.nodes.iter().filter_map(|node| placer.cluster().usage(*node));
    let mut idle = usages.filter_map(|usage| nodes_when_idle(shape, usage));
    let is_spread =
        count > 1 && shape.node_count_is_free() && idle.all(|nodes| count > nodes as usize);
    if !is_heavier && !is_spread && leaves.is_none() {
        return Ok(placement);
    }
    let Ok(best) = placer.decide(shape, candidates, Holding::Never) else { return Ok(placement) };
    if is_spread && count > best.nodes.len() {
        return Err(Unused::Nodes);
    }
    let (mut more, mut breaks) = (0, false);
    if let (Some(own), Some(theirs), true) =
        (placement.topology.as_mut(), &best.topology, count > 1)
    {
        own.fewest = theirs.fewest;
        more = own.leaves.len().saturating_sub(theirs.leaves.len());
        let rank = |of: &TopologyUse| (of.leaves.len(), of.level.unwrap_or(u32::MAX), of.loss);
        breaks = more == 0 && rank(own) > rank(theirs);
    }
    let gain = gain(&best);
    let tuning = placer.tuning();
    let costs = [
        (u64::from(is_heavier), tuning.weight_cost, Unused::Weight),
        (more as u64, tuning.leaf_cost, Unused::Leaves),
    ];
    let mut all = 0.0;
    let mut last = None;
    for (times, cost, reason) in costs.into_iter().filter(|(times, ..)| *times > 0) {
        all += cost.ok_or(reason)? * as_f64(times);
        last = Some(reason);
    }
    match last {
        Some(reason) if gain.is_none_or(|gain| gain <= all) => Err(reason),
        None if breaks && gain.is_some_and(|gain| gain <= 0.0) => Err(Unused::Leaves),
        _ => Ok(placement),
    }
}

/// Returns the request for exactly `nodes` nodes, or for the nearest number that it allows.
fn on_all(shape: &Shape, nodes: usize) -> Shape {
    let nodes = as_u32(nodes);
    let count = nodes.clamp(shape.min_nodes.max(1), shape.max_nodes.max(1));
    Shape { min_nodes: count, max_nodes: count, req_nodes: count, ..shape.clone() }
}

/// Returns the first node of the set that keeps it from being used.
fn in_the_way(
    placer: &Placer,
    shape: &Shape,
    set: &CandidateSet,
    candidates: Candidates<'_>,
) -> Option<Unused> {
    let need = match may_split_otherwise(shape) {
        true => shape.need_for(1, 1, u64::MAX),
        false => shape.need(shape.wanted_nodes()),
    };
    let cluster = placer.cluster();
    set.nodes.iter().find_map(|&node| {
        if !candidates.has(node) {
            return Some(Unused::NotOffered(node));
        }
        (!cluster.usage(node)?.has_room(&need)).then_some(Unused::Busy(node))
    })
}
