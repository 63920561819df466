// SPDX-License-Identifier: GPL-3.0-or-later
//! Worked examples of the load partition (`docs/methods.md`, section Share).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use phalanx_methods::share::capability::{
    CpuTimes, by_configuration, by_cpu_load, by_cpu_load_uncapped, by_history,
};
use phalanx_methods::share::{Problem, Transfer, solve, targets, transfers};
use serde_json::{Value, json};

fn run(problem: Value) -> Value {
    let problem: Problem = serde_json::from_value(problem).unwrap();
    serde_json::to_value(solve(&problem).unwrap()).unwrap()
}

fn failure(problem: Value) -> String {
    let problem: Problem = serde_json::from_value(problem).unwrap();
    solve(&problem).unwrap_err().to_string()
}

fn moved(load: &[u64], target: &[u64]) -> Vec<(usize, usize, u64)> {
    let tuple = |transfer: Transfer| (transfer.from, transfer.to, transfer.count);
    transfers(load, target).into_iter().map(tuple).collect()
}

const LOAD: [u64; 4] = [160, 120, 80, 40];

#[test]
fn method_a_equal_nodes() {
    let capability = [by_configuration(4, 2.53); 4];
    assert_eq!(targets(400, &capability), [100; 4]);
    assert_eq!(moved(&LOAD, &[100; 4]), [(0, 3, 60), (1, 2, 20)]);
}

#[test]
fn method_b_cpu_load() {
    let free = [0.9, 0.6, 0.3, 0.75];
    let capability = free.map(|free| by_cpu_load(free, 0.6).unwrap());
    assert_eq!(capability, [1.0, 1.0, 0.5, 1.0]);
    let target = targets(400, &capability);
    assert_eq!(target, [115, 114, 57, 114]);
    assert_eq!(moved(&LOAD, &target), [(0, 3, 45), (2, 3, 23), (1, 3, 6)]);
    let uncapped = free.map(|free| by_cpu_load_uncapped(free, 0.6).unwrap());
    assert_eq!(targets(400, &uncapped), [141, 94, 47, 118]);
}

#[test]
fn method_c_history() {
    let target = targets(400, &[8.0, 6.0, 3.0, 5.0]);
    assert_eq!(target, [145, 109, 55, 91]);
    assert_eq!(moved(&LOAD, &target), [(2, 3, 25), (0, 3, 15), (1, 3, 11)]);
    assert_eq!(by_history(&[8.0, 4.0, f64::NAN, 0.0], 0.25), Some(7.0));
    assert_eq!(by_history(&[8.0, 4.0], 1.0), Some(4.0));
    assert_eq!((by_history(&[], 0.5), by_history(&[1.0], 0.0)), (None, None));
}

#[test]
fn formula_1() {
    let found = [0.0, 0.15, 0.3, 0.6, 0.9, 1.0].map(|free| by_cpu_load(free, 0.6).unwrap());
    assert_eq!(found, [0.0, 0.25, 0.5, 1.0, 1.0, 1.0]);
    for (free, required) in [(-0.1, 0.5), (1.1, 0.5), (f64::NAN, 0.5), (0.5, 0.0), (0.5, 1.1)] {
        assert_eq!(by_cpu_load(free, required), None);
    }
}

#[test]
fn cpu_usage() {
    let read = |text: &str| text.parse::<CpuTimes>();
    let before =
        read("cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0\ncpu0 1 1 1 1");
    let after = read("cpu 10132453 290700 3084819 46829483 16700 0 25200 74 175700 0");
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!(after.idle_ticks - before.idle_ticks, 1017);
    assert_eq!(after.busy_ticks - before.busy_ticks, 483);
    assert!((after.usage_since(&before).unwrap() - 0.322).abs() < 1e-12);
    assert_eq!(after.usage_since(&after), None);
    assert_eq!(read("cpu 1 2 3 4").unwrap(), CpuTimes { busy_ticks: 6, idle_ticks: 4 });
    for (text, wanted) in [
        ("cpu0 1 2 3 4", "no line that begins with \"cpu\""),
        ("cpu 1 2 3", "cpu line, counter 4 (idle): expected ticks, got \"\""),
        ("cpu 1 -2 3 4", "cpu line, counter 2 (nice): expected ticks, got \"-2\""),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn degenerate() {
    assert_eq!(targets(10, &[0.0; 3]), [4, 3, 3]);
    assert_eq!(targets(10, &[1.0, 0.0]), [10, 0]);
    assert_eq!(targets(7, &[0.3; 3]), [3, 2, 2]);
    assert_eq!(targets(3, &[1e308, 1e308, 1e308]), [1, 1, 1]);
    assert_eq!(targets(0, &[1.0, 2.0]), [0, 0]);
    assert_eq!(targets(0, &[]), [0; 0]);
    assert_eq!(targets(1 << 53, &[1.0, 2.0, 4.0]).iter().sum::<u64>(), 1 << 53);
}

#[test]
fn load_form() {
    let answer = run(json!({"nodes": ["n0", "n1"], "load": [160, 40], "capability": [1, 1]}));
    assert_eq!(
        answer,
        json!({"target": [100, 100], "transfers": [{"from": "n0", "to": "n1", "count": 60}]})
    );
}

#[test]
fn items_form() {
    let answer = run(json!({"nodes": ["n0", "n1"], "capability": [1, 1],
        "items": [{"id": "b0", "replicas": ["n0", "n1"], "weight": 1}]}));
    assert_eq!(
        answer,
        json!({"target": [1, 0], "transfers": [], "partition": {"n0": ["b0"]},
               "remote_items": 0})
    );
}

/// Goal: three of a, b, d and e, which n1 holds, stay there and one must go; f has its data on n0
/// alone, which gets nothing; c moves aside to n2.
#[test]
fn items_move_to_their_replicas() {
    let item = |id: &str, replicas: &[&str]| json!({"id": id, "replicas": replicas});
    let items = vec![
        item("a", &["n0", "n1"]),
        item("b", &["n1"]),
        item("c", &["n0", "n1", "n2"]),
        item("d", &["n1"]),
        item("e", &["n0", "n1"]),
        item("f", &["n0"]),
    ];
    let answer = run(json!({"nodes": ["n0", "n1", "n2"], "capability": [0, 1, 1],
        "items": items}));
    assert_eq!(answer["target"], json!([0, 3, 3]));
    let wanted = json!({"n1": ["b", "d", "e"], "n2": ["a", "c", "f"]});
    assert_eq!(answer["partition"], wanted);
    assert_eq!(answer["remote_items"], 2);
}

/// Goal: x must leave n0 for n1, so that y, which n1 and n2 hold, goes to n2, and no node gets an
/// item whose data it lacks.
#[test]
fn a_chain_makes_room() {
    let item = |id: &str, replicas: &[&str]| json!({"id": id, "replicas": replicas});
    let items = [item("w", &["n0"]), item("x", &["n0", "n1"]), item("y", &["n1", "n2"])];
    let answer = run(json!({"nodes": ["n0", "n1", "n2"], "capability": [1, 1, 1],
        "items": items}));
    assert_eq!(answer["partition"], json!({"n0": ["w"], "n1": ["x"], "n2": ["y"]}));
    assert_eq!((&answer["remote_items"], &answer["transfers"]), (&json!(0), &json!([])));
}

#[test]
fn weighted_items_come_close() {
    let items: Vec<Value> = [5, 4, 3, 2, 1]
        .iter()
        .map(|weight| json!({"id": format!("w{weight}"), "replicas": ["n0"], "weight": weight}))
        .collect();
    let answer = run(json!({"nodes": ["n0", "n1"], "capability": [2, 1], "items": items}));
    assert_eq!(answer["target"], json!([10, 5]));
    assert_eq!(answer["transfers"], json!([{"from": "n0", "to": "n1", "count": 5}]));
    assert_eq!(answer["partition"]["n1"], json!(["w5"]));
    assert_eq!(answer["remote_items"], 1);
}

#[test]
fn bad_input_names_the_field() {
    let base = || json!({"nodes": ["a", "b"], "capability": [1, 1]});
    let with = |field: &str, value: Value| {
        let mut problem = base();
        problem[field] = value;
        problem
    };
    assert_eq!(failure(base()), "load: missing; give either load or items");
    let mut both = with("load", json!([1, 2]));
    both["items"] = json!([]);
    assert_eq!(failure(both), "items: give either load or items, not both");
    let short = failure(with("load", json!([1])));
    assert_eq!(short, "load: expected 2 entries (one for each of `nodes`), got 1");
    let item = |value: Value| failure(with("items", json!([value])));
    assert_eq!(
        item(json!({"id": "x", "replicas": ["c"]})),
        "items[0].replicas[0]: \"c\" is not one of `nodes`"
    );
    assert_eq!(
        item(json!({"id": "x", "replicas": []})),
        "items[0].replicas: must name at least one node"
    );
    assert_eq!(
        item(json!({"id": "x", "replicas": ["a"], "weight": 0})),
        "items[0].weight: must be >= 1, got 0"
    );
    let mut negative = with("load", json!([1, 2]));
    negative["capability"] = json!([1, -1]);
    assert_eq!(failure(negative), "capability[1]: must be a number >= 0, got -1");
    let twice = with("nodes", json!(["a", "a"]));
    assert_eq!(failure(twice), "nodes[1]: \"a\" is already the name of nodes[0]");
}
