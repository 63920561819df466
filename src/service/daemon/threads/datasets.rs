// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `datasets` follows the site's list of datasets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::daemon::shared::Shared;
use crate::daemon::state::inputs::DataInputs;
use crate::locations::{Datasets, ListFile};
use crate::sync::{Newest, sleep_until};
use phalanx_config::DataJobsConfig;
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::locks::lock;
use phalanx_messages::rest::DatasetsStatus;

/// Interval at which the list is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Follows the list until `stop`; a change is followed by a new plan if a job names a dataset.
pub fn run(shared: &Shared, to_plan: &Newest<Arc<Snapshot>>, stop: &Arc<AtomicBool>) {
    let (sender, lists) = Newest::channel();
    let path = Arc::new(Mutex::default());
    // Of its own and never waited for: a file server may hang for ever.
    let read = {
        let (path, stop) = (Arc::clone(&path), Arc::clone(stop));
        move || read_list(&path, &sender, &stop)
    };
    if let Err(error) = Builder::new().name("list".to_owned()).spawn(read) {
        log::warn!("the thread that reads data_jobs.locations: {error}; it is not read");
    }
    let mut known = Known::default();
    while !stop.load(Ordering::Relaxed) {
        let config = shared.config();
        lock(&path).clone_from(&config.data_jobs.locations);
        if known.follow(&config.data_jobs, lists.try_recv().ok(), &shared.inputs) {
            shared.cluster.snapshot().into_iter().for_each(|now| to_plan.send(now));
        }
        sleep_until(Instant::now() + EVERY, stop);
    }
}

fn read_list(path: &Mutex<String>, to: &Newest<ListFile>, stop: &AtomicBool) {
    let mut file = ListFile::default();
    while !stop.load(Ordering::Relaxed) {
        let path = lock(path).clone();
        if file.refresh(&path) {
            match &file.error {
                Some(error) => log::warn!("data_jobs.locations: {error}; the former list counts"),
                None => log::info!("data_jobs.locations: {} datasets", file.list.of.len()),
            }
            to.send(file.clone());
        }
        sleep_until(Instant::now() + EVERY, stop);
    }
}

/// The state of the list at the last look.
#[derive(Default)]
struct Known {
    file: ListFile,
    is_configured: bool,
    /// Time of the first look, whether the list was read, and whether it was still missing.
    since: Option<Instant>,
    is_read: bool,
    unread: bool,
}

impl Known {
    /// Looks at the list; returns whether something changed and a job names a dataset.
    fn follow(
        &mut self,
        config: &DataJobsConfig,
        read: Option<ListFile>,
        inputs: &DataInputs,
    ) -> bool {
        let is_configured = config.finds_datasets();
        let first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        let mut changed = read.is_some() || first || is_configured != self.is_configured;
        self.is_read |= read.is_some();
        self.is_configured = is_configured;
        self.file = read.unwrap_or_else(|| std::mem::take(&mut self.file));
        let early = since.elapsed() < Duration::from_millis(config.wait_ms.into());
        let unread = early && !self.is_read && is_configured;
        changed |= unread != std::mem::replace(&mut self.unread, unread);
        if !changed {
            return false;
        }
        let counts = DatasetsStatus {
            listed: self.file.list.of.len() as u64,
            list_error: self.file.error.clone(),
            ..DatasetsStatus::default()
        };
        let datasets = Datasets {
            list: Arc::clone(&self.file.list),
            list_error: self.file.error.clone(),
            unconfigured: !is_configured,
            unread,
        };
        inputs.set_datasets(datasets, counts)
    }
}
