// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service inside the daemon: its settings, and the thread `collect` for its upkeep.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::Uid;

use crate::collect::{Collect, DataService, Now, Settings};
use crate::daemon::measured_values;
use crate::sync::sleep_until;
use phalanx_config::Config;

const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// Periods after which a value is stale: two may be late or lost.
const STALE_PERIODS: u32 = 3;
/// Least time between two past values of one node, in seconds: a point a minute makes a plot.
const HISTORY_STEP_S: u32 = 60;
/// Age at which past values are deleted, in hours.
const RETENTION_HOURS: u32 = 24;
/// Size of the database at which the oldest past values are deleted, in MiB.
const MAX_MB: u32 = 512;

pub fn start(config: &Config) -> DataService {
    let collect = Arc::new(Collect::new(settings(config), Now::read()));
    DataService { collect, agent_uids: config.collect.agent_uids.clone() }
}

/// Path of the data service's database, beside the history.
pub fn path(config: &Config) -> PathBuf {
    config.history.path.with_file_name("collect.sqlite")
}

/// Returns the settings of the data service in a configuration.
pub fn settings(config: &Config) -> Settings {
    let collect = &config.collect;
    Settings {
        path: Some(path(config)),
        command_dirs: collect.command_dirs.clone(),
        owner: Uid::effective().as_raw(),
        stale_periods: STALE_PERIODS,
        history_step_s: HISTORY_STEP_S,
        retention_hours: RETENTION_HOURS,
        max_mb: MAX_MB,
        registrations: config.registrations(),
        uses: measured_values::uses(config),
    }
}

/// Keeps the data service up once a second until `stop`, and writes a last time.
pub fn run(collect: &Collect, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        collect.tick(Now::read());
        sleep_until(Instant::now() + UPKEEP_EVERY, stop);
    }
    collect.tick(Now::read());
}
