// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that the systemd unit and the Slurm fragments are well-formed and fit together.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use phalanx_config::{Config, DEFAULT_PATH};

const UNIT: &str = include_str!("../../../../config/phalanxd.service");
const FRAGMENT: &str = include_str!("../../../../config/slurm.conf.fragment");
const TMPFILES: &str = include_str!("../../../../config/phalanx.tmpfiles");

/// Highest exposure that `systemd-analyze security` may report, in tenths.
const EXPOSURE_MAX: &str = "20";

fn value(key: &str) -> &'static str {
    let start = format!("{key}=");
    UNIT.lines().find_map(|line| line.strip_prefix(start.as_str())).expect(key)
}

/// Goal: no thread is lost silently, not in a debug build either.
#[test]
fn a_panic_in_a_thread_ends_the_process() {
    const SELF: &str = "service::a_panic_in_a_thread_ends_the_process";
    if std::env::var_os("PHALANX_TEST_PANICS").is_some() {
        phalanx_service::abort_on_panic();
        let _ = std::thread::spawn(|| Vec::<u8>::with_capacity(usize::MAX)).join();
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", SELF, "--nocapture"]).env("PHALANX_TEST_PANICS", "1");
    let ended = child.output().unwrap();
    assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("capacity overflow"), "{ended:?}");
}

/// Goal: the directories of the unit are those of the default configuration.
#[test]
fn unit_fits_the_default_configuration() {
    let config = Config::default();
    let run = Path::new("/run").join(value("RuntimeDirectory"));
    assert_eq!(config.link.socket.parent(), Some(run.as_path()));
    assert_eq!(config.control.socket.parent(), Some(run.as_path()));
    assert_eq!(value("RuntimeDirectoryPreserve"), "yes", "running jobs read their block maps");
    let state = Path::new("/var/lib").join(value("StateDirectory"));
    assert_eq!(config.history.path.parent(), Some(state.as_path()));
    assert!(value("ExecStart").contains(&format!("--config {DEFAULT_PATH}")));
    assert_eq!(value("Type"), "notify");
    assert_eq!(value("WatchdogSec"), "30");
    assert_eq!(value("Restart"), "always");
    assert_eq!(value("User"), "slurm");
    assert!(value("After").contains("munge.service"));
    assert!(value("ExecReload").contains("-HUP"));
}

/// Goal: tmpfiles makes the directory that slurm.conf names first.
#[test]
fn fragments_name_the_same_directory() {
    let dirs = FRAGMENT.lines().find_map(|line| line.strip_prefix("PluginDir=")).unwrap();
    let first = dirs.split(':').next().unwrap();
    let made = |line: &str| line.split_whitespace().nth(1) == Some(first);
    assert!(TMPFILES.lines().any(made), "{first}");
}

/// Goal: systemd takes every line of the unit. Method: a copy whose program
/// exists on every system; a copy with a misspelled key must fail.
#[test]
fn systemd_accepts_the_unit() {
    let analyze = |arguments: &[&str], text: &str| -> Option<Output> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("phalanxd.service");
        std::fs::write(&path, text).unwrap();
        Command::new("systemd-analyze").args(arguments).arg(&path).output().ok()
    };
    let text: String = UNIT
        .lines()
        .filter(|line| !line.starts_with("Documentation="))
        .map(|line| if line.starts_with("ExecStart=") { "ExecStart=/bin/true" } else { line })
        .fold(String::new(), |text, line| text + line + "\n");
    let Some(good) = analyze(&["verify"], &text) else {
        eprintln!("not run: there is no systemd-analyze here");
        return;
    };
    let complaints = String::from_utf8_lossy(&good.stderr).into_owned();
    assert!(good.status.success() && complaints.is_empty(), "{complaints}");
    let wrong = text.replace("NoNewPrivileges=", "NoNewPrivilege=");
    let bad = analyze(&["verify"], &wrong).unwrap();
    assert!(String::from_utf8_lossy(&bad.stderr).contains("NoNewPrivilege"));
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let security = analyze(&["security", "--offline=true", "--no-pager", &threshold], &text);
    let security = security.unwrap();
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}

/// System calls of a group as systemd lists them; none where there is no systemd.
fn group(name: &str, depth: u32) -> Option<std::collections::BTreeSet<String>> {
    let listed = Command::new("systemd-analyze").args(["syscall-filter", name]).output().ok()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut calls = std::collections::BTreeSet::new();
    for word in text.lines().map(str::trim).filter(|l| !l.starts_with('#')).skip(1) {
        match word.strip_prefix('@') {
            Some(_) if depth < 5 => calls.extend(group(word, depth + 1)?),
            _ => drop(calls.insert(word.to_owned())),
        }
    }
    Some(calls)
}

/// Goal: the unit's filter leaves the calls by which threads give way to answers, which @resources
/// includes.
#[test]
fn the_filter_leaves_priorities_alone() {
    let filters = UNIT.lines().filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let mut allowed = std::collections::BTreeSet::new();
    for filter in filters {
        let (deny, names) = match filter.strip_prefix('~') {
            Some(names) => (true, names),
            None => (false, filter),
        };
        for name in names.split_whitespace() {
            let Some(calls) = group(name, 0) else {
                eprintln!("not run: there is no systemd-analyze here");
                return;
            };
            assert!(!calls.is_empty(), "{name}");
            if deny {
                allowed.retain(|call| !calls.contains(call));
            } else {
                allowed.extend(calls);
            }
        }
    }
    for call in ["setpriority", "sched_setattr", "prlimit64", "clone3", "prctl", "waitid"] {
        assert!(allowed.contains(call), "{call}");
    }
    for call in ["ptrace", "mount", "reboot", "bpf", "init_module"] {
        assert!(!allowed.contains(call), "{call}");
    }
}

/// Goal: nothing that users do makes the daemon take the host's resources from slurmctld.
#[test]
fn the_unit_bounds_what_the_daemon_takes() {
    let most = [("MemoryHigh", 50), ("MemoryMax", 50), ("TasksMax", 4096), ("CPUWeight", 100)];
    for (key, most) in most.into_iter().chain([("LimitNOFILE", 1 << 17)]) {
        let bound = value(key).trim_end_matches('%').parse::<u32>();
        assert!(bound.is_ok_and(|bound| (1..=most).contains(&bound)), "{key}={}", value(key));
    }
    assert_eq!(value("OOMScoreAdjust"), "500");
}
