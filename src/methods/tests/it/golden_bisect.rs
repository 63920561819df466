// SPDX-License-Identifier: GPL-3.0-or-later
//! Worked examples of the bisection method (`docs/methods.md`, section Data jobs); those of single
//! formulas are in `src/methods/data_jobs/bisect/tests.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use phalanx_methods::data_jobs::bisect::{Mode, Options, Problem, SolveError, solve};
use serde_json::{Value, json};

fn options(mode: Mode) -> Options<'static> {
    Options { mode, seed: 1, expired: &|| false, explain: false }
}

/// The answer as the command line prints it.
fn run(problem: &Value, mode: Mode) -> Value {
    let text = problem.to_string();
    let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
    serde_json::to_value(solve(&problem, &options(mode)).unwrap()).unwrap()
}

#[track_caller]
fn makespan(problem: &Value, mode: Mode, wanted: f64) {
    let found = run(problem, mode)["makespan_ms"].as_f64().unwrap();
    let slack = 1e-6 * wanted.abs().max(1.0);
    assert!((found - wanted).abs() <= slack, "{mode:?}: found {found}, wanted {wanted}");
}

fn job(id: usize, speed: f64, host: usize, sizes: &[f64]) -> Value {
    let block = |(b, size): (usize, &f64)| {
        let replicas = [format!("h{host}")];
        json!({"id": format!("b{b}"), "size_mb": size, "replicas": replicas})
    };
    let blocks: Vec<Value> = sizes.iter().enumerate().map(block).collect();
    json!({"id": format!("job{id}"), "speed_mb_per_s": speed, "blocks": blocks})
}

fn hosts(cores: &[usize]) -> Value {
    cores.iter().enumerate().map(|(k, n)| json!({"name": format!("h{k}"), "cores": n})).collect()
}

fn single_host() -> Value {
    json!({"alpha": 0.03, "hosts": hosts(&[4]), "jobs": [
        job(0, 5.0, 0, &[10.0, 20.0, 16.0]),
        job(1, 5.0, 0, &[9.0, 16.0]),
        job(2, 5.0, 0, &[10.0, 6.0, 20.0, 15.0])]})
}

fn three_hosts() -> Value {
    json!({"alpha": 0.1, "transfer_mb_per_s": 40, "hosts": hosts(&[2, 2, 2]), "jobs": [
        job(0, 10.0, 0, &[10.0, 20.0, 15.0]),
        job(1, 10.0, 1, &[12.0, 10.0, 24.0]),
        job(2, 12.0, 2, &[18.0, 20.0]),
        job(3, 12.0, 2, &[10.0, 18.0, 16.0, 30.0])]})
}

fn equal_jobs() -> Value {
    let jobs: Vec<Value> = (0..6).map(|i| job(i, 10.0, 0, &[100.0])).collect();
    json!({"hosts": hosts(&[2]), "jobs": jobs})
}

#[test]
fn full_single_host_probes_as_printed() {
    let answer = run(&single_host(), Mode::Seed);
    let probes: Vec<(u64, bool)> = answer["probes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["makespan_ms"].as_u64().unwrap(), p["feasible"].as_bool().unwrap()))
        .collect();
    let wanted = [
        (10200, true),
        (7228, false),
        (8714, true),
        (7971, false),
        (8343, false),
        (8529, false),
        (8622, false),
        (8668, true),
        (8645, false),
        (8657, false),
        (8663, true),
        (8660, true),
        (8659, false),
        (8660, true),
        (8660, true),
    ];
    assert_eq!(probes, wanted);
    makespan(&single_host(), Mode::Seed, 8_659.793_814);
}

#[test]
fn full_three_hosts() {
    makespan(&three_hosts(), Mode::Seed, 5_555.555_556);
}

#[test]
fn best_and_exact_reach_the_known_optima() {
    for mode in [Mode::Best, Mode::Exact] {
        makespan(&single_host(), mode, 8_510.638_298);
        makespan(&three_hosts(), mode, 4500.0);
    }
    makespan(&equal_jobs(), Mode::Best, 30_000.0);
}

#[test]
fn upper_bound_of_the_source_is_doubled() {
    makespan(&equal_jobs(), Mode::Seed, 30_000.0);
    let answer = run(&equal_jobs(), Mode::Seed);
    assert_eq!(answer["probes"][0], json!({"makespan_ms": 10_000, "feasible": false}));
}

#[test]
fn bad_input_names_the_field() {
    let cases = [
        (json!({"hosts": [], "jobs": [], "alpha": 1}), "alpha: "),
        (json!({"hosts": [], "jobs": [], "moment": 4}), "moment: "),
        (json!({"hosts": [], "jobs": [], "transfer_mb_per_s": 0}), "transfer_mb_per_s: "),
        (
            json!({"hosts": [{"name": "h0", "cores": 1, "available_ms": []}], "jobs": []}),
            "hosts[0].available_ms: ",
        ),
        (
            json!({"hosts": hosts(&[1]), "jobs": [job(0, 0.0, 0, &[1.0])]}),
            "jobs[0].speed_mb_per_s: ",
        ),
        (
            json!({"hosts": hosts(&[1]), "jobs": [job(0, 1.0, 0, &[1.0, -1.0])]}),
            "jobs[0].blocks[1].size_mb: ",
        ),
        (
            json!({"hosts": hosts(&[1]), "jobs": [job(0, 1.0, 1, &[1.0])]}),
            "jobs[0].blocks[0].replicas[0]: ",
        ),
        (
            json!({"hosts": hosts(&[1]), "jobs": [job(0, 1.0, 0, &[]), job(0, 1.0, 0, &[])]}),
            "jobs[1].id: ",
        ),
    ];
    for (problem, wanted) in cases {
        let text = problem.to_string();
        let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
        let error = solve(&problem, &options(Mode::Seed)).unwrap_err();
        assert!(matches!(error, SolveError::Input(_)), "{text}");
        assert!(error.to_string().starts_with(wanted), "{text}: {error}");
    }
}

#[test]
fn blocks_without_a_core_have_no_answer() {
    let text = json!({"hosts": hosts(&[0]), "jobs": [job(0, 1.0, 0, &[1.0])]}).to_string();
    let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
    let error = solve(&problem, &options(Mode::Seed)).unwrap_err();
    assert!(matches!(error, SolveError::Infeasible(_)), "{error}");
}
