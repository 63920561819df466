// SPDX-License-Identifier: GPL-3.0-or-later
//! The source's method for jobs whose numbers of hosts and cores are given, or given as a few
//! forms: cores one by one by weight, as few as let the job end by the probed makespan.
//!
//! The user's limits are kept: the most cores of a host, and the fewest and most hosts that the
//! request allows.

use std::cell::Cell;

use super::assignment::local_first;
use super::budget::Budget;
use super::forms::{Form, Problem};
use super::instance::Instance;
use super::schedule::{Placed, Schedule};
use super::seed::{Probe, Probed, bisect, in_time, migrated, on_one_core};
use super::weights::{Chooser, Room};

/// Numbers of cores, the least first.
fn rooms(forms: &[Form]) -> Vec<Room> {
    let mut rooms: Vec<Room> = Vec::new();
    for form in forms {
        let cores = form.hosts * form.cores;
        let own =
            Room { cores, per_host: form.cores, hosts_min: form.hosts, hosts_max: form.hosts };
        match rooms.iter_mut().find(|room| room.cores == cores) {
            None => rooms.push(own),
            Some(room) => {
                room.per_host = room.per_host.max(own.per_host);
                room.hosts_min = room.hosts_min.min(own.hosts_min);
                room.hosts_max = room.hosts_max.max(own.hosts_max);
            }
        }
    }
    rooms.sort_by_key(|room| room.cores);
    rooms
}

/// Bisection on the makespan. `None` when the budget ended it before the first feasible probe,
/// after which `feasible` is set; a job that fits nowhere is left out.
pub(super) fn run(
    problem: &Problem,
    instance: &Instance,
    feasible: &Cell<bool>,
    probes: &mut Vec<Probed>,
    budget: &mut Budget<'_>,
) -> Option<Schedule> {
    let (mut up, mut down, mut jobs) = (0.0_f64, 0.0_f64, Vec::new());
    let idle = vec![0.0; instance.host_of.len()];
    for &i in &instance.queue {
        let (job, rooms) = (&instance.jobs[i], rooms(&problem.jobs[i].forms));
        let allowed = |host| problem.jobs[i].allowed.binary_search_by_key(&host, |a| a.0).is_ok();
        let mut least = f64::INFINITY;
        for room in &rooms {
            if !budget.spend(work(problem, i, *room)) {
                return None;
            }
            if let Some(cores) = choose(problem, instance, i, *room, &idle, 1.0) {
                let hosts = instance.hosts_of(&cores);
                least = least.min(local_first(instance, job, &hosts).longest());
            }
        }
        if least.is_finite() {
            up = up.max(on_one_core(instance, job, &allowed));
            down = down.max(least);
            jobs.push((i, rooms));
        }
    }
    let mut prober = |makespan: f64, budget: &mut Budget<'_>| {
        let found = probe(problem, instance, &jobs, makespan, budget);
        feasible.set(feasible.get() || matches!(found, Probe::Feasible(_)));
        found
    };
    bisect(instance, (up, down), false, &mut prober, probes, budget)
}

/// Steps needed to choose the cores of a form and to assign the blocks.
fn work(problem: &Problem, i: usize, room: Room) -> usize {
    room.cores * (problem.jobs[i].allowed.len() + problem.jobs[i].blocks.len())
}

fn probe(
    problem: &Problem,
    instance: &Instance,
    jobs: &[(usize, Vec<Room>)],
    makespan: f64,
    budget: &mut Budget<'_>,
) -> Probe<Schedule> {
    let mut available = instance.available.clone();
    let mut schedule = Schedule::default();
    for (i, rooms) in jobs {
        let mut placed = None;
        for room in rooms {
            let job = &instance.jobs[*i];
            if !budget.spend(work(problem, *i, *room) + available.len()) {
                return Probe::OutOfBudget;
            }
            let cores = choose(problem, instance, *i, *room, &available, makespan);
            if let Some(cores) = cores
                && let Some(assignment) = in_time(instance, job, &cores, &available, makespan)
            {
                placed = Some(Placed::new(instance, *i, cores, assignment, &mut available));
                break;
            }
        }
        let Some(placed) = placed else { return Probe::Infeasible };
        schedule.placed.push(placed);
    }
    Probe::Feasible(migrated(instance, schedule))
}

/// The cores of a job, as its room allows.
fn choose(
    problem: &Problem,
    instance: &Instance,
    i: usize,
    room: Room,
    available: &[f64],
    makespan: f64,
) -> Option<Vec<usize>> {
    let allowed = problem.jobs[i].allowed.iter().copied();
    let free = (available, makespan);
    let mut chooser = Chooser::new(instance, &instance.jobs[i], allowed, free, room, 0.0);
    let full = (0..room.cores).all(|_| chooser.add()) && chooser.hosts >= room.hosts_min;
    full.then_some(chooser.chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_jobs::attenuation::Attenuation;
    use crate::data_jobs::bisect::rigid::{self, Block, Plan, Rule, plan};

    /// The worked example of docs/methods.md, Data jobs: two hosts of two cores, one job.
    fn example<const N: usize>(forms: &[(usize, usize)], available: [[f64; N]; 2]) -> Problem {
        let block = |(size_mb, on): (f64, &[usize])| Block { size_mb, replicas: on.to_vec() };
        let blocks: [(f64, &[usize]); 4] =
            [(64.0, &[0, 1]), (64.0, &[0]), (32.0, &[1]), (16.0, &[0])];
        let job = rigid::Job {
            speed_mb_per_s: 200.0,
            attenuation: Attenuation::Linear(0.05),
            speeds: Vec::new(),
            blocks: blocks.map(block).into(),
            forms: forms.iter().map(|&(hosts, cores)| Form { hosts, cores }).collect(),
            allowed: vec![(0, 0.0), (1, 0.0)],
        };
        let hosts = available.iter().map(|cores| cores.to_vec()).collect();
        Problem { hosts, transfer_mb_per_s: 125.0, jobs: vec![job] }
    }

    fn cores(problem: &Problem, room: Room) -> Vec<usize> {
        let instance = rigid::index(problem, 2);
        choose(problem, &instance, 0, room, &instance.available, 1000.0).unwrap()
    }

    #[test]
    fn cores_are_chosen_as_in_the_worked_example() {
        let problem = example(&[(1, 2)], [[100.0, 0.0], [400.0, 0.0]]);
        let open = |cores| Room { cores, per_host: 2, hosts_min: 1, hosts_max: 2 };
        // With n = 1 core 1, n = 2 core 3 beside it, n = 3 core 0 too.
        assert_eq!(cores(&problem, open(1)), [1]);
        assert_eq!(cores(&problem, open(2)), [1, 3]);
        assert_eq!(cores(&problem, open(3)), [1, 3, 0]);
        // What the user has fixed counts before the weights.
        let one = Room { cores: 2, per_host: 2, hosts_min: 1, hosts_max: 1 };
        assert_eq!(cores(&problem, one), [1, 0]);
        let two = Room { cores: 2, per_host: 1, hosts_min: 2, hosts_max: 2 };
        assert_eq!(cores(&problem, two), [1, 3]);
    }

    #[test]
    fn earlier_cores_stay_as_their_number_grows() {
        let problem = example(&[(1, 3)], [[0.0; 3]; 2]);
        let open = |cores| Room { cores, per_host: 3, hosts_min: 1, hosts_max: 2 };
        let mut fewer = Vec::new();
        for n in 1..=6 {
            let more = cores(&problem, open(n));
            assert!(more.len() == n && more.starts_with(&fewer), "{fewer:?} {more:?}");
            fewer = more;
        }
        assert_eq!(fewer[..2], [0, 3]);
    }

    /// Goal: the probes of the document: first all on one core, then halfway to the least that the
    /// forms allow.
    #[test]
    fn the_first_probe_is_the_upper_bound_and_the_second_half_way_to_the_lower() {
        let problem = example(&[(1, 1), (1, 2)], [[0.0; 2]; 2]);
        let (instance, mut probes) = (rigid::index(&problem, 2), Vec::new());
        let mut budget = Budget::new(u64::MAX, &|| false);
        run(&problem, &instance, &Cell::new(false), &mut probes, &mut budget).unwrap();
        // 176 MB at 200 MB/s, 32 of them remote; two cores: 64 + 16 and 64 at f = 0.95, 32 remote.
        let up: f64 = 1000.0 * (176.0 / 200.0 + 32.0 / 125.0);
        assert_eq!(probes[0], Probed { makespan: up.round(), feasible: true });
        let two = 1000.0 * (96.0 / 190.0 + 32.0 / 125.0);
        assert_eq!(probes[1].makespan, ((up.round() + two) / 2.0).ceil());
    }

    #[test]
    fn as_few_cores_as_end_in_time_at_each_moment() {
        let idle = [[0.0; 2]; 2];
        for moment in 1..=3 {
            let seed = |forms: &[(usize, usize)]| -> Plan {
                plan(&example(forms, idle), Rule::Seed { moment }, &|| false)
            };
            let placed = |plan: &Plan| plan.jobs[0].clone().unwrap();
            // All on one core of host 0: 144 MB local, 32 read remotely.
            let one = seed(&[(1, 1)]);
            assert_eq!((placed(&one).hosts, placed(&one).remote_mb), (vec![0], 32.0));
            let open = seed(&[(1, 1), (1, 2), (2, 1), (2, 2)]);
            assert!(open.makespan_ms < one.makespan_ms, "{moment}: {open:?}");
            assert!(open.makespan_ms >= open.lower_bound_ms);
            let best = plan(&example(&[(2, 2)], idle), Rule::Best, &|| false);
            assert!(open.makespan_ms >= best.lower_bound_ms, "{best:?}");
        }
    }

    #[test]
    fn what_fits_nowhere_is_left_out() {
        let mut problem = example(&[(3, 1)], [[0.0; 2]; 2]);
        problem.jobs.push(rigid::Job {
            forms: vec![Form { hosts: 1, cores: 1 }],
            ..problem.jobs[0].clone()
        });
        let plan = plan(&problem, Rule::Seed { moment: 2 }, &|| false);
        assert!(plan.jobs[0].is_none() && plan.jobs[1].is_some(), "{plan:?}");
    }
}
