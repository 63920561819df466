// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanxd`: threads, channels, signals. The only place that wires the layers together.
//!
//! | thread | does | its loop |
//! |---|---|---|
//! | `main` | signals and systemd's watchdog | `Daemon::serve` |
//! | `link` | the plugin's socket: receives, applies, answers | `link::Server` |
//! | `poll` | reads slurmctld every `source.poll_ms`, writes comments | `threads/poll.rs` |
//! | `plan` | attribution, preferences of the methods, the plan | `threads/plan.rs` |
//! | `order` | the order of starts | `threads/order.rs` |
//! | `forecast` | when the waiting jobs start | `threads/forecast.rs` |
//! | `gangs` | breeds plans of gangs on between rounds | `methods/gangs.rs` |
//! | `lookups` | finds out where inputs of data jobs lie | `threads/lookups.rs` |
//! | `gate` | lets the program `phalanx-gate` in | `threads/gate.rs` |
//! | `datasets` | which datasets nodes report, and the site's list | `threads/datasets.rs` |
//! | `history` | link events to decision memory and records | `threads/history.rs` |
//! | `database` | writes records to SQLite, in batches | `history::HistoryThread` |
//! | `learn` | runs that ended to speeds, runtimes and records | `threads/learn.rs` |
//! | `recording` | writes recordings of the link's events | `recordings::RecordingWriter` |
//! | `textfile` | writes the metrics to a file | `threads/textfile.rs` |
//! | `api` | the control socket | `api::Server` |
//! | `accept` | lets connections over TCP in | `api::listen` |
//! | `collect` | upkeep of the data service | `threads/collect.rs` |
//!
//! Threads share the structs of `state/`, each of which has its own lock; `Shared` is their sum.
//! Every channel between threads is bounded: snapshots by "the newest wins", events and records
//! by dropping and counting. A panic aborts the process; systemd starts it again, and meanwhile
//! the plugin sees a closed socket and Slurm places jobs by itself.

mod answers;
mod comparison;
mod decision_views;
mod measured_values;
mod methods;
mod node_speeds;
mod settings;
mod shared;
mod state;
mod state_file;
mod threads;
mod watchdog;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, bounded};
use log::{debug, error, info, warn};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use phalanx_slurm::Slurm;
use tokio::sync::watch;

use crate::api::{Access, Gate, Server as ApiServer};
use crate::daemon::settings::settings_of_link;
use crate::daemon::shared::Shared;
use crate::daemon::threads::history::HistoryWriter;
use crate::daemon::threads::learn::Learner;
use crate::daemon::threads::order::Order;
use crate::daemon::threads::poll::Poll;
use crate::daemon::threads::{collect, datasets, forecast, gate, lookups, plan, textfile};
use crate::daemon::watchdog::Watchdog;
use crate::history::{HistorySender, HistoryThread, Limits, ThreadOptions};
use crate::link::{Responder, Server as LinkServer, ServerConfig};
use crate::recordings::RecordingWriter;
use crate::source::slurm::Source;
use crate::sync::Newest;
use phalanx_config::{Config, PublicRead, logging};
use phalanx_core::limits::NOTES_QUEUE_MAX;
use phalanx_ffi::clock::now_ms;
use phalanx_ffi::memory;
use phalanx_messages::gate::DOOR_SOCKET;
use phalanx_mirror::LinkEvent;

/// Nice value of threads for which no question waits.
const BACKGROUND_NICE: i32 = 10;
/// Time slice of the thread that answers questions, nanoseconds.
const ANSWER_TURN_NS: u64 = 100_000;
/// Whether the system has refused to schedule a thread as asked.
static TURNS_REFUSED: AtomicBool = AtomicBool::new(false);
/// Longest wait, when the daemon ends, for the last records to be written.
const LAST_RECORDS_MAX: Duration = Duration::from_secs(2);

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever keeps it from starting: configuration, sockets, threads, libslurm.
pub fn run(path: &Path) -> Result<()> {
    memory::free_large();
    let config = Config::load(path)?;
    logging::start(&config.log);
    for warning in config.warnings() {
        warn!("configuration: {warning}");
    }
    let signals = block_signals()?;
    let slurm = Slurm::init().context("libslurm")?;
    let mut source = Source::new(slurm);
    // The owner of the sockets is SlurmUser; if slurmctld is down, they are given to it later.
    let first = source.poll(true, None, now_ms());
    if let Err(error) = &first {
        warn!("slurmctld: {error}; trying again");
    }
    let daemon = Daemon::start(path, Arc::new(config), source)?;
    daemon.serve(&signals);
    daemon.stop();
    Ok(())
}

/// Blocks signals, which then come through a descriptor; threads started later inherit the mask.
fn block_signals() -> Result<SignalFd> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block().context("block signals")?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&signals, flags).context("signalfd")
}

/// Way in which the kernel schedules a thread.
#[derive(Clone, Copy)]
enum Turns {
    /// Short time slices, for the thread that answers.
    Short,
    Usual,
    /// Low priority, for threads that must not delay an answer on a busy machine.
    Background,
}

impl Turns {
    fn take(self) {
        let done = match self {
            Self::Short => phalanx_ffi::thread::short_turns(ANSWER_TURN_NS),
            Self::Usual => Ok(()),
            Self::Background => phalanx_ffi::thread::yield_to_others(BACKGROUND_NICE),
        };
        if let Err(error) = done {
            // Without them planning takes the processor from answers. Said once, not for each.
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            if TURNS_REFUSED.swap(true, Ordering::Relaxed) {
                debug!("thread {name} keeps the usual turns: {error}");
            } else {
                warn!(
                    "thread {name} keeps the usual turns: {error}; does the unit's \
                     SystemCallFilter refuse setpriority and sched_setattr?"
                );
            }
        }
    }
}

/// Ends of channels and sockets that threads take over when they start.
struct Ends {
    source: Source,
    link: LinkServer,
    api: ApiServer,
    stop_api: watch::Receiver<bool>,
    recording: RecordingWriter,
    events: Receiver<LinkEvent>,
    owner: Arc<OnceLock<u32>>,
}

struct Daemon {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    stop_api: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    database: HistoryThread,
}

impl Daemon {
    fn start(path: &Path, config: Arc<Config>, source: Source) -> Result<Self> {
        let owner: Arc<OnceLock<u32>> = Arc::default();
        let _ = source.info().slurm_user_id.map(|uid| owner.set(uid));
        let (notes, events) = bounded::<LinkEvent>(NOTES_QUEUE_MAX);
        // Ids grow over restarts and stay below 2^53, exact in JSON.
        let first_decision = (now_ms() / 1000) << 20;
        let responder = Responder::new(settings_of_link(&config, 1), notes, first_decision);
        let responder = Arc::new(responder);
        let (history, database) = start_history(&config)?;
        let (writer, recording) = RecordingWriter::new(Arc::clone(&responder));
        let (stop_api, api_stops) = watch::channel(false);
        let api = bind_api(&config, Arc::clone(&owner))?;
        let control = api.counters();
        let ends = Ends {
            source,
            link: bind_link(&config, Arc::clone(&owner))?,
            api,
            stop_api: api_stops,
            recording: writer,
            events,
            owner,
        };
        let shared = Shared::new(path, &config, responder, history, recording, control);
        let shared = Arc::new(shared);
        let stop = Arc::new(AtomicBool::new(false));
        let mut daemon = Self { shared, stop, stop_api, threads: Vec::new(), database };
        daemon.start_threads(ends)?;
        Ok(daemon)
    }

    /// Starts all threads but `main` and `database`.
    fn start_threads(&mut self, ends: Ends) -> Result<()> {
        use Turns::{Background, Short, Usual};
        let Ends { source, link, api, stop_api, recording, events, owner } = ends;
        let (to_plan, snapshots) = Newest::channel();
        let (replan, to_lookups) = (to_plan.clone(), to_plan.clone());
        let (runs, ended) = bounded(NOTES_QUEUE_MAX);
        self.spawn("history", Background, move |all, stop| {
            HistoryWriter { all, events, runs, open: BTreeMap::new() }.run(stop);
        })?;
        self.spawn("link", Short, move |all, stop| {
            link.run(&all.responder, stop, &all.heartbeats.link);
        })?;
        self.spawn("recording", Background, move |all, stop| {
            recording.run(&|| all.cluster.snapshot(), stop);
        })?;
        self.spawn("lookups", Background, move |all, stop| lookups::run(all, &to_lookups, stop))?;
        self.spawn("gate", Background, |all, stop| gate::run(all, stop))?;
        self.spawn("datasets", Background, move |all, stop| datasets::run(all, &replan, stop))?;
        self.spawn("poll", Background, move |all, stop| {
            Poll { source, all, to_plan, owner }.run(stop);
        })?;
        self.spawn("order", Background, |all, stop| Order { all }.run(stop))?;
        self.spawn("forecast", Background, |all, stop| forecast::run(all, stop))?;
        self.spawn("gangs", Background, |all, stop| all.gangs.run(stop))?;
        self.spawn("plan", Background, move |all, stop| plan::run(all, &snapshots, stop))?;
        self.spawn("textfile", Background, |all, stop| textfile::run(all, stop))?;
        self.spawn("api", Usual, move |all, _| {
            let prepare = || Turns::Background.take();
            if let Err(error) = api.run(Arc::clone(all), stop_api, prepare) {
                error!("control socket: {error}");
            }
        })?;
        self.spawn("learn", Background, move |all, stop| Learner::new(all).run(&ended, stop))?;
        self.spawn("collect", Background, |all, stop| {
            collect::run(&all.data_service.collect, stop);
        })
    }

    fn spawn(
        &mut self,
        name: &str,
        turns: Turns,
        work: impl FnOnce(&Arc<Shared>, &Arc<AtomicBool>) + Send + 'static,
    ) -> Result<()> {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let run = move || {
            turns.take();
            work(&shared, &stop);
        };
        let thread = Builder::new().name(name.to_owned()).spawn(run);
        self.threads.push(thread.with_context(|| format!("start thread {name}"))?);
        Ok(())
    }

    /// Handles signals and feeds the watchdog, until asked to stop.
    fn serve(&self, signals: &SignalFd) {
        let mut watchdog = Watchdog::start();
        info!("ready: plugin socket {}", self.shared.config().link.socket.display());
        watchdog.ready();
        loop {
            match watchdog.wait(signals) {
                Some(Signal::SIGHUP) => {
                    watchdog.reloading();
                    self.shared.reload();
                    watchdog.ready();
                }
                Some(Signal::SIGTERM | Signal::SIGINT) => {
                    info!("stopping: Slurm places jobs by itself from now on");
                    watchdog.stopping();
                    return;
                }
                _ => watchdog.tick(&self.shared.heartbeats),
            }
        }
    }

    fn stop(self) {
        let Self { shared, stop, stop_api, threads, database } = self;
        stop.store(true, Ordering::Relaxed);
        // Nobody listens any more if the API thread has ended already.
        let _ = stop_api.send(true);
        for thread in threads {
            // A panic would have ended the process.
            let _ = thread.join();
        }
        // The database's thread ends, after a last write, when its last sender is gone.
        drop(shared);
        database.join(LAST_RECORDS_MAX);
    }
}

fn bind_link(config: &Config, owner: Arc<OnceLock<u32>>) -> Result<LinkServer> {
    let allowed_uids = config.link.allowed_uids.clone();
    let socket = config.link.socket.clone();
    Ok(LinkServer::bind(ServerConfig { socket, allowed_uids, owner })?)
}

fn bind_api(config: &Config, owner: Arc<OnceLock<u32>>) -> Result<ApiServer> {
    let allowed_uids = config.control.allowed_uids.clone();
    let public = config.control.public_read;
    let access = Access { public_read: public != PublicRead::None, allowed_uids, owner };
    let mut server = ApiServer::bind(&config.control.socket, access)?;
    if !config.control.listen.is_empty() {
        let gate = Gate::new(public == PublicRead::All, config.munge_socket());
        let door = config.control.socket.with_file_name(DOOR_SOCKET);
        server = server.with_remote(door, gate)?;
    }
    Ok(server)
}

/// Starts the history with its thread `database`.
fn start_history(config: &Config) -> Result<(HistorySender, HistoryThread)> {
    let options = ThreadOptions::new(&config.history.path);
    let limits = Limits::new(config.history.retention_days);
    // A thread inherits the nice value of the one that starts it.
    let start = || {
        Turns::Background.take();
        HistoryThread::start(options, limits)
    };
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    started
        .unwrap_or_else(|_| Err(std::io::Error::other("panicked")))
        .context("start thread database")
}
