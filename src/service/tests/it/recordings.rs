// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the daemon's recordings, and of their replay.
#![allow(clippy::unwrap_used, reason = "a failed expectation ends a test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::bounded;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::link::{Daemon, Plugin, prefer, until};
use phalanx_config::{Config, Mode};
use phalanx_ffi::wire::Verdict;
use phalanx_mirror::{Other, replay};
use phalanx_planner::attribution::Demand;
use phalanx_service::recordings::{Options, Order, RecordingWriter};

/// Plays a random session to the daemon while it records, and returns the files.
fn recorded(dir: &Path, file_bytes: u64, rounds: u32) -> Vec<PathBuf> {
    let daemon = Daemon::start(Mode::Enforce);
    let (writer, recording) = RecordingWriter::new(Arc::clone(&daemon.responder));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run(&|| None, &stop));
        let mut plugin = Plugin::connect(&daemon.socket);
        // A job goes beside those that end with it.
        plugin.limit_min = 24 * 60;
        plugin.greet(40);
        let jobs: Vec<(u32, u32, u32)> = (1..=30).map(|id| (id, id % 40, 1 + id % 7)).collect();
        plugin.sync(&[8; 40], &jobs);
        let dir = dir.to_path_buf();
        let options = Options { dir, file_bytes, total_bytes: 1 << 30, length: None };
        assert!(recording.order(Order::Start(options)));
        // Table, jobs and the rest: from here on questions are recorded.
        until("recording", || recording.status().records >= 3);
        let now_s = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let mut random = 1u32;
        let mut next = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        for round in 0..rounds {
            let all = (1u64 << 40) - 1;
            let (.., nodes) = plugin.ask(1 + next(8), u64::from(next(3)), 40, all >> next(3));
            if let Some(&node) = nodes.first() {
                plugin.job(100 + round, node, 1 + next(4));
            }
            let two_days = now_s + u64::from(next(2 * 24 * 60)) * 60;
            plugin.ends(1 + next(100 + round), two_days);
            plugin.end(1 + next(100 + round));
            if round == rounds / 2 {
                plugin.sync(&[8; 40], &jobs[..10]);
                // Several looks of the writer, which may begin a new file then.
                std::thread::sleep(Duration::from_millis(400));
            }
            if round % 20 == 10 {
                prefer(&daemon.responder, round % 30);
            }
            if round % 20 == 0 {
                let lacks = [("cpu".into(), u64::from(next(9))), ("mem".into(), 3)].into();
                let waits = Demand { lacks, ..Demand::default() };
                daemon.responder.set_queue(waits, Vec::new());
            }
        }
        assert!(recording.order(Order::Stop));
        until("end of the recording", || !recording.status().active);
        let status = recording.status();
        assert_eq!((status.gaps, status.last_error), (0, None));
        stop.store(true, Ordering::Relaxed);
    });
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files
}

/// A frame of a recording around `text`.
pub fn zipped(text: &[u8]) -> Vec<u8> {
    let mut frame = GzEncoder::new(Vec::new(), Compression::fast());
    frame.write_all(text).unwrap();
    frame.finish().unwrap()
}

/// Goal: a recording is decided again to the last bit, over a new full state and several files;
/// another configuration decides otherwise; a cut or changed file is used up to the fault and says
/// where it breaks.
#[test]
fn a_recording_is_replayed_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let files = recorded(dir.path(), 20_000, 4000);
    assert!(files.len() > 1, "{files:?}");
    let same = replay(&files, None, 5, &|_| {}).unwrap();
    assert!(same.asks + same.missed >= 3900, "{same:?}");
    assert_eq!((same.same, same.differing, &same.broken), (same.asks, 0, &Vec::new()));
    assert!(same.asks > 2000, "{same:?}");
    let mut other = Config { mode: Mode::Enforce, ..Config::default() };
    other.balance.mode = phalanx_config::BalanceMode::Seed;
    let config = Other { config: Some(&other), ..Other::default() };
    let then = replay(&files, Some(&config), 5, &|_| {}).unwrap();
    assert_eq!(then.same, same.same);
    let changes = then.then.unwrap();
    assert!(changes.elsewhere > 0 && then.first.len() == 5, "{changes:?}");

    let whole = std::fs::read(&files[0]).unwrap();
    let broken = dir.path().join("broken");
    let play = |bytes: &[u8]| {
        std::fs::write(&broken, bytes).unwrap();
        replay(std::slice::from_ref(&broken), None, 5, &|_| {})
    };
    let cut = play(&whole[..whole.len() - 30]).unwrap();
    assert!(cut.broken[0].contains("is cut off within a frame"), "{:?}", cut.broken);
    assert_eq!(cut.same, cut.asks);
    let mut changed = whole.clone();
    changed[whole.len() - 5] ^= 4; // of a checksum
    let changed = play(&changed).unwrap();
    assert!(changed.broken[0].contains("is damaged"), "{:?}", changed.broken);
    let later = r#"{"phxrec":99,"version":"9","name":"","file":1,"zero_ms":0}"#;
    let later = zipped(later.as_bytes());
    for (bytes, what) in [
        (&b""[..], "is empty"),
        (&later, "version 99"),
        (&zipped(b"JobID|State\n"), "not a recording"),
        (b"JobID|State\n", "not a recording"),
    ] {
        let error = play(bytes).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// Goal: a recording of questions, holds, levels, quotas and a new state is decided again alike.
#[test]
fn a_kept_recording_is_replayed_bit_for_bit() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/decisions.phxrec");
    let same = replay(&[data], None, 5, &|_| {}).unwrap();
    let seen = (same.asks, same.same, same.records, same.broken.len());
    assert_eq!(seen, (900, 899, 3544, 0), "{same:?}");
    let other: Vec<u32> = same.first.iter().map(|one| one.job).collect();
    assert_eq!(other, [94], "one task was sent to three nodes when it was kept: {same:?}");
}

/// Goal: a writer that does not keep up costs the recording, not an answer.
#[test]
fn a_slow_disk_cuts_the_recording() {
    let daemon = Daemon::start(Mode::Enforce);
    let mut plugin = Plugin::connect(&daemon.socket);
    plugin.greet(4);
    plugin.sync(&[8, 8, 8, 8], &[]);
    let (sender, _events) = bounded(2);
    let cut = Arc::new(AtomicBool::new(false));
    until("mirror", || daemon.responder.view().synced);
    daemon.responder.start_recording(sender, cut.clone());
    daemon.responder.complete_recording();
    for _ in 0..5 {
        assert_eq!(plugin.ask(1, 0, 4, 0b1111).0, Verdict::Narrow);
    }
    assert!(cut.load(Ordering::Relaxed));
}
