// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the command line as a process: exit codes, sockets, and output, against a server on a
//! Unix socket in place of phalanxd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use phalanx_messages::rest::heat::HeatReport;
use phalanx_messages::rest::{
    ActivityReport, DecisionsReport, ErrorBody, Explain, LatestDecision, NodeReport, NodesReport,
    PlanReport, PlannedJob, ReloadReport, ShadowReport, Status,
};

type Requests = Arc<Mutex<Vec<String>>>;

/// A server that answers each request by its path, and keeps the requests.
pub struct Server {
    _dir: tempfile::TempDir,
    socket: PathBuf,
    requests: Requests,
}

impl Server {
    pub fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("control.sock");
        let requests = Requests::default();
        let listener = StdListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&requests));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        Server { _dir: dir, socket, requests }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        phalanx(&[&["--socket", self.socket.to_str().unwrap()], arguments].concat())
    }

    fn last_request(&self) -> String {
        self.requests.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

async fn answer(State(requests): State<Requests>, request: Request) -> (StatusCode, String) {
    let line = format!("{} {}", request.method(), request.uri());
    requests.lock().unwrap().push(line.clone());
    let json = |value: &dyn erased::Json| value.text();
    match line.as_str() {
        "GET /v1/status" => {
            let status = Status { version: "9.9.9".into(), ..Status::default() };
            // A field of a newer daemon, in front, and a number's own form.
            let body = json(&status).replacen('{', "{\"zz_new\":[1.50],", 1);
            (StatusCode::OK, body)
        }
        "GET /v1/nodes" => {
            let node = NodeReport { name: "n".repeat(1000), ..NodeReport::default() };
            let report = NodesReport { nodes: vec![node; 5000], ..NodesReport::default() };
            (StatusCode::OK, json(&report))
        }
        "GET /v1/explain/130%2B1" => {
            let report =
                Explain { label: "130+1".into(), state: "PENDING".into(), ..<_>::default() };
            (StatusCode::OK, json(&report))
        }
        "GET /v1/explain/404" => {
            let error = "job 404 is not known to Slurm or to the history".into();
            (StatusCode::NOT_FOUND, json(&ErrorBody { error }))
        }
        "GET /v1/explain/400" => {
            (StatusCode::BAD_REQUEST, json(&ErrorBody { error: "not a job".into() }))
        }
        "GET /v1/explain/500" => (StatusCode::INTERNAL_SERVER_ERROR, "oops".into()),
        "GET /v1/explain/3" => (StatusCode::OK, "{\"label\": 3}".into()),
        "GET /v1/plan" => {
            let job = |job_id| PlannedJob { job_id, ..PlannedJob::default() };
            let report = PlanReport { jobs: vec![job(41), job(42)], ..PlanReport::default() };
            (StatusCode::OK, json(&report))
        }
        "GET /v1/decisions?limit=500" => {
            let made = LatestDecision { job: "413_7".into(), ..LatestDecision::default() };
            (StatusCode::OK, json(&DecisionsReport { decisions: vec![made] }))
        }
        "GET /v1/heat" => {
            let names = ["cpu1", "gpu1", "gpu2"].map(str::to_owned).to_vec();
            (StatusCode::OK, json(&HeatReport { names, ..HeatReport::default() }))
        }
        "POST /v1/reload" => (StatusCode::OK, reload_report(requests.lock().unwrap().len())),
        line if line.starts_with("GET /v1/report?since=1000") => {
            (StatusCode::OK, json(&ActivityReport { cluster: "c1".into(), ..<_>::default() }))
        }
        line if line.starts_with("GET /v1/report?since=") => {
            let error = "no such resource; see phalanx(1)".into();
            (StatusCode::NOT_FOUND, json(&ErrorBody { error }))
        }
        line if line.starts_with("GET /v1/shadow?since=") => {
            (StatusCode::OK, json(&ShadowReport::default()))
        }
        line => (StatusCode::NOT_FOUND, json(&ErrorBody { error: format!("no {line}") })),
    }
}

/// Returns the report of a reload: the first is accepted, later ones are refused.
fn reload_report(requests: usize) -> String {
    let report = if requests == 1 {
        let changed = vec!["balance.threshold".into()];
        ReloadReport { ok: true, generation: 2, changed, ..ReloadReport::default() }
    } else {
        let error = Some("/etc/p.toml:3:1: link.x: unknown key".into());
        ReloadReport { ok: false, generation: 2, error, ..ReloadReport::default() }
    };
    erased::Json::text(&report)
}

/// Serialisation behind a reference, so that one closure serves all types.
mod erased {
    pub trait Json {
        fn text(&self) -> String;
    }
    impl<T: serde::Serialize> Json for T {
        fn text(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).env_remove("PHALANX_SOCKET").stdin(Stdio::null());
    command
}

pub fn phalanx(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("not ended by a signal")
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Goal: a drill asks for the mode before it sends a signal; the test's server has no mode at all.
#[test]
fn a_drill_is_for_mode_shadow() {
    let output = Server::start().run(&["drill"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("a drill is for mode shadow"), "{text}");
}

#[test]
fn reports_are_rendered_or_printed_as_json() {
    let server = Server::start();
    let text = server.run(&["status"]);
    assert_eq!((code(&text), err(&text)), (0, String::new()));
    assert!(out(&text).starts_with("Slurm places jobs by itself: "), "{}", out(&text));
    assert!(out(&text).contains("phalanxd 9.9.9, up 00:00:00\n"), "{}", out(&text));

    // The order is the daemon's; fields of a later version are left out.
    let json = server.run(&["status", "--json"]);
    assert_eq!(code(&json), 0);
    let head = "{\n  \"version\": \"9.9.9\",\n  \"uptime_s\": 0,\n";
    assert!(out(&json).starts_with(head), "{}", out(&json));
    let report: Status = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(report.version, "9.9.9");

    assert!(out(&server.run(&["explain", "130+1"])).starts_with("Job 130+1 is PENDING; "));
    assert!(out(&server.run(&["plan"])).starts_with("2 jobs wait; there is room for 2 now."));
    assert!(out(&server.run(&["nodes"])).starts_with("No node has anything."));
    assert!(out(&server.run(&["report", "shadow"])).starts_with("No start in shadow mode"));
    let since = server.run(&["report", "shadow", "--since", "1970-01-01T00:01:00Z"]);
    assert_eq!(code(&since), 0);
    assert_eq!(server.last_request(), "GET /v1/shadow?since=60000");
}

/// Accounting of two jobs of two nodes on two nodes, of which the second waits for the first.
const ACCOUNTING: &str = "\
    JobID|User|Submit|Start|End|Elapsed|Timelimit|State|NNodes|NCPUS|ReqTRES\n\
    1|a|2026-11-01T00:00:00|2026-11-01T00:00:00|2026-11-01T00:10:00|00:10:00|00:20:00|COMPLETED\
    |2|8|cpu=8,mem=2G,node=2\n\
    2|b|2026-11-01T00:01:00|2026-11-01T00:30:00|2026-11-01T00:40:00|00:10:00|00:20:00|COMPLETED\
    |2|8|cpu=8,mem=2G,node=2\n";

#[test]
fn a_report_says_what_happened_and_what_would_have() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let since = ["report", "--since", "1970-01-01T00:00:01Z"];
    let text = server.run(&since);
    assert_eq!((code(&text), err(&text)), (0, String::new()));
    assert!(out(&text).starts_with("Nothing is recorded in this period"), "{}", out(&text));

    // On the nodes of slurm.conf, as text, JSON and page.
    let sacct = file("month.txt", ACCOUNTING);
    let conf = file("slurm.conf", "NodeName=n[1-2] CPUs=4 RealMemory=4000\n");
    let page = dir.path().join("report.html");
    let what = ["--sacct", &sacct, "--slurm-conf", &conf];
    let whole = [&since[..], &what, &["--html", page.to_str().unwrap()]].concat();
    let text = server.run(&whole);
    assert_eq!((code(&text), err(&text)), (0, String::new()));
    let said = out(&text);
    assert!(said.contains("2 nodes with 8 CPUs"), "{said}");
    assert!(said.contains("jobs without Eligible") && said.contains("\nNo verdict: "), "{said}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains("Slurm simulated"), "{html}");
    let json = server.run(&[&whole[..], &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    // The second of two jobs waits for 540 s, and for a pass of the scheduler.
    for side in ["slurm", "phalanx"] {
        let wait = value["simulated"][side]["wait_mean_s"].as_f64().unwrap();
        assert!((270.0..400.0).contains(&wait), "{side}: {wait}");
    }
    assert_eq!(value["activity"]["leaves"], serde_json::Value::Null, "unknown is not zero");

    // Without a daemon, or with one of another version, half of it.
    let gone = [&["--socket", "/nowhere/control.sock"], &since[..], &what].concat();
    let half = phalanx(&gone);
    assert_eq!(code(&half), 0, "{}", err(&half));
    assert!(out(&half).starts_with("What it would have done\n"), "{}", out(&half));
    assert_eq!(code(&phalanx(&["--socket", "/nowhere/control.sock", "report"])), 4);
    let older = server.run(&["report", "--since", "1970-01-01T00:01:00Z"]);
    assert_eq!(code(&older), 1);
    assert!(err(&older).contains("restart phalanxd"), "{}", err(&older));

    // What is wrong is named.
    let empty = file("slurm-empty.conf", "ClusterName=x\n");
    let node = "NodeName=n[1-2] CPUs=4\n";
    let twice = file("slurm-twice.conf", &format!("{node}{node}PartitionName=a Nodes=ALL\n"));
    for (arguments, said) in [
        (["--sacct", "/nowhere/month.txt", "--slurm-conf", &conf], "/nowhere/month.txt"),
        (["--sacct", &sacct, "--slurm-conf", &empty], "without --slurm-conf takes those"),
        (["--sacct", &sacct, "--slurm-conf", &twice], "slurm-twice.conf:2: node n1 is named twice"),
        (["--sacct", &conf, "--slurm-conf", &conf], "slurm.conf"),
    ] {
        let wrong = server.run(&[&since[..], &arguments].concat());
        assert_eq!(code(&wrong), 2, "{}", out(&wrong));
        assert!(err(&wrong).contains(said), "{}", err(&wrong));
        assert_eq!(err(&wrong).lines().count(), 1, "{}", err(&wrong));
    }
}

#[test]
fn negative_answers_end_with_1_and_bad_requests_with_2() {
    let server = Server::start();
    for (job, expected, message) in [
        ("404", 1, "job 404 is not known"),
        ("400", 2, "not a job"),
        ("500", 1, "phalanxd answered 500"),
        ("3", 4, "of the same version?"),
    ] {
        for json in [&[][..], &["--json"]] {
            let output = server.run(&[&["explain", job], json].concat());
            assert_eq!(code(&output), expected, "{job}");
            assert!(err(&output).contains(message), "{job}: {}", err(&output));
            assert_eq!(out(&output), "");
        }
    }
}

#[test]
fn enable_says_what_to_do() {
    let server = Server::start();
    let done = server.run(&["daemon", "enable"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert!(out(&done).contains("phalanx_enable=N"), "{}", out(&done));
    assert!(out(&done).contains("scontrol reconfigure"), "{}", out(&done));
}

#[test]
fn reload_reports_and_refusals() {
    let server = Server::start();
    let accepted = server.run(&["daemon", "reload"]);
    assert_eq!(code(&accepted), 0);
    assert!(out(&accepted).contains("Generation 2 is in force"), "{}", out(&accepted));
    assert_eq!(server.last_request(), "POST /v1/reload");
    let refused = server.run(&["daemon", "reload"]);
    assert_eq!(code(&refused), 1);
    assert!(err(&refused).contains("generation 2 stays in force"), "{}", err(&refused));
    assert!(err(&refused).contains("/etc/p.toml:3:1: link.x: unknown key"));
    let json = server.run(&["--json", "daemon", "reload"]);
    assert_eq!(code(&json), 1);
    let report: ReloadReport = serde_json::from_str(&out(&json)).unwrap();
    assert!(!report.ok);
}

#[test]
fn an_absent_daemon_ends_with_4() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control.sock");
    let path = socket.to_str().unwrap();
    let check = |output: &Output, reason: &str| {
        assert_eq!(code(output), 4);
        let text = format!("phalanx: phalanxd does not answer at {path}: ");
        assert!(err(output).starts_with(&text), "{}", err(output));
        assert!(err(output).contains(reason), "{}", err(output));
        let end = "is phalanxd running? Slurm places jobs by itself meanwhile\n";
        assert!(err(output).ends_with(end), "{}", err(output));
    };
    check(&phalanx(&["status", "--socket", path]), "No such file");
    // A socket that nobody serves any more.
    drop(StdListener::bind(&socket).unwrap());
    check(&phalanx(&["status", "--socket", path]), "refused");
    std::fs::remove_file(&socket).unwrap();

    // One that closes, one that sends rubbish, one that never answers.
    let listener = StdListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        drop(listener.accept().unwrap());
        let (mut rubbish, _) = listener.accept().unwrap();
        rubbish.write_all(b"\x00\x01\x02 not http\r\n\r\n").unwrap();
        let (mut silent, _) = listener.accept().unwrap();
        silent.read_to_end(&mut Vec::new()).unwrap();
    });
    check(&phalanx(&["status", "--socket", path]), "");
    check(&phalanx(&["status", "--socket", path]), "");
    let begin = Instant::now();
    check(&phalanx(&["status", "--socket", path]), "no answer within 5 s");
    assert!(begin.elapsed() < Duration::from_secs(30));
    server.join().unwrap();
}

#[test]
fn the_socket_comes_from_option_then_configuration_then_environment() {
    let server = Server::start();
    let socket = server.socket.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("phalanx.toml");
    std::fs::write(&config, format!("[control]\nsocket = \"{socket}\"\n")).unwrap();
    let config = config.to_str().unwrap();
    let with = |arguments: &[&str], environment: &str| {
        code(&command(arguments).env("PHALANX_SOCKET", environment).output().unwrap())
    };
    assert_eq!(with(&["status"], socket), 0);
    assert_eq!(with(&["status"], "/nowhere"), 4);
    assert_eq!(with(&["status", "--config", config], "/nowhere"), 0);
    assert_eq!(with(&["--config", config, "status", "--socket", "/nowhere"], socket), 4);
    assert_eq!(with(&["status", "--config", "/nowhere", "--socket", socket], ""), 0);
    assert_eq!(with(&["status", "--config", "/nowhere"], socket), 2);
}

#[test]
fn plan_asks_the_daemon_that_runs_not_that_of_its_other_configuration() {
    let (other, running) = (Server::start(), Server::start());
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("other.toml");
    let socket = other.socket.to_str().unwrap();
    std::fs::write(&config, format!("[control]\nsocket = \"{socket}\"\n")).unwrap();
    let asks = ["plan", "--config", config.to_str().unwrap()];
    let by_environment = command(&asks).env("PHALANX_SOCKET", &running.socket).output().unwrap();
    assert_eq!(code(&by_environment), 1, "{}", err(&by_environment));
    assert_eq!(code(&running.run(&asks)), 1);
    let asked = |server: &Server| server.requests.lock().unwrap().clone();
    assert_eq!(asked(&running), ["GET /v1/state"; 2]);
    assert_eq!(asked(&other), Vec::<String>::new());
}

#[test]
fn config_check_needs_no_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let product = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/phalanx.toml");
    let good = phalanx(&["config", "check", product.to_str().unwrap()]);
    assert_eq!((code(&good), err(&good)), (0, String::new()));
    assert!(out(&good).ends_with(": valid\n"));

    let wrong = file("wrong.toml", "[link]\ndedline_us = 1\n[log]\nlevel = 1\n");
    let output = phalanx(&["config", "check", &wrong]);
    assert_eq!((code(&output), out(&output)), (1, String::new()));
    let expected = format!(
        "phalanx: 2 problems\n\
         {wrong}:2:1: link.dedline_us: unknown key; did you mean `deadline_us`?\n\
         {wrong}:4:9: log.level: expected \"error\", \"warn\", \"info\", \"debug\" or \"trace\", \
         got integer 1\n"
    );
    assert_eq!(err(&output), expected);

    let json = phalanx(&["--json", "config", "check", &wrong]);
    assert_eq!(code(&json), 1);
    let value: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(value["ok"], false);
    assert_eq!(value["issues"][1]["line"], 4);
    assert_eq!(value["issues"][1]["column"], 9);
    assert_eq!(value["issues"][1]["key"], "log.level");

    let off = file("off.toml", "mode = \"off\"\n");
    let output = phalanx(&["--config", &off, "config", "check"]);
    assert_eq!(code(&output), 0);
    assert!(out(&output).contains("warning: mode is \"off\" everywhere"), "{}", out(&output));

    let output = phalanx(&["config", "check", "/nowhere/p.toml"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("/nowhere/p.toml: cannot read"), "{}", err(&output));
}

#[test]
fn usage_errors_end_with_2_and_help_with_0() {
    for wrong in [
        &[][..],
        &["nosuch"],
        &["status", "--nosuch"],
        &["explain"],
        &["explain", "1", "2"],
        &["config"],
        &["report", "shadow", "--since", "tomorrow"],
        &["report", "--since", "7d", "shadow"],
        &["plan", "--hours", "3"],
        &["status", "--once"],
    ] {
        let output = phalanx(wrong);
        assert_eq!(code(&output), 2, "{wrong:?}");
        assert!(!err(&output).is_empty() && out(&output).is_empty(), "{wrong:?}");
    }
    assert!(err(&phalanx(&["status", "--nosuch"])).starts_with("phalanx: unexpected argument"));
    let text = err(&phalanx(&["simulate", "--jobs", "x", "--nosuch"]));
    assert_eq!(text, "phalanx: unexpected argument '--nosuch' found\n");
    for right in [&["--help"][..], &["help", "daemon", "reload"], &["status", "-h"]] {
        let output = phalanx(right);
        assert_eq!(code(&output), 0, "{right:?}");
        assert!(out(&output).contains("Exit status:"), "{right:?}");
    }
    for word in ["-V", "--version"] {
        let own = concat!("phalanx ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!(out(&phalanx(&[word])), own);
    }
}

/// Goal: whatever is wrong with `solve`, standard error gets one line.
#[test]
fn solve_is_there_and_complains_in_one_line() {
    for wrong in [
        &["solve"][..],
        &["solve", "nosuch"],
        &["solve", "balance", "--nosuch"],
        &["solve", "balance", "--seed", "x"],
        &["--json", "solve", "balance", "--mode", "nosuch"],
        &["solve", "balance", "/nowhere"],
        &["solve", "balance", "--params", "{}", "/dev/null"],
    ] {
        let output = phalanx(wrong);
        assert_eq!((code(&output), out(&output)), (2, String::new()), "{wrong:?}");
        assert_eq!(err(&output).lines().count(), 1, "{wrong:?}: {}", err(&output));
    }
    let text = err(&phalanx(&["solve", "balance", "--nosuch"]));
    assert_eq!(text, "unexpected argument '--nosuch' found\n");
    let text = err(&phalanx(&["solve"]));
    assert_eq!(text, "the following required arguments were not provided: <METHOD>\n");
}

/// Goal: method, mode and alias are those of the help text.
#[test]
fn solve_names_every_mode_and_takes_bisect_for_data_jobs() {
    let help = out(&phalanx(&["solve", "--help"]));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Method: bag, balance, data_jobs, gang, share"), "{words}");
    assert!(words.contains("data_jobs: best, seed, round-robin, weighted;"), "{words}");
    assert!(!words.contains("bisect"), "{words}");
    let dir = tempfile::tempdir().unwrap();
    let problem = dir.path().join("problem.json");
    let text = r#"{"hosts": [{"name": "h0", "cores": 2}], "jobs": [{"id": "j", "speed_mb_per_s": 50,
        "blocks": [{"id": "b", "size_mb": 64, "replicas": ["h0"]}]}]}"#;
    std::fs::write(&problem, text).unwrap();
    let solve = |method| phalanx(&["solve", method, problem.to_str().unwrap()]);
    for (method, mode) in [("bag", "integer"), ("bisect", "exact"), ("gang", "exact")] {
        let refused = phalanx(&["solve", method, "--mode", mode, problem.to_str().unwrap()]);
        let text = format!("--mode: `phalanx-bench solve` alone answers mode {mode}\n");
        assert_eq!((code(&refused), out(&refused), err(&refused)), (2, String::new(), text));
    }
    let (named, alias) = (solve("data_jobs"), solve("bisect"));
    assert_eq!((code(&named), err(&named)), (0, String::new()));
    assert_eq!(out(&named), out(&alias));
}

/// Goal: parameters reach the genetic algorithm, and wrong ones are refused.
#[test]
fn solve_gang_takes_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let problem = dir.path().join("problem.json");
    let text = r#"{"kinds": ["cpu"], "servers": [{"name": "a", "capacity": [2]}], "jobs":
        [{"id": "j", "tasks": [{"request": [1], "any": {"mean": 1, "count": 1}}]}]}"#;
    std::fs::write(&problem, text).unwrap();
    let file = problem.to_str().unwrap();
    let solve = |params| phalanx(&["solve", "gang", "--mode", "seed", "--params", params, file]);
    let few = solve(r#"{"generations": 3, "mutation": "literal"}"#);
    assert!(out(&few).contains(r#""generations":3"#), "{} {}", out(&few), err(&few));
    for wrong in [r#"{"population": 0}"#, r#"{"mutation": "other"}"#, r#"{"oust": 0.1}"#] {
        assert_eq!(code(&solve(wrong)), 2, "{wrong}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let server = Server::start();
    let mut child = command(&["--socket", server.socket.to_str().unwrap(), "nodes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 10]).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (0, String::new()));
}
