// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one question: the job's preference first, then the balance method.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::table::Entry;
use super::{CandidateSet, JobOrigin, Method, PreferenceUse, Preferences, Unused};
use crate::place::{NoPlacement, Placement, Placer};
use phalanx_core::limits::FIRST_PLAN_WAIT_MS;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::snapshot::Job;

/// The question which nodes a job gets, but for the candidates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Question<'a> {
    /// Job id.
    pub job_id: u32,
    /// Its array, if it is of one.
    pub array_job_id: Option<u32>,
    /// Array job and task, if it is a single task.
    pub array: Option<(u32, u32)>,
    /// Origin of the job, by which its class is known.
    #[serde(rename = "signs")]
    pub origin: JobOrigin,
    /// Partition; borrowed from the plugin's packet while the question is not kept.
    pub partition: Cow<'a, str>,
    /// WILL_RUN instead of RUN_NOW.
    pub will_run: bool,
    /// The job declares an input.
    pub input: bool,
    /// Nodes of the asker's table.
    pub nodes: u32,
    /// Request.
    pub shape: Cow<'a, Shape>,
}

impl<'a> Question<'a> {
    /// The question for a job of the queue, as Slurm would ask it.
    pub fn of(job: &'a Job, nodes: usize) -> Self {
        Self {
            job_id: job.id,
            array_job_id: job.array_job_id,
            array: job.array_job_id.zip(job.array_task_id),
            origin: JobOrigin::of(job),
            partition: Cow::Borrowed(&job.partitions),
            nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
            shape: Cow::Borrowed(&job.shape),
            ..Self::default()
        }
    }

    /// The same question, independent of what it borrowed from.
    pub fn into_owned(self) -> Question<'static> {
        Question {
            partition: Cow::Owned(self.partition.into_owned()),
            shape: Cow::Owned(self.shape.into_owned()),
            job_id: self.job_id,
            array_job_id: self.array_job_id,
            array: self.array,
            origin: self.origin,
            will_run: self.will_run,
            input: self.input,
            nodes: self.nodes,
        }
    }
}

/// Time that a job was held back already, and how long it may be, milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// Time that it was held back.
    pub held_ms: u64,
    /// Longest time until its input was looked up; 0 for a job that declares none.
    pub input_ms: u64,
    /// Longest time for the nodes of its input, where it insists on them.
    pub require_ms: u64,
}

impl Waits {
    /// A job that may be held back no longer.
    pub const OVER: Self = Self { held_ms: u64::MAX, input_ms: 0, require_ms: 0 };
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
    question: &Question<'_>,
    candidates: &[u64],
    waits: Waits,
) -> (Result<Placement, NoPlacement>, Option<PreferenceUse>) {
    // Before its input is known a data-parallel job would go anywhere.
    if waits.held_ms < waits.input_ms && !preferences.has_own(Method::Bisect, question) {
        return (Err(NoPlacement::Unplanned), None);
    }
    let mut words = std::mem::take(&mut preferences.words);
    let result = match preferences.find(question) {
        // Where tasks may wait for their nodes, they wait for the first plan of their array.
        None if waits.held_ms < FIRST_PLAN_WAIT_MS
            && placer.preference_may_hold(waits.held_ms)
            && preferences.is_new_array(question) =>
        {
            (Err(NoPlacement::Unplanned), None)
        }
        None => (placer.decide(&question.shape, candidates, waits.held_ms), None),
        Some((table, entry)) if !Arc::ptr_eq(&table.table, placer.cluster().table()) => {
            let preference = Arc::clone(&entry.preference);
            let unused = Some(Unused::OtherTable);
            let decided = placer.decide(&question.shape, candidates, waits.held_ms);
            (decided, Some(PreferenceUse { preference, set: None, unused }))
        }
        Some((_, entry)) => follow(placer, entry, question, candidates, waits, &mut words),
    };
    preferences.words = words;
    result
}

fn follow(
    placer: &mut Placer,
    entry: &Entry,
    question: &Question<'_>,
    candidates: &[u64],
    waits: Waits,
    words: &mut Vec<u64>,
) -> (Result<Placement, NoPlacement>, Option<PreferenceUse>) {
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
    let mut unused = None;
    for (at, set) in preference.sets.iter().enumerate() {
        let taken = entry.taken.get(at).copied().unwrap_or(0);
        if set.quota.is_some_and(|quota| taken >= quota) {
            unused = unused.or(Some(Unused::Quota));
            continue;
        }
        within(candidates, &set.nodes, words);
        // Where the user left the number of nodes open, the plan says it.
        let spread = (preference.method == Method::Bisect && at == 0 && shape.node_count_is_free())
            .then(|| on_all(shape, set.nodes.len()));
        let shape = spread.as_ref().unwrap_or(shape);
        // Waiting is decided below, for all sets together.
        match placer.decide(shape, words, u64::MAX) {
            Ok(placement) => {
                let candidates = count(candidates);
                return (
                    Ok(Placement { candidates, ..placement }),
                    preference_use(Some(at), unused),
                );
            }
            Err(NoPlacement::NoFit | NoPlacement::Held) => {
                unused = unused.or_else(|| why(placer, shape, set, candidates));
            }
            Err(other) => return (Err(other), preference_use(None, unused)),
        }
    }
    let insists = preference.method == Method::Bisect && waits.held_ms < waits.require_ms;
    let decided =
        if preference.required && (insists || placer.may_wait_for_preference(waits.held_ms)) {
            Err(NoPlacement::Held)
        } else {
            placer.decide(&question.shape, candidates, waits.held_ms)
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
