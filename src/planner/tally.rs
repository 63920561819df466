// SPDX-License-Identifier: GPL-3.0-or-later
//! The pending jobs by the dimension that they wait for, kept up to date between two polls.
//!
//! A poll gives the queue, and [`attribution`] what each distinct request waits for. Until the
//! next one, events change the nodes and jobs start or come. A [`Tally`] keeps how many nodes lack
//! what for each request, so that a change of one node costs one look at it for each request, and
//! the counts are those that [`attribution::count`] would give of the nodes as they are.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::attribution::short_licences;
use crate::attribution::{Demand, Dimensions, Key, Lacking, places_of};
use crate::cluster::RunningJob;
use crate::eligible::eligible;
use crate::place::dimension_names;
use crate::room::nodes_needed;
use crate::usage::NodeUsage;
use phalanx_core::reason::is_for_nodes;
use phalanx_core::shape::{Need, Shape};
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_core::{NodeIdx, NodeSet};

/// Most distinct requests that are followed; for further ones the poll's counts stay.
const FOLLOWED_MAX: usize = 512;
/// Most changes of nodes that may wait to be counted; beyond this number the counts stay as last
/// computed.
const CHANGED_MAX: usize = 1 << 16;
/// Starts that are remembered.
const STARTED_MAX: usize = 4096;
/// Most requests that are remembered since the poll.
const CAME_MAX: usize = 64;

/// A distinct request of the queue.
#[derive(Debug, Clone)]
struct Request {
    need: Need,
    wanted: u32,
    /// Jobs and tasks that wait with it.
    tasks: u64,
    eligible: NodeSet,
    lacking: Lacking,
}

/// Pending jobs by dimension.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    requests: Vec<Request>,
    /// Request of each waiting job, by job id; of an array by the array's id.
    by_job: HashMap<u32, usize, RandomState>,
    /// Names of the places of [`Dimensions`].
    names: Vec<Arc<str>>,
    /// Demand that is not followed: licences, and requests beyond [`FOLLOWED_MAX`].
    fixed: BTreeMap<Arc<str>, u64>,
    /// Usage by node at the last count.
    usages: Vec<NodeUsage>,
    changed: Vec<NodeIdx>,
    /// Requests that Slurm asked about since the poll, with their candidates.
    came: Vec<(Shape, Vec<u64>, u64)>,
    /// Greatest job id of the poll.
    newest: u32,
    snapshot_s: u64,
    is_stale: bool,
}

impl Tally {
    /// Tallies a poll's queue on nodes with these usages, in the snapshot's order; `whole` is the
    /// demand that [`attribution::count`](crate::attribution::count) found.
    pub fn new(snapshot: &Snapshot, usages: Vec<NodeUsage>, now_s: i64, whole: &Demand) -> Self {
        let mut tally = Self {
            names: dimension_names(&snapshot.gres_kinds, &[]),
            newest: snapshot.all_jobs().map(|job| job.id).max().unwrap_or(0),
            snapshot_s: snapshot.time_ms / 1000,
            usages,
            ..Self::default()
        };
        let mut known: HashMap<Key<'_>, usize, RandomState> = HashMap::default();
        for job in snapshot.queued().filter(|job| is_for_nodes(job)) {
            if short_licences(snapshot, job).next().is_some() {
                continue;
            }
            let key = Key::of(snapshot, job, now_s);
            let at = match known.get(&key) {
                Some(&at) => at,
                None if tally.requests.len() < FOLLOWED_MAX => {
                    known.insert(key, tally.requests.len());
                    tally.add(&job.shape, eligible(snapshot, job, now_s).nodes);
                    tally.requests.len() - 1
                }
                None => continue,
            };
            tally.waits(job, at);
        }
        // What the poll found beyond the requests that are followed stays as it is.
        tally.fixed = whole.lacks.clone();
        let own: Vec<(Arc<str>, u64)> = tally.counts().collect();
        for (name, count) in own {
            if let Some(all) = tally.fixed.get_mut(&name) {
                *all = all.saturating_sub(count);
            }
        }
        tally
    }

    fn add(&mut self, shape: &Shape, eligible: NodeSet) {
        let usages = || eligible.iter().filter_map(|node| self.usages.get(node.at()));
        let wanted = nodes_needed(shape, usages());
        let need = shape.need(wanted);
        let mut lacking = Lacking::default();
        for usage in usages() {
            lacking.look(usage, &need, true);
        }
        self.requests.push(Request { need, wanted, tasks: 0, eligible, lacking });
    }

    fn waits(&mut self, job: &Job, at: usize) {
        let array = job.array_job_id.filter(|_| job.array_task_id.is_none());
        self.by_job.insert(array.unwrap_or(job.id), at);
        if let Some(request) = self.requests.get_mut(at) {
            request.tasks += job.task_count;
        }
    }

    /// Notes that a node has other jobs than before.
    fn node_changed(&mut self, node: NodeIdx) {
        if self.changed.len() < CHANGED_MAX {
            self.changed.push(node);
        }
    }

    /// Counts a job as no longer waiting.
    fn started(&mut self, job: &RunningJob) {
        let array = job.array.map(|(array, _)| array);
        // An array's tasks that were started in the second of the poll may be counted in it.
        let array = array.filter(|_| job.start_s > self.snapshot_s);
        let Some(at) = self.by_job.remove(&job.id).or_else(|| self.by_job.get(&array?).copied())
        else {
            return;
        };
        // The array's own record takes a new id for the task that starts.
        if let Some(array) = array.filter(|array| *array == job.id) {
            self.by_job.insert(array, at);
        }
        let new = self.came.get_mut(usize::MAX - at).map(|(.., tasks)| tasks);
        if let Some(tasks) = self.requests.get_mut(at).map(|r| &mut r.tasks).or(new) {
            *tasks = tasks.saturating_sub(1);
            self.is_stale = true;
        }
    }

    /// Notes that Slurm asked about a job that there are no nodes for at present.
    fn came(&mut self, job: u32, shape: &Shape, candidates: &[u64]) {
        let plain = shape.left_to_slurm.is_none() && !shape.need(shape.wanted_nodes()).whole;
        if !plain || job <= self.newest || self.by_job.contains_key(&job) {
            return;
        }
        let same = |r: &(Shape, Vec<u64>, u64)| r.0 == *shape && r.1 == candidates;
        let at = match self.came.iter().position(same) {
            Some(at) => at,
            None if self.came.len() < CAME_MAX => {
                self.came.push((shape.clone(), candidates.to_vec(), 0));
                self.came.len() - 1
            }
            None => return,
        };
        if let Some((.., tasks)) = self.came.get_mut(at) {
            *tasks += 1;
            self.by_job.insert(job, usize::MAX - at);
        }
    }

    /// Looks at changed nodes again, at most `looks_max` for all requests together, and at new
    /// requests where there is time. Returns whether counts may have changed.
    fn refresh(&mut self, usages: &[NodeUsage], looks_max: usize, is_quiet: bool) -> bool {
        let nodes = looks_max / self.requests.len().max(1);
        for _ in 0..nodes.max(1) {
            let Some(node) = self.changed.pop() else { break };
            let (Some(now), Some(before)) = (usages.get(node.at()), self.usages.get_mut(node.at()))
            else {
                continue;
            };
            if now == before {
                continue;
            }
            for request in self.requests.iter_mut().filter(|r| r.eligible.contains(node)) {
                request.lacking.look(before, &request.need, false);
                request.lacking.look(now, &request.need, true);
            }
            before.clone_from(now);
            self.is_stale = true;
        }
        if is_quiet && self.changed.is_empty() {
            self.take_new();
        }
        std::mem::take(&mut self.is_stale)
    }

    fn take_new(&mut self) {
        // One at a time: questions wait meanwhile.
        let Some((shape, words, tasks)) = self.came.pop() else { return };
        let eligible = NodeSet::from_words(self.usages.len(), &words);
        self.add(&shape, eligible);
        let (own, new) = (self.requests.len() - 1, usize::MAX - self.came.len());
        for place in self.by_job.values_mut().filter(|place| **place == new) {
            *place = own;
        }
        if let Some(request) = self.requests.last_mut() {
            request.tasks = tasks;
        }
        self.is_stale = true;
    }

    /// Pending jobs by the name of the dimension that they wait for, of the followed requests.
    fn counts(&self) -> impl Iterator<Item = (Arc<str>, u64)> + '_ {
        let mut counts = vec![0_u64; self.names.len()];
        for request in self.requests.iter().filter(|request| request.tasks > 0) {
            let lacks: Dimensions = request.lacking.rule(request.wanted);
            for place in places_of(lacks) {
                if let Some(count) = counts.get_mut(place) {
                    *count += request.tasks;
                }
            }
        }
        self.names.iter().cloned().zip(counts)
    }

    /// Pending jobs by the dimension that they lack at present.
    fn lacks(&self) -> BTreeMap<Arc<str>, u64> {
        let mut lacks = self.fixed.clone();
        for (name, count) in self.counts() {
            *lacks.entry(name).or_default() += count;
        }
        lacks
    }
}

/// A tally beside the mirror, and the changes that the next tally has to catch up with.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    tally: Option<Tally>,
    /// Nodes that changed since the next tally began to be made; `None`: none is being made.
    since: Option<Vec<NodeIdx>>,
    /// The latest jobs that started, without what they hold.
    started: VecDeque<RunningJob>,
}

impl Follower {
    /// Notes that a tally of the present nodes begins to be made.
    pub(crate) fn mark(&mut self) {
        self.since = Some(Vec::new());
    }

    /// Takes a tally that was made since the mark, and returns the former one.
    pub(crate) fn set(&mut self, tally: Option<Tally>) -> Option<Tally> {
        let since = self.since.take().filter(|since| since.len() < CHANGED_MAX);
        let fresh = tally.zip(since).map(|(mut tally, since)| {
            since.into_iter().for_each(|node| tally.node_changed(node));
            let begun = self.started.iter().filter(|job| job.start_s + 2 >= tally.snapshot_s);
            let begun: Vec<RunningJob> = begun.cloned().collect();
            begun.iter().for_each(|job| tally.started(job));
            tally
        });
        std::mem::replace(&mut self.tally, fresh)
    }

    pub(crate) fn node_changed(&mut self, node: NodeIdx) {
        if let Some(since) = self.since.as_mut().filter(|since| since.len() < CHANGED_MAX) {
            since.push(node);
        }
        if let Some(tally) = &mut self.tally {
            tally.node_changed(node);
        }
    }

    pub(crate) fn started(&mut self, job: &RunningJob) {
        let RunningJob { id, array, start_s, .. } = *job;
        let job = RunningJob { id, array, start_s, ..RunningJob::default() };
        if let Some(tally) = &mut self.tally {
            tally.started(&job);
        }
        self.started.truncate(STARTED_MAX - 1);
        self.started.push_front(job);
    }

    /// The latest jobs that began, the newest first, including those that have ended.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &RunningJob> {
        self.started.iter()
    }

    pub(crate) fn came(&mut self, job: u32, shape: &Shape, candidates: &[u64]) {
        if let Some(tally) = &mut self.tally {
            tally.came(job, shape, candidates);
        }
    }

    /// Whether any change is still to be counted.
    pub(crate) fn is_behind(&self) -> bool {
        let behind = |tally: &Tally| !tally.changed.is_empty() || !tally.came.is_empty();
        self.tally.as_ref().is_some_and(behind)
    }

    /// Returns the pending jobs by dimension, if they may have changed.
    pub(crate) fn refresh(
        &mut self,
        usages: &[NodeUsage],
        looks_max: usize,
        is_quiet: bool,
    ) -> Option<BTreeMap<Arc<str>, u64>> {
        let tally = self.tally.as_mut()?;
        tally.refresh(usages, looks_max, is_quiet).then(|| tally.lacks())
    }
}

#[cfg(test)]
mod tests;
