// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of parts that the public interface does not show.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use super::clock::Clock;
use super::dual::Dual;
use super::instance::{Instance, NONE};
use super::pattern::Pattern;
use super::problem::{
    AnyEdge, Edge, GaParams, GroupEdge, Job, KINDS_MAX, Mode, Options, Problem, Server, Task,
};
use super::seed::{Chromosome, repair, swap_server};
use super::start::{self, share_prices};
use super::state::Fit;
use super::values::Values;
use super::{solve, task_prices};
use crate::learn::Growth;
use phalanx_core::random::Stream;

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
    assert!((0..5).all(|task| a.holds(&instance, task) && b.holds(&instance, task)));
    for (made, fixed) in [(&mut a, [0, 0, 0, 2, 2]), (&mut b, [0, 0, 0, 1, 2])] {
        repair(&instance, made, &[0, 1]);
        assert_eq!(input_servers(&instance, &made.plan.server), fixed);
    }
}

#[test]
fn options_cover_listed_and_unlisted_servers() {
    let mut problem = model();
    let task = &mut problem.jobs[1].tasks[0];
    task.edges = task.edges[..1].into();
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

/// Two to four different servers, up to four gangs of up to three tasks, all amounts small.
pub fn random_problem(rng: &mut Stream) -> Problem {
    let amounts = |rng: &mut Stream, least: usize, most: usize| -> Vec<f64> {
        (0..2).map(|_| (least + rng.below(most - least + 1)) as f64).collect()
    };
    let servers: Vec<Server> = (0..2 + rng.below(3))
        .map(|s| Server {
            name: format!("s{s}"),
            capacity: amounts(rng, 2, 9),
            ..Server::default()
        })
        .collect();
    let task = |rng: &mut Stream| {
        let edge = |s: &Server, rng: &mut Stream| Edge {
            server: s.name.clone(),
            mean: rng.unit() - 0.1,
            count: (1 + rng.below(4)) as f64,
        };
        let edges = servers.iter().map(|s| edge(s, rng)).collect();
        Task { request: amounts(rng, 0, 5), edges, ..Task::default() }
    };
    let job = |j: usize, rng: &mut Stream| {
        let tasks = (0..=rng.below(3)).map(|_| task(rng)).collect();
        Job { id: format!("j{j}"), tasks, spread: rng.below(3) == 0 }
    };
    let jobs = (0..1 + rng.below(4)).map(|j| job(j, rng)).collect();
    Problem {
        jobs,
        servers: servers.clone(),
        slot: 50,
        g: if rng.below(2) == 0 { Growth::None } else { Growth::Source },
        bonus_scale: 0.02,
        ..model()
    }
}

#[test]
fn no_prices_prove_less_than_the_optimum() {
    let mut rng = Stream::new(5);
    let mut tighter = 0;
    for case in 0..300 {
        let problem = random_problem(&mut rng);
        let instance = Instance::compile(&problem).unwrap();
        let exact = Options { mode: Mode::Exact, ..Options::default() };
        let optimum = solve(&problem, &exact).unwrap().index - instance.delta;
        let mut dual = Dual::new(&instance);
        dual.find(optimum, &|| false);
        let slack = 1e-9 * optimum.abs().max(1.0);
        assert!(dual.best.bound >= optimum - slack, "case {case}");
        let values = Values::new(&instance, &dual.best);
        // Time is up at once, after some calls, or never.
        let (calls, most) = (std::sync::atomic::AtomicUsize::new(0), [1, 20, 0][case % 3]);
        let remaining = || {
            let called = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let left = std::time::Duration::from_secs(u64::from(called < most));
            (most > 0).then_some(left)
        };
        let clock = Clock::new(&remaining);
        let found = task_prices::descend(&instance, &values, &dual.best, case as u64, clock);
        let Some(found) = found else { continue };
        assert!(found.bound >= optimum - slack, "case {case}: {} < {optimum}", found.bound);
        tighter += 1;
    }
    assert!(tighter > 100, "{tighter}");
}

/// Goal: task prices prove that two of five units stay free on every server, which resource prices
/// cannot.
#[test]
fn task_prices_prove_what_whole_tasks_leave_free() {
    let servers = 40;
    let server =
        |s| Server { name: format!("s{s}"), capacity: vec![5.0, 0.0], ..Server::default() };
    let task = Task {
        request: vec![3.0, 0.0],
        any: Some(AnyEdge { mean: 1.0, count: 1.0 }),
        ..Task::default()
    };
    let job = |j| Job { id: format!("j{j}"), tasks: vec![task.clone()], spread: false };
    let problem = Problem {
        servers: (0..servers).map(server).collect(),
        jobs: (0..2 * servers).map(job).collect(),
        cost: None,
        ..model()
    };
    let instance = Instance::compile(&problem).unwrap();
    let mut dual = Dual::new(&instance);
    dual.find(servers as f64, &|| false);
    assert!(dual.best.bound > 1.6 * servers as f64, "{}", dual.best.bound);
    let values = Values::new(&instance, &dual.best);
    let clock = Clock::new(&|| None);
    let bound = task_prices::descend(&instance, &values, &dual.best, 1, clock).unwrap().bound;
    assert!((bound / servers as f64 - 1.0).abs() < 1e-6, "{bound}");
}

#[test]
fn a_kind_that_is_scarce_everywhere_gets_its_price_at_once() {
    let (servers, jobs) = (120, 200);
    let mean = |j: usize, s: usize| 1.0 + 1e-4 * ((7 * s + 13 * j) % 97) as f64;
    let edge = |j, s| Edge { server: format!("s{s}"), mean: mean(j, s), count: 1.0 };
    let job = |j| Job {
        id: format!("j{j}"),
        tasks: vec![Task {
            request: vec![1.0, 3.0],
            edges: (0..servers).map(|s| edge(j, s)).collect(),
            ..Task::default()
        }],
        spread: false,
    };
    let server =
        |s| Server { name: format!("s{s}"), capacity: vec![16.0, 4.0], ..Server::default() };
    let problem = Problem {
        cost: None,
        servers: (0..servers).map(server).collect(),
        jobs: (0..jobs).map(job).collect(),
        ..model()
    };
    let instance = Instance::compile(&problem).unwrap();
    let mut dual = Dual::new(&instance);
    dual.find(servers as f64, &|| false);
    // 4/3 of a task on each server: the bound without whole tasks, were all worth the most.
    let most = 160.0 * 1.0096;
    assert!(dual.best.bound <= 1.01 * most, "{} > {most}", dual.best.bound);
}

/// Most profit, by trying everything.
fn brute(free: &[i32], items: &[(f64, u32, [i32; 5])]) -> f64 {
    let Some(((profit, most, row), rest)) = items.split_first() else { return 0.0 };
    let mut best = f64::NEG_INFINITY;
    for n in 0..=*most as i32 {
        let left: Vec<i32> = free.iter().zip(row).map(|(f, r)| f - n * r).collect();
        if left.iter().any(|f| *f < 0) {
            break;
        }
        best = best.max(f64::from(n) * profit + brute(&left, rest));
    }
    best
}

#[test]
fn patterns_are_optimal_or_bounded() {
    let mut rng = Stream::new(6);
    for case in 0..300 {
        let free: Vec<i32> = (0..5).map(|_| rng.below(12) as i32).collect();
        let items: Vec<(f64, u32, [i32; 5])> = (0..6)
            .map(|_| {
                let row = std::array::from_fn(|_| rng.below(5) as i32);
                (rng.unit(), 1 + rng.below(3) as u32, row)
            })
            .collect();
        let best = brute(&free, &items);
        let mut pattern = Pattern::default();
        let mut known = Vec::new();
        for (evaluations, again) in [(3, false), (3, true), (1_000_000, false), (1_000_000, true)] {
            pattern.clear(&free, &[0.3, 0.1, 0.2, 0.4, 0.1]);
            for (id, (profit, most, row)) in items.iter().enumerate() {
                if pattern.admits(row) {
                    pattern.add(id as u32, *profit, *most, row);
                }
            }
            let before = pattern.value;
            if again {
                pattern.begin_with(&known);
            }
            pattern.search(evaluations, 0.0, |id| &items[id as usize].2);
            assert!(!again || pattern.value >= before - 1e-9, "case {case}");
            assert!(pattern.value <= best + 1e-9, "case {case}");
            assert!(pattern.bound >= best - 1e-9, "case {case}");
            let sum: f64 =
                pattern.best.iter().map(|(id, n)| items[*id as usize].0 * f64::from(*n)).sum();
            assert!((sum - pattern.value).abs() < 1e-9, "case {case}");
            for (k, room) in free.iter().enumerate() {
                let used = pattern.best.iter().map(|(id, n)| items[*id as usize].2[k] * *n as i32);
                assert!(used.sum::<i32>() <= *room, "case {case}");
            }
            if evaluations > 3 {
                let value = pattern.value;
                assert!((value - best).abs() < 1e-9, "case {case}: {value} {best}");
                assert!((pattern.bound - best).abs() < 1e-9, "case {case}");
            }
            known.clone_from(&pattern.best);
        }
    }
}

/// Goal: rows of any width are searched alike: further kinds that bind nowhere change nothing.
#[test]
fn patterns_do_not_depend_on_the_number_of_kinds() {
    let mut rng = Stream::new(7);
    for case in 0..50 {
        let free: Vec<i32> = (0..2).map(|_| 5 + rng.below(40) as i32).collect();
        let items: Vec<(f64, [i32; 2])> =
            (0..7).map(|_| (rng.unit(), std::array::from_fn(|_| rng.below(6) as i32))).collect();
        let mut values = Vec::new();
        for kinds in [2, 3, 5, 6, 7, 16, 17, KINDS_MAX] {
            let wide = |row: &[i32], rest: i32| -> Vec<i32> {
                row.iter().copied().chain(std::iter::repeat(rest)).take(kinds).collect()
            };
            let rows: Vec<Vec<i32>> = items.iter().map(|(_, row)| wide(row, 3)).collect();
            let mut price = vec![0.0; kinds];
            price[..2].copy_from_slice(&[0.1, 0.2]);
            let mut pattern = Pattern::default();
            pattern.clear(&wide(&free, i32::MAX), &price);
            for (id, row) in rows.iter().enumerate() {
                if pattern.admits(row) {
                    pattern.add(id as u32, items[id].0, 9, row);
                }
            }
            pattern.search(1_000_000, 0.0, |id| &rows[id as usize]);
            values.push((pattern.value, pattern.bound));
        }
        // Items that need nothing are no search's business as soon as they need a further kind.
        assert!(values[1..].iter().all(|v| v == &values[1]), "case {case}: {values:?}");
        assert!((values[0].0 - values[1].0).abs() < 1e-9, "case {case}: {values:?}");
    }
}

#[test]
fn a_pattern_that_is_worth_less_than_asked_for_is_none() {
    let items: [(f64, &[i32]); 3] = [(5.0, &[3, 1]), (4.0, &[2, 2]), (1.0, &[0, 0])];
    let mut pattern = Pattern::default();
    // The best are two of the second, and the last one, which needs nothing: 9.
    for (least, found) in [(0.0, 9.0), (8.9, 9.0), (9.0 - 1e-12, 9.0), (9.1, 1.0)] {
        pattern.clear(&[4, 4], &[1.0, 1.0]);
        for (id, (profit, row)) in items.iter().enumerate() {
            pattern.add(id as u32, *profit, if id == 2 { 1 } else { 2 }, row);
        }
        pattern.require(least);
        pattern.search(1_000, 0.0, |id| items[id as usize].1);
        let worth = |(id, n): &(u32, u32)| items[*id as usize].0 * f64::from(*n);
        assert_eq!(pattern.best.iter().map(worth).sum::<f64>(), found, "least {least}");
    }
}

/// Goal: a server may have room for more tasks than a thread's stack has room for calls.
#[test]
fn a_pattern_may_have_any_number_of_tasks() {
    let room = 3_000_000;
    let mut pattern = Pattern::default();
    // Of each 1,000,000 times; and as many different ones.
    for (types, most) in [(3, 1_000_000), (3_000_000, 1)] {
        pattern.clear(&[room, room], &[1e-3, 0.0]);
        for id in 0..types {
            pattern.add(id, 1.0, most, &[1, 1]);
        }
        pattern.search(1_000_000, 0.0, |_| &[1, 1]);
        let found: u32 = pattern.best.iter().map(|(_, n)| n).sum();
        // A search cut short has taken one thing after another.
        assert_eq!(found, if types == 3 { 3_000_000 } else { 1_000_000 });
        assert!((pattern.value - f64::from(found)).abs() < 1e-6);
        assert!(pattern.bound >= f64::from(room) * (1.0 - 1e-9));
    }
}

#[test]
fn too_many_kinds_are_refused() {
    let problem = Problem { kinds: (0..256).map(|k| format!("k{k}")).collect(), ..model() };
    let error = problem.validate().unwrap_err().to_string();
    assert_eq!(error, "kinds: must be at most 255, got 256");
}

#[test]
fn an_explanation_adds_up_task_by_task() {
    let mut problem = model();
    (problem.slot, problem.g) = (9, Growth::Source);
    std::sync::Arc::make_mut(&mut problem.jobs[0].tasks[1].edges)[0].count = 4.0;
    // A group and an edge for the rest count as well as listed edges do.
    problem.servers[2].group = Some("late".into());
    problem.jobs[1].tasks[1].edges = [].into();
    problem.jobs[1].tasks[1].groups =
        [GroupEdge { group: "late".into(), mean: 0.9, count: 7.0 }].into();
    problem.jobs[1].tasks[0].edges = [].into();
    problem.jobs[1].tasks[0].any = Some(AnyEdge { mean: 0.4, count: 3.0 });
    let options = Options { explain: true, mode: Mode::Exact, ..Options::default() };
    let answer = solve(&problem, &options).unwrap();
    let explain = answer.explain.unwrap();
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    near(answer.index, explain.delta + explain.jobs.iter().map(|j| j.index).sum::<f64>());
    assert_eq!(explain.jobs.len(), 2);
    for ((job, asked), placed) in explain.jobs.iter().zip(&problem.jobs).zip(&answer.assignment) {
        near(job.index, job.tasks.iter().map(|t| t.index).sum());
        near(job.bonus, job.tasks.iter().map(|t| t.bonus).sum());
        for ((terms, task), server) in job.tasks.iter().zip(&asked.tasks).zip(&placed.tasks) {
            assert_eq!(terms.server, *server);
            near(terms.cost, 0.02 * task.request[0] + 0.1 * task.request[1]);
            near(terms.index, terms.value - terms.cost + terms.bonus);
            // sigma2 = g / (2 n), shared out of its root.
            near(terms.bonus, explain.g / (2.0 * terms.count) / explain.variance.sqrt());
        }
    }
    let counts = |j: usize| explain.jobs[j].tasks.iter().map(|t| t.count).collect::<Vec<_>>();
    assert_eq!(counts(1), [3.0, 7.0]);
    let second = &explain.jobs[0].tasks[1];
    assert_eq!(second.count, if second.server == "s0" { 4.0 } else { 1.0 });
}

#[test]
fn a_kind_that_was_free_gets_a_price_once_it_is_scarce() {
    let mut problem = model();
    for (server, gpus) in problem.servers.iter_mut().zip([1.0, 1.0, 0.0]) {
        server.capacity[1] = gpus;
    }
    let instance = Instance::compile(&problem).unwrap();
    let mut dual = Dual::new(&instance);
    // Three devices are asked for where there are two, in units of the largest server.
    let mut common = [0.0, 0.0];
    dual.balance(&mut common, 1, 0.01, 2.0);
    assert!(common[1] > 0.0, "{common:?}");
    // Where there are enough, the price goes back to nothing.
    dual.balance(&mut common, 1, 0.01, 4.0);
    assert_eq!(common[1], 0.0);
}

/// Servers that all differ, and gangs that each list some of them.
pub fn scattered(servers: usize, jobs: usize, edges: usize) -> Problem {
    let mut rng = Stream::new(21);
    let server =
        |s| Server { name: format!("s{s}"), capacity: vec![12.0, 7.0], ..Server::default() };
    let job = |j: usize| {
        let request = vec![(1 + rng.below(5)) as f64, (1 + rng.below(3)) as f64];
        let mut edge = |s: usize| Edge {
            server: format!("s{s}"),
            mean: 0.5 + rng.unit(),
            count: (1 + rng.below(4)) as f64,
        };
        let edges = (0..edges).map(|at| edge((17 * j + 13 * at) % servers)).collect();
        let task = Task { request, edges, ..Task::default() };
        Job { id: format!("j{j}"), tasks: vec![task; 1 + j % 6], spread: j.is_multiple_of(5) }
    };
    let jobs = (0..jobs).map(job).collect();
    Problem { servers: (0..servers).map(server).collect(), jobs, ..model() }
}

/// Goal: the answer is the same for any number of threads, which search patterns of several servers
/// at a time where most servers are a class of their own, and fill tables together.
#[test]
fn the_answer_does_not_depend_on_the_threads_where_every_server_differs() {
    for (servers, jobs, edges) in [(160, 120, 12), (64, 200, 64), (300, 150, 80), (300, 150, 160)] {
        let problem = scattered(servers, jobs, edges);
        let answer = |threads| {
            let work_max = Some(400_000);
            solve(&problem, &Options { threads, work_max, ..Options::default() }).unwrap()
        };
        let (one, two) = (answer(1), answer(2));
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&two).unwrap());
        assert!(one.upper_bound.unwrap() < 1.05 * one.index, "{} {:?}", one.index, one.upper_bound);
    }
}

#[test]
fn answers_where_every_server_differs_keep_the_rules() {
    for (servers, jobs, edges) in [(300, 300, 8), (300, 500, 40), (500, 200, 100), (64, 200, 64)] {
        let problem = scattered(servers, jobs, edges);
        let options = Options { work_max: Some(600_000), seed: 5, ..Options::default() };
        let answer = solve(&problem, &options).unwrap();
        let mut used = std::collections::HashMap::<&str, [f64; 2]>::new();
        for placement in &answer.assignment {
            let job = problem.jobs.iter().find(|job| job.id == placement.job).unwrap();
            assert_eq!(placement.tasks.len(), job.tasks.len());
            for (task, server) in job.tasks.iter().zip(&placement.tasks) {
                assert!(task.edges.iter().any(|edge| edge.server == *server));
                let sum = used.entry(server).or_default();
                sum.iter_mut().zip(&task.request).for_each(|(sum, a)| *sum += a);
            }
            let mut apart = placement.tasks.clone();
            apart.sort_unstable();
            apart.dedup();
            assert!(!job.spread || apart.len() == job.tasks.len());
        }
        assert!(used.values().all(|sum| sum[0] <= 12.0 && sum[1] <= 7.0));
        assert_eq!(answer.assignment.len() + answer.pending.len(), jobs);
        assert!(answer.index <= answer.upper_bound.unwrap());
        assert!(answer.gap.unwrap() < 0.08, "{servers} {jobs} {edges}: {:?}", answer.gap);
    }
}

/// Goal: tasks of 6 x 2, 2 x 6 and 5 x 5, of which two fit on a server of 10 x 10, are bounded by
/// both kinds at once: by kind alone half a task more would fit.
#[test]
fn few_classes_are_bounded_by_what_fits_in_all_kinds_at_once() {
    let servers = 300;
    let server =
        |s| Server { name: format!("s{s}"), capacity: vec![10.0, 10.0], ..Server::default() };
    let job = |j: usize| {
        let request = [vec![6.0, 2.0], vec![2.0, 6.0], vec![5.0, 5.0]][j % 3].clone();
        let any = Some(AnyEdge { mean: 1.0 + 1e-3 * (j % 7) as f64, count: 3.0 });
        let task = Task { request, any, ..Task::default() };
        Job { id: format!("j{j}"), tasks: vec![task; 1 + j % 2], spread: false }
    };
    let problem = Problem {
        servers: (0..servers).map(server).collect(),
        jobs: (0..2 * servers).map(job).collect(),
        cost: None,
        g: Growth::None,
        ..model()
    };
    let answer = |threads| {
        let work_max = Some(2_000_000);
        solve(&problem, &Options { threads, work_max, ..Options::default() }).unwrap()
    };
    let (one, two) = (answer(1), answer(2));
    assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&two).unwrap());
    let instance = Instance::compile(&problem).unwrap();
    let mut dual = Dual::new(&instance);
    dual.find(one.index, &|| false);
    dual.descend(one.index, 300, &|| false);
    assert!(dual.best.bound > 2.2 * servers as f64, "{}", dual.best.bound);
    let bound = one.upper_bound.unwrap();
    assert!((one.index..2.03 * servers as f64).contains(&bound), "{} {bound}", one.index);
    assert!(one.index > 1.98 * servers as f64, "{}", one.index);
}

#[test]
fn of_all_servers_the_best_that_fits_is_chosen() {
    let instance = Instance::compile(&scattered(300, 600, 70)).unwrap();
    let values = Values::new(&instance, &share_prices(&instance, 0.0));
    let mut state = start::greedy(&instance, &values, super::State::new(&instance));
    let mut rng = Stream::new(4);
    let (mut found, mut full) = (0, 0);
    for _ in 0..2_000 {
        let job = rng.below(instance.jobs());
        let fit = Fit::default();
        if state.is_placed(job) {
            state.remove_job(&instance, job);
        } else {
            state.insert_job(&instance, &values, job, fit);
        }
        let ty = rng.below(instance.types);
        let value = |server: u32| {
            let option = instance.option_on(ty, server)?;
            let room = state.free[server as usize * 2..][..2].iter().zip(instance.row(ty));
            let left = room.zip(&values.free_price).map(|((f, a), p)| p * (f - a) as f32);
            let value = values.reduced[option] - f64::from(fit.tight * left.sum::<f32>());
            state.fits(&instance, ty, server as usize).then_some(value)
        };
        let all: Vec<Option<f64>> = (0..300).map(value).collect();
        let best = all.iter().flatten().copied().reduce(f64::max);
        match state.choose(&instance, &values, ty, fit) {
            Some(place) => {
                let (chosen, best) = (all[place.server as usize].unwrap(), best.unwrap());
                assert!(chosen >= best - 1e-5 * best.abs(), "{chosen} {best}");
                found += 1;
            }
            None => {
                assert_eq!(best, None);
                full += 1;
            }
        }
    }
    assert!(found > 500 && full > 0, "{found} {full}");
}

#[test]
fn no_answer_is_below_greedy() {
    let mut rng = Stream::new(13);
    let mut problems: Vec<Problem> = (0..100).map(|_| random_problem(&mut rng)).collect();
    problems
        .extend([(64, 200, 64), (300, 300, 8), (40, 300, 40)].map(|(s, j, e)| scattered(s, j, e)));
    for (case, problem) in problems.iter().enumerate() {
        let instance = Instance::compile(problem).unwrap();
        let values = Values::new(&instance, &share_prices(&instance, Dual::new(&instance).theta()));
        let greedy = start::greedy(&instance, &values, super::State::new(&instance)).score();
        let at_once = || Some(std::time::Duration::ZERO);
        let options = Options { work_max: Some(20_000), ..Options::default() };
        for options in [options, Options { remaining: &at_once, ..options }] {
            let answer = solve(problem, &options).unwrap();
            assert!(answer.untried_edges >= greedy.untried, "case {case}");
            if answer.untried_edges == greedy.untried {
                let least = greedy.index(&instance);
                assert!(answer.index >= least - 1e-9, "case {case}: {} {least}", answer.index);
            }
        }
    }
}

#[test]
fn any_parameters_answer_the_same_for_any_number_of_threads() {
    let problem = scattered(24, 120, 12);
    for (population, crossover, by_servers) in [(1, 0.0, 0.0), (3, 1.0, 0.0), (5, 0.7, 1.0)] {
        let ga = GaParams { population, crossover, by_servers, generations: 12, oust: 0.5 };
        let text = |threads| {
            let options =
                Options { ga, threads, work_max: Some(2_000_000), seed: 3, ..Options::default() };
            serde_json::to_string(&solve(&problem, &options).unwrap()).unwrap()
        };
        let one = text(1);
        assert_eq!(one, text(2));
        assert_eq!(one, text(4));
    }
}

#[test]
fn the_table_of_edges_holds_what_a_search_finds() {
    let mut rng = Stream::new(8);
    for case in 0..200 {
        let instance = Instance::compile(&random_problem(&mut rng)).unwrap();
        let searched = Instance { option_table: Vec::new(), ..instance.clone() };
        for ty in 0..instance.types {
            for server in 0..instance.servers as u32 {
                let (table, search) =
                    (instance.option_on(ty, server), searched.option_on(ty, server));
                assert_eq!(table, search, "case {case}, type {ty}, server {server}");
            }
        }
    }
}

#[test]
fn equal_tasks_are_one_type_wherever_they_are() {
    let mut problem = model();
    let jobs = problem.jobs.clone();
    problem.jobs.extend(jobs.into_iter().map(|job| Job { id: job.id + "again", ..job }));
    let instance = Instance::compile(&problem).unwrap();
    assert_eq!(instance.types, 5);
    assert_eq!(instance.task_type[..5], instance.task_type[5..]);
    assert_eq!(instance.counts.gang(0), instance.counts.gang(2));
}

#[test]
fn no_share_of_the_time_is_behind_its_end() {
    let late = || Some(std::time::Duration::ZERO);
    assert!(Clock::new(&late).past(1.05) && Clock::new(&late).for_share(0.5).expired());
    let never = || None;
    assert!(!Clock::new(&never).past(1.05) && !Clock::new(&never).until(0.5).expired());
}

#[test]
fn a_part_of_the_time_ends_with_its_share() {
    let left_ms = std::sync::atomic::AtomicU64::new(1_000);
    let remaining = || {
        let left = left_ms.load(std::sync::atomic::Ordering::Relaxed);
        Some(std::time::Duration::from_millis(left))
    };
    let set = |left| left_ms.store(left, std::sync::atomic::Ordering::Relaxed);
    let all = Clock::new(&remaining);
    set(800);
    // From 200 ms on for a quarter of all, and half of what is left of that after 100 ms more.
    let quarter = all.for_share(0.25);
    set(700);
    let half = quarter.until(1.0).until(0.5);
    for (clock, used) in [(all, 0.3), (quarter, 0.4), (half, 0.0)] {
        assert!((clock.used().unwrap() - used).abs() < 1e-9);
    }
    set(600);
    assert!(half.expired() && !quarter.expired());
    set(540);
    assert!(quarter.expired() && !all.expired());
}

#[test]
fn nothing_to_run_on_is_no_error() {
    let problem = Problem { servers: Vec::new(), jobs: Vec::new(), ..model() };
    let answer = solve(&problem, &Options::default()).unwrap();
    assert!(answer.assignment.is_empty());
}
