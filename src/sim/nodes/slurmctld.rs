// SPDX-License-Identifier: GPL-3.0-or-later
//! slurmctld's ways to start jobs on nodes: as they are submitted, in the main pass, in backfill.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::chooser::{NoFit, NoStart};
use super::engine::Sim;
use super::reserve::{Ask, Expected, NOW_S};
use super::{NodeJob, NodeLoad, Setup};
use crate::policy::Order;
use crate::slurm::{Clock, Due, Place, Planned, Queue, Rules, Search, Slots};
use phalanx_core::NodeSet;
use phalanx_core::number::as_u32;
use phalanx_planner::order::{Pools, Scarcity};

/// Clock and queue of slurmctld.
pub(super) struct Slurmctld {
    rules: Rules,
    pub(super) clock: Clock,
    pub(super) queue: Queue,
    /// Each set of partitions.
    partitions: BTreeMap<Arc<str>, Place>,
    /// Amount that each job takes of the resource its pool has least of, by job id.
    sizes: Vec<u64>,
}

impl Slurmctld {
    /// Makes slurmctld's part of the simulation; `None` where jobs do not start by Slurm's rules.
    pub(super) fn new(load: &NodeLoad, setup: &Setup) -> Option<Self> {
        let Setup { order: Order::Slurm { .. }, rules, .. } = setup else { return None };
        let pools = Pools::of(&load.cluster);
        let scarcity = Scarcity::of(&load.cluster, load.jobs.iter().map(|job| &job.job));
        let scarcest: BTreeMap<u32, usize> = scarcity.scarcest().collect();
        let totals = scarcest.iter().map(|(pool, of)| (*pool, scarcity.total(*pool, *of)));
        let queue = Queue::new(rules, totals);
        let size = |job: &NodeJob| {
            let of = scarcest.get(&scarcity.pool_of(&job.job));
            of.map_or(0, |of| scarcity.size(&job.job, *of))
        };
        let mut partitions = BTreeMap::new();
        for job in &load.jobs {
            let names = &job.job.partitions;
            let tier = |name| load.cluster.partition(name).map_or(0, |partition| partition.tier);
            let place = Place {
                number: as_u32(partitions.len()),
                pool: pools.of_job(names),
                tier: names.split(',').map(tier).max().unwrap_or(0),
                fair: scarcity.pool_of(&job.job),
                size: 0,
            };
            partitions.entry(Arc::clone(names)).or_insert(place);
        }
        let clock = Clock::new(&rules.parameters, queue.is_ordered());
        let sizes = load.jobs.iter().map(size).collect();
        Some(Self { rules: rules.clone(), clock, queue, partitions, sizes })
    }

    fn place(&self, id: u32, job: &NodeJob) -> Place {
        let place = self.partitions.get(&job.job.partitions).copied();
        let size = self.sizes.get(id as usize).copied();
        debug_assert!(place.is_some() && size.is_some(), "job {id} is not of the load");
        Place { size: size.unwrap_or(0), ..place.unwrap_or_default() }
    }

    /// Notes that a job runs from the beginning.
    pub(super) fn began(&mut self, id: u32, job: &NodeJob, now_s: i64) {
        self.queue.push(id, now_s, job.class, job.expected_s, self.place(id, job), None);
        self.queue.remove(id, now_s);
    }

    pub(super) fn started(&mut self, id: u32, now_s: i64) {
        self.queue.remove(id, now_s);
        self.clock.reorder_at(now_s + 1);
    }
}

/// Search for the start of a job.
struct OfJob<'s> {
    expected: &'s mut Expected,
    ask: Ask<'s>,
    now_s: i64,
}

impl Search<NodeSet> for OfJob<'_> {
    fn class(&self) -> u64 {
        self.ask.class.0.into()
    }

    fn may_run(&mut self, nodes: &NodeSet, until_s: i64) -> bool {
        self.expected.may_run(&self.ask, nodes, until_s)
    }

    fn will_run(&mut self, nodes: &NodeSet, until_s: i64) -> Option<(i64, NodeSet)> {
        self.expected.will_run(&self.ask, nodes, (self.now_s, until_s))
    }
}

impl Sim<'_> {
    /// A job comes.
    pub(super) fn submit(&mut self, id: u32, job: &NodeJob, now_s: i64) {
        let Some(slurmctld) = &mut self.slurmctld else { return };
        let place = slurmctld.place(id, job);
        let submit_s = job.job.submit_s;
        let started = job.ran.as_ref().map(|ran| (job.job.priority, ran.start_s - submit_s));
        slurmctld.queue.push(id, submit_s, job.class, job.expected_s, place, started);
        if !slurmctld.rules.parameters.defer && slurmctld.queue.is_top(id, now_s) {
            self.plan(now_s);
            if self.try_now(id, job, None, now_s) {
                return;
            }
        }
        self.slurmctld.iter_mut().for_each(|slurmctld| slurmctld.clock.submitted(now_s));
    }

    /// Starts a job if it fits its eligible nodes, or `within` where given.
    fn try_now(&mut self, id: u32, job: &NodeJob, within: Option<&NodeSet>, now_s: i64) -> bool {
        let Some(class) = self.classes.of_job(id) else { return false };
        if self.failed.contains_key(&class) {
            return false;
        }
        let mut nodes = self.classes.free_for(class, None);
        if let Some(within) = within {
            nodes.intersect_with(within);
        }
        match self.choose(id, job, class, nodes, now_s) {
            Ok(placed) => {
                self.start(id, job, class, &placed, now_s);
                true
            }
            Err(NoStart::Held(until_s)) => {
                self.wake_by(until_s);
                false
            }
            Err(NoStart::NoFit(why)) => {
                if within.is_none() {
                    self.failed.insert(class, why);
                }
                if why == NoFit::Refused {
                    self.count_refused(id, why);
                }
                false
            }
        }
    }

    /// Runs the passes that are due: the daemon's order, the main pass and backfill.
    pub(super) fn slurm_passes(&mut self, now_s: i64) {
        let due = self.slurmctld.as_mut().map(|slurmctld| slurmctld.clock.take(now_s));
        let Some(Due { order, main, backfill }) = due else { return };
        if self.line.is_empty() {
            return;
        }
        let (began, before) = (Instant::now(), self.events.running());
        self.plan(now_s);
        if order {
            self.reorder(now_s);
        }
        if main > 0 {
            self.main_pass(now_s, main);
        }
        if backfill {
            self.backfill(now_s);
        }
        if self.events.running() > before {
            self.record.known.pass_us.push(began.elapsed().as_secs_f32() * 1e6);
        }
    }

    fn reorder(&mut self, now_s: i64) {
        let Some(Slurmctld { queue, clock, .. }) = &mut self.slurmctld else { return };
        clock.decided(queue.decide(now_s, self.chooser.start_order()), now_s);
    }

    fn waiting(&self, now_s: i64) -> Vec<u32> {
        self.slurmctld.as_ref().map(|slurmctld| slurmctld.queue.order(now_s)).unwrap_or_default()
    }

    /// Starts jobs by priority; once a job does not fit, no other job of its partitions starts in
    /// the pass, nor any on their nodes.
    fn main_pass(&mut self, now_s: i64, most: usize) {
        let mut left = NodeSet::full(self.load.cluster.nodes.len());
        let mut failed: BTreeSet<&str> = BTreeSet::new();
        let mut waiting = self.waiting(now_s);
        if let Some(of) = self.slurmctld.as_mut().filter(|_| waiting.len() > most) {
            of.clock.left(now_s);
            waiting.truncate(most);
        }
        for id in waiting {
            let Some(job) = self.job(id) else { continue };
            let mut names = job.job.partitions.split(',');
            if names.clone().any(|name| failed.contains(name)) {
                continue;
            }
            let within = (!failed.is_empty()).then_some(&left);
            if self.try_now(id, job, within, now_s) {
                continue;
            }
            if job.job.required_nodes.is_some() {
                let own = self.classes.of_job(id).map(|class| self.classes.free_for(class, None));
                own.iter().for_each(|nodes| left.subtract(nodes));
                continue;
            }
            if !self.slurmctld.as_ref().is_some_and(|of| of.queue.holds_back(id, now_s)) {
                continue;
            }
            for partition in &self.load.cluster.partitions {
                if names.clone().any(|name| *name == *partition.name) {
                    left.subtract(&partition.nodes);
                }
            }
            failed.extend(names.by_ref());
            if left.is_empty() {
                return;
            }
        }
    }

    /// Makes a backfill pass, which plans anew; jobs behind the last possible start need none.
    fn backfill(&mut self, now_s: i64) {
        let Some(slurmctld) = &self.slurmctld else { return };
        let parameters = slurmctld.rules.parameters.clone();
        let mut waiting = self.waiting(now_s);
        waiting.truncate(parameters.bf_max_job_test);
        let all = NodeSet::full(self.load.cluster.nodes.len());
        let mut slots = Slots::new(all, now_s, parameters.bf_window_s, parameters.bf_resolution_s);
        // Who comes to the front is told when it starts.
        let is_new = self.slurmctld.as_ref().is_some_and(|of| of.queue.is_new(&waiting));
        waiting.truncate(self.until_last(&waiting, &slots).max(usize::from(is_new)));
        let (mut at, mut made) = (0, BTreeMap::new());
        while let Some(&id) = waiting.get(at) {
            at += 1;
            let (Some(job), Some(class)) = (self.job(id), self.classes.of_job(id)) else {
                continue;
            };
            let Some(own) = self.classes.get(class) else { continue };
            let of = self.slurmctld.as_ref();
            let (cluster, stock) = (self.chooser.cluster(), self.chooser.kept_topology());
            let ask = Ask { cluster, stock, class: (class, own) };
            let Some(earliest_s) = self.expected.earliest_s(&ask) else { continue };
            let count = of.and_then(|of| of.queue.may_reserve(id, now_s, &mut made));
            let mut search = OfJob { expected: &mut self.expected, ask, now_s };
            let planned =
                slots.plan(&own.nodes, job.limit_s, (earliest_s, count.is_some()), &mut search);
            match planned {
                Planned::Now(nodes) => _ = self.try_now(id, job, Some(&nodes), now_s),
                Planned::Later(start_s) => {
                    count.into_iter().for_each(|count| *count += 1);
                    if let Some(of) = self.slurmctld.as_mut().filter(|_| at == 1) {
                        of.queue.promise(id, start_s);
                    }
                }
                Planned::Never => continue,
            }
            // What starts or is reserved takes room from those behind, and never gives any.
            let behind = waiting.get(at..).unwrap_or_default();
            waiting.truncate(at + self.until_last(behind, &slots));
        }
    }

    /// The number of the `waiting` jobs up to and including the last one for which unreserved nodes
    /// are free.
    fn until_last(&mut self, waiting: &[u32], slots: &Slots<NodeSet>) -> usize {
        let (cluster, stock) = (self.chooser.cluster(), self.chooser.kept_topology());
        let (jobs, classes, expected) = (&self.load.jobs, &self.classes, &mut self.expected);
        let last = waiting.iter().rposition(|id| {
            let class = classes.of_job(*id).filter(|class| !self.failed.contains_key(class));
            let own = class.and_then(|class| Some((class, classes.get(class)?)));
            let (Some(class), Some(job)) = (own, jobs.get(*id as usize)) else { return false };
            let ask = Ask { cluster, stock, class };
            expected.earliest_s(&ask) == Some(NOW_S)
                && expected.may_run(&ask, &slots.free(&class.1.nodes, job.limit_s), NOW_S)
        });
        last.map_or(0, |last| last + 1)
    }
}
