// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service inside the daemon: its settings, and the thread `collect` for its upkeep.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use tokio::sync::watch;

use crate::collect::{Collect, Now, Settings};
use crate::daemon::measured_values;
use crate::sync::sleep_until;
use phalanx_client::agent::AgentOptions;
use phalanx_config::Config;
use phalanx_messages::collect::MASTER;

const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// The service and who may feed it.
#[derive(Debug)]
pub struct DataService {
    pub collect: Arc<Collect>,
    pub generations: watch::Receiver<u64>,
    pub agent_uids: Vec<u32>,
}

impl DataService {
    /// Starts the service of this configuration, if it is switched on.
    pub fn start(config: &Config) -> Option<Self> {
        if !config.collect.enabled {
            return None;
        }
        let (sender, generations) = watch::channel(0);
        let changed = Box::new(move |generation| {
            let _ = sender.send_replace(generation);
        });
        let collect = Arc::new(Collect::new(settings(config), changed, Now::read()));
        collect.announce();
        Some(Self { collect, generations, agent_uids: config.collect.agent_uids.clone() })
    }
}

/// The settings of the service in a configuration.
pub fn settings(config: &Config) -> Settings {
    let collect = &config.collect;
    Settings {
        path: Some(collect.path.clone()),
        command_dirs: collect.command_dirs.clone(),
        owner: Uid::effective().as_raw(),
        stale_periods: collect.stale_periods,
        history_step_s: collect.history_step_s,
        retention_hours: collect.retention_hours,
        max_mb: collect.max_mb,
        registrations: config.registrations(),
        uses: measured_values::uses(config),
    }
}

/// Options of the agent that runs the collectors registered for `@master`.
pub fn agent_options(config: &Config) -> AgentOptions {
    AgentOptions {
        node: MASTER.to_owned(),
        command_dirs: config.collect.command_dirs.clone(),
        run_as: config.collect.run_as.clone(),
        // Who registers for this host may change things here anyway.
        run_as_allowed: None,
        service: config.control.socket.display().to_string(),
        root: PathBuf::from("/"),
        seed: Now::read().wall_ms,
    }
}

/// Socket of munged, if it is not the machine's own.
pub fn munge_socket(config: &Config) -> Option<PathBuf> {
    let path = &config.control.munge_socket;
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// Upkeep once a second until `stop`, and a last write.
pub fn run(collect: &Collect, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        collect.tick(Now::read());
        sleep_until(Instant::now() + UPKEEP_EVERY, stop);
    }
    collect.tick(Now::read());
}
