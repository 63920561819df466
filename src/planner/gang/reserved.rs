// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes with GRES that other jobs ask for: jobs that do not ask for the GRES try these nodes late,
//! or not at all.
//!
//! docs/methods.md, Gangs sends a type first wherever it never ran. That would put jobs on GPU
//! nodes that need no GPU, only to explore them. A class whose GRES a gang does not ask for is
//! *reserved* when others do ask: it counts as somewhat slower, so that equal nodes without
//! the GRES come first, and as known from some runs, so that it is not the first to be tried. As
//! long as somebody waits for the GRES it is known well enough to explore nothing. It stays an
//! edge: where the other nodes are full, the gang still goes there, and what it learns counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::gang::inputs::{Belief, Inputs};
use phalanx_core::number::seconds_of;
use phalanx_core::shape::Need;
use phalanx_core::snapshot::{Job, JobState};
use phalanx_core::{GresIdx, GresTypeIdx};

/// Relative loss of speed that a reserved class counts with: a smaller advantage, which a few runs
/// differ by anyway, is no reason to take nodes that others ask for.
const LOSS: f64 = 0.15;
/// Runs that a reserved class counts as known from: it is explored when the other classes are known
/// as well.
pub(super) const RUNS: f64 = 4.0;
/// Runs that a reserved class counts as known from while a job waits for its GRES, so many that
/// nothing is left to explore.
const RUNS_WAITING: f64 = 1e9;
/// Seconds after the end of a run that asked for a GRES during which others are expected to ask for
/// it.
const LATELY_S: i64 = 14 * 86_400;

/// A GRES kind that all nodes of a class have and that some job asks for.
#[derive(Debug)]
struct Wanted {
    kind: GresIdx,
    /// `gres/gpu`
    name: String,
    /// Whether a job waits for the kind at present.
    waiting: bool,
}

/// The GRES of each class of nodes that jobs ask for.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    by_class: Vec<Vec<Wanted>>,
}

impl Reserved {
    /// `class_of` is the class of each node, below `classes`.
    pub(super) fn new(inputs: &Inputs<'_>, class_of: &[usize], classes: usize) -> Self {
        let requests = Requests::new(inputs);
        let mut by_class: Vec<Vec<Wanted>> = Vec::new();
        for has in gres_of_classes(inputs, class_of, classes) {
            let wanted = has.iter().filter_map(|(&kind, types)| requests.of(kind, types));
            by_class.push(wanted.collect());
        }
        Self { by_class }
    }

    /// The GRES for which nodes of the class are reserved from a request; a GRES that a job waits
    /// for comes first.
    fn from(&self, need: &Need, class: usize) -> Option<&Wanted> {
        let others = |w: &&Wanted| need.gres.iter().all(|(kind, ..)| *kind != w.kind);
        self.by_class.get(class)?.iter().filter(others).max_by_key(|w| w.waiting)
    }

    /// The GRES for whose jobs a class is reserved, for a request that may use all of `classes`;
    /// `None` where all these classes are reserved.
    pub(super) fn reserved_for(
        &self,
        need: &Need,
        class: usize,
        classes: &[usize],
    ) -> Option<&str> {
        Some(&self.wanted(need, class, classes)?.name)
    }

    /// The belief about the class, corrected where the class is reserved.
    pub(super) fn estimate(
        &self,
        belief: Belief,
        need: &Need,
        class: usize,
        classes: &[usize],
        is_early: bool,
    ) -> Belief {
        let Some(wanted) = self.wanted(need, class, classes) else { return belief };
        let is_sure = wanted.waiting || is_early;
        let runs = if is_sure { RUNS_WAITING } else { RUNS };
        // An untried one that nobody waits for is to be tried some day.
        let loss = if is_sure || belief.count > 0.0 { LOSS } else { 0.0 };
        Belief { speed: belief.speed * (1.0 - loss), count: belief.count + runs, ..belief }
    }

    fn wanted(&self, need: &Need, class: usize, classes: &[usize]) -> Option<&Wanted> {
        let wanted = self.from(need, class)?;
        classes.iter().any(|&other| self.from(need, other).is_none()).then_some(wanted)
    }
}

/// Returns, for each class, the GRES kinds of all its nodes, with their types on any of them.
fn gres_of_classes(
    inputs: &Inputs<'_>,
    class_of: &[usize],
    classes: usize,
) -> Vec<BTreeMap<GresIdx, BTreeSet<GresTypeIdx>>> {
    let snapshot = inputs.snapshot;
    let mut nodes = vec![0_usize; classes];
    let mut found: Vec<BTreeMap<GresIdx, (usize, BTreeSet<GresTypeIdx>)>> =
        vec![BTreeMap::new(); classes];
    for (node, &class) in snapshot.nodes.iter().zip(class_of) {
        let (Some(count), Some(kinds)) = (nodes.get_mut(class), found.get_mut(class)) else {
            continue;
        };
        *count += 1;
        let mut seen = BTreeSet::new();
        for gres in node.gres.iter().filter(|gres| gres.total > 0) {
            let Some(kind) = snapshot.gres_kind(&gres.kind) else { continue };
            let (holders, types) = kinds.entry(kind).or_default();
            *holders += usize::from(seen.insert(kind));
            let typed = gres.gres_type.as_ref().and_then(|t| snapshot.gres_type(&gres.kind, t));
            types.extend(typed);
        }
    }
    let all = |(kinds, count): (BTreeMap<GresIdx, (usize, BTreeSet<GresTypeIdx>)>, usize)| {
        let held = kinds.into_iter().filter(|(_, (holders, _))| *holders == count);
        held.map(|(kind, (_, types))| (kind, types)).collect()
    };
    found.into_iter().zip(nodes).map(all).collect()
}

/// GRES that jobs ask for, by kind and type.
struct Requests<'a> {
    inputs: &'a Inputs<'a>,
    waiting: BTreeSet<(GresIdx, Option<GresTypeIdx>)>,
    /// Requests of waiting jobs, and of jobs that run, are held, or have just ended.
    known: BTreeSet<(GresIdx, Option<GresTypeIdx>)>,
}

impl<'a> Requests<'a> {
    fn new(inputs: &'a Inputs<'a>) -> Self {
        let of = |wanted: fn(&Job) -> bool| {
            let jobs = inputs.snapshot.all_jobs().filter(|job| wanted(job));
            jobs.flat_map(|job| &job.shape.gres).map(|want| (want.kind, want.gres_type)).collect()
        };
        Self {
            inputs,
            waiting: of(|job| job.state == JobState::Pending && job.priority > 0),
            known: of(|_| true),
        }
    }

    /// Whether any job asks for a kind that comes in these types.
    fn of(&self, kind: GresIdx, types: &BTreeSet<GresTypeIdx>) -> Option<Wanted> {
        let suits = |set: &BTreeSet<(GresIdx, Option<GresTypeIdx>)>| {
            set.iter().any(|(k, t)| *k == kind && t.is_none_or(|t| types.contains(&t)))
        };
        let name = self.inputs.snapshot.gres_kinds.get(kind.at())?;
        let waiting = suits(&self.waiting);
        let now_s = seconds_of(self.inputs.now_ms);
        let lately = || {
            let asked = self.inputs.beliefs.asked_s(name);
            asked.is_some_and(|at| now_s.saturating_sub(at) <= LATELY_S)
        };
        (waiting || suits(&self.known) || lately()).then(|| Wanted {
            kind,
            name: format!("gres/{name}"),
            waiting,
        })
    }
}
