// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx-share --stream` with workers as processes: what is answered, what a kill
//! costs, and what users are told.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{code, err, out, phalanx_share};

/// Longest wait for anything, far above what any step takes.
const LONG: Duration = Duration::from_secs(60);
/// Command that starts three workers, which tell their process numbers.
const THREE: &str = "for i in 1 2 3; do phalanx-share --worker -- ./program & echo $! >> workers; \
                     done; wait";

/// A directory with a program.
struct Place(tempfile::TempDir);

impl Place {
    /// Writes a program that runs `body` for each `$item`, whose output is the answer.
    fn new(body: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let program = place.path("program");
        let text =
            format!("#!/bin/sh\necho $$ >> programs\nwhile IFS= read -r item; do\n{body}\ndone\n");
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Writes items `item 1` to `item N`.
    fn items(&self, count: u64) {
        let text: String = (1..=count).map(|number| format!("item {number}\n")).collect();
        std::fs::write(self.path("items"), text).unwrap();
    }

    /// Starts a stream whose workers a shell starts by `launch`; "" for none.
    fn start(&self, options: &[&str], launch: &str) -> Child {
        let binary = Path::new(env!("CARGO_BIN_EXE_phalanx-share"));
        let path =
            format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(binary);
        command.args(["--listen", "127.0.0.1"]).args(options);
        if !launch.is_empty() {
            command.args(["--", "sh", "-c", launch]);
        }
        command.current_dir(self.0.path()).env("PATH", path).env_remove("PHALANX_STREAM");
        command.env_remove("SLURM_JOB_NODELIST");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn run(&self, options: &[&str], launch: &str) -> Output {
        self.start(options, launch).wait_with_output().unwrap()
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + LONG;
        while !holds() {
            assert!(Instant::now() < until, "never: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns answers by number, each once, with the items.
fn answers(text: &str) -> BTreeMap<u64, (String, String)> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [number, item, answer] = parts[..] else { panic!("not an answer: {line:?}") };
        let entry = (item.to_owned(), answer.to_owned());
        let before = found.insert(number.parse().unwrap(), entry);
        assert_eq!(before, None, "answered twice: {line}");
    }
    found
}

fn all_done(text: &str, count: u64) {
    let expected = (1..=count).map(|number| {
        let item = format!("item {number}");
        (number, (item.clone(), format!("did {item}")))
    });
    assert_eq!(answers(text), expected.collect());
}

fn signal(pid: &str, signal: Signal) {
    // One that has ended by itself is not there.
    let _ = kill(Pid::from_raw(pid.trim().parse().unwrap()), signal);
}

#[test]
fn every_line_is_answered_once() {
    // Items wait until three programs have one: the first could do all before others have come.
    let three = ": > has.$$; until [ $(ls has.* | wc -l) -ge 3 ]; do sleep 0.01; done";
    let place = Place::new(&format!("{three}\necho \"did $item\""));
    place.items(300);
    let output = place.run(&["--stream", "items"], THREE);
    assert_eq!(code(&output), 0, "{}", err(&output));
    all_done(&out(&output), 300);
    assert!(err(&output).contains("300 items done by 3 workers"), "{}", err(&output));

    // Standard input, round robin, and nothing at all; a last line without an end counts.
    let mut child = place.start(&["--stream", "-", "--order", "turn", "--window", "1"], THREE);
    child.stdin.take().unwrap().write_all(b"item 1\nitem 2\nitem 3").unwrap();
    let output = child.wait_with_output().unwrap();
    all_done(&out(&output), 3);
    let output = place.run(&["--stream", "/dev/null", "--json"], THREE);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let report: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((report["items"].as_u64(), report["sent_again"].as_u64()), (Some(0), Some(0)));
}

/// Goal: when workers and programs are killed one after the other, nothing is lost, and each item
/// is answered once.
#[test]
fn kills_lose_nothing() {
    let place = Place::new("echo \"$item\" >> log; sleep 0.02; echo \"did $item\"");
    place.items(200);
    let launch = THREE.replace("1 2 3", "1 2 3 4 5 6");
    let child = place.start(&["--stream", "items", "--tries", "20"], &launch);
    for step in 0..8 {
        let seen = 15 * (step + 1);
        place.until("items are worked on", || place.lines("log").len() >= seen);
        let name = if step % 2 == 0 { "workers" } else { "programs" };
        signal(&place.lines(name)[step / 2], Signal::SIGKILL);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    all_done(&out(&output), 200);
    assert!(err(&output).contains("sent again"), "{}", err(&output));
    assert!(err(&output).contains("items go to others"), "{}", err(&output));
    let log = place.lines("log");
    assert!((1..=200).all(|number| log.contains(&format!("item {number}"))));
}

#[test]
fn an_item_that_ends_every_program_is_given_up() {
    let place = Place::new("[ \"$item\" != 'item 7' ] || exit 3; echo \"did $item\"");
    place.items(20);
    let output = place.run(&["--stream", "items", "--json", "--journal", "journal"], THREE);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("item 7 is given up: exit status: 3"), "{}", err(&output));
    let report: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["items"], 19);
    assert_eq!(report["given_up"][0]["item"], "item 7");
    let answered = answers(&std::fs::read_to_string(place.path("journal")).unwrap());
    assert_eq!(answered.len(), 19);
}

/// Goal: after a kill of the stream the next one continues with what the file has.
#[test]
fn a_journal_goes_on_after_a_kill() {
    let place = Place::new("echo \"$item\" >> log; sleep 0.02; echo \"did $item\"");
    place.items(120);
    let options = ["--stream", "items", "--journal", "journal"];
    let mut child = place.start(&options, THREE);
    place.until("half is done", || place.lines("journal").len() >= 60);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = place.run(&options, THREE);
    assert_eq!((code(&output), out(&output)), (0, String::new()), "{}", err(&output));
    assert!(err(&output).contains("passed over"), "{}", err(&output));
    all_done(&std::fs::read_to_string(place.path("journal")).unwrap(), 120);
    // What one of the former workers had in hand is done again, and no more than that.
    assert!(place.lines("log").len() <= 120 + 3 * 16, "{}", place.lines("log").len());

    std::fs::write(place.path("items"), "another\n").unwrap();
    let output = place.run(&options, THREE);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("its item 1 is not the stream's"), "{}", err(&output));
}

#[test]
fn requests_are_answered_in_order_until_a_signal() {
    let place = Place::new("[ \"$item\" != slow ] || sleep 0.3; echo \"did $item\"");
    let child = place.start(&["--stream", "unix:socket", "--json"], THREE);
    place.until("the socket is there", || place.path("socket").exists());
    let mode = place.path("socket").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "only for the user");
    let client = UnixStream::connect(place.path("socket")).unwrap();
    let requests = ["slow", "a", "b", "slow", "c"];
    for request in requests {
        writeln!(&client, "{request}").unwrap();
    }
    // A client that closes its end still gets its answers.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let answers: Vec<String> = BufReader::new(&client).lines().map(Result::unwrap).collect();
    assert_eq!(answers, requests.map(|request| format!("did {request}")));
    signal(&child.id().to_string(), Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let report: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["items"], 5);
    assert!(!place.path("socket").exists());
}

#[test]
fn files_of_a_directory_as_they_come() {
    let place = Place::new("cat \"$item\"");
    std::fs::create_dir(place.path("in")).unwrap();
    let put = |name: &str| std::fs::write(place.path("in").join(name), format!("{name}\n"));
    put("a").and_then(|()| put(".hidden")).unwrap();
    let options = ["--stream", "in", "--follow", "--journal", "journal"];
    let child = place.start(&options, THREE);
    place.until("the first is done", || place.lines("journal") == ["1\tin/a\ta"]);
    put("b").unwrap();
    place.until("the second is done", || place.lines("journal").len() == 2);
    signal(&child.id().to_string(), Signal::SIGTERM);
    assert_eq!(code(&child.wait_with_output().unwrap()), 0);
    put("0").unwrap();
    let output = place.run(&["--stream", "in", "--journal", "journal"], THREE);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(place.lines("journal"), ["1\tin/a\ta", "2\tin/b\tb", "1\tin/0\t0"]);
}

/// Goal: workers may come from elsewhere, later, and by a file.
#[test]
fn a_worker_joins() {
    let place = Place::new("echo \"did $item\"");
    place.items(30);
    let child = place.start(&["--stream", "items", "--address-file", "address"], "");
    place.until("the address is there", || place.path("address").exists());
    let mode = place.path("address").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "only for the user");
    let binary = env!("CARGO_BIN_EXE_phalanx-share");
    let worker = Command::new(binary)
        .args(["--worker", "--address-file", "address", "--", "./program"])
        .current_dir(place.0.path())
        .output()
        .unwrap();
    assert_eq!(code(&worker), 0, "{}", err(&worker));
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    all_done(&out(&output), 30);
    assert!(!place.path("address").exists());
}

/// Goal: an item that takes longer than its limit gets another try; a program that hangs is ended.
#[test]
fn an_item_may_take_only_so_long() {
    let place =
        Place::new("[ -e hung ] || { : > hung; echo $$ > pid; sleep 1000; }; echo \"did $item\"");
    place.items(3);
    let launch = "phalanx-share --worker --item-timeout 500ms -- ./program";
    let output = place.run(&["--stream", "items"], launch);
    assert_eq!(code(&output), 0, "{}", err(&output));
    all_done(&out(&output), 3);
    let pid = place.lines("pid").remove(0).parse().unwrap();
    assert!(kill(Pid::from_raw(pid), None).is_err(), "the program still runs");
}

#[test]
fn programs_that_do_not_work_are_named() {
    let place = Place::new("exit 9");
    place.items(5);
    let output = place.run(&["--stream", "items", "--tries", "100"], THREE);
    assert_eq!((code(&output), out(&output)), (1, String::new()));
    for text in ["./program ended 3 times in a row without an answer", "no worker is left"] {
        assert!(err(&output).contains(text), "{text}: {}", err(&output));
    }
    let place = Place::new("printf 'one\\ntwo\\n'");
    place.items(5);
    let output = place.run(&["--stream", "items"], "phalanx-share --worker -- ./program");
    assert_eq!(code(&output), 1);
    let text = "printed more than one line for an item";
    assert!(err(&output).contains(text), "{}", err(&output));
}

#[test]
fn wrong_streams_are_refused() {
    let place = Place::new("echo");
    place.items(1);
    std::fs::create_dir(place.path("in")).unwrap();
    let launched = ["--", "true"];
    for (arguments, why) in [
        (&["--stream", "nowhere"][..], "--stream nowhere: No such file"),
        (&["--stream", "unix:"], "a path after unix:"),
        (&["--stream", "unix:no/where"], "--stream unix:no/where: No such file"),
        (&["--stream", "items", "--follow"], "items is not a directory"),
        (&["--stream", "items", "--listen", "127.0.0.1:x"], "--listen: 127.0.0.1:x"),
        (&["--stream", "items", "--window", "0"], "--window"),
        (&["--stream", "items", "--tries", "x"], "--tries"),
        (&["--stream", "items", "--journal", "in"], "--journal in"),
        (&["--stream", "items", "--weights", "1"], "--nodes"),
        (&["--stream", "items", "--input", "items"], "--input"),
        (&["--worker", "--stream", "items"], "--stream"),
        (&["--worker"], "--worker: no stream"),
        (&["--worker", "--item-timeout", "soon"], "--item-timeout: expected such as 90s"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-share"));
        command.args(arguments).args(launched).current_dir(place.0.path());
        let output = command.env_remove("PHALANX_STREAM").output().unwrap();
        assert_eq!((code(&output), out(&output)), (2, String::new()), "{arguments:?}");
        assert!(err(&output).contains(why), "{arguments:?}: {}", err(&output));
    }
    for (arguments, why) in [
        (&["--stream", "/dev/null"][..], "what starts the workers"),
        (&["--worker"], "expected a program"),
    ] {
        let output = phalanx_share(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(err(&output).contains(why), "{arguments:?}: {}", err(&output));
    }
}
