// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of parts that the public interface does not show.
#![allow(clippy::unwrap_used)]

use super::instance::{Instance, NONE};
use super::problem::{Edge, Job, Problem, Server, Task};
use super::seed::{Chromosome, repair, swap_server};
use crate::learn::Growth;

/// The model of the worked examples, with true means and one observation each.
fn model() -> Problem {
    let task = |request: [f64; 2], means: &[f64]| Task {
        request: request.to_vec(),
        edges: means
            .iter()
            .enumerate()
            .map(|(s, mean)| Edge { server: format!("s{s}"), mean: *mean, count: 1.0 })
            .collect(),
        ..Task::default()
    };
    let server = |name: &str, capacity: [f64; 2]| Server {
        name: name.to_owned(),
        capacity: capacity.to_vec(),
        ..Server::default()
    };
    Problem {
        kinds: vec!["cpu".into(), "gpu".into()],
        cost: Some(vec![0.02, 0.1]),
        slot: 1,
        g: Growth::None,
        bonus_scale: 1.0,
        m: None,
        servers: vec![server("s0", [6.0, 2.0]), server("s1", [4.0, 1.0]), server("s2", [4.0, 1.0])],
        jobs: vec![
            Job {
                id: "j0".into(),
                tasks: vec![
                    task([2.0, 0.0], &[0.50, 0.40]),
                    task([2.0, 1.0], &[0.80, 0.55]),
                    task([2.0, 1.0], &[0.70, 0.65]),
                ],
                spread: false,
            },
            Job {
                id: "j1".into(),
                tasks: vec![
                    task([1.0, 0.0], &[0.30, 0.45, 0.35]),
                    task([3.0, 1.0], &[0.60, 0.75, 0.90]),
                ],
                spread: false,
            },
        ],
    }
}

fn chromosome(instance: &Instance, input: &[usize]) -> Chromosome {
    let mut made = Chromosome::empty(instance);
    for (task, server) in input.iter().enumerate() {
        made.add(instance, task, instance.internal_of[*server]);
    }
    made
}

fn input_servers(instance: &Instance, server: &[u32]) -> Vec<i64> {
    let name = |s: &u32| if *s == NONE { -1 } else { i64::from(instance.input_of[*s as usize]) };
    server.iter().map(name).collect()
}

#[test]
fn crossover_of_server_0_is_repaired_as_in_the_worked_example() {
    let instance = Instance::compile(&model()).unwrap();
    let mut a = chromosome(&instance, &[0, 0, 1, 2, 2]);
    let mut b = chromosome(&instance, &[1, 0, 0, 0, 2]);
    swap_server(&instance, &mut a, &mut b, instance.internal_of[0]);
    let copies = |c: &Chromosome| c.copies.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(copies(&a), [0, 1, 2, 2, 1]);
    assert_eq!(copies(&b), [2, 1, 0, 0, 1]);
    assert!(a.within_capacity());
    assert!(b.within_capacity());
    assert_eq!(input_servers(&instance, &repair(&instance, &a).server), [0, 0, 0, 2, 2]);
    assert_eq!(input_servers(&instance, &repair(&instance, &b).server), [0, 0, 0, 1, 2]);
}

#[test]
fn options_cover_listed_and_unlisted_servers() {
    let mut problem = model();
    problem.jobs[1].tasks[0].edges.truncate(1);
    problem.jobs[1].tasks[0].any = Some(super::AnyEdge { mean: 0.2, count: 1.0 });
    let instance = Instance::compile(&problem).unwrap();
    let ty = instance.task_type[3] as usize;
    let mean = |input: usize| {
        let option = instance.option_on(ty, instance.internal_of[input]).unwrap();
        instance.opts[option].lin
    };
    assert!((mean(0) - 0.28).abs() < 1e-12);
    assert!((mean(1) - 0.18).abs() < 1e-12);
    assert!((mean(2) - 0.18).abs() < 1e-12);
    let ty = instance.task_type[0] as usize;
    assert_eq!(instance.option_on(ty, instance.internal_of[2]), None);
}
