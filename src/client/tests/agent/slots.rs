// SPDX-License-Identifier: GPL-3.0-or-later
//! Run slots under programs that misbehave.
//!
//! Goal: whatever a program does, the slot's owner gets its result in time, is
//! never blocked, and nothing of the program stays.
//!
//! Method: shell scripts, each with one kind of misbehaviour. Afterwards this
//! process must have no child left. Slots want a process without other
//! children, so the cases take turns.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use phalanx_client::slot::{Finished, Refused, Run, RunAs, RunError, Slots};
use phalanx_ffi::own_children::OwnChild;

static TURN: Mutex<()> = Mutex::new(());

/// Lock of the tests of this process that have run slots: one at a time.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Case {
    directory: tempfile::TempDir,
    slots: Slots,
    _turn: MutexGuard<'static, ()>,
}

fn case() -> Case {
    let turn = turn();
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Case { directory, slots: Slots::new(16), _turn: turn }
}

fn nobody() -> RunAs {
    let root = RunAs::own().uid == 0;
    if root { RunAs::named("nobody").unwrap() } else { RunAs::own() }
}

impl Case {
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn run_of(&self, text: &str) -> Run {
        run(&self.script(&format!("s{}", next()), text))
    }

    /// Runs one script and returns its result.
    fn one(&mut self, text: &str) -> Finished {
        let run = self.run_of(text);
        // What was killed may take a moment to go: each run has an id of its own.
        self.slots.start(next(), run, Instant::now()).unwrap();
        self.all(1).remove(0)
    }

    /// Waits at most 20 s for `count` runs to end.
    fn all(&mut self, count: usize) -> Vec<Finished> {
        let until = Instant::now() + Duration::from_secs(20);
        let mut finished = Vec::new();
        while finished.len() < count {
            assert!(Instant::now() < until, "{count} ends expected, got {finished:?}");
            finished.extend(self.slots.wait(until, None));
        }
        finished
    }
}

fn next() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn run(program: &Path) -> Run {
    Run {
        program: program.to_path_buf(),
        args: Vec::new(),
        env: vec![("PHALANX_NODE".to_owned(), "n1".to_owned())],
        input: Vec::new(),
        timeout: Duration::from_secs(10),
        run_as: nobody(),
    }
}

/// Whether a process with an id runs (a zombie does not).
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

fn soon_dead(pid: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while alive(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !alive(pid)
}

#[test]
fn prints_a_value_with_a_clean_environment_as_nobody() {
    let mut case = case();
    // Cargo sets CARGO_MANIFEST_DIR for this process.
    let finished =
        case.one("echo \"$PHALANX_NODE|$CARGO_MANIFEST_DIR|$HOME|$(id -u)|$(id -G)\"; pwd");
    let user = nobody();
    let expected = format!("n1||/|{}|{}\n/", user.uid, user.gid);
    assert_eq!(finished.output.as_deref(), Ok(expected.as_str()), "{finished:?}");
}

#[test]
fn fails_with_its_status_and_the_end_of_its_standard_error() {
    let mut case = case();
    let finished =
        case.one("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 7");
    assert_eq!(finished.output, Err(RunError::Exit(7)));
    assert!(finished.stderr.ends_with("line 1999"), "{}", finished.stderr);
    assert!(finished.stderr.len() <= 2048, "{}", finished.stderr.len());
    assert_eq!(case.one("kill -9 $$").output, Err(RunError::Signal(9)));
}

#[test]
fn programs_that_cannot_start_say_why() {
    let mut case = case();
    for (path, why) in [("/nonexistent/x", "No such file"), ("/etc/passwd", "ermission denied")] {
        case.slots.start(5, run(Path::new(path)), Instant::now()).unwrap();
        let finished = case.all(1).remove(0);
        let Err(RunError::Start(text)) = &finished.output else { panic!("{finished:?}") };
        assert!(text.contains(why) && text.contains(path), "{text}");
    }
}

#[test]
fn reads_its_input_or_not() {
    let mut case = case();
    let long = "x".repeat(1 << 20);
    let mut reads = case.run_of("wc -c");
    reads.input = long.clone().into_bytes();
    let mut ignores = case.run_of("echo 5");
    ignores.input = long.into_bytes();
    case.slots.start(1, reads, Instant::now()).unwrap();
    case.slots.start(2, ignores, Instant::now()).unwrap();
    let mut finished = case.all(2);
    finished.sort_by_key(|f| f.id);
    assert_eq!(finished[0].output.as_deref(), Ok("1048576"));
    assert_eq!(finished[1].output.as_deref(), Ok("5"));
}

#[test]
fn ten_megabytes_are_cut_off() {
    let mut case = case();
    let started = Instant::now();
    let finished = case.one("head -c 10000000 /dev/zero");
    assert_eq!(finished.output, Err(RunError::TooLong(65536)));
    assert!(started.elapsed() < Duration::from_secs(5));
    let finished = case.one("head -c 10000000 /dev/zero >&2; echo 1");
    assert_eq!(finished.output.as_deref(), Ok("1"));
    assert!(finished.stderr.len() <= 3 * 2048);
    // An endless flood, too.
    assert_eq!(case.one("cat /dev/zero").output, Err(RunError::TooLong(65536)));
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let mut case = case();
    assert_eq!(case.one("printf '12\\377\\376'").output, Err(RunError::NotUtf8(2)));
    assert_eq!(case.one("printf '  12.5 \\n\\n'").output.as_deref(), Ok("12.5"));
    assert_eq!(case.one("true").output.as_deref(), Ok(""));
}

#[test]
fn a_hanging_program_ends_at_its_timeout_with_its_children() {
    let mut case = case();
    let notes = case.directory.path().join("pids");
    fs::write(&notes, "").unwrap();
    fs::set_permissions(&notes, fs::Permissions::from_mode(0o666)).unwrap();
    let mut hangs = case.run_of(&format!(
        "trap '' TERM INT HUP; sleep 600 & echo $! >> {0}; \
         (trap '' TERM; sleep 600 & echo $! >> {0}; wait) & sleep 600",
        notes.display()
    ));
    hangs.timeout = Duration::from_millis(700);
    let started = Instant::now();
    case.slots.start(1, hangs, started).unwrap();
    let finished = case.all(1).remove(0);
    assert_eq!(finished.output, Err(RunError::Timeout(700)));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let pids = fs::read_to_string(&notes).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        assert!(soon_dead(pid), "{pid} lives");
    }
}

#[test]
fn a_grandchild_that_keeps_the_pipes_open_holds_nothing_up() {
    let mut case = case();
    let started = Instant::now();
    let finished = case.one("sleep 600 & echo $!");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(soon_dead(&finished.output.unwrap()));
}

#[test]
fn a_process_that_leaves_its_group_is_found() {
    let mut case = case();
    let notes = case.directory.path().join("pid");
    fs::write(&notes, "").unwrap();
    fs::set_permissions(&notes, fs::Permissions::from_mode(0o666)).unwrap();
    let text = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 600' & \
         while [ ! -s {0} ]; do sleep 0.01; done; echo 1",
        notes.display()
    );
    let finished = case.one(&text);
    assert_eq!(finished.output.as_deref(), Ok("1"));
    let pid = fs::read_to_string(&notes).unwrap();
    assert!(soon_dead(&pid), "{pid} lives");
}

#[test]
fn a_fork_bomb_is_bounded_and_ends() {
    let mut case = case();
    // Bounded by itself as well: this is no test of the machine.
    let mut bomb = case.run_of(
        "b() { [ \"$1\" -gt 6 ] && exec sleep 600; b $(($1+1)) & b $(($1+1)) & wait; }; b 0",
    );
    bomb.timeout = Duration::from_millis(1500);
    case.slots.start(1, bomb, Instant::now()).unwrap();
    let finished = case.all(1).remove(0);
    assert_eq!(finished.output, Err(RunError::Timeout(1500)));
    let until = Instant::now() + Duration::from_secs(5);
    let path = case.directory.path().to_string_lossy().into_owned();
    let stays = || {
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&path)
        })
    };
    while stays() {
        assert!(Instant::now() < until, "processes of the bomb live on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn many_run_at_once_and_one_id_runs_once() {
    let mut case = case();
    let now = Instant::now();
    let sleeper = case.run_of("sleep 0.5; echo done");
    for id in 0..16 {
        case.slots.start(id, sleeper.clone(), now).unwrap();
    }
    assert_eq!(case.slots.start(3, sleeper.clone(), now), Err(Refused::Busy));
    assert_eq!(case.slots.start(99, sleeper, now), Err(Refused::Full));
    let finished = case.all(16);
    assert!(finished.iter().all(|f| f.output.as_deref() == Ok("done")), "{finished:?}");
    assert!(case.slots.is_empty());
}

#[test]
fn stopping_ends_a_run_at_once() {
    let mut case = case();
    let sleeper = case.run_of("sleep 600");
    case.slots.start(7, sleeper, Instant::now()).unwrap();
    assert!(case.slots.busy(7));
    case.slots.stop(7, Instant::now());
    let finished = case.all(1).remove(0);
    assert_eq!((finished.id, finished.output), (7, Err(RunError::Stopped)));
    case.slots.stop(7, Instant::now());
}

#[test]
fn waiting_ends_at_its_time_and_on_a_wake() {
    let mut case = case();
    let started = Instant::now();
    assert!(case.slots.wait(started + Duration::from_millis(50), None).is_empty());
    assert!(started.elapsed() >= Duration::from_millis(50));
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"x").unwrap();
    let wake = std::os::fd::AsFd::as_fd(&reader);
    assert!(case.slots.wait(started + Duration::from_secs(60), Some(wake)).is_empty());
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Goal: what the daemon runs for itself, such as sacct, outlives the end of a collector.
#[test]
fn programs_of_the_daemon_are_spared() {
    let mut case = case();
    let mut sacct = std::process::Command::new("sh");
    sacct.args(["-c", "sleep 1; echo rows"]).stdout(std::process::Stdio::piped());
    let own = OwnChild::spawn(&mut sacct).unwrap();
    for _ in 0..3 {
        assert_eq!(case.one("echo 7").output.unwrap(), "7");
    }
    let done = own.wait_with_output().unwrap();
    assert!(done.status.success(), "{:?}", done.status);
    assert_eq!(done.stdout, b"rows\n");
}
