// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the example programs of config/collectors.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::cli::{code, err, out};

fn processor(name: &str, arguments: &[&str], document: &serde_json::Value) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/collectors").join(name);
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(document.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Rows in the form in which the data service hands them to a processor.
fn rows(values: impl IntoIterator<Item = (usize, f64)>) -> serde_json::Value {
    let row = |(node, value): (usize, f64)| {
        let node = format!("n{node}");
        serde_json::json!({"node": node, "value": value, "age_ms": 10, "stale": false})
    };
    values.into_iter().map(row).collect()
}

/// Goal: of nodes of known data, five of which were measured, the others get what the law behind
/// the measurements says, and the measured ones keep their own values.
#[test]
fn the_learning_processor_finds_the_law() {
    let data = |node: usize| ((node % 3 + 1) as f64, node as f64 / 10.0);
    let law = |node: usize| 2.0 + 3.0 * data(node).0 + 5.0 * data(node).1;
    let document = |measured: usize| {
        serde_json::json!({"node": "@master", "inputs": {
            "speed": rows((0..measured).map(|node| (node, law(node)))),
            "ghz": rows((0..8).map(|node| (node, data(node).0))),
            "free": rows((0..8).map(|node| (node, data(node).1))),
        }})
    };
    let output = processor("learned_speed", &["speed"], &document(5));
    assert_eq!(code(&output), 0, "{}", err(&output));
    let found: BTreeMap<String, f64> = out(&output)
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(node, value)| (node.to_owned(), value.parse().unwrap()))
        .collect();
    assert_eq!(found.len(), 8);
    for node in 0..8 {
        let value = found[&format!("n{node}")];
        assert!((value - law(node)).abs() < 1e-3, "n{node}: {value}, expected {}", law(node));
    }
    let too_few = processor("learned_speed", &["speed"], &document(2));
    assert_ne!(code(&too_few), 0);
    assert!(err(&too_few).contains("2 nodes have all data, 3 are needed"), "{}", err(&too_few));
}

#[test]
fn the_least_free_share_counts() {
    let document = |memory: f64| {
        serde_json::json!({"node": "n1", "inputs": {
            "cpu_free_ratio": rows([(0, 0.1), (1, 0.7)]), "mem_free_ratio": rows([(1, memory)]),
        }})
    };
    assert_eq!(out(&processor("free_share", &[], &document(0.4))), "0.4\n");
    assert_eq!(out(&processor("free_share", &[], &document(0.9))), "0.7\n");
}

/// Goal: whole GPUs and slices by the maker's list are each measured by the given benchmark.
#[test]
fn throughput_of_each_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let list = "echo 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)'\n\
                echo '  MIG 3g.20gb     Device  0: (UUID: MIG-3)'\n\
                echo '  MIG 1g.5gb      Device  1: (UUID: MIG-1)'\n\
                echo 'GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)'\n\
                echo 'GPU 2: Tesla T4 (UUID: GPU-c)'";
    program("nvidia-smi", list);
    let benchmark = program(
        "benchmark",
        "case $CUDA_VISIBLE_DEVICES in MIG-3) echo 42 ;; MIG-1) echo 14 ;; GPU-b) echo 100.5 ;; \
         GPU-c) echo 30 ;; *) exit 1 ;; esac",
    );
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let run = |arguments: &[&Path]| {
        let name = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/collectors");
        let mut command = Command::new(name.join("gpu_throughput"));
        command.args(arguments).env("PATH", &path).output().unwrap()
    };
    let output = run(&[&benchmark]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(
        out(&output),
        "nvidia_a100_3g.20gb 42\nnvidia_a100_1g.5gb 14\n\
         nvidia_a100-sxm4-40gb 100.5\ntesla_t4 30\n"
    );
    assert_eq!(code(&run(&[Path::new("false")])), 1, "a benchmark that fails gives no value");
    assert_eq!(code(&run(&[])), 2);
}
