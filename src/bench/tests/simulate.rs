// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx-bench simulate` as a program: published figures, pods, and every policy on
//! nodes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const KTH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/KTH-SP2-1996-2.swf.zst");

/// Runs the program; returns exit code, standard output and standard error.
fn simulate(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    let output = command.arg("simulate").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs a simulation and returns one object for each policy. Standard error may tell what policies
/// assume, and that time limits are longer than `bf_window`; anything else fails.
fn figures(arguments: &[&str]) -> Vec<Value> {
    let (code, out, error) = simulate(arguments);
    let expected = |line: &&str| {
        line.starts_with("phalanx: policy ") || line.contains("bf_window (1440 min) is below")
    };
    let mut said = error.lines().filter(|line| !expected(line));
    assert_eq!((code, said.next()), (0, None), "{arguments:?}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that the run ends with exit code 2 and one line that contains `part`.
fn refused(arguments: &[&str], part: &str) {
    let (code, out, error) = simulate(arguments);
    assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(part), "{arguments:?}: {error}");
}

fn number(figures: &Value, key: &str) -> f64 {
    figures[key].as_f64().unwrap()
}

fn file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Removes the figures that depend on the real clock.
fn timeless(mut figures: Vec<Value>) -> Vec<Value> {
    for policy in &mut figures {
        for key in ["wall_s", "decisions_per_s", "decision_p99_us"] {
            policy.as_object_mut().unwrap().remove(key).unwrap();
        }
    }
    figures
}

#[test]
fn published_figures_of_kth_come_out_and_research_beats_them() {
    let temporary = tempfile::tempdir().unwrap();
    let config = file(temporary.path(), "learned.toml", b"[order]\nby = \"learned\"\n");
    let common = ["--jobs", KTH, "--config", config.to_str().unwrap()];
    let names = ["fcfs", "easy", "easy++", "research", "slurm", "phalanx"];
    let all = names.iter().flat_map(|name| ["--policy", name]);
    let found = figures(&common.into_iter().chain(all).collect::<Vec<_>>());
    let found_names: Vec<&str> = found.iter().map(|f| f["policy"].as_str().unwrap()).collect();
    assert_eq!(found_names, names);
    let slowdown = |at: usize| number(&found[at], "bounded_slowdown_mean");
    assert!((slowdown(0) - 6822.0).abs() < 1.0, "{}", slowdown(0));
    assert!((slowdown(1) - 92.9).abs() < 0.5, "{}", slowdown(1));
    assert!((slowdown(2) - 66.1).abs() < 0.5, "{}", slowdown(2));
    assert!(slowdown(3) <= 60.0, "{}", slowdown(3));
    let wait = |at: usize| number(&found[at], "wait_max_s");
    assert!(wait(3) <= 1.1 * wait(1), "{} {}", wait(3), wait(1));
    // What Slurm's backfill lets the daemon gain, within its default budgets.
    assert!((slowdown(4) - slowdown(1)).abs() < 10.0, "{}", slowdown(4));
    assert!(slowdown(5) <= 0.95 * slowdown(4), "{} {}", slowdown(5), slowdown(4));
    assert!(wait(5) <= 1.1 * wait(4), "{} {}", wait(5), wait(4));
    assert!(found.iter().all(|f| f["jobs"] == 28_489 && f["skipped"] == 0));
    let threads = |n: &'static str| {
        let more = ["--policy", "research", "--policy", "easy", "--threads", n];
        timeless(figures(&common.into_iter().chain(more).collect::<Vec<_>>()))
    };
    assert_eq!(threads("1"), threads("2"));
}

/// A generated openb cluster and pod list: GPU parts that do and do not pair.
fn openb(directory: &Path) -> (String, String) {
    let mut nodes = "sn,cpu_milli,memory_mib,gpu,model\n".to_owned();
    for node in 0..40 {
        let (cpu, gpus) = if node % 3 == 0 { (104_000, 2) } else { (96_000, 8) };
        nodes += &format!("n{node},{cpu},393216,{gpus},M{}\n", node % 2);
    }
    let mut pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n".to_owned();
    let sizes = [810, 1000, 470, 1000, 650, 320, 1000, 460, 1000, 160];
    for pod in 0..320 {
        let size = sizes[pod % sizes.len()];
        let cpu = [3_152, 11_300, 11_900, 8_000][pod % 4];
        pods += &format!("p{pod},{cpu},5000,1,{size},{}\n", if pod % 9 == 0 { "M0" } else { "" });
    }
    pods += "big,64000,64000,8,1000,\ncpu,12500,50000,0,0,\n";
    let write = |name: &str, text: String| {
        file(directory, name, text.as_bytes()).to_str().unwrap().to_owned()
    };
    (write("pods.csv", pods), write("nodes.csv", nodes))
}

#[test]
fn pods_fill_gpus_and_nobody_is_overtaken_too_often() {
    let directory = tempfile::tempdir().unwrap();
    let (pods, nodes) = openb(directory.path());
    let common = ["--jobs", &pods, "--nodes", &nodes, "--arrivals", "openb", "--seed", "7"];
    let run = |more: &[&str]| figures(&[&common, more].concat());
    let names = ["stock", "best-fit", "dot-product", "k8s-balanced", "fgd", "phalanx"];
    let policies: Vec<&str> = names.iter().flat_map(|name| ["--policy", name]).collect();
    let found = run(&policies);
    for policy in &found {
        let allocated = number(policy, "gpu_allocated_pct");
        assert!((80.0..=100.0).contains(&allocated), "{policy}");
        assert_eq!(policy["overtaken_max"], 0);
        let used = number(&policy["utilization"], "gpu");
        assert!((used * 100.0 - allocated).abs() < 1e-9);
    }
    assert_eq!(timeless(found), timeless(run(&policies)), "the same seed, the same result");
    let ahead = ["--policy", "phalanx", "--window", "64", "--max-overtakes", "20"];
    let ahead = &run(&ahead)[0];
    assert!((1..=20).contains(&ahead["overtaken_max"].as_u64().unwrap()), "{ahead}");
    assert_eq!(ahead["jobs"].as_u64(), run(&["--policy", "fgd"])[0]["jobs"].as_u64());
    refused(&["--jobs", &pods, "--nodes", &nodes], "--arrivals openb");
    refused(&["--jobs", &pods, "--arrivals", "openb"], "--nodes is missing");
    let bare = ["--jobs", &pods, "--nodes", "4x(cpu=8,mem=64G)", "--arrivals", "openb"];
    refused(&bare, "--nodes: expected nodes with GPUs");
    refused(&[&common[..], &["--window", "0"]].concat(), "--window: expected 1 to");
    refused(&[&common[..], &["--target=-1"]].concat(), "--target: expected above 0");
    refused(&["--jobs", &nodes, "--nodes", &nodes, "--arrivals", "openb"], "column num_gpu");
}

#[test]
fn the_report_of_pods_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (pods, nodes) = openb(directory.path());
    let out = directory.path().join("pods");
    let place = ["--jobs", &pods, "--nodes", &nodes, "--arrivals", "openb", "--policy", "fgd"];
    figures(&[&place[..], &["--out", out.to_str().unwrap()]].concat());
    assert!(fs::read_to_string(out.join("filling.csv")).unwrap().lines().count() > 80);
    let there = |name: &str| fs::read_dir(directory.path().join(name)).unwrap().count();
    assert_eq!(there("pods"), 3, "nothing but the report");
    fs::remove_file(out.join("report.html")).unwrap();
    fs::create_dir(out.join("report.html")).unwrap();
    refused(&[&place[..], &["--out", out.to_str().unwrap()]].concat(), "pods/report.html: ");
    assert_eq!(there("pods"), 3, "what could not be finished is removed");
    let blocked = ["--jobs", &pods, "--nodes", &nodes, "--arrivals", "openb", "--out", "/proc/no"];
    refused(&blocked, "/proc/no");
}

#[test]
fn wrong_options_give_one_line() {
    let line = "1 0 -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n";
    let directory = tempfile::tempdir().unwrap();
    let good = file(directory.path(), "good.swf", line.as_bytes());
    let good = ["--jobs", good.to_str().unwrap(), "--nodes", "1x(cpu=4)"];
    for (option, value) in [("--window", "0"), ("--target", "0"), ("--turnaround", "86401")] {
        refused(&[&good[..], &[option, value]].concat(), option);
    }
    refused(&[&good[..], &["--window"]].concat(), "--window");
    refused(&[&good[..], &["--arrivals", "openb"]].concat(), "--arrivals: only for an openb");
    refused(&[&good[..], &["--policy", "best"]].concat(), "--policy: expected one of fcfs, easy");
    refused(&[], "--jobs");
}

#[test]
fn accounting_runs_on_nodes_under_every_policy() {
    let directory = tempfile::tempdir().unwrap();
    let mut text =
        "JobID|User|JobName|Submit|Start|End|Elapsed|State|NCPUS|NNodes|NodeList|ReqTRES|\
         Timelimit\n"
            .to_owned();
    let mut row = |id: u32, start: &str, end: &str, tres: &str| {
        let day = "2026-11-01T";
        text += &format!(
            "{id}|ann|md|{day}10:00:00|{day}{start}|{day}{end}|00:10:00|COMPLETED|2|1|n1|{tres}|\
             01:00:00\n"
        );
    };
    for id in 1..=3 {
        row(id, "10:00:00", "10:10:00", "cpu=2,mem=1G,node=1,billing=2,gres/gpu=2");
    }
    row(4, "10:00:00", "10:10:00", "cpu=2,mem=32G,node=1");
    let log = file(directory.path(), "month.sacct", text.as_bytes());
    let nodes = "2x(cpu=8,mem=16G,gpu=2,model=A100,idle=100,busy=300)";
    let names = [
        "fcfs",
        "easy",
        "easy++",
        "stock",
        "best-fit",
        "dot-product",
        "k8s-balanced",
        "fgd",
        "balance-seed",
        "balance",
        "gang-seed",
        "gang",
        "slurm",
        "phalanx",
        "research",
    ];
    let policies: Vec<&str> = names.iter().flat_map(|name| ["--policy", name]).collect();
    let common = ["--jobs", log.to_str().unwrap(), "--nodes", nodes];
    let found = figures(&[&common[..], &policies, &["--threads", "1"]].concat());
    for policy in &found {
        assert_eq!((policy["jobs"].as_u64(), policy["skipped"].as_u64()), (Some(3), Some(1)));
        assert_eq!((&policy["wait_max_s"], &policy["makespan_s"]), (&600.into(), &1200.into()));
        // The text covers ten minutes, in which two of the jobs run on all GPUs.
        assert_eq!(number(&policy["utilization"], "gpu"), 1.0, "{policy}");
        let idle = 2.0 * 100.0 * 600.0;
        assert_eq!(number(policy, "energy_j"), idle + 2.0 * 200.0 * 0.25 * 600.0, "{policy}");
    }
    let again = figures(&[&common[..], &policies, &["--threads", "2"]].concat());
    assert_eq!(timeless(found), timeless(again));
    refused(&["--jobs", log.to_str().unwrap(), "--nodes", "1x(cpu=8,idle=x)"], "watts");
}
