// SPDX-License-Identifier: GPL-3.0-or-later
//! Worked examples of `docs/methods.md`, section Data jobs, formula by formula.

use super::assignment::{Assignment, migrate};
use super::budget::Budget;
use super::instance::{Instance, whole_ms};
use super::problem::Problem;
use super::schedule::Schedule;
use super::seed::bisect;
use super::weights::{Chooser, Room};
use serde_json::{Value, json};

/// Makes jobs of (speed, blocks), and blocks of (megabytes, hosts).
pub(super) fn job(id: usize, speed: f64, blocks: &[(f64, &[usize])]) -> Value {
    let block = |(b, (size, hosts)): (usize, &(f64, &[usize]))| {
        let replicas: Vec<String> = hosts.iter().map(|host| format!("h{host}")).collect();
        json!({"id": format!("b{b}"), "size_mb": size, "replicas": replicas})
    };
    let blocks: Vec<Value> = blocks.iter().enumerate().map(block).collect();
    json!({"id": format!("job{id}"), "speed_mb_per_s": speed, "blocks": blocks})
}

fn instance(alpha: f64, transfer: f64, hosts: &[&[f64]], jobs: &[Value]) -> Instance {
    let host = |(k, waits): (usize, &&[f64])| {
        let name = format!("h{k}");
        json!({"name": name, "cores": waits.len(), "available_ms": waits})
    };
    let hosts: Vec<Value> = hosts.iter().enumerate().map(host).collect();
    let text = json!({"alpha": alpha, "transfer_mb_per_s": transfer, "hosts": hosts, "jobs": jobs})
        .to_string();
    let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
    problem.validate().unwrap();
    Instance::new(&problem)
}

#[test]
fn whole_milliseconds_do_not_jump_on_rounding() {
    let time_ms = 1000.0 * (8.8 + 0.256);
    assert!(time_ms > 9056.0, "the sum is not exact in binary");
    assert!((whole_ms(time_ms) - 9056.0).abs() < f64::EPSILON);
    assert!((whole_ms(9056.01) - 9057.0).abs() < f64::EPSILON);
    assert!((whole_ms(1e9 * (0.1 + 0.2)) - 3e8).abs() < f64::EPSILON);
}

#[track_caller]
fn near(found: f64, wanted: f64) {
    let slack = 1e-6 * wanted.abs().max(1.0);
    assert!((found - wanted).abs() <= slack, "found {found}, wanted {wanted}");
}

#[test]
fn block_time() {
    let case = instance(0.05, 125.0, &[&[0.0; 2], &[0.0; 2]], &[job(0, 50.0, &[(128.0, &[0])])]);
    let ms = |host, n| case.block_ms(&case.jobs[0], 0, host, n);
    near(ms(0, 1), 2560.0);
    near(ms(0, 3), 2_844.444_444);
    near(ms(1, 1), 3584.0);
    near(ms(1, 3), 3_868.444_444);
}

fn assignment(case: &Instance, job: usize, hosts: &[usize], blocks: &[&[usize]]) -> Assignment {
    let blocks: Vec<Vec<usize>> = blocks.iter().map(|blocks| blocks.to_vec()).collect();
    let mut assignment = Assignment { loads: vec![0.0; blocks.len()], blocks };
    assignment.recompute(case, &case.jobs[job], hosts);
    assignment
}

#[test]
fn evaluator_of_one_host() {
    let local = |sizes: &[f64]| sizes.iter().map(|&size| (size, [0])).collect::<Vec<_>>();
    let build = |id, sizes: &[f64]| {
        let blocks = local(sizes);
        let blocks: Vec<(f64, &[usize])> = blocks.iter().map(|(s, h)| (*s, h.as_slice())).collect();
        job(id, 5.0, &blocks)
    };
    let jobs =
        [build(0, &[10.0, 20.0, 16.0]), build(1, &[9.0, 16.0]), build(2, &[10.0, 6.0, 20.0, 15.0])];
    let case = instance(0.03, 125.0, &[&[0.0; 4]], &jobs);
    near(assignment(&case, 0, &[0; 3], &[&[0], &[1], &[2]]).longest(), 4_255.319_149);
    near(assignment(&case, 1, &[0], &[&[0, 1]]).longest(), 5000.0);
    let last = assignment(&case, 2, &[0; 4], &[&[0], &[1], &[2], &[3]]).longest();
    near(5000.0 + last, 9_395.604_396);
}

#[test]
fn core_weights() {
    let blocks: [(f64, &[usize]); 4] = [(64.0, &[0, 1]), (64.0, &[0]), (32.0, &[1]), (16.0, &[0])];
    let case = instance(0.05, 125.0, &[&[100.0, 0.0], &[400.0, 0.0]], &[job(0, 50.0, &blocks)]);
    let room = Room { cores: 3, per_host: 3, hosts_min: 0, hosts_max: 3 };
    let (job, free) = (&case.jobs[0], (&*case.available, 1000.0));
    let mut chooser = Chooser::new(&case, job, [(0, 0.0), (1, 0.0)].into_iter(), free, room, 0.0);
    let expect = |found: Vec<Option<(usize, f64)>>, wanted: [(usize, f64); 2]| {
        for (found, (core, weight)) in found.into_iter().zip(wanted) {
            let (found_core, found_weight) = found.unwrap();
            assert_eq!(found_core, core);
            near(found_weight, weight);
        }
    };
    expect(chooser.weights(), [(1, 0.818_182), (3, 0.545_455)]);
    assert!(chooser.add());
    expect(chooser.weights(), [(0, 0.368_182), (3, 0.545_455)]);
    assert!(chooser.add());
    expect(chooser.weights(), [(0, 0.490_909), (2, 0.218_182)]);
    assert!(chooser.add());
    assert_eq!(chooser.chosen, [1, 3, 0]);
}

#[test]
fn migration_moves() {
    let blocks: [(f64, &[usize]); 5] =
        [(30.0, &[0]), (20.0, &[0, 1]), (10.0, &[0]), (10.0, &[1]), (20.0, &[2])];
    let case = instance(0.05, 100.0, &[&[0.0], &[0.0], &[0.0]], &[job(0, 10.0, &blocks)]);
    let hosts = [0, 1, 2];
    let mut assignment = assignment(&case, 0, &hosts, &[&[0, 1, 2], &[3], &[4]]);
    near(assignment.loads[0], 6_666.666_667);
    near(case.jobs[0].threshold_ms(), 500.0);
    assert!(migrate(&case, &case.jobs[0], &hosts, &mut assignment, 500.0, 100));
    assert_eq!(assignment.blocks, [vec![0], vec![3, 1], vec![4, 2]]);
    for (load, wanted) in assignment.loads.iter().zip([3_333.333_333, 3_333.333_333, 3_433.333_333])
    {
        near(*load, wanted);
    }
}

#[test]
fn exchange_only() {
    let blocks: [(f64, &[usize]); 4] = [(50.0, &[0]), (40.0, &[0]), (31.0, &[0]), (29.0, &[0])];
    let case = instance(0.05, 125.0, &[&[0.0, 0.0]], &[job(0, 10.0, &blocks)]);
    let mut assignment = assignment(&case, 0, &[0, 0], &[&[0, 1], &[2, 3]]);
    assert!(migrate(&case, &case.jobs[0], &[0, 0], &mut assignment, 1450.0, 100));
    near(assignment.loads[0], 8_526.315_789);
    near(assignment.loads[1], 7_263.157_895);
}

#[test]
fn an_upper_bound_that_is_doubled_leaves_the_lower_one() {
    let mut prober = |makespan: f64, _: &mut Budget<'_>| {
        let feasible = makespan >= 8.0 && !(9.5..11.5).contains(&makespan);
        feasible.then(|| Schedule { end: makespan, ..Schedule::default() }).into()
    };
    let (case, mut probes) = (instance(0.05, 125.0, &[], &[]), Vec::new());
    let mut budget = Budget::new(1000, &|| false);
    let best = bisect(&case, (10.0, 4.0), false, &mut prober, &mut probes, &mut budget).unwrap();
    near(best.end, 8.0);
    let first: Vec<(f64, bool)> = probes.iter().map(|p| (p.makespan, p.feasible)).collect();
    assert_eq!(first[..4], [(10.0, false), (20.0, true), (12.0, true), (8.0, true)]);
}
