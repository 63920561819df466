// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the whole data service, with a simulated clock.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::failure::Failure;
use phalanx_messages::collect::{
    CONFIGURATION, HISTORY, Patch, Put, Registration, RunReport, State, SyncReply, SyncRequest,
    TakenFrom, UseChange, Value,
};

const T0: Now = Now { wall_ms: 1_800_000_000_000, mono_ms: 10 };

fn at(ms: u64) -> Now {
    Now { wall_ms: T0.wall_ms + ms, mono_ms: T0.mono_ms + i64::try_from(ms).unwrap() }
}

struct Bench {
    dir: tempfile::TempDir,
    collect: Collect,
    changes: watch::Receiver<u64>,
}

fn settings(dir: &Path) -> Settings {
    Settings {
        path: Some(dir.join("collect.sqlite")),
        command_dirs: vec![dir.join("commands")],
        owner: nix::unistd::Uid::effective().as_raw(),
        stale_periods: 3,
        history_step_s: 0,
        retention_hours: 1,
        max_mb: 16,
        registrations: Vec::new(),
        uses: vec![
            Use {
                key: "share.capability".into(),
                name: CONFIGURATION.into(),
                fallback: CONFIGURATION.into(),
                own: &[],
            },
            Use {
                key: "gang.speed".into(),
                name: HISTORY.into(),
                fallback: HISTORY.into(),
                own: &[HISTORY],
            },
        ],
    }
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let commands = dir.path().join("commands");
    fs::create_dir(&commands).unwrap();
    fs::set_permissions(&commands, fs::Permissions::from_mode(0o755)).unwrap();
    let collect = Collect::new(settings(dir.path()), T0);
    let changes = collect.generations();
    Bench { dir, collect, changes }
}

impl Bench {
    fn command(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join("commands").join(name);
        fs::write(&path, "#!/bin/sh\necho 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn patch(&self, name: &str) -> Patch {
        let cmd = Some(self.command("c").display().to_string());
        Patch { name: Some(name.into()), cmd, every_ms: Some(1000), ..Patch::default() }
    }

    fn sync(&self, node: &str, values: Vec<Put>, now: Now) -> SyncReply {
        let request = SyncRequest { values, ..SyncRequest::default() };
        let (_, refused) = self.collect.begin_sync(node, &request, now).unwrap();
        self.collect.end_sync(node, request.generation, refused, now)
    }

    fn again(&self, now: Now) -> Collect {
        Collect::new(settings(self.dir.path()), now)
    }
}

fn value(name: &str, value: serde_json::Value) -> Put {
    Put { name: name.into(), value, ..Put::default() }
}

#[test]
fn a_registration_reaches_agents_and_outlives_the_daemon() {
    let bench = bench();
    let before = bench.sync("n1", vec![], at(0));
    assert_eq!(before.assignments, Some(vec![]));
    let made = bench.collect.add(bench.patch("a"), at(1)).unwrap();
    assert_eq!((made.version, made.every_ms, made.changed_ms), (1, 1000, at(1).wall_ms));
    assert!(bench.collect.generation() > before.generation);
    assert_eq!(*bench.changes.borrow(), bench.collect.generation());
    assert_eq!(bench.sync("n1", vec![], at(2)).assignments, Some(vec![made.clone()]));
    assert!(matches!(bench.collect.add(bench.patch("a"), at(2)), Err(Failure::Conflict(_))));
    let faster = Patch { every_ms: Some(500), ..Patch::default() };
    assert_eq!(bench.collect.update("a", faster, at(3)).unwrap().version, 2);
    let renamed = Patch { name: Some("b".into()), ..Patch::default() };
    assert!(matches!(bench.collect.update("a", renamed, at(3)), Err(Failure::BadRequest(_))));
    let again = bench.again(at(4));
    assert_eq!(again.collector("a", at(4)).unwrap().registration.every_ms, 500);
    bench.collect.remove("a").unwrap();
    assert!(matches!(bench.collect.remove("a"), Err(Failure::NotFound(_))));
    assert!(bench.again(at(4)).collectors(at(4)).collectors.is_empty());
}

#[test]
fn wrong_registrations_change_nothing() {
    let bench = bench();
    let outside = bench.dir.path().join("outside");
    fs::write(&outside, "#!/bin/sh\n").unwrap();
    let with = |change: fn(&mut Patch)| {
        let mut patch = bench.patch("a");
        change(&mut patch);
        patch
    };
    let mut cases = vec![
        (with(|p| p.name = None), "name: missing"),
        (with(|p| p.cmd = None), "cmd: missing"),
        (with(|p| p.name = Some("1a".into())), "name: expected"),
        (with(|p| p.name = Some("a/b".into())), "name: expected"),
        (with(|p| p.name = Some("a".repeat(64))), "name: expected"),
        (with(|p| p.cmd = Some("c".into())), "cmd: expected an absolute path"),
        (with(|p| p.cmd = Some("builtin:".into())), "cmd: expected"),
        (with(|p| p.cmd = Some("/bin/sh".into())), "outside collect.command_dirs"),
        (with(|p| p.cmd = Some("/nonexistent/x".into())), "No such file"),
        (with(|p| p.every_ms = Some(99)), "every_ms: expected 100 to"),
        (with(|p| p.timeout_ms = Some(0)), "timeout_ms: expected"),
        (with(|p| p.nodes = Some(String::new())), "nodes: expected"),
        (with(|p| p.nodes = Some("n[1-".into())), "nodes: hostlist"),
        (with(|p| p.nodes = Some("n[1-999999999]".into())), "nodes: hostlist"),
        (with(|p| p.inputs = Some(vec!["b".into()])), "only a processor"),
        (with(|p| p.run_as = Some("a b".into())), "run_as: expected"),
        (with(|p| p.args = Some(vec!["\0".into()])), "args: expected no NUL"),
        (with(|p| p.output = Some(phalanx_messages::collect::Output::Nodes)), "@master"),
    ];
    let path = Some(outside.display().to_string());
    cases.push((Patch { cmd: path, ..bench.patch("a") }, "outside collect.command_dirs"));
    for (patch, expected) in cases {
        let error = bench.collect.add(patch.clone(), T0).unwrap_err();
        assert!(matches!(error, Failure::BadRequest(_)), "{patch:?}");
        assert!(error.to_string().contains(expected), "{error}: expected {expected}");
    }
    assert!(bench.collect.collectors(T0).collectors.is_empty());
    assert!(!bench.changes.has_changed().unwrap());
}

#[test]
fn agents_hand_in_what_they_run_and_nothing_else() {
    let bench = bench();
    bench.collect.add(Patch { nodes: Some("n[1-2]".into()), ..bench.patch("a") }, T0).unwrap();
    let foreign = Put { node: Some("n2".into()), ..value("a", json!(1)) };
    let values = vec![
        value("a", json!(0.5)),
        foreign,
        value("b", json!(1)),
        value("a", json!(null)),
        value("a", json!("text")),
        value("a", json!([1])),
        value("a/b", json!(1)),
    ];
    let reply = bench.sync("n1", values, T0);
    let refused: Vec<usize> = reply.refused.iter().map(|refused| refused.index).collect();
    assert_eq!(refused, [1, 2, 3, 4, 5, 6]);
    let rows = bench.collect.data("a", None, T0).unwrap().values;
    assert_eq!(
        (rows.len(), &rows[0].node, &rows[0].value),
        (1, &"n1".to_owned(), &Value::Number(0.5))
    );
    assert_eq!(bench.sync("n3", vec![value("a", json!(1))], T0).refused.len(), 1);
    assert!(bench.collect.begin_sync("@cluster", &SyncRequest::default(), T0).is_err());
    assert!(bench.collect.begin_sync("a b", &SyncRequest::default(), T0).is_err());
    assert!(matches!(bench.collect.data("zzz", None, T0), Err(Failure::NotFound(_))));
    let agents = bench.collect.agents(T0).agents;
    assert_eq!((agents[0].values, agents[0].refused), (1, 6));
}

/// Goal: faults on a node are visible until they end.
#[test]
fn failing_stale_and_silent_instances_are_visible() {
    let bench = bench();
    bench.collect.add(bench.patch("a"), T0).unwrap();
    let state = |now| bench.collect.collector("a", now).unwrap();
    assert_eq!(state(T0).state, State::Waiting);
    bench.sync("n1", vec![value("a", json!(1))], at(0));
    bench.sync("n2", vec![value("a", json!(1))], at(0));
    assert_eq!((state(at(1)).state, state(at(1)).instances.fresh), (State::Running, 2));
    let error = Some("not a finite number: \"nan\"".to_owned());
    let run = RunReport { name: "a".into(), error, failures: 3, ..RunReport::default() };
    let request = SyncRequest { runs: vec![run], ..SyncRequest::default() };
    bench.collect.begin_sync("n2", &request, at(1500)).unwrap();
    let report = state(at(1600));
    assert_eq!((report.state, report.instances.failing), (State::Failing, 1));
    assert_eq!(report.nodes_state[0].node, "n2");
    assert!(report.last_error.unwrap().starts_with("n2: not a finite"));
    bench.sync("n2", vec![value("a", json!(2))], at(2000));
    assert_eq!(state(at(2001)).state, State::Running);
    // n1 says nothing for longer than three periods.
    let late = state(at(3500));
    assert_eq!((late.state, late.instances.stale), (State::Failing, 1));
    let stop = Patch { enabled: Some(false), ..Patch::default() };
    bench.collect.update("a", stop, at(3500)).unwrap();
    assert_eq!(state(at(3500)).state, State::Stopped);
}

/// Goal: a registration stops on the named nodes only, stays stopped over a restart of the daemon,
/// and a start without nodes applies everywhere.
#[test]
fn stopped_on_some_nodes() {
    let bench = bench();
    bench.collect.add(bench.patch("a"), T0).unwrap();
    let runs = |node: &str| {
        let assigned = bench.sync(node, vec![], at(1)).assignments;
        !assigned.expect("a change").is_empty()
    };
    let switch = |nodes: Option<&str>, run| bench.collect.switch("a", nodes, run, at(2));
    let stopped = switch(Some("n[1-3]"), false).unwrap();
    assert_eq!((stopped.except.as_str(), stopped.enabled), ("n[1-3]", true));
    assert_eq!([runs("n1"), runs("n3"), runs("n4")], [false, false, true]);
    assert_eq!(switch(Some("n2"), true).unwrap().except, "n[1,3]");
    assert!(runs("n2") && !runs("n1"));
    assert_eq!(bench.again(at(3)).collector("a", at(3)).unwrap().registration.except, "n[1,3]");
    assert_eq!(bench.collect.collector("a", at(1)).unwrap().instances.assigned, 2);
    assert!(!switch(None, false).unwrap().enabled && !runs("n2"));
    let started = switch(None, true).unwrap();
    assert_eq!((started.except.as_str(), started.enabled), ("", true));
    assert!(runs("n1"));
    for wrong in ["", "n[", "n[1-2"] {
        assert!(matches!(switch(Some(wrong), false), Err(Failure::BadRequest(_))), "{wrong}");
    }
    let some = Patch { nodes: Some("n[1-2]".into()), ..Patch::default() };
    bench.collect.update("a", some, at(4)).unwrap();
    let error = switch(Some("n3"), false).unwrap_err().to_string();
    assert!(error.contains("n3 is not among its nodes (n[1-2])"), "{error}");
}

/// Goal: a registration is stopped outside its times, and nothing else changes.
#[test]
fn times_of_a_registration() {
    let bench = bench();
    let local = T0.local();
    let clock = |hours: i64| {
        let time = local.checked_add(jiff::Span::new().hours(hours)).unwrap();
        time.strftime("%Y-%m-%d %H:%M").to_string()
    };
    let times = |start: i64, stop: i64| Patch {
        start: Some(clock(start)),
        stop: Some(clock(stop)),
        ..bench.patch("timed")
    };
    bench.collect.add(times(1, 2), T0).unwrap();
    bench.collect.add(bench.patch("always"), T0).unwrap();
    let state = |at: Now| {
        bench.collect.tick(at);
        bench.sync("n1", vec![], at);
        let of = |name: &str| bench.collect.collector(name, at).unwrap().state;
        assert_eq!(of("always"), State::Waiting);
        of("timed")
    };
    let after = |minutes: u64| at(minutes * 60_000);
    assert_eq!(state(after(0)), State::Stopped);
    assert_eq!(state(after(61)), State::Waiting);
    assert_eq!(state(after(121)), State::Stopped);
    let error =
        bench.collect.update("timed", Patch { start: Some("noon".into()), ..times(1, 2) }, T0);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("start: expected a time such as 08:00"), "{error}");
}

/// Goal: a stale node takes the fallback, and a switch takes effect at once.
#[test]
fn methods_get_a_number_for_every_node() {
    let bench = bench();
    bench.collect.add(bench.patch("free"), T0).unwrap();
    bench.sync("n1", vec![value("free", json!(0.5))], at(0));
    bench.sync("n2", vec![value("free", json!(0.25))], at(2000));
    let nodes: Vec<String> = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    let cpus = |node: &str| (node != "n3").then_some(4.0);
    let used = |now| {
        let used = bench.collect.used("share.capability", None, &nodes, &cpus, now).unwrap();
        used.values.into_iter().map(|value| (value.value, value.from)).collect::<Vec<_>>()
    };
    use TakenFrom::{Data, Fallback, Scaled};
    assert_eq!(used(at(2500)), [(4.0, Data), (4.0, Data), (1.0, Data)]);
    let choice = UseChange { name: "free".into(), fallback: None };
    bench.collect.choose("share.capability", Some(choice)).unwrap();
    assert_eq!(used(at(2500)), [(0.5, Data), (0.25, Data), (0.09375, Scaled)]);
    assert_eq!(used(at(4000)), [(0.25, Scaled), (0.25, Data), (0.0625, Scaled)]);
    assert_eq!(used(at(9000)), [(4.0, Fallback), (4.0, Fallback), (1.0, Fallback)]);
    let report = bench.collect.uses(at(4000)).uses;
    assert_eq!((report[0].fresh, report[0].stale), (1, 1));
    // It outlives the daemon, until it is taken back.
    assert_eq!(bench.again(at(1)).uses(at(1)).uses[0].name, "free");
    bench.collect.choose("share.capability", None).unwrap();
    assert_eq!(used(at(4000))[0], (4.0, Data));
    let unknown = UseChange { name: "zzz".into(), fallback: None };
    assert!(bench.collect.choose("share.capability", Some(unknown)).is_err());
    assert!(matches!(bench.collect.choose("x.y", None), Err(Failure::NotFound(_))));
}

/// Goal: where a method's own knowledge counts, no number takes its place.
#[test]
fn a_method_may_go_by_what_it_knows_itself() {
    let bench = bench();
    let nodes: Vec<String> = ["n1", "n2"].map(str::to_owned).into();
    let keys = ["share.capability", "gang.speed"];
    let used = |now| {
        let used = bench.collect.used("gang.speed", None, &nodes, &|_| Some(4.0), now).unwrap();
        used.values.into_iter().map(|value| (value.node, value.value)).collect::<Vec<_>>()
    };
    assert_eq!((bench.collect.wanted(&keys), used(at(0))), (vec!["share.capability"], vec![]));
    bench.collect.add(bench.patch("fast"), T0).unwrap();
    bench.sync("n1", vec![value("fast", json!(7))], at(1000));
    let choose = |name: &str, fallback: Option<&str>| {
        let choice = UseChange { name: name.into(), fallback: fallback.map(str::to_owned) };
        bench.collect.choose("gang.speed", Some(choice))
    };
    choose("fast", None).unwrap();
    assert_eq!(bench.collect.wanted(&keys), keys);
    assert_eq!(used(at(1500)), [("n1".to_owned(), 7.0)]);
    assert_eq!(used(at(9000)), [], "stale: every node by what was learned");
    choose("fast", Some(CONFIGURATION)).unwrap();
    assert_eq!(used(at(1500)).len(), 2);
    choose("none", None).unwrap_err();
    let wrong = UseChange { name: HISTORY.into(), fallback: None };
    bench.collect.choose("share.capability", Some(wrong)).unwrap_err();
    let named = Patch { name: Some(HISTORY.into()), ..bench.patch("x") };
    assert!(bench.collect.add(named, T0).is_err(), "a word is no name");
}

#[test]
fn values_outlive_the_daemon_and_a_deleted_database() {
    let bench = bench();
    bench.collect.add(bench.patch("a"), T0).unwrap();
    bench.sync("n1", vec![value("a", json!(1))], at(0));
    bench.collect.tick(at(0));
    bench.sync("n1", vec![value("a", json!(2))], at(1000));
    bench.collect.tick(at(1000));
    let past = bench.collect.past(("a", "n1"), (0, u64::MAX), 10).unwrap();
    assert_eq!(past.points.len(), 2);
    let again = bench.again(at(2000));
    let row = again.data("a", None, at(2000)).unwrap().values.remove(0);
    assert_eq!((row.value, row.age_ms, row.stale), (Value::Number(2.0), 1000, false));
    for name in ["collect.sqlite", "collect.sqlite-wal", "collect.sqlite-shm"] {
        fs::remove_file(bench.dir.path().join(name)).unwrap();
    }
    bench.sync("n1", vec![value("a", json!(3))], at(3000));
    bench.collect.tick(at(3000));
    bench.collect.tick(at(3001));
    let again = bench.again(at(3002));
    assert_eq!(again.data("a", None, at(3002)).unwrap().values[0].value, Value::Number(3.0));
    assert_eq!(again.collectors(at(3002)).collectors.len(), 1);
    // The retention is one hour; a clock that was set deletes nothing.
    let set = Now { wall_ms: T0.wall_ms + (10 << 30), mono_ms: 4000 };
    bench.collect.tick(set);
    assert_eq!(bench.collect.totals(set).clock_jumps, 1);
    assert_eq!(bench.collect.past(("a", "n1"), (0, u64::MAX), 10).unwrap().points.len(), 1);
}

#[test]
fn a_database_that_cannot_be_opened_stops_nothing_but_changes() {
    let bench = bench();
    let path = bench.dir.path().join("x");
    fs::write(&path, "this is not a database, and long enough to be read as one".repeat(20))
        .unwrap();
    let broken = Settings { path: Some(path), ..settings(bench.dir.path()) };
    let collect = Collect::new(broken, T0);
    assert!(matches!(collect.add(bench.patch("a"), T0), Err(Failure::Unavailable(_))));
    let put = Put { node: Some("n1".into()), ..value("z", json!(1)) };
    assert_eq!(collect.store(&[put], Sender::Admin, T0).stored, 1);
    collect.tick(at(1));
    assert_eq!(collect.data("z", None, T0).unwrap().values.len(), 1);
    assert!(collect.totals(T0).last_error.is_some());
}

#[test]
fn a_thousand_registrations_are_fine() {
    let bench = bench();
    let started = std::time::Instant::now();
    for i in 0..1000 {
        bench.collect.add(bench.patch(&format!("d{i}")), T0).unwrap();
    }
    assert_eq!(bench.sync("n1", vec![], T0).assignments.unwrap().len(), 1000);
    assert_eq!(bench.collect.collectors(T0).collectors.len(), 1000);
    assert_eq!(bench.again(T0).collectors(T0).collectors.len(), 1000);
    assert!(started.elapsed().as_secs() < 60);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Goal: a registration either passes every check again after conversion to JSON and back, or
    /// was refused.
    #[test]
    fn checks_agree_over_json(name in ".{0,70}", cmd in ".{0,40}", nodes in ".{0,30}",
                              every_ms in any::<u64>(), run_as in proptest::option::of(".{0,40}")) {
        let registration =
            Registration { name, cmd, nodes, every_ms, run_as, ..Registration::default() };
        let text = serde_json::to_string(&registration).unwrap();
        let back: Registration = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(back.check(), registration.check());
        prop_assert_eq!(back, registration);
    }

    /// Goal: a printed value is either finite and survives conversion, or is refused.
    #[test]
    fn printed_values_are_finite(
        printed in prop_oneof![".{0,20}", any::<f64>().prop_map(|x| x.to_string())],
    ) {
        if let Ok(value) = Value::parse(&printed, phalanx_messages::collect::ValueType::Number) {
            let number = value.number().unwrap();
            prop_assert!(number.is_finite());
            let json = serde_json::to_value(&value).unwrap();
            prop_assert_eq!(Value::from_json(&json), Ok(value));
        }
    }
}
