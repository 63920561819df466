// SPDX-License-Identifier: GPL-3.0-or-later
//! The bag planner against brute force and a general LP solver, and properties
//! that every answer must have, on random problems.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use microlp::{ComparisonOp, OptimizationDirection};
use phalanx_methods::bag::{Answer, MachineType, Mode, Options, Problem, User, solve};
use proptest::prelude::*;

fn run(problem: &Problem, mode: Mode) -> Answer {
    solve(problem, &Options { mode, explain: false }).unwrap()
}

fn last(problem: &Problem, mode: Mode) -> f64 {
    run(problem, mode).last.objective.unwrap()
}

/// Rates, counts, loads and bags. Rates have few digits, so that ties happen;
/// revenue is `gamma` times the least energy, with gamma around 1.
fn problems(
    machines: std::ops::RangeInclusive<usize>,
    types: usize,
    users: std::ops::RangeInclusive<usize>,
    tasks: u64,
    gamma: std::ops::Range<f64>,
) -> impl Strategy<Value = Problem> {
    machines.prop_flat_map(move |machines| {
        let matrix = |digits: u32| {
            let row = proptest::collection::vec(1..=digits, machines);
            proptest::collection::vec(row, types)
        };
        let load = proptest::collection::vec(prop_oneof![Just(0_u32), 1_u32..80], machines);
        let user = (0..types, 0..=tasks, gamma.clone());
        let users = proptest::collection::vec(user, users.clone());
        let counts = proptest::collection::vec(1_u64..4, machines);
        (matrix(40), matrix(300), load, users, counts, prop_oneof![Just(1.0), 0.0..3.0]).prop_map(
            |(etc, apc, load, users, counts, price)| {
                build(&etc, &apc, &load, &users, &counts, price)
            },
        )
    })
}

fn build(
    etc: &[Vec<u32>],
    apc: &[Vec<u32>],
    load: &[u32],
    users: &[(usize, u64, f64)],
    counts: &[u64],
    price: f64,
) -> Problem {
    let floats = |rows: &[Vec<u32>]| -> Vec<Vec<f64>> {
        rows.iter().map(|row| row.iter().map(|&cell| f64::from(cell)).collect()).collect()
    };
    let least = |k: usize| etc[k].iter().zip(&apc[k]).map(|(t, p)| t * p).min().unwrap();
    let user = |&(task_type, tasks, gamma): &(usize, u64, f64)| User {
        task_type,
        tasks,
        revenue: gamma * price.max(0.1) * tasks as f64 * f64::from(least(task_type)),
    };
    let machine = |(j, &count): (usize, &u64)| MachineType { name: format!("m{j}"), count };
    Problem {
        energy_price: price,
        machine_types: counts.iter().enumerate().map(machine).collect(),
        etc_s: floats(etc),
        apc_w: floats(apc),
        initial_load_s: Some(load.iter().map(|&load| f64::from(load)).collect()),
        idle_w: None,
        power_cap_w: None,
        revise: false,
        users: users.iter().map(user).collect(),
    }
}

/// Seconds that one task of type `k` adds to machine type `j`.
fn rate(problem: &Problem, k: usize, j: usize) -> f64 {
    problem.etc_s[k][j] / problem.machine_types[j].count as f64
}

fn joules(problem: &Problem, k: usize, j: usize) -> f64 {
    problem.etc_s[k][j] * problem.apc_w[k][j]
}

fn loads(problem: &Problem) -> Vec<f64> {
    let load = problem.initial_load_s.clone().unwrap();
    load.iter().zip(&problem.machine_types).map(|(l, machine)| l / machine.count as f64).collect()
}

/// Profit per second by the definition, from the splits alone; also checks what
/// the answer says about every user.
fn recompute(problem: &Problem, answer: &Answer) -> f64 {
    let mut load = loads(problem);
    let (mut revenue, mut energy) = (0.0, 0.0);
    let mut objective = f64::NAN;
    assert_eq!(answer.users.len(), problem.users.len());
    for (user, split) in problem.users.iter().zip(&answer.users) {
        assert_eq!(split.x.iter().sum::<u64>(), user.tasks);
        revenue += user.revenue;
        for (j, &x) in split.x.iter().enumerate() {
            load[j] += x as f64 * rate(problem, user.task_type, j);
            energy += x as f64 * joules(problem, user.task_type, j);
        }
        let makespan = load.iter().copied().fold(0.0, f64::max);
        assert!(close(split.makespan_s, makespan));
        if makespan > 0.0 {
            objective = (revenue - problem.energy_price * energy) / makespan;
            assert!(close(split.objective.unwrap(), objective));
        } else {
            assert_eq!(split.objective, None);
        }
    }
    assert!(close(answer.last.energy_j, energy) && close(answer.last.revenue, revenue));
    objective
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// The best split of the only user, by trying all.
fn brute_force(problem: &Problem) -> f64 {
    fn try_all(problem: &Problem, x: &mut Vec<u64>, rest: u64, best: &mut f64) {
        let user = &problem.users[0];
        if x.len() + 1 == problem.machine_types.len() {
            x.push(rest);
            let mut makespan = 0.0_f64;
            let mut energy = 0.0;
            for (j, (&x, load)) in x.iter().zip(loads(problem)).enumerate() {
                makespan = makespan.max(load + x as f64 * rate(problem, user.task_type, j));
                energy += x as f64 * joules(problem, user.task_type, j);
            }
            *best = best.max((user.revenue - problem.energy_price * energy) / makespan);
            x.pop();
            return;
        }
        for tasks in 0..=rest {
            x.push(tasks);
            try_all(problem, x, rest - tasks, best);
            x.pop();
        }
    }
    let mut best = f64::NEG_INFINITY;
    try_all(problem, &mut Vec::new(), problem.users[0].tasks, &mut best);
    best
}

/// The offline programme in a general solver: makespans as rates, r = 1 / T.
fn programme(problem: &Problem) -> f64 {
    let mut lp = microlp::Problem::new(OptimizationDirection::Maximize);
    let revenue: f64 = problem.users.iter().map(|user| user.revenue).sum();
    let infinite = (0.0, f64::INFINITY);
    // Seconds and money near 1 keep that solver's tolerances harmless.
    let unit = problem.users.iter().map(|user| user.tasks as f64 * 20.0).sum::<f64>().max(1.0);
    let r = lp.add_var(revenue / unit, infinite);
    let mut rows: Vec<Vec<(microlp::Variable, f64)>> =
        loads(problem).iter().map(|load| vec![(r, load / unit)]).collect();
    for user in problem.users.iter().filter(|user| user.tasks > 0) {
        let tasks = user.tasks as f64;
        let mut shares = vec![(r, -1.0)];
        for (j, row) in rows.iter_mut().enumerate() {
            let cost = problem.energy_price * tasks * joules(problem, user.task_type, j);
            let share = lp.add_var(-cost / unit, infinite);
            row.push((share, tasks * rate(problem, user.task_type, j) / unit));
            shares.push((share, 1.0));
        }
        lp.add_constraint(&shares, ComparisonOp::Eq, 0.0);
    }
    for row in rows {
        lp.add_constraint(&row, ComparisonOp::Le, 1.0);
    }
    lp.solve().unwrap().into_solution().unwrap().objective()
}

fn has_work(problem: &Problem) -> bool {
    problem.users.iter().any(|user| user.tasks > 0) && !problem.users.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        max_global_rejects: 1_000_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn integer_equals_brute_force(problem in problems(1..=4, 1, 1..=1, 12, 0.3..2.0)) {
        prop_assume!(has_work(&problem));
        let found = last(&problem, Mode::Integer);
        let wanted = brute_force(&problem);
        prop_assert!(close(found, wanted), "found {found}, wanted {wanted}");
    }

    #[test]
    fn exact_equals_the_programme(problem in problems(1..=6, 1, 1..=1, 60, 1.0..2.0)) {
        prop_assume!(has_work(&problem));
        let found = run(&problem, Mode::Exact).users[0].fractional_objective.unwrap();
        let wanted = programme(&problem);
        prop_assert!((found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0),
            "found {found}, wanted {wanted}");
        let seed = run(&problem, Mode::Seed).users[0].fractional_objective.unwrap();
        prop_assert!(seed <= found + 1e-9 * found.abs().max(1.0));
    }

    #[test]
    fn on_empty_machines_the_paper_is_exact(
        mut problem in problems(1..=6, 1, 1..=1, 60, 0.5..2.0)
    ) {
        prop_assume!(has_work(&problem));
        problem.initial_load_s = None;
        let seed = run(&problem, Mode::Seed);
        let exact = run(&problem, Mode::Exact);
        let value = |answer: &Answer| answer.users[0].fractional_objective.unwrap();
        prop_assert!(close(value(&seed), value(&exact)));
    }

    #[test]
    fn bound_equals_the_programme(problem in problems(1..=6, 5, 1..=12, 60, 0.8..2.0)) {
        prop_assume!(has_work(&problem));
        let greedy = run(&problem, Mode::Greedy);
        let found = greedy.lp_bound.unwrap();
        let wanted = programme(&problem);
        // The general solver's tolerance goes with the amounts, not their difference.
        let amount = greedy.last.revenue.abs() / greedy.last.makespan_s;
        prop_assert!((found - wanted).abs() <= 1e-7 * amount.max(1.0),
            "found {found}, wanted {wanted}");
    }

    #[test]
    fn a_power_cap_is_kept(
        mut problem in problems(1..=4, 3, 1..=6, 30, 0.8..2.0), part in 0.2..1.2_f64
    ) {
        prop_assume!(has_work(&problem));
        problem.initial_load_s = Some(vec![0.0; problem.machine_types.len()]);
        let free = run(&problem, Mode::Best);
        let cap = part * free.last.energy_j / free.last.makespan_s;
        problem.power_cap_w = Some(cap);
        let Ok(capped) = solve(&problem, &Options::default()) else { return Ok(()) };
        prop_assert!(capped.last.energy_j <= cap * capped.last.makespan_s * (1.0 + 1e-9));
        let value = recompute(&problem, &capped);
        let bound = capped.lp_bound.unwrap();
        prop_assert!(value <= bound + 1e-7 * bound.abs().max(1.0), "{value} above {bound}");
        for (name, mode) in Mode::ALL {
            if let Ok(other) = solve(&problem, &Options { mode, explain: false }) {
                let reached = recompute(&problem, &other);
                prop_assert!(value >= reached - 1e-9 * reached.abs().max(1.0), "{name}");
            }
        }
    }

    #[test]
    fn best_is_never_below(problem in problems(1..=5, 4, 1..=12, 30, 0.3..2.0)) {
        prop_assume!(has_work(&problem));
        let best = run(&problem, Mode::Best);
        let value = recompute(&problem, &best);
        for (name, mode) in Mode::ALL {
            let other = run(&problem, mode);
            let reached = recompute(&problem, &other);
            prop_assert!(value >= reached - 1e-9 * reached.abs().max(1.0), "{name}");
            let bound = other.lp_bound.unwrap();
            prop_assert!(other.last.objective.unwrap() <= bound, "{name} above the bound");
        }
        let revised = Problem { revise: true, ..problem };
        let revised = recompute(&revised, &run(&revised, Mode::Best));
        prop_assert!(revised >= value - 1e-9 * value.abs().max(1.0));
    }

    #[test]
    fn rules_do_not_look_ahead(problem in problems(1..=5, 4, 2..=10, 30, 0.3..2.0)) {
        let mut shorter = problem.clone();
        shorter.users.pop();
        for mode in [Mode::Seed, Mode::Exact, Mode::Integer, Mode::Greedy, Mode::Average] {
            let (long, short) = (run(&problem, mode), run(&shorter, mode));
            prop_assert_eq!(&long.users[..short.users.len()], &short.users[..]);
        }
    }
}
