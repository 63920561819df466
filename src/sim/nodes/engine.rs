// SPDX-License-Identifier: GPL-3.0-or-later
//! The clock of a cluster of nodes: ends, arrivals, one pass over all waiting jobs. Decisions are
//! the planner's: filters, attribution, balance, gangs, rank and guard.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::chooser::{Chooser, LOOKED_AT, NoFit, NoStart};
use super::classes::Classes;
use super::inputs::Run;
use super::leaves::Placed;
use super::line::{ByArrival, Line};
use super::record::{Outcome, Record};
use super::reserve::{Ask, Expected, Reservation};
use super::slurmctld::Slurmctld;
use super::{NodeJob, NodeLoad, Ran, Setup};
use crate::events::Events;
use crate::policy::Order;
use phalanx_core::NodeSet;
use phalanx_core::number::{nearest_i64, nearest_u64};
use phalanx_planner::cluster::RunningJob;

/// Runs the jobs until the last one has ended, or at most to `until_s`, Unix seconds; calls
/// `progress` with the number of jobs ended so far.
///
/// # Errors
/// Fails with the balance engine's error for a tuning that it does not take.
pub fn run(
    load: &NodeLoad,
    setup: &Setup,
    until_s: Option<i64>,
    progress: &dyn Fn(usize),
) -> Result<Outcome, String> {
    let began = Instant::now();
    let mut sim = Sim::new(load, setup, until_s)?;
    sim.begin();
    while let Some(now_s) = sim.next_s() {
        if let Some(until_s) = until_s.filter(|until_s| now_s >= *until_s) {
            sim.record.advance(until_s);
            break;
        }
        sim.step(now_s);
        if sim.events.ended().is_multiple_of(1 << 8) {
            progress(sim.events.ended());
        }
    }
    let slip_s = sim.slurmctld.as_ref().and_then(|of| of.queue.slip_s);
    Ok(Outcome { slip_s, ..sim.record.outcome(began.elapsed()) })
}

/// Runs the jobs when and where the accounting says that they ran; `None` if it does not say so of
/// each.
pub(super) fn replay(load: &NodeLoad, setup: &Setup) -> Option<Outcome> {
    let mut sim = Sim::new(load, setup, None).ok()?;
    let known = |ran: &&Ran| !ran.nodes.is_empty();
    let ran = |(id, job): (u32, &'_ NodeJob)| Some((job.ran.as_ref().filter(known)?.start_s, id));
    let waited = (0u32..).zip(&load.jobs).filter(|(_, job)| job.held.is_none());
    let starts: Option<Vec<(i64, u32)>> = waited.map(ran).collect();
    let mut starts = starts?;
    sim.begin();
    starts.sort_unstable();
    for (start_s, id) in starts {
        sim.end_until(start_s);
        let (job, class) = (sim.job(id)?, sim.classes.of_job(id)?);
        let nodes = &job.ran.as_ref()?.nodes;
        let need = job.job.shape.need(u32::try_from(nodes.len()).ok()?);
        let nodes = nodes.iter().map(|node| (*node, need.clone())).collect();
        sim.record.advance(start_s);
        sim.start(id, job, class, &Placed { nodes, fewest: None }, start_s);
    }
    sim.end_until(i64::MAX);
    Some(sim.record.outcome(Duration::ZERO))
}

/// A simulation between two events.
pub(super) struct Sim<'a> {
    pub(super) load: &'a NodeLoad,
    order: Order,
    pub(super) chooser: Chooser<'a>,
    pub(super) classes: Classes,
    /// Classes that do not fit until some job ends.
    pub(super) failed: BTreeMap<u32, NoFit>,
    pub(super) line: Box<dyn Line>,
    /// Slurm's clock and queue, where jobs start by slurmctld's rules.
    pub(super) slurmctld: Option<Slurmctld>,
    pub(super) events: Events,
    /// Running jobs by expected end, by which reservations are made.
    pub(super) expected: Expected,
    /// Time at which the first job that waits for a better node has waited long enough.
    wake_s: Option<i64>,
    pub(super) record: Record<'a>,
}

impl<'a> Sim<'a> {
    fn new(load: &'a NodeLoad, setup: &'a Setup, until_s: Option<i64>) -> Result<Self, String> {
        let chooser = Chooser::new(load, setup)?;
        let record = Record::new(load, chooser.cluster(), &chooser.mix, until_s);
        let cpus = load.cluster.nodes.iter().map(|node| node.cpus).sum();
        let line: Box<dyn Line> = match setup.order {
            Order::Other { line, .. } => line(cpus),
            _ => Box::new(ByArrival::default()),
        };
        Ok(Self {
            load,
            order: setup.order,
            chooser,
            classes: Classes::of(load),
            failed: BTreeMap::new(),
            line,
            slurmctld: Slurmctld::new(load, setup),
            events: Events::default(),
            expected: Expected::default(),
            wake_s: None,
            record,
        })
    }

    /// Starts the jobs that run at the beginning.
    fn begin(&mut self) {
        let load = self.load;
        for (id, job) in (0u32..).zip(&load.jobs) {
            if let Some(held) = &job.held {
                self.line.arrived(id, job, load.begin_s);
                self.slurmctld.iter_mut().for_each(|of| of.began(id, job, load.begin_s));
                self.hold(id, job, RunningJob { id, ..held.clone() }, load.begin_s);
            }
        }
    }

    pub(super) fn job(&self, id: u32) -> Option<&'a NodeJob> {
        self.load.jobs.get(id as usize)
    }

    fn next_s(&self) -> Option<i64> {
        let arriving = self.job(self.events.arriving());
        if self.line.is_empty() && self.events.running() == 0 && arriving.is_none() {
            return None;
        }
        let arrival_s = arriving.map(|job| job.job.submit_s.max(self.load.begin_s));
        let slurm_s = self.slurmctld.as_ref().and_then(|of| of.clock.next_s());
        let own_s = [self.line.next_s(), slurm_s].into_iter().flatten();
        let own_s = own_s.filter(|_| !self.line.is_empty());
        self.events.next_s(arrival_s).into_iter().chain(self.wake_s).chain(own_s).min()
    }

    fn step(&mut self, now_s: i64) {
        self.record.advance(now_s);
        if self.wake_s.is_some_and(|at| at <= now_s) {
            self.wake_s = None;
            self.failed.clear();
            self.slurmctld.iter_mut().for_each(|of| of.clock.ended(now_s));
        }
        self.end_jobs(now_s);
        while let Some(job) = self.job(self.events.arriving()).filter(|j| j.job.submit_s <= now_s) {
            let id = self.events.arrive();
            if job.held.is_none() {
                self.line.arrived(id, job, job.job.submit_s);
                self.submit(id, job, now_s);
            }
        }
        self.line.advance(now_s);
        if self.slurmctld.is_some() {
            self.slurm_passes(now_s);
        } else if !self.line.is_empty() {
            self.pass(now_s);
        }
    }

    fn end_jobs(&mut self, now_s: i64) {
        while let Some(id) = self.events.end(now_s) {
            self.failed.clear();
            self.expected.remove(id);
            let Some(job) = self.job(id) else { continue };
            let held = self.chooser.end(id, &job.job);
            self.record.touch(self.chooser.cluster(), &self.chooser.mix, &held);
            self.line.ended(id, job, now_s);
            let run_s = self.record.run_s(id);
            self.chooser.learn(&held, id, run_s, now_s);
            if let Some(slurmctld) = &mut self.slurmctld {
                slurmctld.queue.ended(id, &job.class, run_s, now_s);
                slurmctld.clock.ended(now_s);
            }
        }
    }

    fn end_until(&mut self, until_s: i64) {
        while let Some(now_s) = self.events.next_s(None).filter(|end_s| *end_s <= until_s) {
            self.record.advance(now_s);
            self.end_jobs(now_s);
        }
    }

    fn pass(&mut self, now_s: i64) {
        let began = Instant::now();
        self.plan(now_s);
        let order: Vec<u32> = self.line.order().take(LOOKED_AT).collect();
        let mut reservation: Option<Reservation> = None;
        let mut failed_beside: BTreeMap<u32, NoFit> = BTreeMap::new();
        let mut started = false;
        for id in order {
            let (Some(job), Some(class)) = (self.job(id), self.classes.of_job(id)) else {
                continue;
            };
            let ends_s = now_s.saturating_add(nearest_i64(self.line.window_s(job)));
            let beside = reservation.as_ref().filter(|r| ends_s > r.start_s);
            let known = self.failed.get(&class).copied();
            let known = known.or_else(|| beside.and_then(|_| failed_beside.get(&class).copied()));
            let choice = match known {
                Some(why) => Err(NoStart::NoFit(why)),
                None => self.choose(
                    id,
                    job,
                    class,
                    self.classes.free_for(class, beside.map(|r| &r.nodes)),
                    now_s,
                ),
            };
            match choice {
                Ok(placed) => {
                    started = true;
                    self.start(id, job, class, &placed, now_s);
                }
                Err(NoStart::Held(until_s)) => self.wake_by(until_s),
                Err(NoStart::NoFit(why)) => {
                    match beside {
                        Some(_) => failed_beside.insert(class, why),
                        None => self.failed.insert(class, why),
                    };
                    self.count_refused(id, why);
                    if matches!(self.order, Order::Fcfs) {
                        break;
                    }
                    if reservation.is_none() {
                        reservation = self.reserve(class, now_s);
                    }
                }
            }
        }
        if started {
            self.record.known.pass_us.push(began.elapsed().as_secs_f32() * 1e6);
        }
    }

    fn reserve(&mut self, class: u32, now_s: i64) -> Option<Reservation> {
        let (cluster, stock) = (self.chooser.cluster(), self.chooser.kept_topology());
        let ask = Ask { cluster, stock, class: (class, self.classes.get(class)?) };
        self.expected.reserve(&ask, now_s)
    }

    /// Nodes for a job of a class among the candidates.
    pub(super) fn choose(
        &mut self,
        id: u32,
        job: &NodeJob,
        class: u32,
        candidates: NodeSet,
        now_s: i64,
    ) -> Result<Placed, NoStart> {
        let class = self.classes.get(class).ok_or(NoStart::NoFit(NoFit::TooFew))?;
        let leaves = self.record.leaves.as_ref();
        self.chooser.choose(id, job, &class.shape, candidates, now_s, leaves)
    }

    /// Wakes the simulation no later than `until_s`, until which a job waits for a better node.
    pub(super) fn wake_by(&mut self, until_s: i64) {
        self.wake_s = Some(self.wake_s.map_or(until_s, |at| at.min(until_s)));
    }

    pub(super) fn count_refused(&mut self, id: u32, why: NoFit) {
        if let Some(leaves) = self.record.leaves.as_mut().filter(|_| why == NoFit::Refused) {
            leaves.refused(id);
        }
    }

    /// Starts a job of a class on its nodes.
    pub(super) fn start(
        &mut self,
        id: u32,
        job: &NodeJob,
        class: u32,
        placed: &Placed,
        now_s: i64,
    ) {
        if let (Some(leaves), Some(own)) = (&mut self.record.leaves, self.classes.get(class)) {
            let wait_s = now_s.saturating_sub(job.job.submit_s);
            leaves.started((class, &own.nodes), placed, job.run_s, wait_s);
        }
        if let Some(slurmctld) = &mut self.slurmctld {
            slurmctld.started(id, now_s);
        }
        let running = self.chooser.start(id, &job.job, &placed.nodes, now_s);
        self.hold(id, job, running, now_s);
    }

    /// Gives a job its nodes from the present time on.
    fn hold(&mut self, id: u32, job: &NodeJob, mut running: RunningJob, now_s: i64) {
        let run = match job.held {
            Some(_) => Run { run_s: job.run_s, ..Run::default() },
            None => self.load.run_on(job, &running.held, self.chooser.turn()),
        };
        self.record.started(id, &running, now_s, run);
        // Its nodes are what matters from here on.
        let after_s = now_s.saturating_add(nearest_i64(self.load.turnaround_s));
        self.events.end_at(id, after_s.saturating_add(nearest_i64(run.run_s)));
        // A slower node stretches a limit as well.
        let window_s = self.line.window_s(job).max(run.run_s);
        let end_s = after_s.saturating_add(nearest_i64(window_s));
        running.end_s = nearest_u64(end_s);
        self.expected.insert(id, end_s, &running.held);
        self.line.started(id, now_s);
        let held = running.held.clone();
        self.chooser.hold(running);
        self.record.touch(self.chooser.cluster(), &self.chooser.mix, &held);
    }

    /// Plans once, where the daemon chooses nodes.
    pub(super) fn plan(&mut self, now_s: i64) {
        self.chooser.plan(self.line.order(), &self.classes, now_s);
    }
}
