// SPDX-License-Identifier: GPL-3.0-or-later
//! Every answer of the bisection method against an evaluator of its own: times by formulas
//! 3 and 4, cores never shared, bounds valid; small problems against the optimum.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;

use phalanx_methods::data_jobs::bisect::{Mode, Options, Problem, SolveError, solve};
use proptest::prelude::*;
use serde_json::{Value, json};

fn options(mode: Mode) -> Options<'static> {
    Options { mode, seed: 7, expired: &|| false, explain: false }
}

fn run(text: &str, mode: Mode) -> Value {
    let problem: Problem<'_> = serde_json::from_str(text).unwrap();
    serde_json::to_value(solve(&problem, &options(mode)).unwrap()).unwrap()
}

/// Size and hosts (as bits) of each block.
type Blocks = Vec<(u32, u32)>;

/// Problems that mode `exact` can do.
fn problems(start: &'static str) -> impl Strategy<Value = String> {
    let hosts = proptest::collection::vec((1_usize..3, 0_usize..2), 1..4);
    let block = (10_u32..100, 1_u32..8);
    let job = (5_u32..60, proptest::collection::vec(block, 1..6));
    let jobs = proptest::collection::vec(job, 1..5);
    (hosts, jobs, 0_u32..4, 1_u8..4, prop_oneof![Just(20.0), Just(125.0)]).prop_map(
        move |(hosts, jobs, alpha, moment, transfer)| {
            let count = hosts.len();
            let host = |(k, (cores, late)): (usize, &(usize, usize))| {
                let waits: Vec<usize> = (1..=*cores).map(|c| late * 700 * c).collect();
                json!({"name": format!("h{k}"), "cores": cores, "available_ms": waits})
            };
            let list: Vec<Value> = hosts.iter().enumerate().map(host).collect();
            let job = |(i, (speed, blocks)): (usize, &(u32, Blocks))| {
                let block = |(b, (size, mask)): (usize, &(u32, u32))| {
                    let mut on: Vec<usize> = (0..count).filter(|k| mask >> k & 1 == 1).collect();
                    if on.is_empty() {
                        on.push(b % count);
                    }
                    let on: Vec<String> = on.iter().map(|k| format!("h{k}")).collect();
                    json!({"id": format!("b{b}"), "size_mb": size, "replicas": on})
                };
                let blocks: Vec<Value> = blocks.iter().enumerate().map(block).collect();
                json!({"id": format!("j{i}"), "speed_mb_per_s": speed, "blocks": blocks})
            };
            let jobs: Vec<Value> = jobs.iter().enumerate().map(job).collect();
            json!({"alpha": f64::from(alpha) * 0.1, "transfer_mb_per_s": transfer,
                   "start": start, "moment": moment, "hosts": list, "jobs": jobs})
            .to_string()
        },
    )
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// Checks an answer by the formulas alone; returns its makespan.
fn evaluate(text: &str, answer: &Value) -> f64 {
    let problem: Value = serde_json::from_str(text).unwrap();
    let (alpha, transfer) = (&problem["alpha"], &problem["transfer_mb_per_s"]);
    let gang = problem["start"] == "gang";
    // (from, to) of every core.
    let mut busy: HashMap<(String, u64), Vec<(f64, f64)>> = HashMap::new();
    for host in problem["hosts"].as_array().unwrap() {
        for (c, wait) in host["available_ms"].as_array().unwrap().iter().enumerate() {
            let name = host["name"].as_str().unwrap().to_owned();
            busy.insert((name, c as u64), vec![(f64::MIN, wait.as_f64().unwrap())]);
        }
    }
    let (mut makespan, mut moved) = (0.0_f64, 0.0);
    let jobs = problem["jobs"].as_array().unwrap();
    assert_eq!(answer["jobs"].as_array().unwrap().len(), jobs.len());
    for (job, found) in jobs.iter().zip(answer["jobs"].as_array().unwrap()) {
        assert_eq!(job["id"], found["id"]);
        let cores = found["cores"].as_array().unwrap();
        let keep = 1.0 - alpha.as_f64().unwrap() * (cores.len() as f64 - 1.0);
        let speed = job["speed_mb_per_s"].as_f64().unwrap() * keep;
        let mut left: HashMap<&str, &Value> = HashMap::new();
        for block in job["blocks"].as_array().unwrap() {
            left.insert(block["id"].as_str().unwrap(), block);
        }
        let (start, end) = (found["start_ms"].as_f64().unwrap(), found["end_ms"].as_f64().unwrap());
        let (mut longest, mut last) = (0.0_f64, 0.0_f64);
        for core in cores {
            let mut load = 0.0;
            for dealt in core["blocks"].as_array().unwrap() {
                let block = left.remove(dealt["id"].as_str().unwrap()).unwrap();
                let size = block["size_mb"].as_f64().unwrap();
                let holders = block["replicas"].as_array().unwrap();
                load += 1000.0 * size / speed;
                if holders.contains(&core["host"]) {
                    assert!(dealt["from"].is_null());
                } else {
                    assert!(holders.contains(&dealt["from"]));
                    load += 1000.0 * size / transfer.as_f64().unwrap();
                    moved += size;
                }
            }
            longest = longest.max(load);
            let own = if gang { start } else { core["start_ms"].as_f64().unwrap() };
            assert!(own >= start - 1e-6);
            last = last.max(own + load);
            let key = (core["host"].as_str().unwrap().to_owned(), core["core"].as_u64().unwrap());
            busy.get_mut(&key).unwrap().push((own, end));
        }
        assert!(left.is_empty(), "blocks that nobody has: {left:?}");
        assert!(close(end, if gang { start + longest } else { last }), "{found}");
        makespan = makespan.max(end);
    }
    for (core, mut spans) in busy {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in spans.windows(2) {
            assert!(pair[1].0 >= pair[0].1 - 1e-6, "{core:?} runs two jobs: {pair:?}");
        }
    }
    assert!(close(answer["makespan_ms"].as_f64().unwrap(), makespan));
    assert!(close(answer["transferred_mb"].as_f64().unwrap(), moved));
    assert!(answer["lower_bound_ms"].as_f64().unwrap() <= makespan + 1e-6);
    makespan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn answers_hold_and_no_mode_beats_exact(text in problems("gang")) {
        let [seed, best, exact] =
            [Mode::Seed, Mode::Best, Mode::Exact].map(|mode| run(&text, mode));
        let bound = seed["lower_bound_ms"].as_f64().unwrap();
        let [seed, best, exact] = [&seed, &best, &exact].map(|answer| evaluate(&text, answer));
        prop_assert!(best <= seed + 1e-6);
        prop_assert!(exact <= best + 1e-6);
        prop_assert!(bound <= exact + 1e-6, "bound {bound}, optimum {exact}");
    }

    #[test]
    fn cores_that_begin_alone_hold(text in problems("async")) {
        let [seed, best] = [Mode::Seed, Mode::Best].map(|mode| evaluate(&text, &run(&text, mode)));
        prop_assert!(best <= seed + 1e-6);
    }
}

#[test]
fn exact_names_its_limit() {
    let block = |b: usize| json!({"id": format!("b{b}"), "size_mb": 1, "replicas": ["h"]});
    let blocks: Vec<Value> = (0..100).map(block).collect();
    let text = json!({"hosts": [{"name": "h", "cores": 2}],
        "jobs": [{"id": "j", "speed_mb_per_s": 1, "blocks": blocks}]})
    .to_string();
    let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
    let error = solve(&problem, &options(Mode::Exact)).unwrap_err();
    assert!(matches!(error, SolveError::TooLarge(_)));
    assert_eq!(error.to_string(), "mode exact: at most 10 blocks in one job, got 100");
}

#[test]
fn a_passed_deadline_still_gives_an_answer() {
    let text = json!({"alpha": 0.05, "transfer_mb_per_s": 125, "start": "gang",
        "hosts": [{"name": "h", "cores": 2, "available_ms": [0, 5]}],
        "jobs": [{"id": "j", "speed_mb_per_s": 1,
                  "blocks": [{"id": "b", "size_mb": 1, "replicas": ["h"]}]}]})
    .to_string();
    let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
    for mode in [Mode::Seed, Mode::Best, Mode::Exact] {
        let late = Options { expired: &|| true, ..options(mode) };
        let answer = serde_json::to_value(solve(&problem, &late).unwrap()).unwrap();
        evaluate(&text, &answer);
        assert_eq!(answer["stopped"], "deadline", "{mode:?}");
    }
}
