// SPDX-License-Identifier: GPL-3.0-or-later
//! Worked examples of the bag planner (`docs/methods.md`, section Bags).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use phalanx_methods::bag::{Answer, Mode, Options, Problem, SolveError, solve};
use serde_json::{Value, json};

fn run(problem: &Value, mode: &str) -> Answer {
    let problem: Problem = serde_json::from_value(problem.clone()).unwrap();
    let mode = Mode::from_name(mode).unwrap();
    solve(&problem, &Options { mode, explain: false }).unwrap()
}

#[track_caller]
fn near(found: f64, wanted: f64) {
    let slack = 1e-6 * wanted.abs().max(1.0);
    assert!((found - wanted).abs() <= slack, "found {found}, wanted {wanted}");
}

/// Compares values that the document gives with fewer digits than the golden tolerance.
#[track_caller]
fn printed(found: f64, wanted: f64, digits: i32) {
    let slack = 0.500_000_1 * 10_f64.powi(-digits);
    assert!((found - wanted).abs() <= slack, "found {found}, wanted {wanted}");
}

fn types(count: usize) -> Value {
    (0..count).map(|j| json!({"name": format!("m{j}")})).collect()
}

fn two_machines(revenue: f64) -> Value {
    json!({"machine_types": types(2), "etc_s": [[10, 20]], "apc_w": [[300, 100]],
           "users": [{"type": 0, "tasks": 12, "revenue": revenue}]})
}

#[test]
fn two_machines_low_revenue_takes_only_the_cheap_one() {
    let answer = run(&two_machines(30_000.0), "seed");
    let user = &answer.users[0];
    assert_eq!((user.x.as_slice(), user.tau), ([0, 12].as_slice(), Some(2)));
    near(user.makespan_s, 240.0);
    near(user.objective.unwrap(), 25.0);
    near(user.fractional_objective.unwrap(), 25.0);
}

#[test]
fn two_machines_high_revenue_takes_both() {
    let answer = run(&two_machines(40_000.0), "seed");
    let user = &answer.users[0];
    assert_eq!((user.x.as_slice(), user.tau), ([8, 4].as_slice(), Some(1)));
    near(user.makespan_s, 80.0);
    near(answer.last.energy_j, 32_000.0);
    near(user.objective.unwrap(), 100.0);
}

/// Goal: formula 13: idle machines take power until the makespan, and a task's power is counted
/// above that.
#[test]
fn idle_power_counts_for_the_makespan() {
    let mut problem = two_machines(33_000.0);
    problem["idle_w"] = json!([50, 20]);
    for mode in ["seed", "exact", "integer", "best"] {
        let answer = run(&problem, mode);
        // (33000 - 26400) / 80 - 70; with all on the cheap one 13800 / 240 - 70.
        assert_eq!(answer.users[0].x, [8, 4], "{mode}");
        near(answer.last.objective.unwrap(), 12.5);
        near(answer.last.energy_j, 32_000.0);
        near(answer.lp_bound.unwrap(), 12.5);
    }
    let greedy = run(&problem, "greedy");
    near(greedy.last.objective.unwrap(), -12.5);
    near(greedy.last.energy_j, 24_000.0 + 50.0 * 240.0);
}

/// Goal: within 250 W the best split is (6, 6): 30,000 J in 120 s.
#[test]
fn a_power_cap_slows_the_plan_down() {
    let mut problem = two_machines(40_000.0);
    problem["power_cap_w"] = json!(250);
    let answer = run(&problem, "best");
    assert_eq!(answer.users[0].x, [6, 6]);
    near(answer.last.objective.unwrap(), 10_000.0 / 120.0);
    near(answer.lp_bound.unwrap(), 10_000.0 / 120.0);
    problem["power_cap_w"] = json!(400);
    near(run(&problem, "best").last.objective.unwrap(), 100.0);
    problem["power_cap_w"] = json!(99);
    let problem: Problem = serde_json::from_value(problem).unwrap();
    let refused = solve(&problem, &Options::default()).unwrap_err();
    let text = "power_cap_w: no plan of this mode takes less than 100.0 W, got 99";
    assert_eq!(
        refused,
        SolveError::Infeasible(phalanx_core::problem::InputError::new(
            "power_cap_w",
            text.split_once(": ").unwrap().1
        ))
    );
}

fn patent() -> Value {
    json!({"machine_types": types(4),
        "etc_s": [[59.72, 27.01, 72.81, 42.15], [105.96, 55.72, 109.78, 88.14]],
        "apc_w": [[139.6, 223.1, 97.5, 121.3], [137.2, 215.0, 98.7, 119.8]],
        "users": [{"type": 0, "tasks": 40, "revenue": 200_000},
                  {"type": 1, "tasks": 80, "revenue": 1_000_000}]})
}

#[test]
fn authors_patent_example() {
    let answer = run(&patent(), "seed");
    let [first, second] = answer.users.as_slice() else { panic!("two users") };
    assert_eq!((first.x.as_slice(), first.tau), ([0, 0, 0, 40].as_slice(), Some(4)));
    near(first.makespan_s, 1686.0);
    printed(first.fractional_objective.unwrap(), -2.6760, 3);
    assert_eq!((second.x.as_slice(), second.tau), ([0, 45, 24, 11].as_slice(), Some(2)));
    printed(second.fractional_objective.unwrap(), 30.3900, 4);
    printed(second.makespan_s, 2655.54, 2);
    printed(answer.last.energy_j, 1_119_800.556, 3);
    printed(answer.last.objective.unwrap(), 30.2008, 4);
}

fn three_machines() -> Value {
    json!({"machine_types": types(3),
        "etc_s": [[4, 6, 10], [5, 5, 8], [3, 9, 6]],
        "apc_w": [[250, 120, 60], [200, 150, 80], [220, 70, 130]],
        "users": [{"type": 0, "tasks": 30, "revenue": 25_200},
                  {"type": 1, "tasks": 4, "revenue": 3_584},
                  {"type": 2, "tasks": 25, "revenue": 22_050},
                  {"type": 0, "tasks": 2, "revenue": 1_680}]})
}

#[test]
fn three_machines_four_users_paper() {
    let answer = run(&three_machines(), "seed");
    let x: Vec<&[u64]> = answer.users.iter().map(|user| user.x.as_slice()).collect();
    assert_eq!(x, [[0, 18, 12], [0, 3, 1], [0, 25, 0], [0, 0, 2]]);
    let makespan: Vec<f64> = answer.users.iter().map(|user| user.makespan_s).collect();
    assert_eq!(makespan, [120.0, 128.0, 348.0, 348.0]);
    for (user, wanted) in answer.users.iter().zip([42.0, 44.79688, 34.58046, 35.95977]) {
        printed(user.objective.unwrap(), wanted, 5);
    }
    near(answer.last.energy_j, 40_000.0);
}

#[test]
fn three_machines_four_users_other_modes() {
    let exact = run(&three_machines(), "exact");
    assert_eq!(exact.users[2].x, [24, 1, 0]);
    printed(exact.last.objective.unwrap(), 84.5942, 4);
    printed(run(&three_machines(), "integer").last.objective.unwrap(), 86.93651, 5);
    printed(run(&three_machines(), "greedy").last.objective.unwrap(), 42.625, 5);
    printed(run(&three_machines(), "average").last.objective.unwrap(), 44.73885, 5);
    assert!(run(&three_machines(), "best").last.objective.unwrap() >= 86.9365);
}

#[test]
fn brute_force_single_user() {
    let problem = json!({"machine_types": types(2), "etc_s": [[34, 31]],
        "apc_w": [[106.2, 108.8]], "initial_load_s": [60, 0],
        "users": [{"type": 0, "tasks": 12, "revenue": 63_864}]});
    let integer = run(&problem, "integer");
    assert_eq!(integer.users[0].x, [5, 7]);
    printed(integer.last.objective.unwrap(), 96.5235, 4);
    let paper = run(&problem, "seed");
    assert_eq!(paper.users[0].x, [4, 8]);
    printed(paper.last.objective.unwrap(), 90.4774, 4);
    let exact = run(&problem, "exact");
    printed(exact.users[0].fractional_objective.unwrap(), 99.6774, 4);
}

#[test]
fn a_type_of_several_machines_is_a_fluid() {
    let mut problem = two_machines(40_000.0);
    problem["machine_types"] = json!([{"name": "a", "count": 2}, {"name": "b", "count": 4}]);
    let answer = run(&problem, "seed");
    // Rates are 5 s and 5 s per task: 6 tasks each in 30 s.
    assert_eq!(answer.users[0].x, [6, 6]);
    near(answer.last.makespan_s, 30.0);
    near(answer.last.energy_j, 6.0 * 3000.0 + 6.0 * 2000.0);
    problem["initial_load_s"] = json!([30, 0]);
    near(run(&problem, "greedy").last.makespan_s, 12.0 * 20.0 / 4.0);
    let average = run(&problem, "average");
    assert_eq!(average.users[0].x, [6, 6]);
    near(average.last.makespan_s, (30.0 + 60.0) / 2.0);
}

#[test]
fn nothing_to_do() {
    for (name, _) in Mode::ALL {
        let mut problem = two_machines(5.0);
        problem["users"] = json!([]);
        let answer = run(&problem, name);
        assert_eq!(answer.last.objective, None);
        assert_eq!((answer.last.makespan_s, answer.last.revenue), (0.0, 0.0));
        assert_eq!(answer.lp_bound, None);
        problem["users"] = json!([{"type": 0, "tasks": 0, "revenue": 5}]);
        let answer = run(&problem, name);
        assert_eq!(answer.users[0].x, [0, 0]);
        assert_eq!(answer.users[0].objective, None);
        problem["initial_load_s"] = json!([10, 0]);
        assert_eq!(run(&problem, name).users[0].objective, Some(0.5));
    }
}

#[test]
fn no_machines_is_infeasible() {
    let mut problem = two_machines(5.0);
    problem["machine_types"] = json!([{"name": "a", "count": 0}, {"name": "b", "count": 0}]);
    let problem: Problem = serde_json::from_value(problem).unwrap();
    let error = solve(&problem, &Options::default()).unwrap_err();
    assert!(matches!(&error, SolveError::Infeasible(at) if at.path == "users[0].tasks"));
}

#[test]
fn bad_input_names_the_field() {
    let cases = [
        ("energy_price", json!(-1), "energy_price: must be >= 0, got -1"),
        (
            "etc_s",
            json!([[10]]),
            "etc_s[0]: expected 2 entries (one for each of `machine_types`), got 1",
        ),
        ("etc_s", json!([[10, 0]]), "etc_s[0][1]: must be > 0, got 0"),
        ("apc_w", json!([[1, -2]]), "apc_w[0][1]: must be >= 0, got -2"),
        ("apc_w", json!([]), "apc_w: expected 1 entries (one for each of `etc_s`), got 0"),
        (
            "initial_load_s",
            json!([1]),
            "initial_load_s: expected 2 entries (one for each of `machine_types`), got 1",
        ),
        ("initial_load_s", json!([1, -1]), "initial_load_s[1]: must be >= 0, got -1"),
        (
            "users",
            json!([{"type": 1, "tasks": 1, "revenue": 0}]),
            "users[0].type: must be < 1, the rows of etc_s, got 1",
        ),
        (
            "machine_types",
            json!([{"name": "a"}, {"name": "a"}]),
            "machine_types[1].name: \"a\" is already the name of machine_types[0].name",
        ),
        ("etc_s", json!([[1e306, 1]]), "apc_w[0][0]: energy of one task overflows, got 300 W"),
        (
            "users",
            json!([{"type": 0, "tasks": 1, "revenue": 1.7e308},
                   {"type": 0, "tasks": 1, "revenue": 1.7e308}]),
            "users: the loads, energies or revenues of all users overflow",
        ),
    ];
    for (field, value, wanted) in cases {
        let mut problem = two_machines(5.0);
        problem[field] = value;
        let problem: Problem = serde_json::from_value(problem).unwrap();
        let error = solve(&problem, &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    let mut problem = two_machines(5.0);
    problem["users"][0]["colour"] = json!(1);
    assert!(serde_json::from_value::<Problem>(problem).is_err());
}
