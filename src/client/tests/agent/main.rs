// SPDX-License-Identifier: GPL-3.0-or-later
//! The agent against an invented data service.
//!
//! Goal: what is assigned runs, its values arrive, and neither a misbehaving
//! program nor an unreachable data service holds anything else up.
//!
//! Method: a service in this process that holds requests as the real one does
//! and can be switched off. One test at a time: run slots want a process
//! without other children.

#![allow(clippy::unwrap_used, clippy::panic)]

mod slots;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use phalanx_client::agent::{self, AgentOptions};
use phalanx_client::data_service::{Service, ServiceError};
use phalanx_client::slot::RunAs;
use phalanx_messages::collect::{
    DataReport, Kind, Put, Registration, Row, RunReport, SyncReply, SyncRequest, Value,
};

#[derive(Default)]
struct State {
    generation: u64,
    assignments: Vec<Registration>,
    away: bool,
    values: Vec<Put>,
    runs: BTreeMap<String, RunReport>,
    syncs: usize,
    dropped: u64,
    data: BTreeMap<String, f64>,
}

#[derive(Clone, Default)]
struct Fake(Arc<(Mutex<State>, Condvar)>);

impl Fake {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn assign(&self, assignments: Vec<Registration>) {
        self.change(|state| {
            state.generation += 1;
            state.assignments = assignments;
        });
    }

    /// Waits at most 20 s until `found` returns something.
    fn until<T>(&self, what: &str, mut found: impl FnMut(&State) -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(20);
        let mut state = self.0.0.lock().unwrap();
        loop {
            if let Some(found) = found(&state) {
                return found;
            }
            assert!(Instant::now() < end, "{what}: {:?} {:?}", state.values, state.runs);
            state = self.0.1.wait_timeout(state, Duration::from_millis(100)).unwrap().0;
        }
    }

    fn value_of(&self, name: &str) -> Put {
        self.until(name, |state| state.values.iter().rfind(|put| put.name == name).cloned())
    }

    /// Waits for a report on the run `name` that satisfies `is`.
    fn report_that(&self, name: &str, is: impl Fn(&RunReport) -> bool) -> RunReport {
        self.until(name, |state| state.runs.get(name).filter(|report| is(report)).cloned())
    }
}

impl Service for Fake {
    fn sync(&mut self, request: &SyncRequest) -> Result<SyncReply, ServiceError> {
        let (lock, changed) = &*self.0;
        let mut state = lock.lock().unwrap();
        if state.away {
            return Err(ServiceError::Unreachable("away".to_owned()));
        }
        state.syncs += 1;
        state.dropped = request.dropped;
        state.values.extend(request.values.iter().cloned());
        for run in &request.runs {
            state.runs.insert(run.name.clone(), run.clone());
        }
        changed.notify_all();
        let held = |state: &mut State| state.generation == request.generation && !state.away;
        let wait = Duration::from_millis(request.wait_ms);
        let (state, _) = changed.wait_timeout_while(state, wait, held).unwrap();
        let news = state.generation != request.generation;
        Ok(SyncReply {
            generation: state.generation,
            now_ms: 0,
            refused: Vec::new(),
            assignments: news.then(|| state.assignments.clone()),
        })
    }

    fn read(&mut self, name: &str, node: Option<&str>) -> Result<DataReport, ServiceError> {
        let state = self.0.0.lock().unwrap();
        let value = state.data.get(name).ok_or(ServiceError::NotFound(name.to_owned()))?;
        let row = Row {
            node: node.unwrap_or("n1").to_owned(),
            value: Value::Number(*value),
            time_ms: 1,
            received_ms: 1,
            age_ms: 1,
            stale: false,
        };
        Ok(DataReport { name: name.to_owned(), values: vec![row], ..DataReport::default() })
    }
}

fn script(directory: &Path, name: &str, text: &str) -> Registration {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Registration {
        name: name.to_owned(),
        cmd: path.display().to_string(),
        every_ms: 400,
        timeout_ms: 700,
        ..Registration::default()
    }
}

fn builtin(name: &str, kind: Kind, inputs: &[&str]) -> Registration {
    Registration {
        name: name.to_owned(),
        cmd: format!("builtin:{name}"),
        kind,
        inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        every_ms: 400,
        ..Registration::default()
    }
}

fn options(directory: &Path) -> AgentOptions {
    let root = RunAs::own().uid == 0;
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).unwrap().unwrap().name;
    AgentOptions {
        node: "n1".to_owned(),
        command_dirs: vec![directory.to_path_buf()],
        run_as: if root { "nobody".to_owned() } else { user },
        run_as_allowed: Vec::new(),
        service: "unix:/nowhere".to_owned(),
        root: "/".into(),
        seed: 7,
    }
}

#[test]
fn an_agent_lives_through_everything() {
    let _turn = slots::turn();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let (fake, stop) = (Fake::default(), AtomicBool::new(false));
    fake.change(|state| {
        let _ = state.data.insert("free".to_owned(), 0.25);
    });
    std::thread::scope(|scope| {
        scope.spawn(|| agent::run(fake.clone(), options(&directory), &stop));
        let _end = End(&fake, &stop);
        let good = script(&directory, "good", "echo $PHALANX_NODE >&2; echo 42.5");
        misbehaviour(&fake, &directory, &good);
        absence(&fake, &good);
        let nothing = |state: &State| state.assignments.is_empty().then_some(());
        fake.assign(Vec::new());
        fake.until("the empty list", nothing);
    });
}

/// Ends the agent when the test ends or fails, and waits for its thread in either case.
struct End<'a>(&'a Fake, &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        let mut state = self.0.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.generation += 1;
        drop(state);
        self.0.0.1.notify_all();
    }
}

/// Runs all kinds of programs at once: each is reported correctly, and the good one goes on in its
/// period.
fn misbehaviour(fake: &Fake, directory: &Path, good: &Registration) {
    let outside = Registration {
        name: "outside".to_owned(),
        cmd: "/bin/true".to_owned(),
        every_ms: 400,
        ..Registration::default()
    };
    let mut processor = script(directory, "processor", "cat");
    processor.kind = Kind::Processor;
    processor.inputs = vec!["free".to_owned(), "none".to_owned()];
    processor.value_type = phalanx_messages::collect::ValueType::Text;
    let mut all = vec![
        good.clone(),
        script(directory, "hangs", "trap '' TERM; sleep 600 & sleep 600"),
        script(directory, "floods", "head -c 10000000 /dev/zero"),
        script(directory, "binary", "printf '\\377\\376'"),
        script(directory, "nan", "echo nan"),
        script(directory, "fails", "echo why >&2; exit 3"),
        script(directory, "empty", "true"),
        outside,
        processor,
        builtin("cpu_free_ratio", Kind::Collector, &[]),
        builtin("mem_free_mib", Kind::Collector, &[]),
        builtin("capability_cpu_load", Kind::Processor, &["free"]),
        builtin("no_such_thing", Kind::Collector, &[]),
    ];
    for name in ["again1", "again2", "again3", "again4"] {
        all.push(script(directory, name, "sleep 600"));
    }
    fake.assign(all);
    assert_eq!(fake.value_of("good").value, 42.5);
    for (name, why) in [
        ("hangs", "no end within its timeout of 700 ms"),
        ("floods", "printed more than 65536 bytes"),
        ("binary", "not UTF-8"),
        ("nan", "not a finite number"),
        ("fails", "exit status 3"),
        ("empty", "not a number"),
        ("outside", "outside collect.command_dirs"),
        ("no_such_thing", "no built-in"),
        ("again4", "timeout"),
    ] {
        // On a busy machine any of them may run into its timeout at first.
        fake.report_that(name, |report| report.error.as_deref().is_some_and(|e| e.contains(why)));
    }
    let fails = fake.report_that("fails", |report| report.exit == Some(3));
    assert_eq!(fails.stderr, "why");
    assert!(fake.value_of("cpu_free_ratio").value.as_f64().unwrap() <= 1.0);
    assert!(fake.value_of("mem_free_mib").value.as_f64().unwrap() > 1.0);
    assert_eq!(fake.value_of("capability_cpu_load").value, 0.25);
    let document = fake.value_of("processor").value;
    let document: serde_json::Value = serde_json::from_str(document.as_str().unwrap()).unwrap();
    assert_eq!(document["node"], "n1");
    assert_eq!(document["inputs"]["free"][0]["value"], 0.25);
    assert_eq!(document["inputs"]["none"], serde_json::json!([]));
    let backs_off =
        |state: &State| state.runs.get("fails").filter(|run| run.backoff_ms > 0).cloned();
    assert!(fake.until("back-off", backs_off).failures >= 2);
    let good_ones = |state: &State| state.values.iter().filter(|put| put.name == "good").count();
    let before = good_ones(&fake.0.0.lock().unwrap());
    fake.until("the good one", |state| (good_ones(state) >= before + 5).then_some(()));
}

/// While the data service is away runs go on; afterwards values come with their ages, and a changed
/// registration takes the place of the old one.
fn absence(fake: &Fake, good: &Registration) {
    fake.change(|state| {
        state.generation += 1;
        state.assignments = vec![good.clone()];
    });
    fake.until("a quiet time", |state| (state.syncs > 3).then_some(()));
    fake.change(|state| {
        state.away = true;
        state.values.clear();
    });
    std::thread::sleep(Duration::from_secs(2));
    fake.change(|state| state.away = false);
    let ages = fake.until("values of the absence", |state| {
        let ages: Vec<u64> = state.values.iter().map(|put| put.age_ms).collect();
        (ages.len() >= 3).then_some(ages)
    });
    assert!(ages.iter().any(|&age| age > 500), "{ages:?}");
    let mut changed = good.clone();
    changed.args = vec!["x".to_owned()];
    fs::write(&good.cmd, "#!/bin/sh\necho 7$#\n").unwrap();
    fake.change(|state| state.values.clear());
    fake.assign(vec![changed]);
    fake.until("the changed one", |state| {
        state.values.iter().any(|put| put.value == 71.0).then_some(())
    });
}
