// SPDX-License-Identifier: GPL-3.0-or-later
//! The agent: it runs the registrations of its node and hands over
//! the values. There is one per node, and one on the daemon's host for [`MASTER`].
//!
//! One request at a time goes to the data service. It hands over the values
//! since the last one and is held there until something changes or the
//! next run is due, so that an agent costs about one request per period and
//! still hears of a change at once. Runs themselves go on in [`worker`]
//! meanwhile; a run that hangs holds up nothing but itself.
//!
//! While the data service cannot be reached the runs go on, and the newest
//! values are queued up to a bound.
//!
//! [`MASTER`]: phalanx_messages::collect::MASTER

mod http;
mod outbox;
mod schedule;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use log::{info, warn};

pub use http::HttpService;

use crate::builtin::{self, Memory};
use crate::data_service::{Service, ServiceError};
use crate::slot;
use outbox::Outbox;
use phalanx_core::limits::{AGENT_RETRY_MS_MAX, AGENT_WAIT_MS_MAX};
use phalanx_ffi::clock::{millis, now_ms};
use phalanx_ffi::command;
use phalanx_messages::collect::{
    DataReport, Kind, MASTER, Output, Registration, Row, SyncReply, SyncRequest,
};
use schedule::Schedule;
use worker::{Job, Task, Worker};

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The node's name in Slurm, or [`MASTER`].
    pub node: String,
    /// Directories that programs must lie in.
    pub command_dirs: Vec<PathBuf>,
    /// User that programs run as unless their registration says otherwise.
    pub run_as: String,
    /// Users that registrations may name besides `run_as`.
    pub run_as_allowed: Vec<String>,
    /// Address of the data service for programs, as `PHALANX_URL`.
    pub service: String,
    /// Directory with `proc` and `sys`; `/` except in tests.
    pub root: PathBuf,
    /// Seed of the jitter; agents with different seeds spread their runs.
    pub seed: u64,
}

/// Time that a request waits for runs that were just started: most have ended by
/// then, and one request serves all.
const SETTLE: Duration = Duration::from_millis(100);
/// Pause after a change of the assignments.
const GATHER_CHANGES: Duration = Duration::from_millis(250);
/// First pause after a failed request, milliseconds.
const RETRY_MS: u64 = 500;

/// Runs the agent until `stop`; then all programs have been killed. It waits in
/// [`Service::sync`] for most of the time, so that `stop` may be noticed only
/// when that returns.
pub fn run(mut service: impl Service, options: AgentOptions, stop: &AtomicBool) {
    std::thread::scope(|scope| {
        let (worker, slots) = match Worker::new() {
            Ok(parts) => parts,
            Err(error) => {
                warn!("agent: {error}");
                return;
            }
        };
        scope.spawn(move || slots.run(stop));
        let mut agent = Agent {
            schedule: Schedule::new(options.seed),
            options,
            worker,
            outbox: Outbox::default(),
            memories: BTreeMap::new(),
            generation: 0,
            failures: 0,
        };
        while !stop.load(Ordering::Relaxed) {
            agent.turn(&mut service, stop);
        }
    });
}

struct Agent {
    options: AgentOptions,
    schedule: Schedule,
    worker: Worker,
    outbox: Outbox,
    /// State of built-in registrations between their runs, by instance.
    memories: BTreeMap<u64, Arc<std::sync::Mutex<Memory>>>,
    generation: u64,
    /// Number of consecutive failed requests.
    failures: u32,
}

impl Agent {
    /// Makes one request, with the runs before and after it.
    fn turn(&mut self, service: &mut impl Service, stop: &AtomicBool) {
        let started = self.start_due(service);
        self.worker.sleep(SETTLE, started);
        self.take_results();
        let now = Instant::now();
        let request = SyncRequest {
            generation: self.generation,
            wait_ms: self.wait(now),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dropped: self.outbox.dropped(),
            values: self.outbox.values(now),
            runs: self.outbox.runs(now),
        };
        match service.sync(&request) {
            Ok(reply) => {
                if self.failures > 0 {
                    info!("agent: the data service answers");
                }
                self.failures = 0;
                self.outbox.handed_over();
                self.assign(reply);
            }
            Err(error) => self.pause(&error, stop),
        }
    }

    /// Returns how long the request may be held, in milliseconds: until the next run is due, or the
    /// runs under way have probably ended.
    fn wait(&self, now: Instant) -> u64 {
        if self.outbox.has_more() {
            return 0;
        }
        let gather = self.schedule.gather();
        let due = self.schedule.next_due().map(|due| due.saturating_duration_since(now));
        // A run that took a second may well take another one.
        let running = self.schedule.running_since().map(|at| now.saturating_duration_since(at));
        let longest = Duration::from_millis(AGENT_WAIT_MS_MAX);
        let wait = due.map_or(longest, |due| due.max(gather));
        let wait = wait.min(running.map_or(longest, |age| age.max(2 * SETTLE)));
        millis(wait.min(longest))
    }

    fn assign(&mut self, reply: SyncReply) {
        for refused in &reply.refused {
            warn!("agent: value {} was refused: {}", refused.index, refused.reason);
        }
        self.generation = reply.generation;
        let Some(assignments) = reply.assignments else { return };
        let gone = self.schedule.assign(assignments, Instant::now());
        for id in gone {
            self.worker.stop(id);
            self.memories.remove(&id);
        }
        info!("agent: generation {}, {} to run", self.generation, self.schedule.len());
        // A change seldom comes alone, and each one brings the whole list.
        self.worker.sleep(GATHER_CHANGES, usize::MAX);
    }

    /// Waits after a failed request. Its contents stay queued, and runs go on.
    fn pause(&mut self, error: &ServiceError, stop: &AtomicBool) {
        if self.failures == 0 {
            warn!("agent: {error}; trying again");
        }
        self.failures = self.failures.saturating_add(1);
        let base = RETRY_MS << self.failures.saturating_sub(1).min(10);
        let pause = match error {
            ServiceError::Busy(ms) => *ms,
            _ => base,
        };
        // The other agents lost it in the same moment: spread out.
        let pause = self.schedule.jitter(pause.clamp(RETRY_MS, AGENT_RETRY_MS_MAX));
        let until = Instant::now() + Duration::from_millis(pause);
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            self.worker.sleep(left.min(2 * SETTLE), 1);
            self.take_results();
            self.start_due(&mut Away);
        }
    }

    fn take_results(&mut self) {
        for (id, timeout) in self.schedule.lost(Instant::now()) {
            self.worker.lose(id, timeout);
        }
        for result in self.worker.results() {
            let id = result.id;
            let Some(done) = self.schedule.finished(id, result.at, result.output.is_err()) else {
                continue;
            };
            // The output must be a value, too.
            if !self.outbox.add(&done, result, now_ms()) {
                self.schedule.failed_late(id);
            }
        }
    }

    /// Starts the due runs; returns their number.
    fn start_due(&mut self, service: &mut dyn Service) -> usize {
        let due = self.schedule.due(Instant::now());
        for (id, registration) in &due {
            self.schedule.started(*id, Instant::now());
            match self.prepare(*id, registration, service) {
                Ok(task) => {
                    let timeout = Duration::from_millis(registration.timeout_ms);
                    self.worker.start(Job { id: *id, task, timeout });
                }
                Err(why) => self.worker.fail(*id, why),
            }
        }
        due.len()
    }

    /// Returns the work of a run; the error says why the run cannot be done.
    fn prepare(
        &mut self,
        id: u64,
        registration: &Registration,
        service: &mut dyn Service,
    ) -> Result<Task, String> {
        let inputs = self.inputs(registration, service)?;
        if let Some(name) = registration.builtin() {
            let builtin = builtin::find(name)
                .ok_or_else(|| format!("cmd: no built-in {name:?} in this version"))?;
            let root = self.options.root.clone();
            return Ok(match builtin::plan(builtin, &root)? {
                builtin::Plan::Program(path, args, tool) => {
                    let args = args.iter().map(|&arg| arg.to_owned()).collect();
                    Task::Program(self.program(registration, path, args, Vec::new())?, Some(tool))
                }
                builtin::Plan::Call => Task::Builtin {
                    builtin,
                    args: registration.args.clone(),
                    node: self.options.node.clone(),
                    inputs,
                    root,
                    memory: Arc::clone(self.memories.entry(id).or_default()),
                },
            });
        }
        let own = nix::unistd::Uid::effective().as_raw();
        let path = std::path::Path::new(&registration.cmd);
        let path = command::check(path, &self.options.command_dirs, own)?;
        let input = if registration.kind == Kind::Processor {
            let inputs: BTreeMap<&str, &[Row]> =
                inputs.iter().map(|(name, rows)| (name.as_str(), rows.as_slice())).collect();
            let document = serde_json::json!({"node": self.options.node, "inputs": inputs});
            document.to_string().into_bytes()
        } else {
            Vec::new()
        };
        let args = registration.args.clone();
        Ok(Task::Program(self.program(registration, path, args, input)?, None))
    }

    /// Returns the inputs of a processor. A name without any value is an empty list.
    fn inputs(
        &self,
        registration: &Registration,
        service: &mut dyn Service,
    ) -> Result<Vec<(String, Vec<Row>)>, String> {
        let whole = registration.output == Output::Nodes || self.options.node == MASTER;
        let node = (!whole).then_some(self.options.node.as_str());
        let mut wanted: Vec<(&str, &str)> =
            registration.inputs.iter().map(|name| (name.as_str(), name.as_str())).collect();
        if registration.builtin() == Some("capability_history") {
            wanted.push((builtin::OWN, &registration.name));
        }
        let mut inputs = Vec::with_capacity(wanted.len());
        for (key, name) in wanted {
            match service.read(name, node) {
                Ok(report) => inputs.push((key.to_owned(), report.values)),
                Err(ServiceError::NotFound(_)) => inputs.push((key.to_owned(), Vec::new())),
                Err(error) => return Err(format!("input {name}: {error}")),
            }
        }
        Ok(inputs)
    }

    fn program(
        &self,
        registration: &Registration,
        program: PathBuf,
        args: Vec<String>,
        input: Vec<u8>,
    ) -> Result<slot::Run, String> {
        let user = registration.run_as.as_ref().unwrap_or(&self.options.run_as);
        let allowed = &self.options.run_as_allowed;
        if *user != self.options.run_as && !allowed.contains(user) {
            return Err(format!("run_as: {user} is not among the users that this agent allows"));
        }
        let run_as = slot::RunAs::named(user).map_err(|error| format!("run_as: {error}"))?;
        let variables = [
            ("PHALANX_NODE", self.options.node.clone()),
            ("PHALANX_NAME", registration.name.clone()),
            ("PHALANX_EVERY_MS", registration.every_ms.to_string()),
            ("PHALANX_TIMEOUT_MS", registration.timeout_ms.to_string()),
            ("PHALANX_URL", self.options.service.clone()),
        ];
        let env = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let timeout = Duration::from_millis(registration.timeout_ms);
        Ok(slot::Run { program, args, env, input, timeout, run_as })
    }
}

/// A data service that cannot be reached.
struct Away;

impl Service for Away {
    fn sync(&mut self, _: &SyncRequest) -> Result<SyncReply, ServiceError> {
        Err(ServiceError::Unreachable("not connected".to_owned()))
    }

    fn read(&mut self, _: &str, _: Option<&str>) -> Result<DataReport, ServiceError> {
        Err(ServiceError::Unreachable("not connected".to_owned()))
    }
}
