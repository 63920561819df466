// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx data splits` as a task calls it: its variables say which task it is, and a
//! variable that lacks is an error, since a guess would have two tasks read the same split.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

/// A map of two splits for one task on each of `nodes`.
fn map_of(nodes: &[&str]) -> String {
    let node = |name: &&str| format!(r#"{{"name":"{name}","tasks":1}}"#);
    let range = |at: usize| {
        let node = at.min(nodes.len() - 1);
        let offset = 10 * at;
        format!(r#"{{"file":0,"offset":{offset},"length":10,"node":{node},"slot":0,"held_by":[]}}"#)
    };
    format!(
        r#"{{"job_id":7,"user_id":1,"nodes":[{}],"holders":[],"files":["hdfs://c/f"],
        "ranges":[{},{}],"warnings":[]}}"#,
        nodes.iter().map(node).collect::<Vec<_>>().join(","),
        range(0),
        range(1)
    )
}

/// Calls `phalanx data splits --mine` with `variables`; the number of splits, or the error.
fn mine(nodes: &[&str], variables: &[(&str, &str)]) -> Result<usize, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("7")).unwrap();
    fs::write(dir.path().join("7/plan.json"), map_of(nodes)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(["data", "splits", "--job", "7", "--mine", "--dir"])
        .arg(dir.path())
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    match output.status.code().unwrap() {
        0 => Ok(text(output.stdout).lines().count()),
        _ => Err(text(output.stderr)),
    }
}

/// Variables of the task on node b of a step of two tasks.
const TASK: [(&str, &str); 5] = [
    ("SLURM_STEP_NODELIST", "a,b"),
    ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
    ("SLURMD_NODENAME", "b"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_PROCID", "1"),
];

#[test]
fn a_task_gets_its_own_splits_and_none_by_guess() {
    assert_eq!(mine(&["a", "b"], &TASK), Ok(1));
    for (name, _) in TASK.iter().skip(1) {
        let without: Vec<_> = TASK.iter().filter(|(other, _)| other != name).copied().collect();
        let refused = mine(&["a", "b"], &without).unwrap_err();
        assert!(refused.contains(name), "{refused}");
        let others = without.into_iter().chain([(*name, "2,x")]).collect::<Vec<_>>();
        // Any text is the name of a node.
        if *name != "SLURMD_NODENAME" {
            assert!(mine(&["a", "b"], &others).unwrap_err().contains(name));
        }
    }
    let of_three = [&TASK[..1], &[("SLURM_STEP_TASKS_PER_NODE", "1(x3)")], &TASK[2..]].concat();
    assert!(mine(&["a", "b"], &of_three).unwrap_err().contains("SLURM_STEP_NODELIST"));
}

#[test]
fn a_task_of_an_array_gets_its_part_and_never_the_whole_by_guess() {
    let array = [
        ("SLURM_ARRAY_TASK_ID", "1"),
        ("SLURM_ARRAY_TASK_MIN", "0"),
        ("SLURM_ARRAY_TASK_MAX", "1"),
        ("SLURM_ARRAY_TASK_COUNT", "2"),
    ];
    assert_eq!(mine(&["a"], &array), Ok(1));
    for (name, _) in array.iter().skip(1) {
        let without: Vec<_> = array.iter().filter(|(other, _)| other != name).copied().collect();
        let refused = mine(&["a"], &without).unwrap_err();
        assert!(refused.contains(name), "{refused}");
    }
}

#[test]
fn the_only_task_of_a_job_gets_all_splits_outside_a_step() {
    assert_eq!(mine(&["a"], &[]), Ok(2));
    assert!(mine(&["a", "b"], &[]).unwrap_err().contains("srun"));
}
