// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanxd`: threads, channels, signals. The only place that wires the
//! layers together.
//!
//! Threads: `main` (signals, watchdog), `link` (the plugin's socket), `poll`
//! (slurmctld), `plan`, `order` (the order of starts), `api` (the control
//! socket), `collect` and `agent` (the data service and what runs here for it),
//! `record` (memory and history records) and `history` (SQLite). Every channel
//! between them is bounded: snapshots by "latest wins", notes and records by
//! dropping and counting. A panic aborts the process; systemd starts it again, and
//! meanwhile the plugin sees a closed socket and Slurm places jobs by itself.

mod accounting;
pub mod args;
mod backend;
mod bags;
mod collect;
mod data;
mod data_lookup;
mod data_map;
mod data_steer;
mod explain;
mod gangs;
mod guard_file;
mod learner;
mod logging;
mod measures;
mod nodes;
mod order;
mod past;
mod pauses;
mod recent;
mod recorder;
mod runs;
mod settings;
mod state;
mod status;
mod steerers;
mod watchdog;
mod workers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, bounded};
use log::{info, warn};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use phalanx_ffi::slurm::Slurm;

use crate::api::{Access, Gate, Server as ApiServer};
use crate::collect::{Local, agent};
use crate::config::Config;
use crate::daemon::collect::Data;
use crate::daemon::data::DataShared;
use crate::daemon::learner::{LearnShared, Learner, RunSender};
use crate::daemon::recent::Recent;
use crate::daemon::recorder::{Recorder, now_ms};
use crate::daemon::runs::RunNote;
use crate::daemon::settings::{history_limits, record_options};
use crate::daemon::state::{Beat, InForce, PlanState, PollState, Shared};
use crate::daemon::watchdog::Watchdog;
use crate::history::{HistoryReader, HistoryThread, ThreadOptions};
use crate::link::{LinkEvent, Responder, Server as LinkServer, ServerConfig};
use crate::recordings::{Order, RecordingWriter, link_settings};
use crate::source::slurm::Source;
use phalanx_core::limits::NOTES_QUEUE_MAX;

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting: configuration, sockets, threads, libslurm.
pub fn run(path: &Path) -> Result<()> {
    let config = Config::load(path)?;
    logging::start(&config.log);
    for warning in config.warnings() {
        warn!("configuration: {warning}");
    }
    let signals = block_signals()?;
    let slurm = Slurm::init().context("libslurm")?;
    let mut source = Source::new(slurm);
    // The owner of the sockets is SlurmUser; if slurmctld is down, root's or
    // the daemon's own credentials have to do until the next start.
    let first = source.poll(true, now_ms());
    if let Err(error) = &first {
        warn!("slurmctld: {error}; trying again");
    }
    let daemon = Daemon::start(path, config, source)?;
    daemon.serve(&signals);
    daemon.stop();
    Ok(())
}

/// Signals come through a descriptor; threads started later inherit the mask.
fn block_signals() -> Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().context("block signals")?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&signals, flags).context("signalfd")
}

struct Daemon {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    stop_api: tokio::sync::watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    history: Option<HistoryThread>,
}

impl Daemon {
    fn start(path: &Path, config: Config, source: Source) -> Result<Self> {
        let owner = source.info().slurm_user_id;
        let (notes, notes_out) = bounded::<LinkEvent>(NOTES_QUEUE_MAX);
        // Ids grow over restarts and stay below 2^53, exact in JSON.
        let first_decision = (now_ms() / 1000) << 20;
        let settings = link_settings(&config, 1);
        let responder = Arc::new(Responder::new(settings, notes, first_decision));
        // A thread inherits the nice value of the one that starts it.
        let (sender, history) = std::thread::scope(|scope| {
            let start = || {
                workers::in_background();
                start_history(&config)
            };
            scope.spawn(start).join().unwrap_or_else(|_| anyhow::bail!("start thread history"))
        })?;
        let learn = Arc::new(LearnShared::default());
        let (runs, runs_out) = run_channel(&config, &learn);
        let reader = sender.as_ref().map(|_| HistoryReader::new(&config.history.path));
        let data = Data::start(&config);
        let (writer, recording) = RecordingWriter::new(Arc::clone(&responder));
        let shared = Arc::new(Shared {
            path: PathBuf::from(path),
            started: Instant::now(),
            responder: Arc::clone(&responder),
            snapshot: RwLock::new(None),
            poll: Mutex::new(PollState::default()),
            plan: Mutex::new(PlanState::default()),
            order: Mutex::default(),
            recent: Arc::new(Mutex::new(Recent::default())),
            history: sender.clone(),
            reader,
            data,
            speeds: RwLock::default(),
            power: Arc::default(),
            runtimes: RwLock::default(),
            learn: Arc::clone(&learn),
            recording,
            inputs: DataShared::default(),
            beats: Default::default(),
            in_force: RwLock::new(InForce {
                config: config.clone(),
                generation: 1,
                needs_restart: Vec::new(),
                last_error: None,
            }),
        });
        let recorder = Recorder {
            notes: notes_out,
            recent: Arc::clone(&shared.recent),
            history: sender,
            responder,
            runs,
            open: BTreeMap::new(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (stop_api, stopped) = tokio::sync::watch::channel(false);
        let mut daemon = Self { shared, stop, stop_api, threads: Vec::new(), history };
        daemon.spawn("record", move || {
            workers::in_background();
            recorder.run();
        })?;
        if let Some(runs_out) = runs_out {
            daemon.spawn_learner(runs_out)?;
        }
        daemon.spawn_link(&config, owner)?;
        daemon.spawn_recording(writer, &config)?;
        daemon.spawn_workers(source)?;
        daemon.spawn_collect(&config)?;
        daemon.spawn_api(&config, owner, stopped)?;
        Ok(daemon)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = Builder::new().name(name.to_owned()).spawn(run);
        self.threads.push(thread.with_context(|| format!("start thread {name}"))?);
        Ok(())
    }

    fn spawn_learner(&mut self, notes: Receiver<RunNote>) -> Result<()> {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.spawn("learn", move || {
            workers::in_background();
            Learner::new(shared).run(&notes, &stop);
        })
    }

    /// Recordings.
    fn spawn_recording(&mut self, writer: RecordingWriter, config: &Config) -> Result<()> {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        if config.record.enabled {
            shared.recording.order(Order::Start(record_options(config, None)));
        }
        self.spawn("recording", move || {
            workers::in_background();
            writer.run(&|| shared.snapshot(), &stop);
        })
    }

    fn spawn_link(&mut self, config: &Config, owner: Option<u32>) -> Result<()> {
        let mut allowed_uids = config.link.allowed_uids.clone();
        allowed_uids.extend(owner);
        let socket = config.link.socket.clone();
        let server = LinkServer::bind(ServerConfig { socket, allowed_uids, owner })?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.spawn("link", move || {
            workers::in_foreground();
            server.run(&shared.responder, &stop, shared.beat(Beat::Link));
        })
    }

    fn spawn_workers(&mut self, source: Source) -> Result<()> {
        let (to_plan, snapshots) = bounded(1);
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let (again, drain) = (to_plan.clone(), snapshots.clone());
        self.spawn("hdfs", move || {
            workers::in_background();
            let replan = |snapshot| workers::latest_wins(&again, &drain, snapshot);
            data_lookup::look_up(&shared, &replan, &stop);
        })?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.spawn("tell", move || {
            workers::in_background();
            data::tell(&shared, &stop);
        })?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let drain = snapshots.clone();
        self.spawn("poll", move || {
            workers::in_background();
            workers::poll(&shared, source, &to_plan, &drain, &stop);
        })?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.spawn("energy", move || {
            workers::in_background();
            accounting::energy(&shared, &stop);
        })?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.spawn("order", move || {
            workers::in_background();
            order::order_loop(&shared, &stop);
        })?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.spawn("plan", move || {
            workers::in_background();
            workers::plan_loop(&shared, &snapshots, &stop);
        })
    }

    fn spawn_collect(&mut self, config: &Config) -> Result<()> {
        let Some(data) = &self.shared.data else { return Ok(()) };
        let (collect, stop) = (Arc::clone(&data.collect), Arc::clone(&self.stop));
        let service = Local::new(Arc::clone(&collect), Arc::clone(&stop));
        let (options, agent_stop) = (collect::agent_options(config), Arc::clone(&stop));
        self.spawn("agent", move || {
            workers::in_background();
            agent::run(service, options, &agent_stop);
        })?;
        self.spawn("collect", move || {
            workers::in_background();
            collect::run(&collect, &stop);
        })
    }

    fn spawn_api(
        &mut self,
        config: &Config,
        owner: Option<u32>,
        stopped: tokio::sync::watch::Receiver<bool>,
    ) -> Result<()> {
        let mut allowed_uids = config.control.allowed_uids.clone();
        allowed_uids.extend(owner);
        let access = Access { public_read: config.control.public_read, allowed_uids };
        let mut server = ApiServer::bind(&config.control.socket, access)?;
        if let Ok(address) = config.control.listen.parse() {
            let public_read = config.control.listen_public_read;
            let gate = Gate { public_read, munge_socket: collect::munge_socket(config) };
            server = server.with_tcp(address, gate)?;
            info!("control: listening on {address}");
        }
        let backend = Arc::clone(&self.shared);
        self.spawn("api", move || {
            if let Err(error) = server.run(backend, stopped) {
                log::error!("control socket: {error}");
            }
        })
    }

    /// Signals and the watchdog, until asked to stop.
    fn serve(&self, signals: &SignalFd) {
        let mut watchdog = Watchdog::start(&self.shared);
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
                _ => watchdog.tick(&self.shared),
            }
        }
    }

    fn stop(self) {
        let Self { shared, stop, stop_api, threads, history } = self;
        stop.store(true, Ordering::Relaxed);
        // Nobody listens any more if the API thread has ended already.
        let _ = stop_api.send(true);
        let mut recorder = None;
        for thread in threads {
            // The recorder ends when the last sender of notes is gone.
            if thread.thread().name() == Some("record") {
                recorder = Some(thread);
            } else if thread.join().is_err() {
                log::error!("a thread ended by a panic");
            }
        }
        drop(shared);
        drop(recorder);
        drop(history);
    }
}

/// The way from the recorder to the learner, if anything is learned.
fn run_channel(
    config: &Config,
    shared: &Arc<LearnShared>,
) -> (Option<RunSender>, Option<Receiver<RunNote>>) {
    if !config.learn.enabled {
        return (None, None);
    }
    let (sender, receiver) = bounded(NOTES_QUEUE_MAX);
    (Some(RunSender { sender, shared: Arc::clone(shared) }), Some(receiver))
}

type HistoryParts = (Option<crate::history::HistorySender>, Option<HistoryThread>);

fn start_history(config: &Config) -> Result<HistoryParts> {
    if !config.history.enabled {
        return Ok((None, None));
    }
    let limits = history_limits(&config.history);
    let (sender, thread) = HistoryThread::start(ThreadOptions::new(&config.history.path), limits)
        .context("start thread history")?;
    Ok((Some(sender), Some(thread)))
}
