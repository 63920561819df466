// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs whose numbers of hosts and cores are given: which hosts, so that the last job ends early.
//!
//! The method of the module above with n fixed: jobs longest first, bisection on the makespan,
//! hosts one by one. Here the weight of a host is the time that reading its blocks locally saves
//! against the time until enough of its cores are free, and what it lacks in speed; a probe leaves
//! out hosts on which the job would end after the makespan. Blocks are assigned and migrate as
//! there, and cores begin together.
//!
//! # Source
//! `docs/methods.md`, section Data jobs, (b) 2 to 5, (c), (e): "choose by the resulting end time".

use super::budget::Budget;
use super::construct::{Coverage, best_assignment};
pub use super::forms::{Block, Form, Job, Problem};
use super::given;
use super::instance::{self, Instance, SLACK_MS, whole_ms};
use super::problem::Start;
use super::schedule::Placed;
use super::seed::Probe;
use phalanx_core::limits::{BISECT_PROBES_MAX, BISECT_RIGID_UNITS};

/// The placement of one job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Placement {
    /// Hosts of the job, ascending.
    pub hosts: Vec<usize>,
    /// Cores on each host.
    pub cores: usize,
    /// Time at which all chosen cores are free, ms from now.
    pub start_ms: f64,
    /// Time at which the chosen cores are released.
    pub end_ms: f64,
    /// Megabytes that are read from hosts outside the task's own.
    pub remote_mb: f64,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Placement of each job; `None` where no form fits the cluster.
    pub jobs: Vec<Option<Placement>>,
    /// The largest end, ms.
    pub makespan_ms: f64,
    /// Lower bound of the makespan of any schedule, ms.
    pub lower_bound_ms: f64,
    /// Makespans that were tried.
    pub probes: usize,
    /// Whether the deadline ended the search.
    pub stopped: bool,
}

/// The rule by which hosts are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    /// The hosts that lead to the earliest end.
    #[default]
    Best,
    /// The source's choice: core by core by weight, as few cores as the forms allow.
    Seed {
        /// Point at which blocks migrate, 1 to 3, as in [`super::Problem::moment`].
        moment: u8,
    },
}

/// Plans the jobs; `expired` says whether the deadline has passed. The first schedule is always
/// completed.
#[must_use]
pub fn plan(problem: &Problem, rule: Rule, expired: &dyn Fn() -> bool) -> Plan {
    match rule {
        Rule::Best => by_end(problem, expired),
        Rule::Seed { moment } => by_weight(problem, moment, expired),
    }
}

fn by_weight(problem: &Problem, moment: u8, expired: &dyn Fn() -> bool) -> Plan {
    let mut instance = index(problem, moment);
    for (own, job) in instance.jobs.iter_mut().zip(&problem.jobs) {
        own.from = vec![0.0; problem.hosts.len()];
        for &(host, from) in &job.allowed {
            if let Some(own) = own.from.get_mut(host) {
                *own = from;
            }
        }
    }
    // The makespan is doubled until all jobs fit: that much is done whatever the time.
    let mut probes = Vec::new();
    let feasible = std::cell::Cell::new(false);
    let late = || feasible.get() && expired();
    let mut budget = Budget::new(BISECT_RIGID_UNITS, &late);
    let found = given::run(problem, &instance, &feasible, &mut probes, &mut budget);
    let Some(schedule) = found else { return by_end(problem, expired) };
    let mut found = Found { jobs: vec![None; problem.jobs.len()], makespan: schedule.end };
    for one in &schedule.placed {
        found.jobs[one.job] = Some(placement(&instance, one));
    }
    let lower = lower_bound(problem, &instance, &found);
    Plan {
        makespan_ms: found.makespan,
        lower_bound_ms: lower.min(found.makespan),
        probes: probes.len(),
        stopped: budget.deadline,
        jobs: found.jobs,
    }
}

/// Converts a schedule by cores to a placement by hosts.
fn placement(instance: &Instance, placed: &Placed) -> Placement {
    let on = instance.hosts_of(&placed.cores);
    let mut hosts = on.clone();
    hosts.sort_unstable();
    hosts.dedup();
    let count = |host: &usize| on.iter().filter(|own| *own == host).count();
    let job = &instance.jobs[placed.job];
    Placement {
        cores: hosts.iter().map(count).max().unwrap_or(0),
        hosts,
        start_ms: placed.start,
        end_ms: placed.end,
        remote_mb: remote_mb(job, &placed.assignment.blocks, &on),
    }
}

/// Megabytes of `blocks`, of cores on the hosts `on`, that other hosts send.
fn remote_mb(job: &instance::Job, blocks: &[Vec<usize>], on: &[usize]) -> f64 {
    let remote = blocks
        .iter()
        .zip(on)
        .flat_map(|(blocks, &host)| blocks.iter().filter(move |&&b| !job.blocks[b].is_on(host)));
    remote.map(|&b| job.blocks[b].size).sum()
}

fn by_end(problem: &Problem, expired: &dyn Fn() -> bool) -> Plan {
    let instance = index(problem, 2);
    let mut search = Search { problem, instance: &instance, probes: 0 };
    let mut first = Budget::new(u64::MAX, &|| false);
    let Probe::Feasible(mut best) = search.probe(f64::INFINITY, &mut first) else {
        return Plan::default();
    };
    let lower = lower_bound(problem, &instance, &best);
    let mut budget = Budget::new(BISECT_RIGID_UNITS, expired);
    let mut low = lower;
    for _ in 0..BISECT_PROBES_MAX {
        let makespan = whole_ms((best.makespan + low) / 2.0);
        if best.makespan - low <= (0.001 * best.makespan).max(1.0) || makespan >= best.makespan {
            break;
        }
        match search.probe(makespan, &mut budget) {
            Probe::Feasible(found) if found.makespan < best.makespan - SLACK_MS => best = found,
            Probe::Feasible(_) | Probe::Infeasible => low = makespan,
            Probe::OutOfBudget => break,
        }
    }
    Plan {
        makespan_ms: best.makespan,
        lower_bound_ms: lower.min(best.makespan),
        probes: search.probes,
        stopped: budget.deadline,
        jobs: best.jobs,
    }
}

/// Converts the problem to the form on which the formulas work.
pub(super) fn index(problem: &Problem, moment: u8) -> Instance {
    let job = |job: &Job| {
        let block = |block: &Block| instance::Block {
            size: block.size_mb,
            replicas: block.replicas.clone(),
        };
        let (decay, blocks) = (job.attenuation.clone(), job.blocks.iter().map(block).collect());
        // The number of cores is given: what follows from it is not needed.
        let mut own = instance::Job::new(job.speed_mb_per_s, decay, blocks, 1);
        own.pace.clone_from(&job.speeds);
        own
    };
    let jobs = problem.jobs.iter().map(job).collect();
    let hosts = problem.hosts.iter().cloned();
    Instance::of(hosts, jobs, problem.transfer_mb_per_s, Start::Gang, moment)
}

struct Found {
    jobs: Vec<Option<Placement>>,
    makespan: f64,
}

struct Search<'a> {
    problem: &'a Problem,
    instance: &'a Instance,
    probes: usize,
}

impl Search<'_> {
    /// Places all jobs, longest first, so that each ends by `makespan`. A job that fits nowhere
    /// is left out.
    fn probe(&mut self, makespan: f64, budget: &mut Budget<'_>) -> Probe<Found> {
        let mut free: Vec<Vec<f64>> = self.problem.hosts.clone();
        for cores in &mut free {
            cores.sort_by(f64::total_cmp);
        }
        let mut found = Found { jobs: vec![None; self.problem.jobs.len()], makespan: 0.0 };
        for &i in &self.instance.queue {
            let mut best: Option<Placement> = None;
            for form in &self.problem.jobs[i].forms {
                let work = self.problem.jobs[i].blocks.len() * form.hosts;
                if !budget.spend(work + form.hosts * free.len()) {
                    return Probe::OutOfBudget;
                }
                let Some(placed) = self.place(i, *form, makespan, &free) else { continue };
                if best.as_ref().is_none_or(|best| better(&placed, best)) {
                    best = Some(placed);
                }
            }
            let Some(placed) = best else {
                if makespan.is_finite() && self.fits(i) {
                    self.probes += 1;
                    return Probe::Infeasible;
                }
                continue;
            };
            for &host in &placed.hosts {
                for core in free[host].iter_mut().take(placed.cores) {
                    *core = placed.end_ms;
                }
                free[host].sort_by(f64::total_cmp);
            }
            found.makespan = found.makespan.max(placed.end_ms);
            found.jobs[i] = Some(placed);
        }
        self.probes += 1;
        Probe::Feasible(found)
    }

    /// Whether any form fits the hosts at all.
    fn fits(&self, i: usize) -> bool {
        let job = &self.problem.jobs[i];
        job.forms.iter().any(|form| {
            let large = |&&(host, _): &&(usize, f64)| {
                self.problem.hosts.get(host).is_some_and(|cores| cores.len() >= form.cores)
            };
            job.allowed.iter().filter(large).count() >= form.hosts
        })
    }

    fn place(&self, i: usize, form: Form, makespan: f64, free: &[Vec<f64>]) -> Option<Placement> {
        let (job, given) = (&self.instance.jobs[i], &self.problem.jobs[i]);
        let n = form.hosts * form.cores;
        let factor = job.decay.factor(n).max(1e-6);
        let least = 1000.0 * job.total / (job.speed * factor * n as f64);
        let start_on = |&(host, from): &(usize, f64)| {
            let at = free.get(host)?.get(form.cores.checked_sub(1)?)?.max(from);
            (at + least <= makespan + SLACK_MS).then_some((host, at))
        };
        let candidates: Vec<(usize, f64)> = given.allowed.iter().filter_map(start_on).collect();
        if candidates.len() < form.hosts {
            return None;
        }
        let (mut hosts, start) = self.choose(job, form, &candidates);
        hosts.sort_unstable();
        let on: Vec<usize> =
            hosts.iter().flat_map(|&h| std::iter::repeat_n(h, form.cores)).collect();
        let assignment = best_assignment(self.instance, job, &on, &vec![0.0; on.len()]);
        let end = start + assignment.longest();
        if end > makespan + SLACK_MS {
            return None;
        }
        let remote_mb = remote_mb(job, &assignment.blocks, &on);
        Some(Placement { hosts, cores: form.cores, start_ms: start, end_ms: end, remote_mb })
    }

    /// Chooses hosts one by one: the one whose blocks save most time against the time that it makes
    /// the job wait. Ties go to the host that has waited least, then to the first.
    fn choose(
        &self,
        job: &instance::Job,
        form: Form,
        candidates: &[(usize, f64)],
    ) -> (Vec<usize>, f64) {
        let mut on_host: std::collections::HashMap<usize, Vec<usize>> =
            candidates.iter().map(|&(host, _)| (host, Vec::new())).collect();
        for &b in &job.falling {
            for host in &job.blocks[b].replicas {
                if let Some(list) = on_host.get_mut(host) {
                    list.push(b);
                }
            }
        }
        let mut coverage = Coverage::new(job, self.instance.hosts.len());
        let share = job.total / form.hosts as f64;
        let saved_ms = 1000.0 / (self.instance.transfer * form.cores as f64);
        // A host of part of the speed gets so much less to do, which the others have to.
        let n = form.hosts * form.cores;
        let speed = job.speed * job.decay.factor(n).max(1e-6);
        let lost_ms = 1000.0 * job.total / (speed * (n * form.hosts) as f64);
        let mut left: Vec<(usize, f64)> = candidates.to_vec();
        let (mut hosts, mut start) = (Vec::with_capacity(form.hosts), 0.0_f64);
        for _ in 0..form.hosts {
            let mut best: Option<((f64, f64, f64), usize)> = None;
            for (at, &(host, from)) in left.iter().enumerate() {
                let useful = coverage.gain[host].min(share);
                // More than its share still helps the balance of the others.
                let slower = lost_ms * (1.0 - job.pace_on(host));
                let key =
                    (start.max(from) - useful * saved_ms + slower, -coverage.gain[host], from);
                if best.is_none_or(|(least, _)| key < least) {
                    best = Some((key, at));
                }
            }
            let Some((_, at)) = best else { break };
            let (host, from) = left.remove(at);
            start = start.max(from);
            hosts.push(host);
            coverage.take(on_host.get(&host).map_or(&[], Vec::as_slice), share);
        }
        (hosts, start)
    }
}

/// Whether another form of a job beats the preferred one: it ends clearly earlier, or about as
/// early with clearly less to send, which a slow job hardly notices but the network does.
fn better(new: &Placement, old: &Placement) -> bool {
    let close = |a: f64, b: f64| a <= b * 1.01;
    new.end_ms < old.end_ms * 0.99
        || (close(new.end_ms, old.end_ms) && new.remote_mb < old.remote_mb * 0.9)
}

/// A lower bound for all schedules, by each placed job in its fastest form, all local, as soon as
/// enough cores are free, and by the area of all jobs.
fn lower_bound(problem: &Problem, instance: &Instance, placed: &Found) -> f64 {
    let mut free: Vec<f64> = problem.hosts.iter().flatten().copied().collect();
    free.sort_by(f64::total_cmp);
    let (mut longest, mut area) = (0.0_f64, 0.0);
    for (i, job) in instance.jobs.iter().enumerate().filter(|(i, _)| placed.jobs[*i].is_some()) {
        let (mut end, mut least) = (f64::INFINITY, f64::INFINITY);
        for form in &problem.jobs[i].forms {
            let n = form.hosts * form.cores;
            let Some(start) = n.checked_sub(1).and_then(|at| free.get(at)) else { continue };
            let duration =
                1000.0 * job.total / (job.speed * job.decay.factor(n).max(1e-6) * n as f64);
            end = end.min(start + duration);
            least = least.min(duration * n as f64);
        }
        if end.is_finite() {
            longest = longest.max(end);
            area += least;
        }
    }
    longest.max(area_bound(&free, area)).min(placed.makespan)
}

/// Earliest time at which cores that become free at times `free`, ascending, have done work `area`.
fn area_bound(free: &[f64], area: f64) -> f64 {
    let mut waited = 0.0;
    for (at, &from) in free.iter().enumerate() {
        waited += from;
        let together = (area + waited) / (at + 1) as f64;
        if free.get(at + 1).is_none_or(|&next| together <= next) {
            return together;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_jobs::attenuation::Attenuation;

    fn job(blocks: &[(f64, &[usize])], hosts: usize, cores: usize, all: usize) -> Job {
        let block = |(size, on): &(f64, &[usize])| Block { size_mb: *size, replicas: on.to_vec() };
        Job {
            speed_mb_per_s: 50.0,
            attenuation: Attenuation::Linear(0.0),
            speeds: Vec::new(),
            blocks: blocks.iter().map(block).collect(),
            forms: vec![Form { hosts, cores }],
            allowed: (0..all).map(|h| (h, 0.0)).collect(),
        }
    }

    #[test]
    fn hosts_that_hold_the_blocks_are_chosen() {
        let blocks: Vec<(f64, &[usize])> =
            vec![(64.0, &[5]), (64.0, &[2]), (64.0, &[5]), (64.0, &[2])];
        let problem = Problem {
            hosts: vec![vec![0.0; 4]; 8],
            transfer_mb_per_s: 125.0,
            jobs: vec![job(&blocks, 2, 2, 8), job(&blocks, 2, 2, 8), job(&blocks, 2, 2, 8)],
        };
        let plan = plan(&problem, Rule::Best, &|| false);
        let hosts: Vec<_> =
            plan.jobs.iter().flatten().map(|p| (p.hosts.clone(), p.remote_mb)).collect();
        // Two jobs fill both hosts; the third would wait longer than reading remotely takes.
        assert_eq!(hosts[0], (vec![2, 5], 0.0));
        assert_eq!(hosts[1], (vec![2, 5], 0.0));
        assert!(hosts[2].0.iter().all(|h| ![2, 5].contains(h)), "{hosts:?}");
        assert!(plan.makespan_ms >= plan.lower_bound_ms && plan.lower_bound_ms > 0.0);
    }

    #[test]
    fn a_short_wait_for_local_blocks_is_worth_it() {
        let blocks: Vec<(f64, &[usize])> = vec![(640.0, &[1])];
        let mut hosts = vec![vec![0.0; 2]; 3];
        hosts[1] = vec![100.0, 100.0];
        let problem =
            Problem { hosts, transfer_mb_per_s: 125.0, jobs: vec![job(&blocks, 1, 1, 3)] };
        let placed = plan(&problem, Rule::Best, &|| false).jobs.remove(0).unwrap();
        assert_eq!((placed.hosts, placed.start_ms), (vec![1], 100.0));
        let far = Problem { hosts: vec![vec![0.0], vec![1e6], vec![0.0]], ..problem };
        assert_eq!(plan(&far, Rule::Best, &|| false).jobs.remove(0).unwrap().hosts, [0]);
    }

    #[test]
    fn a_slow_host_is_taken_where_it_saves_more_than_it_costs() {
        let blocks: Vec<(f64, &[usize])> = vec![(64.0, &[0]), (64.0, &[0]), (64.0, &[2])];
        let hosts = |speeds: &[f64], transfer_mb_per_s| {
            let job = Job { speeds: speeds.to_vec(), ..job(&blocks, 1, 2, 3) };
            let problem =
                Problem { hosts: vec![vec![0.0; 2]; 3], transfer_mb_per_s, jobs: vec![job] };
            plan(&problem, Rule::Best, &|| false).jobs.remove(0).unwrap()
        };
        assert_eq!(hosts(&[], 125.0).hosts, [0]);
        let placed = hosts(&[0.25, 1.0, 1.0], 125.0);
        assert_eq!(placed.hosts, [2], "the fast one that holds something");
        assert_eq!(hosts(&[0.25, 1.0, 1.0], 1.0).hosts, [0], "reading takes longer than working");
        // Two cores at a quarter of 50 MB/s, 96 MB each but whole blocks.
        let only = hosts(&[0.25, 0.0, 0.0], 125.0);
        assert_eq!(only.hosts, [0]);
        assert!((only.end_ms - 1000.0 * (128.0 / 12.5)).abs() < 600.0, "{}", only.end_ms);
    }

    #[test]
    fn slow_jobs_go_where_their_blocks_are_too() {
        let blocks: Vec<(f64, &[usize])> = vec![(1.0, &[0]), (1.0, &[1]), (1.0, &[2]), (1.0, &[3])];
        let form = |hosts, cores| Form { hosts, cores };
        let slow = Job {
            speed_mb_per_s: 0.1,
            forms: vec![form(1, 4), form(2, 2), form(4, 1)],
            ..job(&blocks, 1, 4, 4)
        };
        let problem =
            Problem { hosts: vec![vec![0.0; 4]; 4], transfer_mb_per_s: 125.0, jobs: vec![slow] };
        let placed = plan(&problem, Rule::Best, &|| false).jobs.remove(0).unwrap();
        assert_eq!((placed.hosts, placed.remote_mb), (vec![0, 1, 2, 3], 0.0));
    }

    #[test]
    fn a_job_too_large_is_left_out() {
        let problem = Problem {
            hosts: vec![vec![0.0; 2]; 2],
            transfer_mb_per_s: 125.0,
            jobs: vec![job(&[(1.0, &[0])], 3, 1, 2), job(&[(1.0, &[0])], 1, 1, 2)],
        };
        let plan = plan(&problem, Rule::Best, &|| false);
        assert!(plan.jobs[0].is_none() && plan.jobs[1].is_some());
    }
}
