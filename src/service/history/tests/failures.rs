// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the thread `database` under failures of the disk, of the file and of other programs.

use super::*;

/// Goal: at the hard bound of the file writes go on, as the oldest records make room.
#[test]
fn thread_makes_room_at_the_size_limit() {
    let (_dir, path) = temp();
    let limits = Limits { max_mb: 1, ..LIMITS };
    let mut options = options(&path);
    options.upkeep = Duration::from_secs(3600); // the bound itself, not upkeep
    let (sender, thread) = HistoryThread::start(options, limits).unwrap();
    let shared = sender.shared().clone();
    for i in 0..12_000 {
        while i > shared.written.load(Relaxed) + shared.lost.load(Relaxed) + 2000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        sender.send(sized(i, i));
    }
    drop(sender);
    thread.join(MINUTE);
    assert_eq!(shared.written.load(Relaxed), 12_000);
    assert!(shared.pruned.load(Relaxed) > 5000);
    assert_eq!(shared.last_error(), None);
    assert_eq!(value(&path, NEWEST), 11_999);
    assert!(bytes(&path) <= (1 << 20) / 20 * 21, "{}", bytes(&path));
}

/// A mounted file system of one megabyte, unmounted when dropped.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success()).then_some(SmallDisk { dir })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// Goal: on a disk that another program fills, records are lost and counted, and the thread writes
/// again as soon as there is space.
#[test]
fn thread_outlives_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else {
        assert!(!may_mount(), "cannot mount a tmpfs");
        eprintln!("not run: mounting a tmpfs needs CAP_SYS_ADMIN");
        return;
    };
    let path = disk.dir.path().join("history.sqlite");
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    sender.send(sized(0, 0));
    until("the first record is written", || shared.written.load(Relaxed) == 1);
    let ballast = disk.dir.path().join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file); // its space comes back when it is removed
    let mut id = 1;
    until("records are lost", || {
        id += 1;
        sender.send(sized(id, id));
        shared.lost.load(Relaxed) > 20
    });
    let text = shared.last_error().unwrap();
    assert!(text.contains("full") || text.contains("No space"), "{text}");
    fs::remove_file(&ballast).unwrap();
    let before = shared.written.load(Relaxed);
    until("records are written again", || {
        id += 1;
        sender.send(sized(id, id));
        shared.written.load(Relaxed) > before && shared.last_error().is_none()
    });
    drop(sender);
    thread.join(MINUTE);
    assert_eq!(integrity(&path), "ok");
}

/// Whether this process has the right to mount (CAP_SYS_ADMIN).
fn may_mount() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
    let caps = line.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    caps & (1 << 21) != 0
}

#[test]
fn thread_begins_a_new_file_after_deletion() {
    let (_dir, path) = temp();
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    sender.send(fresh(1));
    until("the first record is written", || shared.written.load(Relaxed) == 1);
    fs::remove_file(&path).unwrap();
    until("a new file is there", || path.exists() && shared.opens.load(Relaxed) == 2);
    sender.send(fresh(2));
    until("the second record is written", || shared.written.load(Relaxed) == 2);
    // The same with the whole directory's contents.
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    until("a third file is there", || path.exists() && shared.opens.load(Relaxed) == 3);
    sender.send(fresh(3));
    drop(sender);
    thread.join(MINUTE);
    let rows = decisions(&path, 10);
    let ids: Vec<u64> = rows.iter().map(|row| row.decision.decision).collect();
    assert_eq!(ids, [3]);
    assert_eq!(integrity(&path), "ok");
}

fn corrupt_files(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".corrupt-"))
        .collect();
    found.sort();
    found
}

/// Goal: a file that lost all it had is told apart from a new one, also after `kill -9`.
#[test]
fn an_emptied_file_is_told_from_a_new_one() {
    use crate::sqlite::was_emptied;
    let (_dir, path) = temp();
    assert!(!was_emptied(&path));
    let database = History::open(&path, LIMITS).unwrap();
    assert!(!was_emptied(&path), "it is made and nothing was written");
    std::mem::forget(database);
    assert!(!was_emptied(&path));
    fs::write(path.with_file_name("history.sqlite-wal"), b"").unwrap();
    fs::write(&path, b"").unwrap();
    assert!(was_emptied(&path));
}

/// Goal: a process that opens a file while another makes its tables takes it for neither foreign
/// nor damaged.
#[test]
fn a_file_that_is_being_made_is_ours() {
    for _ in 0..25 {
        let (_dir, path) = temp();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    History::open(&path, LIMITS).map(drop).unwrap();
                });
            }
        });
    }
}

/// Goal: a clock that may be ahead deletes nothing of a file whose newest record cannot be read.
#[test]
fn a_file_whose_newest_record_is_not_known_is_not_begun() {
    let (_dir, path) = temp();
    drop(History::open(&path, LIMITS).unwrap());
    let run = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    run("ALTER TABLE job_ends RENAME TO away");
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    sender.send(fresh(1));
    until("a record is through", || shared.written.load(Relaxed) + shared.lost.load(Relaxed) == 1);
    assert_eq!((shared.opens.load(Relaxed), shared.lost.load(Relaxed)), (0, 1));
    let error = shared.last_error().unwrap();
    assert!(error.contains("newest record"), "{error}");
    run("ALTER TABLE away RENAME TO job_ends");
    until("it is open", || shared.opens.load(Relaxed) == 1);
    drop(sender);
    thread.join(MINUTE);
}

#[test]
fn thread_moves_damaged_files_aside() {
    let (_dir, path) = temp();
    // Not SQLite at all, found when opening; with a log of something else.
    fs::write(&path, vec![0x5a; 100_000]).unwrap();
    fs::write(path.with_file_name("history.sqlite-wal"), b"rubbish").unwrap();
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    sender.send(fresh(1));
    until("a record is written", || shared.written.load(Relaxed) == 1);
    assert_eq!(corrupt_files(&path).len(), 1);
    assert_eq!(fs::read(&corrupt_files(&path)[0]).unwrap(), vec![0x5a; 100_000]);
    drop(sender);
    thread.join(MINUTE);

    // Pages overwritten behind its back, found when writing.
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    for id in 2..2000 {
        sender.send(fresh(id));
    }
    until("all are written", || shared.written.load(Relaxed) == 1998);
    drop(sender);
    thread.join(MINUTE);
    let size = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..size].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    sender.send(fresh(3000));
    until("a record is written", || shared.written.load(Relaxed) == 1);
    assert_eq!(shared.lost.load(Relaxed), 0);
    assert_eq!(corrupt_files(&path).len(), 2);
    drop(sender);
    thread.join(MINUTE);
    assert_eq!(counts(&path)[0], 1);
}

#[test]
fn thread_survives_an_impossible_path_and_recovers() {
    let (dir, _) = temp();
    let blocker = dir.path().join("file");
    fs::write(&blocker, b"").unwrap();
    let path = blocker.join("history.sqlite");
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    sender.send(fresh(1));
    until("the record is lost", || shared.lost.load(Relaxed) == 1);
    assert!(shared.last_error().unwrap().contains("cannot"));
    assert_eq!(shared.not_written(), 1, "what the disk refused counts too");
    fs::remove_file(&blocker).unwrap();
    until("it is open", || shared.opens.load(Relaxed) == 1);
    sender.send(fresh(2));
    drop(sender);
    thread.join(MINUTE);
    assert_eq!(shared.written.load(Relaxed), 1);
    assert_eq!(shared.last_error(), None);
}

#[test]
fn a_lock_held_by_others_costs_records_but_not_the_thread() {
    let (_dir, path) = temp();
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    until("it is open", || shared.opens.load(Relaxed) == 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    sender.send(fresh(1));
    until("the record is lost", || shared.lost.load(Relaxed) == 1);
    other.execute_batch("ROLLBACK").unwrap();
    let mut id = 1;
    until("written again", || {
        id += 1;
        sender.send(fresh(id));
        shared.written.load(Relaxed) > 0
    });
    assert_eq!(shared.opens.load(Relaxed), 1);
    drop(sender);
    thread.join(MINUTE);
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (sender, receiver) = bounded(2);
    let shared = shared::HistoryShared::new(LIMITS);
    let sender = HistorySender::new(sender, shared.clone());
    for id in 0..5 {
        sender.send(sized(id, id));
    }
    assert_eq!(shared.dropped.load(Relaxed), 3);
    drop(receiver);
    sender.send(sized(9, 9));
    assert_eq!(shared.dropped.load(Relaxed), 4);
}

#[test]
fn limits_of_a_reload_are_taken_up() {
    let (_dir, path) = temp();
    let (sender, thread) = HistoryThread::start(options(&path), LIMITS).unwrap();
    let shared = sender.shared().clone();
    let now = now_ms();
    sender.send(sized(1, now - 3 * DAY_MS));
    sender.send(sized(2, now));
    until("both are written", || shared.written.load(Relaxed) == 2);
    assert_eq!(shared.pruned.load(Relaxed), 0);
    shared.set_limits(Limits { retention_days: 2, ..LIMITS });
    until("one is deleted", || shared.pruned.load(Relaxed) == 1);
    drop(sender);
    thread.join(MINUTE);
}
