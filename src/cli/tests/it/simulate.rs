// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx simulate` as a program: published figures, and inputs of all sorts.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const KTH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/KTH-SP2-1996-2.swf.zst");

/// Runs the program; returns exit code, standard output and standard error.
fn simulate(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    let output = command.arg("simulate").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns one object for each policy; notes on assumptions and on limits above a day are allowed.
fn figures(arguments: &[&str]) -> Vec<Value> {
    let (code, out, error) = simulate(arguments);
    let expected = |line: &&str| {
        line.starts_with("phalanx: policy ") || line.contains("bf_window (1440 min) is below")
    };
    let mut said = error.lines().filter(|line| !expected(line));
    assert_eq!((code, said.next()), (0, None), "{arguments:?}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts one line that contains a text, and exit code 2.
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
fn a_log_of_which_nothing_can_run_is_no_success() {
    let directory = tempfile::tempdir().unwrap();
    let row = |id, cpus, seconds| {
        format!("{id} 0 0 {seconds} {cpus} -1 -1 {cpus} 9 -1 1 1 1 1 1 1 -1 -1\n")
    };
    let none = row(1, 9, 5) + &row(2, 1, -1);
    let log = |name, text: &str| file(directory.path(), name, text.as_bytes());
    let path = log("none.swf", &none);
    let arguments = ["--jobs", path.to_str().unwrap(), "--nodes", "2x(cpu=4)", "--policy", "easy"];
    let (code, out, error) = simulate(&arguments);
    assert_eq!((code, error.lines().count()), (1, 1), "{error}");
    assert!(
        error.starts_with("phalanx: ") && error.contains("every job skipped, 2 in all"),
        "{error}"
    );
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((found["jobs"].as_u64(), found["skipped"].as_u64()), (Some(0), Some(2)));
    let path = log("one.swf", &(none + &row(3, 8, 5)));
    let found = &figures(&["--jobs", path.to_str().unwrap(), "--nodes", "2x(cpu=4)"])[0];
    assert_eq!((found["jobs"].as_u64(), found["skipped"].as_u64()), (Some(1), Some(2)));
}

#[test]
fn published_figures_of_kth_come_out_and_the_daemon_gains() {
    let temporary = tempfile::tempdir().unwrap();
    let config = file(temporary.path(), "learned.toml", b"[order]\nby = \"learned\"\n");
    let common = ["--jobs", KTH, "--config", config.to_str().unwrap()];
    let names = ["fcfs", "easy", "slurm", "phalanx"];
    let all = names.iter().flat_map(|name| ["--policy", name]);
    let found = figures(&common.into_iter().chain(all).collect::<Vec<_>>());
    let found_names: Vec<&str> = found.iter().map(|f| f["policy"].as_str().unwrap()).collect();
    assert_eq!(found_names, names);
    let slowdown = |at: usize| number(&found[at], "bounded_slowdown_mean");
    assert!((slowdown(0) - 6822.0).abs() < 1.0, "{}", slowdown(0));
    assert!((slowdown(1) - 92.9).abs() < 0.5, "{}", slowdown(1));
    let wait = |at: usize| number(&found[at], "wait_max_s");
    // What Slurm's backfill lets the daemon gain, within its default budgets.
    assert!((slowdown(2) - slowdown(1)).abs() < 10.0, "{}", slowdown(2));
    assert!(slowdown(3) <= 0.95 * slowdown(2), "{} {}", slowdown(3), slowdown(2));
    assert!(wait(3) <= 1.1 * wait(2), "{} {}", wait(3), wait(2));
    assert!(found.iter().all(|f| f["jobs"] == 28_489 && f["skipped"] == 0));
    let threads = |n: &'static str| {
        let more = ["--policy", "phalanx,easy", "--threads", n];
        timeless(figures(&common.into_iter().chain(more).collect::<Vec<_>>()))
    };
    assert_eq!(threads("1"), threads("2"));
}

/// A job `number`, submitted at `submit`, of `size` CPUs, that runs for `run`.
fn line(number: u32, submit: u32, run: i32, size: i32, limit: i32) -> String {
    format!("{number} {submit} -1 {run} {size} -1 -1 {size} {limit} -1 1 1 1 1 1 1 -1 -1\n")
}

#[test]
fn a_tiny_log_gives_the_figures_of_paper_and_pencil() {
    let directory = tempfile::tempdir().unwrap();
    // 10 CPUs: 0 runs 0..100; 1 waits for it; 2 ends in time; 3 is too large;
    // 4 never ran; 5 runs longer than asked for and is ended at 20.
    let log = line(0, 0, 100, 6, 100)
        + &line(1, 10, 50, 8, 50)
        + &line(2, 10, 30, 4, 80)
        + &line(3, 20, 5, 11, 5)
        + &line(4, 20, -1, 1, 5)
        + &line(5, 200, 99, 1, 20);
    let log = file(directory.path(), "tiny.swf", log.as_bytes());
    let log = log.to_str().unwrap();
    let arguments = ["--jobs", log, "--nodes", "5x(cpu=2)", "--policy", "easy", "--json"];
    let found = &figures(&arguments)[0];
    assert_eq!((found["jobs"].as_u64(), found["skipped"].as_u64()), (Some(4), Some(2)));
    assert_eq!(found["makespan_s"], 220);
    assert_eq!((found["wait_max_s"].as_i64(), found["wait_p95_s"].as_i64()), (Some(90), Some(90)));
    assert_eq!(number(found, "wait_mean_s"), 22.5);
    assert_eq!(number(found, "bounded_slowdown_mean"), (1.0 + 140.0 / 50.0 + 1.0 + 1.0) / 4.0);
    let work = 6.0 * 100.0 + 8.0 * 50.0 + 4.0 * 30.0 + 20.0;
    assert_eq!(number(&found["utilization"], "cpu"), work / 2200.0);
    assert!(found["utilization"]["gpu"].is_null() && found["energy_j"].is_null());
    let fcfs = ["--jobs", log, "--nodes", "10x(cpu=1)", "--policy", "fcfs"];
    assert_eq!(figures(&fcfs)[0]["wait_max_s"], 140, "job 2 waits for job 1 to end");
}

#[test]
fn compressed_logs_are_known_by_their_content() {
    let directory = tempfile::tempdir().unwrap();
    let text = "; MaxProcs: 4\n".to_owned() + &line(1, 0, 10, 1, 10);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    for name in ["log.swf.gz", "log.swf"] {
        let path = file(directory.path(), name, &gzip);
        let found = figures(&["--jobs", path.to_str().unwrap(), "--policy", "easy"]);
        assert_eq!(found[0]["jobs"], 1);
    }
    let cut = file(directory.path(), "cut.swf.gz", &gzip[..gzip.len() - 9]);
    refused(&["--jobs", cut.to_str().unwrap()], "cut.swf.gz: ");
    let cut = file(directory.path(), "cut.swf.zst", &fs::read(KTH).unwrap()[..100_000]);
    refused(&["--jobs", cut.to_str().unwrap()], "cut.swf.zst: after line ");
    let none = file(directory.path(), "head.swf.zst", b"\x28\xb5\x2f\xfd");
    refused(&["--jobs", none.to_str().unwrap()], "head.swf.zst: ");
}

/// Returns the output for a log on standard input.
fn piped(log: &[u8], arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["simulate", "--jobs"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(log).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    timeless(vec![serde_json::from_slice(&output.stdout).unwrap()]).remove(0)
}

#[test]
fn a_pipe_is_read_whole_whatever_tells_its_format() {
    let text = "; MaxProcs: 4\n".to_owned()
        + &(0..4000).map(|n| line(n, 3 * n, 10, 1, 10)).collect::<String>();
    let expected = piped(text.as_bytes(), &["-", "--format", "swf", "--policy", "easy"]);
    assert_eq!(expected["jobs"], 4000);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let marked = format!("\u{feff}{text}");
    for log in [text.as_bytes(), &packed, marked.as_bytes()] {
        for name in ["-", "/dev/stdin"] {
            assert_eq!(piped(log, &[name, "--policy", "easy"]), expected, "{name}");
        }
    }
    let head = "JobID|State|Submit|Start|End|NCPUS\n";
    let job = "1|COMPLETED|2026-11-01T10:00:00|2026-11-01T10:00:00|2026-11-01T10:10:00|6\n";
    let accounted = piped(format!("{head}{job}").as_bytes(), &["-", "--policy", "fcfs"]);
    assert_eq!((&accounted["jobs"], &accounted["makespan_s"]), (&1.into(), &600.into()));
}

#[test]
fn wrong_input_gives_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        file(directory.path(), name, text.as_bytes()).to_str().unwrap().to_owned()
    };
    let good = path("good.swf", &line(1, 0, 10, 1, 10));
    let spec = ["--nodes", "1x(cpu=4)"];
    refused(&["--jobs", &path("empty.swf", "")], "no job in it");
    refused(&["--jobs", &path("head.swf", "; MaxProcs: 9\n")], "no job in it");
    let text = line(1, 0, 10, 1, 10) + "2 0 -1 ten 1 -1 -1 1 5 -1 1 1 1 1 1 1 -1 -1\n";
    refused(&["--jobs", &path("bad.swf", &text)], "bad.swf: line 2: field 4 (run time)");
    refused(&["--jobs", &path("short.swf", "1 2 3\n")], "line 1: expected 18 fields, got 3");
    refused(&["--jobs", &good], "give --nodes");
    let xz = file(directory.path(), "real.swf.xz", b"\xfd7zXZ\0\0\x04");
    refused(&["--jobs", xz.to_str().unwrap()], "real.swf.xz: is compressed by xz: expected plain");
    refused(&["--jobs", &good, spec[0], spec[1], "--turnaround", "86401"], "--turnaround");
    refused(&["--jobs", "/no/such.swf"], "/no/such.swf: No such file");
    refused(&["--jobs", "/tmp", "--format", "swf"], "is a directory");
    refused(&["--jobs", &path("log.txt", "x")], "give --format");
    refused(&["--jobs", &good, "--format", "xml"], "--format: expected");
    refused(&["--jobs", &good, "--policy", "best"], "--policy: expected one of fcfs, easy");
    for policy in ["easy++", "best-fit", "dot-product", "k8s-balanced", "fgd", "research"] {
        refused(
            &["--jobs", &good, "--policy", policy],
            &format!("{policy} is a policy of phalanx-"),
        );
    }
    refused(&["--jobs", &good, "--nodes", &good], "phalanx-bench");
    refused(&["--jobs", &good, "--nodes", "4x(cpu=many)"], "--nodes");
    refused(&["--jobs", &good, "--nodes", "/no/nodes.csv"], "\"/no/nodes.csv\": no such file");
    refused(&["--jobs", &good, "--nodes", ""], "--nodes \"\": no such file, and not nodes as in");
    let known = [&["--jobs", &good][..], &spec].concat();
    refused(&[&known[..], &["--config", "/no/such.toml"]].concat(), "/no/such.toml");
    refused(&[&known[..], &["--out", &format!("{good}/sub")]].concat(), "good.swf/sub: ");
    refused(&[&known[..], &["--out", "/proc/self"]].concat(), "/proc/self: ");
    refused(&["--jobs", &good, spec[0], spec[1], "--threads", "0"], "--threads");
    refused(&["--jobs", &good, "--seed"], "--seed");
    refused(&[], "--jobs");
}

#[test]
fn the_report_is_whole_and_the_same_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let log: String = (0..200)
        .map(|n: i32| {
            line(n.unsigned_abs(), n.unsigned_abs() * 7, 20 + n * 37 % 400, 1 + n % 9, 600)
        })
        .collect();
    let log = file(directory.path(), "a<b>.swf", log.as_bytes());
    let report = |name: &str, threads: &str| {
        let out = directory.path().join(name);
        let policies = ["--policy", "easy", "--policy", "phalanx", "--threads", threads];
        let place = ["--jobs", log.to_str().unwrap(), "--nodes", "4x(cpu=4)"];
        let out_option = ["--out", out.to_str().unwrap()];
        figures(&[&place[..], &policies, &out_option].concat());
        ["report.html", "summary.csv", "jobs.csv"]
            .map(|file| fs::read_to_string(out.join(file)).unwrap())
    };
    let [page, summary, jobs] = report("one", "1");
    assert_eq!([page.clone(), summary.clone(), jobs.clone()], report("two", "2"));
    assert_eq!((summary.lines().count(), jobs.lines().count()), (3, 401));
    assert!(page.contains("a&lt;b&gt;.swf") && !page.contains("a<b>"));
    assert!(!page.contains("http") && !page.contains("<script"), "needs no network");
    assert_eq!(page.matches("<svg").count(), 2, "use and waits");
    let classes = page.split("<h2>Median wait").nth(1).unwrap().split("</section>").next().unwrap();
    let jobs_of = |row: &str| row.split("<td>").nth(1)?.split('<').next()?.parse::<usize>().ok();
    let jobs = classes.split("<tr><td>").filter_map(jobs_of);
    assert_eq!(jobs.sum::<usize>(), 200, "each job is in a class");
    let out = directory.path().join("one");
    let place = ["--jobs", log.to_str().unwrap(), "--nodes", "4x(cpu=4)", "--policy", "easy"];
    let there = |name: &str| fs::read_dir(directory.path().join(name)).unwrap().count();
    assert_eq!((there("one"), there("two")), (3, 3), "nothing but the report");
    fs::remove_file(out.join("report.html")).unwrap();
    fs::create_dir(out.join("report.html")).unwrap();
    refused(&[&place[..], &["--out", out.to_str().unwrap()]].concat(), "one/report.html: ");
    assert_eq!(there("one"), 3, "what could not be finished is removed");
    refused(&[&place[..], &["--out", "/proc/no"]].concat(), "/proc/no");
}

/// Goal: the text of `sacct --format=ALL` is read for a job whose name has a separator, and whose
/// command line has several lines.
fn text_of_several_lines(directory: &Path) -> String {
    let times = "COMPLETED|2026-11-01T10:00:00|2026-11-01T10:00:00|2026-11-01T10:10:00";
    let text = format!(
        "JobID|JobName|State|Submit|Start|End|SubmitLine|NCPUS\n\
         1|a|b|{times}|sbatch -J a|b --wrap sleep|4\n2|wrap|{times}|sbatch --wrap=\n\nsleep 9\n|4\n"
    );
    file(directory, "whole.sacct", text.as_bytes()).to_str().unwrap().to_owned()
}

#[test]
fn accounting_goes_in_as_sacct_prints_it() {
    let directory = tempfile::tempdir().unwrap();
    let head = "JobID|User|JobName|Submit|Start|End|Elapsed|State|NCPUS|NodeList|Timelimit\n";
    let row = |id: &str, submit: &str, start: &str, end: &str, elapsed: &str, cpus: u32| {
        let day = "2026-11-01T";
        format!(
            "{id}|ann|md|{day}{submit}|{day}{start}|{day}{end}|{elapsed}|COMPLETED|{cpus}|n1|\
             01:00:00\n"
        )
    };
    let text = head.to_owned()
        + &row("1", "10:00:00", "10:00:00", "10:10:00", "00:10:00", 6)
        + &row("1.batch", "10:00:00", "10:00:00", "10:10:00", "00:10:00", 6)
        + &row("2", "10:00:00", "10:20:00", "10:25:00", "00:05:00", 4)
        + "3|bob|x|2026-11-01T10:00:00|Unknown|Unknown|00:00:00|PENDING|1||01:00:00\n";
    let log = file(directory.path(), "month.sacct", text.as_bytes());
    let log = log.to_str().unwrap();
    let found = &figures(&["--jobs", log, "--policy", "easy"])[0];
    assert_eq!((found["jobs"].as_u64(), found["skipped"].as_u64()), (Some(2), Some(1)));
    assert_eq!(found["wait_max_s"], 600, "6 CPUs were in use at once: one after the other");
    let wide = &figures(&["--jobs", log, "--nodes", "1x(cpu=10)", "--policy", "phalanx"])[0];
    assert_eq!(wide["wait_max_s"], 0);
    let bad = file(directory.path(), "bad.psv", (text + "4|ann\n").as_bytes());
    for nodes in [&[][..], &["--nodes", "1x(cpu=10)"]] {
        let arguments = [&["--jobs", bad.to_str().unwrap(), "--policy", "slurm"], nodes].concat();
        let (code, out, error) = simulate(&arguments);
        assert!(code == 0 && error.contains("bad.psv: line 6 cannot be read"), "{error}");
        let found: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((found["jobs"].as_u64(), found["skipped"].as_u64()), (Some(2), Some(2)));
    }
    let only_bad = file(directory.path(), "only.psv", format!("{head}4|ann\n").as_bytes());
    refused(&["--jobs", only_bad.to_str().unwrap()], "only.psv: line 2: expected 11 fields");
    let sizeless = b"JobID|State|Start|Elapsed\n1|COMPLETED|7|00:00:03\n";
    let sizeless = file(directory.path(), "sizeless.psv", sizeless);
    refused(&["--jobs", sizeless.to_str().unwrap()], "expected column NCPUS");
    let two =
        b"Cluster|JobID|State|Start|Elapsed|NCPUS\na|1|FAILED|7|00:03|1\nb|1|FAILED|7|00:03|1\n";
    let two = file(directory.path(), "two.psv", two);
    refused(&["--jobs", two.to_str().unwrap()], "jobs of 2 clusters (a, b)");
    let whole = text_of_several_lines(directory.path());
    let found = &figures(&["--jobs", &whole, "--nodes", "1x(cpu=10)", "--policy", "phalanx"])[0];
    assert_eq!((found["jobs"].as_u64(), found["skipped"].as_u64()), (Some(2), Some(0)));
    let none = file(directory.path(), "none.sacct", head.as_bytes());
    refused(&["--jobs", none.to_str().unwrap()], "no job in it that ran");
    let other = file(directory.path(), "other.sacct", b"a,b\n1,2\n");
    refused(&["--jobs", other.to_str().unwrap()], "line 1: expected the header line");
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
        "stock",
        "balance-seed",
        "balance",
        "gang-seed",
        "gang",
        "slurm",
        "phalanx",
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

/// A topology of two leaf switches of two nodes of 2 CPUs; `above`: a switch that joins them.
fn leaves(directory: &Path, above: &str) -> PathBuf {
    let text = format!("SwitchName=a Nodes=x[1-2]\nSwitchName=b Nodes=y[1-2]\n{above}");
    file(directory, "topology.conf", text.as_bytes())
}

#[test]
fn jobs_keep_to_switches_and_their_leaves_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    // 1 and 2 share leaf a, 3 has half of b; 4 needs a leaf of its own.
    let log = line(1, 0, 100, 2, 100)
        + &line(2, 1, 10, 2, 10)
        + &line(3, 2, 100, 2, 100)
        + &line(4, 12, 50, 4, 50)
        + &line(5, 300, 10, 1, 10)
        + &line(6, 301, 10, 6, 10);
    let log = file(directory.path(), "leaves.swf", log.as_bytes());
    let conf = leaves(directory.path(), "");
    let run = |conf: &Path, policy: &str| {
        let (log, conf) = (log.to_str().unwrap(), conf.to_str().unwrap());
        let nodes = ["--nodes", "4x(cpu=2)", "--topology", conf, "--policy", policy];
        figures(&["--jobs", log].into_iter().chain(nodes).collect::<Vec<_>>()).remove(0)
    };
    let forest = run(&conf, "stock");
    let leaf = &forest["topology"];
    // The two free nodes at 12 s are on different leaves, and no switch joins three nodes.
    assert_eq!((forest["jobs"].as_u64(), forest["skipped"].as_u64()), (Some(5), Some(1)));
    assert_eq!((forest["wait_max_s"].as_i64(), leaf["refused_jobs"].as_u64()), (Some(88), Some(1)));
    assert_eq!((leaf["kind"].as_str(), leaf["leaves"].as_u64()), (Some("tree"), Some(2)));
    assert_eq!(
        (leaf["multi_node_jobs"].as_u64(), leaf["largest_leaf"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!(number(leaf, "whole_leaf_in_one_pct"), 100.0);
    assert_eq!(
        (number(leaf, "extra_leaves_mean"), number(leaf, "half_leaf_wait_mean_s")),
        (0.0, 88.0)
    );

    let conf = leaves(directory.path(), "SwitchName=top Switches=a,b\n");
    let tree = run(&conf, "easy");
    let leaf = &tree["topology"];
    assert_eq!((tree["jobs"].as_u64(), tree["wait_max_s"].as_i64()), (Some(6), Some(0)));
    assert_eq!(
        (leaf["multi_node_jobs"].as_u64(), leaf["refused_jobs"].as_u64()),
        (Some(2), Some(0))
    );
    // Job 4 got two leaves, as few as there were then; job 6 needs two.
    assert_eq!((number(leaf, "extra_choice_mean"), number(leaf, "extra_frag_mean")), (0.0, 0.5));
    assert_eq!(number(leaf, "whole_leaf_in_one_pct"), 0.0);
    assert_eq!(number(leaf, "fewest_leaves_pct"), 100.0);
}

/// Goal: arrays are bags where watts are known. Method: three bursts of two tasks, of which the
/// second teaches what a task takes on the other nodes, and the third goes to the thrifty nodes.
#[test]
fn arrays_go_where_energy_is_least() {
    let temporary = tempfile::tempdir().unwrap();
    let starts = [0, 0, 0, 0, 1000, 1000];
    let swf: String = (1..).zip(starts).map(|(at, submit)| line(at, submit, 100, 4, 200)).collect();
    let swf = file(temporary.path(), "bag.swf", swf.as_bytes());
    let head = "JobID|State|Submit|Start|End|NCPUS|JobName|User\n";
    let row = |(at, submit): (u32, u32)| {
        let (array, from) = (1 + submit / 1000, 1_700_000_000 + submit);
        let to = from + 100;
        format!("{array}_{at}|COMPLETED|{from}|{from}|{to}|4|render|ann\n")
    };
    let sacct = head.to_owned() + &(1..).zip(starts).map(row).collect::<String>();
    let sacct = file(temporary.path(), "bag.sacct", sacct.as_bytes());
    let nodes = "2x(cpu=4,idle=10,busy=400,speed=1)+2x(cpu=4,idle=10,busy=50)";
    for log in [swf, sacct] {
        let log = log.to_str().unwrap();
        let policies = ["easy", "bag", "bag-seed", "phalanx"].map(|name| ["--policy", name]);
        let arguments = [&["--jobs", log, "--nodes", nodes], policies.as_flattened()].concat();
        let joules: Vec<f64> =
            figures(&arguments).iter().map(|of| number(of, "energy_j")).collect();
        let first = 40.0 * 1100.0 + 100.0 * (2.0 * 390.0 + 2.0 * 40.0);
        assert_eq!(joules[0], first + 100.0 * 2.0 * 390.0);
        assert_eq!(joules[1..3], [first + 100.0 * 2.0 * 40.0; 2]);
        // Slurm tries a task as it comes, before the next one of its array is planned.
        assert!(joules[3] < joules[0], "{joules:?}");
    }
}

/// Goal: each policy says by which keys it decides, and which policy it is where it lacks data for
/// its plans; `phalanx` is the configuration, without one as it is shipped.
#[test]
fn a_policy_says_what_it_assumes() {
    let temporary = tempfile::tempdir().unwrap();
    let swf = "; MaxProcs: 8\n".to_owned() + &line(1, 0, 100, 4, 200);
    let log = file(temporary.path(), "one.swf", swf.as_bytes());
    let off = "[order]\nby = \"plan\"\n[gang]\nmode = \"off\"\n[bag]\nmode = \"seed\"\n\
               hold = \"never\"\n[data_jobs]\nmode = \"off\"\n[balance]\nmode = \"seed\"\n";
    let off = file(temporary.path(), "off.toml", off.as_bytes());
    let (log, off) = (log.to_str().unwrap(), off.to_str().unwrap());
    let said = |more: &[&str]| {
        let (code, _, error) = simulate(&[&["--jobs", log], more].concat());
        assert_eq!(code, 0, "{error}");
        error.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(said(&["--policy", "easy,fcfs,slurm"]), [""; 0]);
    let why = "jobs take any CPUs, as no nodes with --topology, speed= or --blocks say more: it";
    let shipped = r#"phalanx: policy phalanx: with mode = "enforce", order.by = "off""#;
    assert_eq!(
        said(&["--policy", "gang,phalanx"]),
        [
            format!("phalanx: policy gang: {why} is policy easy"),
            shipped.to_owned(),
            format!("phalanx: policy phalanx: {why} is policy slurm"),
        ]
    );
    let nodes = ["--nodes", "2x(cpu=4,speed=1)", "--policy", "bag,data,phalanx"];
    let best = r#"balance.mode = "best""#;
    let modes = r#""off", balance.mode = "best", gang.mode = "ga", bag.mode = "best", "#;
    let watts = "without idle= and busy= of all --nodes, or bag.watts of --config by class,";
    assert_eq!(
        said(&nodes),
        [
            format!("phalanx: policy bag: with {best}, bag.mode = \"best\", bag.hold = \"brief\""),
            format!("phalanx: policy bag: {watts} it is policy balance"),
            format!("phalanx: policy data: with {best}"),
            "phalanx: policy data: without --blocks it is policy balance".to_owned(),
            shipped.replace(r#""off""#, modes) + r#"bag.hold = "brief", data_jobs.mode = "best""#,
            format!("phalanx: policy phalanx: {watts} it plans no arrays"),
            "phalanx: policy phalanx: without --blocks it plans no data jobs".to_owned(),
        ]
    );
    let other = said(&[&nodes[..2], &["--policy", "phalanx", "--config", off]].concat());
    assert_eq!(
        other[0],
        "phalanx: policy phalanx: with mode = \"enforce\", order.by = \"plan\", balance.mode = \
         \"seed\", bag.mode = \"seed\", bag.hold = \"never\", data_jobs.mode = \"off\""
    );
    assert_eq!(other.len(), 2, "{other:?}");
}

/// Goal: watts by class in the configuration are as good as watts in the nodes' list.
#[test]
fn watts_by_class_of_the_configuration_count() {
    let temporary = tempfile::tempdir().unwrap();
    let starts = [0, 0, 0, 0, 1000, 1000];
    let swf: String = (1..).zip(starts).map(|(at, submit)| line(at, submit, 100, 4, 200)).collect();
    let swf = file(temporary.path(), "bag.swf", swf.as_bytes());
    let config = "[bag]\nwatts = { \"n/c4/m0\" = 300 }\n\
                  [energy]\nidle_watts = { \"n/c4/m0\" = 20 }\n";
    let config = file(temporary.path(), "watts.toml", config.as_bytes());
    let of = |nodes: &str, more: &[&str]| {
        let words = ["--jobs", swf.to_str().unwrap(), "--policy", "bag,phalanx", "--nodes", nodes];
        timeless(figures(&[&words[..], more].concat()))
    };
    let by_class = of("4x(cpu=4,speed=1)", &["--config", config.to_str().unwrap()]);
    assert!(number(&by_class[0], "energy_j") > 0.0);
    assert_eq!(by_class, of("4x(cpu=4,speed=1,idle=20,busy=300)", &[]));
}

/// Goal: a job takes longer on slower nodes, and for blocks that other nodes hold.
#[test]
fn runs_depend_on_speed_and_input() {
    let temporary = tempfile::tempdir().unwrap();
    let log = file(temporary.path(), "one.swf", line(1, 0, 100, 4, 200).as_bytes());
    let log = log.to_str().unwrap();
    let of = |more: &[&str]| {
        let base = ["--jobs", log, "--policy", "easy"];
        figures(&[&base[..], more].concat()).remove(0)
    };
    assert_eq!(number(&of(&["--nodes", "1x(cpu=4,speed=0.5)"]), "makespan_s"), 200.0);
    // Three replicas on three nodes: all is near.
    let near = of(&["--nodes", "3x(cpu=4)", "--blocks", "8"]);
    assert_eq!((number(&near, "makespan_s"), number(&near, "input_remote_pct")), (100.0, 0.0));
    // Each core reads two of 8 blocks, from another node in 1.024 s each.
    let far = of(&["--nodes", "99x(cpu=4)", "--blocks", "8"]);
    let remote = number(&far, "input_remote_pct");
    assert!(remote > 50.0, "{remote}");
    assert_eq!(number(&far, "makespan_s"), 103.0);
    refused(&["--jobs", log, "--nodes", "3x(cpu=4)", "--blocks", "0"], "--blocks: expected 1 to");
}

/// Goal: data jobs go near the inputs that comments name; the document's baselines do not.
#[test]
fn data_jobs_go_near_their_blocks() {
    let temporary = tempfile::tempdir().unwrap();
    let row = |at: u32| {
        let (from, set) = (1_700_000_000 + 10 * at, at % 5);
        let comment = if at < 20 { format!("data-input=s{set}") } else { String::new() };
        format!("{at}|COMPLETED|{from}|{from}|{}|4|{comment}\n", from + 60)
    };
    let rows: String = (0..40).map(row).collect();
    let text = format!("JobID|State|Submit|Start|End|NCPUS|Comment\n{rows}");
    let log = file(temporary.path(), "data.sacct", text.as_bytes());
    let policies = ["data", "data-seed", "phalanx", "easy", "round-robin", "weighted"];
    let policies = policies.map(|name| ["--policy", name]);
    let base = ["--jobs", log.to_str().unwrap(), "--nodes", "16x(cpu=8)", "--blocks", "6"];
    let found = figures(&[&base[..], policies.as_flattened()].concat());
    let remote: Vec<f64> = found.iter().map(|of| number(of, "input_remote_pct")).collect();
    let (ours, others) = remote.split_at(3);
    let least = others.iter().copied().fold(100.0, f64::min);
    assert!(ours.iter().all(|own| *own < least - 10.0), "{remote:?}");
    assert_ne!(remote[4], remote[3], "hosts in turn are not the first ones");
}

#[test]
fn a_topology_of_other_nodes_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let log = file(directory.path(), "one.swf", line(1, 0, 10, 1, 10).as_bytes());
    let (log, conf) = (log.to_str().unwrap(), leaves(directory.path(), ""));
    let conf = conf.to_str().unwrap();
    let with = |nodes: &'static str| ["--jobs", log, "--topology", conf, "--nodes", nodes];
    refused(&with("3x(cpu=1)"), "expected 4 nodes as in the topology, got 3");
    refused(&["--jobs", log, "--topology", conf], "--topology needs --nodes");
    let bad = file(directory.path(), "bad.conf", b"SwitchName=a Nodes=x[1-\n");
    let arguments = ["--jobs", log, "--topology", bad.to_str().unwrap(), "--nodes", "1x(cpu=1)"];
    refused(&arguments, "bad.conf: topology, line 1: nodes: hostlist");
    let nodes =
        file(directory.path(), "n.csv", b"sn,cpu_milli,memory_mib,gpu,model\nz,1000,0,0,\n");
    let arguments = ["--jobs", log, "--topology", conf, "--nodes", nodes.to_str().unwrap()];
    // A list of nodes by name is for phalanx-bench, which says what the topology lacks.
    refused(&arguments, "phalanx-bench");
}
