// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx-bench solve` as a program: the modes that `phalanx solve` leaves to it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

const GANG: &str = r#"{"kinds": ["cpu"], "g": "none",
    "servers": [{"name": "s0", "capacity": [1]}, {"name": "s1", "capacity": [1]}],
    "jobs": [{"id": "j0", "tasks": [{"request": [1], "edges": [
        {"server": "s0", "mean": 0.2, "count": 1},
        {"server": "s1", "mean": 0.7, "count": 1}]}]}]}"#;
const BAG: &str = r#"{"machine_types": [{"name": "m0"}, {"name": "m1"}], "etc_s": [[10, 20]],
    "apc_w": [[300, 100]], "users": [{"type": 0, "tasks": 3, "revenue": 9000}]}"#;
const DATA: &str = r#"{"hosts": [{"name": "h0", "cores": 1}, {"name": "h1", "cores": 1}],
    "jobs": [{"id": "j", "speed_mb_per_s": 50,
        "blocks": [{"id": "b", "size_mb": 64, "replicas": ["h1"]}]}]}"#;

fn solve(method: &str, mode: &str, problem: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("problem.json");
    fs::write(&path, problem).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    command.args(["solve", method, "--mode", mode]).arg(path).output().unwrap()
}

#[test]
fn oracles_answer() {
    let answer = |method, mode, problem| -> Value {
        let output = solve(method, mode, problem);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{method} {mode}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let gang = answer("gang", "exact", GANG);
    assert_eq!(gang["assignment"][0]["tasks"][0], "s1", "{gang}");
    assert_eq!(gang["proven_optimal"], true, "{gang}");
    let data = answer("data_jobs", "exact", DATA);
    assert_eq!(data["jobs"][0]["cores"][0]["host"], "h1", "{data}");
    let integer = answer("bag", "integer", BAG);
    let tasks: u64 =
        integer["users"][0]["x"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!(tasks, 3, "{integer}");
    let exact = answer("bag", "exact", BAG);
    assert!(exact["final"]["objective"].as_f64() <= integer["final"]["objective"].as_f64());
}

#[test]
fn other_modes_are_refused_with_all_that_there_are() {
    let output = solve("bag", "nosuch", BAG);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let modes = "best, seed, template, greedy, average, exact, integer";
    assert_eq!(error, format!("--mode: expected one of {modes}, got \"nosuch\"\n"));
}
