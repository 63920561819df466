// SPDX-License-Identifier: GPL-3.0-or-later
//! Properties of every answer of every gang mode, on random problems.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::exact::gang as oracle;
use phalanx_methods::gang::{
    Answer, AnyEdge, Bred, Edge, GroupEdge, Job, Mode, Options, Problem, Server, Task, solve,
};
use phalanx_methods::learn::{
    Estimator, Growth, Observation, RunNode, Source, Speeds, SpeedsOptions, Stat,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MODES: [Mode; 3] = [Mode::Seed, Mode::Ga, Mode::Exact];

fn run(problem: &Problem, mode: Mode, seed: u64, threads: usize) -> Answer {
    solve(problem, &Options { mode, seed, threads, ..Options::default() }).unwrap()
}

/// (mean, count) of a task on a server, if it may run there.
fn edge_of(problem: &Problem, task: &Task, server: &str) -> Option<(f64, f64)> {
    let listed = task.edges.iter().find(|e| e.server == server).map(|e| (e.mean, e.count));
    let own = problem.servers.iter().find(|s| s.name == server)?.group.as_ref();
    let group = task.groups.iter().find(|g| Some(&g.group) == own).map(|g| (g.mean, g.count));
    listed.or(group).or(task.any.map(|any| (any.mean, any.count)))
}

/// Checks an answer against its own text alone: gangs, capacity, order, sums.
fn check(problem: &Problem, answer: &Answer) {
    let jobs: BTreeMap<&str, usize> =
        problem.jobs.iter().enumerate().map(|(j, job)| (job.id.as_str(), j)).collect();
    let mut used: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut seen = vec![0; problem.jobs.len()];
    let (mut untried, mut welfare) = (0, 0.0);
    let exploring = problem.exploration().is_on();
    let mut last = None;
    for placement in &answer.assignment {
        let j = jobs[placement.job.as_str()];
        assert!(last < Some(j), "assignment in input order");
        last = Some(j);
        seen[j] += 1;
        assert_eq!(placement.tasks.len(), problem.jobs[j].tasks.len(), "complete gang");
        let different: BTreeSet<&String> = placement.tasks.iter().collect();
        assert!(!problem.jobs[j].spread || different.len() == placement.tasks.len(), "spread");
        for (task, server) in problem.jobs[j].tasks.iter().zip(&placement.tasks) {
            let (mean, count) = edge_of(problem, task, server).expect("an edge");
            let sums = used.entry(server).or_insert_with(|| vec![0.0; problem.kinds.len()]);
            sums.iter_mut().zip(&task.request).for_each(|(s, a)| *s += a);
            let cost = problem.cost.iter().flatten();
            welfare -= task.request.iter().zip(cost).map(|(a, f)| a * f).sum::<f64>();
            welfare += if count > 0.0 { mean } else { 0.0 };
            untried += u64::from(exploring && count == 0.0);
        }
    }
    for id in &answer.pending {
        seen[jobs[id.as_str()]] += 1;
    }
    assert!(seen.iter().all(|n| *n == 1), "every job once");
    for server in &problem.servers {
        if let Some(sums) = used.get(server.name.as_str()) {
            for (s, c) in sums.iter().zip(&server.capacity) {
                assert!(*s <= c + 1e-9 * c.max(1.0), "{s} of {c} on {}", server.name);
            }
        }
    }
    assert_eq!(answer.untried_edges, untried);
    assert!((answer.mean_welfare - welfare).abs() < 1e-9 * welfare.abs().max(1.0));
    if let (Some(bound), Some(gap)) = (answer.upper_bound, answer.gap) {
        assert!(bound >= answer.index);
        assert!((gap - (bound - answer.index) / bound.abs().max(1e-12)).abs() < 1e-12);
    }
}

prop_compose! {
    fn any_task(kinds: usize, servers: usize)(
        request in prop::collection::vec(0_u32..40, kinds),
        listed in prop::collection::vec(prop::option::of((-3_i32..10, 0_u32..4)), servers),
        any in prop::option::of((-3_i32..10, 0_u32..4)),
        grouped in prop::collection::vec(prop::option::of((-3_i32..10, 0_u32..4)), servers.min(2)),
    ) -> Task {
        let groups = grouped.iter().enumerate().filter_map(|(g, edge)| {
            let (mean, count) = (*edge)?;
            let (mean, count) = (f64::from(mean) / 10.0, f64::from(count));
            Some(GroupEdge { group: format!("g{g}"), mean, count })
        });
        let edges = listed.iter().enumerate().filter_map(|(s, edge)| {
            let (mean, count) = (*edge)?;
            Some(Edge {
                server: format!("s{s}"),
                mean: f64::from(mean) / 10.0,
                count: f64::from(count),
            })
        });
        Task {
            request: request.iter().map(|a| f64::from(*a) / 10.0).collect(),
            edges: edges.collect(),
            groups: groups.collect(),
            any: any.map(|(mean, count)| AnyEdge {
                mean: f64::from(mean) / 10.0,
                count: f64::from(count),
            }),
        }
    }
}

prop_compose! {
    fn problem(servers_max: usize, jobs_max: usize, tasks_max: usize)(
        kinds in 0_usize..3,
        servers in 0..=servers_max,
        jobs in 0..=jobs_max,
    )(
        kinds in Just(kinds),
        capacity in prop::collection::vec(prop::collection::vec(0_u32..60, kinds), servers),
        tasks in prop::collection::vec(
            prop::collection::vec(any_task(kinds, servers), 1..=tasks_max), jobs),
        spread in prop::collection::vec(any::<bool>(), jobs),
        slot in 1_u64..50,
        g in prop::sample::select(vec![Growth::Source, Growth::Loglog, Growth::None]),
        scale in prop::sample::select(vec![1.0, 0.05, 0.0]),
    ) -> Problem {
        let server = |(s, c): (usize, &Vec<u32>)| Server {
            name: format!("s{s}"),
            capacity: c.iter().map(|x| f64::from(*x) / 10.0).collect(),
            group: (s % 3 < 2).then(|| format!("g{}", s % 3)),
        };
        let job = |(j, tasks): (usize, &Vec<Task>)| Job {
            id: format!("j{j}"),
            tasks: tasks.clone(),
            spread: spread[j],
        };
        Problem {
            kinds: (0..kinds).map(|k| format!("k{k}")).collect(),
            cost: Some(vec![0.01; kinds]),
            slot,
            g,
            bonus_scale: scale,
            m: None,
            servers: capacity.iter().enumerate().map(server).collect(),
            jobs: tasks.iter().enumerate().map(job).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Goal: the exact mode is the best assignment there is, and no bound is below it.
    #[test]
    fn exact_equals_enumeration(problem in problem(3, 3, 2), seed in 0_u64..100) {
        let best = oracle::best(&problem).unwrap().unwrap();
        for mode in MODES {
            let answer = run(&problem, mode, seed, 1);
            check(&problem, &answer);
            if mode != Mode::Seed {
                prop_assert!(answer.proven_optimal);
                prop_assert_eq!(answer.untried_edges, best.untried);
                prop_assert!((answer.index - best.index).abs() < 1e-8, "{answer:?} {best:?}");
            }
            prop_assert!(answer.untried_edges <= best.untried);
            if let Some(bound) = answer.upper_bound {
                prop_assert!(bound >= best.index - 1e-9, "{bound} {best:?}");
            }
        }
    }

    /// Goal: answers of larger problems are complete gangs within capacity.
    #[test]
    fn answers_are_gang_complete(problem in problem(12, 16, 5), seed in 0_u64..100) {
        check(&problem, &run(&problem, Mode::Seed, seed, 1));
        let due = std::time::Instant::now() + std::time::Duration::from_millis(10);
        let remaining = || Some(due.saturating_duration_since(std::time::Instant::now()));
        let options = Options { seed, remaining: &remaining, ..Options::default() };
        check(&problem, &solve(&problem, &options).unwrap());
    }

    /// Goal: the document's estimator is the plain mean of each class as a part of the best one,
    /// whatever the age and the order of the runs.
    #[test]
    fn documents_means_are_plain(
        rows in prop::collection::vec((0_u32..4, 0.1_f64..5.0, 0_i64..100_000_000), 1..60),
    ) {
        let options = SpeedsOptions { estimator: Estimator::Document, ..SpeedsOptions::default() };
        let mut speeds = Speeds::new(options).unwrap();
        for (node, rate, end_s) in &rows {
            let run = Observation { seconds: 1.0 / rate, work: None, joules: None, end_s: *end_s };
            let name = node.to_string();
            let on = RunNode { name: &name, class: &name };
            speeds.learn("", "t", None, &[on], &run).unwrap();
        }
        let stat = |node: u32| {
            let of = || rows.iter().filter(|r| r.0 == node).map(|r| r.1);
            (of().count() as f64, of().sum::<f64>() / (of().count() as f64).max(1.0))
        };
        let top = (0..4).map(|n| stat(n).1).fold(0.0, f64::max);
        let trust = speeds.trust("t", None, 100_000_000);
        for node in 0..4 {
            let (got, (count, mean)) = (trust.on(&node.to_string()), stat(node));
            prop_assert!((got.count - count).abs() < 1e-9);
            prop_assert!((got.mean - mean / top).abs() < 1e-9, "{got:?}");
        }
    }

    /// Goal: shrinkage stays between the two means and never invents observations.
    #[test]
    fn shrinkage_is_between_own_and_class(
        rows in prop::collection::vec((0_u32..3, 0_u32..4, 0.1_f64..5.0), 1..60),
        strength in 0.0_f64..20.0,
    ) {
        let options = SpeedsOptions { prior_strength: strength, ..SpeedsOptions::default() };
        let mut speeds = Speeds::new(options).unwrap();
        let class_of = |node: u32| if node.is_multiple_of(2) { "even" } else { "odd" };
        for (slot, (ty, node, rate)) in (0..).zip(&rows) {
            let run = Observation { seconds: 1.0 / rate, work: None, joules: None, end_s: slot };
            let on = RunNode { name: &node.to_string(), class: class_of(*node) };
            speeds.learn("", &ty.to_string(), None, &[on], &run).unwrap();
        }
        prop_assert_eq!(speeds.round(), rows.len() as u64 + 1);
        for (ty, node, _) in &rows {
            let of = |same: &dyn Fn(u32) -> bool| {
                let values: Vec<f64> = rows.iter()
                    .filter(|r| r.0 == *ty && same(r.1)).map(|r| r.2).collect();
                let count = values.len() as f64;
                Stat { count, mean: values.iter().sum::<f64>() / count.max(1.0) }
            };
            let of_class = |class: &str| of(&|n| class_of(n) == class);
            let top = of_class("even").mean.max(of_class("odd").mean);
            let class = class_of(*node);
            let got = speeds.estimate(&ty.to_string(), &node.to_string(), class, 60);
            let own = of(&|n| n == *node);
            let rest = of(&|n| n != *node && class_of(n) == class);
            let weight = rest.count.min(strength);
            let mean = (own.count * own.mean + weight * rest.mean) / (own.count + weight);
            prop_assert!((got.speed - mean / top).abs() < 1e-9, "{got:?} {own:?} {rest:?}");
            prop_assert!((got.count - own.count - weight).abs() < 1e-9);
            prop_assert_eq!(got.source, Source::Node);
        }
    }
}

/// A contended problem of a given size, made without random numbers.
fn contended(servers: usize, jobs: usize) -> Problem {
    let mut state = 88_172_645_463_325_252_u64;
    let mut draw = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let mut list = Vec::new();
    for j in 0..jobs {
        let request: Vec<f64> = (0..4).map(|_| draw(12) as f64).collect();
        let any = AnyEdge { mean: 0.1 + draw(100) as f64 / 50.0, count: 1.0 + draw(9) as f64 };
        let tasks = 1 + draw(8);
        let task = Task { request, any: Some(any), ..Task::default() };
        let tasks = vec![task; usize::try_from(tasks).unwrap()];
        list.push(Job { id: format!("j{j}"), tasks, spread: j % 4 == 3 });
    }
    Problem {
        kinds: ["a", "b", "c", "d"].map(String::from).to_vec(),
        cost: None,
        slot: 20,
        g: Growth::Source,
        bonus_scale: 0.02,
        m: None,
        servers: (0..servers)
            .map(|s| Server {
                name: format!("n{s}"),
                capacity: vec![24.0, 24.0, 24.0, 24.0],
                ..Server::default()
            })
            .collect(),
        jobs: list,
    }
}

#[test]
fn same_seed_same_bytes_for_one_and_two_threads() {
    let problem = contended(12, 40);
    for mode in [Mode::Seed, Mode::Ga] {
        let text =
            |seed, threads| serde_json::to_string(&run(&problem, mode, seed, threads)).unwrap();
        let one = text(7, 1);
        assert_eq!(one, text(7, 2), "{mode:?}");
        assert_eq!(one, text(7, 1), "{mode:?}");
    }
}

#[test]
fn large_problems_use_windows_and_stay_valid() {
    let problem = contended(700, 900);
    let due = std::time::Instant::now() + std::time::Duration::from_millis(1500);
    let remaining = || Some(due.saturating_duration_since(std::time::Instant::now()));
    let options = Options { threads: 2, remaining: &remaining, ..Options::default() };
    let answer = solve(&problem, &options).unwrap();
    check(&problem, &answer);
    assert!(answer.gap.unwrap() < 0.2, "{:?}", answer.gap);
}

#[test]
fn a_warm_start_is_never_lost() {
    let mut problem = contended(12, 40);
    let (seed, nothing) = (3, Bred::default());
    let options = Options { seed, bred: Some(&nothing), ..Options::default() };
    let before = solve(&problem, &options).unwrap();
    let now = || Some(std::time::Duration::ZERO);
    let options = Options { bred: Some(&before.bred), remaining: &now, ..options };
    // Names count, not places.
    problem.servers.reverse();
    problem.jobs.reverse();
    let after = solve(&problem, &options).unwrap();
    assert!(after.index >= before.index - 1e-9);
    check(&problem, &after);
}

#[test]
fn tenths_fill_a_device_exactly() {
    let task = Task {
        request: vec![0.1],
        any: Some(AnyEdge { mean: 1.0, count: 1.0 }),
        ..Task::default()
    };
    let problem = Problem {
        kinds: vec!["gpu".into()],
        cost: None,
        slot: 1,
        g: Growth::None,
        bonus_scale: 1.0,
        m: None,
        servers: vec![Server { name: "n".into(), capacity: vec![1.0], ..Server::default() }],
        jobs: (0..12)
            .map(|j| Job { id: format!("j{j}"), tasks: vec![task.clone()], spread: false })
            .collect(),
    };
    for mode in MODES {
        let answer = run(&problem, mode, 1, 1);
        assert_eq!(answer.assignment.len(), 10, "{mode:?}");
    }
}

#[test]
fn bad_input_names_the_field() {
    let edit = |change: &dyn Fn(&mut Problem)| {
        let mut problem = contended(2, 2);
        change(&mut problem);
        solve(&problem, &Options::default()).unwrap_err().to_string()
    };
    let edge = |server: &str| Edge { server: server.into(), mean: 1.0, count: 1.0 };
    type Change<'a> = &'a dyn Fn(&mut Problem);
    let cases: [(Change<'_>, &str); 9] = [
        (&|p| p.slot = 0, "slot: must be at least 1"),
        (&|p| p.bonus_scale = -1.0, "bonus_scale: must be >= 0, got -1"),
        (&|p| p.cost = Some(vec![1.0]), "cost: must have 4 entries"),
        (&|p| p.servers[1].name = "n0".into(), "servers[1].name: duplicate server name \"n0\""),
        (&|p| p.servers[1].capacity[2] = f64::NAN, "servers[1].capacity[2]: must be a finite"),
        (&|p| p.jobs[1].id = "j0".into(), "jobs[1].id: duplicate job id \"j0\""),
        (&|p| p.jobs[0].tasks.clear(), "jobs[0].tasks: a gang needs at least one task"),
        (&|p| p.jobs[1].tasks[0].request[3] = -5.0, "jobs[1].tasks[0].request[3]: must be >= 0"),
        (
            &|p| p.jobs[0].tasks[0].edges = [edge("n1"), edge("x")].into(),
            "jobs[0].tasks[0].edges[1].server: unknown server \"x\"",
        ),
    ];
    for (change, expected) in cases {
        let got = edit(change);
        assert!(got.starts_with(expected), "got {got}\nexpected {expected}");
    }
}

#[test]
fn exact_refuses_what_is_too_large_and_names_the_limit() {
    let error = solve(&contended(65, 2), &Options { mode: Mode::Exact, ..Options::default() });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("EXACT_SERVERS_MAX = 64"), "{text}");
}
