// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of slurmctld's starts against starts found by hand, and of those on a pool of CPUs against
//! those on nodes with one CPU each.

use proptest::prelude::*;

use super::*;
use crate::job::{SimJob, Workload};
use crate::nodes::choose::Rule;
use crate::nodes::{Setup, engine, load};
use phalanx_core::trace::spec;
use phalanx_planner::gang::Settings;
use phalanx_planner::place::Tuning;

fn job(submit_s: i64, run_s: u64, limit_s: u64, size: u64) -> SimJob {
    SimJob { submit_s, run_s, limit_s, size, user: 1, class: 1, number: 0 }
}

fn machine(cpus: u64, jobs: Vec<SimJob>) -> Workload {
    Workload { jobs, cpus, ..Workload::default() }
}

/// Parameters with priorities by submission, passes every second, times to the second.
fn prompt() -> Rules {
    let parameters = Parameters {
        bf_interval_s: Some(1),
        bf_resolution_s: 1,
        batch_sched_delay_s: 0,
        priority: Priority::Multifactor { weight_age: 1_000_000, max_age_s: 10_000, period_s: 1 },
        ..Parameters::default()
    };
    Rules { parameters, order: None }
}

fn starts(load: &Workload, rules: &Rules) -> Vec<i64> {
    pool::run(load, rules, &|_| {}).starts_s
}

#[test]
fn backfill_keeps_what_limits_promise() {
    // 0 holds 6 of 10 CPUs until 100 by its limit, in fact until 50; 1 needs 8 and waits for it.
    let jobs = vec![
        job(0, 50, 100, 6),
        job(1, 30, 60, 8),
        job(2, 60, 90, 4), // ends before 100 by its limit
        job(3, 10, 99, 4), // would not
    ];
    assert_eq!(starts(&machine(10, jobs.clone()), &prompt()), [0, 62, 2, 92]);
    let no_backfill = Parameters { bf_interval_s: None, ..prompt().parameters };
    let rules = Rules { parameters: no_backfill, order: None };
    assert_eq!(starts(&machine(10, jobs), &rules), [0, 50, 80, 80]);
}

/// Goal: the CPUs of an ended job are taken only after its clean-up. Method: a job behind another
/// on the same CPUs, with and without 5 s.
#[test]
fn the_next_job_waits_for_the_turnaround() {
    let jobs = vec![job(0, 50, 60, 10), job(1, 30, 60, 10)];
    let load = Workload { turnaround_s: 5, ..machine(10, jobs.clone()) };
    assert_eq!(starts(&machine(10, jobs), &prompt()), [0, 50]);
    assert_eq!(starts(&load, &prompt()), [0, 55]);
}

#[test]
fn among_equal_priorities_the_newest_is_tried_as_it_comes() {
    let jobs = vec![job(0, 50, 60, 6), job(1, 30, 60, 8), job(2, 600, 600, 4)];
    let equal = Priority::Multifactor { weight_age: 0, max_age_s: 1, period_s: 300 };
    let of = |priority: Priority, defer| {
        let parameters = Parameters { priority, defer, ..prompt().parameters };
        starts(&machine(10, jobs.clone()), &Rules { parameters, order: None })
    };
    assert_eq!(of(equal.clone(), false), [0, 602, 2]);
    assert_eq!(of(Priority::Basic, false), [0, 50, 80]);
    assert_eq!(of(equal, true), [1, 52, 83]);
}

/// Goal: jobs without a reservation hold back no other job. Method: a job that fits beside the
/// first in line, but not beside the second, under each setting that leaves the second without one.
#[test]
fn who_reserves_is_as_set() {
    let jobs = vec![job(0, 100, 100, 6), job(1, 50, 50, 8), job(2, 50, 200, 10)];
    let load = machine(10, [jobs, vec![job(3, 999, 999, 2)]].concat());
    let with = |set: fn(&mut Parameters)| {
        let mut rules = prompt();
        set(&mut rules.parameters);
        starts(&load, &rules)[3]
    };
    assert!(with(|_| {}) >= 200, "all reserve");
    assert!(with(|of| of.bf_job_part_count_reserve = 2) >= 200, "both do");
    assert!(with(|of| of.bf_job_part_count_reserve = 1) < 10, "the first does");
    assert!(with(|of| of.bf_min_age_reserve_s = 1000) < 10, "none is old enough");
    assert!(with(|of| of.bf_min_prio_reserve = u32::MAX) < 10, "none has the priority");
}

#[test]
fn the_main_pass_looks_no_deeper_than_set() {
    let load = machine(10, (0..3).map(|_| job(0, 100, 100, 1)).collect());
    let with = |queue_depth| {
        let only_main = Parameters { bf_interval_s: None, defer: true, ..prompt().parameters };
        let parameters = Parameters { queue_depth, ..only_main };
        starts(&load, &Rules { parameters, order: None })
    };
    assert_eq!((with(2), with(1)), (vec![1, 1, 1], vec![1, 1, 61]));
}

fn learned(short_s: u64, fair_share_percent: u32, max_delta: u32) -> Option<OrderRule> {
    Some(OrderRule { by: OrderBy::Learned, short_s, fair_share_percent, max_delta })
}

/// Goal: the daemon lets learned short jobs pass long jobs until these are due.
#[test]
fn the_order_is_the_daemons_within_its_guard() {
    let short = |submit_s| SimJob { class: 2, ..job(submit_s, 20, 7200, 8) };
    let long = |submit_s| SimJob { user: 2, ..job(submit_s, 7000, 7200, 8) };
    let mut jobs: Vec<SimJob> = (0..6).map(short).collect();
    jobs.extend([long(200), long(201), short(202), short(203), short(204)]);
    let load = machine(8, jobs);
    let with = |short_s, share_percent, max_delta| {
        let order = learned(short_s, share_percent, max_delta);
        starts(&load, &Rules { order, ..prompt() })[7..].to_vec()
    };
    let by_submission = [7200, 14_200, 14_220, 14_240];
    assert_eq!(starts(&load, &prompt())[7..], by_submission);
    assert_eq!(with(60, 100_000, 10_000_000), [7260, 7200, 7220, 7240], "the short ones first");
    assert_eq!(with(10, 100_000, 10_000_000), by_submission, "none is short enough");
    assert_eq!(with(60, 100, 10_000_000), by_submission, "who waited as long as others is due");
    assert_eq!(with(60, 100_000, 0), by_submission, "none rises");
}

prop_compose! {
    fn any_job()(
        submit_s in 0i64..400,
        run_s in 1u64..80,
        over in 0u64..200,
        size in 1u64..7,
        user in 1u64..3,
    ) -> SimJob {
        SimJob { user, ..job(submit_s, run_s, run_s + over, size) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Goal: jobs of whole nodes start on nodes when they start on a pool of CPUs, each of which
    /// counts as a node. Method: random lists on 8 nodes of one CPU, under Slurm and the daemon;
    /// the first free nodes are taken, as best fit may take one that is kept for a job.
    #[test]
    fn nodes_of_one_cpu_are_a_pool(
        mut jobs in prop::collection::vec(any_job(), 1..40), ordered: bool, daemon in 1i64..31,
        reserve in 0usize..3, age in 0i64..40, depth in 0usize..9,
    ) {
        jobs.sort_by_key(|job| job.submit_s);
        let pool = machine(8, jobs);
        let order = learned(60, 200, 10_000).filter(|_| ordered);
        let parameters = Parameters {
            bf_interval_s: Some(daemon),
            bf_job_part_count_reserve: reserve,
            bf_min_age_reserve_s: age,
            queue_depth: depth,
            ..prompt().parameters
        };
        let rules = Rules { parameters, order };
        let load = load::of_pool(&pool, &spec::parse("8x(cpu=1)").unwrap()).unwrap();
        let (tuning, gangs) = (Tuning::default(), Settings::default());
        let setup = Setup::of(&crate::policy::SLURM, &tuning, &gangs, &rules);
        let rule = Some(Rule::Least(|_, _, _| 0.0));
        let setup = Setup { rules: rules.clone(), rule, ..setup };
        let found = engine::run(&load, &setup, None, &|_| {}).unwrap();
        let found: Vec<i64> = found.starts_s.into_iter().flatten().collect();
        prop_assert_eq!(found, starts(&pool, &rules));
    }
}

/// Goal: a simulation of many gangs spends no time searching for better plans, so that a list of
/// jobs does not take minutes. Method: the same jobs with other draws of the search.
#[test]
fn plans_of_gangs_are_those_made_at_once() {
    let jobs = (0..120).map(|at| {
        let run_s = 20 + u64::try_from(at * 37 % 90).unwrap();
        job(at / 4, run_s, 2 * run_s, 1 + u64::try_from(at * 7 % 6).unwrap())
    });
    let nodes = spec::parse("8x(cpu=1)").unwrap();
    let load = load::of_pool(&machine(8, jobs.collect()), &nodes).unwrap();
    let tuning = Tuning::default();
    let starts = |seed| {
        let gangs = Settings { seed, ..Settings::default() };
        let setup = Setup::of(&crate::policy::GANG, &tuning, &gangs, &prompt());
        engine::run(&load, &setup, None, &|_| {}).unwrap().starts_s
    };
    assert_eq!(starts(1), starts(2));
    assert_eq!(starts(1), starts(3));
}
