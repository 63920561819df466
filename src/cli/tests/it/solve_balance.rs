// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx solve balance` as a program: bytes in, bytes out, exit codes.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs the program; returns exit code, standard output and standard error.
fn solve(arguments: &[&str], problem: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(["solve", "balance"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A refused argument ends the program before it reads.
    let _ = child.stdin.take().unwrap().write_all(problem.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn answer(arguments: &[&str], problem: &str) -> Value {
    let (code, out, error) = solve(arguments, problem);
    assert_eq!((code, error.as_str()), (0, ""), "{problem}");
    serde_json::from_str(&out).unwrap()
}

/// Problem of one node of 100 cpu, 1000 G, 10 gpu and the jobs of the method's example.
fn example(gpu5: u64, more: &str) -> String {
    format!(
        r#"{{"dimensions":["cpu","mem","gpu"],"weights_from":["usage"],{more}
        "nodes":[{{"name":"a","total":[100,1000,10],"used":[0,0,0]}}],
        "jobs":[{{"id":"5","request":[20,500,{gpu5}],"nodes":1}},
        {{"id":"2","request":[30,400,2]}},{{"id":"1","request":[40,200,2]}},
        {{"id":"4","request":[40,300,4]}},{{"id":"3","request":[30,300,1]}},
        {{"id":"6","request":[30,200,1]}}]}}"#
    )
}

#[test]
fn worked_example_in_its_three_readings() {
    for (gpu5, left) in [(4, 10), (1, 7), (3, 9)] {
        let problem = example(gpu5, r#""threshold":2,"no_improvement":"hold","#);
        let got = answer(&["-"], &problem);
        let placements = got["placements"].as_array().unwrap();
        let ids: Vec<&str> = placements.iter().map(|p| p["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["5", "1", "4"]);
        assert_eq!(got["pending"], serde_json::json!(["2", "3", "6"]));
        assert_eq!(got["nodes"], serde_json::json!([{"name":"a","used":[100,1000,left]}]));
    }
}

#[test]
fn the_answer_is_exactly_this() {
    let problem = r#"{"dimensions":["cpu","mem"],"nodes":[
        {"name":"n0","total":[4,8],"used":[1,0]},{"name":"n1","total":[4,8],"used":[0,0.5]}],
        "jobs":[{"id":"a","request":[1,4]},{"id":"b","request":[9,1]}]}"#;
    let expected = concat!(
        r#"{"placements":[{"id":"a","nodes":["n0"],"dispersion_before":[0.125],"#,
        r#""dispersion_after":[0.0],"weights":[0.5833333333333334,0.4166666666666667],"#,
        r#""utilization":0.078125}],"pending":["b"],"nodes":[{"name":"n0","used":[2,4]},"#,
        r#"{"name":"n1","used":[0,0.5]}]}"#,
        "\n"
    );
    let (code, out, _) = solve(&[], problem);
    assert_eq!((code, out.as_str()), (0, expected));
    assert_eq!(out, solve(&["--threads", "4", "--seed", "9"], problem).1, "same bytes");
}

#[test]
fn pending_jobs_shift_the_weights() {
    // b lacks cpu only (on n0, as n1 could never run it); c could never run.
    let problem = r#"{"dimensions":["cpu","mem"],"weights_from":["pending"],"threshold":0,
        "nodes":[{"name":"n0","total":[8,8],"used":[7,0]},
        {"name":"n1","total":[1,8],"used":[0,8]}],
        "jobs":[{"id":"b","request":[4,4]},{"id":"c","request":[99,9]},
        {"id":"d","request":[1,1]}]}"#;
    let got = answer(&["--explain"], problem);
    let weights = serde_json::json!([0.75, 0.25]);
    assert_eq!(got["placements"][0]["weights"], weights);
    let explain = got["explain"].as_array().unwrap();
    let outcomes: Vec<&str> = explain.iter().map(|e| e["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["no_fit", "no_fit", "placed"]);
    assert_eq!(explain[2]["pending_counts"], serde_json::json!([1, 0]));
    let fixed = problem.replace(r#""threshold":0"#, r#""pending_counts":[0,5]"#);
    let got = answer(&[], &fixed);
    assert_eq!(got["placements"][0]["weights"], serde_json::json!([0.25, 0.75]));
}

#[test]
fn decimal_amounts_add_up() {
    let problem = r#"{"dimensions":["gpu"],"nodes":[{"name":"a","total":[0.3],"used":[0]}],
        "jobs":[{"id":"x","request":[0.1]},{"id":"y","request":[0.2]},
        {"id":"z","request":[1e-9]}]}"#;
    let got = answer(&["--mode", "best"], problem);
    assert_eq!(got["pending"], serde_json::json!(["z"]));
    assert_eq!(got["nodes"][0]["used"], serde_json::json!([0.3]));
}

#[test]
fn empty_lists_are_answered() {
    let got = answer(&[], r#"{"dimensions":["cpu"],"nodes":[],"jobs":[{"id":"a","request":[1]}]}"#);
    assert_eq!(got, serde_json::json!({"placements":[],"pending":["a"],"nodes":[]}));
    let got = answer(&[], r#"{"dimensions":["cpu"],"nodes":[],"jobs":[]}"#);
    assert_eq!(got, serde_json::json!({"placements":[],"pending":[],"nodes":[]}));
}

#[test]
fn bad_input_names_the_field() {
    let good = r#"{"dimensions":["cpu","mem"],"initial_weights":[0.5,0.5],"weights_from":["usage"],
        "threshold":0.5,"no_improvement":"hold","start":0,"pending_counts":null,
        "nodes":[{"name":"a","total":[4,8],"used":[0,0]},{"name":"b","total":[4,8],"used":[0,0]}],
        "jobs":[{"id":"x","request":[1,1],"nodes":1},{"id":"y","request":[1,1]}]}"#;
    answer(&[], good);
    for (from, to, field) in [
        (r#""request":[1,1]}"#, r#""request":[1,-5]}"#, "jobs[1].request[1]: must be >= 0, got -5"),
        (r#""request":[1,1]}"#, r#""request":[1]}"#, "jobs[1].request: expected 2 entries"),
        (r#""request":[1,1]}"#, r#""request":[1,1e999]}"#, "jobs[1].request[1]: number out of"),
        (r#""request":[1,1]}"#, r#""request":[1,NaN]}"#, "jobs[1].request[1]: "),
        (r#""id":"y""#, r#""id":"x""#, "jobs[1].id: \"x\" is already the name of jobs[0].id"),
        (r#""id":"y""#, r#""id":"y","cores":1"#, "jobs[1].cores: unknown field"),
        (r#","request":[1,1]}"#, "}", "jobs[1].request: missing"),
        (r#""nodes":1}"#, r#""nodes":0}"#, "jobs[0].nodes: must be >= 1, got 0"),
        (r#""nodes":1}"#, r#""nodes":-1}"#, "jobs[0].nodes: invalid value"),
        (r#""nodes":1}"#, r#""nodes":null}"#, "jobs[0].nodes: invalid type"),
        (r#""name":"b""#, r#""name":"a""#, "nodes[1].name: \"a\" is already"),
        (r#"[4,8],"used":[0,0]}]"#, r#"[4,8],"used":[0,9]}]"#, "nodes[1].used[1]: must be <="),
        (r#"[4,8],"used":[0,0]}]"#, r#"[4,8]}]"#, "nodes[1].used: missing"),
        (r#"[4,8],"used":[0,0]}]"#, r#"[4,-8],"used":[0,0]}]"#, "nodes[1].total[1]: must be >="),
        (r#"["cpu","mem"]"#, r#"["cpu","cpu"]"#, "dimensions[1]: \"cpu\" is already"),
        (r#"["cpu","mem"]"#, "[]", "dimensions: must not be empty"),
        ("[0.5,0.5]", "[0.5,0.4]", "initial_weights: must sum to 1"),
        ("[0.5,0.5]", "[1.5,-0.5]", "initial_weights[1]: must be >= 0"),
        ("[0.5,0.5]", "[1]", "initial_weights: expected 2 entries"),
        ("[0.5,0.5]", "null", "initial_weights: invalid type: null"),
        (r#"["usage"]"#, "[]", "weights_from: must not be empty"),
        (r#"["usage"]"#, r#"["usage","usage"]"#, "weights_from[1]: listed twice"),
        (r#"["usage"]"#, r#"["load"]"#, "weights_from[0]: unknown variant `load`"),
        (r#""threshold":0.5"#, r#""threshold":-0.5"#, "threshold: must be >= 0"),
        (r#""threshold":0.5"#, r#""threshold":"x""#, "threshold: invalid type"),
        (r#""hold""#, r#""wait""#, "no_improvement: unknown variant `wait`"),
        (r#""start":0"#, r#""start":2"#, "start: must be below the number of nodes, 2, got 2"),
        (r#""pending_counts":null"#, r#""pending_counts":[1]"#, "pending_counts: expected 2"),
        (r#""pending_counts":null"#, r#""pending_counts":[1,1.5]"#, "pending_counts[1]: invalid"),
        (r#""start":0"#, r#""begin":0"#, "begin: unknown field"),
        (r#""start":0"#, r#""start":0,"start":1"#, "start: given more than once"),
    ] {
        let problem = good.replacen(from, to, 1);
        assert_ne!(problem, good, "{from}");
        let (code, out, error) = solve(&[], &problem);
        assert_eq!((code, out.as_str()), (2, ""), "{problem}");
        assert!(error.starts_with(field), "{error}is not {field}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn bad_arguments_are_bad_input() {
    for (arguments, beginning) in [
        (&["--mode", "exact"][..], "--mode: expected one of seed, best"),
        (&["/nonexistent/problem.json"], "/nonexistent/problem.json: "),
        (&["--threads", "0"], "--threads: "),
    ] {
        let (code, out, error) = solve(arguments, "{}");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(error.starts_with(beginning), "{error}");
    }
    for arguments in [&["--modes", "seed"][..], &["--seed", "x"], &["--deadline-ms", "-1"]] {
        assert_eq!(solve(arguments, "{}").0, 2);
    }
}
