// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread that writes recordings.
//!
//! The thread takes events from the link and never holds the link up: it looks for them now and
//! then, because waking a thread that waits costs the answer more than all the rest of an event.
//! When the disk is too slow the recording is cut, which is written, counted and logged, and the
//! recording goes on in a new file with a new full state. A disk that fails ends the recording.
//! Files are of limited size; a full one is followed by the next (what has not been looked at when
//! a recording ends goes into the last), and the oldest in the directory are deleted above its
//! limit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use log::{info, warn};

use crate::link::Responder;
use crate::sync::TICK;
use phalanx_core::limits::RECORDING_QUEUE_MAX;
use phalanx_core::number::nearest_i64;
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::clock::{millis, now_ms};
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::RecordingStatus;
use phalanx_mirror::recording::{AskOp, Event, EventKind, Op, PreferencesOp, TableOp};
use phalanx_mirror::{Follower, Head, Writer};
use phalanx_planner::cluster::{RunningJob, Table};
use phalanx_planner::place::Placer;

/// Most events written before the thread looks at other things.
const BURST: usize = 256;
/// Longest time until a record is on disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Ending of a recording's file name.
const ENDING: &str = "phxrec";

/// Directory and sizes of a recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the files.
    pub dir: PathBuf,
    /// Size at which the next file is begun, bytes.
    pub file_bytes: u64,
    /// Size of all recordings in the directory, bytes.
    pub total_bytes: u64,
    /// Length of the recording; `None`: until it is stopped.
    pub length: Option<Duration>,
}

/// An order to the thread that writes recordings.
#[derive(Debug, Clone)]
pub enum Order {
    /// Begin a recording.
    Start(Options),
    /// End the recording.
    Stop,
}

/// State of the recording that other threads see.
#[derive(Debug)]
pub struct Shared {
    status: Mutex<RecordingStatus>,
    orders: Sender<Order>,
}

impl Shared {
    /// Returns the status of the recording.
    pub fn status(&self) -> RecordingStatus {
        lock(&self.status).clone()
    }

    /// Gives the thread an order; returns `false` if one is still waiting.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }
}

/// The thread that writes recordings.
#[derive(Debug)]
pub struct RecordingWriter {
    responder: Arc<Responder>,
    shared: Arc<Shared>,
    orders: Receiver<Order>,
}

/// Source of the last snapshot of the queue.
type Newest<'a> = &'a dyn Fn() -> Option<Arc<Snapshot>>;

/// One recording.
struct Recording<'a> {
    of: &'a RecordingWriter,
    options: &'a Options,
    /// Beginning of the files' names.
    name: String,
    newest: Newest<'a>,
}

/// One file being written.
struct Output {
    path: PathBuf,
    writer: Writer,
    events: Receiver<Event>,
    cut: Arc<AtomicBool>,
    follower: Follower,
    flushed: Instant,
    /// Counts of the recording without the present file.
    before: (u64, u64),
}

impl RecordingWriter {
    /// Makes a writer that takes orders through the returned [`Shared`].
    pub fn new(responder: Arc<Responder>) -> (Self, Arc<Shared>) {
        let (orders, taken) = bounded(4);
        let shared = Arc::new(Shared { status: Mutex::default(), orders });
        let own = Arc::clone(&shared);
        (Self { responder, shared: own, orders: taken }, shared)
    }

    /// Writes recordings until `stop`; `newest` returns the last snapshot of the queue.
    pub fn run(self, newest: Newest<'_>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.orders.recv_timeout(TICK) {
                Ok(Order::Start(options)) => self.record(&options, newest, stop),
                Ok(Order::Stop) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn record(&self, options: &Options, newest: Newest<'_>, stop: &AtomicBool) {
        let since_ms = now_ms();
        let length = options.length.map(millis);
        let until_ms = length.map(|l| since_ms.saturating_add(l));
        *lock(&self.shared.status) =
            RecordingStatus { active: true, since_ms, until_ms, ..RecordingStatus::default() };
        let until = options.length.and_then(|length| Instant::now().checked_add(length));
        let ended =
            Recording { of: self, options, name: name_of(since_ms), newest }.files(until, stop);
        self.responder.stop_recording();
        let mut status = lock(&self.shared.status);
        status.active = false;
        match ended {
            Ok(why) => info!("recording ended: {why}; {}", status.file),
            Err(error) => {
                warn!("recording ended: {error}");
                status.last_error = Some(error);
            }
        }
    }

    fn end_reason(&self, until: Option<Instant>, stop: &AtomicBool) -> Option<&'static str> {
        if stop.load(Ordering::Relaxed) {
            return Some("phalanxd stops");
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Some("its time is over");
        }
        matches!(self.orders.try_recv(), Ok(Order::Stop)).then_some("it was told to end")
    }

    fn count(&self, output: &Output) {
        let mut status = lock(&self.shared.status);
        (status.records, status.bytes) = output.counted();
    }
}

impl Recording<'_> {
    /// Writes the files; returns why the recording was told to end.
    fn files(&self, until: Option<Instant>, stop: &AtomicBool) -> Result<&'static str, String> {
        let mut output = self.begin(1)?;
        info!("recording to {}", output.path.display());
        loop {
            if let Some(why) = self.of.end_reason(until, stop) {
                self.of.responder.stop_recording();
                output.finish(why)?;
                self.of.count(&output);
                return Ok(why);
            }
            let step = output.step();
            self.of.count(&output);
            let gap = !step? || output.cut.load(Ordering::Acquire);
            if gap || output.writer.bytes() >= self.options.file_bytes {
                output = self.next_file(output, gap)?;
            }
        }
    }

    /// Opens the next file, which begins before the last one is written out, unless that has a gap.
    fn next_file(&self, mut output: Output, gap: bool) -> Result<Output, String> {
        let number = lock(&self.of.shared.status).files + 1;
        let next = if gap { None } else { Some(self.begin(number)?) };
        let why = if gap { GAP } else { "continued in the next file" };
        output.finish(why)?;
        if gap {
            warn!("{}: {GAP}", output.path.display());
            let mut status = lock(&self.of.shared.status);
            status.gaps += 1;
            status.last_error = Some(GAP.to_owned());
        }
        let mut next = next.map_or_else(|| self.begin(number), Ok)?;
        next.before = output.counted();
        Ok(next)
    }

    fn begin(&self, number: u32) -> Result<Output, String> {
        let Self { of, options, name, newest } = self;
        let deleted = make_room(&options.dir, options.total_bytes, options.file_bytes);
        let path = options.dir.join(format!("{name}.{number:04}.{ENDING}"));
        let zero_ms = now_ms().saturating_sub(of.responder.recording_ns() / 1_000_000);
        let head = Head::new(name.clone(), number, zero_ms);
        let at = |error: std::io::Error| format!("{}: {error}", path.display());
        if !options.dir.is_dir() {
            std::fs::create_dir_all(&options.dir).map_err(at)?;
        }
        let writer = Writer::create(&path, &head).map_err(at)?;
        let (sender, events) = bounded(RECORDING_QUEUE_MAX);
        let cut = Arc::new(AtomicBool::new(false));
        let mut output = Output {
            path: path.clone(),
            writer,
            events,
            cut: Arc::clone(&cut),
            follower: Follower::default(),
            flushed: Instant::now(),
            before: (0, 0),
        };
        if let Some(snapshot) = newest() {
            output.picture(of.responder.recording_ns(), snapshot)?;
        }
        of.responder.start_recording(sender, cut);
        if let Some((table, jobs)) = of.responder.copy_jobs()
            && let Some(memory_tracked) = of.responder.with_placer(Placer::memory_tracked)
        {
            output.mirror(of.responder.recording_ns(), &table, memory_tracked, jobs)?;
        }
        of.responder.complete_recording();
        let mut status = lock(&of.shared.status);
        status.files = number;
        status.file = path.display().to_string();
        status.deleted += deleted;
        Ok(output)
    }
}

const GAP: &str = "the disk was too slow: events were lost here";

impl Output {
    fn counted(&self) -> (u64, u64) {
        (self.before.0 + self.writer.records(), self.before.1 + self.writer.bytes())
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Writes the events that have come, or sleeps a moment; returns `false` when the recording is
    /// over.
    fn step(&mut self) -> Result<bool, String> {
        let mut going = true;
        for _ in 0..BURST {
            match self.events.try_recv() {
                Ok(event) => self.event(event)?,
                Err(error) => {
                    going = error == TryRecvError::Empty;
                    if going {
                        std::thread::sleep(TICK);
                    }
                    break;
                }
            }
        }
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flushed = Instant::now();
            self.writer.flush().map_err(|error| self.failed(&error))?;
        }
        Ok(going)
    }

    fn event(&mut self, Event { at_ns, what }: Event) -> Result<(), String> {
        let op = match what {
            EventKind::Op(op) => op,
            EventKind::Mirror(table, memory_tracked, jobs) => {
                return self.mirror(at_ns, &table, memory_tracked, jobs);
            }
            EventKind::Preferences(raw) => Op::Preferences(PreferencesOp::of(raw)),
            EventKind::Ask(decision, offer) => Op::Ask(Box::new(AskOp::of(&decision, offer))),
            EventKind::Snapshot(snapshot) => return self.picture(at_ns, snapshot),
        };
        self.add(at_ns, &op)
    }

    fn add(&mut self, at_ns: u64, op: &Op) -> Result<(), String> {
        self.writer.add(at_ns, op).map_err(|error| self.failed(&error))
    }

    fn picture(&mut self, at_ns: u64, snapshot: Arc<Snapshot>) -> Result<(), String> {
        self.follower.next(snapshot).map_or(Ok(()), |op| self.add(at_ns, &op))
    }

    fn mirror(
        &mut self,
        at_ns: u64,
        table: &Table,
        memory_tracked: bool,
        jobs: Vec<RunningJob>,
    ) -> Result<(), String> {
        let table = TableOp { table: table.clone(), memory_tracked };
        self.add(at_ns, &Op::Table(Box::new(table)))?;
        self.add(at_ns, &Op::Jobs(jobs))
    }

    /// Writes the rest of a recording that has ended, and the reason for its end.
    fn finish(&mut self, why: &str) -> Result<(), String> {
        let mut last = 0;
        while let Ok(event) = self.events.recv_timeout(FLUSH_EVERY) {
            last = event.at_ns;
            self.event(event)?;
        }
        self.add(last, &Op::End(why.to_owned()))?;
        self.writer.flush().map_err(|error| self.failed(&error))
    }
}

/// Deletes the oldest recordings until one more file fits; returns their number.
fn make_room(dir: &Path, total_bytes: u64, file_bytes: u64) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| Some((entry.path(), entry.metadata().ok()?.len()));
    let ours = |(path, _): &(PathBuf, u64)| path.extension().is_some_and(|e| e == ENDING);
    let mut files: Vec<(PathBuf, u64)> = entries.flatten().filter_map(size).filter(ours).collect();
    // Names begin with the time.
    files.sort();
    let mut sum: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let mut deleted = 0;
    for (path, bytes) in files {
        if sum.saturating_add(file_bytes) <= total_bytes {
            break;
        }
        if std::fs::remove_file(&path).is_ok() {
            info!("{}: deleted, recordings reach their limit", path.display());
            deleted += 1;
            sum -= bytes;
        }
    }
    deleted
}

/// Returns a file name made of a time, such as `2026-11-21T20-15-04.123Z`.
fn name_of(unix_ms: u64) -> String {
    let ms = nearest_i64(unix_ms);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{time:.3}").replace(':', "-")
}
