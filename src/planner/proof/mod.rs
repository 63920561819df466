// SPDX-License-Identifier: GPL-3.0-or-later
//! Proofs that Slurm, asked about all candidates, could not start a job earlier than what it
//! answers for a few of them.
//!
//! A job needs a number of nodes with a least amount on each ([`least`]). From the ends of the
//! running jobs follows the time before which too few candidates can give that: no answer of
//! Slurm is earlier. A small set of nodes that can give it then is enough to ask Slurm about;
//! what it answers for these is as good as its answer for all if it is not later than that
//! time, or than the end of the window in which Slurm would find it ([`Ends::window`]).
//!
//! Nothing here says that a job *can* start: that is what Slurm is asked.

mod class;
mod ends;
mod least;
mod slots;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

pub use ends::{NEVER, Second};

use crate::cluster::{Cluster, RunningJob};
use crate::place::Candidates;
use class::Class;
use ends::Ends;
use least::{Largest, least};
use phalanx_core::NodeIdx;
use phalanx_core::shape::{Need, Shape};
use slots::{Slots, could_hold};

/// Classes of request whose times are kept.
const CLASSES_MAX: usize = 32;
/// Fewest nodes that a job which could run is asked about.
const COULD_RUN_LEAST: usize = 16;

/// Bounds of the earliest start of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earliest {
    /// Time, unix seconds, before which the request cannot start; [`NEVER`] if too few candidates
    /// could ever hold it.
    pub not_before_s: Second,
    /// Time up to which a start is no later than Slurm's own; at least `not_before_s`.
    pub until_s: Second,
}

/// Times of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Now.
    pub now_s: Second,
    /// Time from which on Slurm looks for a start.
    pub from_s: Second,
    /// Whether Slurm answers by windows, so that a start may be later than its room.
    pub windows: bool,
}

/// Ends of the running jobs, and what follows from them.
#[derive(Debug, Clone, Default)]
pub struct Prover {
    ends: Ends,
    slots: Slots,
    largest: Largest,
    classes: Vec<Class>,
    /// Nodes in the order of their changes; those before `dropped` are forgotten.
    changed: Vec<NodeIdx>,
    dropped: usize,
    asked: u64,
    times: Vec<Second>,
    nodes: Vec<(u32, Reverse<Second>, NodeIdx)>,
}

impl Prover {
    /// Takes all jobs of a cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let mut prover = Self {
            slots: Slots::new(cluster.usages().len()),
            largest: Largest::of(cluster.table()),
            ..Self::default()
        };
        for job in cluster.jobs().values() {
            prover.add(job);
        }
        prover
    }

    /// Follows that a job began, holds something else, or ends at another time, given its former
    /// and present state.
    pub fn set_job(&mut self, before: Option<&RunningJob>, job: &RunningJob) {
        if let Some(before) = before {
            self.end_job(before);
        }
        self.add(job);
    }

    fn add(&mut self, job: &RunningJob) {
        let end_s = end_of(job);
        self.ends.set(job.id, end_s);
        self.slots.add(job, end_s);
        self.touch(job);
    }

    /// A job ended.
    pub fn end_job(&mut self, job: &RunningJob) {
        self.ends.remove(job.id);
        self.slots.remove(job);
        self.touch(job);
    }

    fn touch(&mut self, job: &RunningJob) {
        if self.classes.is_empty() {
            return;
        }
        self.changed.extend(job.held.iter().map(|held| held.node));
        // Longer than the table, a list of changes saves nothing.
        if self.changed.len() > self.slots.len() {
            self.dropped += self.changed.len();
            self.changed.clear();
        }
    }

    /// Earliest start of a request among the candidates; puts the nodes to ask Slurm about into
    /// `nodes`, ascending, none if it can never start. `cluster` is the one whose jobs are known
    /// here.
    ///
    /// `None`: nothing is certain, nothing speaks against a start now, or the nodes are more
    /// than half of the candidates.
    pub fn earliest(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        candidates: Candidates<'_>,
        times: Times,
        nodes: &mut Vec<NodeIdx>,
    ) -> Option<Earliest> {
        let earliest = self.find(cluster, shape, candidates, times, nodes)?;
        let few = 2 * nodes.len() <= candidates.count();
        few.then_some(earliest)
    }

    fn find(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        candidates: Candidates<'_>,
        times: Times,
        nodes: &mut Vec<NodeIdx>,
    ) -> Option<Earliest> {
        nodes.clear();
        self.assert_follows(cluster);
        let (count, need) = least(shape, &self.largest)?;
        if need.gres.len() > slots::GRES_MAX || self.slots.has_suspended(candidates.words()) {
            return None;
        }
        let at = self.class(cluster, need);
        self.classes[at].begin();
        let nth_s = self.classes[at].nth(count, candidates, &mut self.times);
        if nth_s <= times.now_s {
            return None;
        }
        if nth_s == NEVER {
            return Some(Earliest { not_before_s: NEVER, until_s: NEVER });
        }
        let not_before_s = nth_s.max(times.from_s);
        let wanted = count.max(shape.wanted_nodes() as usize);
        self.choose(cluster, at, wanted, candidates, not_before_s, nodes);
        nodes.sort_unstable();
        if !times.windows || nth_s <= times.from_s {
            return Some(Earliest { not_before_s, until_s: not_before_s });
        }
        let window = self.ends.window(nth_s, |id| on(cluster, id, candidates).is_some());
        let until_s = window.map_or(not_before_s, |window| {
            debug_assert!(window.end_s >= nth_s, "{window:?} ends before the proof's {nth_s}");
            // With these two Slurm's windows on the few nodes are those on all.
            for id in [window.first, window.last] {
                anchor(cluster, id, candidates, nodes);
            }
            window.end_s
        });
        Some(Earliest { not_before_s, until_s: until_s.max(not_before_s) })
    }

    /// Candidates that could hold the request if nothing ran: twice as many as it needs. None if
    /// these are more than half of all, or nothing can be said of the request.
    pub fn could_run(
        &self,
        cluster: &Cluster,
        shape: &Shape,
        candidates: Candidates<'_>,
        nodes: &mut Vec<NodeIdx>,
    ) {
        nodes.clear();
        let Some((count, need)) = least(shape, &self.largest) else { return };
        let count = COULD_RUN_LEAST.max(2 * count.max(shape.wanted_nodes() as usize));
        if candidates.count() < 2 * count {
            return;
        }
        let holding = |need: &Need, nodes: &mut Vec<NodeIdx>| {
            let holds = |node: &NodeIdx| {
                cluster.usages().get(node.at()).is_some_and(|usage| could_hold(usage, need))
            };
            nodes.extend(candidates.iter().filter(holds).take(count));
        };
        // Any nodes will do; those that hold an equal share most likely satisfy Slurm.
        holding(&shape.need(shape.wanted_nodes()), nodes);
        if nodes.len() < shape.wanted_nodes() as usize {
            nodes.clear();
            holding(&need, nodes);
        }
    }

    /// Whether too few candidates could hold the request at present, whatever Slurm does.
    pub fn cannot_fit(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        candidates: Candidates<'_>,
    ) -> bool {
        self.assert_follows(cluster);
        let Some((count, need)) = least(shape, &self.largest) else { return false };
        if need.gres.len() > slots::GRES_MAX || self.slots.has_suspended(candidates.words()) {
            return false;
        }
        let at = self.class(cluster, need);
        self.classes[at].nth(count, candidates, &mut self.times) > 0
    }

    /// Takes of the nodes that can give the need at `time` the lightest, of these the ones that
    /// became free last, for those that are free sooner may serve others until then.
    fn choose(
        &mut self,
        cluster: &Cluster,
        at: usize,
        count: usize,
        candidates: Candidates<'_>,
        time: Second,
        nodes: &mut Vec<NodeIdx>,
    ) {
        let class = &self.classes[at];
        self.nodes.clear();
        class.each_until(time, candidates, |node, end_s| {
            // A node beyond the table has no time.
            if let Some(row) = cluster.table().nodes.get(node.at()) {
                self.nodes.push((row.weight, Reverse(end_s), node));
            }
        });
        if self.nodes.len() > count {
            self.nodes.select_nth_unstable(count - 1);
            self.nodes.truncate(count);
        }
        nodes.extend(self.nodes.iter().map(|(_, _, node)| *node));
    }

    /// Asserts that the ends and slots known to the proofs are those of the cluster.
    fn assert_follows(&self, cluster: &Cluster) {
        debug_assert_eq!(self.slots.len(), cluster.usages().len(), "slots of another table");
        debug_assert_eq!(self.ends.len(), cluster.jobs().len(), "ends of other jobs");
    }

    /// Index of the class of a need, brought up to date.
    fn class(&mut self, cluster: &Cluster, need: Need) -> usize {
        self.asked += 1;
        let now = self.dropped + self.changed.len();
        let usages = cluster.usages();
        let found = self.classes.iter().position(|class| class.need == need);
        let at = found.unwrap_or_else(|| self.new_class(need, usages.len()));
        let class = &mut self.classes[at];
        class.asked = self.asked;
        let slots = &self.slots;
        // Times are as many as slots, and these as usages (assert_follows()).
        let time_of = |node: NodeIdx, need: &Need| {
            usages.get(node.at()).map_or(NEVER, |usage| slots.earliest(node, usage, need))
        };
        if found.is_none() || class.seen < self.dropped {
            class.renew_all(time_of);
        } else {
            class.renew(&self.changed[class.seen - self.dropped..], time_of);
        }
        class.seen = now;
        at
    }

    /// Makes room for another class, in place of the one that was not asked about for longest.
    fn new_class(&mut self, need: Need, nodes: usize) -> usize {
        let class = Class::new(need, nodes);
        if self.classes.len() < CLASSES_MAX {
            self.classes.push(class);
            return self.classes.len() - 1;
        }
        let oldest = self.classes.iter().enumerate().min_by_key(|(_, class)| class.asked);
        // CLASSES_MAX is not 0.
        let at = oldest.map_or(0, |(at, _)| at);
        self.classes[at] = class;
        at
    }
}

/// Unix second at which Slurm takes the job for ended.
fn end_of(job: &RunningJob) -> Second {
    match job.end_s {
        0 => NEVER,
        end_s => Second::try_from(end_s).unwrap_or(NEVER).min(NEVER - 1),
    }
}

/// First node of a job among the candidates.
fn on(cluster: &Cluster, id: u32, candidates: Candidates<'_>) -> Option<NodeIdx> {
    let held = &cluster.jobs().get(&id)?.held;
    held.iter().map(|held| held.node).find(|node| candidates.has(*node))
}

/// Adds a node of the job to the ascending nodes, unless one of its nodes is there.
fn anchor(cluster: &Cluster, id: u32, candidates: Candidates<'_>, nodes: &mut Vec<NodeIdx>) {
    let Some(job) = cluster.jobs().get(&id) else { return };
    let mut of_job = job.held.iter().map(|held| held.node).filter(|node| candidates.has(*node));
    let Some(node) = of_job.clone().next() else { return };
    if of_job.any(|node| nodes.binary_search(&node).is_ok()) {
        return;
    }
    if let Err(at) = nodes.binary_search(&node) {
        nodes.insert(at, node);
    }
}
