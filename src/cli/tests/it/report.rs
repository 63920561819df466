// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx report --sacct` on accountings with known answers, which it gives, or says
//! what it does not know.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Columns of every text, in this order.
const COLUMNS: [&str; 18] = [
    "JobID",
    "User",
    "JobName",
    "Partition",
    "QOS",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Elapsed",
    "State",
    "ReqTRES",
    "AllocTRES",
    "Timelimit",
    "Priority",
    "Constraints",
    "Reservation",
    "NodeList",
];

/// A job that was submitted, started and ran at given minutes, with further fields.
type Job<'a> = (u32, u32, u32, &'a [(&'a str, &'a str)]);

/// An accounting, and what is known of its cluster.
struct Case<'a> {
    name: &'a str,
    conf: &'a str,
    jobs: &'a [Job<'a>],
    /// Mean wait in minutes under simulated Slurm; what happened is in the text.
    wait: f64,
    /// Text about what is not modelled; empty: everything is.
    said: &'a str,
}

fn clock(minutes: u32) -> String {
    format!("2026-11-{:02}T{:02}:{:02}:00", 1 + minutes / 1440, minutes / 60 % 24, minutes % 60)
}

fn text(jobs: &[Job<'_>], separator: &str) -> String {
    let mut text = COLUMNS.join(separator) + "\n";
    for (id, (submit, start, run, more)) in (1..).zip(jobs) {
        let value = |column: &&str| {
            let given = more.iter().find(|(name, _)| name == column);
            given.map_or_else(
                || match *column {
                    "JobID" => format!("{id}"),
                    "Submit" | "Eligible" => clock(*submit),
                    "Start" => clock(*start),
                    "End" => clock(start + run),
                    "Elapsed" => format!("{:02}:{:02}:00", run / 60, run % 60),
                    "State" => "COMPLETED".to_owned(),
                    "ReqTRES" | "AllocTRES" => "cpu=4,node=1".to_owned(),
                    "Timelimit" => format!("{:02}:{:02}:00", run / 60, run % 60),
                    "Priority" => "1".to_owned(),
                    "NodeList" => "n1".to_owned(),
                    _ => String::new(),
                },
                |(_, value)| (*value).to_owned(),
            )
        };
        text += &(COLUMNS.iter().map(value).collect::<Vec<_>>().join(separator) + "\n");
    }
    text
}

/// Runs the report; returns it as JSON, and standard error.
fn report(directory: &Path, sacct: &str, conf: &str, more: &[&str]) -> (Value, String) {
    let [log, file] = [("month.sacct", sacct), ("slurm.conf", conf)].map(|(name, text)| {
        fs::write(directory.join(name), text).unwrap();
        directory.join(name)
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["--socket", "/nowhere/control.sock", "--json", "report", "--sacct"]).arg(log);
    let output = command.arg("--slurm-conf").arg(file).args(more).env("TZ", "UTC").output();
    let output = output.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).expect(&error);
    (value["simulated"].clone(), error)
}

/// Accounting of two jobs of the whole node `n1`, an hour each, one after the other.
const TWO: [Job<'_>; 2] = [(0, 0, 60, &[]), (0, 60, 60, &[])];
const N1: &str = "NodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=n1\nPartitionName=q Nodes=n2\n";

const fn with<'a>(more: &'a [(&'a str, &'a str)]) -> [Job<'a>; 2] {
    [(0, 0, 60, more), (0, 60, 60, more)]
}

/// Columns of a job whose values differ from the usual ones.
type Fields<'a> = &'a [(&'a str, &'a str)];

const P: Fields<'_> = &[("Partition", "p")];
const Q: Fields<'_> = &[("Partition", "q"), ("NodeList", "n2")];
const EXCLUSIVE: Fields<'_> =
    &[("ReqTRES", "cpu=1,node=1"), ("AllocTRES", "cpu=4,node=1"), ("Partition", "p")];
const ONE: Fields<'_> =
    &[("ReqTRES", "cpu=1,node=1"), ("AllocTRES", "cpu=1,node=1"), ("Partition", "x")];
const SIZES: Fields<'_> = &[
    ("ReqTRES", "cpu=2,node=2"),
    ("AllocTRES", "cpu=6,node=2"),
    ("NodeList", "n[1-2]"),
    ("Partition", "x"),
];
const BIG: Fields<'_> = &[("Constraints", "big|huge")];
const GONE: Fields<'_> = &[("Constraints", "vast")];
const LATER: Fields<'_> = &[("Eligible", "2026-11-01T10:00:00"), ("Partition", "p")];
const ROUNDED: Fields<'_> = &[("ReqTRES", "cpu=1,node=1"), ("AllocTRES", "cpu=2,node=1")];
const BACK: Fields<'_> = &[("End", "2026-11-01T00:30:00"), ("Partition", "p")];
const BOTH: Fields<'_> =
    &[("AllocTRES", "cpu=8,node=2"), ("ReqTRES", "cpu=8,node=2"), ("NodeList", "n[1-2]")];
const HALF: Fields<'_> = &[("AllocTRES", "cpu=2,node=1"), ("ReqTRES", "cpu=2,node=1")];
const MEM: Fields<'_> = &[("ReqTRES", "cpu=1,mem=3G,node=1"), ("AllocTRES", "cpu=1,mem=3G,node=1")];
const CASES: &[Case<'_>] = &[
    Case { name: "partition", conf: N1, jobs: &with(P), wait: 30.0, said: "" },
    Case {
        name: "a partition that is gone",
        conf: N1,
        jobs: &[(0, 0, 60, &[("Partition", "old")]), (0, 0, 60, Q), (0, 0, 60, P)],
        wait: 20.0,
        said: "1 in a partition of unknown nodes",
    },
    Case { name: "no partitions", conf: N1, jobs: &TWO, wait: 0.0, said: "2 without Partition" },
    Case {
        name: "partition as its jobs show it",
        conf: "NodeName=n[1-2] CPUs=4\n",
        jobs: &[(0, 0, 60, P), (0, 60, 60, P), (0, 0, 9, Q)],
        wait: 20.0,
        said: "",
    },
    Case { name: "--exclusive", conf: N1, jobs: &with(EXCLUSIVE), wait: 30.0, said: "" },
    Case {
        name: "whole nodes of two sizes",
        conf: "NodeName=n1 CPUs=4\nNodeName=n2 CPUs=2\nPartitionName=x Nodes=ALL\n",
        jobs: &with(SIZES),
        wait: 30.0,
        said: "",
    },
    Case {
        name: "a partition of whole nodes",
        conf: "NodeName=n1 CPUs=4\nPartitionName=x Nodes=ALL OverSubscribe=EXCLUSIVE\n",
        jobs: &with(ONE),
        wait: 30.0,
        said: "",
    },
    Case {
        name: "features",
        conf: "NodeName=n1 CPUs=4 Feature=big,new\nNodeName=n2 CPUs=4\n",
        jobs: &with(BIG),
        wait: 30.0,
        said: "",
    },
    Case {
        name: "features of a node",
        conf: "NodeName=n1 CPUs=4 Features=big,huge\nNodeName=n2 CPUs=4\n",
        jobs: &with(BIG),
        wait: 30.0,
        said: "",
    },
    Case {
        name: "features that no node has",
        conf: "NodeName=n1 CPUs=4\n",
        jobs: &with(GONE),
        wait: 30.0,
        said: "2 with features",
    },
    Case {
        name: "a dependency",
        conf: N1,
        jobs: &[(0, 0, 60, P), (0, 600, 60, LATER)],
        wait: 0.0,
        said: "",
    },
    Case {
        name: "--begin, and then a wait",
        conf: N1,
        jobs: &[(599, 599, 61, P), (0, 660, 60, LATER)],
        wait: 30.0,
        said: "",
    },
    Case {
        name: "whole cores",
        conf: "NodeName=n1 CPUs=4\n",
        jobs: &[(0, 0, 60, ROUNDED), (0, 0, 60, ROUNDED), (0, 60, 60, ROUNDED)],
        wait: 20.0,
        said: "",
    },
    Case {
        name: "a clock set back",
        conf: N1,
        jobs: &[(0, 0, 60, P), (0, 60, 60, BACK)],
        wait: 30.0,
        said: "",
    },
    Case {
        name: "a reservation",
        conf: N1,
        jobs: &with(&[("Partition", "p"), ("QOS", "normal"), ("Reservation", "maint")]),
        wait: 30.0,
        said: "2 in a reservation",
    },
    Case {
        name: "QOS",
        conf: N1,
        jobs: &with(&[("QOS", "long"), ("Partition", "p")]),
        wait: 30.0,
        said: "2 under a QOS",
    },
    Case {
        name: "priority",
        conf: N1,
        jobs: &[
            (0, 0, 60, P),
            (1, 71, 60, &[("Partition", "p"), ("Priority", "10")]),
            (2, 60, 11, &[("Partition", "p"), ("Priority", "1000")]),
        ],
        wait: 42.7,
        said: "",
    },
    Case {
        name: "the limit of a partition",
        conf: "NodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL MaxTime=30\n",
        jobs: &[
            (0, 0, 60, P),
            (1, 60, 60, &[BOTH[0], BOTH[1], BOTH[2], P[0]]),
            (2, 2, 20, &[P[0], ("Timelimit", "Partition_Limit"), ("NodeList", "n2")]),
        ],
        wait: 19.7,
        said: "",
    },
    Case {
        name: "cores of the system",
        conf: "NodeName=n1 CPUs=4 CoreSpecCount=2\n",
        jobs: &with(HALF),
        wait: 30.0,
        said: "",
    },
    Case {
        name: "nodes that are down",
        conf: "NodeName=n[1-2] CPUs=4\nDownNodes=n2 State=DOWN\n",
        jobs: &TWO,
        wait: 30.0,
        said: "",
    },
    Case {
        name: "memory that nobody counts",
        conf: "NodeName=n1 CPUs=4 RealMemory=4096\nSelectTypeParameters=CR_Core\n",
        jobs: &[(0, 0, 60, MEM), (0, 0, 60, MEM)],
        wait: 0.0,
        said: "",
    },
    Case {
        name: "a limit of the partition's CPUs",
        conf: "NodeName=n1 CPUs=4\nPartitionName=p Nodes=n1 MaxCPUsPerNode=3\n",
        jobs: &with(P),
        wait: 30.0,
        said: "2 in a partition with MaxCPUsPerNode",
    },
    Case {
        name: "other nodes",
        conf: "NodeName=m[1-2] CPUs=4\n",
        jobs: &TWO,
        wait: 0.0,
        said: "2 that ran on nodes that are not given",
    },
];

/// Goal: simulated Slurm does what the accounting says, or the report says what it does not know.
/// Method: small accountings whose waits follow from paper and pencil.
#[test]
fn known_accountings_come_out_right_or_are_said() {
    let directory = tempfile::tempdir().unwrap();
    for Case { name, conf, jobs, wait, said } in CASES {
        let (found, error) = report(directory.path(), &text(jobs, "|"), conf, &[]);
        assert_eq!(error, "", "{name}");
        let mean = |side: &str| found[side]["wait_mean_s"].as_f64().unwrap() / 60.0;
        assert!((mean("slurm") - wait).abs() < 2.0, "{name}: {} for {wait}", mean("slurm"));
        let list = |(what, jobs): (&Value, &Value)| format!("{jobs} {}", what.as_str().unwrap());
        let unmodelled: Vec<String> = found["unmodelled"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| list((&row[0], &row[1])))
            .collect();
        let told = unmodelled.iter().any(|what| what.starts_with(said));
        assert!(
            if said.is_empty() { unmodelled.is_empty() } else { told },
            "{name}: {unmodelled:?}"
        );
        // What differs from what happened has no verdict.
        let apart = (mean("slurm") - mean("happened")).abs() > (mean("happened") * 0.2).max(1.0);
        let refused = found["judged"]["verdict"] == "refused";
        assert_eq!(refused, apart, "{name}: {}", found["judged"]);
    }
}

#[test]
fn cut_lines_and_odd_separators_are_read_or_said() {
    let directory = tempfile::tempdir().unwrap();
    let mean = |found: &Value| found["slurm"]["wait_mean_s"].as_f64().unwrap();
    for separator in ["^", "||", "\t", " ; "] {
        let (found, error) =
            report(directory.path(), &text(&with(&[("Partition", "p")]), separator), N1, &[]);
        assert_eq!((error.as_str(), found["skipped"].as_u64()), ("", Some(0)), "{separator:?}");
        assert!((mean(&found) - 1800.0).abs() < 120.0, "{separator:?}: {found}");
    }
    let whole = text(
        &[TWO[0], TWO[1], TWO[0]].map(|(a, b, c, _)| (a, b, c, &[("Partition", "p")][..])),
        "|",
    );
    let cut = &whole[..whole.len() - 30];
    let (found, error) = report(directory.path(), cut, N1, &[]);
    assert!(error.contains("line 4 cannot be read"), "{error}");
    assert_eq!((found["skipped"].as_u64(), found["slurm"]["jobs"].as_u64()), (Some(1), Some(2)));
    assert!((mean(&found) - 1800.0).abs() < 120.0, "{found}");
}

/// Goal: a topology counts, and one of other nodes is refused. Method: a job of two nodes that no
/// switch joins waits for two that one does.
#[test]
fn a_topology_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let conf = "NodeName=n[1-4] CPUs=4\n";
    let two: &[(&str, &str)] =
        &[("ReqTRES", "cpu=8,node=2"), ("AllocTRES", "cpu=8,node=2"), ("NodeList", "n[3-4]")];
    let jobs = text(&[(0, 0, 60, &[]), (0, 0, 60, &[("NodeList", "n3")]), (1, 60, 60, two)], "|");
    let file = directory.path().join("topology.conf");
    let leaves = "SwitchName=a Nodes=n[1,3]\nSwitchName=b Nodes=n[2,4]\n";
    fs::write(&file, leaves).unwrap();
    let topology = ["--topology", file.to_str().unwrap()];
    let (plain, _) = report(directory.path(), &jobs, conf, &[]);
    let (kept, _) = report(directory.path(), &jobs, conf, &topology);
    let wait = |found: &Value| found["slurm"]["wait_max_s"].as_i64().unwrap();
    assert!(wait(&plain) < 120 && kept["slurm"]["topology"]["leaves"] == 2, "{kept}");
    let conf = "TopologyPlugin=topology/tree\nNodeName=n[1-4] CPUs=4\n";
    let (own, _) = report(directory.path(), &jobs, conf, &[]);
    assert_eq!(own["slurm"]["topology"]["leaves"], 2, "the file beside slurm.conf: {own}");
    let (moved, _) = report(tempfile::tempdir().unwrap().path(), &jobs, conf, &[]);
    let said = moved["unmodelled"][0][0].as_str().unwrap();
    assert!(said.starts_with("without leaf switches"), "{moved}");
    fs::write(&file, "SwitchName=a Nodes=n[1,4]\nSwitchName=b Nodes=n[2,3]\n").unwrap();
    let (kept, _) = report(directory.path(), &jobs, conf, &topology);
    assert!(wait(&kept) < 120 || wait(&kept) > 3000, "{kept}");
}
