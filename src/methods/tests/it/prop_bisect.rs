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

/// Size of each block, and its hosts as bits.
type Blocks = Vec<(u32, u32)>;

/// Draws milliseconds until a core is free: now, soon, alike, or after all the work of a problem.
fn waits() -> impl Strategy<Value = u32> {
    let late = prop_oneof![Just(100_000), Just(1_000_000)];
    prop_oneof![4 => Just(0), 2 => Just(700), 1 => 0_u32..5000, 3 => late]
}

/// Draws the cores of each host, at most `most` in all; some hosts have none.
fn hosts(most: usize) -> impl Strategy<Value = Vec<Vec<u32>>> {
    let host = proptest::collection::vec(waits(), 0..3);
    proptest::collection::vec(host, 1..4).prop_map(move |mut hosts| {
        while hosts.iter().map(Vec::len).sum::<usize>() > most {
            hosts.iter_mut().rev().find(|host| !host.is_empty()).map(Vec::pop);
        }
        if hosts.iter().all(Vec::is_empty) {
            hosts[0].push(0);
        }
        hosts
    })
}

/// Draws problems that mode `exact` can do, with bounded numbers of cores, jobs, and blocks of
/// each.
fn problems(start: &'static str, most: [usize; 3]) -> impl Strategy<Value = String> {
    // Equal sizes and speeds make ties.
    let block = (prop_oneof![Just(64), 10_u32..100], 1_u32..8);
    let speed = prop_oneof![Just(10), 5_u32..60];
    let job = (speed, proptest::collection::vec(block, 1..=most[2]));
    let jobs = proptest::collection::vec(job, 1..=most[1]);
    (hosts(most[0]), jobs, 0_u32..4, 1_u8..4, prop_oneof![Just(20.0), Just(125.0)]).prop_map(
        move |(hosts, jobs, alpha, moment, transfer)| {
            let count = hosts.len();
            let host = |(k, waits): (usize, &Vec<u32>)| {
                json!({"name": format!("h{k}"), "cores": waits.len(), "available_ms": waits})
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

/// Ways to place one job: its cores, and the work of each.
type Way = (Vec<usize>, Vec<f64>);

/// Every set of cores and every deal of the blocks to it.
fn ways(problem: &Value, job: &Value, cores: &[(String, f64)]) -> Vec<Way> {
    let number = |value: &Value| value.as_f64().unwrap();
    let mut ways = Vec::new();
    for set in 1_usize..1 << cores.len() {
        let chosen: Vec<usize> = (0..cores.len()).filter(|c| set >> c & 1 == 1).collect();
        let keep = 1.0 - number(&problem["alpha"]) * (chosen.len() as f64 - 1.0);
        if keep <= 0.0 {
            continue;
        }
        let mut deals = vec![vec![0.0; chosen.len()]];
        for block in job["blocks"].as_array().unwrap() {
            let size = number(&block["size_mb"]);
            let ms = |core: usize| {
                let local = block["replicas"].as_array().unwrap().contains(&json!(cores[core].0));
                let read = if local { 0.0 } else { size / number(&problem["transfer_mb_per_s"]) };
                1000.0 * (size / (number(&job["speed_mb_per_s"]) * keep) + read)
            };
            let dealt = |deal: &Vec<f64>| {
                let deal = deal.clone();
                chosen.iter().enumerate().map(move |(at, &core)| (at, core, deal.clone()))
            };
            let longer = deals.iter().flat_map(dealt).map(|(at, core, mut deal)| {
                deal[at] += ms(core);
                deal
            });
            deals = longer.collect();
        }
        ways.extend(deals.into_iter().map(|deal| (chosen.clone(), deal)));
    }
    ways
}

/// The least makespan, by every order of the jobs and every way to place each.
fn enumerate(text: &str) -> f64 {
    fn place(gang: bool, left: &[Vec<Way>], free: &[f64], end: f64, best: &mut f64) {
        if end >= *best {
            return;
        }
        if left.is_empty() {
            *best = end;
        }
        for (j, ways) in left.iter().enumerate() {
            let mut rest = left.to_vec();
            rest.remove(j);
            for (cores, loads) in ways {
                let start = cores.iter().map(|&core| free[core]).fold(0.0, f64::max);
                let begin = |core: usize| if gang { start } else { free[core] };
                let ends = cores.iter().zip(loads).map(|(&core, load)| begin(core) + load);
                let done = ends.fold(0.0, f64::max);
                let mut after = free.to_vec();
                cores.iter().for_each(|&core| after[core] = done);
                place(gang, &rest, &after, end.max(done), best);
            }
        }
    }
    let problem: Value = serde_json::from_str(text).unwrap();
    let mut cores = Vec::new();
    for host in problem["hosts"].as_array().unwrap() {
        let name = host["name"].as_str().unwrap();
        let waits = host["available_ms"].as_array().unwrap().iter();
        cores.extend(waits.map(|wait| (name.to_owned(), wait.as_f64().unwrap())));
    }
    let gang = problem["start"] == "gang";
    let of_job = |job| {
        let mut all = ways(&problem, job, &cores);
        if gang {
            // Of the deals to a set of cores the one that ends first does as well as any.
            let longest = |way: &Way| way.1.iter().copied().fold(0.0, f64::max);
            all.sort_by(|a, b| a.0.cmp(&b.0).then(longest(a).total_cmp(&longest(b))));
            all.dedup_by(|a, b| a.0 == b.0);
        }
        all
    };
    let jobs: Vec<Vec<Way>> = problem["jobs"].as_array().unwrap().iter().map(of_job).collect();
    let free: Vec<f64> = cores.iter().map(|core| core.1).collect();
    let mut best = f64::INFINITY;
    place(gang, &jobs, &free, 0.0, &mut best);
    best
}

/// Checks that what an answer calls proven agrees with the true optimum.
fn claims(text: &str, mode: Mode, optimum: f64) {
    let problem: Problem<'_> = serde_json::from_str(text).unwrap();
    let explained = Options { explain: true, ..options(mode) };
    let answer = serde_json::to_value(solve(&problem, &explained).unwrap()).unwrap();
    let makespan = evaluate(text, &answer);
    let bound = answer["lower_bound_ms"].as_f64().unwrap();
    assert!(makespan >= optimum - 1e-6 * optimum.max(1.0), "{mode:?}: {makespan} of {optimum}");
    assert!(bound <= optimum + 1e-6 * optimum.max(1.0), "{mode:?}: bound {bound} of {optimum}");
    let explain = &answer["explain"];
    if explain["proven_optimal"] == true || explain["gap"] == 0.0 || mode == Mode::Exact {
        assert!(close(makespan, optimum), "{mode:?}: {makespan} proven, optimum {optimum}");
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// Checks an answer against the formulas alone; returns its makespan.
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
    fn answers_hold_and_no_mode_beats_exact(text in problems("gang", [6, 4, 5])) {
        let [seed, best, exact] =
            [Mode::Seed, Mode::Best, Mode::Exact].map(|mode| run(&text, mode));
        let bound = seed["lower_bound_ms"].as_f64().unwrap();
        let [seed, best, exact] = [&seed, &best, &exact].map(|answer| evaluate(&text, answer));
        prop_assert!(best <= seed + 1e-6);
        prop_assert!(exact <= best + 1e-6);
        prop_assert!(bound <= exact + 1e-6, "bound {bound}, optimum {exact}");
    }

    #[test]
    fn cores_that_begin_alone_hold(text in problems("async", [6, 4, 5])) {
        let [seed, best] = [Mode::Seed, Mode::Best].map(|mode| evaluate(&text, &run(&text, mode)));
        prop_assert!(best <= seed + 1e-6);
    }
}

const MODES: [Mode; 5] = [Mode::Seed, Mode::Best, Mode::Exact, Mode::RoundRobin, Mode::Weighted];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_proven_is_the_optimum(text in problems("gang", [4, 3, 3])) {
        let optimum = enumerate(&text);
        MODES.into_iter().for_each(|mode| claims(&text, mode, optimum));
    }

    #[test]
    fn no_bound_of_cores_that_begin_alone_is_above_the_optimum(
        text in problems("async", [3, 2, 3]),
    ) {
        let optimum = enumerate(&text);
        claims(&text, Mode::Seed, optimum);
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
