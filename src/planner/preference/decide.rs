// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question: the job's preference first, then the balance method.

use std::sync::Arc;

use super::table::Entry;
use super::{CandidateSet, JobOrigin, Method, PreferenceUse, Preferences, Unused};
use crate::place::{NoPlacement, Placement, Placer};
use phalanx_core::limits::FIRST_PLAN_WAIT_MS;
use phalanx_core::shape::{LeftToSlurm, Shape};

/// A question, as far as preferences are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Job id.
    pub job_id: u32,
    /// Its array, if it is of one.
    pub array_job_id: Option<u32>,
    /// Which task of it would start, if that is known.
    pub array_task_id: Option<u32>,
    /// What jobs like it are known by.
    pub origin: JobOrigin,
    /// Request.
    pub shape: &'a Shape,
    /// Words of the bitmap of candidates.
    pub candidates: &'a [u64],
    /// How long the job is held back already, milliseconds.
    pub held_ms: u64,
    /// How long it may be held back until its input was looked up, milliseconds; 0 for a job that
    /// declares none.
    pub input_wait_ms: u64,
    /// How long one that insists on the nodes of its input may wait for them, milliseconds.
    pub require_wait_ms: u64,
}

/// [`Placer::decide`], but with the preferred sets first.
///
/// A component of a het job is decided only when a method prefers nodes for it: alone, one
/// component could take the room of the others.
///
/// # Errors
/// Those of [`Placer::decide`].
pub fn decide(
    placer: &mut Placer,
    preferences: &mut Preferences,
    ask: &Question<'_>,
) -> (Result<Placement, NoPlacement>, Option<PreferenceUse>) {
    // Before its input is known a data-parallel job would go anywhere.
    if ask.held_ms < ask.input_wait_ms && !preferences.has_own(Method::Bisect, ask) {
        return (Err(NoPlacement::Unplanned), None);
    }
    let mut words = std::mem::take(&mut preferences.words);
    let result = match preferences.find(ask) {
        // Where tasks may wait for their nodes, they wait for the first plan of their array.
        None if ask.held_ms < FIRST_PLAN_WAIT_MS
            && placer.preference_may_hold(ask.held_ms)
            && preferences.is_new_array(ask) =>
        {
            (Err(NoPlacement::Unplanned), None)
        }
        None => (placer.decide(ask.shape, ask.candidates, ask.held_ms), None),
        Some((table, entry)) if !Arc::ptr_eq(&table.table, placer.cluster().table()) => {
            let preference = Arc::clone(&entry.preference);
            let unused = Some(Unused::OtherTable);
            let decided = placer.decide(ask.shape, ask.candidates, ask.held_ms);
            (decided, Some(PreferenceUse { preference, set: None, unused }))
        }
        Some((_, entry)) => follow(placer, entry, ask, &mut words),
    };
    preferences.words = words;
    result
}

fn follow(
    placer: &mut Placer,
    entry: &Entry,
    ask: &Question<'_>,
    words: &mut Vec<u64>,
) -> (Result<Placement, NoPlacement>, Option<PreferenceUse>) {
    let preference = &entry.preference;
    let preference_use =
        |set, unused| Some(PreferenceUse { preference: Arc::clone(preference), set, unused });
    let plain;
    let shape = match ask.shape.left_to_slurm {
        Some(LeftToSlurm::HetJob) => {
            plain = Shape { left_to_slurm: None, ..ask.shape.clone() };
            &plain
        }
        _ => ask.shape,
    };
    let mut unused = None;
    for (at, set) in preference.sets.iter().enumerate() {
        let taken = entry.taken.get(at).copied().unwrap_or(0);
        if set.quota.is_some_and(|quota| taken >= quota) {
            unused = unused.or(Some(Unused::Quota));
            continue;
        }
        within(ask.candidates, &set.nodes, words);
        // Where the user left the number of nodes open, the plan says it.
        let spread = (preference.method == Method::Bisect && at == 0 && shape.node_count_is_free())
            .then(|| on_all(shape, set.nodes.len()));
        let shape = spread.as_ref().unwrap_or(shape);
        // Waiting is decided below, for all sets together.
        match placer.decide(shape, words, u64::MAX) {
            Ok(placement) => {
                let candidates = count(ask.candidates);
                return (
                    Ok(Placement { candidates, ..placement }),
                    preference_use(Some(at), unused),
                );
            }
            Err(NoPlacement::NoFit | NoPlacement::Held) => {
                unused = unused.or_else(|| why(placer, shape, set, ask.candidates));
            }
            Err(other) => return (Err(other), preference_use(None, unused)),
        }
    }
    let insists = preference.method == Method::Bisect && ask.held_ms < ask.require_wait_ms;
    let decided = if preference.required && (insists || placer.may_wait_for_preference(ask.held_ms))
    {
        Err(NoPlacement::Held)
    } else {
        placer.decide(ask.shape, ask.candidates, ask.held_ms)
    };
    (decided, preference_use(None, unused))
}

/// The same request on exactly so many nodes, if it allows that.
fn on_all(shape: &Shape, nodes: usize) -> Shape {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let count = nodes.clamp(shape.min_nodes.max(1), shape.max_nodes.max(1));
    Shape { min_nodes: count, max_nodes: count, req_nodes: count, ..shape.clone() }
}

/// The candidates among `nodes`, as words.
fn within(candidates: &[u64], nodes: &[u32], words: &mut Vec<u64>) {
    words.clear();
    words.resize(candidates.len(), 0);
    for &node in nodes {
        let at = node as usize / 64;
        if let (Some(word), Some(offered)) = (words.get_mut(at), candidates.get(at)) {
            *word |= offered & (1 << (node % 64));
        }
    }
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The first node of the set that is in the way.
fn why(placer: &Placer, shape: &Shape, set: &CandidateSet, candidates: &[u64]) -> Option<Unused> {
    let need = shape.need(shape.wanted_nodes());
    set.nodes.iter().find_map(|&node| {
        let offered = candidates.get(node as usize / 64).is_some_and(|w| w >> (node % 64) & 1 == 1);
        if !offered {
            return Some(Unused::NotOffered(node));
        }
        let mut fits = true;
        placer.cluster().usages().get(node as usize)?.lacks(&need, |_, _| fits = false);
        (!fits).then_some(Unused::Busy(node))
    })
}
