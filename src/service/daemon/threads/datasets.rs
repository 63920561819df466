// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `datasets` follows what is known of datasets: the reports of the nodes' caches and
//! the site's list.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::collect::{Collect, Now, Sender};
use crate::daemon::shared::Shared;
use crate::daemon::state::inputs::DataInputs;
use crate::locations::{Caches, Datasets, ListFile};
use crate::sync::{Newest, sleep_until};
use phalanx_config::DataJobsConfig;
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::locks::lock;
use phalanx_messages::collect::{NONE, Put, valid_name};
use phalanx_messages::rest::DatasetsStatus;

/// Interval at which the sources are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which the counts go into the data service.
const PUBLISH_EVERY: Duration = Duration::from_secs(10);

/// Follows both sources until `stop`; a change is followed by a new plan if a job names a dataset.
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
    let collect = &shared.data_service.collect;
    let mut known = Known::default();
    while !stop.load(Ordering::Relaxed) {
        let config = shared.config();
        lock(&path).clone_from(&config.data_jobs.locations);
        if known.follow(&config.data_jobs, collect, lists.try_recv().ok(), &shared.inputs) {
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

/// The sources of datasets as they were last seen.
#[derive(Default)]
struct Known {
    /// Name of the datum whose values are the reports of caches.
    datum: String,
    caches: Caches,
    file: ListFile,
    is_configured: bool,
    /// Time of the first look, whether the list was read, and whether a source was still missing.
    since: Option<Instant>,
    is_read: bool,
    unread: bool,
    published: Option<Instant>,
}

impl Known {
    /// Looks at the sources; returns whether something changed and a job names a dataset.
    fn follow(
        &mut self,
        config: &DataJobsConfig,
        collect: &Collect,
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
        if self.datum != config.caches {
            self.datum.clone_from(&config.caches);
            self.caches = Caches::default();
            changed = true;
        }
        if self.datum != NONE {
            let caches = &self.caches;
            let reports = collect.texts(&self.datum, &|node| caches.known(node), Now::read());
            changed |= self.caches.take(reports);
            self.publish(collect, inputs);
        }
        let early = since.elapsed() < Duration::from_millis(config.wait_ms.into());
        let unread = early
            && (!self.is_read && !config.locations.is_empty()
                || self.datum != NONE && self.caches.nodes().0 == 0);
        changed |= unread != std::mem::replace(&mut self.unread, unread);
        if !changed {
            return false;
        }
        let held = self.caches.of();
        let (nodes, nodes_wrong) = self.caches.nodes();
        let counts = DatasetsStatus {
            listed: self.file.list.of.len() as u64,
            list_error: self.file.error.clone(),
            cached: held.values().filter(|held| !held.on.is_empty()).count() as u64,
            nodes: nodes as u64,
            nodes_wrong: nodes_wrong as u64,
            arrivals: self.caches.counts.arrivals,
            evictions: self.caches.counts.evictions,
            ..DatasetsStatus::default()
        };
        let datasets = Datasets {
            list: Arc::clone(&self.file.list),
            list_error: self.file.error.clone(),
            held: held.clone(),
            unconfigured: !is_configured,
            unread,
        };
        inputs.set_datasets(datasets, counts)
    }

    /// Stores evictions and misses by node in the data service.
    fn publish(&mut self, collect: &Collect, inputs: &DataInputs) {
        if self.published.is_some_and(|at| at.elapsed() < PUBLISH_EVERY) {
            return;
        }
        self.published = Some(Instant::now());
        let starts = inputs.dataset_starts();
        let mut values = Vec::new();
        let mut add = |what: &str, by_node: &BTreeMap<Arc<str>, u64>| {
            let name = format!("{}.{what}", self.datum);
            let nodes = by_node.iter().filter(|_| valid_name(&name));
            values.extend(nodes.map(|(node, count)| Put {
                name: name.clone(),
                node: Some(node.to_string()),
                value: (*count).into(),
                ..Put::default()
            }));
        };
        add("evictions", &self.caches.counts.evicted_from);
        add("misses", &starts.missed_on);
        if !values.is_empty() {
            collect.store(&values, Sender::Admin, Now::read());
        }
    }
}
